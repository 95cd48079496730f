#!/usr/bin/env bash
# Checks the dependencies (deny.toml): their licences, banned crates, their sources, and security
# advisories where the advisory database is reachable. It also checks that no crate of ours may use
# unsafe code.
#
#   ./scripts/deny.sh
#
# OUTLAST_ADVISORIES=required   fail if the advisory database is unreachable, instead of a warning
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

deny_version=0.20.2
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools

main() {
    check_lints
    require_rust
    require_cargo_deny
    # cargo-deny prints a long dependency graph for each finding: one level is enough to begin
    # with.
    cargo deny --locked check --hide-inclusion-graph licenses bans sources
    check_advisories
}

# A crate must opt in to inherit the workspace's lints, so a new crate could forget to.
check_lints() {
    grep -qx 'unsafe_code = "forbid"' Cargo.toml ||
        die 'Cargo.toml does not forbid unsafe code: [workspace.lints.rust] needs unsafe_code = "forbid"'
    local manifest
    for manifest in crates/*/Cargo.toml testing/*/Cargo.toml examples/Cargo.toml bench/Cargo.toml bench/peers/*/Cargo.toml; do
        forbids_unsafe "$manifest" ||
            die "$manifest does not forbid unsafe code: give it [lints] workspace = true, or a lint of its own"
    done
    say "unsafe code is forbidden in every crate"
}

forbids_unsafe() {
    awk '/^\[/ { part = $0 }
         part == "[lints]" && $0 == "workspace = true" { forbidden = 1 }
         part == "[lints.rust]" && $0 == "unsafe_code = \"forbid\"" { forbidden = 1 }
         END { exit !forbidden }' "$1"
}

# No distribution has a version that supports the current cargo, so it is built once into the
# target folder. Without optimisation: the build is faster than the runs are slow.
require_cargo_deny() {
    PATH=$PATH:$tools/bin
    if cargo deny --version >/dev/null 2>&1; then
        return
    fi
    say "building cargo-deny $deny_version"
    env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
        cargo install --quiet --locked --debug --root "$tools" "cargo-deny@$deny_version" ||
        die "cargo-deny could not be built: cargo install --locked cargo-deny, then run this again"
}

# Two steps, so that an unreachable database and a finding are never confused.
check_advisories() {
    local said
    if said=$(timeout 120 cargo deny fetch db 2>&1); then
        cargo deny --offline check --hide-inclusion-graph advisories
    elif [ "${OUTLAST_ADVISORIES:-}" = required ]; then
        die "the database of advisories could not be reached: $said"
    else
        say "SKIPPED: advisories were not checked, since their database could not be reached:"
        sed 's/^/    /' <<<"$said" >&2
    fi
}

main
