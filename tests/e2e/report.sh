#!/usr/bin/env bash
# kas-gpu report and status --watch, on real studies: the page is well formed and complete, its command goes on with the
# study, and nothing but the page is written.
set -eu
. tests/e2e/expect.bash

"$kas" dataset make shapes -o "$dir/s.h5" --train 100 --test 20 --size 8 --classes 4 >/dev/null
search=("$kas" search --strategy random --dataset "$dir/s.h5" --net resnet20:n=1 --candidates 2 --epochs 2 --batch 50 --lr 0.02 --prune none --objective accuracy
    --device cpu --threads 1)
report=("$kas" report)

# Watched while it runs, without a terminal: a line for each change, and the end when the study is done.
"${search[@]}" --study "$dir/a" --seed 1 >"$dir/log" 2>&1 & pid=$!
await "the study" [ -s "$dir/a/study.db" ]
await "the study's row" "$kas" status "$dir/a" >/dev/null 2>&1
"$kas" status --watch "$dir/a" >"$dir/watched" & watch=$!
wait $pid || { kill $watch; cat "$dir/log"; fail "the search failed"; }
wait $watch || fail "watching ended with exit code $?"
grep -q '2 of 2 candidates ended' "$dir/watched" || { cat "$dir/watched"; fail "the last state is not shown"; }
grep -q $'\033' "$dir/watched" && fail "escape sequences without a terminal"
rm "$dir/watched"
expect 0 'best kernel:' "${search[@]}" --study "$dir/b" --strategy evolution --ancestors 0 --legality none --population 2 --generation 2 --tournament 2 --rungs 1 --flip off \
    --warm-start --validation 0.2 --forbid exp,square
expect 0 'candidates ended' "$kas" status --watch "$dir/b" # done already
expect 0 '"done": true' "$kas" status --watch "$dir/b" --json
expect 4 'no such study' "$kas" status --watch "$dir/none"

# A study that is not done: Ctrl-C ends the watching, and the study stays as it was.
"${search[@]}" --study "$dir/c" --candidates 1000 >/dev/null 2>&1 & pid=$!
await "the study" "$kas" status "$dir/c" >/dev/null 2>&1
"$kas" status --watch "$dir/c" >"$dir/watched" & watch=$!
await "a line" [ -s "$dir/watched" ]
kill -TERM $watch
rc=0; wait $watch || rc=$?
[ $rc = 130 ] || fail "watching ended with exit code $rc"
kill -TERM $pid
wait $pid || true

expect 0 'one.html' "${report[@]}" "$dir/a" -o "$dir/one.html"
expect 0 '"studies": 2' "${report[@]}" "$dir/a/" "$dir/b" -o "$dir/two.html" --json
expect 0 '' "${report[@]}" "$dir/c" -o "$dir/begun.html" # interrupted
(PATH=/nowhere "$kas" report "$dir/a" -o "$dir/plain.html" >/dev/null) || fail "no report without Graphviz"
grep -q 'sizes at layer1.0.conv1' "$dir/one.html" || fail "the kernel has no sizes"
grep -q 'class="edge"' "$dir/plain.html" || fail "no graph without Graphviz"
for page in one two begun plain; do
    [ "$(wc -c <"$dir/$page.html")" -lt 2000000 ] || fail "$page.html is too large"
    grep -qiE 'https?:|url\(|@import|<img|<script>|\bon[a-z]+=' "$dir/$page.html" && fail "$page.html refers to something"
done
if command -v python3 >/dev/null; then
    cat >"$dir/look.py" <<'PYTHON'
import html.parser, json, re, sys
import xml.etree.ElementTree as xml

VOID = {"meta", "link", "br"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], set(), []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                assert value not in self.ids, f"two elements with id {value}"
                self.ids.add(value)
            if name in ("href", "src"):
                self.links.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()


for path in sys.argv[1:]:
    text = open(path, encoding="utf-8").read()
    page = Page()
    page.feed(text)
    assert not page.open, page.open
    assert all(link.startswith("#") and link[1:] in page.ids or link == "data:," for link in page.links), page.links
    pictures = re.findall(r"<svg.*?</svg>", text, re.S)
    for picture in pictures:
        xml.fromstring(picture)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    for study in data["studies"]:
        assert study["items_left_out"] == 0 and study["curves"] and study["options"]["net"] == "resnet20:n=1"
        assert sum(item["kind"] == "candidate" for item in study["items"]) == study["candidates"]
    print(path, len(text), "bytes,", len(pictures), "pictures,", len(data["studies"]), "studies")
PYTHON
    python3 "$dir/look.py" "$dir"/{one,two,plain}.html || fail "a page is not well formed"
else
    skip_part "no python3: the pages were not parsed"
fi

if command -v chromium >/dev/null; then
    sed -n '1,/<main/ { s/<meta http-equiv="Content-Security-Policy"[^>]*>//; p; }' "$dir/one.html" >"$dir/faulty.html"
    echo '<div style="width: 2000px; height: 1px"></div><p style="color: #999">faint</p><img src="none.png" alt=""><p id="p"></p>' \
        '<script>console.error("a"); p.textContent = "written"; none()</script></main>' >>"$dir/faulty.html"
    python3 tests/e2e/browser.py "$dir/faulty.html" >"$dir/out" && fail "a faulty page passes"
    for fault in 'sticks out: <div' 'contrast .*faint' 'asks for .*none.png' 'console: .*"error"' 'console: .*exceptionDetails' 'pixels wider than' 'without scripts: another text'; do
        grep -q "$fault" "$dir/out" || { cat "$dir/out"; fail "$fault is not seen"; }
    done
    python3 tests/e2e/browser.py "$dir"/{one,two,begun}.html >"$dir/out" || { cat "$dir/out"; fail "a page looks wrong"; }
else
    skip_part "no Chromium: the pages were not opened"
fi

# The command in a page is that of the study: there is nothing left to do. So it is with a network and kernels from files
# that are gone, and with threads that workers share.
mkdir "$dir/k"
cp kernels/depthwise_separable.json "$dir/k"
cp tests/e2e/own_network.json "$dir/own.json"
expect 0 'best kernel:' "${search[@]}" --study "$dir/files" --net "$dir/own.json:width=12" --targets 3x3 --from "$dir/k" --latency 0 --candidates 1 --workers 2 --threads 4
rm -r "$dir/k" "$dir/own.json"
for study in a b files; do
    "${report[@]}" "$dir/$study" -o "$dir/page.html" >/dev/null
    command=$(sed -n '/<pre class="scroll">kas-gpu /,/<\/pre>/p' "$dir/page.html" | sed 's|.*<pre class="scroll">kas-gpu ||; s|</pre>.*||
        s/&#39;/'"'"'/g; s/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g')
    [ -n "$command" ] || fail "no command in the page"
    eval "set -- $command"
    expect 0 'best kernel:' "$kas" "$@"
done

# Where the page may go.
before=$(sha256sum "$dir/a/study.db")
expect 1 '' "${report[@]}" "$dir/a" -o "$dir/a/study.db"
expect 1 '' "${report[@]}" "$dir/a" -o "$dir/a/best/kernel.json"
expect 1 '' "${report[@]}" "$dir/a" -o /dev/null
expect 1 '' "${report[@]}" "$dir/a" -o "$dir"
expect 1 '' "${report[@]}" "$dir/a" -o "$dir/none/page.html"
[ "$before" = "$(sha256sum "$dir/a/study.db")" ] || fail "the store was written"
expect 2 'no study is given' "${report[@]}"
expect 2 'are one study; give it once' "${report[@]}" "$dir/a" "$dir/b" "$dir/a/" -o "$dir/not.html"
copies=()
for i in $(seq 18); do
    cp -r "$dir/a" "$dir/copy$i"
    copies+=("$dir/copy$i")
done
expect 0 '"studies": 18' "${report[@]}" "${copies[@]}" -o "$dir/many.html" --json
rm -r "${copies[@]}"
expect 4 'no such study' "${report[@]}" "$dir/a" "$dir/none" -o "$dir/not.html"
mkdir "$dir/damaged"
head -c 5000 "$dir/a/study.db" >"$dir/damaged/study.db"
expect 4 'damaged' "${report[@]}" "$dir/damaged" -o "$dir/not.html"
[ ! -e "$dir/not.html" ] || fail "a page of a study that cannot be read"
echo "ok: a page of one study and of two, nothing asked of others, bad studies"
