#!/usr/bin/env bash
# Checks that our stores and sqlx build into one program. Only one crate of a program may link
# SQLite, and sqlx names its own even for PostgreSQL alone. That is why the store accepts a range
# of rusqlite's versions. It also checks that our adapter accepts a transaction of sqlx.
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
    # Reuses the workspace's builds of dependencies where the versions are the same.
    cp Cargo.lock "$folder"
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} \
        cargo check --quiet --manifest-path "$folder/Cargo.toml" ||
        die "a transaction of sqlx $version is not what the adapter for it takes"
    say "takes a transaction of sqlx $version"
}

# Writes an empty crate with the given dependencies.
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
