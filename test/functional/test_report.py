# SPDX-License-Identifier: Apache-2.0
# check: seconds 70
# check: user only
# check: sanitized if long
"""`atoll report`: one page about a run, looked at in a real browser."""
import base64
import hashlib
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import browser  # noqa: E402
import eventlog  # noqa: E402

# In every field that a stranger fills in. Were any of it taken for markup, a script or a style, something would show.
EVIL = ("</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><!--<script>"
        "]]></style><svg onload=alert(1)>&lt;b&gt;'\"`${document.title='owned'}\u2028\u202e\x1b[2J\udcff</textarea>")
SECTIONS = ["summary", "timeline", "denials", "attention", "processes", "connections", "changes", "events", "proof"]


def need_browser():
    if not browser.PROGRAM:
        skip("chromium")


def report(place, *args, status=0):
    path = place.tmp + "/report.html"
    result = atoll(place, "report", *args, "--html", path)
    same(result.status, status, "report: " + result.err)
    return path


def quiet(page, path):
    """It has come to its end, said nothing, and asked for nothing but itself."""
    same(page.run("document.documentElement.dataset.ready"), "yes", "the script came to its end; said: %s" % page.messages)
    same(page.messages, [], "what it said")
    same([url for url in page.requests if not url.startswith("data:")], ["file://" + path], "what it asked for")


def text_of(page, selector):
    return page.run("document.querySelector(%s).innerText" % json.dumps(selector))


def count_of(page, selector):
    return page.run("document.querySelectorAll(%s).length" % json.dumps(selector))


def click(page, selector, text=None):
    """As a person does: the first that matches, with this text."""
    found = page.run("(() => { const it = [...document.querySelectorAll(%s)].find((each) => !%s || each.textContent.includes(%s)); if (it) it.click();"
                     " return Boolean(it); })()" % (json.dumps(selector), json.dumps(bool(text)), json.dumps(text)))
    check(found, "there is no %s with %r" % (selector, text))


# The least contrast of any text with what is behind it, and where; by the rule of WCAG 2.
CONTRAST = """(() => {
    const parts = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
    const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255).map((c) => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], 0);
    const behind = (node) => { for (; node; node = node.parentElement) { const c = parts(getComputedStyle(node).backgroundColor); if (c[3] === 1) return c; }
        return [255, 255, 255, 1]; };
    let least = [99, ""];
    for (const node of document.querySelectorAll("body *")) {
        if (![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !node.getClientRects().length || node.disabled || node.closest("svg, script"))
            continue;
        const a = light(parts(getComputedStyle(node).color)), b = light(behind(node)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        if (ratio < least[0]) least = [ratio, node.tagName + "." + node.className + " " + node.textContent.slice(0, 40)];
    }
    return least;
})()"""


@test("a page of one piece: its policy names its own style and script, and allows nothing else")
def _():
    with Place(repository=False) as place:
        eventlog.sample(place.ws).write(place)
        page = read(report(place)).decode()
        policy = re.search('http-equiv="Content-Security-Policy" content="([^"]+)"', page)[1]
        words = dict(part.split(" ", 1) for part in policy.split("; "))
        same(words["default-src"], "'none'", "what is allowed besides")
        for tag, word in (("style", "style-src"), ("script", "script-src")):
            inline = re.findall("<%s>(.*?)</%s>" % (tag, tag), page, re.S)
            same(len(inline), 1, "how many there are of " + tag)
            same(words[word], "'sha256-%s'" % base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode(), word)
        same(re.findall(r'(?:src|href|action)="(?!#|data:,)', page), [], "references")
        same(re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", page), [], "ways to make markup of text")
        check("<h1>npm test</h1>" in page and "exited with 1</p>" in page, "what can be read without the script")
        out = atoll(place, "report", "--html", "-")
        same(out.status, 0, "to standard output")
        same(re.sub('"made":"[^"]+"', "", out.raw_out.decode()), re.sub('"made":"[^"]+"', "", page), "the same page")


@test("where it is written: whole or not at all, and not through a link")
def _():
    with Place(repository=False) as place:
        eventlog.sample(place.ws).write(place)
        target = place.tmp + "/kept"
        write(target, "kept")
        os.symlink(target, place.tmp + "/link.html")
        same(atoll(place, "report", "--html", place.tmp + "/link.html").status, 0, "over a link")
        same(read(target), b"kept", "what the link led to")
        for args, said in ((("--html", "/nowhere/x.html"), "create a temporary file beside"), ((), "--html FILE"), (("zzz", "--html", "-"), "no log of a run"),
                           (("--html", ""), "--html FILE"), (("a", "b", "--html", "-"), "unexpected argument")):
            result = atoll(place, "report", *args)
            check(result.status in (240, 242) and said in result.err and result.err.count("\n") == 1, "%s: %s" % (args, result.err))


@test("in a browser: every section, filters, the timeline, the tree; no word on the console, no request")
def _():
    need_browser()
    with Place(repository=False) as place:
        sample = eventlog.sample(place.ws)
        sample.write(place)
        path = report(place)
        with browser.Browser() as page:
            page.open("file://" + path)
            quiet(page, path)
            same(page.run("[...document.querySelectorAll('main > section')].map((each) => each.id)"), SECTIONS, "sections")
            same(page.run("[...document.querySelectorAll('nav a')].map((each) => each.hash.slice(1))"), SECTIONS, "ways to them")
            same(page.run("document.querySelectorAll('h1').length + [...document.querySelectorAll('section')].filter((s) => !s.querySelector('h2')).length"), 1, "headings")
            same(count_of(page, "table:not(:has(thead th[scope=col]))"), 0, "tables without headings")
            summary = text_of(page, "#summary")
            for part in ("npm test", place.ws, "layer", eventlog.HASH, "70.0 MiB of 2.0 GiB", "weaker", "missing", "watched by pid 1", "accepted: memory, network"):
                check(part in summary, "the summary lacks %r: %s" % (part, summary))
            denials = text_of(page, "#denials")
            for part in ("/etc/hosts", "not a writable place", "--write /etc/hosts", "id_ed25519", "2 times", "ptrace", "processes of 512", "evil.example:443", "--allow evil.example"):
                check(part in denials, "denials lack %r: %s" % (part, denials))
            check("anna" in text_of(page, "#attention") and "download-and-execute" in text_of(page, "#attention"), "flags and approvals")
            check("git hooks" in text_of(page, "#changes details.file"), "what is marked comes first")
            proof = text_of(page, "#proof")
            check("f00dcafe" in proof and "atoll verify k3v7q2ma" in proof and "cm9vdA==" in proof, "the proof: " + proof)

            # connections: sorted, and filtered by verdict
            same(count_of(page, "#connections tbody tr"), 3, "connections")
            click(page, "#connections button", "Allowed")
            same(count_of(page, "#connections tbody tr"), 2, "connections that were not allowed")
            click(page, "#connections button", "Allowed")
            click(page, "#connections th button", "To")
            check("evil.example" in text_of(page, "#connections tbody tr"), "sorted by name")
            same(page.run("document.querySelector('#connections th[aria-sort]').textContent"), "To", "which says so")

            # events: by kind, by text, by the timeline's range
            every = count_of(page, "#events tbody tr")
            same(every, len(sample.lines), "events")
            click(page, "#events button", "None")
            same(count_of(page, "#events tbody tr"), 1, "of none but a kind that is not known")
            click(page, "#events button[data-kind=exec]")
            same(count_of(page, "#events tbody tr"), 6, "with executions")
            page.run("(() => { const it = document.querySelector('#events input'); it.value = 'CURL'; it.dispatchEvent(new Event('input')); })()")
            same(count_of(page, "#events tbody tr"), 1, "that name curl")
            page.run("(() => { const it = document.querySelector('#events input'); it.value = ''; it.dispatchEvent(new Event('input')); })()")
            click(page, "#events button", "All")
            box = page.run("(() => { document.querySelector('#timeline').scrollIntoView({behavior: 'instant'}); const b = document.querySelector('.plot').getBoundingClientRect();"
                           " return [b.left, b.top, b.width, b.height]; })()")
            before = count_of(page, "svg .marks rect")
            page.drag(box[0] + 115, box[1] + 40, box[0] + box[2] * .5)
            check(0 < count_of(page, "#events tbody tr") < every, "events of a part: %d" % count_of(page, "#events tbody tr"))
            check(count_of(page, "svg .marks rect") < before, "marks of a part")
            click(page, "#timeline button", "All")
            same(count_of(page, "#events tbody tr"), every, "all again")
            click(page, "#timeline button[data-lane=programs]")
            same(count_of(page, "svg .lane-programs"), 0, "a row that is switched off")

            # the tree
            check("/usr/bin/curl" in text_of(page, "#processes"), "it is open at first")
            click(page, "#processes button", "Close all")
            check("/usr/bin/curl" not in text_of(page, "#processes"), "closed")
            click(page, "#processes button", "Open all")
            check("evil.example:443 refused" in text_of(page, "#processes"), "open, with what each did")
            same(page.messages, [], "what it said in the end")
            picture = os.environ.get("ATOLL_TEST_PICTURE")
            if picture:
                page.open("file://" + path)
                page.picture(picture)


@test("hostile names in every field are shown as text, and do nothing")
def _():
    need_browser()
    with Place(repository=False) as place:
        sample = eventlog.sample(place.ws, text=EVIL)
        sample.write(place)
        path = report(place)
        raw = read(path)
        same(raw.count(b"</script"), 2, "ends of scripts")
        same(raw.count(b"<!--"), 0, "comments")
        same(raw.count(b"<img") + raw.count(b"<svg"), 0, "elements")
        with browser.Browser() as page:
            page.open("file://" + path)
            for name in ("Open all",):
                click(page, "#processes button", name)
            page.run("[...document.querySelectorAll('details')].forEach((each) => { each.open = true; if (each.fill) each.fill(); })")
            quiet(page, path)
            check(page.run("document.title").startswith("npm 'test</script>"), "the title: " + page.run("document.title"))
            same(page.run("document.querySelectorAll('img, iframe, object, embed, link:not([rel=icon]), main script, main style, svg[onload], textarea').length"), 0,
                 "elements that nobody made")
            same(page.run("[...document.querySelectorAll('*')].flatMap((each) => [...each.attributes]).filter((each) => each.name.startsWith('on')).length"), 0, "handlers")
            for where in ("#denials", "#attention", "#processes", "#connections", "#changes", "#events"):
                check("<img src=x onerror=" in text_of(page, where), "%s shows it as text" % where)
                check("\\x1b[2J" in text_of(page, where) and "\\xff" in text_of(page, where), "%s shows bytes quoted" % where)
                check("\u202e" not in text_of(page, where), "%s turns text" % where)


@test("light and dark, on a desk and on a phone: it can be read, and nothing sticks out")
def _():
    need_browser()
    with Place(repository=False) as place:
        eventlog.sample(place.ws).write(place)
        path = report(place)
        with browser.Browser() as page:
            page.open("file://" + path)
            quiet(page, path)
            for width in (1280, 360):
                page.call("Emulation.setDeviceMetricsOverride", width=width, height=740, deviceScaleFactor=1, mobile=width < 600)
                same(page.run("document.documentElement.scrollWidth"), width, "how wide it is")
                for theme in ("light", "dark"):
                    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
                    least, where = page.run(CONTRAST)
                    check(least >= 4.5, "%s, %d wide: contrast %.2f at %s" % (theme, width, least, where))
            page.call("Emulation.setEmulatedMedia", media="print", features=[])
            same(page.run("getComputedStyle(document.querySelector('nav')).display"), "none", "the ways, on paper")
            check(len(page.call("Page.printToPDF")["data"]) > 20000, "printed")
            same(count_of(page, "details.file:not([open])"), 0, "what is folded, on paper")


@test("100,000 events: the page stays small and quick, and says what it leaves out")
def _():
    need_browser()
    with Place(repository=False) as place:
        eventlog.big(100000, place.ws).write(place)
        path = report(place)
        check(os.path.getsize(path) < 12 << 20, "its size is %d" % os.path.getsize(path))
        with browser.Browser() as page:
            page.open("file://" + path)
            quiet(page, path)
            check(count_of(page, "*") < 12000, "%d elements" % count_of(page, "*"))
            check("of 100,005 are here" in text_of(page, "#events"), "what is left out of events: " + text_of(page, "#events")[:300])
            check("processes of 70,002 are left out here" in text_of(page, "#processes"), "of processes: " + text_of(page, "#processes")[:300])
            check("The first 5,000 of 10,000" in text_of(page, "#connections"), "of connections")
            check("The first 5,000 of 10,000" in text_of(page, "#changes"), "of changes")
            check("250 times" in text_of(page, "#denials"), "the same refusal is told once")
            same(count_of(page, "#events tbody tr"), 100, "a page of events")
            click(page, "#events button", "Next")
            check("101 to 200 of" in text_of(page, "#events"), "the next page")
            click(page, "#processes button", "Open all")
            check(count_of(page, "*") < 60000, "%d elements with the tree open" % count_of(page, "*"))


@test("texts of changed files come from the layer, coloured, and hostile ones are text, too")
def _():
    need_browser()
    need_layers()
    with Place(repository=False) as place:
        write(place.ws + "/a.c", "int a;\nint b;\n")
        place.settle()
        result = run(place, [], ["sh", "-c", "printf 'int a;\\nint c;\\n</pre><img src=x onerror=alert(1)>\\n\\033[2J' >a.c; echo new >b; printf '\\0\\1' >binary"], mode="layer")
        same(result.status, 0, "the run: " + result.err)
        run_id = json.loads(atoll(place, "ls", "--json").out)[0]["id"]
        if not os.path.exists(os.path.join(place.home, ".local/state/atoll/log", run_id + ".jsonl")):
            log = eventlog.Log(run=run_id)
            eventlog.begin(log, place.ws)
            log.add("change", path="a.c", from_=None, change="changed", type="file", mode="0644", size=1, before=None, after=None, mark=None)
            log.add("change", path="b", from_=None, change="added", type="file", mode="0644", size=4, before=None, after=None, mark=None)
            log.add("change", path="binary", from_=None, change="added", type="file", mode="0644", size=2, before=None, after=None, mark=None)
            eventlog.finish(log)
            log.write(place)
        path = report(place, run_id)
        with browser.Browser() as page:
            page.open("file://" + path)
            quiet(page, path)
            same(page.run("[...document.querySelectorAll('#changes .diff .d')].map((each) => each.textContent)"), ["-int b;"], "what went")
            added = page.run("[...document.querySelectorAll('#changes .diff .a')].map((each) => each.textContent)")
            same(added, ["+int c;", "+</pre><img src=x onerror=alert(1)>", "+\\x1b[2J", "+new"], "what came")
            check("+3" in text_of(page, "#changes details"), "how much: " + text_of(page, "#changes details"))


@test("whether the record verifies is looked up when the page is made")
def _():
    with Place() as place:
        same(run(place, [], "true").status, 0, "the run")
        run_id = json.loads(atoll(place, "log", "--list", "--json").out.splitlines()[0])["run"]
        page = read(report(place)).decode()
        check('"finding":"good"' in page, "a good one: %s" % re.findall('"proof":{[^}]+', page))
        path = os.path.join(place.home, ".local/state/atoll/log", run_id + ".jsonl")
        text = read(path)
        write(path, text.replace(b'"status":0', b'"status":1'))
        page = read(report(place)).decode()
        check('"finding":"broken"' in page, "one that was changed: %s" % re.findall('"proof":{[^}]+', page))


@test("a log without an end, without a step, with bad lines: the page says so")
def _():
    with Place(repository=False) as place:
        log = eventlog.Log()
        log.add("open", step=0, schema=1, atoll="0.1.0", store="5eed", key="f00d", boot="b", what="run", parent=None)
        path = log.write(place)
        page = read(report(place, log.run)).decode()
        check("No step has begun" in page and "has not ended" in page, "an empty log")
        with open(path, "ab") as file:
            file.write(b"{broken\n{\"half")
        page = read(report(place, log.run)).decode()
        check('"bad_lines":1' in page and '"half_line":true' in page, "bad lines")


main()
