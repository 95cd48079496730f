# shellcheck shell=bash
# A private PostgreSQL for the tests. Sourced after machine.sh, never run.
#
#   require_postgres uses the server of OUTLAST_TEST_POSTGRES_URL, or starts one for this run
#   start_postgres   finds or installs the server's programs, starts a cluster in a temporary
#                    folder and exports OUTLAST_TEST_POSTGRES_URL
#   stop_postgres    ends that cluster, if there is one, and removes its folder
#   offer_pgbouncer  exports OUTLAST_TEST_PGBOUNCER, the program's path, if it can be installed
#   offer_patroni    installs patroni and etcd, if possible
#   offer_faketime   installs libfaketime, if possible
#
# OUTLAST_PG_BIN names the folder of the server's programs (initdb, postgres, pg_ctl) and
# replaces the search.

oldest_major=14
postgres_bin=
postgres_dir=
run_as=()

require_postgres() {
    if [ -n "${OUTLAST_TEST_POSTGRES_URL:-}" ]; then
        say "using the server of OUTLAST_TEST_POSTGRES_URL"
    else
        remove_postgres_at_the_end
        start_postgres
    fi
}

remove_postgres_at_the_end() {
    # A second Ctrl-C must not interrupt the removal.
    trap 'trap "" INT TERM HUP; stop_postgres' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

start_postgres() {
    postgres_bin=$(find_postgres)
    postgres_dir=$(mktemp -d "$(where_a_cluster_may_be)/outlast-postgres.XXXXXX")
    leave_root
    create_cluster
    start_cluster
}

stop_postgres() {
    [ -n "$postgres_dir" ] || return 0
    # pg_ctl ends the process whose id is in the cluster's own folder. Nothing in that folder is
    # kept, so the server need not write anything first.
    if [ -e "$postgres_dir/data/postmaster.pid" ]; then
        in_cluster pg_ctl stop --pgdata=data --mode=immediate --silent ||
            say "the PostgreSQL in $postgres_dir did not stop: its process id is in data/postmaster.pid"
    fi
    rm -rf "$postgres_dir"
    postgres_dir=
}

# In memory where there is room: every test creates its own schema, and a disk would only add time.
# No data here has to survive; tests of durability have their own servers.
where_a_cluster_may_be() {
    local free_kb
    if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then
        free_kb=$(df --output=avail /dev/shm | tail -n 1)
        if [ "$free_kb" -gt $((8 * 1024 * 1024)) ]; then
            echo /dev/shm
            return
        fi
    fi
    echo "${TMPDIR:-/tmp}"
}

find_postgres() {
    if [ -n "${OUTLAST_PG_BIN:-}" ]; then
        is_postgres_bin "$OUTLAST_PG_BIN" ||
            die "OUTLAST_PG_BIN=$OUTLAST_PG_BIN has no initdb, postgres and pg_ctl of PostgreSQL $oldest_major or later"
        echo "$OUTLAST_PG_BIN"
        return
    fi
    installed_postgres && return
    if apt_install postgresql && installed_postgres; then
        return
    fi
    die "no programs of PostgreSQL $oldest_major or later (initdb, postgres, pg_ctl) on PATH or in" \
        "/usr/lib/postgresql/*/bin, and they could not be installed: install them (on Debian as root:" \
        "apt-get install postgresql), name their folder in OUTLAST_PG_BIN, or name a running server" \
        "in OUTLAST_TEST_POSTGRES_URL"
}

installed_postgres() {
    local bin
    while read -r bin; do
        if is_postgres_bin "$bin"; then
            echo "$bin"
            return
        fi
    done < <(postgres_bin_candidates)
    return 1
}

postgres_bin_candidates() {
    local initdb
    if initdb=$(command -v initdb); then
        dirname "$(readlink -f "$initdb")"
    fi
    printf '%s\n' /usr/lib/postgresql/*/bin | sort --version-sort --reverse
}

is_postgres_bin() {
    local major
    [ -x "$1/initdb" ] && [ -x "$1/pg_ctl" ] && [ -x "$1/postgres" ] || return 1
    major=$("$1/postgres" --version | sed -E 's/^[^0-9]*([0-9]+).*$/\1/') || return 1
    [ "$major" -ge "$oldest_major" ]
}

# initdb and postgres refuse to run as root.
leave_root() {
    local user
    [ "$(id -u)" -eq 0 ] || return 0
    user=$(id -un postgres 2>/dev/null || id -un nobody 2>/dev/null) ||
        die "PostgreSQL does not run as root, and there is no account postgres or nobody to run it as"
    run_as=(setpriv "--reuid=$user" "--regid=$(id -g "$user")" --clear-groups)
    chown "$user:" "$postgres_dir"
    in_cluster initdb --version >/dev/null ||
        die "the account $user cannot run $postgres_bin/initdb in $postgres_dir: both folders, and those above" \
            "them, must be readable by everyone (TMPDIR and OUTLAST_PG_BIN choose others)"
}

in_cluster() {
    local program=$1
    shift
    (cd / && LC_ALL=C exec "${run_as[@]}" env --chdir="$postgres_dir" "$postgres_bin/$program" "$@")
}

create_cluster() {
    in_cluster initdb --pgdata=data --username=outlast --auth=trust --encoding=UTF8 --locale=C --no-sync \
        >"$postgres_dir/initdb.log" 2>&1 || die_with_log initdb.log "initdb failed"
    cat >>"$postgres_dir/data/postgresql.conf" <<CONF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$postgres_dir'
max_connections = 300
shared_buffers = 256MB
CONF
    # Uses only the server program: the newest PostgreSQL comes without createdb and psql.
    in_cluster postgres --single -c exit_on_error=on -D data postgres \
        <<<'create database outlast' >"$postgres_dir/createdb.log" 2>&1 ||
        die_with_log createdb.log "the database outlast could not be created"
}

# Only the server knows whether a port is free, so this tries to start.
start_cluster() {
    local attempt port
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        port=$(random_port)
        rm -f "$postgres_dir/server.log"
        if in_cluster pg_ctl start --pgdata=data --log=server.log --options="-p $port" --silent --timeout=60; then
            export OUTLAST_TEST_POSTGRES_URL="postgres://outlast@127.0.0.1:$port/outlast"
            say "started $("$postgres_bin/postgres" --version) on port $port, in $postgres_dir"
            return
        fi
        grep -q 'Address already in use' "$postgres_dir/server.log" ||
            die_with_log server.log "PostgreSQL did not start"
        say "port $port is in use (attempt $attempt), trying another"
    done
    die_with_log server.log "PostgreSQL found no free port in ten attempts"
}

# Below the ephemeral range of Linux.
random_port() {
    echo $((20000 + RANDOM % 12000))
}

die_with_log() {
    local log=$1
    shift
    tail -n 40 "$postgres_dir/$log" >&2
    die "$* (the end of its log is above)"
}

offer_pgbouncer() {
    local pgbouncer
    [ -z "${OUTLAST_TEST_PGBOUNCER:-}" ] || return 0
    if ! pgbouncer=$(installed_pgbouncer); then
        if apt_install pgbouncer && pgbouncer=$(installed_pgbouncer); then
            update-rc.d pgbouncer disable >&2 || say "pgbouncer stays enabled: it would start with the machine"
        else
            say "no pgbouncer, so the tests through a pooler do not run: install it (on Debian as root:" \
                "apt-get install pgbouncer) or name its path in OUTLAST_TEST_PGBOUNCER"
            return 0
        fi
    fi
    export OUTLAST_TEST_PGBOUNCER=$pgbouncer
}

# Debian installs it in a folder that only root has on PATH.
installed_pgbouncer() {
    PATH=$PATH:/usr/sbin command -v pgbouncer
}

offer_patroni() {
    installed_patroni && return
    # Patroni uses etcd through python3-etcd, which its package lists only as an alternative.
    if apt_install patroni python3-etcd etcd-server && installed_patroni; then
        update-rc.d patroni disable >&2 || say "patroni stays enabled: it would start with the machine"
        update-rc.d etcd disable >&2 || say "etcd stays enabled: it would start with the machine"
    else
        say "no patroni and etcd, so nothing runs on a cluster of theirs: install them (on Debian as root:" \
            "apt-get install patroni python3-etcd etcd-server)"
    fi
}

installed_patroni() {
    command -v patroni >/dev/null && command -v etcd >/dev/null
}

offer_faketime() {
    installed_faketime && return
    if ! apt_install libfaketime || ! installed_faketime; then
        say "no libfaketime, so nothing runs with a wrong clock: install it (on Debian as root:" \
            "apt-get install libfaketime)"
    fi
}

installed_faketime() {
    compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null
}
