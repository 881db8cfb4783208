# SPDX-License-Identifier: Apache-2.0
# check: seconds 100
# check: sanitized if long
"""
The life of the daemon's sandboxes: time-outs, pauses, kills, being taken over, snapshots, budgets
"""

import contextlib
import os
import signal
import sqlite3
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: E402


@test("a sandbox ends at its time, or is paused, and a time-out can be moved")
def _():
    with Daemon() as daemon:
        ends, pauses, stays = daemon.create(timeout=2), daemon.create(timeout=2, autoPause=True), daemon.create(timeout=2)
        same(daemon.call("POST", "/sandboxes/%s/timeout" % stays["sandboxID"], {"timeout": 600})[0], 204, "setting it")
        check(until(lambda: daemon.state_of(ends) is None), "it did not end")
        check(until(lambda: daemon.state_of(pauses) == "paused"), "it was not paused")
        same(daemon.call("GET", "/health", box=ends)[0], 502, "the data plane of one that has ended")
        same(daemon.call("GET", "/health", box=pauses)[0], 502, "the data plane of one that is paused")
        same(daemon.state_of(stays), "running", "one whose end was moved")
        status, body, _ = daemon.call("POST", "/v2/sandboxes/%s/connect" % pauses["sandboxID"], {"timeout": 60})
        same(status, 201, "connect resumes: %s" % body)
        same(daemon.run(pauses, "echo hi").out, b"hi\n", "a command after that")
        metrics = daemon.call("GET", "/metrics")[1]
        check(b'atoll_ended_total{cause="time-out"} 1' in metrics, "causes in /metrics")


@test("a pause keeps processes, or only files")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600)
        mark = sleeper(daemon, box, "echo kept >file")
        path = "/sandboxes/%s/pause" % box["sandboxID"]
        same(daemon.call("POST", path, {})[0], 204, "pause")
        check(is_running(mark), "the process is gone with a pause that keeps memory")
        same(daemon.call("POST", path, {})[0], 409, "a second pause")
        same(daemon.call("POST", "/v2/sandboxes/%s/connect" % box["sandboxID"], {})[0], 201, "connect")
        check(is_running(mark), "the process is gone after the resumption")
        same(daemon.call("POST", path, {"memory": False})[0], 204, "pause without memory")
        check(until(lambda: not is_running(mark)), "the process lives on in a pause without memory")
        same(daemon.call("POST", "/v2/sandboxes/%s/connect" % box["sandboxID"], {})[0], 201, "connect")
        same(daemon.run(box, "cat file").out, b"kept\n", "the file")


@test("one that wakes is woken by a request")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600, autoPause=True, autoResume={"enabled": True})
        daemon.run(box, "echo x >f")
        same(daemon.call("POST", "/sandboxes/%s/pause" % box["sandboxID"], {})[0], 204, "pause")
        same(daemon.run(box, "cat f").out, b"x\n", "a command to a paused one")
        same(daemon.state_of(box), "running", "its state then")


@test("a pause at its time lasts, also if a client asks why its stream has ended")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600, autoPause=True, autoResume={"enabled": True})
        frames = daemon.begin(box, "sleep 1000")
        check("start" in next(frames)[1]["event"], "no start")
        same(daemon.call("POST", "/sandboxes/%s/timeout" % box["sandboxID"], {"timeout": 1})[0], 204, "its time")
        check(until(lambda: daemon.state_of(box) == "paused"), "it was not paused")
        same(daemon.call("GET", "/health", box=box)[0], 502, "whether it runs, asked with its token")
        same(daemon.state_of(box), "paused", "its state then")
        same(daemon.run(box, "echo x").out, b"x\n", "a command, which wakes it")


@test("kill: unroutable at once, and nothing of it is left")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        box = daemon.create(timeout=600)
        mark = sleeper(daemon, box, "true")
        check(is_running(mark), "the command does not run")
        same(daemon.kill(box), 204, "kill")
        same(daemon.call("GET", "/health", box=box)[0], 502, "the data plane")
        same(daemon.kill(box), 404, "a second kill")
        check(until(lambda: not is_running(mark)), "a process of it lives on")
        check(until(lambda: not daemon.records()), "records are left: %s" % daemon.records())
        check(until(lambda: not daemon.holders()), "holders are left")


@test("one whose steps have left their output open takes no more of them, and can be killed")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        box = daemon.create(timeout=600)
        mark = "mark-" + os.urandom(8).hex()
        step = {"command": ["bash", "-c", "exec -a %s sleep 1000 & exit 0" % mark]}
        connection, statuses = daemon.connect(), []
        while len(statuses) < 250 and statuses[-1:] != [409]:
            statuses.append(daemon.call("POST", "/v1/sandboxes/%s/steps" % box["sandboxID"], step, connection=connection)[0])
        connection.close()
        check(len(statuses) > 100, "refused after %d" % len(statuses))
        same((set(statuses[:-1]), statuses[-1]), ({201}, 409), "how they were answered")
        check(is_running(mark), "the processes do not run")
        same(daemon.kill(box), 204, "kill")
        check(until(lambda: not is_running(mark)), "processes of it live on")
        check(until(lambda: not daemon.holders()), "holders are left")


def write_state(daemon, box, state):
    """What a daemon has noted down that was killed before, or after, it had done it: 1 runs, 2 is paused with its memory."""
    with contextlib.closing(sqlite3.connect(os.path.join(daemon.state, "state.db"))) as base, base:
        base.execute("UPDATE boxes SET state = ?, keeps_memory = ?, end_ms = ? WHERE id = ?",
                     (state, state == 2, int(time.time() + 600) * 1000, box["sandboxID"]))


def stands_still(mark):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if file.read().split(b"\0")[0] != mark.encode():
                    continue
            with open("/proc/%s/stat" % pid) as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "T"
    return None


@test("a pause, or its end, that a killed daemon had not noted down is finished by the next")
def _():
    with Daemon() as daemon:
        pauses, goes_on = daemon.create(timeout=600), daemon.create(timeout=600)
        first, second = sleeper(daemon, pauses), sleeper(daemon, goes_on)
        same(daemon.call("POST", "/sandboxes/%s/pause" % pauses["sandboxID"], {})[0], 204, "pause")
        check(stands_still(first) and not stands_still(second), "which of them stand still")
        daemon.crash()
        write_state(daemon, pauses, 1)
        write_state(daemon, goes_on, 2)
        daemon.start()
        check(until(lambda: daemon.state_of(pauses) == "paused"), "one that stands still is told as running")
        check(until(lambda: stands_still(second)), "one that is told as paused goes on")
        for box, mark in ((pauses, first), (goes_on, second)):
            same(daemon.call("POST", "/v2/sandboxes/%s/connect" % box["sandboxID"], {})[0], 201, "connect")
            check(until(lambda: stands_still(mark) is False), "the process does not go on")
            same(daemon.run(box, "echo hi").out, b"hi\n", "a command after that")
        same((daemon.state_of(pauses), daemon.state_of(goes_on)), ("running", "running"), "their states")


def left_by(daemon):
    """What there is of sandboxes: files in the store, descriptors and threads of the daemon, groups of root's."""
    found = []
    for folder in ("records", "layers", "trash", "log"):
        path = os.path.join(daemon.state, "atoll", folder)
        found += ["%s/%s" % (folder, name) for name in os.listdir(path)] if os.path.isdir(path) else []
    return found


@test("many that come and go at once leave nothing behind")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        def cycles(n):
            for _ in range(n):
                box = daemon.create(timeout=600)
                same(daemon.run(box, "echo x >f; cat f").out, b"x\n", "a command")
                same(daemon.kill(box), 204, "kill")

        def round_of(n, width):
            failures = []

            def one():
                try:
                    cycles(n)
                except BaseException as failure:  # told by the main thread
                    failures.append(failure)
            threads = [threading.Thread(target=one) for _ in range(width)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            check(not failures, "failed: %s" % failures)
            check(until(lambda: b"atoll_removing 0\n" in daemon.call("GET", "/metrics")[1]), "removals do not end")
            check(until(lambda: not daemon.holders()), "holders are left")
            check(until(lambda: len(os.listdir("/proc/%d/task" % daemon.pid)) > 0), "the daemon is gone")
            return len(os.listdir("/proc/%d/fd" % daemon.pid))
        before = round_of(2, 4)
        after = round_of(4, 4)
        # One of ours that was just closed may still be its.
        check(until(lambda: len(os.listdir("/proc/%d/fd" % daemon.pid)) <= before), "descriptors of the daemon: %d, then %d" % (before, after))
        same(left_by(daemon), [], "what is left in the store")


@test("a command that is refused takes no descriptor of its holder's with it")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        box = daemon.create(timeout=60)
        same(daemon.run(box, "echo hi").out, b"hi\n", "before")
        for _ in range(3):
            with contextlib.suppress(Failed):
                check(daemon.run(box, "true", cwd="/nope").code is None, "a directory that is not there")
        for holder in daemon.holders():
            same([os.readlink("/proc/%d/fd/%d" % (holder, fd)) for fd in range(3)], ["/dev/null"] * 3, "standard streams of the holder")
        same(daemon.run(box, "echo hi").out, b"hi\n", "afterwards")


def lives(pid):
    """Whoever has lost its parent may wait for ever to be reaped."""
    with contextlib.suppress(OSError):
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def spawners_of(parent):
    """Its children of that name: a spawner of the daemon's, or the holder that a spawner has forked ahead."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError):
            with open("/proc/%s/stat" % pid) as file:
                name, rest = file.read().rsplit(")", 1)
            if name.endswith("(atoll-spawner") and int(rest.split()[1]) == parent and rest.split()[0] != "Z":
                found.append(int(pid))
    return found


@test("a holder is forked ahead; one that is killed is not missed, and none outlives its daemon")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        spawner = until(lambda: spawners_of(daemon.pid))[0]
        waiting = until(lambda: spawners_of(spawner))
        same(len(waiting), 1, "holders that wait")
        box = daemon.create(timeout=60)
        check(waiting[0] in daemon.holders(), "who was forked ahead holds it")
        same(daemon.run(box, "echo hi").out, b"hi\n", "a command")
        second = until(lambda: spawners_of(spawner))
        os.kill(second[0], signal.SIGKILL)
        box = daemon.create(timeout=60)
        same(daemon.run(box, "echo hi").out, b"hi\n", "a command, after the one that waited was killed")
        third = until(lambda: spawners_of(spawner))
        check(third and third != second, "another one waits")
        daemon.crash()
        check(until(lambda: not any(lives(pid) for pid in (spawner, *third))), "they live on")
        daemon.start()
        same(daemon.run(box, "echo hi").out, b"hi\n", "a command, after a kill -9")


@test("a spawner that is killed is started anew, and nothing is missed meanwhile")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        def spawners():
            return spawners_of(daemon.pid)
        first = until(spawners)
        same(len(first), 1, "spawners")
        os.kill(first[0], signal.SIGKILL)
        same(daemon.run(daemon.create(timeout=60), "echo hi").out, b"hi\n", "a sandbox right after that")
        check(until(lambda: spawners() and spawners() != first), "no new spawner")
        same(daemon.run(daemon.create(timeout=60), "echo hi").out, b"hi\n", "a sandbox by the new one")


@test("kill -9 of the daemon: sandboxes and their commands go on, and are taken over")
def _():
    with Daemon() as daemon:
        box, ended, other = daemon.create(timeout=600, metadata={"a": "b"}), daemon.create(timeout=3), daemon.create(timeout=600)
        mark = sleeper(daemon, box, "echo here >file")
        gone = sleeper(daemon, ended, "true")
        same(daemon.call("POST", "/sandboxes/%s/pause" % other["sandboxID"], {})[0], 204, "pause")
        before = daemon.call("GET", "/sandboxes/" + box["sandboxID"])[1]
        daemon.crash()
        check(is_running(mark), "the command ended with the daemon")
        time.sleep(3)
        daemon.start()
        check(is_running(mark), "the command ended with the next daemon")
        same(daemon.call("GET", "/sandboxes/" + box["sandboxID"])[1], before, "what is known of it")
        same(daemon.run(box, "cat file").out, b"here\n", "a file, by a command in it")
        same(daemon.state_of(other), "paused", "the paused one")
        check(until(lambda: daemon.state_of(ended) is None), "the one whose time came meanwhile is still there")
        check(until(lambda: not is_running(gone)), "its command lives on")
        same(daemon.call("POST", "/v2/sandboxes/%s/connect" % other["sandboxID"], {})[0], 201, "connect to the paused one")
        same(daemon.kill(box), 204, "kill")
        check(until(lambda: not is_running(mark)), "its command lives on")


@test("what a killed daemon has parked or half made is removed by the next")
def _():
    with Daemon(config="pool: {least: 3, most: 3}\n") as daemon:
        check(until(lambda: b"atoll_pool_parked 3" in daemon.call("GET", "/metrics")[1]), "the pool does not fill")
        daemon.crash()
        same(len(daemon.records()), 3, "what the killed daemon left")
        left = set(daemon.records())
        daemon.flags = []
        daemon.start()
        check(until(lambda: not left & set(daemon.records())), "it is left: %s" % daemon.records())


@test("the place of a parked sandbox is filled again after it was handed out, also by several at once")
def _():
    with Daemon(config="pool: {least: 3, most: 3}\n") as daemon:
        def told(name):
            return int(re.search(rb"^atoll_%s (\d+)" % name, daemon.call("GET", "/metrics")[1], re.M)[1])
        for round in range(3):
            check(until(lambda: told(b"pool_parked") == 3), "round %d: the pool does not fill" % round)
            before, made = told(b"created_from_pool_total"), []
            asking = [threading.Thread(target=lambda: made.append(daemon.create())) for _ in range(3)]
            for one in asking:
                one.start()
            for one in asking:
                one.join()
            same(told(b"created_from_pool_total") - before, 3, "handed out parked")
            for box in made:
                same(daemon.run(box, "echo here").out, b"here\n", "its first command")
                same(daemon.kill(box), 204, "kill")


def killed_while_creating(daemon, path, body):
    """The daemon ends as soon as a new row is seen; the rows that nobody was told of. None: the client was quicker."""
    answers = []

    def ask():
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            answers.append(daemon.call("POST", path, body))
    with contextlib.closing(sqlite3.connect("file:%s/state.db?mode=ro" % daemon.state, uri=True)) as database:
        def rows():
            return {row[0] for row in database.execute("SELECT id FROM boxes")}
        before = rows()
        client = threading.Thread(target=ask)
        client.start()
        while rows() == before and not answers:
            pass
        os.kill(daemon.pid, signal.SIGKILL)
        client.join()
        daemon.crash()
        return None if answers else rows() - before


@test("a sandbox whose creator was not told of it, for the daemon was killed: listed, claimed by its request id, and it ends at its time")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        def unanswered(path, body):
            for _ in range(60):
                rows = killed_while_creating(daemon, path, body())
                daemon.start()
                if rows:
                    return rows.pop()
            skip("a daemon that dies between the row and the answer, in 60 tries")
        serial = iter(range(1000))
        id = unanswered("/v2/sandboxes", lambda: {"templateID": "base", "timeout": 20, "metadata": {"whose": "mine-%d" % next(serial)}})
        status, found, _ = daemon.call("GET", "/v2/sandboxes?metadata=whose%%3Dmine-%d" % (next(serial) - 1))
        same((status, [box["sandboxID"] for box in found]), (200, [id]), "by its metadata")
        names = []

        def named():
            names.append("request-%d" % next(serial))
            return {"requestId": names[-1], "timeout": 600}
        claimed = unanswered("/v1/sandboxes", named)
        status, box, _ = daemon.call("POST", "/v1/sandboxes", {"requestId": names[-1], "timeout": 600})
        check(status in (200, 201) and box["id"] == claimed, "asked for again: %s %s, not %s" % (status, box, claimed))
        status, step, _ = daemon.call("POST", "/v1/sandboxes/%s/steps" % claimed, {"command": ["/bin/sh", "-c", "exit 7"], "wait": 60})
        same((status, step["result"]["exitCode"]), (201, 7), "a command in it")
        check(until(lambda: daemon.state_of({"sandboxID": id}) is None, 60), "it does not end at its time")
        same(daemon.kill({"sandboxID": claimed}), 204, "kill")
        for each in daemon.call("GET", "/v2/sandboxes")[1]:
            daemon.kill(each)
        check(until(lambda: not daemon.records()), "records are left: %s" % daemon.records())


@test("snapshots outlive their sandbox, and forks are on their own")
def _():
    with Daemon() as daemon:
        box = daemon.create(timeout=600, envVars={"E": "1"})
        daemon.run(box, "echo one >f")
        status, made, _ = daemon.call("POST", "/sandboxes/%s/snapshots" % box["sandboxID"], {"name": "snap"})
        same((status, made), (201, {"snapshotID": "local/snap:default", "names": ["local/snap"]}), "a snapshot")
        status, forks, _ = daemon.call("POST", "/sandboxes/%s/fork" % box["sandboxID"], {"count": 2, "timeout": 100})
        same((status, len(forks)), (201, 2), "forks: %s" % forks)
        daemon.run(box, "echo two >f")
        fork = forks[0]["sandbox"]
        same(daemon.run(fork, "cat f; echo $E").out, b"one\n1\n", "the fork")
        same(daemon.kill(box), 204, "kill")
        daemon.crash()
        daemon.start()
        copy = daemon.create("snap", timeout=100)
        same(daemon.run(copy, "cat f").out, b"one\n", "one made from the snapshot, after all that")
        same(daemon.call("DELETE", "/templates/local%2Fsnap%3Adefault")[0], 204, "remove the snapshot")
        same(daemon.call("POST", "/v2/sandboxes", {"templateID": "snap"})[0], 404, "one from it after that")
        same(daemon.run(copy, "cat f").out, b"one\n", "the copy after that")


@test("a budget that is used up pauses the work, and there is no new")
def _():
    config = "tenants:\n  poor: {budget: {cpu: 1s, then: pause}}\npool: {least: 0, most: 0}\n"
    with Daemon(config=config) as daemon:
        daemon.key = daemon.make_key()
        daemon.key = daemon.serve("key", "new", "--tenant", "poor")[1].strip()
        box = daemon.create(timeout=600)
        frames = daemon.begin(box, "while :; do :; done")
        check("start" in next(frames)[1]["event"], "no start")
        check(until(lambda: daemon.state_of(box) == "paused"), "it was not paused")
        status, body, _ = daemon.call("POST", "/v2/sandboxes", {"templateID": "base"})
        check(status == 429 and "budget" in body["message"], "a new one: %s %s" % (status, body))


@test("what a used up budget has paused is not resumed by who asks")
def _():
    config = "tenants: {default: {budget: {steps: 2, then: pause}}}\npool: {least: 0, most: 0}\n"
    with Daemon(config=config) as daemon:
        box = daemon.create(timeout=600, autoPause=True, autoResume={"enabled": True})
        for _ in range(2):
            daemon.run(box, "true")
        check(until(lambda: daemon.state_of(box) == "paused"), "it was not paused")
        id = box["sandboxID"]
        for method, path, body in (("POST", "/v1/sandboxes/%s/resume" % id, {}), ("POST", "/v2/sandboxes/%s/connect" % id, {}),
                                   ("POST", "/sandboxes/%s/resume" % id, {})):
            status, body, headers = daemon.call(method, path, body)
            why = body["error"]["message"] if "error" in body else body["message"]
            same((status, why), (429, "the budget is used up: 2 of 2 steps"), path)
            check("retry-after" in headers, "no Retry-After: %s" % headers)
        same(daemon.call("GET", "/files?path=x", box=box)[0], 429, "a request that would wake it")
        same(daemon.state_of(box), "paused", "its state after all that")


@test("what others write on the daemon's disk is not a sandbox's")
def _():
    need_layers()
    with tempfile.TemporaryDirectory(dir=DISK) as state:
        os.chmod(state, 0o700)
        with Daemon(config="base: {disk: 64M}\n", state=state) as daemon:
            box = daemon.create(timeout=600)
            same(daemon.run(box, "true").code, 0, "a command")
            same(daemon.call("POST", "/files?path=f", data=b"x", box=box, headers={"Content-Type": "application/octet-stream"})[0], 200, "a file")
            with tempfile.TemporaryFile(dir=state) as others:
                os.posix_fallocate(others.fileno(), 0, 256 << 20)
                out = daemon.run(box, "sleep 2; echo here")
                same((out.code, out.out), (0, b"here\n"), "while they write: %s" % out.error)
                same(daemon.call("GET", "/files?path=f", box=box)[1], b"x", "the file")


@test("an idle one ends, and one with a command does not")
def _():
    with Daemon(config="idle: 2s\npool: {least: 0, most: 0}\n") as daemon:
        idle, busy = daemon.create(timeout=600), daemon.create(timeout=600)
        frames = daemon.begin(busy, "sleep 1000")
        check("start" in next(frames)[1]["event"], "no start")
        check(until(lambda: daemon.state_of(idle) is None, 60), "it did not end")
        same(daemon.state_of(busy), "running", "the one with a command")


main()
