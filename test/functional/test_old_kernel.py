# SPDX-License-Identifier: Apache-2.0
"""Older kernels and stricter containers: a system call that is not there is either done without, with every promise
kept, or atoll refuses to run and says which it is. test/no-new-calls.c takes the calls away."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

WITHOUT = os.path.join(os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL), "test", "no-new-calls")

# Something else stands in, or it is not used.
DONE_WITHOUT = ["clone3", "close_range", "clone3,close_range", "keyctl", "faccessat2", "fchmodat2", "renameat2", "fsopen,fsconfig,fsmount",
                "pidfd_send_signal", "process_madvise", "futex_waitv", "epoll_pwait2", "memfd_secret", "copy_file_range", "preadv2"]

# Nothing else can: the word that the one line must hold.
NEEDED = {
    "openat2": "openat2",
    "statx": "statx",
    "open_tree": "open_tree",
    "move_mount": "move_mount",
    "mount_setattr": "mount_setattr",
    "pidfd_open": "pidfd_open",
    "pidfd_getfd": "pidfd_getfd",
    "process_vm_readv": "process_vm_readv",
    "seccomp": "seccomp",
    "landlock_create_ruleset": "Landlock",
    "landlock_add_rule": "landlock_add_rule",
    "landlock_restrict_self": "landlock_restrict_self",
}
# Before these the kernel asks for a privilege, so that EPERM alone does not tell; the step that needs them is named.
NEEDED_EPERM = {**NEEDED, "move_mount": "mount on", "landlock_restrict_self": "Landlock"}

ESSENTIALS = """
    attempt("write", lambda: put("made"))
    attempt("rename", lambda: os.rename("made", "kept"))
    attempt("outside", lambda: put(arg[0] + "/canary"))
    attempt("remove outside", lambda: os.unlink(arg[0] + "/canary"))
    attempt("truncate outside", lambda: os.truncate(arg[0] + "/canary", 0))
    attempt("hook", lambda: put(".git/hooks/pre-commit"))
    attempt("settings", lambda: os.mkdir(".vscode"))
    attempt("settings by rename", lambda: os.rename("kept", ".envrc"))
    attempt("namespace", lambda: syscall(272, 0x10000000))
    import socket
    def connect():
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(arg[0] + "/sink.sock")
    attempt("socket", connect)
    print("fds", sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1])
    print("caps", [l.split()[1] for l in open("/proc/self/status") if l.startswith(("CapEff", "CapBnd", "NoNewPrivs", "Seccomp:"))])
"""


def need_helper():
    if not os.access(WITHOUT, os.X_OK):
        skip("no-new-calls is not built")


def without(place, how, *args, **options):
    return Running(place, [WITHOUT, *how, ATOLL, *args], **options).wait()


def promises_hold(how):
    with Place() as place, Sink(place):
        place.expect("kept")
        result = without(place, how, "run", "--direct", "--read", place.out, "--", *inside_py(ESSENTIALS, place.out))
        result.allowed("write", "rename")
        result.refused("outside", "remove outside", "truncate outside", "hook", "settings", "settings by rename", "namespace", "socket",
                       how=GONE + ("ECONNREFUSED",))
        check("fds [0, 1, 2]" in result.out, "other descriptors than 0, 1, 2: %s" % result.out)
        check("caps ['0000000000000000', '0000000000000000', '1', '2']" in result.out, "privileges: %s" % result.out)


def is_refused(how, word):
    with Place() as place:
        result = without(place, how, "run", "--direct", "--", "touch", "ran", starts=False)
        same(result.status, HOST_CANNOT, "status of %s" % how)
        lines = result.err.splitlines()
        check(len(lines) == 1 and lines[0].startswith("atoll: ") and word in lines[0], "not one line that names it: %r" % result.err)


@test("what can be done without, is: every promise holds")
def _():
    need_helper()
    for calls in DONE_WITHOUT:
        promises_hold(["--call", calls])


@test("the same where a container answers EPERM")
def _():
    need_helper()
    for calls in ("clone3", "close_range", "clone3,close_range", "keyctl", "faccessat2,fchmodat2"):
        promises_hold(["--eperm", "--call", calls])


@test("a kernel that knows no call newer than it needs")
def _():
    need_helper()
    promises_hold(["--from", "447"])  # all behind landlock_restrict_self, which came with 5.13


@test("what cannot be done without is named, and nothing runs")
def _():
    need_helper()
    for calls, word in NEEDED.items():
        is_refused(["--call", calls], word)
    for calls, word in NEEDED_EPERM.items():
        is_refused(["--eperm", "--call", calls], word)


@test("doctor says what is missing")
def _():
    need_helper()
    for calls in NEEDED:
        with Place() as place:
            result = without(place, ["--call", calls], "doctor", starts=False)
            check(result.status != 0, "doctor is content without %s" % calls)
            check(calls in result.out or "MISSING  Landlock" in result.out, "doctor does not name %s: %s" % (calls, result.out))


main()
