#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
What do layers cost? For test/perf/bench --only layers

    test/perf/layers.py BIN [--rounds N] [--quick] [--btrfs DIR] [--only PART,...]     prints figures as JSON

In the current directory, whose owner it runs as; BIN has atoll and test/perf/. DIR is on btrfs, for that peer. What is compared
is done in turn within one series, so that what else the machine does hits all of it alike; figures are medians.

    steps    a checkpoint after 20 changed files, returning to one, a fork: beyond an empty step (`exec ID -- true`), over
             workspaces of 1,000, 10,000 and 50,000 files (1 GiB)        bar: 3 ms
             next to copying (cp -a), a git worktree, git stash, a snapshot of btrfs
    forks    1,000 of one sandbox                                         bar: 600 kB each beyond the process in it; linear
    start    of a run with a layer against one that writes directly       bar: 20 % more
    inside   work in a layer beyond the start itself, against plain       bar: 5 %; find 1.4 times, git status 1.3 times
             what is repeated in a live one: beside it the same in an overlay made by hand
    diff     of 20 changes among 50,000 files                             bar: 20 ms
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

STEP_BAR_MS, FORK_BAR_KB, START_BAR, DIFF_BAR_MS = 3, 600, 0.20, 20
FIND = ["/bin/sh", "-c", "find . -size +1 -type f >/dev/null"]
INSIDE_BARS = {"compile": 1.05, "make": 1.05, "npm": 1.05, "find, repeated": 1.4, "git status, repeated": 1.3}
FILE_BYTES = (1 << 30) // 50000  # so that the largest workspace has 1 GiB
CHANGED = 20
FORKS_S = 120
REST_S = 12  # after ten seconds without a step a sandbox gives back what it does not need
MEMORY_PARTS = ("AnonPages", "Shmem", "PageTables", "KernelStack", "SUnreclaim")
TRUE = ["/bin/true"]


def quantile(values, share):
    """The smallest value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(share * len(ordered) + 0.999999) - 1))]


def median(values):
    return quantile(values, 0.5)


class Failed(Exception):
    pass


class Layers:
    def __init__(self, options):
        self.options, self.top = options, os.getcwd()
        self.atoll = os.path.join(options.bin, "atoll")
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": os.path.join(self.top, "home"), "LANG": "C.UTF-8",
                    "GIT_CONFIG_NOSYSTEM": "1"}
        os.mkdir(self.env["HOME"])
        self.figures, self.missing = {}, []
        self.sizes = (100, 300) if options.quick else (1000, 10000, 50000)
        self.rounds = 2 if options.quick else max(5, min(25, options.rounds // 12))
        self.null = os.open("/dev/null", os.O_RDWR)

    # ---- doing

    def took(self, argv, where):
        """Nanoseconds of one command, from its start to its end."""
        os.chdir(where)
        actions = [(os.POSIX_SPAWN_DUP2, self.null, number) for number in (0, 1, 2)]
        start = time.perf_counter_ns()
        pid = os.posix_spawnp(argv[0], list(map(str, argv)), self.env, file_actions=actions)
        status = os.waitpid(pid, 0)[1]
        spent = time.perf_counter_ns() - start
        if status != 0:
            raise Failed("%s: status %d" % (" ".join(map(str, argv))[:80], os.waitstatus_to_exitcode(status)))
        return spent

    def say(self, argv, where):
        """What a command prints."""
        done = subprocess.run(list(map(str, argv)), cwd=where, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed("%s: %s" % (" ".join(map(str, argv))[:80], (done.stderr.strip().splitlines() or ["status %d" % done.returncode])[0][:150]))
        return done.stdout

    def script(self, text, where):
        return self.say(["/bin/sh", "-e", "-c", text], where)

    def part(self, name):
        """One part of the figures; what cannot be had is told, and the others go on."""
        try:
            getattr(self, name)()
        except (Failed, OSError) as what:
            self.missing.append("layers, %s: %s" % (name, what))

    def workspace(self, count):
        """So many files in directories of a hundred, in a git repository."""
        where = os.path.join(self.top, "files-%d" % count)
        if os.path.isdir(where):
            return where
        data = os.urandom(FILE_BYTES // 2)
        for i in range(count):
            directory = "%s/%d/%d" % (where, i // 1000, i // 100 % 10)
            if i % 100 == 0:
                os.makedirs(directory, exist_ok=True)
            with open("%s/%d" % (directory, i), "wb") as file:
                file.write(b"%d\n" % i + data + data)
        self.script("git init -q -b main .; git config user.name A; git config user.email a@example.org; git config gc.auto 0; "
                    "git config core.compression 0; git add .; git commit -q -m first", where)
        return where

    # ---- steps

    def change(self, count):
        """What changes 20 files that lie apart."""
        names = ["%d/%d/%d" % (i // 1000, i // 100 % 10, i) for i in range(0, count, max(1, count // CHANGED))][:CHANGED]
        return ["/bin/sh", "-c", "for f; do echo more >>$f; done", "sh", *names]

    def one_step_round(self, count, ident, number, kept):
        where, atoll = self.workspace(count), self.atoll
        kept.setdefault("empty step", []).append(self.took([atoll, "exec", ident, "--", *TRUE], where))
        self.took([atoll, "exec", ident, "--", *self.change(count)], where)
        kept.setdefault("checkpoint", []).append(self.took([atoll, "checkpoint", ident, "c%d" % number], where))
        kept.setdefault("step after a checkpoint", []).append(self.took([atoll, "exec", ident, "--", *TRUE], where))
        self.took([atoll, "exec", ident, "--", *self.change(count)], where)
        kept.setdefault("fork", []).append(self.took([atoll, "fork", ident], where))
        self.took([atoll, "exec", ident, "--", *self.change(count)], where)
        kept.setdefault("rollback", []).append(self.took([atoll, "rollback", ident, "c%d" % number], where))
        kept.setdefault("step after a rollback", []).append(self.took([atoll, "exec", ident, "--", *TRUE], where))

    def peers(self, count, kept):
        """The same 20 changes, kept in other ways."""
        where, copy = self.workspace(count), os.path.join(self.top, "copy")
        self.script("i=0; for f in $(git ls-files | head -%d); do echo more >>$f; done" % CHANGED, where)
        kept.setdefault("cp -a", []).append(self.took(["cp", "-a", where, copy], self.top))
        shutil.rmtree(copy)
        kept.setdefault("git stash", []).append(self.took(["git", "stash", "-q"], where))
        kept.setdefault("git stash pop", []).append(self.took(["git", "stash", "pop", "-q"], where))
        self.script("git checkout -q .", where)
        kept.setdefault("git worktree add", []).append(self.took(["git", "worktree", "add", "-q", "--detach", copy], where))
        self.script("git worktree remove --force '%s'" % copy, where)

    def btrfs_peer(self, count, kept):
        top = self.options.btrfs
        if not top:
            return
        source, snapshot = os.path.join(top, "files-%d" % count), os.path.join(top, "snapshot-%d-%d" % (count, len(kept.get("btrfs snapshot", []))))
        if not os.path.isdir(source):
            self.say(["btrfs", "subvolume", "create", source], top)
            self.say(["cp", "-a", self.workspace(count) + "/.", source], top)
        self.say(self.change(count), source)
        kept.setdefault("btrfs snapshot", []).append(self.took(["btrfs", "subvolume", "snapshot", source, snapshot], top))

    def steps(self):
        rounds, kept = self.rounds, {count: {} for count in self.sizes}
        idents = {count: self.say([self.atoll, "create"], self.workspace(count)).strip() for count in self.sizes}
        for count, ident in idents.items():
            self.took([self.atoll, "exec", ident, "--", *TRUE], self.workspace(count))
        for number in range(rounds):
            for count in self.sizes:
                self.one_step_round(count, idents[count], number, kept[count])
                # A copy of the largest may take a minute where much was removed on that disk a moment ago.
                if number < (1 if count == self.sizes[-1] else min(3, rounds)):
                    self.peers(count, kept[count])
                    self.btrfs_peer(count, kept[count])
                    os.sync()  # what they have written is not paid for by whoever comes next
        rows = []
        for name in kept[self.sizes[0]]:
            row = {"name": name, "ms": {str(count): median(kept[count][name]) / 1e6 for count in self.sizes}}
            beyond = {str(count): (median(kept[count][name]) - median(kept[count]["empty step"])) / 1e6 for count in self.sizes}
            if name in ("checkpoint", "fork", "rollback"):
                row.update(beyond_ms=beyond, bar=STEP_BAR_MS, is_met=max(beyond.values()) <= STEP_BAR_MS)
            rows.append(row)
        self.figures["steps"] = rows
        if not self.options.btrfs:
            self.missing.append("layers: a snapshot of btrfs: root and mkfs.btrfs (tools/setup --bench)")
        for count in self.sizes:
            self.remove_all(self.workspace(count))

    def remove_all(self, where):
        """All sandboxes of this workspace and its runs."""
        for item in json.loads(self.say([self.atoll, "ls", "--json"], where) or "[]"):
            with contextlib.suppress(Failed):
                self.say([self.atoll, "rm" if item.get("kind") == "sandbox" else "discard", item["id"]], where)

    # ---- forks

    def memory(self):
        with open("/proc/meminfo") as file:
            return {line.split(":")[0]: int(line.split()[1]) for line in file}

    def parts_kb(self, memory):
        """What is in use and nobody else's: of MemAvailable others give back, and take, hundreds of kB meanwhile."""
        return sum(memory[name] for name in MEMORY_PARTS)

    def plain_sleepers_kb(self, count):
        """What a process costs that sleeps, without any sandbox."""
        before = self.parts_kb(self.memory())
        running = [subprocess.Popen(["/bin/sleep", "600"], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for _ in range(count)]
        time.sleep(1)
        each = (self.parts_kb(self.memory()) - before) / count
        for process in running:
            process.kill()
            process.wait()
        return each

    def forks(self):
        where, count = self.workspace(self.sizes[-1]), 10 if self.options.quick else 1000
        ident = self.say([self.atoll, "create"], where).strip()
        self.took([self.atoll, "exec", ident, "--", *self.change(self.sizes[-1])], where)
        ids, spent, share = [], [], max(1, count // 10)
        for _ in range(count // share):
            start = time.perf_counter_ns()
            ids += self.say([self.atoll, "fork", ident, "--count", share], where).split()
            spent.append((time.perf_counter_ns() - start) / share)
        plain_kb = self.plain_sleepers_kb(50)
        before, deadline, up = self.memory(), time.monotonic() + FORKS_S, []
        for one in ids:
            if time.monotonic() > deadline:
                break
            start = time.perf_counter_ns()
            self.say([self.atoll, "exec", one, "--", "/bin/sh", "-c", "sleep 600 </dev/null >/dev/null 2>&1 &"], where)
            up.append(time.perf_counter_ns() - start)
        time.sleep(1 if self.options.quick else REST_S)
        after = self.memory()
        each = (self.parts_kb(after) - self.parts_kb(before)) / len(up) - plain_kb
        tenth = max(1, len(up) // 10)
        self.figures["forks"] = {"count": len(ids), "live": len(up), "first_us": spent[0] / 1000, "last_us": spent[-1] / 1000,
                                 "first_exec_ms": median(up[:tenth]) / 1e6, "last_exec_ms": median(up[-tenth:]) / 1e6, "kb": each,
                                 "available_kb": (before["MemAvailable"] - after["MemAvailable"]) / len(up),
                                 "parts": {name: (after[name] - before[name]) / len(up) for name in MEMORY_PARTS}, "plain_kb": plain_kb,
                                 "bar": FORK_BAR_KB, "is_met": each <= FORK_BAR_KB}
        self.remove_all(where)

    # ---- start, work, diff

    def series(self, commands, where, rounds):
        """{name: [ns]}, in turn."""
        kept = {name: [] for name, _ in commands}
        for name, argv in commands:  # once to warm up, and to see that it works
            self.took(argv, where)
        for _ in range(rounds):
            for name, argv in commands:
                kept[name].append(self.took(argv, where))
        return kept

    def run_in(self, mode, argv):
        return [self.atoll, "run", "--quiet", "--mode", mode, *(["--apply=never"] if mode == "layer" else []), "--", *argv]

    def start(self):
        where = self.workspace(self.sizes[0])
        kept = self.series([("plain", TRUE), ("direct", self.run_in("direct", TRUE)), ("layer", self.run_in("layer", TRUE))], where, self.rounds * 8)
        took = {name: median(values) / 1000 for name, values in kept.items()}
        more = took["layer"] / took["direct"] - 1
        self.figures["start"] = {"plain_us": took["plain"], "direct_us": took["direct"], "layer_us": took["layer"], "more": more, "bar": START_BAR,
                                 "is_met": more <= START_BAR}
        self.remove_all(where)

    def prepare_npm(self, where):
        """A project whose 20 packages are tarballs beside it: no registry is asked."""
        needs = {}
        for number in range(3 if self.options.quick else 20):
            name = "package-%d" % number
            for i in range(40):
                os.makedirs("%s/%s/lib" % (where, name), exist_ok=True)
                with open("%s/%s/lib/%d.js" % (where, name, i), "w") as file:
                    file.write("module.exports = %d\n" % i * 50)
            with open("%s/%s/package.json" % (where, name), "w") as file:
                json.dump({"name": name, "version": "1.0.0"}, file)
            self.script("npm pack --silent ./%s >/dev/null; rm -r %s" % (name, name), where)
            needs[name] = "file:%s-1.0.0.tgz" % name
        with open(where + "/package.json", "w") as file:
            json.dump({"name": "project", "version": "1.0.0", "dependencies": needs}, file)

    def prepare_work(self):
        """{name: (argv, where)}"""
        where = os.path.join(self.top, "work")
        os.makedirs(where + "/tree", exist_ok=True)
        text = "#include <stdio.h>\n" + "".join("int f%d(int x) { char b[64]; return snprintf(b, sizeof b, \"%%d\", x + %d); }\n" % (i, i) for i in range(200))
        for name in ("a.c", *("tree/m%d.c" % i for i in range(8))):
            with open(os.path.join(where, name), "w") as file:
                file.write(text)
        with open(where + "/tree/Makefile", "w") as file:
            file.write("all: $(patsubst %.c,%.o,$(wildcard *.c))\n%.o: %.c\n\tgcc -c -o $@ $<\n")
        large = self.workspace(self.sizes[-1])
        work = {"compile": (["gcc", "-c", "-o", "a.o", "a.c"], where), "make": (["make", "-s", "-B", "-j2", "-C", "tree"], where),
                "find, fresh": (FIND, large), "git status, fresh": (["git", "status", "--short"], large)}
        if shutil.which("npm", path="/usr/bin:/bin"):
            os.mkdir(where + "/npm")
            self.prepare_npm(where + "/npm")
            work["npm"] = (["/bin/sh", "-c", "rm -rf node_modules package-lock.json; exec npm install --silent --offline --no-audit --no-fund "
                            "--cache ./cache"], where + "/npm")
        else:
            self.missing.append("layers, inside: npm is not installed")
        return {name: ([shutil.which(argv[0], path="/usr/bin:/bin"), *argv[1:]], at) for name, (argv, at) in work.items()}

    def row(self, name, plain, layer):
        row = {"name": name, "plain_ms": plain / 1e6, "layer_ms": layer / 1e6, "ratio": layer / plain}
        if name in INSIDE_BARS:
            row.update(bar=INSIDE_BARS[name], is_met=row["ratio"] <= INSIDE_BARS[name])
        return row

    def inside(self):
        rows, rounds = [], max(2, self.rounds // 2)
        for name, (argv, where) in self.prepare_work().items():
            try:
                kept = self.series([("plain", argv), ("layer", self.run_in("layer", argv)), ("true", TRUE), ("layer true", self.run_in("layer", TRUE))],
                                   where, rounds)
            except Failed as what:
                self.missing.append("layers, inside, %s: %s" % (name, what))
                continue
            took = {key: median(values) for key, values in kept.items()}
            rows.append(self.row(name, took["plain"] - took["true"], took["layer"] - took["layer true"]))
            self.remove_all(where)
        self.figures["inside"] = rows
        self.live(rows, rounds, "find, repeated", FIND)
        self.live(rows, rounds, "git status, repeated", [shutil.which("git", path="/usr/bin:/bin"), "status", "--short"])

    def live(self, rows, rounds, name, argv):
        """The same again and again in one sandbox."""
        where = self.workspace(self.sizes[-1])
        ident = self.say([self.atoll, "create"], where).strip()
        try:
            kept = self.series([("plain", argv), ("layer", [self.atoll, "exec", ident, "--", *argv]), ("true", TRUE),
                                ("layer true", [self.atoll, "exec", ident, "--", *TRUE])], where, rounds)
            took = {key: median(values) for key, values in kept.items()}
            rows.append(self.row(name, took["plain"] - took["true"], took["layer"] - took["layer true"]))
        finally:
            self.say([self.atoll, "rm", ident], where)
        self.add_floor(rows[-1], rounds, argv, where)

    def add_floor(self, row, rounds, argv, where):
        """The same in an overlay by hand (unshare and mount), in which a shell does what it is told, and nothing else."""
        upper, work = (os.path.join(self.top, "floor-" + name) for name in ("upper", "work"))
        script = ('mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3,userxattr" "$1" && cd "$1" && '
                  'while read -r which; do if [ $which = true ]; then /bin/true; else shift 3; "$@" >/dev/null; set -- 1 2 3 "$@"; fi; echo; done')
        kept = {"plain": [], "true": [], "floor": [], "floor true": []}
        for path in (upper, work):
            os.makedirs(path, exist_ok=True)
        shell = subprocess.Popen(["unshare", "-Urm", "/bin/sh", "-c", script, "sh", where, upper, work, *argv], env=self.env, text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

        def tell(which):
            start = time.perf_counter_ns()
            shell.stdin.write(which + "\n")
            shell.stdin.flush()
            if not shell.stdout.readline():
                raise OSError("no overlay by hand")
            return time.perf_counter_ns() - start
        try:
            tell("work")  # which makes the names known
            for _ in range(rounds):
                for key, spent in (("plain", self.took(argv, where)), ("true", self.took(TRUE, where)), ("floor", tell("work")), ("floor true", tell("true"))):
                    kept[key].append(spent)
            took = {key: median(values) for key, values in kept.items()}
            row["floor_ratio"] = (took["floor"] - took["floor true"]) / (took["plain"] - took["true"])
        except (Failed, OSError) as what:
            self.missing.append("layers, the floor, %s: %s" % (row["name"], what))
        finally:
            shell.stdin.close()
            shell.wait()
            shell.stdout.close()

    def diff(self):
        where = self.workspace(self.sizes[-1])
        self.took(self.run_in("layer", self.change(self.sizes[-1])), where)
        commands = [("diff", [self.atoll, "diff"]), ("diff --stat", [self.atoll, "diff", "--stat"]), ("diff --json", [self.atoll, "diff", "--json"]),
                    ("plain", TRUE), ("git diff --stat, the host's", ["git", "diff", "--stat"])]
        kept = self.series(commands, where, self.rounds)
        rows = [{"name": name, "ms": median(values) / 1e6} for name, values in kept.items()]
        for row in rows[:3]:
            row.update(bar=DIFF_BAR_MS, is_met=row["ms"] <= DIFF_BAR_MS)
        self.figures["diff"] = rows
        self.remove_all(where)

    def run(self):
        for count in self.sizes:
            self.workspace(count)
        for name in ("start", "steps", "diff", "inside", "forks"):
            if not self.options.only or name in self.options.only.split(","):
                self.part(name)


# ---- telling --------------------------------------------------------------------------------------------------------

def tell(figures, verdict):
    if figures.get("steps"):
        counts = list(figures["steps"][0]["ms"])
        print("\n%-28s " % "sandboxes, over files" + " ".join("%10s" % count for count in counts))
        for row in figures["steps"]:
            print("%-28s " % row["name"] + " ".join("%7.2f ms" % row["ms"][count] for count in counts))
            if "beyond_ms" in row:
                print("%-28s " % "  beyond an empty step" + " ".join("%+7.2f ms" % row["beyond_ms"][count] for count in counts)
                      + verdict(row, lambda bar: "%d ms" % bar))
    if figures.get("forks"):
        row = figures["forks"]
        print("\n%d forks: %.0f us each at first, %.0f us at last; %d with a process: %.1f ms at first, %.1f ms at last, %.0f kB each beyond it"
              % (row["count"], row["first_us"], row["last_us"], row["live"], row["first_exec_ms"], row["last_exec_ms"], row["kb"])
              + verdict(row, lambda bar: "%d kB" % bar))
        print("  with the process, which is %.0f kB by itself: %s; MemAvailable %.0f less"
              % (row["plain_kb"], ", ".join("%s %.0f" % part for part in row["parts"].items()), row["available_kb"]))
    if figures.get("start"):
        row = figures["start"]
        print("start with a layer: %.0f us, directly %.0f us: %+.1f%%, plain %.0f us" % (row["layer_us"], row["direct_us"], 100 * row["more"], row["plain_us"])
              + verdict(row, lambda bar: "%d%%" % (100 * bar)))
    if figures.get("inside"):
        print("\n%-28s %10s %10s %9s %9s" % ("in a layer, beyond the start", "plain", "layer", "x plain", "by hand"))
        for row in figures["inside"]:
            print("%-28s %7.1f ms %7.1f ms %8.2f %9s" % (row["name"], row["plain_ms"], row["layer_ms"], row["ratio"],
                  "%.2f" % row["floor_ratio"] if "floor_ratio" in row else "") + verdict(row, lambda bar: "%.2fx" % bar))
    for row in figures.get("diff", ()):
        print("%-28s %7.1f ms" % (row["name"], row["ms"]) + verdict(row, lambda bar: "%d ms" % bar))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("bin")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--btrfs")
    parser.add_argument("--only", default="", help="start,steps,diff,inside,forks")
    layers = Layers(parser.parse_args())
    layers.run()
    print(json.dumps({"figures": layers.figures, "missing": layers.missing}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
