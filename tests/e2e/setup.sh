#!/usr/bin/env bash
# env.sh: runs commands, finds libraries in Python packages, and says what to install where it may not.
set -eu
. tests/e2e/expect.bash

[ "$(KAS_NO_INSTALL=1 ./env.sh echo a 'b  c')" = "a b  c" ] || fail "arguments are not passed on"
rc=0; KAS_NO_INSTALL=1 ./env.sh bash -c 'exit 7' || rc=$?
[ $rc = 7 ] || fail "exit code $rc instead of 7"
rc=0; ./env.sh >"$dir/out" || rc=$?
[ $rc = 2 ] && grep -q 'runs CMD' "$dir/out" || fail "no usage"

# A missing package where nothing may be installed: the exact line, exit code 1, the command not run.
rc=0; KAS_NO_INSTALL=1 EXTRA_PACKAGES=kas-no-such-tool ./env.sh touch "$dir/ran" 2>"$dir/err" || rc=$?
[ $rc = 1 ] && [ ! -e "$dir/ran" ] || fail "went on without a package"
grep -q 'sudo apt-get install .*kas-no-such-tool' "$dir/err" || grep -q 'no apt-get' "$dir/err" || fail "$(cat "$dir/err")"

# Without clang gcc does, also where nothing may be installed.
mkdir "$dir/few"
ln -sf /bin/* /usr/bin/* "$dir/few"
rm -f "$dir"/few/clang*
[ "$(KAS_NO_INSTALL=1 EXTRA_PACKAGES= PATH=$dir/few ./env.sh sh -c 'command -v clang || echo none')" = none ] || fail "does nothing without clang"

# Libraries inside Python packages, as pip lays them out.
site=$dir/lib/site-packages
mkdir -p "$site/nvidia/cudnn/lib" "$site/nvidia/cu13/lib" "$site/nvidia/curand/lib" "$dir/bin"
touch "$site/nvidia/cudnn/lib/libcudnn.so.9" "$site/nvidia/cu13/lib/libnvrtc.so.13" "$site/nvidia/curand/lib/libcurand.so.10"
printf '#!/bin/sh\necho "%s"\n' "$site" >"$dir/bin/python3"
chmod +x "$dir/bin/python3"
found=$(KAS_NO_INSTALL=1 PATH=$dir/bin:$PATH ./env.sh sh -c 'echo "$KAS_CUDA_PATH|$LD_LIBRARY_PATH"')
for package in cudnn cu13; do
    case $found in *"$site/nvidia/$package/lib"*"|"*"$site/nvidia/$package/lib"*) ;; *) fail "$package is not in $found" ;; esac
done
case $found in *curand*) fail "a folder without our libraries is in $found" ;; esac
found=$(KAS_NO_INSTALL=1 KAS_CUDA_PATH=/mine PATH=$dir/bin:$PATH ./env.sh sh -c 'echo "$KAS_CUDA_PATH"')
case $found in /mine:*) ;; *) fail "the user's own KAS_CUDA_PATH does not come first: $found" ;; esac
echo "ok: env.sh"
