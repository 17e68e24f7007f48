#!/usr/bin/env python3
"""Opens pages in headless Chromium, and says what a reader would find wrong with them.

    tests/e2e/browser.py PAGE.html... [--pictures FOLDER]

Each page is opened as a phone (390 pixels) and a desk (1,280) show it, in light and in dark, and as it is printed.  It fails when
the console has a message, something else than the page is asked for, a line is wider than the window, text has less contrast than
WCAG's 4.5 (3 where it is large), or the page that runs no scripts has another text.  --pictures keeps what was seen.
"""
import argparse
import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

WIDTHS = {"phone": 390, "desk": 1280}
HEIGHT = 900
SECONDS = 60  # for an answer of the browser

# The boxes that stick out of the window, where nothing scrolls them, and the texts that are hard to read: their colour and the
# nearest colour behind them.
LOOK = r"""
(() => {
  const scrolls = e => { for (; e; e = e.parentElement) if (getComputedStyle(e).overflowX !== 'visible') return true; return false; };
  const wide = [], faint = [];
  const channels = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = c => { const l = c.slice(0, 3).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                       return .2126 * l[0] + .7152 * l[1] + .0722 * l[2]; };
  const behind = e => { for (; e; e = e.parentElement) { const c = channels(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
                        return channels(getComputedStyle(document.body).backgroundColor); };
  for (const e of document.body.querySelectorAll('*')) {
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    if (!box.width || style.visibility === 'hidden') continue;
    if (box.right > document.documentElement.clientWidth + 1 && !scrolls(e.parentElement)) wide.push(e.outerHTML.slice(0, 120));
    if (e.closest('svg') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const a = light(channels(style.color)), b = light(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(ratio.toFixed(2) + ' ' + e.outerHTML.slice(0, 120));
  }
  return {wide, faint, scroll: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          height: document.documentElement.scrollHeight, text: document.body.innerText, title: document.title};
})()
"""


class Browser:
    """Chromium behind a pipe of the DevTools protocol: messages end with a zero byte."""

    session = None  # of the tab, once there is one

    def __init__(self, program, home):
        self.numbers, self.events = itertools.count(1), []
        theirs_in, self.to = os.pipe()
        self.back, theirs_out = os.pipe()

        def connect():
            low, high = os.dup(theirs_in), os.dup(theirs_out)  # neither is 3 or 4 any more
            os.dup2(low, 3)
            os.dup2(high, 4)

        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", f"--user-data-dir={home}", "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        os.close(theirs_in)
        os.close(theirs_out)
        self.rest = b""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def message(self):
        """The next message of the browser."""
        while b"\0" not in self.rest:
            part = os.read(self.back, 1 << 20)
            if not part:
                self.log.seek(0)
                sys.exit(f"the browser has ended: {self.log.read().decode(errors='replace')[-2000:]}")
            self.rest += part
        line, self.rest = self.rest.split(b"\0", 1)
        return json.loads(line)

    def ask(self, method, **parameters):
        """Sends a command and returns its answer; events that come meanwhile are kept."""
        number = next(self.numbers)
        command = {"id": number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.to, json.dumps(command).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            message = self.message()
            if message.get("id") == number:
                if "error" in message:
                    sys.exit(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)
        sys.exit(f"{method}: no answer in {SECONDS} s")

    def open(self, url):
        """Opens a page, waits until it is loaded, and returns what happened meanwhile."""
        self.events = []
        self.ask("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())
        return self.events

    def value(self, expression):
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            sys.exit(f"the page cannot be looked at: {answer['exceptionDetails']}")
        return answer["result"]["value"]

    def close(self):
        self.ask("Browser.close")
        self.process.wait(SECONDS)


def said(events, url):
    """What the console had, and what was asked for besides the page."""
    found = []
    for event in events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown" or method == "Runtime.consoleAPICalled" or method == "Log.entryAdded":
            found.append(f"console: {json.dumps(parameters)[:300]}")
        if method == "Network.requestWillBeSent" and parameters["request"]["url"] != url:
            found.append(f"asks for {parameters['request']['url'][:300]}")
    return found


def picture(browser, path, height):
    shot = browser.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                       clip={"x": 0, "y": 0, "width": browser.value("innerWidth"), "height": min(height, 12000), "scale": 1})
    with open(path, "wb") as file:
        file.write(base64.b64decode(shot["data"]))


def look(browser, page, pictures):
    """What is wrong with a page."""
    url, name, found, texts = f"file://{os.path.abspath(page)}", os.path.splitext(os.path.basename(page))[0], [], {}
    for place, width in WIDTHS.items():
        browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=HEIGHT, deviceScaleFactor=1, mobile=width < 500)
        for scheme, scripts in (("light", True), ("dark", True), ("light", False)):
            where = f"{page}, {place}, {scheme}{'' if scripts else ', without scripts'}"
            browser.ask("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
            found += [f"{where}: {what}" for what in said(browser.open(url), url)]
            seen = browser.value(LOOK)
            found += [f"{where}: sticks out: {what}" for what in seen["wide"][:5]] + [f"{where}: contrast {what}" for what in seen["faint"][:5]]
            if seen["scroll"] > 0:
                found.append(f"{where}: the page is {seen['scroll']} pixels wider than the window")
            if texts.setdefault(place, seen["text"]) != seen["text"] or not seen["title"]:
                found.append(f"{where}: another text, or no title")
            if pictures and scripts:
                picture(browser, os.path.join(pictures, f"{name}-{place}-{scheme}.png"), seen["height"])
    browser.ask("Emulation.setEmulatedMedia", media="print")
    printed = base64.b64decode(browser.ask("Page.printToPDF", printBackground=True)["data"])
    if not printed.startswith(b"%PDF"):
        found.append(f"{page}: cannot be printed")
    if pictures:
        with open(os.path.join(pictures, f"{name}.pdf"), "wb") as file:
            file.write(printed)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--pictures", metavar="FOLDER")
    args = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        sys.exit("no Chromium (Debian: apt-get install chromium)")
    if args.pictures:
        os.makedirs(args.pictures, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        browser = Browser(program, home)
        found = [what for page in args.pages for what in look(browser, page, args.pictures)]
        browser.close()
    print("\n".join(found) or f"{len(args.pages)} pages at {len(WIDTHS)} widths: nothing is wrong")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
