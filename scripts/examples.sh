#!/usr/bin/env bash
# Runs every example, on SQLite and on a private PostgreSQL that is removed afterwards. Each
# example checks its own results and ends by itself.
#
#   ./scripts/examples.sh                 all of them
#   ./scripts/examples.sh checkout kill   these
#
# OUTLAST_TEST_POSTGRES_URL   a server to use instead of starting one
# OUTLAST_PG_BIN              the folder of the PostgreSQL programs to start
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh
. scripts/postgres.sh

seconds_max=120
failed=()

main() {
    local examples=("$@") example
    [ $# -gt 0 ] || mapfile -t examples < <(every_example)
    require_rust
    # Builds the whole workspace, as for the tests: alone, the crates below would be built again
    # with fewer features.
    cargo build --quiet --workspace --all-features --all-targets
    require_postgres
    for example in "${examples[@]}"; do
        OUTLAST_DATABASE_URL='' run "$example" "on SQLite"
        OUTLAST_DATABASE_URL=$OUTLAST_TEST_POSTGRES_URL run "$example" "on PostgreSQL"
    done
    [ ${#failed[@]} -eq 0 ] || die "failed: $(printf '%s\n' "${failed[@]}" | paste -sd ,); what they said is above"
}

every_example() {
    basename --suffix=.rs examples/src/bin/*.rs
}

# The output of an example matters only when it fails.
run() {
    local output seconds=$SECONDS
    if output=$(timeout "$seconds_max" "${CARGO_TARGET_DIR:-target}/debug/$1" 2>&1); then
        say "$1 $2: $((SECONDS - seconds)) s"
    else
        failed+=("$1 $2")
        printf '%s\n' "$output" >&2
        say "$1 $2 failed"
    fi
}

main "$@"
