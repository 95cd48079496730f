#!/usr/bin/env bash
# Tortures the engine for an hour, every scenario in turn, and prints the results.
#
#   ./scripts/torture.sh              an hour of faults
#   ./scripts/torture.sh 10           the same in ten minutes
#   ./scripts/torture.sh 10 7         and with another seed
#
# Every report is a line of JSON in target/torture. Fails when an invariant was violated.
# A soak takes longer than all of them: cargo run --release -p outlast-torture -- soak --minutes 60
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh
. scripts/postgres.sh

minutes=${1:-60}
seed=${2:-1}
torture=${CARGO_TARGET_DIR:-target}/release/outlast-torture
reports=${CARGO_TARGET_DIR:-target}/torture/reports.jsonl
failed=()

# Scenario, store, and its share of an hour in minutes.
scenarios="
kill postgres 7
families postgres 4
flows postgres 4
freeze postgres 7
postgres postgres 6
cut postgres 5
failover postgres 4
failover-async postgres 2
patroni postgres 2
pooler postgres 3
clock postgres 2
poison postgres 2
disk postgres 2
kill sqlite 2
families sqlite 2
flows sqlite 1
freeze sqlite 1
sqlite sqlite 2
disk sqlite 1
poison sqlite 1
"

main() {
    local scenario store share
    require_rust
    find_postgres >/dev/null
    offer_pgbouncer
    offer_patroni
    offer_faketime
    cargo build --release --quiet -p outlast-torture
    mkdir -p "$(dirname "$reports")"
    : >"$reports"
    while read -r scenario store share; do
        [ -z "$scenario" ] || run "$scenario" "$store" "$share"
    done <<<"$scenarios"
    say "the reports are in $reports"
    [ ${#failed[@]} -eq 0 ] || die "failed: $(printf '%s\n' "${failed[@]}" | paste -sd ,)"
}

run() {
    local share
    share=$(awk -v share="$3" -v minutes="$minutes" 'BEGIN { print share * minutes / 60 }')
    say "$1 on $2, $share minutes, seed $seed"
    "$torture" "$1" --store "$2" --minutes "$share" --seed "$seed" --json </dev/null >>"$reports" ||
        failed+=("$1 on $2")
}

main
