#!/usr/bin/env bash
# Runs the commands of the Dockerfile's first stage, and runs the result as the second stage would:
# in its own root folder, as an unprivileged user. It needs no Docker. It also checks the systemd
# unit.
#
#   ./scripts/image.sh                    with the profile dev, of which the tests have built most
#   PROFILE=release ./scripts/image.sh    as the image has it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

export PROFILE=${PROFILE:-dev}
seconds_max=30
account=65532
folder=
inside=()
serving=

main() {
    require_rust
    trap 'end_serving; rm -rf "$folder"' EXIT
    folder=$(mktemp -d "${TMPDIR:-/tmp}/outlast-image.XXXXXX")
    # The unprivileged user must be able to enter the folder.
    chmod 755 "$folder"
    every_copy_has_a_source
    first_stage
    second_stage
    the_unit_is_sound
}

every_copy_has_a_source() {
    local source
    while read -r source; do
        [ -e "$source" ] || die "the Dockerfile copies $source, which is not there"
    done < <(awk '$1 == "COPY" && $2 !~ /^--/ { for (n = 2; n < NF; n++) print $n }' Dockerfile)
}

# The commands of the first stage, with other output folders.
first_stage() {
    awk '$1 == "FROM" { stage++ } stage == 1' Dockerfile |
        sed -nE "s#^ENV #export #p; s# /(out|root-folder)# $folder/\\1#g; s#^RUN ##p" >"$folder/commands"
    bash -euxo pipefail "$folder/commands" || die "a command of the Dockerfile fails"
}

second_stage() {
    say "the image would have $(du -sh "$folder/root-folder" | cut -f1):" \
        "$(cd "$folder/root-folder" && find . -type f -printf '%P ' | sort)"
    if [ "$(id -u)" -ne 0 ]; then
        say "SKIPPED: only root can make a folder the root of a process, so the image was not run"
        return
    fi
    local secret address tokens
    tokens=$(sed -n 's/^ENV OUTLAST_TOKENS=//p' Dockerfile)
    # Each command replaces itself by the next, so that the process id is the program's in the end.
    inside=(env OUTLAST_DATABASE=/tmp/shop.db "OUTLAST_TOKENS=$tokens"
        chroot "--userspec=$account:$account" "$folder/root-folder" /outlast)
    "${inside[@]}" migrate >/dev/null 2>&1 || die "the program does not run in a root folder of its own"
    "${inside[@]}" token you --role read 2>/dev/null >"$folder/token"
    secret=$(head -n 1 "$folder/token")
    mkdir -p "$folder/root-folder$(dirname "$tokens")"
    tail -n 1 "$folder/token" >"$folder/root-folder$tokens"
    start_serving
    address=$(timeout "$seconds_max" head -n 1 "$folder/said") || die "it does not say where it listens"
    address=${address#http://}
    [[ $(ask "$address" /readyz) == "HTTP/1.1 200"* ]] || die "it is not ready"
    [[ $(ask "$address" /v1/instances) == "HTTP/1.1 401"* ]] || die "it lets in who has no token"
    [[ $(ask "$address" /v1/instances "$secret") == "HTTP/1.1 200"* ]] || die "it does not let in who has a token"
    kill -TERM "$serving"
    wait "$serving" || die "it does not stop in order"
    serving=
    say "the image runs as an account without rights, in a folder with nothing else"
}

# As the Dockerfile starts it, except for the port.
start_serving() {
    local command
    mkfifo "$folder/said"
    mapfile -t command < <(sed -n 's/^CMD //p' Dockerfile | tr -d '[]",' | tr ' ' '\n')
    "${inside[@]}" "${command[@]}" --port 0 >"$folder/said" 2>/dev/null &
    serving=$!
}

ask() {
    local host=${1%%:*} port=${1##*:} connection
    port=${port%/}
    exec {connection}<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET %s HTTP/1.1\r\nhost: %s\r\nauthorization: Bearer %s\r\nconnection: close\r\n\r\n' \
        "$2" "$host" "${3:-nobody}" >&"$connection"
    timeout "$seconds_max" cat <&"$connection"
    exec {connection}>&-
}

end_serving() {
    [ -z "$serving" ] || kill -KILL "$serving" 2>/dev/null || true
}

the_unit_is_sound() {
    local said
    if ! command -v systemd-analyze >/dev/null; then
        say "SKIPPED: there is no systemd-analyze, so the unit was not looked at"
        return
    fi
    # With the current path of the program, because systemd looks for it.
    sed "s#/usr/local/bin/outlast#$folder/out/bin/outlast#" deploy/systemd/outlast-serve.service >"$folder/outlast-serve.service"
    said=$(systemd-analyze verify --man=no "$folder/outlast-serve.service" 2>&1) || die "$said"
    # Messages about other units of this machine are ignored.
    ! grep -F outlast-serve <<<"$said" >&2 || die "systemd finds fault with the unit"
    say "systemd finds no fault with the unit"
}

main
