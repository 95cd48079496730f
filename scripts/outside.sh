#!/usr/bin/env bash
# Uses Outlast as others may: in a crate of its own, a program whose panics abort is refused with a message that says what
# to change. (The program of the README is scripts/newcomer.sh's.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

folder=

main() {
    require_rust
    # Build scripts and macros, which do not abort, serve here too.
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
    trap 'rm -rf "$folder"' EXIT
    folder=$(mktemp -d)
    mkdir "$folder/src"
    cp Cargo.lock "$folder"
    refuse_aborting_panics
}

refuse_aborting_panics() {
    write_manifest
    cat >"$folder/src/main.rs" <<'RUST'
use outlast::prelude::*;

#[tokio::main]
async fn main() {
    let store = Sqlite::in_memory().unwrap();
    let error = Engine::builder(store).roles(Roles::WEB).start().await.unwrap_err();
    println!("{error}");
}
RUST
    local refusal
    refusal=$(run) || die "a program whose panics abort was not refused"
    [[ $refusal == *'remove it from the profile in Cargo.toml' ]] || die "the refusal does not help: $refusal"
    say "a program whose panics abort is refused"
}

write_manifest() {
    cat >"$folder/Cargo.toml" <<TOML
[package]
name = "outside"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
outlast = { path = "$PWD/crates/outlast" }
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

# Everything is built again, since panics are another thing for all of it: as quickly as can be.
[profile.dev]
panic = "abort"
debug = false
TOML
}

run() {
    cargo run --quiet --manifest-path "$folder/Cargo.toml"
}

main
