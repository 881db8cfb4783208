# SPDX-License-Identifier: Apache-2.0
"""Identities: each run of root's has a host id of its own, which nobody else has while it lasts."""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

OFFLINE, BLOCK, SLOT = 0x70000000, 0x07fe0000, 1024
LOCKS = "/run/atoll/ids"


def host_ids(running):
    """User and group ids of every process inside, as the host sees them; not of the supervisor and what helps it."""
    found, waiting = set(), [running.pid]
    outside = os.readlink("/proc/%d/ns/pid" % running.pid)
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):  # it may end while it is looked at
            with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
                waiting += map(int, file.read().split())
            if os.readlink("/proc/%d/ns/pid" % pid) != outside:
                with open("/proc/%d/status" % pid) as file:
                    lines = re.findall(r"^[UG]id:(.*)$", file.read(), re.M)
                found.update(int(word) for line in lines for word in line.split())
    return found


def start_and_look(place, number):
    """A run that stays until its mark is removed, and its host id."""
    running = start(place, [], inside_sh("echo x >m$1; while test -e m$1; do sleep 0.05; done", number))
    wait_file(place, "m%d" % number, 2 * PATIENCE)
    ids = host_ids(running)
    check(len(ids) == 1, "processes of one run have the host ids %s" % sorted(ids))
    return running, ids.pop()


def is_held(host_id):
    """Does somebody hold the slot of this id? Asked without taking it."""
    ask = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, (host_id - OFFLINE) // SLOT, 1, 0)
    with open(LOCKS, "rb+") as file:
        answer = fcntl.fcntl(file, 36, ask)  # F_OFD_GETLK
    return struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK


@test("ID-01 root's runs have host ids of the offline block, held for their length")
def _():
    need_root()
    with Place() as place:
        place.expect("m*")
        one, first = start_and_look(place, 1)
        two, second = start_and_look(place, 2)
        check(first != second, "two runs at once have the host id %d" % first)
        for host_id in (first, second):
            check(OFFLINE <= host_id < OFFLINE + BLOCK and (host_id - OFFLINE) % SLOT == 0, "host id %d" % host_id)
            check(is_held(host_id), "nobody holds %d" % host_id)
        os.unlink(place.ws + "/m1")
        one.wait()
        check(not is_held(first), "%d is held after the end" % first)
        check(is_held(second), "%d was given up with another run" % second)
        os.unlink(place.ws + "/m2")
        two.wait()


@test("ID-02 fifty at once are all different")
def _():
    need_root()
    with Place() as place:
        place.expect("m*")
        script = "echo x >m$1; while test ! -e go; do sleep 0.2; done"
        runs = [start(place, [], inside_sh(script, number)) for number in range(50)]
        for number in range(50):
            wait_file(place, "m%d" % number, 2 * PATIENCE)
        ids = [host_ids(running) for running in runs]
        check(all(len(each) == 1 for each in ids), "not one id each: %s" % ids)
        same(len(set.union(*ids)), 50, "different host ids")
        write(place.ws + "/go")
        place.expect("go")
        for running in runs:
            running.wait()


@test("ID-03 kill -9 of the supervisor frees the id, and of the first process, too")
def _():
    need_root()
    with Place() as place:
        place.expect("m*")
        running, host_id = start_and_look(place, 1)
        running.kill()
        check(until(lambda: not is_held(host_id)), "%d is still held" % host_id)
        check(not processes_left(), "processes are left")
        running, host_id = start_and_look(place, 2)
        with open("/proc/%d/task/%d/children" % (running.pid, running.pid)) as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
        running.kill()
        check(until(lambda: not is_held(host_id)), "%d is still held" % host_id)


@test("ID-04 an id that is held is not given to another run")
def _():
    need_root()
    with Place() as place:
        place.expect("m*")
        # Every slot but one in the way of the next runs: they have to take others. Runs of other tests may hold some
        # of them for a moment.
        with open(LOCKS, "rb+") as file:
            taken = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, os.getpid() % (BLOCK // SLOT), 3000, 0)

            def take():
                with contextlib.suppress(BlockingIOError):
                    fcntl.fcntl(file, 37, taken)  # F_OFD_SETLK
                    return True
            if not until(take):
                skip("slots that no other run holds")
            running, host_id = start_and_look(place, 1)
            slot = (host_id - OFFLINE) // SLOT
            check(not os.getpid() % (BLOCK // SLOT) <= slot < os.getpid() % (BLOCK // SLOT) + 3000, "slot %d was held" % slot)
            os.unlink(place.ws + "/m1")
            running.wait()


@test("ID-05 files come out owned by the owner of the workspace, whoever that is")
def _():
    need_root()
    with Place() as place:
        for owner, group in ((0, 0), (12345, 23456)):
            os.makedirs(place.ws + "/deep", exist_ok=True)
            for where, directories, files in os.walk(place.ws):
                for name in [where, *(os.path.join(where, n) for n in directories + files)]:
                    os.lchown(name, owner, group)
            os.chown(place.base, owner, group)
            result = run(place, [], "id -u; id -g; mkdir deep/d; echo x >deep/d/f; ln -s f deep/d/l; mkfifo deep/d/p; echo y >>f; stat -c %u f")
            same(result.out, "%d\n%d\n%d\n" % (owner, group, owner), "ids inside")
            for name in ("deep/d", "deep/d/f", "deep/d/l", "deep/d/p", "f"):
                st = os.lstat(os.path.join(place.ws, name))
                same((st.st_uid, st.st_gid), (owner, group), name)
            remove(place.ws + "/deep")


@test("ID-06 the command can neither reach nor drop the lock on its id")
def _():
    need_root()
    with Place() as place:
        result = run(place, [], inside_py("""
            attempt("file", lambda: os.open("/run/atoll/ids", os.O_RDWR))
            attempt("first", lambda: os.listdir("/proc/1/fd"))
            print("fds", sorted(map(int, os.listdir("/proc/self/fd")))[:3], len(os.listdir("/proc/self/fd")))
        """))
        result.refused("file", "first")
        check("fds [0, 1, 2] 4" in result.out, result.out)


@test("ID-07 an ordinary user's run has the user's own id and needs no lock")
def _():
    need_user()
    with Place() as place:
        place.expect("m*")
        running, host_id = start_and_look(place, 1)
        same(host_id, os.geteuid(), "host id")
        os.unlink(place.ws + "/m1")
        running.wait()


main()
