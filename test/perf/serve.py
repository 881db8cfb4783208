#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What does a sandbox of the daemon's cost? For test/perf/bench --only serve

    test/perf/serve.py BIN [--rounds N] [--quick] [--only turns,rate,idle,crowd,files,peers]     prints figures as JSON

In the current directory, as who calls; BIN has atoll and test/perf/serve. The client is a small program (serve.c) that
speaks E2B's protocol; ratios are to fork+exec of the same command by the same client, in turn with the others.

    turns    exec in a live sandbox                                          bar: 2x plain
             create, first command and its result, from the pool             bar: 4x; and without a pool: 6x
             kill                                                            bar: 2 ms
    rate     create, run, kill by several clients at once                    bar: 500/s
             exec by several at once                                         bar: 1,000/s
    idle     memory of a sandbox that waits, all in                          bar: 700 kB
    crowd    create among 2,000 against among 10, as the service does it     bar: 1.25x
             by default (from the pool), and without a pool
    files    100 MB written and read, against cp                             bar: 2x
             a list of 10,000 entries                                        bar: 50 ms
    peers    podman run and exec, crun, if they are there
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

BARS = {"exec": 2.0, "first": 4.0, "first, no pool": 6.0}
KILL_BAR_MS, CYCLES_BAR, EXECS_BAR, IDLE_BAR_KB, CROWD_BAR, FILES_BAR, LIST_BAR_MS = 2.0, 500, 1000, 700, 1.25, 2.0, 50.0


CROWD_PAUSE_MS = 50  # between two creations: clients of a service that is not at its limit
RESTS_S = 12  # what waits gives its readiness for the next command up after ten seconds


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Failed(Exception):
    pass


class Daemon:
    """One of our own, with a state of its own, ended with all that it keeps."""

    def __init__(self, bench, pool=None):
        self.bench = bench
        self.state = os.path.join(bench.top, "state-%d" % bench.number)
        bench.number += 1
        options = []
        if pool is not None:
            with open("config-%d.yaml" % pool, "w") as file:
                file.write("pool: {least: %d, most: %d}\n" % (pool, pool))
            options = ["--config", file.name]
        env = dict(bench.env, XDG_STATE_HOME=self.state)
        self.process = subprocess.Popen([bench.atoll, "serve", "--listen", "127.0.0.1:0", "--end-sandboxes", *options], env=env, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=open(os.path.join(bench.top, "daemon.log"), "ab"))
        self.port = self.key = None
        for line in self.process.stdout:
            found = re.search(r"E2B_API_URL=\S+:(\d+)", line)
            self.port = int(found[1]) if found else self.port
            found = re.search(r"E2B_API_KEY=(\S+)", line)
            self.key = found[1] if found else self.key
            if self.port and self.key:
                break
        if not self.key:
            raise Failed("the daemon did not start")

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.send_signal(signal.SIGTERM)
        # Thousands of sandboxes take a while to end; left alone they would stay.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(900)
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.state, ignore_errors=True)

    def client(self, *words):
        done = subprocess.run([self.bench.tool, words[0], str(self.port), self.key, *map(str, words[1:])], text=True, capture_output=True)
        if done.returncode != 0:
            raise Failed("%s: %s" % (words[0], (done.stderr.strip().splitlines() or [""])[-1][:200]))
        return done.stdout

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", "/metrics", headers={"X-API-KEY": self.key})
        found = re.search(r"^%s (\d+)" % name, connection.getresponse().read().decode(), re.M)
        connection.close()
        if not found:
            raise Failed("the daemon tells no %s" % name)
        return int(found[1])

    @contextlib.contextmanager
    def held(self, count):
        child = subprocess.Popen([self.bench.tool, "hold", str(self.port), self.key, str(count)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            if child.stdout.readline().split() != ["held", str(count)]:
                raise Failed("%d sandboxes could not be made" % count)
            yield
        finally:
            child.stdin.close()
            child.wait()


# Of what a sandbox that waits costs, the parts that the kernel tells.
PARTS = (("private pages", "AnonPages"), ("page tables", "PageTables"), ("kernel stacks", "KernelStack"), ("slabs", "Slab"), ("per CPU", "Percpu"),
         ("tmpfs and memfds", "Shmem"))


def memory():
    """What the machine has left (all in, also what the kernel needs for it), and the parts; in kB."""
    found = dict(re.findall(r"^(\w+):\s+(\d+)", open("/proc/meminfo").read(), re.M))
    return {name: int(found.get(name, 0)) for name in ("MemAvailable", *(name for _, name in PARTS))}


class Serve:
    def __init__(self, options):
        self.options, self.top, self.number = options, os.getcwd(), 0
        self.atoll, self.tool = os.path.join(options.bin, "atoll"), os.path.join(options.bin, "test", "perf", "serve")
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.top, "LANG": "C.UTF-8"}
        self.figures, self.missing = {}, []

    def part(self, name):
        try:
            getattr(self, name)()
        except (Failed, OSError) as what:
            self.missing.append("serve, %s: %s" % (name, what))

    def turns(self):
        rounds = 20 if self.options.quick else self.options.rounds
        rows = []
        for pool in (8, 0):
            with Daemon(self, pool) as daemon:
                time.sleep(1)  # the first ones are parked
                lines = [line.split() for line in daemon.client("turns", rounds).splitlines()]
            taken = {name: [int(line[at]) / 1e6 for line in lines] for name, at in (("plain", 1), ("exec", 3), ("first", 5), ("kill", 7))}
            plain = quantile(taken["plain"], 0.5)
            for name in ("exec", "first", "kill") if pool else ("first",):
                name, values = (name if pool else "first, no pool"), taken[name]
                row = {"name": name, "plain_ms": plain, "ms": quantile(values, 0.5), "p99_ms": quantile(values, 0.99), "ratio": quantile(values, 0.5) / plain}
                row["bar"] = KILL_BAR_MS if name == "kill" else BARS[name]
                row["is_met"] = (row["ms"] if name == "kill" else row["ratio"]) <= row["bar"]
                rows.append(row)
        self.figures["turns"] = rows

    def rate(self):
        seconds, rows = (2 if self.options.quick else 8), []
        with Daemon(self) as daemon:
            for name, bar in (("cycles", CYCLES_BAR), ("execs", EXECS_BAR)):
                count, took = daemon.client(name, seconds, 4).split()
                rows.append({"name": name, "per_s": int(count) / float(took), "bar": bar, "is_met": int(count) / float(took) >= bar})
        self.figures["rate"] = rows

    def idle(self):
        count = 50 if self.options.quick else 1000
        with Daemon(self, 0) as daemon:
            with daemon.held(1):
                before = memory()
                with daemon.held(count):
                    time.sleep(RESTS_S)
                    after = memory()
        each = (before["MemAvailable"] - after["MemAvailable"]) / count
        parts = {what: (after[name] - before[name]) / count for what, name in PARTS}
        self.figures["idle"] = {"count": count, "kb": each, "parts": parts, "bar": IDLE_BAR_KB, "is_met": each <= IDLE_BAR_KB}

    def crowd(self):
        """The bar is for the service as it is by default: with its pool, which it has to refill among so many, too."""
        many, rounds, rows = (50 if self.options.quick else 2000), (20 if self.options.quick else 100), []
        for pool in (None, 0):
            found, parked = {}, {}
            with Daemon(self, pool) as daemon:
                for count in (10, many):
                    with daemon.held(count):
                        time.sleep(2)
                        before = daemon.metric("atoll_created_from_pool_total")
                        lines = [line.split() for line in daemon.client("creates", rounds, CROWD_PAUSE_MS).splitlines()]
                        parked[count] = daemon.metric("atoll_created_from_pool_total") - before
                        found[count] = {name: quantile([int(line[at]) / 1e6 for line in lines], 0.5) for name, at in (("create", 1), ("first", 3))}
            ratio = {name: found[many][name] / found[10][name] for name in ("create", "first")}
            rows.append({"name": "no pool" if pool == 0 else "default pool", "count": many, "rounds": rounds, "few_ms": found[10]["create"],
                         "many_ms": found[many]["create"], "ratio": ratio["create"], "few_first_ms": found[10]["first"], "many_first_ms": found[many]["first"],
                         "first_ratio": ratio["first"], "from_pool": parked[many], "from_pool_few": parked[10]})
            if pool is None:
                rows[-1].update(bar=CROWD_BAR, is_met=ratio["create"] <= CROWD_BAR)
        self.figures["crowd"] = rows

    def files(self):
        size = (5 if self.options.quick else 100) * 1000000
        data = os.urandom(1 << 20) * (size // (1 << 20) + 1)
        with open("big", "wb") as file:
            file.write(data[:size])
        with Daemon(self) as daemon:
            # Not 8 KiB at a time, as it would: that takes Python alone twice as long as cp takes for all.
            connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=120, blocksize=1 << 20)

            def ask(method, path, body=None, head=()):
                connection.request(method, path, body, dict(head))
                answer = connection.getresponse()
                return answer, answer.read()
            answer, text = ask("POST", "/v2/sandboxes", json.dumps({"templateID": "base"}), {"X-API-KEY": daemon.key})
            made = json.loads(text)
            head = {"E2b-Sandbox-Id": made["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": made["envdAccessToken"]}
            rows, took = [], {"cp": [], "write": [], "read": []}
            for _ in range(3 if self.options.quick else 9):
                start = time.perf_counter()
                subprocess.run(["cp", "big", "copy"], check=True)
                took["cp"].append(time.perf_counter() - start)
                start = time.perf_counter()
                with open("big", "rb") as file:
                    answer, text = ask("POST", "/files?path=big", file, dict(head, **{"Content-Type": "application/octet-stream", "Content-Length": str(size)}))
                took["write"].append(time.perf_counter() - start)
                if answer.status != 200:
                    raise Failed("write: %s" % text[:200])
                start = time.perf_counter()
                connection.request("GET", "/files?path=big", headers=head)
                answer, got = connection.getresponse(), 0
                while piece := answer.read(1 << 20):
                    got += len(piece)
                took["read"].append(time.perf_counter() - start)
                if got != size:
                    raise Failed("read: %d bytes" % got)
            plain = quantile(took["cp"], 0.5)
            for name in ("write", "read"):
                ratio = quantile(took[name], 0.5) / plain
                rows.append({"name": name, "mb_s": size / 1e6 / quantile(took[name], 0.5), "ratio": ratio, "bar": FILES_BAR, "is_met": ratio <= FILES_BAR})
            unary = dict(head, **{"Content-Type": "application/json", "Connect-Protocol-Version": "1"})
            frame = json.dumps({"process": {"cmd": "/bin/sh", "args": ["-c", "mkdir -p many; cd many; seq 10000 | xargs touch"]}, "stdin": False}).encode()
            ask("POST", "/process.Process/Start", b"\0" + len(frame).to_bytes(4, "big") + frame, dict(unary, **{"Content-Type": "application/connect+json"}))
            took = []
            for _ in range(9):
                start = time.perf_counter()
                answer, text = ask("POST", "/filesystem.Filesystem/ListDir", json.dumps({"path": "many"}), unary)
                took.append((time.perf_counter() - start) * 1e3)
            if len(json.loads(text).get("entries", ())) != 10000:
                raise Failed("list: %s" % text[:200])
            rows.append({"name": "list", "ms": quantile(took, 0.5), "bar": LIST_BAR_MS, "is_met": quantile(took, 0.5) <= LIST_BAR_MS})
        self.figures["files"] = rows

    def peers(self):
        rows, rounds = [], 3 if self.options.quick else 10
        for name, argv in (("podman run", ["podman", "run", "--rm", "--network", "none", "--rootfs", "/", "/bin/true"]),):
            if not shutil.which(argv[0]):
                self.missing.append("serve, peers: there is no %s" % argv[0])
                continue
            took = []
            for _ in range(rounds):
                start = time.perf_counter()
                done = subprocess.run(argv, capture_output=True, text=True)
                took.append((time.perf_counter() - start) * 1e3)
                if done.returncode != 0:
                    self.missing.append("serve, %s: %s" % (name, (done.stderr.strip().splitlines() or [""])[-1][:150]))
                    break
            else:
                rows.append({"name": name, "ms": quantile(took, 0.5)})
        self.figures["peers"] = rows

    def run(self):
        for name in self.options.only.split(",") if self.options.only else ("turns", "rate", "idle", "crowd", "files", "peers"):
            self.part(name)


def tell(figures, verdict):
    if figures.get("turns"):
        print("\n%-28s %10s %10s %10s %8s" % ("over HTTP", "plain", "median", "p99", "x plain"))
        for row in figures["turns"]:
            print("%-28s %7.2f ms %7.2f ms %7.2f ms %8.2f" % (row["name"], row["plain_ms"], row["ms"], row["p99_ms"], row["ratio"]) +
                  verdict(row, lambda bar: "%.1f" % bar))
    for row in figures.get("rate", ()):
        print("%-28s %7.0f/s" % (row["name"], row["per_s"]) + verdict(row, lambda bar: "%d/s" % bar))
    if figures.get("idle"):
        row = figures["idle"]
        print("%-28s %7.0f kB" % ("one of %d that wait" % row["count"], row["kb"]) + verdict(row, lambda bar: "%d kB" % bar))
        print("%-28s %s" % ("", ", ".join("%s %.0f" % part for part in row.get("parts", {}).items())))
    for row in figures.get("crowd", ()):
        print("%-28s %7.2f ms, among 10 %.2f ms: %.2fx, %s, %d of %d were parked" % (
            "create among %d" % row["count"], row["many_ms"], row["few_ms"], row["ratio"], row["name"], row["from_pool"], row["rounds"]) +
              verdict(row, lambda bar: "%.2fx" % bar))
        print("%-28s %7.2f ms, among 10 %.2f ms: %.2fx" % ("  and its first result", row["many_first_ms"], row["few_first_ms"], row["first_ratio"]))
    for row in figures.get("files", ()):
        if row["name"] == "list":
            print("%-28s %7.1f ms" % ("list of 10,000", row["ms"]) + verdict(row, lambda bar: "%d ms" % bar))
        else:
            print("%-28s %7.0f MB/s, %.2fx cp" % ("100 MB, " + row["name"], row["mb_s"], row["ratio"]) + verdict(row, lambda bar: "%.1fx" % bar))
    for row in figures.get("peers", ()):
        print("%-28s %7.1f ms" % (row["name"], row["ms"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="turns,rate,idle,crowd,files,peers")
    serve = Serve(parser.parse_args())
    serve.run()
    print(json.dumps({"figures": serve.figures, "missing": serve.missing}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
