# shellcheck shell=bash
# What the scripts need from the machine. Sourced, never run.
#
#   require_rust         checks for cargo and a C compiler, or ends with a message
#   apt_install PKG...   installs Debian packages, without starting their servers
#   say, die             print to stderr, so that stdout is the test runner's alone

require_rust() {
    command -v cargo >/dev/null ||
        die "cargo is not on PATH: install the stable Rust toolchain (rustup does it), then run this again"
    # Rust links with cc, and SQLite is built from its C source.
    if ! command -v cc >/dev/null; then
        apt_install gcc libc6-dev ||
            die "no C compiler (cc): install one, on Debian as root: apt-get install gcc libc6-dev"
    fi
}

apt_install() {
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        return 1
    fi
    say "installing $* with apt-get"
    (
        trap allow_servers EXIT
        forbid_servers &&
            apt-get update -qq &&
            apt-get install -y -qq --no-install-recommends \
                -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
    ) >&2 </dev/null
}

# A package with a server would start it at once: we want the programs, not another server on its
# usual port. The packages' own scripts read both files; existing content of the machine's owner
# stays.
policy_file=/usr/sbin/policy-rc.d
cluster_file=/etc/postgresql-common/createcluster.d/outlast-tests.conf

forbid_servers() {
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p "$(dirname "$cluster_file")" && echo 'create_main_cluster = false' >"$cluster_file"
    if [ ! -e "$policy_file" ]; then
        printf '#!/bin/sh\n# outlast-tests\nexit 101\n' >"$policy_file" && chmod 755 "$policy_file"
    fi
}

allow_servers() {
    rm -f "$cluster_file"
    if grep -q '^# outlast-tests$' "$policy_file" 2>/dev/null; then
        rm -f "$policy_file"
    fi
}

say() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
}

die() {
    say "error: $*"
    exit 1
}
