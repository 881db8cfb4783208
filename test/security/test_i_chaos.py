# SPDX-License-Identifier: Apache-2.0
# check: not sanitized
# check: alone
"""The chaos of a working day: many runs in one project, one after the other and at once, with kill -9 of atoll, of the
sandbox's first process, and of the command, at any moment. Afterwards nothing is left, and the project is sound.

ATOLL_CHAOS_SEED repeats a day; the seed of each is printed."""

import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

SEED = int(os.environ.get("ATOLL_CHAOS_SEED") or int.from_bytes(os.urandom(4), "big"))
IS_SLOW_BUILD = "ASAN_OPTIONS" in os.environ
# Where root and a user both have such a day, a thousand in all.
IN_A_ROW = 150 if IS_SLOW_BUILD else 500 if os.environ.get("ATOLL_HALF") and not os.environ.get("ATOLL_LONG") else 1000
AT_ONCE = 50

# What somebody does in a project; "$1" is unique. A lock that a killed git left behind is git's to remove, by hand.
UNLOCK = "rm -f .git/*.lock .git/refs/heads/*.lock; "
WRITE = "echo $1 >run-$1; mkdir -p runs/$1; mv run-$1 runs/$1/done"
COMMIT = UNLOCK + "echo $1 >run-$1; git add run-$1 && git commit -q -m $1 -- run-$1"
DAEMON = "echo $1 >run-$1; (setsid sleep 600 &); python3 -c 'import socket; s = socket.socket(); s.bind((\"\", 0)); s.listen()'"
WAIT = "echo $1 >run-$1; sleep 600"
# Products of the runs, and what git has while it works.
PRODUCTS = ["run-*", "runs", ".git/*.lock", ".git/refs/*.lock", ".git/refs/heads/*.lock", ".git/COMMIT_EDITMSG", ".git/ORIG_HEAD"]


def environment(place):
    return caller_environment(place)


def begin(place, number, script):
    return subprocess.Popen([*ATOLL_RUN, "--quiet", "--", "/bin/sh", "-c", script, "sh", str(number)], cwd=place.ws,
                            env=environment(place), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, close_fds=True)


def children(pid):
    with contextlib.suppress(OSError):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]
    return []


def strike(parents):
    """kill -9 a child of one of these, by a descriptor that was opened while it was one. False if there was none."""
    for parent in parents:
        for pid in children(parent):
            try:
                fd = os.pidfd_open(pid)
            except OSError:
                continue
            try:
                if pid in children(parent):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                    return True
            except OSError:
                pass
            finally:
                os.close(fd)
    return False


def kill_something(chance, process):
    """At a random moment, set-up included."""
    victim = chance.choice(["atoll", "init", "command"])
    time.sleep(chance.choice([chance.uniform(0, 0.004), chance.uniform(0, 0.02), chance.uniform(0, 0.06)]))
    if victim == "init":
        until(lambda: process.poll() is not None or strike([process.pid]), 1)
    elif victim == "command":
        until(lambda: process.poll() is not None or strike(children(process.pid)), 1)
    # Also what survived because it came too late.
    process.kill()
    return victim


def finish(process, number, may_fail, victim=None):
    try:
        err = process.communicate(timeout=RUN_SECONDS)[1].decode(errors="replace")
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failed("run %d did not end (seed %d)" % (number, SEED))
    if not may_fail:
        check(process.returncode == 0, "run %d: status %d: %s (seed %d)" % (number, process.returncode, err, SEED))
    # That somebody killed the first process is for atoll what no user can have wanted.
    check(victim == "init" or process.returncode != INTERNAL, "run %d: %s (seed %d)" % (number, err, SEED))


def is_sound(place):
    """The next run works, and the project is as git wants it. That run also sweeps up the control groups of those that
    were killed, which it can as soon as their processes have ended."""
    same(processes_left(), {}, "processes (seed %d)" % SEED)
    run(place, [], UNLOCK + "echo last >run-last && git add run-last && git commit -q -m last")
    done = git(place.ws, "fsck", "--full", "--no-dangling")
    same(done.returncode, 0, "git fsck: %s" % done.stdout)
    check("last" in git(place.ws, "log", "-1", "--format=%s").stdout, "the last commit is not there")
    odd = [name for name in os.listdir(place.ws) if name not in ("f", "README.md", "src", ".git", "runs") and not name.startswith("run-")]
    same(odd, [], "other names in the project")


def day(place, residue, body):
    place.expect(*PRODUCTS)
    print("# seed %d" % SEED)
    body(random.Random(SEED))
    is_sound(place)
    same(residue.found(), [], "residue (seed %d)" % SEED)


@test("LC-06 a thousand runs in a row, a third of them killed")
def _():
    residue = Residue()
    with Place() as place:
        def body(chance):
            for number in range(IN_A_ROW):
                script = chance.choices([WRITE, COMMIT, DAEMON], [90, 6, 4])[0]
                is_killed = chance.random() < 0.33
                process = begin(place, number, WAIT if is_killed and chance.random() < 0.5 else script)
                victim = kill_something(chance, process) if is_killed else None
                finish(process, number, is_killed, victim)
        day(place, residue, body)


@test("LC-11 fifty at once in one project, half of them killed")
def _():
    residue = Residue()
    with Place() as place:
        def body(chance):
            running = []
            for number in range(AT_ONCE):
                script = chance.choice([WRITE, COMMIT, DAEMON, WAIT])
                running.append((begin(place, number, script), number, script))
            for process, number, script in running:
                is_killed = script == WAIT or chance.random() < 0.4
                victim = kill_something(chance, process) if is_killed else None
                # Two who commit at once: one finds the other's lock.
                finish(process, number, is_killed or script == COMMIT, victim)
        day(place, residue, body)


@test("LC-08 atoll and the first process killed together")
def _():
    residue = Residue()
    with Place() as place:
        def body(chance):
            for number in range(20):
                process = begin(place, number, WAIT)
                time.sleep(chance.uniform(0, 0.05))
                first = children(process.pid)
                process.send_signal(signal.SIGSTOP)
                strike([process.pid])
                process.kill()
                finish(process, number, True)
                check(not [pid for pid in first if pid in descendants() and not until(lambda p=pid: p not in descendants())],
                      "the first process is still there")
        day(place, residue, body)


main()
