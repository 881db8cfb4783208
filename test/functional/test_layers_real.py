# SPDX-License-Identifier: Apache-2.0
# check: seconds 112
# check: not sanitized
# check: on disk as root
# check: timeout 1500
"""
Real work in a layer: what is applied is what the same work makes outside

Each test does something twice: in a layer that is applied, and without a sandbox in a workspace of the same name, because
compilers write down where they work. Then both are compared, byte for byte where the work itself is reproducible.

    ATOLL_LONG=1        builds all of this repository's newest commit, not one library of it; and does as root all that the user does
"""

import os
import re
import sqlite3
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import lib
from lib import *
from trees import Tools, decode, differences

IS_SHORT = IS_ROOT and not os.environ.get("ATOLL_LONG")  # the same work for both, but less of it
ROOT = os.environ.get("ATOLL_ROOT") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SECONDS = lib.TEST_SECONDS = 900 * SLOW


class Twice:
    """A workspace, and what was there in the beginning."""

    def __init__(self, place):
        need_layers()
        self.place, self.tools = place, Tools(place)
        self.begin, self.inside = os.path.join(place.base, "begin"), os.path.join(place.base, "inside")
        self.env = {"XDG_STATE_HOME": os.path.join(place.base, "state"), "GIT_CONFIG_NOSYSTEM": "1", "SOURCE_DATE_EPOCH": "1000000000"}
        os.mkdir(self.env["XDG_STATE_HOME"], 0o700)
        place.expect("*")

    def atoll(self, *args, **options):
        result = atoll(self.place, *args, env=self.env, timeout=SECONDS, **options)
        same(result.status, 0, "status of atoll %s" % " ".join(map(str, args)))
        return result

    def layer(self, script, flags=()):
        """Run it in a layer; the host's files do not move."""
        self.tools.copy(self.place.ws, self.begin)
        before = self.tools.tree(self.place.ws)
        given = [word for name, value in self.env.items() if name != "XDG_STATE_HOME" for word in ("--env", "%s=%s" % (name, value))]
        result = run(self.place, ["--mode", "layer", "--apply=never", *given, *flags], inside_sh("set -e\n" + script), env=self.env, timeout=SECONDS)
        same(result.status, 0, "status of the work inside")
        changed = differences(self.tools.tree(self.place.ws), before, times="every", owner=True)
        check(not changed, "the host's files moved: %s" % changed[:5])
        return result

    def apply(self):
        """All of it: what is marked has to be named."""
        changes = json.loads(self.atoll("diff", "--json").out)["changes"]
        marked = ["./" + change["path"] for change in changes if change.get("mark")]
        self.atoll("apply", *(["--", ".", *marked] if marked else []))
        return changes

    def outside(self, script):
        """The same without a sandbox, where it was done inside; what was applied is in `inside` then."""
        os.rename(self.place.ws, self.inside)
        self.tools.copy(self.begin, self.place.ws)
        result = plain(self.place, inside_sh("set -e\n" + script), env=self.env, confined=False, timeout=SECONDS)
        same(result.status, 0, "status of the work outside")

    def compare(self, ignore="^$", content=".*"):
        """Names, kinds, modes and links; content of what the pattern names. `ignore`: what differs each time."""
        def those(where):
            return {path: entry for path, entry in self.tools.tree(where).items() if not re.search(ignore, decode(path))}
        inside, outside = those(self.inside), those(self.place.ws)
        check(len(outside) > 0, "nothing to compare")
        for path in set(inside) & set(outside):
            if not re.search(content, decode(path)):
                inside[path].content, inside[path].size = outside[path].content, outside[path].size
        wrong = differences(inside, outside, times="none", owner=True)
        check(not wrong, "inside and outside: %d of %d differ: %s" % (len(wrong), len(outside), "; ".join(wrong[:6])))
        return outside


def make_history(where):
    """A C project that has grown by 24 commits, with a merge; its build is the same each time."""
    os.makedirs(where)
    git(where, "init", "-q", "-b", "main")
    for name, value in (("user.name", "A Tester"), ("user.email", "t@example.org"), ("gc.auto", "0")):
        git(where, "config", name, value)
    write(where + "/Makefile", "OBJECTS = $(patsubst %.c,%.o,$(wildcard part-*.c))\nprogram: $(OBJECTS)\n\tgcc -o $@ $^\n"
                               "%.o: %.c parts.h\n\tgcc -g -O1 -c -o $@ $<\n")
    for number in range(24):
        names = range(number + 1)
        write("%s/part-%d.c" % (where, number), "#include \"parts.h\"\n#include <stdio.h>\n" + "".join(
            "int part_%d_%d(int x) { printf(\"%%d\\n\", x); return x * %d; }\n" % (number, i, i) for i in range(30)) +
            ("int main(void) { return part_0_0(0); }\n" if number == 0 else ""))
        write(where + "/parts.h", "".join("int part_%d_0(int x);\n" % i for i in names))
        for args in (["checkout", "-q", "-b", "side"] if number == 20 else None, ["add", "-A"], ["commit", "-q", "-m", "part %d" % number]):
            check(args is None or git(where, *args).returncode == 0, "cannot make a history: %s" % args)


def history(place):
    """A bare repository in the workspace, and how to build what is in it."""
    bare_copy = os.path.join(place.ws, "origin.git")
    ours = next((path for path in (os.path.join(ROOT, "history.bundle"), os.path.join(ROOT, ".git")) if os.path.exists(path)), None)
    has_tools = all(os.path.exists("/usr/bin/" + name) for name in ("meson", "ninja", "gcc", "pkg-config"))
    if ours and has_tools and not IS_SHORT and subprocess.run(["pkg-config", "--exists", "libsodium", "yaml-0.1"]).returncode == 0:
        source = ROOT if ours.endswith("/.git") else ours
        options, target = ("", "") if os.environ.get("ATOLL_LONG") else ("-Doptimization=0", "src/libatoll-cli.a")
        build = "CC=gcc meson setup %s build . >/dev/null && ninja -C build %s >/dev/null" % (options, target)
    else:
        source, build = os.path.join(place.base, "project"), "make -s -j2"
        make_history(source)
    done = git(place.base, "-c", "safe.directory=*", "clone", "-q", "--bare", "--no-hardlinks", source, bare_copy)
    same(done.returncode, 0, "a copy of the history: %s" % done.stdout)
    return build


@test("a repository's history cloned and built in a layer is, applied, the same as outside")
def _():
    need("git", "gcc", "make")
    with Place(repository=False) as place:
        twice = Twice(place)
        # Without hard links: an overlay shows two names of one file of the host's under two inode numbers, and git takes that for an attack.
        script = "git clone -q --no-hardlinks origin.git work && cd work && git log --stat >/dev/null && %s && git status --short" % history(place)
        twice.layer(script)
        twice.apply()
        twice.outside(script)
        # Logs and caches have times in them; so has git's index.
        compared = twice.compare(ignore=r"\.ninja_(log|deps)|meson-(logs|private|info)|\.git/(index|logs)|\.pyc$")
        check(sum(path.endswith(".o") for path in compared) > 10, "little was built: %s" % len(compared))
        same(git(place.base + "/inside/work", "-c", "safe.directory=*", "status", "--porcelain").stdout.replace("?? build/\n", ""),
             git(place.ws + "/work", "-c", "safe.directory=*", "status", "--porcelain").stdout.replace("?? build/\n", ""), "git status")


@test("commits, branches, a merge and a rebase in a layer are the host's after apply")
def _():
    need("git")
    with Place() as place:
        twice = Twice(place)
        script = """
            export GIT_AUTHOR_DATE='1000000000 +0000' GIT_COMMITTER_DATE='1000000000 +0000'
            git checkout -q -b topic
            for i in 1 2 3 4 5; do echo "$i" >>f; echo "int f$i;" >src/$i.c; git add .; git commit -q -m "topic $i"; done
            git checkout -q main
            echo more >>README.md; git commit -q -a -m "on main"
            git merge -q -m merged topic
            git mv src/1.c src/one.c; git rm -q src/2.c; git commit -q -m "moved"
            git checkout -q -b other HEAD~2; echo x >other; git add other; git commit -q -m other; git rebase -q main
            git tag -a -m tagged v1; git stash list; git gc -q; git checkout -q main
            """
        twice.layer(script)
        twice.apply()
        for args in (["fsck", "--strict"], ["status", "--porcelain"]):
            done = git(place.ws, *args)
            check(done.returncode == 0 and "??" not in done.stdout and " M" not in done.stdout, "git %s: %s" % (args[0], done.stdout))
        told = git(place.ws, "log", "--all", "--format=%H %s %d").stdout
        twice.outside(script)
        same(told, git(place.ws, "log", "--all", "--format=%H %s %d").stdout, "git log")
        twice.compare(ignore=r"\.git/(index$|logs|objects|ORIG_HEAD|COMMIT_EDITMSG|gc)")


@test("npm install of a package and what it depends on")
def _():
    once(as_root=False)
    need("node", "npm")
    with Place(repository=False) as place:
        twice = Twice(place)
        for name, needs in (("lib-a", {}), ("lib-b", {"lib-a": "file:../lib-a"})):
            write("%s/%s/package.json" % (place.ws, name), json.dumps({"name": name, "version": "1.0.0", "dependencies": needs,
                                                                       "bin": {name: "run.js"}}))
            write("%s/%s/run.js" % (place.ws, name), "#!/usr/bin/env node\nconsole.log('%s')\n" % name, 0o755)
            for number in range(200):
                write("%s/%s/lib/m%d.js" % (place.ws, name, number), "module.exports = %d\n" % number)
        write(place.ws + "/app/package.json", json.dumps({"name": "app", "version": "1.0.0", "dependencies": {
            "lib-a": "file:../lib-a-1.0.0.tgz", "lib-b": "file:../lib-b"}}))
        script = ("export npm_config_cache=$PWD/cache npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false\n"
                  "npm pack --silent ./lib-a >/dev/null; cd app; npm install --silent --offline; node_modules/.bin/lib-a; npm ls >/dev/null\n"
                  "npm uninstall --silent --offline lib-b; npm install --silent --offline ../lib-b")
        result = twice.layer(script)
        same(result.out.strip(), "lib-a", "what was installed says")
        twice.apply()
        twice.outside(script)
        twice.compare(ignore="^cache")


@test("a virtual environment of Python, and what runs from it")
def _():
    with Place(repository=False) as place:
        twice = Twice(place)
        has_pip = not IS_SHORT and subprocess.run([PYTHON, "-c", "import ensurepip"], stderr=subprocess.DEVNULL).returncode == 0
        script = PYTHON + " -m venv %s env\nenv/bin/python -c 'import sys; print(sys.prefix)'" % ("" if has_pip else "--without-pip")
        result = twice.layer(script)
        same(result.out.strip(), place.ws + "/env", "its prefix")
        twice.apply()
        done = plain(place, [place.ws + "/env/bin/python", "-c", "import sys; print(sys.prefix)"], confined=False)
        same(done.out.strip(), place.ws + "/env", "its prefix on the host")
        twice.outside(script)
        twice.compare(content=r"^(?!.*(\.pyc|RECORD)$)")


@test("a database that is written, changed and vacuumed")
def _():
    with Place(repository=False) as place:
        with sqlite3.connect(place.ws + "/old.db") as database:
            database.execute("create table t (id integer primary key, text)")
            database.executemany("insert into t (text) values (?)", [("row %d" % i,) for i in range(5000)])
        database.close()
        twice = Twice(place)
        code = """
import sqlite3
for name, journal in (("old.db", "delete"), ("new.db", "wal")):
    db = sqlite3.connect(name)
    db.execute("pragma journal_mode=" + journal)
    db.execute("create table if not exists t (id integer primary key, text)")
    for i in range(200):
        with db:
            db.execute("insert into t (text) values (?)", ("step %d" % i,))
            db.execute("update t set text = text || ? where id % 97 = ?", ("!", i % 97))
    db.execute("delete from t where id % 3 = 0"); db.commit(); db.execute("vacuum")
    db.close()
"""
        write(place.ws + "/work.py", code)
        twice.layer(PYTHON + " work.py")
        twice.apply()
        twice.outside(PYTHON + " work.py")

        def rows(path):
            database = sqlite3.connect(path)
            try:
                return database.execute("pragma integrity_check").fetchall(), database.execute("select * from t order by id").fetchall()
            finally:
                database.close()
        for name in ("old.db", "new.db"):
            check(rows(os.path.join(twice.inside, name)) == rows(os.path.join(place.ws, name)), "%s differs" % name)
        twice.compare(content=r"\.py$")


@test("a file of 1 GiB (by root and the sanitizers a quarter) that is mostly holes: seen, applied, taken back")
def _():
    size = 1 << 28 if IS_ROOT or IS_SANITIZED else 1 << 30  # all of it is read: once is enough
    with Place(repository=False) as place:
        twice = Twice(place)
        for name in ("old", "gone"):
            with open(os.path.join(place.ws, name), "wb") as file:
                file.seek(size // 2)
                file.write(b"in the middle")
                file.truncate(size)
        script = ("truncate -s %d new; printf end | dd of=new bs=1 seek=%d conv=notrunc status=none\n"
                  "printf x | dd of=old bs=1 seek=%d conv=notrunc status=none; rm gone" % (size, size - 3, size // 10 * 9))
        before = twice.tools.tree(place.ws)
        twice.layer(script)
        shown = twice.atoll("diff").out
        for name in ("new", "old", "gone"):
            check(name in shown, "diff does not name %s: %s" % (name, shown[:300]))
        check(len(shown) < 10000, "diff shows a large file's bytes: %d" % len(shown))
        twice.apply()
        applied = twice.tools.tree(place.ws)
        for name in ("new", "old"):
            check(applied[name].blocks * 512 < 64 << 20, "%s takes %d MiB of disk" % (name, applied[name].blocks // 2048))
        twice.atoll("undo")
        wrong = differences(twice.tools.tree(place.ws), before, times="all", owner=True)
        check(not wrong, "after undo: %s" % wrong)
        check(twice.tools.tree(place.ws)["gone"].blocks * 512 < 64 << 20, "undo has filled its holes")
        twice.atoll("apply")
        twice.outside(script)
        twice.compare()


@test("an hour's work in small steps: a hundred runs, each applied")
def _():
    with Place() as place:
        twice = Twice(place)
        for number in range(100 if os.environ.get("ATOLL_LONG") else 20):
            script = "echo %d >>f; mkdir -p d/%d && mv src/a.c d/%d/a.c && mkdir -p src && cp d/%d/a.c src/a.c && echo 'int x%d;' >>src/a.c" % (
                (number,) * 5)
            run(place, ["--mode", "layer", "--apply=auto"], inside_sh("set -e\n" + script), env=twice.env)
        same(len(read(place.ws + "/src/a.c").splitlines()), number + 2, "lines of what was changed each time")
        same(read(place.ws + "/f").split()[2:], [str(i).encode() for i in range(number + 1)], "what was appended each time")


main()
