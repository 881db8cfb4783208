#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What does the record cost? For test/perf/bench --only record

    test/perf/record.py BIN [--rounds N] [--quick]     prints figures as JSON

In the current directory, whose owner it runs as; BIN has atoll and test/write-log.

    events   a million, written by one process with a head at the end       bar: 50,000/s
             and with a head after every 1,000; bytes of each
    verify   of these                                                       bar: 10 s
    logs     a small one: made, signed, entered into the store's tree, closed; beyond making an empty file
    inside   work with `--record off`, `steps` and `full` in turn           bars: true 1.10, programs 1.25, the rest 1.05
             by the clock, and by the processor's time of all processes together, which says more on a busy machine; beside
             it what the least possible costs: a hand-written sandbox (floor.c) whose opens are only looked at, and the same without
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time

import layers

EVENTS_BAR, VERIFY_BAR_S = 50000, 10
INSIDE_BARS = {"true": 1.10, "programs": 1.25, "compile": 1.05, "npm": 1.05, "git status": 1.05}
PROGRAMS = 10000


def median(values):
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


class Failed(Exception):
    pass


class Inside(layers.Layers):
    """Work under a record: what is prepared for layers, and a loop of short programs."""

    def cost(self, argv, where):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = self.took(argv, where)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return spent / 1e6, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3

    def work(self):
        """{name: (argv, where, rounds)}"""
        work = self.prepare_work()
        count = 100 if self.options.quick else PROGRAMS
        empty = os.path.join(self.top, "empty")
        os.mkdir(empty)
        loop = "i=0; while [ $i -lt %d ]; do /bin/true; i=$((i+1)); done" % count
        rounds = self.rounds
        return {"true": (layers.TRUE, empty, rounds * 8), "programs": (["/bin/sh", "-c", loop], empty, max(2, rounds // 8)),
                **{new: (*work[old], max(2, rounds // 2)) for new, old in (("compile", "compile"), ("npm", "npm"), ("git status", "git status, fresh"))
                   if old in work}}

    def add_floor(self, row, argv, where, rounds):
        """In a copy, because it writes directly; git only reads, and its place is large."""
        place = where if row["name"] == "git status" else where + "-floor"
        tool = os.path.join(self.options.bin, "test", "perf", "floor")
        kept = {"off": [], "seen": []}
        try:
            if place != where:
                shutil.copytree(where, place, symlinks=True)
            for number in range(rounds + 1):
                for how, flags in (("off", []), ("seen", ["--seen"])):
                    cost = self.cost([tool, *flags, *argv], place)
                    kept[how] += [cost[0]] if number else []
        except (layers.Failed, OSError) as what:
            self.missing.append("record, the floor, %s: %s" % (row["name"], what))
            return
        finally:
            if place != where:
                shutil.rmtree(place, ignore_errors=True)
        row["floor_ratio"] = median(kept["seen"]) / median(kept["off"])

    def rows(self):
        found = []
        for name, (argv, where, rounds) in self.work().items():
            kept = {record: [] for record in ("off", "steps", "full")}
            try:
                for number in range(rounds + 1):  # the first warms up
                    for record, costs in kept.items():
                        cost = self.cost([self.atoll, "run", "--quiet", "--record", record, "--mode", "layer", "--apply=never", "--", *argv], where)
                        costs += [cost] if number else []
            except layers.Failed as what:
                self.missing.append("record, inside, %s: %s" % (name, what))
                continue
            row = {"name": name, "bar": INSIDE_BARS[name], **{record: {"ms": median([c[0] for c in costs]), "cpu_ms": median([c[1] for c in costs])}
                                                              for record, costs in kept.items()}}
            row["ratio"], row["cpu_ratio"] = (row["full"][key] / row["off"][key] for key in ("ms", "cpu_ms"))
            row["is_met"] = row["ratio"] <= row["bar"]
            self.add_floor(row, argv, where, rounds)
            found.append(row)
            self.remove_all(where)
        return found


class Record:
    def __init__(self, options):
        self.options, self.top = options, os.getcwd()
        self.atoll = os.path.join(options.bin, "atoll")
        self.write = os.path.join(options.bin, "test", "write-log")
        self.state = os.path.join(self.top, "state")
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.top, "XDG_STATE_HOME": self.state,
                    "LANG": "C.UTF-8"}
        self.count = 20000 if options.quick else 1000000
        self.figures, self.missing = {}, []

    def took(self, argv):
        """Seconds of one command: by the clock, and of the processor."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(list(map(str, argv)), env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        spent, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            raise Failed("%s: %s" % (" ".join(map(str, argv))[:80], (done.stderr.strip().splitlines() or ["status %d" % done.returncode])[0][:150]))
        return spent, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def part(self, name):
        try:
            getattr(self, name)()
        except (Failed, OSError) as what:
            self.missing.append("record, %s: %s" % (name, what))

    # ---- one log

    def events(self):
        heads = [word for _ in range(self.count // 1000) for word in ("1000", "head")]
        rows = []
        for name, run, words in (("one head", "onehead", [self.count]), ("a head after 1,000", "manyhead", heads)):
            spent, cpu = self.took([self.write, run, *words, "close"])
            size = os.path.getsize("%s/atoll/log/%s.jsonl" % (self.state, run))
            rows.append({"name": name, "count": self.count, "per_s": self.count / spent, "cpu_us": cpu / self.count * 1e6, "bytes": size / self.count,
                         "bar": EVENTS_BAR, "is_met": self.count / spent >= EVENTS_BAR})
        self.figures["events"] = rows

    def verify(self):
        rows = []
        for name, run in (("one head", "onehead"), ("a head after 1,000", "manyhead")):
            spent, cpu = self.took([self.atoll, "verify", run])
            row = {"name": name, "count": self.count, "s": spent, "cpu_s": cpu}
            if not self.options.quick:
                row.update(bar=VERIFY_BAR_S, is_met=spent <= VERIFY_BAR_S)
            rows.append(row)
            os.unlink("%s/atoll/log/%s.jsonl" % (self.state, run))
        self.figures["verify"] = rows

    # ---- many small ones

    def logs(self):
        """Each of these makes a file, and what that takes depends on the disk: so next to making empty ones."""
        each, empty, share = [], [], 20 if self.options.quick else 100
        os.mkdir("files")
        for number in range(2 if self.options.quick else 10):
            each.append(self.took([self.write, "many", share])[0] / share)
            start = time.perf_counter()
            for i in range(share):
                os.close(os.open("files/%d-%d" % (number, i), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            empty.append((time.perf_counter() - start) / share)
        self.figures["logs"] = {"us": median(each) * 1e6, "empty_us": median(empty) * 1e6}

    # ---- what it costs those who are watched

    def inside(self):
        os.mkdir("inside")
        os.chdir("inside")
        try:
            inside = Inside(self.options)
            self.figures["inside"] = inside.rows()
            self.missing += inside.missing
        finally:
            os.chdir(self.top)

    def run(self):
        for name in self.options.only.split(",") if self.options.only else ("events", "verify", "logs", "inside"):
            self.part(name)


def tell(figures, verdict):
    if figures.get("events"):
        print("\n%-28s %12s %12s %10s" % ("the record, events", "in a second", "processor", "each"))
        for row in figures["events"]:
            print("%-28s %12.0f %9.2f us %8.0f B" % (row["name"], row["per_s"], row["cpu_us"], row["bytes"]) + verdict(row, lambda bar: "%d/s" % bar))
    for row in figures.get("verify", ()):
        print("%-28s %10.2f s %10.2f s" % ("verify %d, %s" % (row["count"], row["name"]), row["s"], row["cpu_s"]) + verdict(row, lambda bar: "%d s" % bar))
    if figures.get("logs"):
        row = figures["logs"]
        print("a small log, signed and entered: %.0f us; an empty file: %.0f us" % (row["us"], row["empty_us"]))
    if figures.get("inside"):
        print("\n%-16s %10s %10s %10s %8s %14s %8s" % ("under a record", "off", "steps", "full", "x off", "x off (cpu)", "floor"))
        for row in figures["inside"]:
            print("%-16s %7.1f ms %7.1f ms %7.1f ms %8.2f %14.2f %8s" % (row["name"], row["off"]["ms"], row["steps"]["ms"], row["full"]["ms"], row["ratio"],
                  row["cpu_ratio"], "%.2f" % row["floor_ratio"] if "floor_ratio" in row else "") + verdict(row, lambda bar: "%.2fx" % bar))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="events,verify,logs,inside")
    record = Record(parser.parse_args())
    record.run()
    print(json.dumps({"figures": record.figures, "missing": record.missing}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
