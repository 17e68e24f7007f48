#!/usr/bin/env bash
# Study (c): prediction against measurement.
#
#   bench/studies/predict.sh [-p] [-o FOLDER] [-t SECONDS] [-k KERNELS] [-c KERNELS] [-n NET] [-i CxHxW] [-s SEED] [-D DEVICE]
#
#   -p  compile the kernels and time nothing, so that the machine need not be idle; later calls find them compiled
#   -o  results (default build/predict-study): machine.json, times.jsonl, table.md
#   -t  begin no new kernel after so many seconds (default 3000); the same command goes on where it stopped
#   -k  sampled kernels (default 320); the files of kernels/ come in addition
#   -c  kernels of the calibration (default 48); no kernel of the study is among them
#   -n, -i, -s, -D  network (resnet20), images (3x32x32), seed (3), device (cpu)
#
# Calibrates the device unless FOLDER has its model, measures what is left, and prints the table of what was measured so
# far; exit code 75 when kernels are left or were disturbed. Nothing else should run meanwhile. It takes about 3 s a kernel
# on 2 cores, most of which is compiling. With `taskset -c 1` it runs on one core, with one thread; programs differ with the
# number of cores, so -p needs as many.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
out=${BUILD:-build}/predict-study seconds=3000 kernels=320 calibrate=48 net=resnet20 input=3x32x32 seed=3 device=cpu prepare=
while getopts po:t:k:c:n:i:s:D: option; do
    case $option in
    p) prepare=compile ;;
    o) out=$OPTARG ;; t) seconds=$OPTARG ;; k) kernels=$OPTARG ;; c) calibrate=$OPTARG ;; n) net=$OPTARG ;; i) input=$OPTARG ;;
    s) seed=$OPTARG ;; D) device=$OPTARG ;;
    *) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
    esac
done
kas=${BUILD:-build}/kas-gpu
begin=$SECONDS
mkdir -p "$out"
if [ "$prepare" ]; then
    exec "${BUILD:-build}/bench/predict_times" "$net" "$input" 32 "$device" "$kernels" "$seed" compile "$out/times.jsonl" kernels/*.json
fi
[ -f "$out/machine.json" ] || "$kas" doctor --calibrate="$calibrate" --device "$device" -o "$out/machine.json"
left=$((seconds - (SECONDS - begin)))
[ $left -gt 0 ] || left=0
"${BUILD:-build}/bench/predict_times" "$net" "$input" 32 "$device" "$kernels" "$seed" "$left" "$out/times.jsonl" kernels/*.json |
    tee "$out/said"
python3 bench/studies/predict.py "$kas" "$out/machine.json" "$out/times.jsonl" --launches | tee "$out/table.md"
grep -q ': 0 disturbed, 0 left' "$out/said" || exit 75
