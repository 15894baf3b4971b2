# Shared by the scripts: packages, a private copy of PostgreSQL with gkmeans in it, and a private
# server, all in one folder.  Outside that folder, they only install missing packages.

set -Eeuo pipefail
trap 'echo "$(basename "$0"): line $LINENO: failed: $BASH_COMMAND" >&2' ERR

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
is_root=false
[ "$(id -u)" -eq 0 ] && is_root=true

# No setting of the caller may lead to another server.
for name in ${!PG*}; do
    [ "$name" = PG_CONFIG ] || unset "$name"
done
# PostgreSQL's test modules drop LC_ALL, and then LANG counts.
unset LANGUAGE "${!LC_@}"
export LC_ALL=C.UTF-8 LANG=C.UTF-8 PGUSER=postgres

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# Runs a command as the owner of the folder: PostgreSQL refuses to run as root.  File 9 is the lock of scripts/test,
# which a server must not keep.
as_owner() {
    if $is_root; then
        runuser -u "$owner" -- env HOME="$folder" "$@"
    else
        "$@"
    fi 9>&-
}

# Runs a command with its output in a log, and shows the log if the command fails.
logged() {
    local log=$1
    shift
    if ! "$@" > "$log" 2>&1; then
        tail -n 30 "$log" | cut -c 1-200 >&2
        die "failed: $* (log: $log)"
    fi
}

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
}

is_known() {
    [ -n "$(apt-cache show "$1" 2> /dev/null)" ]
}

# The major version of PostgreSQL to use: the newest one installed, preferably with headers, or the
# distribution's.
choose_major() {
    local newest
    newest=$(newest_of '/usr/lib/postgresql/*/lib/pgxs')
    [ -n "$newest" ] || newest=$(newest_of '/usr/lib/postgresql/*/bin/postgres')
    [ -n "$newest" ] || newest=$(packaged_major)
    if [ -z "$newest" ] && $is_root; then
        apt_get -qq update >&2
        newest=$(packaged_major)
    fi
    [ -n "$newest" ] || die "no package of PostgreSQL found; set PG_CONFIG to the pg_config of an installation"
    printf '%s' "$newest"
}

newest_of() {
    { compgen -G "$1" || true; } | cut -d/ -f5 | sort -n | tail -1
}

packaged_major() {
    apt-cache depends postgresql 2> /dev/null | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -1
}

# Waits for another apt-get.
apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 "$@"
}

# Installs the packages of the list that are missing, on Debian and as root.
# A name that begins with ? is optional: it is skipped if no such package exists.
install_missing() {
    local package missing=()
    for package in "$@"; do
        if ! is_installed "${package#\?}" && { [ "${package#\?}" = "$package" ] || is_known "${package#\?}"; }; then
            missing+=("${package#\?}")
        fi
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    $is_root || die "missing packages; run:  sudo apt-get install --no-install-recommends ${missing[*]}"

    say "Installing ${missing[*]}"
    is_known "${missing[0]}" || apt_get -qq update
    keep_version
    local plan
    plan=$(apt-get -s install --no-install-recommends "${missing[@]}" 2>&1) || die "$plan"
    if grep -Eq '^Inst postgresql-[0-9]+ \[' <<< "$plan" && pg_lsclusters -h | grep -q ' online'; then
        die "apt would upgrade PostgreSQL and restart its servers; install ${missing[*]} yourself, or stop them"
    fi
    install_without_cluster "${missing[@]}"
}

# Asks for the headers of the PostgreSQL that is installed, if apt has them: newer ones would upgrade it.
keep_version() {
    local i version
    for i in "${!missing[@]}"; do
        [[ ${missing[i]} = postgresql-server-dev-* ]] || continue
        version=$(dpkg-query -W -f='${Version}' "${missing[i]/server-dev-/}" 2> /dev/null) || continue
        [ -z "$version" ] || ! is_known "${missing[i]}=$version" || missing[i]+="=$version"
    done
}

# Keeps Debian's package from creating and starting a server when it is installed.
install_without_cluster() {
    local switch=/etc/postgresql-common/createcluster.d/gkmeans.conf status=0 log
    log=$(mktemp)
    mkdir -p "${switch%/*}"
    echo 'create_main_cluster = false' > "$switch"
    apt_get -qq -y -o Dpkg::Use-Pty=0 \
        install --no-install-recommends "$@" > "$log" 2>&1 || status=$?
    rm -f "$switch"
    [ $status -eq 0 ] || { tail -n 40 "$log" >&2; die "apt-get install failed"; }
    rm -f "$log"
}

# Finds or installs PostgreSQL and a compiler; sets PG_CONFIG.  The arguments are for install_tools.
install_requirements() {
    if [ -n "${PG_CONFIG:-}" ]; then
        return
    elif command -v dpkg-query > /dev/null; then
        packaged=$(choose_major)
        local major=$packaged
        install_missing "postgresql-$major" "postgresql-server-dev-$major" build-essential
        install_tools "$@"
        PG_CONFIG=/usr/lib/postgresql/$major/bin/pg_config
    else
        PG_CONFIG=$(command -v pg_config) || die "pg_config is not in the PATH; set PG_CONFIG"
    fi
}

# Installs further packages, only as root and beside a packaged PostgreSQL; @ stands for its major version.
install_tools() {
    [ -z "$packaged" ] || ! $is_root || install_missing "${@//@/$packaged}"
}
packaged=

# Creates the folder, or reuses that of an earlier run.
open_folder() {
    folder=$1
    owner=$(id -un)
    if $is_root; then
        owner=${GKMEANS_USER:-postgres}
        id "$owner" > /dev/null 2>&1 || die "there is no user $owner; set GKMEANS_USER to an unprivileged one"
    fi
    [ ! -e "$folder" ] || [ -f "$folder/.gkmeans" ] || die "$folder exists and is not a folder of gkmeans"
    [ ${#folder} -le 80 ] || die "the path $folder is too long for a socket in it"
    if $is_root; then
        install -d -o "$owner" "$folder"
    else
        mkdir -p "$folder"
    fi
    cd "$folder"
    as_owner touch .gkmeans
}

# Copies the sources, because the owner of the folder may not be allowed to read them in place.
copy_sources() {
    as_owner rm -rf source
    as_owner mkdir -p source build
    tar -C "$repository" --exclude=./.git --exclude=./build --exclude='*.o' --exclude='*.so' \
        --exclude='*.bc' --exclude='./sql/gkmeans--*' -cf - . | as_owner tar -C source --no-same-owner -xf -
}

# A private copy of PostgreSQL: its programs, and links to the rest.  It finds its
# files relative to its programs, so gkmeans can be installed into the copy only.
copy_postgresql() {
    local bin lib share include
    bin=$("$PG_CONFIG" --bindir)
    lib=$("$PG_CONFIG" --pkglibdir)
    share=$("$PG_CONFIG" --sharedir)
    include=$("$PG_CONFIG" --includedir)
    as_owner rm -rf postgresql
    as_owner mkdir -p "postgresql$bin" "postgresql$lib" "postgresql$share" "postgresql${include%/*}"
    as_owner cp -p "$bin"/{pg_*,postgres,initdb,psql,createdb,dropdb,vacuumdb} "postgresql$bin"
    as_owner cp -as "$lib/." "postgresql$lib"
    as_owner cp -as "$share/." "postgresql$share"
    as_owner ln -sfn "$include" "postgresql$include"
    # the folder of the installation itself may be called so
    as_owner find "postgresql$lib" "postgresql$share" -mindepth 1 -name '*gkmeans*' -prune -exec rm -r {} +
    as_owner ln -sfn "$folder/postgresql$bin" bin
    programs=$folder/bin
}

# Builds and installs gkmeans into the private copy.  Arguments go to make.
build_gkmeans() {
    say "Building gkmeans for $("$PG_CONFIG" --version)"
    logged build.log make_gkmeans "$programs/pg_config" "$@" install
}

# make_gkmeans PG_CONFIG ARGUMENT ...: runs make in the folder `build`.
make_gkmeans() {
    as_owner make -C build -f "$folder/source/Makefile" VPATH="$folder/source" PG_CONFIG="$1" -j"$(nproc)" "${@:2}"
}

# Builds the modules that only tests load.
build_modules() {
    as_owner mkdir -p modules
    logged modules.log as_owner make -C modules -f "$folder/source/test/modules/Makefile" \
        PG_CONFIG="$programs/pg_config" COPT=-Werror install
}

# The server that start_server and stop_server mean.
server_data=data
server_log=server.log
server_port=5432

stop_server() {
    local status=0
    [ -f "$folder/$server_data/postmaster.pid" ] || return 0
    as_owner "$folder/bin/pg_ctl" stop -D "$folder/$server_data" -m fast > /dev/null 2>&1 || true
    # 3: no server is running; one that was killed has left its file behind
    as_owner "$folder/bin/pg_ctl" status -D "$folder/$server_data" > /dev/null || status=$?
    [ $status -ne 3 ] || as_owner rm -f "$folder/$server_data/postmaster.pid"
}

# Starts a server that listens only on a socket in the folder, which only its owner and root can open.
# The arguments are additional lines of its configuration.
start_server() {
    local version
    version=$("$programs/pg_config" --version | grep -oE '[0-9]+' | head -1)
    if [ -f "$server_data/PG_VERSION" ] && [ "$(cat "$server_data/PG_VERSION")" != "$version" ]; then
        as_owner rm -rf "$server_data"
    fi
    [ -f "$server_data/PG_VERSION" ] || logged "$server_log.initdb" \
        as_owner "$programs/initdb" -D "$server_data" -U postgres -A trust -E UTF8 --no-locale --no-sync
    as_owner mkdir -p run
    as_owner chmod 700 run
    {
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$folder/run'"
        echo "port = $server_port"
        printf '%s\n' "$@"
    } | as_owner tee "$server_data/postgresql.auto.conf" > /dev/null
    logged "$server_log.start" as_owner "$programs/pg_ctl" start -w -D "$server_data" -l "$server_log"
    export PGHOST=$folder/run PGPORT=$server_port
}
