#!/usr/bin/env bash
# Uses Outlast as others do: in crates of their own, outside the workspace. The program of the README runs as it
# is printed, and a program whose panics abort is refused with a message that says what to change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

folder=

main() {
    require_rust
    # What the workspace has built of other people's crates serves here too.
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
    trap 'rm -rf "$folder"' EXIT
    folder=$(mktemp -d)
    mkdir "$folder/src"
    cp Cargo.lock "$folder"
    run_the_readme
    refuse_aborting_panics
}

run_the_readme() {
    write_manifest ', features = ["postgres"]' "$(profile)"
    # The first Rust program in it.
    awk '/^```rust$/ { inside = 1; next } /^```$/ && inside { exit } inside' README.md >"$folder/src/main.rs"
    run || die "the program of the README does not run outside the workspace"
    say "the program of the README runs outside the workspace"
}

refuse_aborting_panics() {
    write_manifest '' "$(profile | sed '/^\[profile.dev\]$/a panic = "abort"')"
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
outlast = { path = "$PWD/crates/outlast"$1 }
serde = "1"
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }

$2
TOML
}

# The workspace's, or everything would be built again.
profile() {
    awk '/^\[profile/ { inside = 1 } inside' Cargo.toml
}

run() {
    cargo run --quiet --manifest-path "$folder/Cargo.toml"
}

main
