#!/usr/bin/env bash
# ./env.sh scripts/bundle.sh FOLDER   what kas-gpu's build needs beside a compiler and make, in one folder: headers, shared
# libraries with what they need in turn, pkg-config files that find them wherever the folder lies, and pkg-config itself.
# On another machine, without network and without these packages: KAS_BUNDLE=FOLDER ./env.sh make (env.sh).
# That machine must have the same processor architecture and a C library that is not older.
# WITH_ONEDNN=1 takes oneDNN along (40 MB): only the CPU device's convolutions use it.
set -eu
[ $# = 1 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2; }
folder=$1
packages=(libhdf5-dev libcjson-dev libsqlite3-dev zlib1g-dev libjpeg62-turbo-dev libpng-dev libcmocka-dev)
[ -z "${WITH_ONEDNN:-}" ] || packages+=(libdnnl-dev)
command -v dpkg >/dev/null || { echo "bundle.sh: this system has no dpkg; Debian or Ubuntu is needed" >&2; exit 1; }
lib=usr/lib/$(gcc -dumpmachine)
mkdir -p "$folder/usr/include" "$folder/usr/bin" "$folder/$lib/pkgconfig"

# The system's own, which every machine that compiles has; one from elsewhere would take its place.
own='^(libc|libm|libdl|libpthread|librt|libresolv|libstdc\+\+|libgcc_s|libgomp|ld-linux.*)\.so'

here="\${pcfiledir}/../../.." # pkg-config's own variable: FOLDER/usr, from the place of its files

take_library() { # path of a shared library, with all that it needs
    local name needed
    name=$(basename "$1")
    [[ ! $name =~ $own ]] || return 0
    [ ! -e "$folder/$lib/$name" ] || return 0
    cp -L "$1" "$folder/$lib/$name"
    while read -r needed; do take_library "$needed"; done < <(ldd "$1" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p')
}

take_file() { # a file of a development package
    local name soname
    name=$(basename "$1")
    case $1 in
    /usr/include/*)
        mkdir -p "$folder$(dirname "$1")"
        cp -L "$1" "$folder$1"
        ;;
    *hl*.so | *_cpp.so | *fortran.so) ;; # HDF5's other interfaces
    *.pc) sed -e "s|^\([a-z_]*\) *= */usr|\1=$here|" -e "s|\(-[IL]\)/usr|\1$here|g" "$1" >"$folder/$lib/pkgconfig/$name" ;;
    *.so) # for the linker; the program asks for the library's own name
        take_library "$(realpath "$1")"
        soname=$(objdump -p "$1" | sed -n 's/^ *SONAME *//p')
        [ -z "$soname" ] || ln -sf "$(basename "$(realpath "$1")")" "$folder/$lib/$soname"
        mkdir -p "$folder$(dirname "$1")"
        [ "$soname" = "$name" ] || ln -sf "$(realpath -m --relative-to="$(dirname "$1")" "/$lib/$soname")" "$folder$1"
        ;;
    esac
}

for package in "${packages[@]}"; do
    files=$(dpkg -L "$package" 2>/dev/null) || { echo "bundle.sh: $package is not installed" >&2; exit 1; }
    while read -r file; do
        if [ -f "$file" ] && [[ $file != *++* ]]; then take_file "$file"; fi
    done <<<"$files"
done
# HDF5's are found under two names, of which Debian makes links by hand.
[ -e "$folder/$lib/pkgconfig/hdf5.pc" ] || cp "$folder/$lib/pkgconfig/hdf5-serial.pc" "$folder/$lib/pkgconfig/hdf5.pc"
cp -L "$(command -v pkg-config)" "$folder/usr/bin/pkg-config.program"
while read -r needed; do take_library "$needed"; done < <(ldd "$folder/usr/bin/pkg-config.program" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p')
cat >"$folder/usr/bin/pkg-config" <<END
#!/bin/sh
LD_LIBRARY_PATH="\$(dirname "\$0")/../../$lib" exec "\$0.program" "\$@"
END
chmod +x "$folder/usr/bin/pkg-config"
du -sh "$folder"
