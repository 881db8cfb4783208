#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The same tests on a host that grants no user namespaces

    ATOLL_BARE=1 test/security/test_a_writing.py     a test file there
    test/bare.py KIND COMMAND...                     any command there

KIND is one of
    1          a user namespace whose own `user.max_user_namespaces` is 0, entered without any capability
    apparmor   namespaces can be made and give no rights: mounting is refused, as under Ubuntu's AppArmor
    container  a filter refuses to make them, as in containers
Only an ordinary user can run atoll there. Every run then accepts by name what is weaker.

WEAKER names the tests that cannot hold there, with what the plan must say about it. They are not skipped: the plan of
this host is asked, and without acceptance the run must be refused.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys

KIND = os.environ.get("ATOLL_BARE")
WORDS = ("hide", "processes", "pids")

# What a plan says: (clause, part of mechanism or note, strength).
SEEN = ("filesystem.system", "it is there", "weaker")
PROC = ("filesystem.system", "that they are there", "weaker")
PROC_MOUNTS = ("filesystem.system", "mounts are shown", "weaker")
PROC_WRITING = ("filesystem.system", "never to write", "weaker")
PROCESSES = ("processes.namespaces", "can be seen", "weaker")
PIDS = ("limits.pids", "other processes", "weaker")
PRIVATE = ("filesystem.private", "neither readable nor writable", "enforced")
NETWORK = ("network", "no loopback", "enforced")
ABSTRACT = ("network", "no abstract sockets", "enforced")
CALLS = ("processes.syscalls", "shared memory by name are refused", "enforced")
DEVICES = ("filesystem.device", "no listing of /dev, no terminals", "enforced")

# Most of these refuse more than usual: what a test wants to see work inside does not.
WEAKER = {
    "FS-W23 only harmless devices": DEVICES,
    "FS-W25 predictable temporary names": PRIVATE,
    "FS-WX12 /proc/self is the caller's own, whoever opens it": PROC_WRITING,
    "FS-R07 no process of the host, no file of its temporary places": PROCESSES,
    "FS-R13 directory names of hidden places": SEEN,
    "FS-RX3 a hidden file by every other road": SEEN,
    "FS-RX5 mounts of the host do not show through": PROC_MOUNTS,
    "PR-04 kill everything": PROCESSES,  # the test wants a pid namespace before it dares; BARE-04 does it
    "PR-07 namespaces": PROCESSES,
    "KS-02 bpf, and a socket filter by SO_ATTACH_BPF": NETWORK,
    "KS-08 netlink: only the routing part, and only to read": NETWORK,
    "KS-10 vsock": DEVICES,
    "KS-11 all other families, one by one": NETWORK,
    "KS-13 page-cache tricks on a file that may only be read": PROC_WRITING,
    "KS-17 MSG_OOB on a unix socket, and MSG_FASTOPEN": NETWORK,
    "KS-19 clone storms stop at the limit of processes": PIDS,
    "KS-19 a vfork loop ends, and the limit holds for threads and processes together": PIDS,
    "KS-X terminals: no words into the caller's shell": DEVICES,
    "KS-X every process of the run has the filter, no capability and no_new_privs, seen from the host": PROCESSES,
    "IPC-04 abstract sockets": ABSTRACT,
    "IPC-04 abstract sockets inside are the run's own": ABSTRACT,
    "IPC-05 displays and sound": NETWORK,
    "IPC-08 reverse: a server inside, in the workspace and in private places": PRIVATE,
    "IPC-11 shared memory, semaphores and queues of System V and POSIX": CALLS,
    "IPC-X descriptors over a granted socket: what leaves the sandbox is the sandbox's": SEEN,
    "IPC-X addresses of every length and family": NETWORK,
    "IPC-X connects that wait do not hold up the others, and leave nothing": PROC,
    "IPC-X a hundred connects at once, by processes and by threads": NETWORK,
    "IPC-X servers on the loopback inside work, and are nobody else's": NETWORK,
    "IPC-X the host's loopback is not the sandbox's": NETWORK,
    "IPC-X every other address fails at once": NETWORK,
}


def _filter(rules):
    """A seccomp program: {call: errno}, or {call: (errno, flag in argument 0)}."""
    load, test, given, ret = 0x20, 0x15, 0x45, 0x06
    program = [(load, 0, 0, 0)]
    for number, answer in rules.items():
        errno, flag = answer if isinstance(answer, tuple) else (answer, None)
        if flag is None:
            program += [(test, 0, 1, number), (ret, 0, 0, 0x50000 | errno)]
        else:
            program += [(test, 0, 3, number), (load, 0, 0, 16), (given, 0, 1, flag), (ret, 0, 0, 0x50000 | errno), (load, 0, 0, 0)]
    program.append((ret, 0, 0, 0x7fff0000))
    code = b"".join(struct.pack("HBBI", *step) for step in program)
    memory = ctypes.create_string_buffer(code, len(code))
    libc = ctypes.CDLL(None, use_errno=True)
    whole = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program), ctypes.addressof(memory)))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, whole, 0, 0):
        sys.exit("cannot filter: %s" % os.strerror(ctypes.get_errno()))


def become(kind, command):
    """Execute a command on such a host."""
    if kind == "apparmor":  # mount, open_tree, move_mount, fsopen, fsmount, mount_setattr: EACCES
        _filter({165: 13, 428: 13, 429: 13, 430: 13, 432: 13, 442: 13})
    elif kind == "container":  # unshare and clone with CLONE_NEWUSER: EPERM; clone3: ENOSYS
        _filter({272: (1, 0x10000000), 56: (1, 0x10000000), 435: 38})
    else:
        script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all ' \
                 '--bounding-set=-all "$@"'
        command = ["unshare", "--user", "--map-current-user", "--keep-caps", "/bin/sh", "-c", script, "sh", *command]
    os.execvp(command[0], command)


def enter():
    """Start the test file again on such a host, if ATOLL_BARE asks for it."""
    if not KIND or os.environ.get("ATOLL_BARE_INSIDE"):
        return
    if os.geteuid() == 0:
        print("skip all of it: without user namespaces only an ordinary user can run atoll\n0 passed, 0 failed, 1 skipped")
        sys.exit(0)
    os.environ["ATOLL_BARE_INSIDE"] = "1"
    become(KIND, [sys.executable, *sys.argv])


def flags(given):
    """What `atoll run` has to be told here, unless the test tells it something about that itself."""
    if not KIND or "--accept-weaker" in map(str, given):
        return []
    return [part for word in WORDS for part in ("--accept-weaker", word)]


def is_in_use(path):
    """A private directory of a run that goes on beside this test."""
    if "/atoll-bare-" not in path:
        return False
    if not os.environ.get("ATOLL_BARE"):
        return True  # nothing here makes any
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return True  # gone, or another user's
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def plan(*more):
    """The lines of the plan of a default run on this host: [{clause, strength, ...}], and whether it could be kept."""
    atoll = os.environ.get("ATOLL") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "atoll"))
    where = os.environ.get("TMPDIR", "/var/tmp")
    home = os.path.join(where, "atoll-test-plan-%d" % os.getpid())
    with contextlib.suppress(FileExistsError):
        os.makedirs(home + "/ws")
    try:
        done = subprocess.run([atoll, "run", "--direct", *more, "--plan", "--json", "--", "true"], cwd=home + "/ws", stdout=subprocess.PIPE,
                              env={"HOME": home, "PATH": "/usr/bin:/bin"}, timeout=60)
    finally:
        os.rmdir(home + "/ws")
        os.rmdir(home)
    told = json.loads(done.stdout)
    return told["clauses"], told["enforceable"]


def says(statement):
    """None, or what the plan does not say."""
    clause, text, strength = statement
    accepted, is_kept = plan(*flags([]))
    refused, is_kept_without = plan()
    found = [line for line in accepted if line["clause"] == clause and text in "%s %s" % (line["mechanism"], line["note"])]
    if not found or not is_kept:
        return "no line of the plan says %r about %s" % (text, clause)
    if found[0]["strength"] != strength:
        return "%s is %s in the plan, not %s" % (clause, found[0]["strength"], strength)
    if strength == "weaker" and (is_kept_without or not any(line["clause"] == clause and line["strength"] == "missing" for line in refused)):
        return "%s would be kept without anybody's acceptance" % clause
    return None


if __name__ == "__main__":
    become(sys.argv[1], sys.argv[2:])
