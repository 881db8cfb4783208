#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 72
"""What is written down of a run or a sandbox: the events, when they are written, and what if they cannot be."""

import hashlib
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *


def state(place, env=None):
    return os.path.join((env or {}).get("XDG_STATE_HOME", place.home + "/.local/state"), "atoll")


def logs(place, env=None):
    where = state(place, env) + "/log"
    names = os.listdir(where) if os.path.isdir(where) else []
    return sorted(name[:-6] for name in names if name.endswith(".jsonl") and name != "runs.jsonl")


def lines(place, run_id, env=None, whole=True):
    """The events of a log. Each line has to name the hash of the one before it, as doc/events.md says."""
    with open("%s/log/%s.jsonl" % (state(place, env), run_id), "rb") as file:
        data = file.read()
    check(not whole or data.endswith(b"\n"), "the last line is cut")
    events, prev = [], "0" * 64
    for number, line in enumerate(data.split(b"\n")[:-1]):
        event = json.loads(line)
        same((event["prev"], event["seq"], event["run"]), (prev, number, run_id), "line %d" % number)
        prev = hashlib.sha256(b"\0" + line).hexdigest()
        events.append(event)
    return events


def recorded(place, flags, command, env=None, **options):
    """Run it: the result, and the events of its log."""
    before = set(logs(place, env))
    result = run(place, flags, command, env=env, **options)
    fresh = set(logs(place, env)) - before
    same(len(fresh), 1, "new logs")
    return result, lines(place, fresh.pop(), env)


def of(events, kind):
    return [event for event in events if event["kind"] == kind]


def one(events, kind):
    found = of(events, kind)
    same(len(found), 1, "events of kind " + kind)
    return found[0]


def digest(data):
    return "sha256:" + hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def told(result):
    """The last line of --json."""
    return json.loads(result.err.splitlines()[-1])


# ---- a run -----------------------------------------------------------------------------------------------------------

@test("a run leaves a log from its first line to a signed head, and the result names it")
def _():
    with Place() as place:
        result, events = recorded(place, ["--json", "--env", "COLOUR=blue"], inside_sh("exit 3"))
        same([event["kind"] for event in events if event["kind"] not in ("exec", "denial")], ["open", "start", "end", "head"], "kinds")
        same(told(result)["run"], events[0]["run"], "the result's id")
        begin, end, head = one(events, "start"), one(events, "end"), events[-1]
        same((begin["argv"][-2:], begin["cwd"], begin["workspace"], begin["mode"]), (["exit 3", "sh"], place.ws, place.ws, "direct"), "start")
        same((begin["user"], begin["job"], begin["tier"]), (os.getuid(), None, "process"), "start")
        check("COLOUR" in begin["env"] and "blue" not in json.dumps(begin), "variables: %s" % begin["env"])
        same(begin["contract"], "sha256:" + told(result)["contract"], "the contract's digest")
        same({line["strength"] for line in begin["mechanisms"]} - {"weaker"}, {"enforced"}, "strengths")
        check(any(line["clause"] == "limits.memory" for line in begin["mechanisms"]), "no mechanism of a limit")
        same((end["end"], end["code"], end["status"], end["step"]), ("exited", 3, 3, 1), "end")
        check(end["usage"]["wall_ms"]["limit"] and end["usage"]["memory"]["used"] > 0, "usage: %s" % end["usage"])
        same((head["size"], head["last"]), (len(events) - 1, True), "head")


@test("record: off leaves nothing, steps nothing of what is inside, by flag and by file")
def _():
    with Place() as place:
        command = inside_sh("/bin/echo x; ls / >/dev/null")
        write(place.base + "/job.yaml", "version: 1\naudit: {record: off}\n")
        for how in (["--record", "off"], ["-f", place.base + "/job.yaml"]):
            result = run(place, ["--json", *how], command)
            same((logs(place), told(result)["run"]), ([], None), "logs with %s" % how)
        _, events = recorded(place, ["--record", "steps"], command)
        same([event["kind"] for event in events], ["open", "start", "output", "end", "head"], "kinds with steps")
        _, events = recorded(place, [], command)
        check(len(of(events, "exec")) >= 2, "full has no programs")


@test("a job file from the workspace cannot ask for less than the full record by itself")
def _():
    with Place() as place:
        place.expect("job.yaml")
        for word in ("off", "steps"):
            write(place.ws + "/job.yaml", "command: [touch, made]\naudit: {record: %s}\n" % word)
            result = atoll(place, "run", "-f", "job.yaml")
            same(result.status, 241, "status with " + word)
            check("audit.record %s" % word in result.err, "not told: " + result.err)
        same(logs(place), [], "logs")


@test("the start is written before the command is let go")
def _():
    with Place() as place:
        place.expect("began")
        running = start(place, [], inside_sh("touch began; sleep 600"))
        wait_file(place, "began")
        name = logs(place)[0]
        same([event["kind"] for event in lines(place, name, whole=False)][:2], ["open", "start"], "the log meanwhile")
        running.kill(signal.SIGTERM)


@test("each program is told of with its arguments, its parent and the hash of its file")
def _():
    with Place() as place:
        script = inside_sh("/bin/echo a 'b c'; sh ./script x; true; exit 0")
        write(place.ws + "/script", "#!/bin/sh\n/bin/echo deep\n", 0o755)
        place.settle()
        for _ in range(2):  # read, and from the cache
            _, events = recorded(place, [], script)
            found = of(events, "exec")
            echo = [event for event in found if event["argv"] == ["/bin/echo", "a", "b c"] or event["argv"][1:] == ["a", "b c"]]
            same(len(echo), 1, "echo among %s" % [event["argv"] for event in found])
            same(echo[0]["hash"], digest(open(os.path.realpath("/bin/echo"), "rb").read()), "its hash")
            shell = [event for event in found if event["pid"] == echo[0]["parent"]]
            check(shell and all(event["hash"] for event in found), "parents or hashes: %s" % found)
        check(os.path.getsize(state(place) + "/log/hashes") > 0, "no cache")


@test("a cache of hashes that is damaged, or that says something wrong without its sum, changes nothing")
def _():
    with Place() as place:
        recorded(place, [], inside_sh("/bin/echo x"))
        path = state(place) + "/log/hashes"
        data = bytearray(open(path, "rb").read())
        for harm in (bytes(len(data)), bytes(x ^ 1 if i % 80 == 50 else x for i, x in enumerate(data)), b"short", b"\xff" * 4000):
            with open(path, "wb") as file:
                file.write(harm)
            _, events = recorded(place, [], inside_sh("/bin/echo x"))
            hashes = {event["hash"] for event in of(events, "exec") if event["path"].endswith("/echo")}
            same(hashes, {digest(open(os.path.realpath("/bin/echo"), "rb").read())}, "hash")


@test("a program that is changed again and again has its own hash each time, or none")
def _():
    with Place() as place:
        place.expect("prog")
        script = "for i in 1 2 3; do cp /bin/true prog; printf $i >>prog; ./prog || :; done"
        _, events = recorded(place, [], inside_sh(script))
        base = open(os.path.realpath("/bin/true"), "rb").read()
        found = [event for event in of(events, "exec") if event["path"].endswith("/prog")]
        right = [digest(base + b"%d" % i) for i in (1, 2, 3)]
        same([event["hash"] or event["why"] and wanted for event, wanted in zip(found, right)], right, "hashes")
        same(found[2]["hash"], right[2], "the last, which nobody changed any more")


@test("what looks like a secret is not in the log")
def _():
    with Place() as place:
        words = ["--password", place.secret, "https://user:%s@host.invalid/x" % place.secret, "TOKEN=" + place.secret]
        recorded(place, ["--env", "API_KEY=" + place.secret], ["/bin/true", *words])
        for name in os.listdir(state(place) + "/log"):
            check(place.secret.encode() not in open(state(place) + "/log/" + name, "rb").read(), "a secret in " + name)


@test("names that are hostile stay one line of valid JSON each")
def _():
    with Place() as place:
        need_layers()
        evil = "a\n{\"kind\":\"end\"}\x1b[31m\u202e\"\\"
        code = "import os; open(%r, 'w'); open(b'\\xff\\xfe', 'w')" % evil
        result, events = recorded(place, [], ["/usr/bin/python3", "-I", "-S", "-c", code], mode="layer")
        check({event["path"] for event in of(events, "change")} == {evil, "\udcff\udcfe"}, "paths: %s" % of(events, "change"))
        same(len(of(events, "end")), 1, "ends")


@test("what was refused is told with the rule, and with what would allow it")
def _():
    with Place() as place:
        result, events = recorded(place, ["--json"], "echo x >.git/hooks/h; cat %s/canary; cat %s/canary" % (place.out, place.out))
        found = {(event["action"], event["object"]): event for event in of(events, "denial")}
        hook = found[("create", place.ws + "/.git/hooks/h")]
        same((hook["rule"], hook["count"]), ("git hooks", 1), "the hook")
        same(one(events, "end")["denials"], sum(event["count"] for event in of(events, "denial")), "how many")
        outside = [event for key, event in found.items() if key[1] == place.out + "/canary"]
        check(outside and outside[0]["allow"] == "--read %s/canary" % place.out, "a read outside: %s" % outside)
        denials = told(result)["denials"]
        check(any(denial["allow"] == outside[0]["allow"] for denial in denials), "not in the result: %s" % denials)
        text = run(place, [], "cat %s/canary" % place.out)
        check("allow with --read %s/canary" % place.out in text.err and "recorded as " in text.err, "not for people: " + text.err)
        same(run(place, [], "exit 0").err, "", "said where there is nothing to say")


@test("a changed file is told of with what it was and what it has become, and with its mark")
def _():
    with Place() as place:
        need_layers()
        write(place.ws + "/old", "one\n")
        write(place.ws + "/gone", "two\n")
        write(place.ws + "/moved", "three" * 100)
        place.settle()
        script = "echo more >>old; rm gone; mkdir d; echo new >d/n; ln -s n d/l; mv moved d/moved; chmod 600 README.md; echo x >.git/hooks/pre-commit"
        result, events = recorded(place, ["--json"], script, mode="layer")
        found = {event["path"]: event for event in of(events, "change")}
        same((found["old"]["change"], found["old"]["before"], found["old"]["after"]), ("changed", digest("one\n"), digest("one\nmore\n")), "old")
        same((found["gone"]["change"], found["gone"]["before"], found["gone"]["after"]), ("deleted", digest("two\n"), None), "gone")
        same((found["d/n"]["change"], found["d/n"]["before"], found["d/n"]["after"]), ("added", None, digest("new\n")), "new")
        same((found["d"]["type"], found["d/l"]["type"], found["d/l"]["after"]), ("directory", "link", digest("n")), "types")
        same((found["d/moved"]["change"], found["d/moved"]["from"]), ("renamed", "moved"), "moved")
        same((found["README.md"]["mode"], found["README.md"]["before"]), ("0600", found["README.md"]["after"]), "mode")
        same(found[".git/hooks/pre-commit"]["mark"], "git hooks", "mark")
        same(one(events, "end")["changes"]["marked"], 1, "marked")
        same(told(result)["record"], events[0]["run"], "log and record have one id")


@test("in direct mode, too")
def _():
    with Place() as place:
        place.expect("n", "d")
        write(place.ws + "/old", "one\n")
        write(place.ws + "/gone", "two\n")
        place.settle()
        _, events = recorded(place, [], "echo more >>old; rm gone; echo new >n; echo x >t; rm t; mkdir d; mv n d/m")
        found = {event["path"].replace(place.ws + "/", ""): event for event in of(events, "change")}
        same((found["old"]["change"], found["old"]["before"], found["old"]["after"]), ("changed", digest("one\n"), digest("one\nmore\n")), "old")
        same((found["gone"]["change"], found["gone"]["before"]), ("deleted", digest("two\n")), "gone")
        same((found["d/m"]["change"], found["d/m"]["after"]), ("added", digest("new\n")), "made and renamed")
        check("t" not in found and "n" not in found, "what came and went: %s" % sorted(found))


# More than one part of what is read at a time, and all that is not read in the quick way: what shuts its owner out, links, what is larger
# than a buffer or just as large.
MANY = """
import os
sizes = [0, 1, 65535, 65536, 65537, 200000]
for i in range(1300):
    d = 'd%02d' % (i % 13)
    os.makedirs(d, exist_ok=True)
    with open('%s/f%04d' % (d, i), 'wb') as file:
        file.write(b'%d,' % i * (sizes[i % 6] // 5 + 1) if i < 60 else b'%d' % i)
for i in range(0, 1300, 100):
    os.chmod('d%02d/f%04d' % (i % 13, i), 0)
for i in range(40):
    os.remove('old/%d' % i) if i % 2 else open('old/%d' % i, 'a').write('more')
os.symlink('nowhere', 'link')
"""


def many():
    """{path: what it holds after MANY}"""
    sizes = [0, 1, 65535, 65536, 65537, 200000]
    return {"d%02d/f%04d" % (i % 13, i): b"%d," % i * (sizes[i % 6] // 5 + 1) if i < 60 else b"%d" % i for i in range(1300)}


def check_many(found):
    for path, content in many().items():
        same((found[path]["change"], found[path]["before"], found[path]["after"]), ("added", None, digest(content)), path)
    for i in range(40):
        before, after = digest("x" * i), None if i % 2 else digest("x" * i + "more")
        same((found["old/%d" % i]["before"], found["old/%d" % i]["after"]), (before, after), "old/%d" % i)
    same(found["link"]["after"], digest("nowhere"), "the link")
    same([path for path in found if "why" in found[path]], [], "what could not be read")


@test("of very many changed files each is told of, in order and with its own hashes, whoever has read it")
def _():
    with Place() as place:
        need_layers()
        os.mkdir(place.ws + "/old")
        for i in range(40):
            write(place.ws + "/old/%d" % i, "x" * i)
        place.settle()
        shut = MANY + "os.chmod('d05', 0)"
        result, events = recorded(place, [], ["/usr/bin/python3", "-I", "-S", "-c", shut], mode="layer")
        paths = [event["path"] for event in of(events, "change")]
        same(paths, sorted(paths), "the order")
        check_many({event["path"]: event for event in of(events, "change")})
        same(atoll(place, "verify", events[0]["run"]).status, 0, "verify")


@test("of very many files changed directly, too")
def _():
    with Place() as place:
        place.expect("old", "link", *("d%02d" % i for i in range(13)))
        os.mkdir(place.ws + "/old")
        for i in range(40):
            write(place.ws + "/old/%d" % i, "x" * i)
        place.settle()
        # Also the supervisor cannot read what shuts it out, unless it is root.
        code = MANY.replace("i), 0)", "i), 0o600)") if os.getuid() else MANY
        _, events = recorded(place, [], ["/usr/bin/python3", "-I", "-S", "-c", code])
        paths = [event["path"] for event in of(events, "change")]
        same(paths, sorted(paths), "the order")
        check_many({path[len(place.ws) + 1:]: event for path, event in zip(paths, of(events, "change"))})


@test("a connection is told of, with its verdict")
def _():
    with Place() as place:
        code = "import urllib.request\ntry: urllib.request.urlopen('http://name.invalid/x?y=z', timeout=20)\nexcept OSError: pass"
        _, events = recorded(place, ["--allow", "other.invalid"], ["/usr/bin/python3", "-I", "-c", code])
        event = one(events, "connection")
        same((event["name"], event["port"], event["verdict"], event["count"]), ("name.invalid", 80, "refused", 1), "connection")
        same(one(events, "end")["connections"], 1, "how many")


@test("a limit that ends a run is told of")
def _():
    with Place() as place:
        _, events = recorded(place, ["--timeout", "300ms"], ["sleep", "600"])
        event, end = one(events, "limit"), one(events, "end")
        same((event["limit"], event["value"], end["end"], end["status"]), ("wall", 300, "timed-out", 243), "limit")


@test("of output there is the hash, and its content if the contract says so")
def _():
    with Place() as place:
        script = "printf 'out\\0\\033[31m'; printf err >&2; printf more"
        _, events = recorded(place, [], script)
        found = {event["stream"]: event for event in of(events, "output")}
        same((found["stdout"]["bytes"], found["stdout"]["hash"], found["stdout"]["kept"]), (13, digest("out\0\033[31mmore"), False), "stdout")
        same((found["stderr"]["bytes"], found["stderr"]["hash"]), (3, digest("err")), "stderr")
        check(not any(name.endswith((".out", ".err")) for name in os.listdir(state(place) + "/log")), "kept anyway")
        _, events = recorded(place, ["--keep-output"], script)
        where = "%s/log/%s" % (state(place), events[0]["run"])
        same((open(where + ".out", "rb").read(), open(where + ".err", "rb").read()), (b"out\0\033[31mmore", b"err"), "content")
        same(os.stat(where + ".out").st_mode & 0o777, 0o600, "mode")
        check(all(event["kept"] for event in of(events, "output")), "not said")


@test("a command that does not exist, and one that a signal ends")
def _():
    with Place() as place:
        _, events = recorded(place, [], ["/no/such/program"])
        same((one(events, "end")["end"], one(events, "end")["status"]), ("not-started", 127), "not there")
        _, events = recorded(place, [], inside_sh("kill -KILL $$"))
        same((one(events, "end")["end"], one(events, "end")["code"]), ("signaled", 9), "signal")


# ---- what is decided later --------------------------------------------------------------------------------------------

@test("apply, undo and discard are written down with who did it")
def _():
    with Place() as place:
        need_layers()
        place.expect("n")
        result, events = recorded(place, ["--json"], "echo x >n", mode="layer")
        name = events[0]["run"]
        for command in ("apply", "undo", "discard"):
            same(atoll(place, command, name).status, 0, "status of " + command)
        found = of(lines(place, name), "approval")
        same([event["about"] for event in found], ["apply", "undo", "discard"], "about")
        same({event["who"]["uid"] for event in found}, {os.getuid()}, "who")
        same(lines(place, name)[-1]["kind"], "head", "the last line")
        same(atoll(place, "verify", name).status, 0, "verify")


def outcomes(place, name):
    return [(event["about"], event["result"], event.get("files"), event.get("held"), event.get("conflicts"))
            for event in of(lines(place, name), "outcome")]


@test("what became of an apply, an undo and a discard is written down behind who decided it")
def _():
    with Place() as place:
        need_layers()
        place.expect("n", "m")
        name = recorded(place, [], "echo x >n; echo y >m; echo z >f; mkdir .vscode; echo '{}' >.vscode/tasks.json", mode="layer")[1][0]["run"]
        same(atoll(place, "apply", "--dry-run", name).status, 0, "a dry run")
        same(outcomes(place, name), [], "of a dry run")
        same(atoll(place, "undo", name).status, BAD_REQUEST, "an undo of nothing")
        write(place.ws + "/f", "the host's\n")
        same(atoll(place, "apply", name).status, POLICY, "with a conflict")
        same(atoll(place, "apply", "--force", name).status, 0, "forced")
        write(place.ws + "/n", "the host's\n")
        same(atoll(place, "undo", name).status, POLICY, "undo with a conflict")
        same(atoll(place, "undo", "--force", name).status, 0, "undo")
        same(atoll(place, "discard", name).status, 0, "discard")
        place.settle()
        applied = outcomes(place, name)[2][2]
        check(applied >= 3, "files: %d" % applied)
        same(outcomes(place, name), [("undo", "failed", 0, 0, 0), ("apply", "conflict", 0, 2, 1), ("apply", "applied", applied, 2, 0),
                                     ("undo", "conflict", 0, 0, 1), ("undo", "undone", applied, 0, 0), ("discard", "discarded", None, None, None)],
             "what became of each")
        events = lines(place, name)
        same([event["kind"] for event in events if event["kind"] in ("approval", "outcome")], ["approval", "outcome"] * 6, "in order")
        why = [event["why"] for event in of(events, "outcome")]
        among("nothing of record %s is applied" % name, why[0], "why it failed")
        among("'f': ", why[1], "which conflict")
        same((why[2], why[4], why[5]), (None, None, None), "nothing else has a reason")
        same(atoll(place, "verify", name).status, 0, "verify")
        shown = atoll(place, "log", name, "--kind", "outcome").out
        among("apply: conflict, 2 held back, 1 conflict: nothing was applied", shown, "atoll log")
        among("apply: applied, %d files, 2 held back" % applied, shown, "atoll log")


@test("an apply that was killed has its outcome written down by whoever goes on with it")
def _():
    if IS_SANITIZED:
        skip("a build without sanitizers, which cannot be traced")
    need("strace")
    with Place() as place:
        need_layers()
        place.expect("n", "m")
        name = recorded(place, [], "echo x >n; echo y >m", mode="layer")[1][0]["run"]
        seen = []
        for number in range(1, 40):
            n = len(outcomes(place, name))
            argv = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=fsync,syncfs,fdatasync,renameat2",
                    "-e", "inject=fsync,syncfs,fdatasync,renameat2:signal=KILL:when=%d" % number, ATOLL, "apply", name]
            if Running(place, argv, starts=False).wait().status == 0:
                break
            same(len(outcomes(place, name)), n, "outcomes of one that was killed")
            had = os.path.exists("%s/records/%s/journal" % (state(place), name))
            same(atoll(place, "apply", "--dry-run", name).status, 0, "the next one")
            late = of(lines(place, name), "outcome")[n:]
            same([(event["about"], event["late"]) for event in late], [("apply", True)] * had, "what it tells, killed at %d" % number)
            for event in late:
                is_done = os.path.exists(place.ws + "/n")
                same((event["result"], event["files"]), ("applied", 2) if is_done else ("failed", 0), "killed at %d" % number)
                seen.append(event["result"])
            if os.path.exists(place.ws + "/n"):
                same(atoll(place, "undo", name).status, 0, "undo")
        same(set(seen), {"applied", "failed"}, "what was seen")
        same(atoll(place, "verify", name).status, 0, "verify")


# ---- a sandbox --------------------------------------------------------------------------------------------------------

@test("the steps of a sandbox have one log and are numbered, and so it goes on after its holder was killed")
def _():
    with Place() as place:
        need_layers()
        name = atoll(place, "create").out.strip()
        try:
            for script, status in (("echo a >a; echo hi", 0), ("echo b >b; exit 3", 3)):
                same(atoll(place, "exec", name, "--", *inside_sh(script)).status, status, script)
            same(atoll(place, "checkpoint", name, "c").status, 0, "checkpoint")
            holder = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if cmdline(pid) == "atoll-hold " + name and comm(pid) == "atoll-hold"]
            same(len(holder), 1, "holders")
            os.kill(holder[0], signal.SIGKILL)
            until(lambda: not os.path.exists("/proc/%d" % holder[0]) or cmdline(holder[0]) == "")
            same(atoll(place, "exec", name, "--", *inside_sh("rm b; echo c >c")).status, 0, "the third")
            same(atoll(place, "rollback", name, "c").status, 0, "rollback")
            forked = atoll(place, "fork", name, "c").out.split()
        finally:
            for each in [name] + (forked if "forked" in locals() else []):
                atoll(place, "rm", "--force", each)
        events = lines(place, name)
        same([event["step"] for event in of(events, "start")], [1, 2, 3], "steps")
        same([(event["step"], event["status"]) for event in of(events, "end")], [(1, 0), (2, 3), (3, 0)], "ends")
        same([(event["step"], event["path"]) for event in of(events, "change") if event["change"] == "added"], [(1, "a"), (2, "b"), (3, "c")], "changes")
        same(one(events, "output")["hash"], digest("hi\n"), "output")
        same([event["kind"] for event in events if event["kind"] in ("checkpoint", "rollback", "fork", "remove")],
             ["checkpoint", "rollback", "fork", "remove"], "turns")
        same(lines(place, forked[0])[0]["parent"], name + "/c", "the fork's parent")
        for each in (name, forked[0]):
            same(atoll(place, "verify", each).status, 0, "verify of " + each)


def changes_of(place, name):
    """Files that were changed, as (step, path), in the order in which that is told."""
    return [(event["step"], event["path"]) for event in of(lines(place, name), "change") if not event["path"].endswith("/")]


@contextlib.contextmanager
def sandbox(place, *flags):
    name = atoll(place, "create", *flags).out.strip()
    try:
        yield name
    finally:
        atoll(place, "rm", "--force", name)


@test("a change is told once, with its step, through checkpoints and rollbacks")
def _():
    with Place() as place:
        need_layers()
        with sandbox(place) as name:
            def step(script):
                same(atoll(place, "exec", name, "--", *inside_sh(script)).status, 0, script)

            step("echo a >a")
            same(atoll(place, "checkpoint", name, "one").status, 0, "checkpoint")
            step("true")
            step("echo more >>a; echo b >b")
            step("true")
            same(atoll(place, "rollback", name, "one").status, 0, "rollback")
            step("true")
            step("echo c >c")
            same(atoll(place, "checkpoint", name, "two").status, 0, "checkpoint")
            same(atoll(place, "rollback", name, "one").status, 0, "rollback")
            step("echo again >>a")
            same(changes_of(place, name), [(1, "a"), (3, "a"), (3, "b"), (6, "c"), (7, "a")], "changes")


@test("what is written after the end of its step is told with the next one, also if a checkpoint came between")
def _():
    with Place() as place:
        need_layers()
        with sandbox(place) as name:
            script = "echo a >a; (until [ -e go ]; do sleep .01; done; echo late >late; echo >done) </dev/null >/dev/null 2>&1 &"
            same(atoll(place, "exec", name, "--", *inside_sh(script)).status, 0, "the first")
            same(atoll(place, "exec", name, "--", *inside_sh("echo >go; until [ -e done ]; do sleep .01; done; rm done")).status, 0, "the second")
            same(atoll(place, "exec", name, "--", *inside_sh("(until [ -e gone ]; do sleep .01; done; echo later >later) "
                                                             "</dev/null >/dev/null 2>&1 & (sleep .3; echo >gone) </dev/null >/dev/null 2>&1 &")).status,
                 0, "the third")
            until(lambda: "later" in atoll(place, "diff", name, "--name-only").out.split())
            same(atoll(place, "checkpoint", name, "one").status, 0, "checkpoint")
            same(changes_of(place, name), [(1, "a"), (2, "go"), (2, "late")], "before")
            for _ in range(2):
                same(atoll(place, "exec", name, "--", "/bin/true").status, 0, "another")
            same(changes_of(place, name), [(1, "a"), (2, "go"), (2, "late"), (4, "gone"), (4, "later")], "after")


@test("layers that are joined, because there are too many, are not told again")
def _():
    with Place() as place:
        need_layers()
        with sandbox(place) as name:
            for i in range(50):
                same(atoll(place, "exec", name, "--", *inside_sh("echo >f%d" % i)).status, 0, "step %d" % i)
                same(atoll(place, "checkpoint", name, "c%d" % i).status, 0, "checkpoint %d" % i)
            same(changes_of(place, name), [(i + 1, "f%d" % i) for i in range(50)], "changes")


@test("nor are they with a checkpoint after each step, and what no step has told is not forgotten when they are joined")
def _():
    with Place() as place:
        need_layers()
        with sandbox(place, "--checkpoints", "every-step") as name:
            scripts = ["echo %d >f%d; echo >>g" % (i, i) for i in range(60)]
            scripts[3], scripts[5] = "mkdir d; echo >d/e; ln -s f0 l; rm README.md", "mv src/a.c src/b.c; chmod 600 f0; ln f1 h"
            wanted = [(i + 1, file) for i in range(60) if i not in (3, 5) for file in ("f%d" % i, "g")]
            for script in scripts:
                same(atoll(place, "exec", name, "--", *inside_sh(script)).status, 0, script)
            told = changes_of(place, name)
            same(sorted(one for one in told if one[0] not in (4, 6)), sorted(wanted), "changes")
            # Where nothing goes on a checkpoint copies nothing: the top becomes a layer. Else there would be none to join.
            top = "%s/records/%s/top" % (state(place), name)
            same([os.path.join(where, file) for where, _, files in os.walk(top) for file in files if file in ("g", "f59")], [], "files in the top")
            check({"d/e", "l", "README.md"} <= {path for number, path in told if number == 4}, "the fourth: %s" % told[:12])
        with sandbox(place) as name:
            for i in range(48):
                same(atoll(place, "exec", name, "--", *inside_sh("echo >f%d" % i)).status, 0, "step %d" % i)
                same(atoll(place, "checkpoint", name, "c%d" % i).status, 0, "checkpoint %d" % i)
            late = "(until [ -e go ]; do sleep .01; done; echo late >late) </dev/null >/dev/null 2>&1 & (sleep .3; echo >go) </dev/null >/dev/null 2>&1 &"
            same(atoll(place, "exec", name, "--", *inside_sh(late)).status, 0, "the one that goes on")
            check(until(lambda: "late" in atoll(place, "diff", name, "--name-only").out.split()), "it does not write")
            for at in "xyz":
                same(atoll(place, "checkpoint", name, at).status, 0, "checkpoint")
            same(atoll(place, "exec", name, "--", "/bin/true").status, 0, "another")
            same(changes_of(place, name)[48:], [(50, "go"), (50, "late")], "after")


def comm(pid):
    with contextlib.suppress(OSError):
        return open("/proc/%d/comm" % pid).read().strip()
    return ""


def cmdline(pid):
    with contextlib.suppress(OSError):
        return open("/proc/%d/cmdline" % pid, "rb").read().split(b"\0")[0].decode("utf-8", "replace")
    return ""


@test("a decision about a sandbox that is live is written by its holder, and nobody waits for it")
def _():
    with Place() as place:
        need_layers()
        place.expect("a")
        name = atoll(place, "create").out.strip()
        try:
            atoll(place, "exec", name, "--", *inside_sh("echo a >a; sleep 600 >/dev/null 2>&1 &"))
            same(atoll(place, "apply", name).status, 0, "apply")
            same(one(lines(place, name), "approval")["about"], "apply", "approval")
            same(outcomes(place, name), [("apply", "applied", 1, 0, 0)], "what became of it")
            write(place.ws + "/a", "the host's\n")
            same(atoll(place, "undo", name).status, POLICY, "undo")
            same(outcomes(place, name)[1:], [("undo", "conflict", 0, 0, 1)], "what became of that")
        finally:
            atoll(place, "rm", "--force", name)


# ---- if it cannot be written -------------------------------------------------------------------------------------------

@test("without a place for the log nothing is run, in one line that says what to do; with --record off it is")
def _():
    with Place() as place:
        write(place.base + "/file")
        env = {"XDG_STATE_HOME": place.base + "/file"}
        result = atoll(place, "run", "--", "touch", "made", env=env)
        check(result.status in (241, 242) and len(result.err.splitlines()) == 1, "status and lines")
        check("--record off" in result.err and "record" in result.err, "what to do: " + result.err)
        place.expect("made")
        same(run(place, ["--record", "off"], ["touch", "made"], env=env).status, 0, "without a record")


@contextlib.contextmanager
def small_disk(place, size):
    """A file system of so many KiB for the store, gone with the block."""
    need_root()
    leave_mounts()
    where = place.base + "/disk"
    os.mkdir(where, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dk,mode=700" % size, "atoll-test", where], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=True)


def filled(where, pages=12):
    """Fill it but for so many pages; the file to remove."""
    path = where + "/filler"
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    os.truncate(path, os.path.getsize(path) - pages * 4096)
    return path


def states(pid):
    """Of all processes beneath."""
    found = []
    for child in children(pid):
        with contextlib.suppress(OSError):
            found.append(open("/proc/%d/stat" % child).read().rsplit(")", 1)[1].split()[0])
        found += states(child)
    return found


BUSY = "i=0; while test $i -lt %d; do /bin/true --some-long-argument-to-fill-the-disk-sooner-%s; i=$((i+1)); done; echo end"


@test("a full disk stops everything, and space lets it go on: nothing is missing")
def _():
    with Place() as place:
        with small_disk(place, 1024) as where:
            env = {"XDG_STATE_HOME": where}
            run(place, [], "exit 0", env=env)
            filler = filled(where)
            running = start(place, ["--json"], BUSY % (200, "x" * 200), env=env)
            # Everything but the first process, which the kernel lets nobody stop.
            check(until(lambda: "T" in states(running.pid)), "nothing was stopped: %s" % states(running.pid))
            os.unlink(filler)
            result = running.wait()
            same((result.status, result.out), (0, "end\n"), "the end")
            check("everything inside is stopped" in result.err and "goes on" in result.err, "not told: " + result.err)
            check("stood still" in told(result)["record_note"], "not in the result")
            events = lines(place, told(result)["run"], env)
            same(len([event for event in of(events, "exec") if event["path"].endswith("/true")]), 200, "programs")
            same([one(events, kind)["why"] for kind in ("stopped", "resumed")], ["disk full"] * 2, "why")
            same(atoll(place, "verify", told(result)["run"], env=env).status, 0, "verify")


@test("a full disk, and Ctrl-C")
def _():
    with Place() as place:
        with small_disk(place, 1024) as where:
            env = {"XDG_STATE_HOME": where}
            run(place, [], "exit 0", env=env)
            before = set(logs(place, env))
            filled(where)
            running = start(place, [], BUSY % (1000000, "x" * 200), env=env)
            check(until(lambda: "T" in states(running.pid)), "nothing was stopped")
            result = running.kill(signal.SIGINT)
            same(result.status, -signal.SIGINT, "status")
            check("not complete" in result.err or "stood still" in result.err, "not told: " + result.err)
            name = (set(logs(place, env)) - before).pop()
            check(lines(place, name, env, whole=False), "no line is left")


@test("a full disk at the start refuses the run")
def _():
    with Place() as place:
        with small_disk(place, 256) as where:
            env = {"XDG_STATE_HOME": where}
            run(place, [], "exit 0", env=env)
            filled(where, 0)
            result = atoll(place, "run", "--", "touch", "made", env=env)
            same((result.status, len(result.err.splitlines())), (242, 1), "status and lines: " + result.err)
            check("No space left" in result.err and "--record off" in result.err, "why: " + result.err)
            same(len(logs(place, env)), 1, "logs")


@test("a step whose beginning finds no room is refused before it runs, and the record says so when there is room")
def _():
    with Place() as place:
        with small_disk(place, 2048) as where:
            env = {"XDG_STATE_HOME": where}
            # Else the watch of the disk may end what runs before the record finds no room.
            name = atoll(place, "create", "--disk", "unlimited", env=env).out.strip()
            try:
                def step(n):
                    return atoll(place, "exec", name, "--", *inside_sh("echo $1 >>/dev/shm/ran", str(n), "x" * 900), env=env)
                same(step(0).status, 0, "with room")
                filler = filled(where, 0)
                for n in range(1, 60):  # there may be room in the last page
                    result = step(n)
                    if result.status:
                        break
                check(result.status == 242 and "No space left" in result.err, "it was not refused: %s %s" % (result.status, result.err))
                os.unlink(filler)
                check(until(lambda: step("later").status == 0), "it is not possible with room again")
                ran = atoll(place, "exec", name, "--", "/bin/cat", "/dev/shm/ran", env=env).out.split()
                check(str(n) not in ran, "what was refused has run: %s" % ran)
                events = lines(place, name, env)
                ends = {event["step"]: event for event in of(events, "end")}
                refused = [event["step"] for event in of(events, "start") if event["argv"][-2:-1] == [str(n)]]
                for number in refused:
                    same((ends[number]["end"], "No space left" in ends[number]["note"]), ("not-started", True), "how it ended")
                same(sorted(ends), sorted(event["step"] for event in of(events, "start")), "beginnings and ends")
                same(len(refused), 1, "that it was refused is written")
                atoll(place, "rm", "--force", name, env=env)
                same(atoll(place, "verify", name, env=env).status, 0, "verify")
            finally:
                atoll(place, "rm", "--force", name, env=env)


@test("kill -9 leaves a log that is good as far as it goes")
def _():
    with Place() as place:
        place.expect("began")
        running = start(place, [], inside_sh("for i in 1 2 3 4 5; do /bin/true; done; touch began; sleep 600"))
        wait_file(place, "began")
        name = logs(place)[0]
        check(until(lambda: len(of(lines(place, name, whole=False), "exec")) >= 6), "programs are not written meanwhile")
        running.kill()
        events = lines(place, name)
        same([event["kind"] for event in events][:2], ["open", "start"], "the beginning")
        same(of(events, "end"), [], "an end")
        result = atoll(place, "verify", name)
        check("changed" not in result.err and result.status in (0, 1, 2, 3), "verify: %d %s" % (result.status, result.err))


@test("gc removes logs by age and size, and says so; those of what is kept stay")
def _():
    with Place() as place:
        old = recorded(place, [], "exit 0")[1][0]["run"]
        young = recorded(place, [], "exit 0")[1][0]["run"]
        path = "%s/log/%s.jsonl" % (state(place), old)
        os.utime(path, (time.time() - 91 * 86400,) * 2)
        result = atoll(place, "gc", "--dry-run")
        check(old in result.out and young not in result.out, "the list: " + result.out)
        check(os.path.exists(path), "removed all the same")
        same(atoll(place, "gc").status, 0, "status")
        same(logs(place), [young], "logs")
        same(atoll(place, "verify").status, 0, "verify")


main()
