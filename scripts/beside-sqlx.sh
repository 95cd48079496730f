#!/usr/bin/env bash
# Shows that users can have our stores and sqlx in one program: only one crate of a program may link
# SQLite, and sqlx names its own even when only PostgreSQL is asked for. That is why the store takes a
# range of rusqlite's versions.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

main() {
    require_rust
    local folder
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder's name is known now, and not any more at the end
    trap "rm -rf '$folder'" EXIT
    for version in 0.8 0.9; do
        for features in postgres 'postgres", "sqlite'; do
            resolve "$folder" "$version" "$features"
        done
    done
}

resolve() {
    local folder=$1 version=$2 features=$3
    mkdir -p "$folder/src"
    : >"$folder/src/lib.rs"
    rm -f "$folder/Cargo.lock"
    cat >"$folder/Cargo.toml" <<TOML
[package]
name = "beside"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
outlast-sqlite = { path = "$PWD/crates/outlast-sqlite" }
outlast-postgres = { path = "$PWD/crates/outlast-postgres" }
sqlx = { version = "$version", default-features = false, features = ["$features"] }
TOML
    cargo generate-lockfile --quiet --manifest-path "$folder/Cargo.toml" ||
        die "the stores do not resolve beside sqlx $version with \"$features\"; widen rusqlite's range in Cargo.toml"
    say "resolves beside sqlx $version with \"$features\""
}

main
