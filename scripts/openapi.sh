#!/usr/bin/env bash
# Checks the OpenAPI document as programs use it: it is valid, and generated clients in Python and
# TypeScript insert, signal and wait. They run against `outlast serve` beside a worker on SQLite.
#
#   ./scripts/openapi.sh
#
# The programs are in scripts/clients. Installed and generated files are in a temporary folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/machine.sh

# Longer than a start takes on a busy machine.
seconds_max=60
folder=
worker=
server=

main() {
    require_rust
    require_python
    require_node
    remove_all_at_the_end
    folder=$(mktemp -d "${TMPDIR:-/tmp}/outlast-openapi.XXXXXX")
    cp scripts/clients/* "$folder"
    cargo build --quiet --workspace --all-features --bin outlast
    start_servers
    curl -fsS "$address/v1/openapi.json" -o "$folder/openapi.json" || die "the document cannot be fetched"
    in_python
    in_typescript
    say "the document is valid, and clients in Python and TypeScript insert, signal and wait"
}

require_python() {
    if ! python3 -m pip --version >/dev/null 2>&1; then
        apt_install python3-pip ||
            die "python3 with pip is needed: install it, on Debian as root: apt-get install python3-pip"
    fi
    command -v curl >/dev/null || apt_install curl || die "curl is needed: install it"
}

require_node() {
    if ! command -v npm >/dev/null; then
        apt_install nodejs npm || die "npm is needed: install it, on Debian as root: apt-get install nodejs npm"
    fi
}

remove_all_at_the_end() {
    trap 'trap "" INT TERM HUP; end_servers; rm -rf "$folder"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

# The demo is the worker; another process serves the API with a token, as in production.
start_servers() {
    local outlast=${CARGO_TARGET_DIR:-target}/debug/outlast token_line
    "$outlast" demo --folder "$folder/demo" --port 0 >"$folder/worker.log" 2>&1 &
    worker=$!
    wait_for_line "$folder/worker.log" "http://" >/dev/null
    "$outlast" token --role signal clients >"$folder/token" 2>/dev/null
    token=$(grep -o 'outlast_[A-Za-z0-9_-]*' "$folder/token" | head -1)
    token_line=$(grep -v 'outlast_' "$folder/token" | grep . || true)
    printf '%s\n' "$token_line" >"$folder/tokens"
    "$outlast" serve --database "$folder/demo/demo.db" --port 0 --tokens "$folder/tokens" >"$folder/server.log" 2>&1 &
    server=$!
    address=$(wait_for_line "$folder/server.log" "http://" | grep -oE 'http://[0-9.:]+')
}

# Waits for the first line of a log with this text, and prints it.
wait_for_line() {
    local tenths
    for ((tenths = 0; tenths < seconds_max * 10; tenths++)); do
        if grep -m 1 -F "$2" "$1"; then
            return
        fi
        sleep 0.1
    done
    cat "$1" >&2
    die "a server did not start in $seconds_max s"
}

in_python() {
    python3 -m pip install --quiet --no-compile --disable-pip-version-check --root-user-action ignore \
        --target "$folder/python" -r "$folder/requirements.txt"
    # The generator formats its output with a program beside it.
    export PATH=$folder/python/bin:$PATH PYTHONPATH=$folder/python
    openapi-spec-validator "$folder/openapi.json" || die "the document is not valid"
    openapi-python-client generate --path "$folder/openapi.json" --meta none --fail-on-warning \
        --output-path "$folder/outlast_client" >"$folder/python.log" 2>&1 || {
        cat "$folder/python.log" >&2
        die "no Python client can be generated"
    }
    (cd "$folder" && python3 checkout.py "$address" "$token") || die "the Python client fails"
}

in_typescript() {
    (
        cd "$folder"
        npm install --silent --no-audit --no-fund --ignore-scripts
        npx openapi-typescript openapi.json --output schema.d.ts >"$folder/typescript.log" 2>&1 || {
            cat "$folder/typescript.log" >&2
            die "no TypeScript client can be generated"
        }
        npx tsc --project . || die "the TypeScript program does not fit the client"
        node built/checkout.js "$address" "$token" || die "the TypeScript client fails"
    )
}

end_servers() {
    local each
    for each in $server $worker; do
        kill "$each" 2>/dev/null || true
        wait "$each" 2>/dev/null || true
    done
}

main
