#!/usr/bin/env bash
# Runs the tests, with a private PostgreSQL that is removed afterwards.
#
#   ./scripts/test.sh                       the everyday run: every crate on both stores, in a few minutes
#   ./scripts/test.sh --all                 everything, doctests too
#   ./scripts/test.sh -p outlast-sqlite     one crate, its doctests too
#   ./scripts/test.sh -p outlast-postgres --test conformance
#                                           other arguments of the test runner, without doctests
#
# The test runner is cargo nextest run, or cargo test where nextest is not installed.
#
# OUTLAST_TEST_POSTGRES_URL   a server to use instead of starting one
# OUTLAST_PG_BIN              the folder of the PostgreSQL programs to start
# OUTLAST_TEST_PGBOUNCER      the pgbouncer program, if it is in an unusual place
# OUTLAST_TEST_CHROMIUM       the Chromium program, if it is in an unusual place; none to skip its tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh
. scripts/postgres.sh
. scripts/browser.sh

main() {
    require_rust
    require_postgres
    keep_files_in_memory
    offer_pgbouncer
    offer_patroni
    offer_faketime
    # The everyday run has no tests in a browser.
    [ $# -eq 0 ] || offer_chromium
    run_tests "$@"
    [ $# -gt 0 ] || say "SKIPPED: the dashboard in a browser, and other long tests; --all runs them"
}

# While a disk still writes out a fresh build, fsync takes seconds, longer than the leases in
# tests. So SQLite files and test servers are beside the cluster when that is in memory.
keep_files_in_memory() {
    case $postgres_dir in
    /dev/shm/*)
        chmod 755 "$postgres_dir"
        mkdir -m 1777 "$postgres_dir/tmp" "$postgres_dir/schemas"
        export TMPDIR=$postgres_dir/tmp
        # Tests hand empty schemas on to each other.
        export OUTLAST_TEST_SCHEMAS=$postgres_dir/schemas
        ;;
    esac
}

run_tests() {
    local profile=()
    case ${1:-} in
    '') profile=(--profile everyday) ;;
    --all) shift ;;
    esac
    chooses_packages "$@" || set -- --workspace "$@"
    # Users' drivers are features, and so are their tests.
    set -- --all-features "$@"
    if cargo nextest --version >/dev/null 2>&1; then
        # Most tests wait for a disk, a server or a timer, so there are more threads than cores.
        NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$(($(nproc) * 2))} \
            cargo nextest run "${profile[@]}" "$@"
    elif only_packages "$@"; then
        cargo test --no-fail-fast --all-targets "$@"
    else
        cargo test --no-fail-fast "$@"
    fi
    if [ ${#profile[@]} -eq 0 ] && only_packages "$@" && have_libraries "$@"; then
        cargo test --doc "$@"
    fi
}

# Returns whether the arguments select crates.
chooses_packages() {
    local argument
    for argument in "$@"; do
        case $argument in
        -p* | --package* | --workspace) return 0 ;;
        esac
    done
    return 1
}

# Returns whether the arguments only select crates: then all tests of those crates run.
only_packages() {
    while [ $# -gt 0 ]; do
        case $1 in
        -p | --package) shift ;;
        -p* | --package=* | --workspace | --all-features) ;;
        *) return 1 ;;
        esac
        shift
    done
}

# Returns whether each selected crate has a library: cargo refuses doctests for a crate without
# one.
have_libraries() {
    local argument name folder
    for argument in "$@"; do
        name=${argument#--package=}
        name=${name#-p}
        for folder in "crates/$name" "testing/${name#outlast-}"; do
            [ ! -e "$folder/src/main.rs" ] || [ -e "$folder/src/lib.rs" ] || return 1
        done
    done
}

main "$@"
