#!/usr/bin/env bash
# Two network namespaces as two hosts: the server and a search on the first, `kas-gpu worker` on the second, over TCP. In the middle
# the link is cut for some seconds. Both go on, and the results are those of an undisturbed search. Needs root, ip and PostgreSQL.
#     bench/studies/two_hosts.sh [SECONDS]        30 by default; more than 60 end the worker (exit code 4)
set -eu
cd "$(dirname "$0")/../.."
. tests/e2e/expect.bash
cut=${1:-30} far=kas-far-$$
chmod 755 "$dir" # the server runs as another user
second=
trap 'rc=$?; set +e; [ -z "$second" ] || kill $second 2>/dev/null; "$kas" store stop "$dir/pg" >/dev/null 2>&1; ip netns del $far; ip link del kas-near 2>/dev/null; rm -rf "$dir"; exit $rc' EXIT
ip netns add $far
ip link add kas-near type veth peer name kas-far netns $far
ip addr add 10.97.0.1/24 dev kas-near
ip link set kas-near up
ip -n $far addr add 10.97.0.2/24 dev kas-far
ip -n $far link set kas-far up
ip -n $far link set lo up
say() { echo "$(date +%T) $*"; }

"$kas" dataset make shapes -o "$dir/s.h5" --train 300 --test 24 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --objective accuracy --dataset "$dir/s.h5" --net tests/e2e/own_network.json --targets 3x3 --candidates 6 --epochs 100
    --batch 16 --lr 0.005 --seed 1 --threads 1 --prune deterministic --prune-window 1 --compile-ahead 0 --device cpu)
"$kas" store start "$dir/pg" --listen 10.97.0.1
say "the undisturbed search"
"${search[@]}" --study "$dir/plain" >/dev/null 2>"$dir/err" || { cat "$dir/err"; fail "the undisturbed search"; }
results "$dir/plain" >"$dir/results"

# Sockets in the file system reach through network namespaces; the URL that is kept has the address of the interface.
grep -q '@10.97.0.1:' "$dir/pg/url" || { sed 's/:[^:@]*@/:...@/' "$dir/pg/url"; fail "the URL is not one of TCP"; }
"${search[@]}" --study "$dir/study" --store "@$dir/pg/url" >/dev/null 2>"$dir/err1" &
first=$!
await "the study" [ -e "$dir/study/store.json" ]
ip netns exec $far unshare --uts sh -c 'hostname other && exec "$@"' - \
    "$kas" worker --store "@$dir/pg/url" --threads 1 >/dev/null 2>"$dir/err2" &
second=$!
epochs() { cat "$dir/study/logs/"[0-9b]*.log 2>/dev/null | grep -c ' epoch ' || true; }
further() { [ "$(epochs)" -ge $wanted ]; }
wanted=60
await "epochs" further
both() { [ "$("$kas" best "$dir/study" --json | grep -c '"state": "running"')" = 2 ]; }
await "an item on each host" both
say "connections of the second host: $(ip netns exec $far ss -tnH state established dst 10.97.0.1 | wc -l)"
say "the link is cut for $cut s, with $(epochs) epochs trained"
ip link set kas-near down
sleep "$cut"
ip link set kas-near up
say "the link is back, with $(epochs) epochs trained"
rc1=0 rc2=0
wait $first || rc1=$?
wait $second || rc2=$?
second=
say "exit codes: $rc1 of the search, $rc2 of the worker"
grep -iE 'connection|connected' "$dir/err2" | sort | uniq -c | head -n 5 || true
results "$dir/study" | diff "$dir/results" - || fail "other results"
"$kas" status "$dir/study" | grep -E '^candidates|^machine'
twice=$(for log in "$dir/study/logs/"[0-9b]*.log; do sed -n 's/.* \(epoch [0-9]*\):.*/\1/p' "$log" | sort | uniq -d; done | wc -l)
say "the same results as undisturbed; $twice of $(epochs) epochs were trained twice"
