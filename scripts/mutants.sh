#!/usr/bin/env bash
# Reintroduces known defects, one at a time, and expects the tests to find each. Prints a table of
# the defects, the tests that found them and the times. Fails when a defect survives, or when its
# code never ran.
#
#   ./scripts/mutants.sh                     all of them
#   ./scripts/mutants.sh park-does-not-lock  these
#
# scripts/mutants.toml lists the defects and the tests that must find them. Everything is built
# once, with the cfg outlast_mutants and in its own target folder; OUTLAST_MUTANT selects the
# defect when a test starts.
#
# OUTLAST_TEST_POSTGRES_URL   a server to use instead of starting one
# OUTLAST_PG_BIN              the folder of the PostgreSQL programs to start
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh
. scripts/postgres.sh

list=scripts/mutants.toml
packages=(outlast-core outlast-postgres outlast-sqlite outlast)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/mutants"
# The tests have their own timeouts; this one is for a test that hangs because of the defect.
seconds_max=120

# Parallel arrays: one entry per mutant and check.
names=() defects=() places=() whats=() checks=() signs=()
# The test programs, by "package target".
declare -A programs
survivors=()

main() {
    require_rust
    read_list
    every_name_is_known
    choose "$@"
    build
    require_postgres
    folder=$(cd "$CARGO_TARGET_DIR" && pwd)
    baseline
    printf '| mutant | # | in | what is wrong | caught by | s |\n|---|---|---|---|---|---|\n'
    local n
    for n in "${!names[@]}"; do
        try "$n"
    done
    [ ${#survivors[@]} -eq 0 ] || die "not caught: $(printf '%s\n' "${survivors[@]}" | paste -sd ,); why is above"
    say "${#names[@]} of ${#names[@]} caught"
}

read_list() {
    local line key value n=-1
    while IFS= read -r line; do
        case $line in
        '[[mutant]]') n=$((n + 1)) ;;
        *' = '*)
            key=${line%% = *} value=${line#* = }
            value=${value#[\"\']} value=${value%[\"\']}
            case $key in
            name) names[n]=$value ;;
            defect) defects[n]=$value ;;
            in) places[n]=$value ;;
            what) whats[n]=$value ;;
            check) checks[n]=$value ;;
            shows) signs[n]=$value ;;
            *) die "$list: what is $key?" ;;
            esac
            ;;
        '' | '#'*) ;;
        *) die "$list: what is this: $line" ;;
        esac
    done <"$list"
}

# A mutant missing from the list is never tried, and one missing from the code is never reached.
every_name_is_known() {
    local different
    different=$(comm -3 <(printf '%s\n' "${names[@]}" | sort -u) <(names_in_the_code | sort -u))
    [ -z "$different" ] || die "these are not both in the code and in $list:"$'\n'"$different"
}

names_in_the_code() {
    grep -rhoE 'mutant::is\("[a-z-]+"\)' crates testing --include='*.rs' | cut -d'"' -f2
    grep -hoE '^    \("[a-z-]+", ' crates/*/src/mutants.rs crates/*/src/mutants/edits.rs | cut -d'"' -f2
}

# Keeps the entries of these names, or all of them.
choose() {
    [ $# -gt 0 ] || return 0
    local n name
    for name in "$@"; do
        [[ " ${names[*]} " == *" $name "* ]] || die "there is no mutant $name; $list has them all"
    done
    for n in "${!names[@]}"; do
        [[ " $* " == *" ${names[n]} "* ]] || unset "names[$n]"
    done
}

build() {
    local package target program targets
    say "building"
    mapfile -t targets < <(printf '%s\n' "${checks[@]}" | awk '$1 != "outlast-torture" && $2 != "lib" { print $2 }' | sort -u)
    export RUSTFLAGS="${RUSTFLAGS:-} --cfg outlast_mutants"
    while read -r package target program; do
        programs["$package $target"]=$program
    done < <(cargo test --quiet --no-run --all-features \
        "${packages[@]/#/--package=}" --lib "${targets[@]/#/--test=}" --message-format=json-render-diagnostics | test_programs)
    [ ${#programs[@]} -gt 0 ] || die "nothing was built"
    if [[ "${checks[*]}" == *outlast-torture* ]]; then
        cargo build --quiet --package outlast-torture
    fi
}

# Prints the tests that cargo has built: package, target ("lib" for unit tests), path.
test_programs() {
    # The test crates lie in testing/ without the first part of their names.
    sed -nE '/"executable":"/{
        s/(\/testing\/)([a-z-]+)#/\1outlast-\2#/
        s/.*"package_id":"[^"]*\/([a-z-]+)#[^"]*".*"kind":\["([a-z]+)"\].*"name":"([a-z_-]+)".*"executable":"([^"]+)".*/\1 \2 \3 \4/
        s/^([a-z-]+) lib [a-z_-]+ /\1 lib /
        s/^([a-z-]+) test ([a-z_-]+) /\1 \2 /
        p
    }'
}

# Without a defect every check must exist and pass; a missing check would look like a surviving
# mutant.
baseline() {
    local n program tests output
    for program in $(for n in "${!names[@]}"; do printf '%s\n' "${checks[n]% *}" | tr ' ' :; done | sort -u); do
        program=${program/:/ }
        mapfile -t tests < <(for n in "${!names[@]}"; do
            [ "${checks[n]% *}" != "$program" ] || printf '%s\n' "${checks[n]##* }"
        done | sort -u)
        output=$(run "$program" "${tests[@]}" 2>&1) || die "without a defect, $program fails:"$'\n'"$output"
        is_torture "$program" || grep -qE "^running ${#tests[@]} tests?\$" <<<"$output" ||
            die "$program does not have all of: ${tests[*]}"
        say "$program: ${#tests[@]} pass without a defect"
    done
}

# Runs tests of a program in its crate's folder, as cargo does.
run() {
    local program=$1 path
    shift
    if is_torture "$program"; then
        timeout "$seconds_max" "$CARGO_TARGET_DIR/debug/outlast-torture" "${program#* }" --minutes 0.5 --seed "$1"
        return
    fi
    path=${programs[$program]:-}
    [ -n "$path" ] || die "there is no test program $program"
    (cd "$(folder_of "${program% *}")" && exec timeout "$seconds_max" "$path" --exact "$@")
}

folder_of() {
    if [ -d "crates/$1" ]; then echo "crates/$1"; else echo "testing/${1#outlast-}"; fi
}

# Returns whether a check is a torture scenario with real processes, and not a test.
is_torture() {
    [ "${1% *}" = outlast-torture ]
}

# Expects the check of one entry to fail with the entry's text, after the defect was reached.
try() {
    local n=$1 mark=$folder/reached.txt output=$folder/output.txt begun=$EPOCHREALTIME took code=0
    rm -f "$mark"
    OUTLAST_MUTANT=${names[n]} OUTLAST_MUTANT_REACHED=$mark \
        run "${checks[n]% *}" "${checks[n]##* }" >"$output" 2>&1 || code=$?
    took=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $begun }")
    if [ ! -e "$mark" ]; then
        survives "$n" "its code was not reached"
    elif [ "$code" -eq 0 ]; then
        survives "$n" "the check passes"
    elif ! grep -qF -- "${signs[n]}" "$output"; then
        survives "$n" "the check ends with $code, but nothing says: ${signs[n]}"
    fi
    # shellcheck disable=SC2016 # the backticks are Markdown
    printf '| `%s` | %s | %s | %s | `%s` | %s |\n' \
        "${names[n]}" "${defects[n]}" "${places[n]}" "${whats[n]}" "${checks[n]#* }" "$took"
}

survives() {
    survivors+=("${names[$1]} (${places[$1]})")
    tail -n 40 "$folder/output.txt" >&2
    say "${names[$1]}: $2"
}

main "$@"
