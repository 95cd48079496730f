#!/usr/bin/env bash
# Shows that users can have our stores and sqlx in one program: only one crate of a program may link
# SQLite, and sqlx names its own even when only PostgreSQL is asked for. That is why the store takes a
# range of rusqlite's versions. And that a transaction of sqlx is what our adapter for it takes.
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
        compile "$folder" "$version"
    done
}

resolve() {
    local folder=$1 version=$2 features=$3
    write_crate "$folder" <<TOML
outlast-sqlite = { path = "$PWD/crates/outlast-sqlite" }
outlast-postgres = { path = "$PWD/crates/outlast-postgres", features = ["sqlx-${version/./_}"] }
sqlx = { version = "$version", default-features = false, features = ["$features"] }
TOML
    cargo generate-lockfile --quiet --manifest-path "$folder/Cargo.toml" ||
        die "the stores do not resolve beside sqlx $version with \"$features\"; widen rusqlite's range in Cargo.toml"
    say "resolves beside sqlx $version with \"$features\""
}

compile() {
    local folder=$1 version=$2 module=sqlx_${2/./_}
    write_crate "$folder" <<TOML
outlast-core = { path = "$PWD/crates/outlast-core" }
outlast-postgres = { path = "$PWD/crates/outlast-postgres", features = ["sqlx-${version/./_}"] }
sqlx = { version = "$version", default-features = false, features = ["postgres", "runtime-tokio"] }
TOML
    cat >"$folder/src/lib.rs" <<RUST
use outlast_core::{Error, Inserted, NewInstance};
use outlast_postgres::transaction::{$module, Schema};

pub async fn insert(
    tx: &mut sqlx::Transaction<'_, sqlx::Postgres>,
    new: NewInstance,
) -> Result<Inserted, Error> {
    $module::insert(tx, &Schema::default(), new).await
}
RUST
    # What the workspace has built of other people's crates serves here too, where it is the same versions.
    cp Cargo.lock "$folder"
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} \
        cargo check --quiet --manifest-path "$folder/Cargo.toml" ||
        die "a transaction of sqlx $version is not what the adapter for it takes"
    say "takes a transaction of sqlx $version"
}

# A crate with the dependencies that are given to it, and nothing in it.
write_crate() {
    local folder=$1
    mkdir -p "$folder/src"
    : >"$folder/src/lib.rs"
    rm -f "$folder/Cargo.lock"
    {
        cat <<TOML
[package]
name = "beside"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
TOML
        cat
    } >"$folder/Cargo.toml"
}

main
