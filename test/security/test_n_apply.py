#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Family N: what is put on the host is exactly what was vetted

A live sandbox writes its layer while `apply`, `export` and `undo` read it, and a direct run may write in the workspace while an
apply stages its files there. In each test a command races the host's side, and what arrived on the host is looked at: never a file
that is marked and was not named, never a byte that was not approved.

Races: K is the mean number of tries per success on commit d598071, measured with this file; here 100 * K tries must all fail, or
as many as fit into ten seconds.
"""
import os
import pty
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

SECONDS = 10 * SLOW


def create(place, *flags):
    need_layers()
    result = atoll(place, "create", "--mode", "layer", *flags)
    same(result.status, 0, "create: %s" % result.err)
    return result.out.strip()


def begin(place, id, command):
    """A step that is not waited for."""
    return Running(place, [ATOLL, "exec", id, "--", *command], starts=False)


def step(place, id, script, *args):
    result = atoll(place, "exec", id, "--", *inside_sh(script, *args))
    same(result.status, 0, "step %r: %s" % (script, result.err))
    return result.out


def marked(place, id):
    """{path: mark} of a record's changes."""
    result = atoll(place, "diff", "--json", id)
    same(result.status, 0, "diff: %s" % result.err)
    return {change["path"]: change.get("mark") for change in json.loads(result.out)["changes"]}


class Tries:
    """Tries of a race: `for _ in Tries("what", k): ...` makes 100 * k of them, or as many as fit; lost() counts a success of the attacker."""

    def __init__(self, what, k, seconds=SECONDS):
        self.what, self.k, self.n, self.successes, self.seconds = what, k, 0, 0, seconds

    def __iter__(self):
        end = time.monotonic() + self.seconds
        while self.n < 100 * self.k and time.monotonic() < end:
            self.n += 1
            yield self.n
        print("# %s: %d of %d tries, K on d598071: %.1f" % (self.what, self.successes, self.n, self.k), flush=True)
        same(self.successes, 0, "%s: tries that came through" % self.what)

    def lost(self):
        self.successes += 1


# ---- a live sandbox --------------------------------------------------------------------------------------------------

# Two files that change their minds: a git config that runs a program, and a link that leads out.
ALTERNATE = r"""
import time
mark, out = sys.argv[1:3]
harmless = open(".git/config").read()
os.makedirs("tmp", exist_ok=True)
def swap(path, make):
    make("tmp/next")
    os.rename("tmp/next", path)
def text(content):
    def make(path):
        with open(path, "w") as file:
            file.write(content)
    return make
n = 0
while True:
    n += 1
    swap(".git/config", text(harmless + "[user]\n\temail = a%d@b.c\n" % n))
    swap("data.txt", text("%d\n" % n))
    time.sleep(0.0007)
    swap(".git/config", text(harmless + "[core]\n\tfsmonitor = \"touch %s;false\"\n" % mark))
    swap("data.txt", lambda path: os.symlink(out + "/secret.txt", path))
    open("ready", "w").close()
    time.sleep(0.0007)
"""


def is_taken_over(place):
    return b"fsmonitor" in read(place.ws + "/.git/config") or os.path.islink(place.ws + "/data.txt")


def put_back(place, config):
    with contextlib.suppress(OSError):
        os.unlink(place.ws + "/data.txt")
    write(place.ws + "/.git/config", config)


@test("APPLY-01 a live sandbox alternates a file while it is applied: only what was vetted arrives")
def _():
    with Place() as place:
        place.expect("*")
        config = read(place.ws + "/.git/config")
        id = create(place)
        attack = begin(place, id, inside_py(ALTERNATE, place.mark, place.out))
        until(lambda: "ready" in marked(place, id))
        arrived = 0
        tries = Tries("apply of a live sandbox", 2.7)
        for _ in tries:
            result = atoll(place, "apply", id, "--force")
            arrived += result.status == 0
            if is_taken_over(place):
                tries.lost()
                put_back(place, config)
        attack.kill()
        check(arrived, "nothing was ever applied: the race was not run")
        same(atoll(place, "rm", "--force", id).status, 0, "rm")
        hostgit(place)


# ---- a direct run beside an apply ------------------------------------------------------------------------------------

# What an apply stages is written as soon as it is there.
OVERWRITE = r"""
import glob, time
evil = b"#!/bin/sh\ntouch %s\n" % sys.argv[1].encode()
n = 0
open("ready", "w").close()
while not os.path.exists("stop"):
    for path in glob.glob(".atoll-apply-*/*.new"):
        try:
            with open(path, "r+b") as file:
                file.truncate(0)
                file.write(evil)
            n += 1
        except OSError:
            pass
    time.sleep(0.0002)
tell("written", str(n))
"""

HOOK = "#!/bin/sh\necho approved\n"


@test("APPLY-02 a direct run in the same workspace cannot change what is staged")
def _():
    with Place() as place:
        need_layers()
        if BARE:
            skip("user namespaces")
        place.expect("*")
        hook = place.ws + "/.git/hooks/pre-commit"
        result = run(place, [], inside_sh("mkdir -p .git/hooks; printf '%s' \"$1\" >.git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit;"
                                          "for i in $(seq 8); do echo $i >file$i; done", HOOK), mode="layer")
        same(result.status, 0, "the run: %s" % result.err)
        id = json.loads(atoll(place, "ls", "--json", "--all").out)[0]["id"]
        attack = start(place, [], inside_py(OVERWRITE, place.mark), mode="direct")
        wait_file(place, "ready")
        arrived = 0
        tries = Tries("a staged hook", 1.0)
        for _ in tries:
            result = atoll(place, "apply", id, ".git/hooks/pre-commit", ".")
            if os.path.exists(hook):
                arrived += 1
                if read(hook).decode() != HOOK:
                    tries.lost()
            atoll(place, "undo", id, "--force")
            with contextlib.suppress(OSError):
                os.unlink(hook)
        write(place.ws + "/stop")
        result = attack.wait()
        check(arrived, "nothing was ever applied: the race was not run")
        same(result.tries["written"], "0", "staged files that the direct run wrote")


@test("APPLY-03 no run makes, moves, links or removes what an apply stages")
def _():
    code = r"""
    stage = ".atoll-apply-" + sys.argv[1]
    attempt("write", lambda: put(stage + "/1.new"))
    attempt("replace", lambda: os.rename("mine", stage + "/1.new"))
    attempt("link", lambda: os.link(stage + "/1.new", "second"))
    attempt("remove", lambda: os.unlink(stage + "/1.new"))
    attempt("move", lambda: os.rename(stage, "moved"))
    attempt("mode", lambda: os.chmod(stage + "/1.new", 0o777))
    attempt("squat", lambda: os.mkdir(".atoll-apply-other"))
    attempt("squat a file", lambda: put(".ATOLL-apply-file"))
    attempt("squat a link", lambda: os.symlink("src", ".atoll-apply-link"))
    attempt("deeper", lambda: os.mkdir("src/.atoll-apply-deeper"))
    attempt("import", lambda: os.mkdir(".atoll-0123456789ab"))
    """
    names = ("write", "replace", "link", "remove", "move", "mode", "squat", "squat a file", "squat a link", "deeper", "import")
    for stage, how in (("aaaaaaaa", "refused"), ("b", "allowed")):
        with Place() as place:
            place.expect("*")
            write(place.ws + "/.atoll-apply-aaaaaaaa/1.new", "staged\n", 0o666)
            write(place.ws + "/mine", "mine\n", 0o666)
            if IS_ROOT:  # an id of its own writes there: the mode must not be what stops it
                os.chmod(place.ws, 0o777), os.chmod(place.ws + "/.atoll-apply-aaaaaaaa", 0o777)
            place.settle()
            if how == "refused":
                result = run(place, [], inside_py(code, stage))
                for name in names:
                    among(result.tries[name], DENIED, name)
                same(read(place.ws + "/.atoll-apply-aaaaaaaa/1.new"), b"staged\n", "the staged file")
            else:  # the same calls, on names that nobody stages
                code = code.replace(".atoll-apply-", ".other-").replace(".ATOLL-apply-", ".OTHER-").replace(".atoll-0", ".other-0")
                os.rename(place.ws + "/.atoll-apply-aaaaaaaa", place.ws + "/.other-b")
                place.settle()
                result = run(place, [], inside_py(code, stage))
                for name in ("write", "replace", "link", "remove", "squat", "squat a file", "squat a link", "deeper", "import"):
                    same(result.tries[name], "ok", name)


# ---- what a yes is for -----------------------------------------------------------------------------------------------

@test("APPLY-04 a yes to a diff is for the bytes that were shown")
def _():
    for change, holds in (("echo harmless >x", False), ("echo evil >x", True), ("rm x; ln -s $1/secret.txt x", True), ("rm x; mkdir x", True)):
        with Place() as place:
            place.expect("*")
            id = create(place)
            step(place, id, "echo harmless >x")
            pid, fd = pty.fork()
            if pid == 0:
                os.chdir(place.ws)
                os.execve(ATOLL, [ATOLL, "apply", id, "--pick"], caller_environment(place))
            shown = ""
            for answer in ("d\n", "y\n"):
                while not shown.endswith("[N]o "):
                    shown += os.read(fd, 4096).decode(errors="replace")
                if answer == "y\n":
                    step(place, id, change, place.out)
                shown += "\n"
                os.write(fd, answer.encode())
            with contextlib.suppress(OSError):
                while data := os.read(fd, 4096):
                    shown += data.decode(errors="replace")
            os.waitpid(pid, 0)
            os.close(fd)
            check("+harmless" in shown, "the diff was not shown: %s" % shown)
            same(os.path.lexists(place.ws + "/x"), not holds, "x on the host after '%s': %s" % (change, shown))
            if not holds:
                same(read(place.ws + "/x"), b"harmless\n", "x")
            same(atoll(place, "rm", "--force", id).status, 0, "rm")


# ---- second names ----------------------------------------------------------------------------------------------------

@test("APPLY-05 a file that is vetted by its name gets no second name on the host")
def _():
    with Place() as place:
        need_layers()
        place.expect("*")
        result = run(place, [], inside_sh("git config user.name Other; ln .git/config innocent; echo pair >pair-a; ln pair-a pair-b"), mode="layer")
        same(result.status, 0, "the run: %s" % result.err)
        id = json.loads(atoll(place, "ls", "--json", "--all").out)[0]["id"]
        same(atoll(place, "apply", id).status, 0, "apply")
        check(b"Other" in read(place.ws + "/.git/config"), "the config was not applied")
        same(os.stat(place.ws + "/.git/config").st_nlink, 1, "names of .git/config")
        same(os.stat(place.ws + "/pair-a").st_nlink, 2, "names of a file that nobody vets")
        run(place, [], inside_sh('printf "[core]\\n\\tfsmonitor = \\"touch %s;false\\"\\n" "$1" >>innocent', place.mark), mode="direct")
        check(b"fsmonitor" in read(place.ws + "/innocent"), "the direct run did not write")
        check(b"fsmonitor" not in read(place.ws + "/.git/config"), "a direct run wrote .git/config by another name")
        hostgit(place)


# ---- force -----------------------------------------------------------------------------------------------------------

def record(place, script, *args):
    need_layers()
    result = run(place, [], inside_sh(script, *args), mode="layer")
    same(result.status, 0, "the run: %s" % result.err)
    return json.loads(atoll(place, "ls", "--json", "--all").out)[0]["id"]


@test("APPLY-06 --force overcomes conflicts, and never a mark, a link or another file system")
def _():
    with Place() as place:  # what it is for, and that undo brings the host's back
        place.expect("*")
        id = record(place, "echo run >f")
        write(place.ws + "/f", "host\n")
        check(atoll(place, "apply", id).status != 0, "a conflict was overcome without force")
        same(read(place.ws + "/f"), b"host\n", "f")
        same(atoll(place, "apply", id, "--force").status, 0, "apply --force")
        same(read(place.ws + "/f"), b"run\n", "f")
        same(atoll(place, "undo", id).status, 0, "undo")
        same(read(place.ws + "/f"), b"host\n", "f after undo")
    with Place() as place:  # marked files stay back
        place.expect("*")
        id = record(place, "echo x >.envrc; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; echo y >g; ln -s $1/canary out", place.out)
        same(atoll(place, "apply", id, "--force").status, 0, "apply --force")
        same([name for name in (".envrc", ".git/hooks/pre-commit", "out", "g") if os.path.lexists(os.path.join(place.ws, name))], ["g"], "what arrived")
    with Place() as place:  # a directory that has become a link on the host
        place.expect("*")
        id = record(place, "echo run >src/a.c; echo run >src/new; mkdir -p deep/er; echo x >deep/er/x")
        os.rename(place.ws + "/src", place.ws + "/kept")
        os.symlink(place.out, place.ws + "/src")
        os.symlink(place.out, place.ws + "/deep")
        place.settle()
        check(atoll(place, "apply", id).status != 0, "a conflict was overcome without force")
        same(atoll(place, "apply", id, "--force", "src").status, 0, "apply --force")  # the link itself is replaced
        check(not os.path.islink(place.ws + "/src") and read(place.ws + "/src/new") == b"run\n", "src")
        same(atoll(place, "undo", id).status, 0, "undo")
        same(os.readlink(place.ws + "/src"), place.out, "src after undo")
        same(sorted(os.listdir(place.out)), ["canary", "secret.txt"], "what lies behind the link")
    with Place() as place:  # a file that has become a link on the host: the link is replaced, not followed
        place.expect("*")
        id = record(place, "echo run >f")
        os.unlink(place.ws + "/f")
        os.symlink(place.out + "/canary", place.ws + "/f")
        place.settle()
        same(atoll(place, "apply", id, "--force").status, 0, "apply --force")
        check(not os.path.islink(place.ws + "/f") and read(place.ws + "/f") == b"run\n", "f")
        same(atoll(place, "undo", id).status, 0, "undo")
        same(os.readlink(place.ws + "/f"), place.out + "/canary", "f after undo")


@test("APPLY-07 --force does not remove or replace what the host trusts and the run never saw")
def _():
    for script in ("rm -r src", "rm -r src; echo file >src", "rm -r src; ln -s f src"):
        with Place() as place:
            place.expect("*")
            id = record(place, script)
            write(place.ws + "/src/.envrc", "host's own\n")
            write(place.ws + "/src/sub/.vscode/tasks.json", "host's own\n")
            place.settle()
            atoll(place, "apply", id, "--force")
            atoll(place, "apply", id, "--force", "src")
            same(read(place.ws + "/src/.envrc"), b"host's own\n", "src/.envrc after '%s'" % script)
            check(os.path.exists(place.ws + "/src/sub/.vscode/tasks.json"), "tasks.json after '%s'" % script)
        with Place() as place:  # and what nobody trusts it does
            place.expect("*")
            id = record(place, script)
            write(place.ws + "/src/own", "host's own\n")
            place.settle()
            check(atoll(place, "apply", id).status != 0, "a conflict was overcome without force")
            same(atoll(place, "apply", id, "--force").status, 0, "apply --force")
            check(not os.path.exists(place.ws + "/src/own"), "src/own after '%s'" % script)
            same(atoll(place, "undo", id).status, 0, "undo")
            same(read(place.ws + "/src/own"), b"host's own\n", "src/own after undo of '%s'" % script)


# ---- merges ----------------------------------------------------------------------------------------------------------

@test("APPLY-08 a merged text is vetted as it will be")
def _():
    with Place() as place:
        place.expect("*")
        config = read(place.ws + "/.git/config").decode() + "[user]\n# 1\n# 2\n# 3\n# 4\n\tname = x\n"
        write(place.ws + "/.git/config", config)
        place.settle()
        # A name, in the run's config. The host has made it an alias meanwhile, and there it is a program.
        id = record(place, 'sed -i "s|name = x|name = \\"!touch $1\\"|" .git/config; echo more >>f', place.mark)
        same({path for path, mark in marked(place, id).items() if mark}, set(), "marks of the run's own")
        write(place.ws + "/.git/config", config.replace("[user]\n# 1", "[alias]\n# 1"))
        result = atoll(place, "apply", id, "--merge")
        check(b"touch" not in read(place.ws + "/.git/config"), "merged and applied: %s" % result.out)
        same(result.status, 0, "apply: %s" % result.err)
        check(b"more" in read(place.ws + "/f"), "what is not marked was not applied")
        check(".git/config" in result.out + result.err, "it is not told: %s" % (result.out + result.err))
        same(atoll(place, "apply", id, "--merge", ".git/config").status, 0, "apply of what is named")
        check(b"touch" in read(place.ws + "/.git/config"), "named, and not applied")


# ---- export ----------------------------------------------------------------------------------------------------------

@test("APPLY-09 an export tells how many of its files are marked, as a patch and as a tar")
def _():
    with Place() as place:
        place.expect("*")
        id = record(place, "echo x >.envrc; mkdir .vscode; echo '{}' >.vscode/tasks.json; echo y >g")
        for form, n in (("patch", 2), ("tar", 3)):
            result = atoll(place, "export", id, "--format", form, "-o", place.tmp + "/x")
            same(result.status, 0, form)
            check("%d of what is in it the host would execute or trust" % n in result.err, "%s: %r" % (form, result.err))
        patch = atoll(place, "export", id).out
        for name in (".envrc", ".vscode/tasks.json"):
            check("# the host would execute or trust: %s (" % name in patch, patch)
        check("trust: g" not in patch, patch)
        quiet = atoll(place, "export", id, "-q", "-o", place.tmp + "/y")
        same((quiet.status, quiet.err), (0, ""), "quiet")
        # Git takes the lines for a comment.
        done = subprocess.run(["git", "-C", place.ws, "apply", "--check", place.tmp + "/y"], capture_output=True, text=True, env={"PATH": HOST_PATH})
        same(done.returncode, 0, done.stderr)


# A link that leads out and a file change places, so that each name is always there.
FLIP = r"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
open("a", "w").close()
os.symlink(sys.argv[1], "b")
open("ready", "w").close()
while libc.renameat2(-100, b"a", -100, b"b", 2) == 0:
    pass
"""


@test("APPLY-10 an export of a live sandbox: what is told is what is in it")
def _():
    import tarfile
    with Place() as place:
        place.expect("*")
        id = create(place)
        attack = begin(place, id, inside_py(FLIP, place.out))
        until(lambda: "ready" in marked(place, id))
        seen = set()
        for form, k in (("tar", 8.3), ("patch", 1.1)):
            tries = Tries("export of a live sandbox as a %s" % form, k, SECONDS / 2)
            for _ in tries:
                result = atoll(place, "export", id, "--format", form, "-o", place.tmp + "/x")
                if result.status == POLICY and "changed while it was copied" in result.err:
                    continue  # the copy met a change sixteen times: refused, and nothing is exported
                same(result.status, 0, "export: %s" % result.err)
                if form == "tar":
                    with tarfile.open(place.tmp + "/x") as tar:
                        links = tuple(entry.name for entry in tar if entry.issym())
                else:
                    links = tuple(re.findall("b/(.*)\nnew file mode 120000", read(place.tmp + "/x").decode()))
                told = re.search("([0-9]+) of what is in it", result.err)
                seen.add(links)
                if len(links) != (int(told.group(1)) if told else 0):
                    tries.lost()
        attack.kill()
        check(len(seen) > 1, "nothing changed meanwhile: %s" % seen)
        same([name for name in os.listdir(store(place) + "/records/" + id) if name.startswith("frozen")], [], "copies that are left")
        # What is copied is whole: modes, holes, attributes, names of one file, deletions.
        step(place, id, "rm -f a b; chmod 750 src; truncate -s 64M holes; echo x >one; ln one two; chmod 751 one; rm README.md; mkdir -p new/dir; ln -s one link")
        same(atoll(place, "export", id, "--format", "oci", "-o", place.tmp + "/x").status, 0, "export")
        with tarfile.open(place.tmp + "/x") as tar:
            found = {entry.name: (entry.type, entry.mode, entry.size) for entry in tar}
        same({name: found.get(name) for name in ("src", "holes", "one", ".wh.README.md", "new/dir", "link")},
             {"src": (tarfile.DIRTYPE, 0o750, 0), "holes": (tarfile.GNUTYPE_SPARSE if found["holes"][0] == tarfile.GNUTYPE_SPARSE else tarfile.REGTYPE, 0o644, 64 << 20),
              "one": (tarfile.REGTYPE, 0o751, 2), ".wh.README.md": (tarfile.REGTYPE, 0o644, 0), "new/dir": (tarfile.DIRTYPE, 0o755, 0),
              "link": (tarfile.SYMTYPE, 0o777, 0)}, "what is in it")
        same(found["two"][0], tarfile.LNKTYPE, "the second name")
        same(atoll(place, "rm", "--force", id).status, 0, "rm")


def store(place):
    return os.path.join(place.home, ".local/state/atoll")


# ---- import ----------------------------------------------------------------------------------------------------------

@test("APPLY-11 an import holds back what the host would execute or trust, unless it is named")
def _():
    from archives import tar, entry, DIR, LINK
    with Place() as place:
        place.expect("*")
        evil = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch %s;false\"\n" % place.mark
        hook = "#!/bin/sh\ntouch %s\n" % place.mark
        repository = [entry(".git", DIR, mode=0o755), entry(".git/HEAD", data=b"ref: refs/heads/main\n"), entry(".git/config", data=evil.encode()),
                      entry(".git/objects", DIR, mode=0o755), entry(".git/refs", DIR, mode=0o755), entry(".git/hooks", DIR, mode=0o755),
                      entry(".git/hooks/post-index-change", data=hook.encode(), mode=0o755), entry(".vscode", DIR, mode=0o755),
                      entry(".vscode/tasks.json", data=b"{}"), entry(".envrc", data=b"x\n"), entry("shut", DIR, mode=0o500),
                      entry("shut/.envrc", data=b"x\n"), entry("plain", data=b"x\n"), entry("link", LINK, "plain")]
        write(place.tmp + "/a.tar", tar(*repository))

        def there(top):
            return sorted(name for name in (".git/config", ".git/hooks/post-index-change", ".vscode/tasks.json", ".vscode", ".envrc", "shut/.envrc", "plain",
                                            "link", ".git/HEAD", "shut") if os.path.lexists(os.path.join(top, name)))
        result = atoll(place, "import", place.tmp + "/a.tar", "--to", place.ws + "/new")
        same(result.status, 0, "import: %s" % result.err)
        same(there(place.ws + "/new"), [".git/HEAD", "link", "plain", "shut"], "what came in")
        check("held back: 6 that the host would execute or trust" in result.out, result.out)
        for name in (".git/config (git config)", ".git/hooks/post-index-change (git hooks)", ".envrc (", "--take .vscode/tasks.json"):
            check(name in result.err, "%s is not told: %s" % (name, result.err))
        git(place.ws + "/new", "status")
        check(not os.path.exists(place.mark), "git ran a program of the archive's")
        # Named ones come, and nothing beside them.
        result = atoll(place, "import", place.tmp + "/a.tar", "--to", place.ws + "/named", "--take", ".envrc", "--take", ".vscode/")
        same(there(place.ws + "/named"), [".envrc", ".git/HEAD", ".vscode", ".vscode/tasks.json", "link", "plain", "shut"], "what came in by name")
        # The same for the workspace of a new sandbox.
        if not BARE:
            result = atoll(place, "create", "--workspace-from", place.tmp + "/a.tar", "--workspace", place.ws + "/box")
            same(result.status, 0, "create: %s" % result.err)
            same(there(place.ws + "/box"), [".git/HEAD", "link", "plain", "shut"], "what a sandbox begins with")
            check(".git/config (git config)" in result.err, result.err)
            same(atoll(place, "rm", "--force", result.out.strip()).status, 0, "rm")
        for name in ("new", "named", "box"):
            with contextlib.suppress(OSError):
                os.chmod(place.ws + "/" + name + "/shut", 0o700)


# ---- what older builds left ------------------------------------------------------------------------------------------

def stage_by_hand(place, id, version):
    """An apply that was killed behind its commit: a hook is staged, and the journal says that it is to be put."""
    hook = write(place.ws + "/.atoll-apply-%s/1.new" % id, "#!/bin/sh\ntouch %s\n" % place.mark, 0o755)
    st = os.stat(hook)
    staged = "" if version == 1 else " %d" % st.st_ctime_ns
    line = "put 1 0%s 0 0 0 0 0 0 0 0 %d %d %o %d %d %d .git/hooks/post-index-change\n" % (
        staged, st.st_ino, st.st_size, st.st_mode, st.st_uid, st.st_gid, st.st_mtime_ns)
    write(store(place) + "/records/%s/journal" % id, "atoll-journal %d apply 1 1\n%scommit %s\n%s" % (
        version, line, hashlib.sha256(line.encode()).hexdigest(), "\n" * 32))
    os.makedirs(store(place) + "/records/%s/apply-1" % id, exist_ok=True)


@test("APPLY-12 layers and half-done applies of older builds are vetted when they are used")
def _():
    hook = ".git/hooks/post-index-change"
    with Place() as place:  # marks are not kept in a record: a layer is marked whenever it is read, whoever wrote it
        place.expect("*")
        id = record(place, "mkdir -p .git/hooks; echo x >new")
        top = store(place) + "/records/%s/top/upper" % id
        write(top + "/.git/hooks/post-index-change", "#!/bin/sh\ntouch %s\n" % place.mark, 0o755)
        write(top + "/.git/config", read(place.ws + "/.git/config") + b"[core]\n\tfsmonitor = touch\n")
        same(atoll(place, "apply", id).status, 0, "apply")
        check(os.path.exists(place.ws + "/new"), "nothing was applied")
        check(not os.path.exists(os.path.join(place.ws, hook)), "the hook was applied")
        check(b"fsmonitor" not in read(place.ws + "/.git/config"), "the config was applied")
    for version, goes_on in ((1, False), (2, True)):
        with Place() as place:
            place.expect("*")
            id = record(place, "echo x >new")
            stage_by_hand(place, id, version)
            same(atoll(place, "undo" if goes_on else "apply", id).status, 0, "the next command")
            check(not os.path.exists(os.path.join(place.ws, hook)), "the hook is there")
            same(sorted(name for name in os.listdir(place.ws) if name.startswith(".atoll")), [], "the stage")
            check(goes_on or os.path.exists(place.ws + "/new"), "nothing was applied")
            hostgit(place)
    with Place() as place:  # one that was changed after it had been vetted is not put either
        place.expect("*")
        id = record(place, "echo x >new")
        stage_by_hand(place, id, 2)
        write(place.ws + "/.atoll-apply-%s/1.new" % id, "#!/bin/sh\ntouch %s # other\n" % place.mark)
        result = atoll(place, "apply", id)
        check(not os.path.exists(os.path.join(place.ws, hook)), "the hook is there: %s" % result.out)
        hostgit(place)


# ---- names of what is approved ---------------------------------------------------------------------------------------

@test("APPLY-13 a marked rename is approved by its new name, not by the one that it had")
def _():
    with Place() as place:
        place.expect("*")
        id = record(place, "mv README.md .envrc")
        check(marked(place, id)[".envrc"], "the rename is not marked")
        atoll(place, "apply", id, "--", "README.md")
        check(not os.path.lexists(place.ws + "/.envrc"), ".envrc arrived, and nobody has named it")
        same(atoll(place, "apply", id, "--", ".envrc").status, 0, "apply .envrc")
        check(os.path.lexists(place.ws + "/.envrc"), ".envrc was named and did not arrive")


@test("APPLY-14 a file that the host's settings lead to gets no second name on the host")
def _():
    need("git")
    with Place() as place:
        place.expect("*", ".git/*")
        git(place.ws, "config", "filter.x.clean", "./tools/clean")
        place.settle()
        id = record(place, "mkdir -p tools; echo true >tools/clean; ln tools/clean innocent")
        same(atoll(place, "apply", id, "--", "tools/clean", "innocent").status, 0, "apply")
        same([os.stat(place.ws + "/" + name).st_nlink for name in ("tools/clean", "innocent")], [1, 1], "names")


@test("APPLY-15 what is imported and vetted by its name has no second name")
def _():
    from archives import tar, entry, DIR, HARD
    with Place() as place:
        place.expect("*")
        config = b"[core]\n\trepositoryformatversion = 0\n"
        entries = [entry(".git", DIR, mode=0o755), entry(".git/HEAD", data=b"ref: refs/heads/main\n"), entry(".git/config", data=config),
                   entry(".git/objects", DIR, mode=0o755), entry(".git/refs", DIR, mode=0o755), entry("innocent", HARD, ".git/config"),
                   entry(".vscode", DIR, mode=0o755), entry(".vscode/tasks.json", data=b"{}"), entry("other", HARD, ".vscode/tasks.json"),
                   entry("pair-a", data=b"x"), entry("pair-b", HARD, "pair-a"), entry(".envrc", data=b"x")]
        write(place.tmp + "/a.tar", tar(*entries))
        result = atoll(place, "import", place.tmp + "/a.tar", "--to", place.ws + "/new", "--take", ".vscode")
        same(result.status, 0, "import: %s" % result.err)
        names = (".git/config", "innocent", ".vscode/tasks.json", "other", "pair-a", "pair-b")
        same([os.stat(place.ws + "/new/" + name).st_nlink for name in names], [1, 1, 1, 1, 2, 2], "names")
        run(place, [], inside_sh('printf "[core]\\n\\tfsmonitor = \\"touch %s;false\\"\\n" "$1" >>new/innocent', place.mark), mode="direct")
        check(b"fsmonitor" in read(place.ws + "/new/innocent"), "the direct run did not write")
        git(place.ws + "/new", "status")
        check(not os.path.exists(place.mark), "git ran what a direct run wrote by another name")


@test("APPLY-16 an import looks again when something was held back")
def _():
    from archives import tar, entry, DIR
    need("git")
    with Place() as place:
        place.expect("*")
        # Read as SHA-256's it has harmless paths; without the config, which is held back, git reads it as SHA-1's.
        index = bytearray(b"DIRC" + struct.pack(">II", 2, 1) + bytes(40 + 32) + struct.pack(">H", 1) + b"a" + bytes(5))
        config = b"[core]\n\trepositoryformatversion = 1\n\tpager = x\n[extensions]\n\tobjectformat = sha256\n"
        entries = [entry(".git", DIR, mode=0o755), entry(".git/HEAD", data=b"ref: refs/heads/main\n"), entry(".git/config", data=config),
                   entry(".git/objects", DIR, mode=0o755), entry(".git/refs", DIR, mode=0o755),
                   entry(".git/index", data=bytes(index) + hashlib.sha256(bytes(index)).digest())]
        write(place.tmp + "/a.tar", tar(*entries))
        same(atoll(place, "import", place.tmp + "/a.tar", "--to", place.ws + "/new").status, 0, "import")
        same([name for name in ("config", "index") if os.path.exists(place.ws + "/new/.git/" + name)], [], "what came in")


@test("APPLY-18 a link whose target depends on other names arrives only by its name: a later layer changes such a name")
def _():
    from archives import tar, entry, DIR, LINK
    with Place() as place:
        place.expect("*")
        link, target = "p/q/r/s/report.txt", "d/../.." + place.out + "/canary"
        write(place.out + "/canary", "orig\n")
        place.settle()
        id = record(place, 'mkdir -p p/q/r/s/d; ln -s "$1" p/q/r/s/report.txt; ln -s d/x p/q/r/s/plain; ln -s ../../q/r p/q/r/s/leading', target)
        check("depends on other names" in (marked(place, id)[link] or ""), "the link is not marked: %s" % marked(place, id))
        same({name: marked(place, id)[name] for name in ("p/q/r/s/plain", "p/q/r/s/leading")}, {"p/q/r/s/plain": None, "p/q/r/s/leading": None}, "others")
        atoll(place, "apply", id)
        check(os.path.isdir(place.ws + "/p/q/r/s/d") and os.path.islink(place.ws + "/p/q/r/s/plain"), "the rest was not applied")
        check(not os.path.lexists(place.ws + "/" + link), "the link arrived, and nobody has named it")
        same(atoll(place, "apply", record(place, "rmdir p/q/r/s/d; ln -s /usr/lib p/q/r/s/d")).status, 0, "apply of the second layer")
        same(os.readlink(place.ws + "/p/q/r/s/d"), "/usr/lib", "d")
        # What it would have been by now, had it come in.
        same(os.path.realpath(place.ws + "/p/q/r/s/" + target), os.path.realpath(place.out + "/canary"), "where the text leads to now")
        same(atoll(place, "apply", id, "--", link).status, 0, "apply by name")
        check(os.path.lexists(place.ws + "/" + link), "the link was named and did not arrive")
        write(place.tmp + "/a.tar", tar(entry("d", DIR, mode=0o755), entry("late", LINK, "d/../x"), entry("x", data=b"x")))
        for flags, comes in (((), False), (("--outside-links",), True)):
            to = place.ws + "/new%d" % comes
            same(atoll(place, "import", place.tmp + "/a.tar", "--to", to, *flags).status == 0, comes, "import with %s" % (flags,))
            same(os.path.lexists(to + "/late"), comes, "the link, with %s" % (flags,))


# ---- signals ---------------------------------------------------------------------------------------------------------

@test("APPLY-17 a signal that is ignored does not stop an apply")
def _():
    with Place() as place:
        place.expect("*")
        id = record(place, "i=0; while [ $i -lt 300 ]; do echo $i >f$i; i=$((i+1)); done")
        ignore = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
        apply = subprocess.Popen([sys.executable, "-c", ignore, ATOLL, "apply", id], cwd=place.ws, env={"PATH": HOST_PATH, "HOME": place.home},
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not read("/proc/%d/cmdline" % apply.pid).startswith(ATOLL.encode()):
            time.sleep(0.001)
        while apply.poll() is None:
            apply.send_signal(signal.SIGHUP)
            time.sleep(0.0005)
        out, err = apply.communicate()
        same((apply.returncode, err), (0, b""), "apply")
        same(sum(os.path.exists(place.ws + "/f%d" % i) for i in range(300)), 300, "files on the host")


main()
