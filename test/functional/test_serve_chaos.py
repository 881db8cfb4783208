# SPDX-License-Identifier: Apache-2.0
# check: sanitized if long
# check: alone
# check: timeout 30000
"""
The daemon under load while things die: nothing that it has promised is lost, and nothing is left

    ATOLL_HALF=1        less of it, where root and a user both do it
    ATOLL_LONG=1        five minutes instead of seconds, 100,000 cycles, dozens of copies (make soak)

What dies: the daemon, holders, first processes; egress in test_serve_egress.py. Besides: a loss of power, a full disk.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import lib  # noqa: E402
from lib import *  # noqa: E402
from serving import *  # noqa: E402

LONG = bool(os.environ.get("ATOLL_LONG"))
SECONDS = 300 if LONG else 8 if os.environ.get("ATOLL_HALF") else 12  # root and a user both do it
lib.TEST_SECONDS = (3600 * 8 if LONG else 300) * SLOW


class Client(threading.Thread):
    """Somebody who asks again until there is an answer, as every client of a service has to."""

    def __init__(self, daemon, number, until):
        super().__init__(daemon=True)
        self.serving, self.number, self.until = daemon, number, until
        self.done, self.lost, self.wrong = 0, 0, []

    def ask(self, method, path, body=None):
        give_up = time.monotonic() + 60 * SLOW
        while True:
            try:
                status, answer, headers = self.serving.call(method, path, body)
            except (OSError, ValueError, http.client.HTTPException) as what:
                status, answer = 0, repr(what)
            if status and status not in (429, 503):
                return status, answer
            if time.monotonic() > give_up:
                raise Failed("%s %s: no answer within a minute: %s" % (method, path, answer))
            time.sleep(0.05)

    def make(self, serial):
        status, box = self.ask("POST", "/v1/sandboxes", {"requestId": "box-%d-%d" % (self.number, serial), "labels": {"test": "chaos"}})
        check(status in (200, 201), "create: %s %s" % (status, box))
        return box["id"]

    def step(self, box, serial):
        """One line more in the file, and on its output; exactly once, however often it is asked for. None: the box died."""
        command = ["/bin/sh", "-c", "echo %d >>steps; echo line %d; sleep 0.0%d" % (serial, serial, serial % 7)]
        status, step = self.ask("POST", "/v1/sandboxes/%s/steps" % box, {"command": command, "requestId": "step-%d" % serial})
        while status in (200, 201) and step["state"] != "ended":
            time.sleep(0.01)
            status, step = self.ask("GET", "/v1/sandboxes/%s/steps/%d" % (box, step["number"]))
        if status not in (200, 201) or step["result"]["exitCode"] != 0:
            return None
        return step

    def use(self, box):
        count = 0
        for serial in range(1, 13):
            step = self.step(box, serial)
            if step is None:
                self.lost += 1
                return
            count += 1
            if step["out"]["size"] != len("line %d\n" % serial):
                self.wrong.append("step %d of %s has printed %s bytes" % (serial, box, step["out"]["size"]))
        status, answer = self.ask("GET", "/v1/sandboxes/%s/files?path=steps" % box)
        said = answer.decode() if isinstance(answer, bytes) else answer
        if status == 200 and said != "".join("%d\n" % serial for serial in range(1, count + 1)):
            self.wrong.append("%s: the steps were not executed once each: %r" % (box, said))
        self.done += count

    def run(self):
        serial = 0
        try:
            while time.monotonic() < self.until:
                serial += 1
                box = self.make(serial)
                self.use(box)
                status, answer = self.ask("DELETE", "/v1/sandboxes/" + box)
                if status not in (200, 204, 404):
                    self.wrong.append("delete: %s %s" % (status, answer))
        except Failed as what:
            self.wrong.append(str(what))


def processes_of(daemon, name):
    """Children of this daemon's holders with that name."""
    found = []
    for holder in daemon.holders():
        with contextlib.suppress(OSError):
            with open("/proc/%d/task/%d/children" % (holder, holder)) as file:
                for pid in file.read().split():
                    with open("/proc/%s/comm" % pid) as comm:
                        if comm.read().strip() == name:
                            found.append(int(pid))
    return found


def strike(daemon, kinds, counts):
    kind = random.choice(kinds)
    counts[kind] = counts.get(kind, 0) + 1
    if kind == "daemon":
        daemon.crash()
        daemon.start()
        return
    victims = daemon.holders() if kind == "holder" else processes_of(daemon, "atoll-" + kind)
    if victims:
        with contextlib.suppress(OSError):
            os.kill(random.choice(victims), signal.SIGKILL)


def bombard(daemon, kinds, clients=4, seconds=SECONDS):
    port = daemon.url.rsplit(":", 1)[1]
    daemon.listen = "127.0.0.1:" + port  # the same one again
    until, counts = time.monotonic() + seconds, {}
    crowd = [Client(daemon, number, until) for number in range(clients)]
    for client in crowd:
        client.start()
    while time.monotonic() < until - 1:
        time.sleep(random.uniform(0.3, 1.2))
        strike(daemon, kinds, counts)
    for client in crowd:
        client.join(180 * SLOW)
        check(not client.is_alive(), "a client still waits")
    wrong = [line for client in crowd for line in client.wrong]
    check(not wrong, "%d things went wrong: %s" % (len(wrong), "; ".join(wrong[:4])))
    return sum(client.done for client in crowd), sum(client.lost for client in crowd), counts


@test("kill -9 of the daemon again and again: every step is executed once, and its result is known")
def _():
    residue = Residue()
    with Daemon() as daemon:
        done, lost, counts = bombard(daemon, ["daemon"])
        check(counts.get("daemon", 0) >= 3 and done >= 20, "little happened: %s, %d steps" % (counts, done))
        same(lost, 0, "boxes that died although nobody touched them")
        same(daemon.call("GET", "/v1/sandboxes?label=test%3Dchaos")[1]["items"], [], "sandboxes")
    same(residue.found(), [], "what is left")


@test("kill -9 of daemon, holders and first processes at random: others are not touched, and nothing is left")
def _():
    residue = Residue()
    with Daemon() as daemon:
        done, lost, counts = bombard(daemon, ["daemon", "holder", "init"])
        check(done >= 20, "little happened: %s, %d steps" % (counts, done))
        check(lost <= counts.get("holder", 0) + counts.get("init", 0), "%d boxes died of %s" % (lost, counts))
    same(residue.found(), [], "what is left")


@test("the control group of a holder that was killed is gone at the latest with its daemon")
def _():
    need_root()
    for _ in range(2 if os.environ.get("ATOLL_HALF") else 5):
        residue = Residue()
        with Daemon() as daemon:
            boxes = [daemon.call("POST", "/v1/sandboxes", {})[1]["id"] for _ in range(3)]
            os.kill(daemon.holders()[0], signal.SIGKILL)
            for box in boxes:
                among(daemon.call("DELETE", "/v1/sandboxes/" + box)[0], (200, 204, 404), "its end")
        same(residue.found(), [], "what is left")


@test("create and kill in a row: no descriptor, process, record or memory stays behind")
def _():
    cycles = 100000 if LONG else 150
    with Daemon() as daemon:
        def look():
            with open("/proc/%d/status" % daemon.pid) as file:
                memory = int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
            return len(os.listdir("/proc/%d/fd" % daemon.pid)), memory

        def cycle(count):
            connection = daemon.connect()
            for _ in range(count):
                box = daemon.create(timeout=600)
                same(daemon.call("DELETE", "/sandboxes/" + box["sandboxID"], connection=connection)[0], 204, "kill")
            connection.close()
        cycle(50)
        descriptors, memory = look()
        cycle(cycles)
        until(lambda: len(daemon.records()) <= 40, 60 * SLOW)  # what is parked
        after = look()
        check(after[0] <= descriptors + 40, "descriptors: %d, before %d" % (after[0], descriptors))
        check(after[1] <= memory + 8192 + cycles // 20, "memory: %d kB, before %d" % (after[1], memory))
        check(len(daemon.records()) <= 40, "records: %d" % len(daemon.records()))
        check(len(daemon.holders()) <= 40, "holders: %d" % len(daemon.holders()))


# ---- a loss of power ----

def stop_all_threads(pid):
    """What one instant of the machine is: nothing of the daemon moves while its files are looked at."""
    os.kill(pid, signal.SIGSTOP)

    def is_still():
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/stat" % (pid, task)) as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "T":
                    return False
        return True
    check(until(is_still), "the daemon does not stand still")


def copy_state(daemon, where):
    """Databases and their logs as they are now, and the records; not what only lives in memory."""
    stop_all_threads(daemon.pid)
    try:
        os.mkdir(where, 0o700)
        for name in ("state.db", "state.db-wal", "results.db", "results.db-wal"):
            path = os.path.join(daemon.state, name)
            if os.path.exists(path):
                shutil.copy(path, where)
        for record in daemon.records():
            to = os.path.join(where, "atoll", "records", record)
            os.makedirs(to + "/top/upper", 0o700)
            os.mkdir(to + "/top/work", 0o700)
            for name in ("meta", "job"):
                shutil.copy(os.path.join(daemon.state, "atoll", "records", record, name), to)
        shutil.copytree(os.path.join(daemon.state, "home"), where + "/home")
        for path in (where, where + "/atoll", where + "/home"):
            os.chmod(path, 0o700)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)


class Promises:
    """What was answered, by those who ask; each only once it was."""

    def __init__(self, daemon, seconds):
        self.daemon, self.until = daemon, time.monotonic() + seconds
        self.boxes, self.jobs, self.tenants, self.wrong = {}, {}, {}, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.guarded, args=(work,), daemon=True) for work in (self.make_boxes, self.run_jobs, self.run_jobs, self.add_tenants)]

    def guarded(self, work):
        try:
            for serial in range(100000):
                if time.monotonic() > self.until:
                    return
                work(serial)
        except Exception as what:
            self.wrong.append(repr(what))

    def make_boxes(self, serial):
        box = self.daemon.create(timeout=3000, metadata={"serial": str(serial)})
        with self.lock:
            self.boxes[box["sandboxID"]] = serial
        time.sleep(0.05)

    def run_jobs(self, serial):
        status, job, _ = self.daemon.call("POST", "/v1/jobs", {"command": ["/bin/sh", "-c", "echo %d; exit 3" % serial], "keep": 3000})
        same(status, 201, "a job: %s" % job)
        while job["state"] != "ended":
            time.sleep(0.005)
            status, job, _ = self.daemon.call("GET", "/v1/jobs/" + job["id"])
            same(status, 200, "the job: %s" % job)
        with self.lock:
            self.jobs[job["id"]] = job["step"]["result"]["exitCode"]

    def add_tenants(self, serial):
        key = self.daemon.make_key("t%d" % serial)
        with self.lock:
            self.tenants["t%d" % serial] = key
        time.sleep(0.2)

    def known(self):
        with self.lock:
            return dict(self.boxes), dict(self.jobs), dict(self.tenants)


def rows_of(path, sql):
    import sqlite3
    with contextlib.closing(sqlite3.connect(path)) as database:
        same(database.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "integrity of " + path)
        return {row[0] for row in database.execute(sql)}


@test("a daemon that is stopped and continued while it waits for a word on its control socket reads the word")
def _():
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        answers = []
        for _ in range(10):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.connect(os.path.join(daemon.state, "control"))
                time.sleep(0.02)  # the daemon accepts, and waits in recv()
                stop_all_threads(daemon.pid)
                os.kill(daemon.pid, signal.SIGCONT)
                time.sleep(0.02)
                try:
                    client.send(b"reload")
                    answers.append(client.recv(512))
                except (BrokenPipeError, ConnectionResetError):
                    answers.append(b"")  # on a busy machine the daemon's 200 ms are over: the command tries again
        check(b"ok" in answers, "no word was read: %s" % answers)
        same(set(answers) - {b"ok", b""}, set(), "other answers")
        # The same by the command.
        stop_all_threads(daemon.pid)
        adding = subprocess.Popen([ATOLL, "serve", "tenant", "add", "late", "--state", daemon.state], env=daemon.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(0.3)
        os.kill(daemon.pid, signal.SIGCONT)
        out = adding.communicate(timeout=60)[0]
        same(adding.returncode, 0, "tenant add: %s" % out)


@test("the databases at any moment: whole, with every row and result that was told before; a daemon goes on from them")
def _():
    copies = 60 if LONG else 4
    with Daemon(config="pool: {least: 0, most: 0}\n") as daemon:
        promises = Promises(daemon, 120 if LONG else 3.5)
        for thread in promises.threads:
            thread.start()
        for number in range(copies):
            time.sleep(random.uniform(0.1, 3 if LONG else 1.2))
            boxes, jobs, tenants = promises.known()
            where = os.path.join(daemon.place, "copy-%d" % number)
            copy_state(daemon, where)
            is_last = number == copies - 1
            if is_last:  # as it is, to a daemon
                break
            have = rows_of(where + "/state.db", "SELECT id FROM boxes")
            same((set(boxes) | set(jobs)) - have, set(), "sandboxes that are missing")
            same(set(tenants) - rows_of(where + "/state.db", "SELECT name FROM tenants"), set(), "tenants that are missing")
            same(set(jobs) - rows_of(where + "/results.db", "SELECT box FROM steps WHERE is_job AND view LIKE '%\"exitCode\":3%'"), set(), "results that are missing")
            shutil.rmtree(where)
        for thread in promises.threads:
            thread.join(60 * SLOW)
        same(promises.wrong, [], "what went wrong")
        check(len(boxes) >= 3 and len(jobs) >= 3 and tenants, "little happened: %d, %d, %d" % (len(boxes), len(jobs), len(tenants)))
        with Daemon(config="pool: {least: 0, most: 0}\n", state=where) as other:
            other.key = daemon.key
            for box in boxes:
                same(other.call("GET", "/v1/sandboxes/" + box)[1].get("state"), "running", "a sandbox of the copy")
            for job, code in jobs.items():
                status, answer, _ = other.call("GET", "/v1/jobs/" + job)
                same((status, answer["state"], answer["step"]["result"]["exitCode"]), (200, "ended", code), "a job of the copy")
            for tenant, key in tenants.items():
                same(other.call("GET", "/v1", key=key)[1]["tenant"], tenant, "a key of the copy")
            box = {"sandboxID": next(iter(boxes)), "envdAccessToken": None}
            status, step, _ = other.call("POST", "/v1/sandboxes/%s/steps" % box["sandboxID"], {"command": ["/bin/echo", "hi"], "wait": 60})
            same((status, step["result"]["exitCode"]), (201, 0), "a step in one of them, which starts anew")


# ---- a disk that is full ----

class SmallDisk:
    """A file system of 96 MiB that nobody else sees; from here on for this process and its children."""

    def __init__(self):
        need_root()
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        self.place = tempfile.mkdtemp(prefix="atoll-test-disk-")
        if libc.unshare(0x20000) < 0:
            os.rmdir(self.place)
            skip("a mount namespace")
        for words in (["mount", "--make-rprivate", "/"], ["mount", "-t", "tmpfs", "-o", "size=96m,mode=700", "tmpfs", self.place]):
            subprocess.run(words, check=True)
        self.filler = os.path.join(self.place, "filler")

    def fill(self):
        with open(self.filler, "ab", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * 65536)
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * 4096)

    def free(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.filler)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        subprocess.run(["umount", "-l", self.place], check=False)
        os.rmdir(self.place)


class SmallDaemon(Daemon):
    """On that disk, which has room again at the end."""

    def __init__(self, disk):
        self.disk = disk
        super().__init__(state=disk.place + "/state", config="machine: {free-disk: 1M}\npool: {least: 0, most: 0}\n")

    def __exit__(self, *what):
        self.disk.free()
        super().__exit__(*what)


FULL = (429, 500, 503, 507)


@test("a full disk: what is asked for is refused or says so, what is there stays, and with room again all is as it was told")
def _():
    with SmallDisk() as disk, SmallDaemon(disk) as daemon:
        def known(box, key):
            """How many steps have begun by this request. They have numbers from then on, and are known by them."""
            status, answer, _ = daemon.call("GET", "/v1/sandboxes/%s/steps" % box["sandboxID"])
            return sum(one["requestId"] == key for one in answer["items"])

        def step(box, key, command, may_refuse=False):
            """None: refused, for want of room."""
            status, answer, _ = daemon.call("POST", "/v1/sandboxes/%s/steps" % box["sandboxID"],
                                            {"command": ["/bin/sh", "-c", command], "wait": 60, "requestId": key})
            if may_refuse and status == 507:
                same((answer["error"]["cause"], known(box, key)), ("disk", 0), "a step that is refused")
                return None
            check(status in (200, 201), "a step: %s %s" % (status, answer))
            return {name: answer["result"][name] for name in ("exitCode", "cause")}
        for turn in range(20 if LONG else 2):
            stays, goes = daemon.create(timeout=3000), daemon.create(timeout=3000)
            daemon.run(stays, "echo before >f")
            disk.fill()
            # The disk's watch may have ended what was there, and there is no room to begin anew: then it has not begun.
            first = step(stays, "once-%d" % turn, "cat f; exit 7", may_refuse=True)
            if first:
                check(first["cause"] == "disk" or (first["exitCode"], first["cause"]) == (7, None), "a command in one that lives: %s" % first)
            wrong = []
            for _ in range(10):
                status, answer, headers = daemon.call("POST", "/v1/sandboxes", {})
                if status == 201:
                    continue  # it found the last block
                if status not in FULL or not answer["error"]["message"]:
                    wrong.append((status, answer))
            same(wrong, [], "how a new one is refused")
            same(daemon.kill(goes), 204, "a kill")
            check(daemon.process.poll() is None, "the daemon has ended")
            if turn % 2:
                daemon.crash()
                disk.free()
                daemon.start()
                daemon.kill(goes)  # nobody could write down that it was, and it may be back
            disk.free()
            box = daemon.create(timeout=3000)
            same(daemon.run(box, "echo hi >f; cat f").out, b"hi\n", "a new one, with room again")
            same(step(stays, "once-%d" % turn, "exit 8"), first or {"exitCode": 8, "cause": None},
                 "the same step once more: its result is known, or it was refused and runs now")
            same(known(stays, "once-%d" % turn), 1, "how often it was begun")
            same(daemon.state_of(goes), None, "the one that was killed")
            check(until(lambda: len(rows_of(daemon.state + "/state.db", "SELECT id FROM boxes")) == len(daemon.call("GET", "/v2/sandboxes")[1])), "rows of none")
            daemon.crash()
            daemon.start()
            same(daemon.state_of(goes), None, "the one that was killed, after a restart")
            same(daemon.run(stays, "cat f").out, b"before\n", "the one that stayed")
            for each in daemon.call("GET", "/v2/sandboxes")[1]:
                daemon.kill(each)


main()
