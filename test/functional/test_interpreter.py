# SPDX-License-Identifier: Apache-2.0
# check: seconds 38
# check: sanitized if long
"""The code interpreter in a box of the daemon's: by E2B's own package, by hand where that says nothing, and over restarts."""

import json
import os
import socket
import sys
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from packages import e2b_script
from serving import *

def execute(daemon, box, code, **more):
    """The lines of an execution."""
    connection = daemon.connect()
    connection.request("POST", "/execute", json.dumps({"code": code, **more}), {
        "E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49999", "X-Access-Token": box["envdAccessToken"]})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    check(answer.status == 200, "%s: %s" % (answer.status, body))
    check(body.isascii(), "not ASCII")
    return [json.loads(line) for line in body.decode().splitlines()]


def of(lines, kind):
    return [line for line in lines if line["type"] == kind]


def value(lines):
    check(not of(lines, "error"), str(lines))
    return of(lines, "result")[0]["text"]


@test("E2B's own package runs code")
def _():
    need_layers()
    with Daemon() as daemon:
        e2b_script(daemon, "interpreter.mjs")


@test("the answers to requests that make no sense")
def _():
    need_layers()
    with Daemon() as daemon:
        box = daemon.create(template="code-interpreter-v1", timeout=60)

        def told(method, path, body=None, **more):
            return daemon.call(method, path, body, box=box, port=49999, **more)[:2]

        same(told("GET", "/health"), (200, "OK"), "health")
        same(told("POST", "/execute", {"code": 1}), (422, b"code: not a string"), "code")
        same(told("POST", "/execute", {})[0], 422, "no code")
        same(told("POST", "/execute", {"code": "1", "env_vars": {"a": 1}})[0], 422, "env_vars")
        same(told("POST", "/execute", {"code": "1", "context_id": "x", "language": "python"})[0], 400, "both")
        same(told("POST", "/execute", {"code": "1", "context_id": "x"}), (404, b"Context x not found"), "no context")
        same(told("POST", "/execute", data=b"{")[0], 400, "no JSON")
        same(told("POST", "/execute", {"code": "x" * (5 << 20)})[0], 413, "too much")
        same(told("GET", "/contexts", headers={"X-Access-Token": ""})[0], 200, "contexts need no token")
        same(told("POST", "/execute", {"code": "1"}, headers={"X-Access-Token": "no"})[0], 401, "code needs one")
        same(told("GET", "/nothing")[0], 404, "nothing")
        same(told("PUT", "/contexts")[0], 405, "a method")
        same(told("POST", "/contexts/x/restart")[0], 404, "restart")


@test("while nothing is printed a line says that it goes on")
def _():
    need_layers()
    with Daemon() as daemon:
        box = daemon.create(timeout=60)
        lines = execute(daemon, box, "import time; time.sleep(5.5)")
        same([line["type"] for line in lines], ["number_of_executions", "keepalive", "end_of_execution"], "the lines")


@test("contexts and what they know outlive the daemon; what ran is interrupted with its reader")
def _():
    need_layers()
    with Daemon() as daemon:
        box = daemon.create(timeout=120)
        _, context, _ = daemon.call("POST", "/contexts", {"cwd": "/tmp"}, box=box, port=49999)
        value(execute(daemon, box, "kept = 1\nkept", context_id=context["id"]))
        value(execute(daemon, box, "mine = 2\nmine"))
        with begun(daemon, box, "import time\nprint('go', flush=True)\nwhile True: time.sleep(1)") as stream:
            until(lambda: b"go" in stream.recv(4096))
            daemon.crash()
        daemon.start()
        listed = daemon.call("GET", "/contexts", box=box, port=49999)[1]
        check(context in listed, "%s is not among %s" % (context, listed))
        same(value(execute(daemon, box, "kept + 1", context_id=context["id"])), "2", "in the context")
        same(value(execute(daemon, box, "mine + 1")), "3", "in the usual one")


class begun:
    """An execution whose answer is read by hand."""

    def __init__(self, daemon, box, code):
        where = urllib.parse.urlsplit(daemon.url)
        body = json.dumps({"code": code}).encode()
        self.socket = socket.create_connection((where.hostname, where.port), timeout=PATIENCE)
        self.socket.sendall(("POST /execute HTTP/1.1\r\nHost: x\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49999\r\n"
                             "X-Access-Token: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                             % (box["sandboxID"], box["envdAccessToken"], len(body))).encode() + body)

    def __enter__(self):
        return self.socket

    def __exit__(self, *_):
        self.socket.close()


@test("a client that does not read stops its code, and nobody else's; when it goes, the code is interrupted")
def _():
    need_layers()
    with Daemon() as daemon:
        box = daemon.create(timeout=120)
        with begun(daemon, box, "n = 0\nwhile True:\n    print('x' * 65536)\n    n += 1\n    open('/tmp/n', 'w').write(str(n))") as stream:
            check(stream.recv(4096), "nothing came")

            def count():
                return int(daemon.run(box, "cat /tmp/n").out or 0)

            until(lambda: count() > 0)
            # It stands still: the same twice, with something else executed in between.
            same(value(execute(daemon, box, "1", language="javascript")), "1", "another context")
            before = -1
            while before != count():
                before = count()
                value(execute(daemon, box, "await new Promise((r) => setTimeout(r, 200)); 1", language="javascript"))
            check(before < 2000, "%d pieces of 64 KiB went into nothing" % before)
        same(value(execute(daemon, box, "n > 0")), "True", "and then the next")


main()
