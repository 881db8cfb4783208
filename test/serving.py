# SPDX-License-Identifier: Apache-2.0
"""
A daemon for tests: started with a state of its own on a free port, stopped with all its sandboxes

    from serving import *

    with Daemon() as daemon:
        box = daemon.create(timeout=60)                    # E2B's create: the answer's object
        status, body, headers = daemon.call("GET", "/v2/sandboxes")
        out = daemon.run(box, "echo hi; exit 3")           # a command by E2B's process service
        same((out.code, out.out), (3, b"hi\n"), "the command")

Daemon(...)   config= text of a configuration; flags= more of the command line; state= a directory to be used (else a fresh
              one, removed at the end); env= variables; listen= instead of 127.0.0.1:0; fds= to
              be handed over. `url`, `key`, `state`, `pid`, `stderr()`.
call()        a request with the daemon's key: status, body (parsed if it is JSON, else bytes), headers (lower case).
              key=None sends none; data= bytes instead of body=; headers= more. box= sends it to the data plane of a box.
create(), run(), kill()   what most tests need of E2B's protocol; make_key() a key of another tenant.
sleeper()     a command that stays in the background of a box; is_running() of what it returns tells whether the host sees it.
stop(), crash(), start()  SIGTERM and wait; SIGKILL; once more on the same state. Sandboxes live on meanwhile.
serve()       `atoll serve ARGS` with the daemon's state, waited for: status, out, err.
Leaving it ends the daemon and removes its sandboxes, checks that none of their processes is left, and removes the state.
"""

import base64
import http.client
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import urllib.parse

from lib import *  # noqa: F401,F403

START_SECONDS = 30


def sleeper(daemon, box, command="true"):
    """A command in the background, by a mark in its arguments that the host sees."""
    mark = "mark-" + os.urandom(8).hex()
    daemon.run(box, "exec -a %s sleep 1000 >/dev/null 2>&1 & %s" % (mark, command))
    check(until(lambda: is_running(mark)), "the command does not run")
    return mark


def is_running(mark):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if file.read().split(b"\0")[0] == mark.encode():
                    return True
        except OSError:
            continue
    return False


class Output:
    """What became of a command."""

    def __init__(self, code, out, err, pid, error):
        self.code, self.out, self.err, self.pid, self.error = code, out, err, pid, error


def leads_to(link, place):
    """A descriptor may be closed while we look, and its process is still there."""
    try:
        return os.readlink(link).startswith(place)
    except OSError:
        return False


class Daemon:
    def __init__(self, config=None, flags=(), state=None, env=None, listen="127.0.0.1:0", starts=True, fds=()):
        need_layers()
        self.place, self.fds = tempfile.mkdtemp(prefix="atoll-test-serve-"), fds
        self.state = state or os.path.join(self.place, "state")
        self.home = os.path.join(self.place, "home")
        os.mkdir(self.home)
        self.flags, self.listen, self.key, self.process = list(flags), listen, None, None
        self.environment = {"HOME": self.home, "PATH": HOST_PATH, "TMPDIR": os.environ.get("TMPDIR", "/tmp"), **(env or {})}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "ATOLL_SLOW"):
            if name in os.environ:
                self.environment[name] = os.environ[name]
        if config is not None:
            path = os.path.join(self.place, "config.yaml")
            with open(path, "w") as file:
                file.write(config)
            self.flags += ["--config", path]
        if starts:
            self.start()

    # ---- its life

    def arguments(self):
        listen = ["--listen", self.listen] if self.listen else []
        return [ATOLL, "serve", *listen, "--state", self.state, *self.flags]

    def start(self):
        self.errors = open(os.path.join(self.place, "stderr"), "ab")
        self.process = subprocess.Popen(self.arguments(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self.errors, env=self.environment, cwd=self.place, pass_fds=self.fds)
        self.pid = self.process.pid
        self.said = self._read_start()
        found = dict(line[len("export "):].split("=", 1) for line in self.said if line.startswith("export "))
        check("E2B_API_URL" in found, "the daemon did not start: %s%s" % ("\n".join(self.said), self.stderr()))
        self.url = found["E2B_API_URL"]
        self.key = found.get("E2B_API_KEY") or self.key
        return self

    def _read_start(self):
        said = []
        timer = threading.Timer(START_SECONDS * SLOW, self.process.kill)
        timer.start()
        for line in self.process.stdout:
            said.append(line.decode().rstrip("\n"))
            if "E2B_API_KEY" in said[-1]:
                break
        timer.cancel()
        return said

    def stderr(self):
        with open(os.path.join(self.place, "stderr"), errors="replace") as file:
            return file.read()

    def stop(self, number=signal.SIGTERM):
        """The daemon's exit status."""
        self.process.send_signal(number)
        return self._wait()

    def crash(self):
        self.stop(signal.SIGKILL)

    def _wait(self):
        status = self.process.wait(60 * SLOW)
        self.process.stdout.close()
        self.errors.close()
        self.process = None
        return status

    def serve(self, *words):
        done = subprocess.run([ATOLL, "serve", *words, "--state", self.state], stdin=subprocess.DEVNULL,
                              capture_output=True, env=self.environment, timeout=60 * SLOW)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def make_key(self, tenant=None, quotas=()):
        if tenant:
            status, _, err = self.serve("tenant", "add", tenant, *quotas)
            check(status == 0, "tenant add: " + err)
        status, out, err = self.serve("key", "new", *(["--tenant", tenant] if tenant else []))
        check(status == 0, "key new: " + err)
        return out.strip()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if self.process:
                self.process.kill()
                self._wait()
            self.remove_sandboxes()
        finally:
            shutil.rmtree(self.place, ignore_errors=True)
            if kind is None:
                # One that was just being started when the daemon was killed finds its record gone, and ends by itself.
                check(until(lambda: not self.holders()), "processes of sandboxes are left: %s" % self.holders())

    def remove_sandboxes(self):
        """What the daemon left, by the library's own means."""
        environment = {**self.environment, "XDG_STATE_HOME": self.state}
        ids = self.records()
        if ids:
            done = subprocess.run([ATOLL, "rm", "--force", *ids], capture_output=True, env=environment, timeout=120 * SLOW)
            # What was half made or half removed when the daemon was killed is no sandbox.
            wrong = [line for line in done.stderr.decode().splitlines() if "there is no record or sandbox" not in line]
            check(not wrong, "atoll rm: " + "; ".join(wrong))

    def records(self):
        """Sandboxes in its store; not what is half made or half removed."""
        return sorted(path.split("/")[-2] for path in glob.glob(os.path.join(self.state, "atoll", "records", "*", "meta")))

    def holders(self):
        """Processes that hold sandboxes of this daemon: those with a record of its in their environment of descriptors."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/comm" % pid) as file:
                    if file.read().strip() != "atoll-hold":
                        continue
                if any(leads_to("/proc/%s/fd/%s" % (pid, fd), self.state + "/") for fd in os.listdir("/proc/%s/fd" % pid)):
                    found.append(int(pid))
            except OSError:
                continue
        return found

    # ---- requests

    def connect(self, timeout=60):
        parts = urllib.parse.urlsplit(self.url)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout * SLOW)

    def call(self, method, path, body=None, key="", data=None, headers=None, box=None, port=49983, connection=None):
        mine = connection or self.connect()
        fields = dict(headers or {})
        if box is not None:
            fields.update({"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": str(port)})
            fields.setdefault("X-Access-Token", box.get("envdAccessToken") or "")
        elif key is not None:
            fields.setdefault("X-API-KEY", key or self.key or "")
        if body is not None:
            data = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        try:
            mine.request(method, path, body=data, headers=fields)
            answer = mine.getresponse()
            content = answer.read()
        finally:
            if not connection:
                mine.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if found.get("content-type", "").startswith("application/json") and content:
            content = json.loads(content)
        return answer.status, content, found

    def create(self, template="base", **more):
        status, body, _ = self.call("POST", "/v2/sandboxes", {"templateID": template, **more})
        check(status == 201, "create: %s %s" % (status, body))
        return body

    def kill(self, box):
        return self.call("DELETE", "/sandboxes/" + box["sandboxID"])[0]

    def state_of(self, box):
        """ "running", "paused", or None."""
        status, body, _ = self.call("GET", "/sandboxes/" + box["sandboxID"])
        return body.get("state") if status == 200 else None

    def begin(self, box, command, user=None, envs=None, cwd=None, connection=None, headers=None):
        """Start a command; its frames as they come: (flags, object)."""
        process = {"cmd": "/bin/bash", "args": ["-l", "-c", command]}
        if envs:
            process["envs"] = envs
        if cwd:
            process["cwd"] = cwd
        return self.stream(box, "/process.Process/Start", {"process": process, "stdin": False}, user, connection, headers)

    def stream(self, box, path, message, user=None, connection=None, headers=None):
        text = json.dumps(message).encode()
        fields = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1",
                  "E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "49983",
                  "X-Access-Token": box.get("envdAccessToken") or "", "Keepalive-Ping-Interval": "50", **(headers or {})}
        if user:
            fields["Authorization"] = "Basic " + base64.b64encode((user + ":").encode()).decode()
        mine = connection or self.connect()
        mine.request("POST", path, body=struct.pack(">BI", 0, len(text)) + text, headers=fields)
        answer = mine.getresponse()
        if answer.status != 200:
            raise Failed("%s: %s %s" % (path, answer.status, answer.read()))
        while True:
            head = answer.read(5)
            if len(head) < 5:
                break
            flags, size = struct.unpack(">BI", head)
            yield flags, json.loads(answer.read(size))
            if flags & 2:
                answer.read()
                break
        if not connection:
            mine.close()

    def run(self, box, command, **options):
        return self.collect(self.begin(box, command, **options))

    @staticmethod
    def collect(frames):
        code, out, err, pid, error = None, b"", b"", None, None
        for flags, frame in frames:
            event = frame.get("event", {})
            if flags & 2:
                error = frame.get("error")
            pid = event.get("start", {}).get("pid", pid)
            out += base64.b64decode(event.get("data", {}).get("stdout", ""))
            err += base64.b64decode(event.get("data", {}).get("stderr", ""))
            if "end" in event:
                code = event["end"].get("exitCode", 0)
        return Output(code, out, err, pid, error)
