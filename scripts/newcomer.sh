#!/usr/bin/env bash
# Follows the README literally: makes a crate outside the workspace, adds the dependencies, pastes
# the machine, and replays the transcript in which it is killed and continues. Then it changes the
# one line for PostgreSQL, and replays it again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh
. scripts/postgres.sh

# Longer than anything here takes after the build.
seconds_max=60
repository=$PWD
folder=
shell_pid=

main() {
    require_rust
    remove_all_at_the_end
    folder=$(mktemp -d "${TMPDIR:-/tmp}/outlast-newcomer.XXXXXX")
    share_what_is_built
    set_up
    # The build is not part of the transcript, and takes longer than any of its lines.
    cargo_build
    replay "on SQLite"
    # A private server: the reader's database contains nothing else.
    start_postgres
    change_the_line
    cargo_build
    replay "on PostgreSQL"
}

remove_all_at_the_end() {
    trap 'trap "" INT TERM HUP; end_the_shell; stop_postgres; rm -rf "$folder"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

# Reuses the workspace's builds of dependencies where versions and settings are the same.
share_what_is_built() {
    export CARGO_TARGET_DIR
    CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
    mkdir "$folder/.cargo"
    awk '/^\[profile/ { inside = 1 } inside' Cargo.toml >"$folder/.cargo/config.toml"
    ln -s "$repository" "$folder/outlast"
}

# Runs the commands of the README in its reader's folder.
set_up() {
    fenced "A machine" sh >"$folder/commands"
    # Offline, so that the versions are those already fetched for the workspace.
    (cd "$folder" && CARGO_NET_OFFLINE=true CARGO_TERM_QUIET=true bash -euo pipefail commands) ||
        die "the README's commands fail"
    cp Cargo.lock "$folder/shop"
    fenced "A machine" rust,no_run >"$folder/shop/src/main.rs"
}

change_the_line() {
    local before after
    before=$(fenced "On PostgreSQL" diff | sed -n 's/^-//p')
    after=$(fenced "On PostgreSQL" diff | sed -n 's/^+//p')
    [ "$(grep -cFx -- "$before" "$folder/shop/src/main.rs")" = 1 ] || die "the README changes a line that it does not have"
    after=${after/postgres:\/\/shop@localhost\/shop/$OUTLAST_TEST_POSTGRES_URL}
    awk -v before="$before" -v after="$after" '{ print $0 == before ? after : $0 }' "$folder/shop/src/main.rs" >"$folder/main.rs"
    mv "$folder/main.rs" "$folder/shop/src/main.rs"
    grep -qF 'cargo add outlast --features postgres' README.md || die "the README does not say how PostgreSQL is added"
    (cd "$folder/shop" && cargo add --quiet --offline outlast --path ../outlast/crates/outlast --features postgres)
}

cargo_build() {
    (cd "$folder/shop" && cargo build --quiet) || die "the program of the README does not build outside the workspace"
}

# Types the commands of the transcript's prompts into a shell, each after all output before it, and
# expects the rest of the transcript line by line.
replay() {
    local line came
    # In its own process group, so that its processes can be ended with it.
    coproc shell { cd "$folder/shop" && exec setsid bash --norc --noprofile 2>&1; }
    # shellcheck disable=SC2154 # bash sets it
    shell_pid=$shell_PID
    exec {answers}<&"${shell[0]}" {typing}>&"${shell[1]}"
    while IFS= read -r line; do
        case $line in
        '$ '*) printf '%s\n' "${line#\$ }" >&"$typing" ;;
        *)
            came=$(next_line) || die "$1: nothing came in $seconds_max s where the README has: $line"
            [ "$came" = "$line" ] || die "$1: the README has: $line"$'\n'"what came is: $came"
            ;;
        esac
    done < <(fenced "A machine" console)
    echo exit >&"$typing"
    ! came=$(next_line) || die "$1: the README does not have: $came"
    exec {answers}<&- {typing}>&-
    wait "$shell_pid" || die "$1: the last command of the README fails"
    shell_pid=
    say "the README's transcript is what happens $1"
}

# A shell without a terminal itself reports a killed process, once it notices.
next_line() {
    local line
    while IFS= read -r -t "$seconds_max" -u "$answers" line; do
        [[ $line =~ ^bash:\ line\ [0-9]+:\ +[0-9]+\ Killed ]] && continue
        printf '%s\n' "$line"
        return
    done
    return 1
}

# Ends the shell and the processes that it started.
end_the_shell() {
    [ -n "$shell_pid" ] || return 0
    kill -KILL -- "-$shell_pid" 2>/dev/null || true
    shell_pid=
}

# Prints the first block of this language under this heading of the README.
fenced() {
    awk -v heading="## $1" -v fence="\`\`\`$2" '
        /^## / { here = $0 == heading }
        inside && /^```$/ { exit }
        inside
        here && $0 == fence { inside = 1 }' README.md
}

main
