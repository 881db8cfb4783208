# SPDX-License-Identifier: Apache-2.0
# check: sanitized if long
"""Templates that are built: by E2B's own package, what is refused, and what outlives the daemon."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from packages import e2b_script
from serving import *


def begin(daemon, name, steps, key="", **more):
    status, asked, _ = daemon.call("POST", "/v3/templates", {"name": name, **more}, key=key)
    check(status == 202, "%s: %s" % (status, asked))
    template, build = asked["templateID"], asked["buildID"]
    body = steps if isinstance(steps, dict) else {"fromTemplate": "base", "steps": steps}
    status, told, _ = daemon.call("POST", "/v2/templates/%s/builds/%s" % (template, build), body, key=key)
    return template, build, status, told


def finished(daemon, template, build):
    """How it ended; the log."""
    path = "/templates/%s/builds/%s/status" % (template, build)
    until(lambda: daemon.call("GET", path)[1]["status"] in ("ready", "error"))
    return daemon.call("GET", path)[1]


def build(daemon, name, steps, **more):
    template, number, status, told = begin(daemon, name, steps, **more)
    check(status == 202, "%s: %s" % (status, told))
    return finished(daemon, template, number)


def run(*words):
    return {"type": "RUN", "args": list(words)}


def archive(*entries):
    """A gzipped tar of (name, content or TarInfo)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in entries:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def upload(daemon, number, data, key=""):
    name = "%064x" % number
    status, told, _ = daemon.call("GET", "/templates/x/files/" + name, key=key)
    same(status, 201, "asked for a place")
    parts = urllib.parse.urlsplit(told["url"])
    status, _, _ = daemon.call("PUT", parts.path + "?" + parts.query, data=data, key=None)
    same(status, 200, "the upload")
    return name, told


def copy(name, *words):
    return {"type": "COPY", "args": list(words), "filesHash": name}


@test("E2B's own package builds templates")
def _():
    need_layers()
    with Daemon() as daemon:
        e2b_script(daemon, "templates.mjs")


@test("what was built outlives the daemon, with what boxes begin with, and belongs to its tenant")
def _():
    need_layers()
    with Daemon() as daemon:
        steps = [run("echo built >/home/user/f"), {"type": "ENV", "args": ["A", "of the template"]},
                 {"type": "WORKDIR", "args": ["/home/user/w"]}]
        same(build(daemon, "kept", steps)["status"], "ready", "the build")
        daemon.crash()
        daemon.start()
        box = daemon.create("kept", timeout=60)
        same(daemon.run(box, "cat ~/f; echo $A; pwd").out, b"built\nof the template\n/home/user/w\n", "its box")
        other = daemon.make_key("other")
        same(daemon.call("POST", "/v2/sandboxes", {"templateID": "kept"}, key=other)[0], 404, "for another tenant")
        same(daemon.call("GET", "/templates/aliases/kept", key=other)[0], 404, "nor does it see it")
        same(daemon.call("GET", "/templates/kept/tags", key=other)[0], 404, "nor its tags")
        same(daemon.call("DELETE", "/templates/kept", key=other)[0], 404, "nor can it remove it")
        same(daemon.call("DELETE", "/templates/kept")[0], 204, "its own can")
        same(daemon.call("POST", "/v2/sandboxes", {"templateID": "kept"})[0], 404, "then it is gone")
        same(daemon.run(box, "cat ~/f").out, b"built\n", "and the box is not")


@test("a job in a box of a template with a command of its own is the job's command")
def _():
    need_layers()
    with Daemon() as daemon:
        steps = {"fromTemplate": "base", "steps": [], "startCmd": "sleep 1000"}
        same(build(daemon, "starts", steps)["status"], "ready", "the build")
        status, job, _ = daemon.call("POST", "/v1/jobs", {"template": "starts", "command": ["sh", "-c", "echo job; exit 4"]})
        same(status, 201, "the job: %s" % job)
        path = "/v1/jobs/" + job["id"]
        check(until(lambda: daemon.call("GET", path)[1]["state"] == "ended"), "it does not end")
        found = daemon.call("GET", path)[1]
        same((found["step"]["command"][0], found["step"]["result"]["exitCode"]), ("sh", 4), "what is told of it")
        same(daemon.call("GET", path + "/output")[1], b"job\n", "what it printed")
        same([j["id"] for j in daemon.call("GET", "/v1/jobs")[1]["items"]], [job["id"]], "the list")
        same(daemon.call("DELETE", path)[0], 204, "cancel")
        same(daemon.call("GET", path)[1]["step"]["result"]["exitCode"], 4, "and when its sandbox is gone")


@test("files: a file, a directory, several, names, modes; only for those who have a ticket")
def _():
    need_layers()
    with Daemon() as daemon:
        name, told = upload(daemon, 1, archive(("a.txt", b"a"), ("d/b.txt", b"b"), ("d/e/c.txt", b"c")))
        check(not told["present"], "it was there before")
        check(upload(daemon, 1, archive(("a.txt", b"a"), ("d/b.txt", b"b"), ("d/e/c.txt", b"c")))[1]["present"], "it is not there")
        status = build(daemon, "files", [
            copy(name, "a.txt", "/home/user/new.txt", "", "0600"), copy(name, "a.txt", "/home/user/into/"), copy(name, "d", "/home/user/tree"),
            copy(name, "d/*.txt", "/home/user/some/")])
        same(status["status"], "ready", str(status["logs"]))
        box = daemon.create("files", timeout=60)
        same(daemon.run(box, "cd; cat new.txt into/a.txt tree/b.txt tree/e/c.txt some/b.txt; stat -c %a new.txt; ls /tmp").out,
             b"aabcb600\n", "the files, and nothing else")
        left = [file for file in os.listdir(os.path.join(daemon.state, "templates")) if file.endswith(".trial")]
        same(left, [], "what was unpacked to look at it")
        other = daemon.make_key("other")
        check(not daemon.call("GET", "/templates/x/files/" + name, key=other)[1]["present"], "another tenant's files are there")
        same(daemon.call("PUT", "/templates/upload/files/" + name, data=b"x", key=None)[0], 403, "no ticket")
        same(daemon.call("PUT", "/templates/upload/files/%s?upload=%s" % (name, "0" * 32), data=b"x", key=None)[0], 403, "a wrong one")
        same(daemon.call("GET", "/templates/x/files/..%2f..%2fx")[0], 400, "no hash")


@test("hostile archives are refused, and write nothing")
def _():
    def special(kind, name, target=""):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        return name, info

    need_layers()
    with Daemon() as daemon, tempfile.TemporaryDirectory() as outside:
        canary = os.path.join(outside, "canary")
        for number, data in enumerate((
                archive(("../../../../../../" + canary, b"x")),
                archive((canary, b"x")),
                archive(special(tarfile.SYMTYPE, "l", outside), ("l/canary", b"x")),
                archive(special(tarfile.CHRTYPE, "dev")),
                gzip.compress(b"no tar at all" * 100), b"", b"\x1f\x8b\x08broken")):
            name, _ = upload(daemon, 100 + number, data)
            status = build(daemon, "hostile", [copy(name, "*", "/home/user/")])
            same(status["status"], "error", "archive %d" % number)
            same(status["reason"]["step"], "1", "which step")
            check(not os.path.exists(canary), "archive %d wrote outside" % number)
        same(build(daemon, "hostile", [copy("%064x" % 999, "*", "/home/user/")])["status"], "error", "never uploaded")
        same(daemon.call("GET", "/templates/aliases/hostile")[0], 404, "there is no such template")


@test("a size is a box's; a build whose daemon has ended leaves no box behind")
def _():
    need_layers()
    with Daemon() as daemon:
        same(build(daemon, "large", [], memoryMB=700, cpuCount=1)["status"], "ready", "the build")
        box = daemon.create("large", timeout=60)
        shown = daemon.call("GET", "/sandboxes/" + box["sandboxID"])[1]
        same((shown["memoryMB"], shown["cpuCount"]), (700, 1), "what it is said to have")
        contract = json.loads(daemon.run(box, "cat /run/atoll/contract.json").out)
        same(contract["limits"]["memory"]["value"], 700 << 20, "what it has")
        begin(daemon, "lost", [run("touch begun; sleep 1000")])
        until(lambda: len(daemon.call("GET", "/v2/sandboxes")[1]) == 2)
        daemon.crash()
        daemon.start()
        until(lambda: len(daemon.call("GET", "/v2/sandboxes")[1]) == 1)
        same(daemon.call("GET", "/v2/sandboxes")[1][0]["sandboxID"], box["sandboxID"], "and the other one lives")


@test("templates of the configuration: a directory, an archive, and images by their names")
def _():
    need_layers()
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        os.makedirs(place + "/dir/src")
        write(place + "/dir/src/a.txt", "from a directory\n")
        with open(place + "/home.tar.gz", "wb") as file:
            file.write(archive(("b.txt", b"from an archive\n")))
        config = "templates: {project: %s/dir, 'python:3.12': %s/home.tar.gz}\n" % (place, place)
        with Daemon(config=config) as daemon:
            box = daemon.create("project", timeout=60)
            same(daemon.run(box, "cat src/a.txt; echo changed >src/a.txt; cat src/a.txt").out, b"from a directory\nchanged\n", "the directory")
            same(read(place + "/dir/src/a.txt"), b"from a directory\n", "which stays what it is")
            status = build(daemon, "on-image", {"fromImage": "python:3.12", "steps": [run("echo more >more.txt")]})
            same(status["status"], "ready", str(status))
            box = daemon.create("on-image", timeout=60)
            same(daemon.run(box, "cat b.txt more.txt").out, b"from an archive\nmore\n", "the archive, and what was built")
            same(build(daemon, "other", {"fromImage": "python:3.13", "steps": []})["status"], "error", "an image that nobody has")
        with open(place + "/bad.tar", "wb") as file:
            file.write(archive(("../../out", b"x")))
        with Daemon(config="templates: {bad: %s/bad.tar}\n" % place, starts=False) as daemon:
            status, out, err = refused(daemon)
            check(status != 0 and "template 'bad'" in err, err)


def refused(daemon):
    done = subprocess.run(daemon.arguments(), stdin=subprocess.DEVNULL, capture_output=True, env=daemon.environment, timeout=60 * SLOW)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@test("requests that make no sense")
def _():
    need_layers()
    with Daemon() as daemon:
        for name in ("", "A", "a b", "a/b/c", "../x", "x" * 80, "a:b:c", "a:"):
            same(daemon.call("POST", "/v3/templates", {"name": name})[0], 400, repr(name))
        same(daemon.call("POST", "/v3/templates", {"name": "base"})[0], 409, "ours")
        same(daemon.call("POST", "/v3/templates", {"name": "a", "tags": ["B C"]})[0], 400, "a tag")
        same(daemon.call("POST", "/v3/templates", {"name": "a", "cpuCount": -1})[0], 400, "a number")
        for steps in ("x", [{"type": "MOUNT", "args": ["/"]}], [{"type": "RUN", "args": []}], [{"type": "RUN", "args": [1]}],
                      [{"type": "ENV", "args": ["A"]}], [{"type": "ENV", "args": ["A=B", "c"]}], [1], [{"type": "RUN"}]):
            same(begin(daemon, "a", {"fromTemplate": "base", "steps": steps})[2], 400, repr(steps))
        same(daemon.call("GET", "/templates/a/builds/nothing/status")[0], 404, "no build")
        template, number, status, _ = begin(daemon, "a", [run("sleep 1000")])
        same(status, 202, "one that takes long")
        same(daemon.call("POST", "/v2/templates/a/builds/" + number, {"steps": []})[0], 409, "begun twice")
        other = daemon.make_key("other")
        same(daemon.call("GET", "/templates/a/builds/%s/status" % number, key=other)[0], 404, "another tenant's")
        until(lambda: daemon.call("GET", "/v2/sandboxes")[1])
        for box in daemon.call("GET", "/v2/sandboxes")[1]:
            daemon.kill(box)
        status = finished(daemon, template, number)
        check("sandbox of the build has ended" in status["reason"]["message"], str(status["reason"]))


main()
