#!/usr/bin/env bash
# Downloads a published data set and checks it:  datasets/fetch.sh cifar10|cifar100 DIR
# KAS_FETCH_OFFLINE=1 checks a file that is already there and downloads nothing.
set -eu
usage() { echo "usage: datasets/fetch.sh cifar10|cifar100 DIR" >&2; exit 2; }
[ $# = 2 ] || usage
case $1 in # checksums as published on https://www.cs.toronto.edu/~kriz/cifar.html
cifar10) file=cifar-10-binary.tar.gz md5=c32a1d4ab5d03f1284b67883e8d87530 ;;
cifar100) file=cifar-100-binary.tar.gz md5=03b5dce01913d631647c71ecec9e9cb8 ;;
*) usage ;;
esac
name=$1 dir=$2 url=https://www.cs.toronto.edu/~kriz/$file
mkdir -p "$dir"
target=$dir/$file

matches() { [ "$(md5sum <"$1" | cut -d' ' -f1)" = $md5 ]; }
done_line() { echo "next: kas-gpu dataset import $name $target -o $name.h5"; }

if [ -f "$target" ] && matches "$target"; then
    echo "$target is there and its checksum is right"
    done_line
    exit
fi
if [ -n "${KAS_FETCH_OFFLINE:-}" ]; then
    echo "$target is missing or its checksum is wrong (expected md5 $md5)" >&2
    exit 1
fi
part=$target.part
echo "downloading $url"
if command -v curl >/dev/null; then
    curl --fail --location --retry 3 --continue-at - --output "$part" "$url"
elif command -v wget >/dev/null; then
    wget --tries=3 --continue --output-document="$part" "$url"
else
    echo "neither curl nor wget is installed; get $url in another way and run this again" >&2
    exit 1
fi
if ! matches "$part"; then
    rm -f "$part"
    echo "the checksum of $url is wrong (expected md5 $md5); the download was removed, run this again" >&2
    exit 1
fi
mv "$part" "$target"
done_line
