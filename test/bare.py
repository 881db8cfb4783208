# SPDX-License-Identifier: Apache-2.0
"""
The same tests on a host that grants no user namespaces

With ATOLL_BARE=1 a test file starts itself again, as an ordinary user, in a user namespace whose own
`user.max_user_namespaces` is 0 and without any capability; ATOLL_BARE=apparmor makes one in which namespaces can be
made and give no rights, as Ubuntu's AppArmor does. Every run then accepts by name what is weaker there.

WEAKER names the tests that cannot hold, with the clauses that the plan has to mark as weaker. They are not skipped: the
plan of this host must say so, and without acceptance the run must be refused.
"""

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys

KIND = os.environ.get("ATOLL_BARE")
WORDS = ("hide", "processes", "pids", "disk")
CLAUSES = {"hide": "filesystem.hide", "proc": "filesystem.system", "processes": "processes.namespaces", "pids": "limits.pids",
           "disk": "limits.disk", "private": "filesystem.private", "network": "network", "syscalls": "processes.syscalls"}

WEAKER = {}


def enter():
    """Become what ATOLL_BARE asks for; returns inside, or at once where nothing is asked for."""
    if not KIND or os.environ.get("ATOLL_BARE_INSIDE"):
        return
    if os.geteuid() == 0:
        print("skip all: without user namespaces only an ordinary user can run atoll\n0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all ' \
             '--bounding-set=-all "$@"'
    os.environ["ATOLL_BARE_INSIDE"] = "1"
    for fd in (3, 17, 200):
        with contextlib.suppress(OSError):
            os.set_inheritable(fd, False)
    os.execvp("unshare", ["unshare", "--user", "--map-current-user", "--keep-caps", "/bin/sh", "-c", script, "sh",
                          sys.executable, *sys.argv])


def flags(given):
    """What `atoll run` has to be told here, unless the test tells it something about that itself."""
    if not KIND or "--accept-weaker" in map(str, given):
        return []
    return [part for word in WORDS for part in ("--accept-weaker", word)]


def is_in_use(path):
    """A private directory of a run that goes on beside this test."""
    if "/atoll-bare-" not in path:
        return False
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return not os.path.lexists(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def expect(name, function):
    """Run a test, or check that the plan says why it cannot hold."""
    function()
