# SPDX-License-Identifier: Apache-2.0
"""
What a sandbox sees of the host's system: files that root keeps to itself, and what is mounted beneath system trees

With `root: layer`, and in every box of root's daemon, the command is root over mapped ids. Each test plants a canary on the host
that others may not read, reads it without atoll as a control, and looks for its text in what comes out of the sandbox. Mounts
are made in a mount namespace of the test's own, on a copy of /etc: the machine's own stays as it is.
"""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from package import *  # noqa: E402
from serving import *  # noqa: E402


class Canary:
    """A secret of root's at a place of the host's own, with a name that nobody has; gone at the end."""

    def __init__(self, directory, mode=0o600):
        self.path = os.path.join(directory, "atoll-canary-" + os.urandom(6).hex())
        self.mode, self.text = mode, "CANARY-" + os.urandom(8).hex()

    def __enter__(self):
        if self.mode & 0o1000:  # a public file in a directory that others cannot pass
            os.mkdir(self.path, 0o755)
            os.chmod(self.path, self.mode & 0o777)
            self.file = write(self.path + "/file", self.text, 0o644)
        else:
            self.file = write(self.path, self.text, self.mode)
        return self

    def __exit__(self, *_):
        remove(self.path)


# ---- what root keeps to itself ---------------------------------------------------------------------------------------

PLACES = [("/usr/lib", 0o600), ("/usr/lib", 0o640), ("/usr/lib", 0o711), ("/usr/share", 0o1700), ("/usr/share", 0o1750),
          ("/etc", 0o600), ("/opt", 0o600), ("/usr/local", 0o600)]


@test("SYS-01 root: layer, root inside reads nothing that the host keeps from others, there at the start")
def _():
    need_roots()
    with Place() as place, contextlib.ExitStack() as stack:
        canaries = [stack.enter_context(Canary(*where)) for where in PLACES]
        public = stack.enter_context(Canary("/usr/lib", 0o644))
        result = run(place, ["--root", "layer"], inside_sh('for f in "$@"; do cat "$f"; done; true',
                                                           *[each.file for each in canaries + [public]]), leaks=True)
        for each in canaries:
            check(each.text not in result.out, "%s came out, mode %o" % (each.file, each.mode))
        check(public.text in (result.out), "what everybody may read")
        for each in canaries:  # the control: whoever is root outside reads all of them
            check(each.text in plain(place, ["cat", each.file]).out, "no canary")


@test("SYS-02 root: layer, what is made or closed on the host after the start is refused, too")
def _():
    need_roots()
    with Place() as place, contextlib.ExitStack() as stack:
        closed = stack.enter_context(Canary("/usr/lib", 0o644))
        way = stack.enter_context(Canary("/etc", 0o1755))
        place.expect("ready", "go")
        running = start(place, ["--root", "layer"], inside_py("""
            import sys
            for path in sys.argv[1:3]:
                open(path).read()
            put("ready")
            until(lambda: os.path.exists("go"))
            for path in open("go").read().split() + sys.argv[1:3]:
                attempt(path, lambda: get(path))
                attempt("list " + path, lambda: os.listdir(path))
                attempt("chmod " + path, lambda: os.chmod(path, 0o755))
                attempt("link " + path, lambda: os.link(path, "/usr/lib/second"))
                attempt("rename " + path, lambda: os.rename(path, path + "2"))
                attempt("again " + path, lambda: get(path))
        """, closed.file, way.file))
        wait_file(place, "ready")
        late = [stack.enter_context(Canary(*where)) for where in PLACES]
        os.chmod(closed.path, 0o600)
        os.chmod(way.path, 0o700)
        write(place.ws + "/go.new", " ".join(each.file for each in late))
        os.rename(place.ws + "/go.new", place.ws + "/go")
        result = running.wait()
        for each in late + [closed, way]:
            same(result.tries[each.file], "EACCES", "%s, mode %o" % (each.file, each.mode))
            same(result.tries["again " + each.file], "EACCES", "%s after attempts to open it" % each.file)
            check(each.text not in result.out, "%s came out" % each.file)


@test("SYS-03 root: layer, what is refused can be replaced, and everything else works as for root")
def _():
    need_roots()
    with Place() as place, Canary("/usr/lib", 0o600) as canary, Canary("/usr/lib", 0o644) as public:
        result = run(place, ["--root", "layer"], inside_py("""
            import sys
            refused, public = sys.argv[1:]
            attempt("remove", lambda: os.unlink(refused))
            attempt("replace", lambda: put(refused, b"own"))
            attempt("own", lambda: (os.chmod(refused, 0o600), get(refused)))
            attempt("append", lambda: open(public, "a").write("x"))
            attempt("chmod", lambda: (os.chmod(public, 0o600), get(public)))
            attempt("chown", lambda: os.chown(public, 5, 5))
            attempt("rename", lambda: os.rename(public, public + "2"))
            attempt("shadow", lambda: (put("/etc/shadow", b"root:*:1:0:99999:7:::"), os.chmod("/etc/shadow", 0o640)))
            attempt("exec", lambda: os.spawnlp(os.P_WAIT, "true", "true") and 1 / 0)
        """, canary.file, public.file))
        for label in ("remove", "replace", "own", "append", "chmod", "chown", "rename", "shadow", "exec"):
            same(result.tries[label], "ok", label)
        same(read(canary.file), canary.text.encode(), "the host's")


@test("SYS-04 every box of root's daemon: the same, there before and made later, and after a snapshot")
def _():
    need_roots()
    with contextlib.ExitStack() as stack:
        before = [stack.enter_context(Canary(*where)) for where in PLACES[:4]]
        daemon = stack.enter_context(Daemon())
        box = daemon.create(timeout=120)
        late = [stack.enter_context(Canary(*where)) for where in PLACES]
        public = stack.enter_context(Canary("/usr/lib", 0o644))

        def look(box):
            done = daemon.run(box, "cat %s; true" % " ".join(each.file for each in before + late + [public]), user="root")
            out = done.out.decode()
            check(public.text in (out), "what everybody may read")
            for each in before + late:
                check(each.text not in out, "%s came out, mode %o" % (each.file, each.mode))
        look(box)
        status, snapshot, _ = daemon.call("POST", "/sandboxes/%s/snapshots" % box["sandboxID"], {})
        same(status, 201, str(snapshot))
        look(daemon.create(snapshot["snapshotID"], timeout=120))


OVERLAY_ROOT = r"""
mkdir -p "$1/o"; mount -t tmpfs o "$1/o"; mkdir "$1/o/up" "$1/o/work" "$1/o/new"
mount -t overlay o -o "lowerdir=/,upperdir=$1/o/up,workdir=$1/o/work" "$1/o/new"
new="$1/o/new"
for name in /proc /dev /sys "$1" "$2" PROGRAMS; do mkdir -p "$new$name"; mount --rbind "$name" "$new$name"; done
cd "$new"; mkdir -p mnt/old; pivot_root . mnt/old; cd "$2"; umount -l /mnt/old
""".replace("PROGRAMS", "'%s'" % os.path.dirname(ATOLL))


def in_private(place, setup, flags, command, atoll="run", **options):
    """atoll in a mount namespace of its own, in which a script has mounted things: $1 is place.tmp, $2 the workspace. An
    ordinary user has a user namespace around it, with the same id."""
    own = ["unshare", "-m", "--propagation", "private"]
    if not IS_ROOT:
        own += ["--map-current-user", "--keep-caps"]
        if subprocess.run([*own, "true"], stderr=subprocess.DEVNULL).returncode:
            skip("unshare --keep-caps")
    head = setup + '\ncd "$2"; shift 2; exec "$@"'
    # The capabilities over the outer namespace are for the mounts alone.
    drop = [] if IS_ROOT else ["setpriv", "--inh-caps=-all", "--ambient-caps=-all"]
    argv = [*own, "sh", "-euc", head, "sh", place.tmp, place.ws, *drop, ATOLL, atoll, *mode_flags(flags), *bare.flags(flags),
            *map(str, flags), "--", *command]
    return Running(place, argv, **options).wait()


@test("SYS-05 where the host's root is an overlay root: layer is refused, and the plan says so")
def _():
    need_roots()
    with Place() as place:
        place.expect("*")
        result = in_private(place, OVERLAY_ROOT, ["--root", "layer"], ["true"], starts=False)
        same(result.status, HOST_CANNOT, result.err)
        check("lies on an overlay" in (result.err), "the message")
        plan = in_private(place, OVERLAY_ROOT, ["--root", "layer", "--plan", "--json"], ["true"], starts=False)
        lines = [line for line in json.loads(plan.out)["clauses"] if line["clause"] == "filesystem.private-files"]
        check(lines and {line["strength"] for line in lines} == {"missing"}, "the plan: %s" % lines)


# ---- what is mounted beneath system trees ----------------------------------------------------------------------------

# A copy of /etc as on a machine with docker, and mounts beneath it and beneath /opt as in a container.
MOUNTED = r"""
mkdir "$1/etc"; mount -t tmpfs etc "$1/etc"
cp -a /etc/. "$1/etc/" 2>/dev/null || true
mount -n --move "$1/etc" /etc
mkdir -p /etc/docker; echo "$SECRET" >/etc/docker/key; chmod 0755 /etc/docker
echo mounted-hosts >"$1/hosts"; chmod 644 "$1/hosts"; touch /etc/hosts; mount -n --bind "$1/hosts" /etc/hosts
mkdir "$1/dir" "$1/dir/deep"; echo mounted-dir >"$1/dir/file"; chmod -R a+rX "$1/dir"
mkdir "/etc/with space"; mount -n --bind "$1/dir" "/etc/with space"
echo mounted-deep >"$1/deep"; chmod 644 "$1/deep"; touch "$1/dir/deep/file"; mount -n --bind "$1/deep" "/etc/with space/deep/file"
echo "$SECRET" >/etc/covered; mount -n --bind /dev/null /etc/covered
echo "$SECRET" >"$1/hidden"; chmod 644 "$1/hidden"; touch /etc/hidden; mount -n --bind "$1/hidden" /etc/hidden
mkdir /etc/closed; echo "$SECRET" >/etc/closed/file; chmod 700 /etc/closed; mount -n --bind "$1/hosts" /etc/closed/file
chmod 711 "$1"
"""

LOOK = r"""
cat /etc/hosts "/etc/with space/file" "/etc/with space/deep/file"
cat /etc/covered /etc/hidden /etc/docker/key; true
"""


@test("SYS-06 mounts beneath /etc stay in place where a layer hides names in it")
def _():
    need_layers()
    need("unshare", "setpriv")
    for flags in ([], ["--root", "layer"]):
        with Place() as place:
            result = in_private(place, MOUNTED, [*flags, "--hide", "/etc/hidden"], ["sh", "-c", LOOK], env={"SECRET": place.secret})
            same(result.out.splitlines(), ["mounted-hosts", "mounted-dir", "mounted-deep"], "what is mounted, %s" % flags)
            place.settle()


@test("SYS-07 the plan names what is mounted beneath a tree with a layer")
def _():
    need_layers()
    need_root()
    with Place() as place:
        result = in_private(place, MOUNTED, ["--plan", "--json"], ["true"], env={"SECRET": place.secret})
        found = {line["subject"]: line for line in json.loads(result.out)["clauses"] if line["clause"] == "filesystem.read"}
        for path in ("/etc/hosts", "/etc/with space", "/etc/covered", "/etc/hidden"):
            check("mounted there on the host" in (found.get(path, {}).get("note") or ""), path)
        place.settle()


# ---- patterns that hide names ----------------------------------------------------------------------------------------

@test("SYS-08 a pattern hides what appears later, also in a tree in which another line hides a name")
def _():
    need_layers()
    for more in ([], ["secret.txt"], ["not-there"]):
        with Place(strict=False) as place:
            place.expect("ready", "go")
            flags = ["--read", place.out, "--hide", place.out + "/**/*.key"]
            for name in more:
                flags += ["--hide", os.path.join(place.out, name)]
            running = start(place, flags, inside_py("""
                import sys
                put("ready")
                until(lambda: os.path.exists("go"))
                def is_closed():
                    try:
                        return not os.path.exists(sys.argv[1]) or not get(sys.argv[1])
                    except OSError:
                        return True
                until(is_closed)
                attempt("late", lambda: get(sys.argv[1]))
                attempt("other", lambda: get(sys.argv[2]))
            """, place.out + "/late.key", place.out + "/late.txt"), leaks=True)
            wait_file(place, "ready")
            write(place.out + "/late.txt", "public", 0o644)
            write(place.out + "/late.key", place.secret, 0o644)
            write(place.ws + "/go.new")
            os.rename(place.ws + "/go.new", place.ws + "/go")
            result = running.wait()
            among(result.tries.get("late"), GONE, "a name that appeared, with %s hidden as well" % more)
            same(result.tries.get("other"), "ok", "a name that no pattern is about")


def watches():
    """How many inotify watches keepers have, on the whole machine."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if b"atoll-keeper" in read("/proc/%s/comm" % pid):
                found += sum(read("/proc/%s/fdinfo/%s" % (pid, fd)).count(b"inotify wd") for fd in os.listdir("/proc/%s/fdinfo" % pid))
    return found


@test("SYS-09 a tenant's hide patterns cost no watches, and are bounded in number and in reach")
def _():
    with Daemon() as daemon:
        def ask(*hide):
            status, body, _ = daemon.call("POST", "/v1/sandboxes", {"contract": {"version": 1, "filesystem": {"hide": list(hide)}}})
            return status, body
        before = watches()
        for hide in (["/**/x"], ["/usr/**/x"], ["~/**/x"], ["../../**/x"], ["a%d*" % i for i in range(33)], ["/a%d" % i for i in range(257)]):
            status, body = ask(*hide)
            same(status, 403, "%s: %s" % (hide[:2], body))
            check("contract:1:" in body["error"]["message"], str(body))
        status, body = ask(*["**/x%d" % i for i in range(32)], "/etc/hidden-name", "/usr/bin/yes")
        same(status, 201, str(body))
        check(watches() <= before + 16, "%d watches" % (watches() - before))


main()
