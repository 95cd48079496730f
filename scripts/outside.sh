#!/usr/bin/env bash
# Uses Outlast in a crate outside the workspace: a program whose panics abort is refused with a
# message that says what to change. (scripts/newcomer.sh runs the program of the README.)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

folder=

main() {
    require_rust
    # Reuses the builds of build scripts and macros, which do not abort.
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
use outlast::Roles;
use outlast::prelude::*;

#[tokio::main]
async fn main() -> outlast::Result<()> {
    let error = Engine::sqlite_in_memory()?.roles(Roles::WEB).start().await.unwrap_err();
    println!("{error}");
    Ok(())
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

# The panic strategy differs, so everything is built again: as fast as possible.
[profile.dev]
panic = "abort"
debug = false
TOML
}

run() {
    cargo run --quiet --manifest-path "$folder/Cargo.toml"
}

main
