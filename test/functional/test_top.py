# SPDX-License-Identifier: Apache-2.0
# check: sanitized if long
"""`atoll top` at a terminal, in tmux, and where there is none; src/remote/top*.c, screen.c"""

import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from v1 import *
from terminal import Terminal


class Tmux:
    """A terminal whose picture can be looked at."""

    def __init__(self, daemon, columns=80, rows=24):
        self.socket = os.path.join(daemon.place, "tmux")
        self.env = {**daemon.environment, "ATOLL_KEY": daemon.key, "TERM": "xterm", "SHELL": "/bin/sh", "PS1": "$ ",
                    "LC_ALL": "C.UTF-8"}
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(rows), "exec sh")
        self.type(f"PS1='prompt> '; clear; {ATOLL} --host {daemon.url} top; echo status $?", "Enter")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, *words], env=self.env, capture_output=True,
                              timeout=PATIENCE * SLOW)
        check(done.returncode == 0, f"tmux {words}: {done.stderr}")
        return done.stdout.decode()

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def picture(self):
        return self.tmux("capture-pane", "-p")

    def shows(self, *words):
        """Wait until all of them are on the screen; the picture."""
        deadline = time.monotonic() + PATIENCE * SLOW
        while not all(word in (picture := self.picture()) for word in words):
            check(time.monotonic() < deadline, f"{words} are not on the screen:\n{picture}")
            time.sleep(0.05)
        return picture

    def modes(self):
        return self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag} #{wrap_flag}").split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(Failed):
            self.tmux("kill-server")


def state_of(daemon, box):
    status, body, _ = daemon.call("GET", f"/v1/sandboxes/{box}")
    return body["state"] if status == 200 else None


@test("top shows sandboxes and what they do, looks inside, pauses, asks before it kills, and leaves the terminal as it was")
def _():
    need("tmux")
    with V1() as daemon:
        boxes = [daemon.box(labels={"nr": str(i)}, timeout=600) for i in range(3)]
        daemon.start_step(boxes[1], "sh", "-c", "exec sleep 4711")
        with Tmux(daemon) as tmux:
            picture = tmux.shows("3 sandboxes, 0 paused", *boxes, "STATE", "nr=2")
            check(all(len(line) <= 80 for line in picture.splitlines()), picture)
            check("q quit" in picture.splitlines()[-1], picture)
            tmux.type("s", "s", "s", "s")
            tmux.shows("by id")
            order = sorted(boxes)
            tmux.type("Home", *["Down"] * order.index(boxes[1]))
            tmux.type("Enter")
            tmux.shows("COMMAND in " + boxes[1], "sleep 4711", "Esc back")
            tmux.type("Escape")
            tmux.shows("by id", "Enter look inside")
            tmux.type("p")
            tmux.shows("1 paused", "is paused")
            same(state_of(daemon, boxes[1]), "paused", "its state")
            tmux.type("p")
            tmux.shows("0 paused", "goes on")
            tmux.type("x")
            tmux.shows("End sandbox " + boxes[1], "y: yes")
            tmux.type("n")
            tmux.shows("nothing was done")
            same(state_of(daemon, boxes[1]), "running", "it was only asked")
            tmux.type("x")
            tmux.shows("End sandbox")
            tmux.type("y")
            tmux.shows("2 sandboxes", boxes[1] + " is gone")
            same(state_of(daemon, boxes[1]), None, "it is gone")
            daemon.want(204, "DELETE", f"/v1/sandboxes/{boxes[0]}")
            tmux.shows("1 sandbox,")
            tmux.type("q")
            tmux.shows("status 0", "prompt>")
            same(tmux.modes(), ["0", "1", "1"], "screen, cursor and wrapping as before")


@test("top follows the terminal's size, and scrolls")
def _():
    need("tmux")
    with V1() as daemon:
        daemon.want(200, "POST", "/v1/sandboxes/bulk", {"count": 30, "labels": {"many": "yes"}, "timeout": 600})
        with Tmux(daemon) as tmux:
            tmux.shows("30 sandboxes")
            same(tmux.picture().count("many=yes"), 20, "as many as there is room for")
            last = sorted(item["id"] for item in daemon.want(200, "GET", "/v1/sandboxes?limit=100")["items"])[-1]
            tmux.type("s", "s", "s", "s", "End")
            tmux.shows(last)
            tmux.tmux("resize-window", "-x", "120", "-y", "40")
            until(lambda: tmux.picture().count("many=yes") == 30)
            tmux.tmux("resize-window", "-x", "40", "-y", "10")
            until(lambda: tmux.picture().count("running") == 6)
            tmux.type("q")
            tmux.shows("status 0")
        daemon.want(200, "DELETE", "/v1/sandboxes?label=many=yes")


@test("top leaves the terminal as it was, however it ends")
def _():
    with Place() as place, V1() as daemon:
        daemon.box()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV):
            with Terminal(place, [ATOLL, "--host", daemon.url, "top"], env={"ATOLL_KEY": daemon.key}) as terminal:
                terminal.expect(rb"q quit")
                check(terminal.modes() != terminal.before[0], "keys are read one by one")
                os.kill(terminal.process.pid, number)
                terminal.process.wait(PATIENCE * SLOW)
                terminal.pump(0.1)
                same(terminal.modes(), terminal.before[0], f"the modes after signal {number}")
                check(terminal.seen.rstrip().endswith(b"\033[?7h\033[?25h\033[?1049l\033[m"), f"{terminal.seen[-100:]}")


@test("without a terminal it is a table, once; the daemon of this user is found by itself")
def _():
    with tempfile.TemporaryDirectory(prefix="top-") as state:
        with V1(state=os.path.join(state, "atoll", "daemon")) as daemon:
            box = daemon.box(labels={"l": "hostile \033[2J"})
            env = {**daemon.environment, "XDG_STATE_HOME": state}
            done = subprocess.run([ATOLL, "top"], env=env, capture_output=True, timeout=PATIENCE * SLOW)
            lines = done.stdout.decode().splitlines()
            same((done.returncode, len(lines), lines[0].split()[0]), (0, 2, "ID"), f"{done}")
            check(lines[1].startswith(box) and "\033" not in lines[1], lines[1])
            with open(os.path.join(daemon.state, "local")) as file:
                same(os.fstat(file.fileno()).st_mode & 0o777, 0o600, "who can read the key")
            os.chmod(os.path.join(daemon.state, "local"), 0o644)
            done = subprocess.run([ATOLL, "top"], env=env, capture_output=True, timeout=PATIENCE * SLOW)
            same(done.returncode, POLICY, f"a key that others can read: {done}")
            daemon.want(204, "DELETE", f"/v1/sandboxes/{box}")
        done = subprocess.run([ATOLL, "top"], env={**env, "XDG_STATE_HOME": "/nonexistent"}, capture_output=True)
        same((done.returncode, b"atoll serve" in done.stderr), (BAD_REQUEST, True), f"{done}")


main()
