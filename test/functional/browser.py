# SPDX-License-Identifier: Apache-2.0
"""A real browser, told what to do through the pipe that Chromium offers (--remote-debugging-pipe): one JSON object each way, ended by NUL."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

PROGRAM = shutil.which("chromium", path="/usr/bin:/usr/local/bin") or shutil.which("chromium-browser", path="/usr/bin")
SECONDS = 60


class Browser:
    """One page. `messages` are what it said on its console and what went wrong, `requests` what it asked for."""

    def __init__(self, width=1280, height=900, dark=False):
        self.number, self.kept, self.rest, self.messages, self.requests = 0, [], b"", [], []
        self.width, self.height, self.dark = width, height, dark

    def __enter__(self):
        # In a short place: it makes a socket there, whose path has room for 108 bytes.
        self.home = tempfile.mkdtemp(prefix="atoll-test-", dir="/tmp")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        flags = ["--headless=new", "--no-first-run", "--no-default-browser-check", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-breakpad", "--disable-crash-reporter",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio", "--hide-scrollbars",
                 # What is looked at is ours, and in many places (as root, in containers) its own sandbox cannot be had.
                 "--no-sandbox", "--user-data-dir=" + self.home, "--remote-debugging-pipe", "about:blank"]
        self.child = subprocess.Popen(["/bin/sh", "-c", 'exec "$@" 3<&%d 4>&%d' % (to_read, to_write), "sh", PROGRAM, *flags],
                                      pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      start_new_session=True, env={"HOME": self.home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": self.home})
        os.close(to_read)
        os.close(to_write)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for name in ("Page", "Runtime", "Log", "Network"):
            self.call(name + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=self.height, deviceScaleFactor=1, mobile=self.width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}])
        return self

    def __exit__(self, *_):
        os.close(self.to)
        os.close(self.back)
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def _receive(self, end):
        while b"\0" not in self.rest:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.back, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self.rest += piece
        line, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(line)
        method, data = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(each.get("value", each.get("description"))) for each in data["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(data["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.messages.append(data["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(data["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.messages.append("a dialog: " + data["message"])
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data, end = json.dumps(message).encode() + b"\0", time.monotonic() + SECONDS
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self._receive(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError("%s: %s" % (method, answer["error"]))
                return answer["result"]
            self.kept.append(answer.get("method"))

    def open(self, url):
        self.kept.clear()
        self.requests.clear()
        self.messages.clear()
        self.call("Page.navigate", url=url)
        end = time.monotonic() + SECONDS
        while "Page.loadEventFired" not in self.kept:
            self.kept.append(self._receive(end).get("method"))

    def run(self, script):
        """What an expression is in the page, by its value."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def drag(self, x, y, to_x):
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=(x + to_x) / 2, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=to_x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=to_x, y=y, button="left", clickCount=1)

    def picture(self, path, whole=True):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]))
