#!/usr/bin/env bash
# Habits that all commands share: help, usage errors, words to paste, refusals before any work is done.
set -eu
. tests/e2e/expect.bash
repo=$PWD dir="$dir/with space"
mkdir "$dir"
export PATH=${kas%/*}:$PATH # what users are told to paste begins with kas-gpu
cd "$dir"

commands="search status best report resume log sample show check train imitate assemble export net recipe bench predict interpolate score sensitivity tune worker dataset doctor"
for command in $commands; do
    expect 0 '' "$kas" --help
    grep -q "^  $command " out || fail "$command is not in the list of commands"
    expect 0 "  kas-gpu $command" "$kas" "$command" --help
    [ -s err ] && fail "$command --help wrote to stderr"
    awk 'length > 79 { bad = 1; print } END { exit bad }' out || fail "$command --help: lines too long"
    example=$(grep -n "^  kas-gpu $command" out | head -1 | cut -d: -f1)
    options=$(grep -n -- '--json' out | tail -1 | cut -d: -f1)
    [ "$example" -lt "$options" ] || fail "$command --help: options before examples"
    ! grep -q '^[^ ]*$' <(grep -A1 "^  kas-gpu $command" out | grep -v '^--$' | grep -v '^$') ||
        fail "$command --help: an example is wrapped"
    expect 0 'Usage: ' "$kas" "$command" --usage
    expect 2 "Try \`kas-gpu $command --help'" "$kas" "$command" --no-such-option
    [ -s out ] && fail "$command wrote a usage error to stdout"
done
expect 2 'unknown command' "$kas" nonesuch
expect 0 'Usage: kas-gpu search' "$kas" help search
expect 2 'unknown command "nonesuch"' "$kas" help nonesuch
expect 2 'option of `kas-gpu store start`' "$kas" store stop none --listen 127.0.0.1
expect 3 '"format": expected "kas-gpu kernel", found "kas-gpu recipe"' "$kas" show "$repo/recipes/search.json" --net resnet20
expect 2 '--count: expected an integer' "$kas" sample --count 0 # and not also that --net is missing
[ "$(wc -l <err)" = 2 ] || fail "one usage error at a time"
expect 2 '--seed: expected an integer in [0, 18446744073709551615], found "18446744073709551616"' \
    "$kas" search --dataset none.h5 --seed 18446744073709551616
expect 2 '--seed: expected an integer in [0, 18446744073709551615], found "-1"' "$kas" sample --net resnet20 --seed -1
expect 2 '--epochs: expected an integer in [1, 100000], found "1e2"' "$kas" search --dataset none.h5 --epochs 1e2
for command in "search --dataset none.h5" "sample --net resnet20"; do
    expect 2 '--flops: expected a number in [0, 1e+06], found "2e6"' "$kas" $command --flops 2e6
    expect 2 '--space: expected one of canvas, nas-pte; found "pte"' "$kas" $command --space pte
done
for command in check "bench step"; do expect 2 '--precision: expected one of fp32, ' "$kas" $command --precision fp8; done
for device in gpu cuda: cuda:64 cuda:0,; do
    expect 2 '--device: expected auto, cpu, cuda or cuda: and numbers' "$kas" check kernels/involution.json --device "$device"
    expect 2 '--device: expected auto, cpu, cuda or cuda: and numbers' "$kas" search --dataset "$kas" --study "$dir/none" --device "$device"
done
expect 2 '--targets: found "2x2", expected a list of windows of 1, 3, 5 or 7' "$kas" sample --net resnet20 --targets 2x2
for command in search net sample; do # one text for all
    expect 0 '' "$kas" $command --help
    tr -s ' \n' ' ' <out | grep -qF 'square (default), non-square, grouped, depthwise, linear, all' || fail "$command --help: --targets"
done
expect 0 '' "$kas" search --help
tr -s ' \n' ' ' <out | grep -qF 'those that are measured slower are no finalists' || fail "search --help: --latency"
expect 0 'default 3x16x16' "$kas" check --help
! grep -q 3x32x32 out || fail "check --help names two defaults"
expect 6 "so few FLOPs: every kernel needs at least 0.00041 times the convolutions'" \
    bash -c 'ulimit -t 10; exec "$@"' - "$kas" sample --net resnet18 --flops 1e-7 # a bound says so: no million attempts
expect 2 'unexpected argument "d"' "$kas" dataset info a b d d

# Options that would have no effect are refused before any file is read: the command, and what is said of it.
while IFS='|' read -r command words; do
    expect 2 "$words" "$kas" $command
done <<'END'
bench children --kernel x|--kernel is an option of the suites
bench children --dataset x|--dataset is an option of the suite data only
bench children --device cpu|--device is an option of the suites
bench children --precision bf16|--precision is an option of the suites
bench children --passes|--passes is an option of the suite step only
bench children --times|--times is an option of the suite step only
bench children --tuned|--tuned is an option of the suite layers only
bench children --batch 4|--batch is an option of the suites
bench data --allow fc|--allow is an option of the suites
bench data sampler --kernel zz|--kernel is an option of the suites
bench step --seconds 3|--seconds is an option of the suites sampler, children, store only
bench step --flops 0.3|--flops needs --kernel
bench step sampler --dry-run|--dry-run is an option of the suite step only
bench --dry-run|--dry-run is an option of the suite step only
bench --machine h100|--machine is an option of the suite predicted only
bench sampler --min-primitives 4|--min-primitives is an option of the suites
bench predicted --device cpu|--device needs --machine auto or --keep-slower
bench predicted --keep-slower|--keep-slower needs --kernel
train --net resnet20 --dataset none.h5 --steps 1|--steps is an option of --schedule steps
train --net resnet20 --dataset none.h5 --recipe cifar200 --schedule cosine --step-factor 0.2|--step-factor is an option of --schedule steps
train --net resnet20 --dataset none.h5 --optimiser adamw --momentum 0.5|--momentum is an option of --optimiser nesterov and sgd
search --dataset none.h5 --beta1 0.5|--beta1 is an option of --optimiser adamw
search --dataset none.h5 --steps 1|--steps is an option of --schedule steps
search --dataset none.h5 --optimiser sgd --beta2 0.5|--beta2 is an option of --optimiser adamw
search --dataset none.h5 --rungs=|--rungs: expected integers
imitate --net resnet20 --dataset none.h5 --kernel k.json --weights none --ema 0.9|--ema has no effect on an imitation
imitate --net resnet20 --dataset none.h5 --kernel k.json --weights none --label-smoothing 0.1|--label-smoothing has no effect on an imitation
show k.json --input 3x8x8|--input needs --net
show k.json --classes 3|--classes needs --net
show k.json --targets 3x3|--targets needs --net
show k.json --flops 1|--flops needs --net
show k.json --params 1|--params needs --net
show k.json --keep-slower|--keep-slower needs --net
show k.json --layer x|--layer needs --net
show k.json --net resnet20 -b 2|--batch needs --source or --schedule
show k.json --net resnet20 --inference|--inference needs --source or --schedule
show k.json --precision bf16|--precision needs --source or --schedule
check k.json --shapes 1|--shapes needs --sampled
check k.json --space nas-pte|--space needs --sampled
check k.json --per-layer no|--per-layer needs --sampled
check --sampled 1 --per-layer no|--per-layer needs --space nas-pte
sample --net resnet18 --sequence pte-2 --count 3|--count has no effect with --sequence
sample --net resnet18 --sequence pte-2 --seed 3|--seed has no effect with --sequence
sample --net resnet18 --sequence pte-2 --space canvas|--sequence is a kernel of --space nas-pte
sample --net resnet18 --space canvas --sequence pte-2|--sequence is a kernel of --space nas-pte
sample --net resnet18 --allow=|--allow: expected words
sample --net resnet18 --require=|--require: expected words
sample --net resnet18 --kernels=|--kernels: expected integers
sample --net resnet18 --dilations=|--dilations: expected integers
assemble k.json --net resnet20 --dataset none.h5 -o x --latency 1 --samples 3|--samples is an option of --strategy blockswap
assemble k.json --net resnet20 --dataset none.h5 -o x --flops 1 --strategy blockswap --loss fisher|--loss is an option of --strategy knapsack
assemble k.json --net resnet20 --dataset none.h5 -o x --latency 1 --strategy fbnet --loss fisher|--loss is an option of --strategy knapsack
assemble k.json --net resnet20 --dataset none.h5 -o x --latency 1 --best 3|--best chooses among the kernels of a study
assemble k.json --net resnet20 --dataset none.h5 -o x --latency 1 --loss fisher --images 100|--images has no effect
doctor --precision bf16|--precision needs --calibrate
doctor --device cpu|--device needs --calibrate
doctor -o x|--output needs --calibrate
score --net resnet20 --scores params --machine cpu|--machine needs --scores latency or --keep-slower
score --net resnet20 --scores params --space nas-pte|--space needs --sampled
score --net resnet20 --scores params k.json --agreement|--agreement compares the ranks of kernels; give three or more
search --dataset none.h5 --space nas-pte --no-training --candidates 4|--candidates has no effect with --no-training
bench sampler --per-layer no|--per-layer is an option of no suite
END

# Refused before anything is made or computed.
expect 0 '' "$kas" dataset make shapes -o s.h5 --train 200 --test 50 --size 8
expect 1 'is a folder' "$kas" dataset make shapes -o "$dir"
expect 1 'cannot write into its folder' "$kas" dataset make shapes -o none/s.h5
expect 1 'cannot write into its folder' "$kas" train --net resnet20 --dataset s.h5 --weights none/w --epochs 100000
expect 1 'is a folder' "$kas" train --net resnet20 --dataset s.h5 --checkpoint "$dir" --epochs 100000
expect 2 'need --kernel' "$kas" train --net resnet20 --dataset s.h5 --flops 0.5
search=(search --strategy random --dataset s.h5 --net resnet20 --device cpu --objective accuracy --study 'my study' --candidates 1 --epochs 1 --threads 1 --seed 4)
expect 3 's.h5: 180 images to train on are fewer than one batch' "$kas" "${search[@]}" --batch 181
expect 3 'validation share' "$kas" "${search[@]}" --validation 0.001
[ "$(grep -o 's\.h5' err | wc -l)" = 1 ] || fail "the data set is not named once: $(cat err)"
expect 3 "at least 1 times the convolutions' FLOPs, and 0.5 times are allowed" "$kas" \
    show "$repo/kernels/conv.json" --net resnet20 --flops 0.5
expect 4 'not the URL of a store' "$kas" "${search[@]}" --store foo
[ -e 'my study' ] && fail "a refused command made a study"
expect 3 'a binary file' "$kas" show s.h5 --net resnet20

# A study with one finished candidate: what a user is told to paste works as it stands.
expect 0 "to export it: kas-gpu export 'my study' -o 'my study/export' --verify" "$kas" "${search[@]}" --batch 10
eval "$(sed -n 's/^to export it: \(.*\) --verify/\1/p' out)" >/dev/null || fail "export as told"
[ -f 'my study/export/kernel.json' ] || fail "nothing was exported"
expect 0 'latency: forward pass of 32 images' "$kas" best 'my study'
expect 2 "\`kas-gpu resume 'my study'\`" "$kas" "${search[@]}" --batch 50
expect 4 'give the folder of the study' "$kas" best 'my study/study.db'
expect 2 'no database is named; give --store' env -u KAS_STORE "$kas" store import 'my study'

# A dry run refuses what the search would refuse, and makes nothing.
expect 0 'the search would go on with it' "$kas" "${search[@]}" --batch 10 --dry-run
expect 2 '--batch (the study has 10, this command 50)' "$kas" "${search[@]}" --batch 50 --dry-run
expect 1 'is not a folder' "$kas" "${search[@]}" --study s.h5 --dry-run
expect 4 'not the URL of a store' "$kas" "${search[@]}" --study other --store foo --dry-run
[ -e other ] && fail "a dry run made a folder"

# A command that is stopped says how to go on, and that works.
args=(train --dataset s.h5 --net resnet20 --checkpoint "it's.ckpt" --epochs)
"$kas" "${args[@]}" 1000 >out 2>err &
pid=$!
await "an epoch" grep -q '^epoch' out
kill -HUP $pid
rc=0
wait $pid || rc=$?
[ $rc = 75 ] || fail "expected exit code 75 after SIGHUP, got $rc"
grep -qF "to go on: kas-gpu train --dataset s.h5 --net resnet20 --checkpoint 'it'\\''s.ckpt' --epochs 1000" err ||
    { cat err; fail "no command that goes on"; }
: >on # another file: the first one is not yet empty while the shell that empties it starts
eval "exec $(sed -n 's/^to go on: //p' err)" >on 2>&1 &
pid=$!
await "an epoch of the command as told" grep -q '^epoch' on
grep -q '^epoch   1 ' on && fail "it began again"
kill $pid && wait $pid || true
echo "ok: help, usage errors, refusals, and commands to paste"
