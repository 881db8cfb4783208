# SPDX-License-Identifier: Apache-2.0
"""
A daemon for tests: with Daemon(place) as daemon: daemon.call("POST", "/v1/sandboxes", {...})

Its state is in place.tmp, it listens on a free port of the loopback, and everything of it is ended and removed when the block is
left. kill() is kill -9, start() starts it again on the same port.
"""

import http.client
import json
import os
import signal
import subprocess
import time

from lib import ATOLL, PATIENCE, SLOW, Failed, caller_environment


class Daemon:
    def __init__(self, place, *options):
        self.place, self.options = place, list(options)
        self.state = os.path.join(place.tmp, "state")
        self.port, self.process = 0, None
        os.makedirs(self.state, mode=0o700, exist_ok=True)

    def environment(self, **more):
        return caller_environment(self.place, {"XDG_STATE_HOME": self.state, **more})

    def start(self):
        self.log = open(os.path.join(self.place.tmp, "daemon.log"), "ab")
        self.process = subprocess.Popen(
            [ATOLL, "serve", "--listen", f"127.0.0.1:{self.port}", "--end-sandboxes", *self.options],
            env=self.environment(), cwd=self.place.tmp, stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL)
        self.said = []
        for line in self.process.stdout:
            self.said.append(line.decode())
            if line.startswith(b"# export E2B_API_KEY") or line.startswith(b"export E2B_API_KEY"):
                break
        else:
            raise Failed(f"the daemon did not start: {self.said} {self.errors()}")
        local = os.path.join(self.state, "atoll", "daemon", "local")
        with open(local) as file:
            self.url, self.key = file.read().split()
        self.port = int(self.url.rsplit(":", 1)[1])
        return self

    def errors(self):
        with open(os.path.join(self.place.tmp, "daemon.log"), errors="replace") as file:
            return file.read()[-2000:]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE * SLOW)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failed(f"the daemon does not stop: {self.errors()}") from None
        if self.process and not self.process.stdout.closed:
            self.process.stdout.close()
        self.log.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        # One that was killed left sandboxes behind, which the next one ends.
        if self.process.poll() is not None:
            self.start()
        self.stop()

    def new_key(self, tenant):
        for words in (["tenant", "add", tenant], ["key", "new", "--tenant", tenant]):
            done = subprocess.run([ATOLL, "serve", *words], env=self.environment(), capture_output=True, text=True,
                                  check=True, timeout=PATIENCE * SLOW)
        return done.stdout.split()[-1]

    # ---- HTTP ----

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW)

    def call(self, method, path, body=None, key=None, headers=None, raw=False):
        """Status and what was answered: an object, bytes with `raw`, None for nothing."""
        connection = self.connect()
        try:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            fields = {"X-API-Key": self.key if key is None else key, **(headers or {})}
            connection.request(method, path, data, {k: v for k, v in fields.items() if v})
            answer = connection.getresponse()
            content = answer.read()
            self.headers = dict(answer.getheaders())
            return answer.status, content if raw else json.loads(content) if content else None
        finally:
            connection.close()

    def want(self, status, method, path, body=None, **more):
        """What was answered, with this status."""
        got, answer = self.call(method, path, body, **more)
        if got != status:
            raise Failed(f"{method} {path} {body}: {got} {answer}, not {status}\n{self.errors()}")
        return answer

    def create(self, **members):
        return self.want(201, "POST", "/v1/sandboxes", members)["id"]

    def run(self, box, *command, **members):
        return self.want(201, "POST", f"/v1/sandboxes/{box}/steps", {"command": list(command), "wait": 30, **members})

    def wait_until_gone(self, box):
        deadline = time.monotonic() + PATIENCE * SLOW
        while self.call("GET", f"/v1/sandboxes/{box}")[0] != 404:
            if time.monotonic() > deadline:
                raise Failed(f"sandbox {box} does not end")
            time.sleep(0.05)
