# SPDX-License-Identifier: Apache-2.0
"""
A person at a terminal, for tests: with Terminal(place, argv) as terminal: terminal.send("ls\\r"); terminal.expect("f")

The program is started in a session of its own with the terminal as its controlling one. What it prints is collected in
`seen` (bytes); expect() waits until a pattern comes in what has not been matched yet. Leaving the block kills it.
On a machine that is busy atoll says that it is setting up: wait() takes that out of `seen`, and `was_slow` tells it.
Also here: which processes are in a pid namespace, as the host sees them.
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time

from lib import ATOLL, PATIENCE, SLOW, Failed, caller_environment, read, same, until

UP = r"up\r"  # what a command says when it can be dealt with; "setting up (...", which atoll says on a slow machine, is not it
SETTING_UP = re.compile(rb"(\ratoll: setting up \([a-z ]+\) \.\.\.\033\[K)+\r\033\[K")


def on_terminal(place, *args, env=None):
    """What a terminal gets to see, as bytes."""
    primary, secondary = os.openpty()
    child = subprocess.Popen([ATOLL, *args], cwd=place.ws, stdin=subprocess.DEVNULL, stdout=secondary, stderr=subprocess.STDOUT,
                             env=caller_environment(place, env), close_fds=True)
    os.close(secondary)
    seen = b""
    while True:
        try:
            piece = os.read(primary, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(primary)
    same(child.wait(), 0, "status on a terminal, after %r" % seen[-300:])
    return seen


class Terminal:
    def __init__(self, place, argv, rows=24, columns=80, env=None, stdin=None, stdout=None, stderr=None):
        self.master, slave = os.openpty()
        self.resize(rows, columns)
        self.seen, self.at = b"", 0
        self.slave = slave  # kept open: its state is looked at afterwards
        self.before = self.state()

        def in_child():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        self.process = subprocess.Popen(argv, cwd=place.ws, env=caller_environment(place, env), preexec_fn=in_child,
                                        stdin=slave if stdin is None else stdin, stdout=slave if stdout is None else stdout,
                                        stderr=slave if stderr is None else stderr, pass_fds=[slave])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        os.close(self.master)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def state(self):
        """What a program may not leave changed; `before` is that of the beginning."""
        return self.modes(), fcntl.fcntl(self.slave, fcntl.F_GETFL), fcntl.fcntl(self.master, fcntl.F_GETFL)

    def modes(self):
        return termios.tcgetattr(self.slave)

    def is_raw(self):
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)

    def send(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def pump(self, seconds=0.0):
        """Take what has come. False if nothing did."""
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        with contextlib.suppress(OSError):
            self.seen += os.read(self.master, 65536)
        return True

    def expect(self, pattern, seconds=PATIENCE):
        """The match object, once what the pattern stands for has been printed."""
        deadline = time.monotonic() + seconds * SLOW
        pattern = pattern.encode() if isinstance(pattern, str) else pattern
        while True:
            match = re.compile(pattern, re.S).search(self.seen, self.at)
            if match:
                self.at = match.end()
                return match
            if time.monotonic() > deadline:
                raise Failed("not on the terminal: %r; there is %r" % (pattern, self.seen[self.at:][-600:]))
            self.pump(0.1)

    def wait(self, seconds=2 * PATIENCE):
        """The exit status as subprocess gives it, and everything that was printed in `seen`."""
        deadline = time.monotonic() + seconds * SLOW
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise Failed("no end after %d s; on the terminal: %r" % (seconds, self.seen[-600:]))
            self.pump(0.05)
        while self.pump(0.05):
            pass
        self.was_slow = SETTING_UP.search(self.seen) is not None
        self.seen = SETTING_UP.sub(b"", self.seen)
        return self.process.returncode


def shell(place, **options):
    """A terminal with an interactive shell that does job control; its prompt is "% "."""
    return Terminal(place, ["/bin/bash", "--norc", "--noprofile", "-i"], **{
        **options, "env": {"A": ATOLL, "PS1": "% ", "HISTFILE": None, "INPUTRC": "/dev/null", "TERM": "dumb", **options.get("env", {})}})


def children(pid):
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError):
            found += map(int, read("/proc/%d/task/%s/children" % (pid, task)).split())
    return found


def state(pid):
    """One letter, as ps says it; "" if there is none."""
    try:
        text = read("/proc/%d/stat" % pid).decode(errors="replace")
    except OSError:
        return ""
    return text[text.rindex(")") + 2]


def is_in_front(pid):
    """Does the terminal send its signals to the group of this process?"""
    fields = read("/proc/%d/stat" % pid).decode(errors="replace").rsplit(")", 1)[1].split()
    return fields[2] == fields[5]


def inside(pid):
    """The processes in the sandbox of this atoll, pid 1 included: {pid: name}."""
    found, again = {}, children(pid) if os.path.exists("/proc/%d" % pid) else []
    while again:
        one = again.pop()
        with contextlib.suppress(OSError):
            found[one] = read("/proc/%d/comm" % one).decode().strip()
            again += children(one)
    return found


def namespace(pid):
    return os.stat("/proc/%d/ns/pid" % pid).st_ino


def in_namespace(inode):
    """Who is in this pid namespace: what can be seen of it by walking /proc."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if namespace(int(entry)) == inode and state(int(entry)) not in "ZX":
                    found.append(int(entry))
    return found


def wait_inside(pid, name, seconds=PATIENCE):
    """The host's pid of a process by this name in the sandbox."""
    def look():
        return [one for one, what in inside(pid).items() if what == name]
    found = until(look, seconds)
    if not found:
        raise Failed("there is no %s inside: %s" % (name, inside(pid)))
    return found[0]
