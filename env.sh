#!/usr/bin/env bash
# ./env.sh CMD...   runs CMD with everything kas-gpu needs at hand:
#   - Debian packages that are missing are installed where that is allowed (root, or sudo that asks no
#     password); elsewhere the line to run is printed and nothing is done.  No network otherwise.
#   - NVIDIA's libraries are found, in a CUDA toolkit or inside Python packages (pip install
#     nvidia-cudnn-cu13 and the like), and put on KAS_CUDA_PATH and LD_LIBRARY_PATH.  kas-gpu opens
#     them at run time; none is needed to build or to use the CPU device.
#   - KAS_BUNDLE=FOLDER, which scripts/bundle.sh made elsewhere, holds development files that this machine
#     lacks; nothing is installed then.
# KAS_NO_INSTALL=1 never installs; EXTRA_PACKAGES="..." are wanted too (CI: clang-format; postgresql is
# for studies of several machines, and for their tests).
set -u

# Each line: what proves that it is there (program, .pc name or header), then its package.
needs='
program gcc build-essential
program make build-essential
header stdio.h build-essential
program pkg-config pkg-config
module hdf5 libhdf5-dev
module libcjson libcjson-dev
module sqlite3 libsqlite3-dev
module zlib zlib1g-dev
module cmocka libcmocka-dev
'
# Wanted, but a system whose archive lacks them, or where nothing may be installed, does without: gcc then builds the CPU
# device's kernels, which are slower, its convolutions are our own loops, and JPEG or PNG images are not read.
optional='
program clang clang
header oneapi/dnnl/dnnl.h libdnnl-dev
module libjpeg libjpeg62-turbo-dev
module libpng libpng-dev
'

has_header() {
    local d
    for d in /usr/include "/usr/include/$(uname -m)-linux-gnu" /usr/local/include ${CPATH:+${CPATH//:/ }}; do
        [ -e "$d/$1" ] && return
    done
    return 1
}

present() { # kind name
    case $1 in
    program) command -v "$2" >/dev/null ;;
    module) pkg-config --exists "$2" 2>/dev/null || { [ "$2" = hdf5 ] && pkg-config --exists hdf5-serial 2>/dev/null; } ;;
    header) has_header "$2" ;;
    esac
}

missing_of() { # lines of "kind name package"
    local kind name package
    while read -r kind name package; do
        [ -z "$kind" ] || present "$kind" "$name" || echo "$package"
    done <<<"$1"
}

missing_packages() {
    local extra
    missing_of "$needs"
    for extra in ${EXTRA_PACKAGES:-}; do
        command -v "$extra" >/dev/null || compgen -G "/usr/lib/$extra/*/bin/initdb" >/dev/null || echo "$extra"
    done
}

describe_needs() {
    echo "env.sh: this system has no apt-get. kas-gpu needs a C17 compiler, GNU make, pkg-config and the"
    echo "development files of HDF5 (1.10.5 or newer, C library), cJSON, SQLite 3 and zlib; better with clang"
    echo "and oneDNN 2 or newer, libjpeg-turbo and libpng; for the tests cmocka. Missing here (Debian's names): $*"
}

# Sets as_root to what runs a command as root: nothing for root itself.  Fails where that is not allowed.
become_root() {
    as_root=()
    [ -z "${KAS_NO_INSTALL:-}" ] || return 1
    [ "$(id -u)" = 0 ] && return
    as_root=(sudo -n)
    command -v sudo >/dev/null && sudo -n true 2>/dev/null
}

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@"; }

# PostgreSQL is wanted for its programs; Debian would start a server of its own with them.
without_cluster() {
    local conf=/etc/postgresql-common/createcluster.conf
    apt install -y --no-install-recommends postgresql-common &&
        "${as_root[@]}" sed -i 's/^#* *create_main_cluster *=.*/create_main_cluster = false/' $conf &&
        grep -q '^create_main_cluster = false' $conf
}

install_packages() { # package...
    echo "env.sh: installing $*"
    local log
    log=$(mktemp)
    # A source of packages that does not answer need not be the one that has these.
    apt update >"$log" 2>&1
    if [[ " $* " == *' postgresql '* ]] && ! without_cluster >>"$log" 2>&1; then
        echo "env.sh: Debian's PostgreSQL may start a server of its own (whole log: $log)"
    fi
    if ! apt install -y --no-install-recommends "$@" >>"$log" 2>&1; then
        tail -n 20 "$log"
        echo "env.sh: the packages could not be installed (whole log: $log)"
        return 1
    fi
    rm -f "$log"
}

ensure_packages() {
    local missing wanted package known=()
    mapfile -t missing < <(missing_packages | sort -u)
    mapfile -t wanted < <(missing_of "$optional")
    [ $((${#missing[@]} + ${#wanted[@]})) = 0 ] && return
    if ! command -v apt-get >/dev/null; then
        [ ${#missing[@]} = 0 ] && return
        describe_needs "${missing[@]}"
        return 1
    fi
    if ! become_root; then
        [ ${#missing[@]} = 0 ] && return
        echo "env.sh: packages are missing; run this line, then the same command again:"
        echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]} ${wanted[*]}"
        return 1
    fi
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}" || return 1
    # Asked for only where the archive knows them, so that a system without is not asked every time.
    for package in "${wanted[@]}"; do apt-cache show "$package" >/dev/null 2>&1 && known+=("$package"); done
    if [ ${#known[@]} != 0 ]; then
        install_packages "${known[@]}" || echo "env.sh: going on without ${known[*]}"
    fi
    mapfile -t missing < <(missing_packages | sort -u)
    [ ${#missing[@]} = 0 ] && return
    echo "env.sh: still missing after installation: ${missing[*]}"
    return 1
}

# Folders that hold one of NVIDIA's libraries: toolkits newest first, then Python's packages.
cuda_folders() {
    local d site
    {
        for d in ${CUDA_HOME:+"$CUDA_HOME"} ${CUDA_PATH:+"$CUDA_PATH"} /usr/local/cuda $(ls -d /usr/local/cuda-* 2>/dev/null | sort -rV); do
            printf '%s\n' "$d/lib64" "$d/lib" "$d/targets/x86_64-linux/lib"
        done
        for site in $(python_folders); do ls -d "$site"/nvidia/*/lib "$site"/nvidia/*/lib64 2>/dev/null; done
    } | while read -r d; do
        compgen -G "$d/libnvrtc.so*" >/dev/null || compgen -G "$d/libcublasLt.so*" >/dev/null ||
            compgen -G "$d/libcudnn.so*" >/dev/null || compgen -G "$d/libnccl.so*" >/dev/null || continue
        realpath "$d"
    done | awk '!seen[$0]++'
}

# Where python3 looks for packages; empty without a python3. -I would leave out the user's own ones.
python_folders() {
    command -v python3 >/dev/null || return 0
    python3 -c 'import site, sys
print("\n".join(dict.fromkeys([p for p in sys.path if p.endswith("-packages")] + [site.getusersitepackages()])))' 2>/dev/null
}

if [ $# = 0 ]; then
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
    exit 2
fi
if [ -n "${KAS_BUNDLE:-}" ]; then
    bundle=$(realpath "$KAS_BUNDLE")/usr
    lib=$(echo "$bundle"/lib/*-linux-gnu)
    [ -d "$lib/pkgconfig" ] || { echo "env.sh: KAS_BUNDLE=$KAS_BUNDLE: not a folder of scripts/bundle.sh" >&2; exit 1; }
    export KAS_NO_INSTALL=1 PATH="$PATH:$bundle/bin" # a pkg-config of the machine's own goes first
    headers=$bundle/include:$bundle/include/$(basename "$lib") # libjpeg-turbo has one of its own for each architecture
    export CPATH="$headers${CPATH:+:$CPATH}" LIBRARY_PATH="$lib${LIBRARY_PATH:+:$LIBRARY_PATH}"
    export PKG_CONFIG_PATH="$lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
    # Ours alone look there, and what they need in turn; other programs keep the machine's libraries.
    export LDFLAGS="-Wl,--disable-new-dtags,-rpath,$lib${LDFLAGS:+ $LDFLAGS}"
fi
ensure_packages >&2 || exit 1

found=$(cuda_folders | paste -sd:)
if [ -n "$found" ]; then
    export KAS_CUDA_PATH="${KAS_CUDA_PATH:+$KAS_CUDA_PATH:}$found"
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$found"
fi
# Headers in Python packages: one test compares our declarations with them.
for site in $(python_folders); do
    for d in "$site"/nvidia/*/include; do [ -d "$d" ] && KAS_CUDA_INCLUDE="${KAS_CUDA_INCLUDE:+$KAS_CUDA_INCLUDE:}$d"; done
done
export KAS_CUDA_INCLUDE="${KAS_CUDA_INCLUDE:-}"
for bin in ${CUDA_HOME:+"$CUDA_HOME/bin"} /usr/local/cuda/bin; do
    [ -d "$bin" ] && case ":$PATH:" in *":$bin:"*) ;; *) PATH=$PATH:$bin ;; esac
done
export PATH
exec "$@"
