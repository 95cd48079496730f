#!/usr/bin/env bash
# Makes the packages for publication and checks them: each has its licences, a README and no
# unexpected file, and compiles from its content with all features. Nothing is uploaded.
#
#   ./scripts/package.sh
#
# The packages are in target/package. They are checked together, side by side
# (docs/decisions/0030).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

# In the order of their dependencies.
crates=(outlast-core outlast-conformance outlast-sqlite outlast-postgres outlast-macros outlast outlast-http outlast-cli)
# A larger package is a mistake.
kilobytes_max=300
folder=

main() {
    require_rust
    export CARGO_TARGET_DIR
    CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
    trap 'rm -rf "$folder"' EXIT
    folder=$(mktemp -d "${TMPDIR:-/tmp}/outlast-packages.XXXXXX")
    every_crate_is_published_or_says_not
    make_packages
    local crate
    for crate in "${crates[@]}"; do
        unpack "$crate"
        look_into "$crate"
    done
    compile
    say "${#crates[@]} packages compile from what is in them"
}

every_crate_is_published_or_says_not() {
    local manifest name
    for manifest in crates/*/Cargo.toml testing/*/Cargo.toml examples/Cargo.toml bench/Cargo.toml; do
        name=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$manifest" | head -n 1)
        if grep -qx 'publish = false' "$manifest"; then
            [[ " ${crates[*]} " != *" $name "* ]] || die "$manifest says publish = false"
        else
            [[ " ${crates[*]} " == *" $name "* ]] || die "$manifest does not say publish = false, and $0 does not make it"
        fi
    done
}

make_packages() {
    local said warnings
    said=$(cargo package --locked --allow-dirty --no-verify "${crates[@]/#/--package=}" 2>&1) ||
        die "a package cannot be made:"$'\n'"$said"
    # Expected warnings: there is no homepage yet, and tests are excluded.
    warnings=$(grep '^warning' <<<"$said" |
        grep -vE '(manifest has no documentation, homepage or repository|ignoring (test|example) .*)' || true)
    [ -z "$warnings" ] || die "cargo warns:"$'\n'"$warnings"
}

unpack() {
    local package
    package=$CARGO_TARGET_DIR/package/$1-$(version).crate
    [ "$(stat -c %s "$package")" -le $((kilobytes_max * 1024)) ] || die "the package of $1 is larger than $kilobytes_max KiB"
    mkdir "$folder/$1"
    tar -xzf "$package" -C "$folder/$1" --strip-components=1
}

version() {
    sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1
}

look_into() {
    local file odd
    [ -s "$folder/$1/README.md" ] || die "the package of $1 has no README.md"
    for file in LICENSE-APACHE LICENSE-MIT; do
        cmp -s "$file" "$folder/$1/$file" || die "the package of $1 does not have the repository's $file"
    done
    odd=$(cd "$folder/$1" && find . -type f -printf '%P\n' | grep -vE \
        '^(Cargo\.(toml|toml\.orig|lock)|\.cargo_vcs_info\.json|LICENSE-(APACHE|MIT)|README\.md|build\.rs|(src|examples)/.*\.rs|(sql|migrations)/.*\.(sql|md)|ui/.*\.(html|css|js|svg|md|woff2|json|png|ico))$') || true
    [ -z "$odd" ] || die "the package of $1 has what nobody would expect:"$'\n'"$odd"
    # Files embedded by a list made at build time could be missing without an error.
    for file in sql migrations ui; do
        [ ! -d "crates/$1/$file" ] || diff -rq "crates/$1/$file" "$folder/$1/$file" >&2 || die "the package of $1 lacks some of its $file"
    done
}

# Compiles them as one workspace with our versions and profile, so that builds of dependencies are
# reused.
compile() {
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["*"]\nexclude = ["target"]\n\n[patch.crates-io]\n'
        local crate
        for crate in "${crates[@]}"; do
            printf '%s = { path = "%s" }\n' "$crate" "$crate"
        done
        echo
        awk '/^\[profile/ { inside = 1 } inside' Cargo.toml
    } >"$folder/Cargo.toml"
    cp Cargo.lock "$folder"
    cargo check --quiet --workspace --all-features --manifest-path "$folder/Cargo.toml" ||
        die "the packages do not compile from what is in them"
}

main
