#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What does the network of a sandbox cost? For test/perf/bench --only net

    test/perf/net.py BIN [--rounds N] [--quick]     prints figures as JSON

BIN has atoll, atoll-egress and test/perf/. All of it happens on the host of test/net.py: "direct" is the same client without a sandbox over the
same wire. The ways are taken in turn, so that what else the machine does hits all of them alike.

    throughput   bytes from a server to a client         bar: 75 % of direct
    set-up       connect, two bytes there and back, close bar: 2.5 times direct, median
    idle         memory of egress with 5,000 connections  bar: 100 MB
    start        of a run with a network that is not used bar: 15 % more than without
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import net as rig_of_tests  # noqa: E402

THROUGHPUT_BAR, CONNECT_BAR, IDLE_BAR_KB, START_BAR = 0.75, 2.5, 100000, 0.15
FLOOR, RELAY_PORT = "a relay by hand", 7300
PROXY_PORT = 8888


def quantile(values, share):
    """The smallest value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(share * len(ordered) + 0.999999) - 1))]


class Net:
    def __init__(self, options, rig, scratch):
        self.options, self.rig, self.scratch = options, rig, scratch
        self.atoll, self.client, self.spawn = (os.path.join(options.bin, name) for name in ("atoll", "test/perf/net", "test/perf/spawn"))
        self.figures, self.missing = {}, []
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": scratch, "LANG": "C.UTF-8"}
        self.workspace = os.path.join(scratch, "ws")
        os.mkdir(self.workspace)
        shutil.copy2(self.client, self.workspace + "/net")

    def argv(self, way, *words):
        if way == "atoll":
            return [self.atoll, "run", "--direct", "--quiet", "--open-files", "16384", "--allow", "good.test:7000,7100,7200", "--", "./net", *words]
        if way == FLOOR:
            return ["./net", words[0], "127.0.0.1", str(RELAY_PORT), *words[3:]]
        return ["./net", *words, *([str(PROXY_PORT)] if way == "tinyproxy" else [])]

    def numbers(self, way, *words):
        done = subprocess.run(self.argv(way, *words), cwd=self.workspace, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (way, (done.stderr.strip().splitlines() or ["status %d" % done.returncode])[0][:150]))
        return [int(line) for line in done.stdout.split()]

    def in_turn(self, rounds, *words):
        """{way: [ns]}; a way that does not work is named and left out."""
        found = {way: [] for way in self.ways}
        for _ in range(rounds):
            for way in list(found):
                try:
                    found[way] += self.numbers(way, *words)
                except (RuntimeError, subprocess.TimeoutExpired) as what:
                    self.missing.append("net, %s: %s" % (words[0], what))
                    del found[way]
        return found

    @contextlib.contextmanager
    def tinyproxy(self):
        """The peer: a common proxy, on the host, with as many clients as it is told."""
        if not shutil.which("tinyproxy"):
            self.missing.append("net: tinyproxy: not installed (tools/setup --bench)")
            yield False
            return
        with open(self.scratch + "/tinyproxy.conf", "w") as file:
            file.write(f"Port {PROXY_PORT}\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 600\nMaxClients 1000\nLogLevel Error\n")
        peer = subprocess.Popen(["tinyproxy", "-d", "-c", self.scratch + "/tinyproxy.conf"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        try:
            yield True
        finally:
            peer.kill()
            peer.wait()

    def throughput(self):
        size = (64 if self.options.quick else 512) << 20
        self.ways.append(FLOOR)
        with subprocess.Popen(["./net", "relay", "good.test", "7100", str(RELAY_PORT)], cwd=self.workspace, env=self.env) as between:
            time.sleep(0.3)
            found = self.in_turn(2 if self.options.quick else 9, "get", "good.test", "7100", str(size))
            between.kill()
        self.ways.remove(FLOOR)
        rows = []
        for way, values in found.items():
            row = {"name": way, "mb_s": size / 1e6 / (quantile(values, 0.5) / 1e9), "p99_mb_s": size / 1e6 / (quantile(values, 0.99) / 1e9), "rounds": len(values)}
            row["share"] = quantile(found["direct"], 0.5) / quantile(values, 0.5)
            if way == "atoll":
                row.update(bar=THROUGHPUT_BAR, is_met=row["share"] >= THROUGHPUT_BAR)
            rows.append(row)
        self.figures["throughput"] = rows

    def connect(self):
        count = 200 if self.options.quick else 1000
        found = self.in_turn(2 if self.options.quick else 5, "connect", "good.test", "7200", str(count))
        rows = []
        for way, values in found.items():
            row = {"name": way, "median_us": quantile(values, 0.5) / 1000, "p99_us": quantile(values, 0.99) / 1000, "rounds": len(values)}
            row["median_ratio"] = quantile(values, 0.5) / quantile(found["direct"], 0.5)
            row["p99_ratio"] = quantile(values, 0.99) / quantile(found["direct"], 0.99)
            if way == "atoll":
                row.update(bar=CONNECT_BAR, is_met=row["median_ratio"] <= CONNECT_BAR)
            rows.append(row)
        self.figures["connect"] = rows

    def egress_of(self, pid):
        """The process atoll-egress beneath, whoever its parent is."""
        above = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", errors="replace") as file:
                text = file.read()
                above[int(entry)] = (int(text[text.rindex(")") + 2:].split()[1]), text[text.index("(") + 1:text.rindex(")")])
        for one, (parent, name) in above.items():
            at = one
            while at in above and at != pid:
                at = above[at][0]
            if at == pid and name.startswith("atoll-egress"):
                return one
        return None

    def idle(self):
        count = 100 if self.options.quick else 5000
        running = subprocess.Popen(self.argv("atoll", "hold", "good.test", "7000", str(count)), cwd=self.workspace, env=self.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if not running.stdout.readline().startswith("held"):
                self.missing.append("net, idle: %s" % running.stderr.read().strip()[-150:])
                return
            time.sleep(0.5)
            with open("/proc/%d/status" % self.egress_of(running.pid)) as file:
                text = file.read()
            kb, peak = (int(re.search(r"%s:\s+(\d+)" % name, text)[1]) for name in ("VmRSS", "VmHWM"))
            self.figures["idle"] = {"count": count, "kb": kb, "peak_kb": peak, "bar": IDLE_BAR_KB, "is_met": kb < IDLE_BAR_KB}
        finally:
            running.stdin.close()
            running.wait(30)

    def start(self):
        runs = [("without", [self.atoll, "run", "--direct", "--", "/bin/true"]), ("with", [self.atoll, "run", "--direct", "--allow", "good.test", "--", "/bin/true"])]
        argv = [self.spawn, str(5 if self.options.quick else self.options.rounds)]
        for i, (_, command) in enumerate(runs):
            argv += (["::"] if i else []) + command
        done = subprocess.run(argv, cwd=self.workspace, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
        without, with_ = zip(*(map(int, line.split()) for line in done.stdout.splitlines()))
        more = quantile(with_, 0.5) / quantile(without, 0.5) - 1
        self.figures["start"] = {"without_us": quantile(without, 0.5) / 1000, "with_us": quantile(with_, 0.5) / 1000, "without_p99_us": quantile(without, 0.99) / 1000,
                                 "with_p99_us": quantile(with_, 0.99) / 1000, "more": more, "bar": START_BAR, "is_met": more <= START_BAR}

    def run(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.rig.ask("sniff", on=False)
        self.rig.ask("spawn", name="serve", argv=[self.client, "serve", "7200"])
        time.sleep(0.2)
        with self.tinyproxy() as has_peer:
            self.ways = ["direct", "atoll"] + (["tinyproxy"] if has_peer else [])
            self.throughput()
            self.connect()
        self.idle()
        self.start()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if "ATOLL_RIG" not in os.environ:
        try:
            rig_of_tests.start([sys.executable, *sys.argv])
        except (rig_of_tests.Lacks, OSError) as what:
            print(json.dumps({"figures": {}, "missing": ["net: no network for tests: %s" % what]}))
            return 0
    rig = rig_of_tests.enter()
    with tempfile.TemporaryDirectory(prefix="atoll-bench-", dir="/var/tmp") as scratch:
        one = Net(options, rig, scratch)
        one.run()
    print(json.dumps({"figures": one.figures, "missing": one.missing}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
