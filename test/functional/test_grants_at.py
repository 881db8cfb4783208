#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Grants that are seen at another place inside

All that holds for a grant holds there, under another name: what is hidden or protected on the host, names that the host would obey,
limits, the record. And a place is free, or it is refused: nothing of the sandbox's own, of the system's or of another line's is covered.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

USERS = [{"name": "user", "uid": 1000, "gid": 1000, "home": "/home/user"}, {"name": "root", "uid": 0, "gid": 0, "home": "/root"},
         {"name": "other", "uid": 1001, "gid": 1001, "home": "/home/other"}]


def data_of(place, *files):
    """A directory beside the workspace, with the same owner."""
    if BARE:
        skip("user namespaces")
    path = place.base + "/data"
    os.mkdir(path)
    for name in files:
        write(os.path.join(path, name), "%s\n" % name)
    place.settle()
    return path


def inside(place, script, *flags, status=0, **options):
    result = run(place, list(flags), inside_sh(script), **options)
    same(result.status, status, "status of %r: %s" % (script, result.err))
    return result.out


def refused(place, *flags, status=POLICY, **options):
    result = run(place, list(flags), inside_sh("true"), starts=False, **options)
    same(result.status, status, "%s: %s" % (" ".join(flags), result.err))
    same(len(result.err.splitlines()), 1, "lines of %r" % result.err)
    return result.err


def say(place, *args):
    result = atoll(place, *args)
    same(result.status, 0, "%s: %s" % (" ".join(args), result.out + result.err))
    return result.out


# ---- what it is ----

@test("a directory is written at its place, is the host's, and at its own name there is nothing")
def _():
    with Place() as place:
        data = data_of(place, "old")
        out = inside(place, "cat /mnt/data/old; echo new >/mnt/data/new; mkdir /mnt/data/d; mv /mnt/data/new /mnt/data/d; ls /mnt; test -e %s || echo none" % data,
                     "--write-at", "/mnt/data=" + data)
        same(out, "old\ndata\nnone\n", "inside")
        same(read(data + "/d/new"), b"new\n", "on the host")
        for name in ("/d", "/d/new"):
            same(os.lstat(data + name).st_uid, os.lstat(data).st_uid, "whose %s is" % name)


@test("a job file says the same, in every mode of the workspace")
def _():
    for mode in ("direct", "read-only", "layer"):
        if mode == "layer":
            need_layers()
        with Place() as place:
            data = data_of(place, "old")
            job = job_file(place, {"workspace": {"path": place.ws, "mode": mode}, "command": ["sh", "-c", "cat /in/old; echo x >/out/made; (echo x >/in/x) 2>/dev/null || echo no"],
                                   "filesystem": {"read": [{"path": data, "at": "/in"}], "write": [{"path": place.base + "/to", "at": "/out"}]}})
            os.mkdir(place.base + "/to")
            place.settle()
            result = run(place, ["-f", job], None)
            same((result.status, result.out), (0, "old\nno\n"), "%s: %s" % (mode, result.err))
            same((read(place.base + "/to/made"), os.listdir(data)), (b"x\n", ["old"]), mode)


@test("a single file, a place that is its own, and the plan")
def _():
    with Place() as place:
        data = data_of(place, "f", "g")
        out = inside(place, "cat /conf/one; echo more >>/conf/one; (rm /conf/one) 2>/dev/null || echo stays; ls /conf", "--write-at", "/conf/one=%s/f" % data)
        same((out, read(data + "/f")), ("f\nstays\none\n", b"f\nmore\n"), "a file")
        same(inside(place, "cat %s/g" % data, "--read-at", "%s=%s" % (data, data)), "g\n", "as on the host")
        plan = run(place, ["--write-at", "/mnt/data=" + data, "--plan"], inside_sh("true"), starts=False).out
        line = [one for one in plan.splitlines() if "/mnt/data" in one]
        check(line and data in plan and "--write-at" in plan, "the plan: %s" % plan)


@test("what is told inside has the names of inside")
def _():
    with Place() as place:
        data = data_of(place)
        out = inside(place, "cat /run/atoll/contract.json /run/atoll/contract.md", "--write-at", "/mnt/data=" + data)
        check('"path":"/mnt/data"' in out and "`/mnt/data`" in out and data not in out, "the contract: %s" % out)


@test("the digest is another one for another place, and as before where nothing is moved")
def _():
    with Place() as place:
        data = data_of(place)
        digests = [json.loads(inside(place, "cat /run/atoll/contract.json", *flags))["digest"] for flags in (
            ("--write", data), ("--write-at", "%s=%s" % (data, data)), ("--write-at", "/a=" + data), ("--write-at", "/b=" + data))]
        same(len(set(digests)), 3, "digests: %s" % digests)
        same(digests[0], digests[1], "at its own place")


# ---- lines about the host's names hold at the other place ----

@test("what is hidden in it is hidden, by path and by pattern, and when it comes later")
def _():
    with Place() as place:
        data = data_of(place, "seen")
        for name in ("/secret", "/deep/.env", "/dir/x"):
            write(data + name, place.secret)
        place.settle()
        for kind in ("--write-at", "--read-at"):
            out = inside(place, "ls /d; cat /d/secret /d/deep/.env /d/dir/x 2>&1 | grep -c %s; cat /d/seen" % place.secret, kind, "/d=" + data,
                         "--hide", data + "/secret", "--hide", data + "/**/.env", "--hide", data + "/dir")
            check(out.endswith("0\nseen\n"), "%s: %r" % (kind, out))
        running = start(place, ["--write-at", "/d=" + data, "--hide", data + "/later"], inside_sh("echo up >/d/up; until test -e /d/go; do sleep 0.02; done; cat /d/later/x; ls -A /d/later; true"))
        check(until(lambda: os.path.exists(data + "/up")), "it does not run")
        os.mkdir(data + "/later")
        write(data + "/later/x", "shown\n")
        check(until(lambda: processes_see(running, "later")), "nobody puts anything over it")
        write(data + "/go")
        result = running.wait()
        check("shown" not in result.out, "what came later: %r" % result.out)


def processes_see(running, name):
    """Has somebody in a namespace of the run's put a mount over that name?"""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/mountinfo" % pid) as file:
                if any(line.split()[4] == "/d/" + name for line in file):
                    return True
        except OSError:
            continue
    return False


@test("what is protected on the host is protected there, and so are names that the host obeys")
def _():
    with Place() as place:
        data = data_of(place, "kept", "p/deep/x.lock", "way/to/it")
        make_repository(data + "/repo")
        place.settle()
        result = run(place, ["--write-at", "/d=" + data, "--protect", data + "/kept", "--protect", data + "/way/to/it", "--protect", data + "/**/*.lock"], inside_py("""
            import os, socket
            attempt("kept", lambda: put("/d/kept"))
            attempt("kept away", lambda: os.unlink("/d/kept"))
            attempt("pattern", lambda: put("/d/p/deep/x.lock"))
            attempt("new of the pattern", lambda: put("/d/new.lock"))
            attempt("way moved", lambda: os.rename("/d/way", "/d/q"))
            attempt("hook", lambda: put("/d/repo/.git/hooks/pre-commit"))
            attempt("config", lambda: put("/d/repo/.git/config"))
            attempt("envrc", lambda: put("/d/.envrc"))
            attempt("settings", lambda: (os.mkdir("/d/x"), os.mkdir("/d/x/.vscode"), put("/d/x/.vscode/tasks.json")))
            attempt("git away", lambda: os.rename("/d/repo/.git", "/d/away"))
            attempt("by a link", lambda: (os.symlink("/d/kept", "/tmp/l"), put("/tmp/l", flags=os.O_WRONLY)))
            attempt("by /proc", lambda: put("/proc/self/root/d/kept", flags=os.O_WRONLY))
            attempt("in the repository", lambda: put("/d/repo/new"))
            attempt("plain", lambda: put("/d/plain"))
        """))
        for what in ("kept", "kept away", "pattern", "new of the pattern", "way moved", "hook", "config", "envrc", "settings", "git away", "by a link", "by /proc"):
            among(result.tries[what], DENIED, what)
        same((result.tries["plain"], result.tries["in the repository"]), ("ok", "ok"), "what is allowed")
        same(read(data + "/kept"), b"kept\n", "what was protected")
        same(read(data + "/p/deep/x.lock"), b"p/deep/x.lock\n", "what a pattern protects")
        check(not os.path.exists(data + "/.envrc") and not os.path.exists(data + "/new.lock"), "made after all")


@test("links in it lead to where they lead inside, not on the host")
def _():
    with Place() as place:
        data = data_of(place, "f")
        os.symlink(place.out + "/canary", data + "/out")
        os.symlink("/d/f", data + "/own")
        os.symlink(data + "/f", data + "/host")
        place.settle()
        result = run(place, ["--write-at", "/d=" + data], inside_py("""
            import os
            attempt("out", lambda: put("/d/out"))
            attempt("read out", lambda: get("/d/out"))
            attempt("host's name", lambda: put("/d/host"))
            attempt("own", lambda: put("/d/own", b"changed", flags=os.O_WRONLY | os.O_TRUNC))
            attempt("climb", lambda: put("/d/../../d/../d/f2"))
            attempt("above", lambda: put("/d/../x"))
            os.chdir("/d")
            attempt("above by hand", lambda: put("../x"))
            attempt("hard link in", lambda: os.link("/usr/bin/env", "/d/env"))
            attempt("hard link out", lambda: os.link("/d/f", "/tmp/f"))
            attempt("rename out", lambda: os.rename("/d/f", "/tmp/f"))
            attempt("the place itself", lambda: os.rename("/d", "/e"))
            attempt("removed", lambda: os.rmdir("/d"))
        """))
        for what in ("out", "read out", "host's name", "above", "above by hand"):
            among(result.tries[what], GONE, what)
        for what in ("hard link in", "hard link out", "rename out", "the place itself", "removed"):
            among(result.tries[what], GONE + ("EBUSY", "ENOTEMPTY"), what)
        same((result.tries["own"], result.tries["climb"]), ("ok", "ok"), "what is in it")
        same((read(data + "/f"), sorted(os.listdir(data))), (b"changed", ["f", "f2", "host", "out", "own"]), "on the host")


@test("the way to a place in private storage can be neither moved nor replaced")
def _():
    with Place() as place:
        data = data_of(place, "f")
        result = run(place, ["--write-at", "/tmp/way/d=" + data, "--protect", data + "/f"], inside_py("""
            import os
            attempt("moved", lambda: os.rename("/tmp/way", "/tmp/other"))
            attempt("moved itself", lambda: os.rename("/tmp/way/d", "/tmp/way/e"))
            attempt("protected", lambda: put("/tmp/way/d/f"))
            attempt("beside", lambda: put("/tmp/way/x"))
            attempt("in it", lambda: put("/tmp/way/d/x"))
        """))
        for what in ("moved", "moved itself", "protected"):
            among(result.tries[what], DENIED + ("EBUSY", "EXDEV"), what)
        same((result.tries["in it"], sorted(os.listdir(data))), ("ok", ["f", "x"]), "what is allowed")


# ---- places and sources that are refused ----

@test("places that are taken are refused, in one line that says why")
def _():
    with Place() as place:
        data = data_of(place)
        os.mkdir(place.base + "/other")
        place.settle()
        for at in ("/", "/proc", "/proc/x", "/sys/x", "/dev", "/dev/shm", "/run", "/run/atoll", "/run/atoll/x", "/usr", "/usr/share/x", "/etc", "/etc/x", "/bin", "/lib64/x",
                   "/var", "/tmp", "/var/tmp", "/home", "/opt", "/opt/x", "/var/run/x", place.ws, place.ws + "/sub", place.base, place.base + "/other", place.base + "/other/x",
                   place.home, os.path.dirname(place.home), place.home + "/.ssh", place.home + "/.ssh/x"):
            among(at, refused(place, "--read", place.base + "/other", "--write-at", "%s=%s" % (at, data)), "names the place")
        for text in ("..=" + data, "x=" + data, "/a/../b=" + data, "/a/..=" + data, "=" + data, data, "/a=", "/a"):
            refused(place, "--write-at", text, status=BAD_REQUEST)
        for hidden in ("/srv/hid", "/srv/hid/x", "/srv"):
            refused(place, "--hide", "/srv/hid", "--write-at", "%s=%s" % (hidden, data))
        refused(place, "--write-at", "/a=" + data, "--read-at", "/a/b=%s/other" % place.base)
        need_layers()
        for at in ("/home/user", "/home/user/x"):
            refused(place, "--workspace-at", "/home/user", "--write-at", "%s=%s" % (at, data), mode="layer")


@test("what is granted by itself is not seen elsewhere as well, and nothing wide is slipped in")
def _():
    with Place() as place:
        data = data_of(place, "sub/f")
        for flags in (("--write-at", "/a=" + data, "--write-at", "/b=" + data), ("--write-at", "/a=" + data, "--read", data), ("--write-at", "/a=" + data, "--read", data + "/sub"),
                      ("--read-at", "/a=%s/sub" % data, "--write", data), ("--write-at", "/a=" + place.ws), ("--write-at", "/a=%s/src" % place.ws), ("--write-at", "/a=" + place.base),
                      ("--read-at", "/a=/usr"), ("--write-at", "/a=/"), ("--write-at", "/a=/etc"), ("--write-at", "/a=/usr/lib"), ("--write-at", "/a=" + place.home),
                      ("--write-at", "/a=/proc/self"), ("--write-at", "/a=/dev/shm"), ("--write-at", "/a=%s/.local/state/atoll" % place.home)):
            refused(place, *flags)
        same(inside(place, "test -e /a/env && test -e /usr/bin/env && echo both", "--read-at", "/a=/usr/bin"), "both\n", "a part of what everybody may read")
        refused(place, "--write-at", "/a=%s/none" % data, status=BAD_REQUEST)


@test("a grant never follows a link, of anybody's")
def _():
    with Place() as place:
        data = data_of(place, "sub/f")
        os.symlink(data, place.base + "/link")
        place.settle()
        for path in (place.base + "/link", place.base + "/link/sub"):
            among("symbolic link", refused(place, "--write-at", "/a=" + path), path)
        if os.path.islink("/bin"):
            refused(place, "--read-at", "/a=/bin")
        os.mkfifo(data + "/fifo")
        place.settle()
        refused(place, "--write-at", "/a=%s/fifo" % data)


@test("a job file of the workspace that grants elsewhere has to be trusted first")
def _():
    with Place() as place:
        data = data_of(place)
        write(place.ws + "/job.yaml", json.dumps({"command": ["true"], "filesystem": {"write": [{"path": data, "at": "/a"}]}}))
        place.settle()
        result = run(place, ["-f", "job.yaml"], None, starts=False)
        same(result.status, POLICY, result.err)
        for bad in ({"at": "/a"}, {"path": data, "at": "a"}, {"path": data, "to": "/a"}, {"path": data, "at": ["/a"]}, {}):
            job = job_file(place, {"command": ["true"], "filesystem": {"write": [bad]}})
            same(run(place, ["-f", job], None, starts=False).status, BAD_REQUEST, "%s" % bad)


# ---- whose it is ----

@test("as root: what is written is its directory's owner's, whoever has the workspace")
def _():
    need_root()
    with Place() as place:
        data = data_of(place, "f")
        for name in ("", "/f"):
            os.chown(data + name, 4321, 8765)
        os.chmod(data, 0o755)
        place.settle()
        same(inside(place, "stat -c %u:%g /d/f; id -u; echo x >/d/new; chmod 600 /d/new; echo y >>/d/f", "--write-at", "/d=" + data).split()[0].split(":")[0],
             str(os.stat(place.ws).st_uid), "seen inside")
        for name in ("/new", "/f"):
            same((os.lstat(data + name).st_uid, os.lstat(data + name).st_gid), (4321, 8765), "whose %s is" % name)


@test("as root, with users: files are the first one's, root acts as that one, others make none")
def _():
    need_root()
    need_layers()
    with Place() as place:
        data = data_of(place, "f")
        for name in ("", "/f"):
            os.chown(data + name, 4321, 8765)
        place.settle()
        job = job_file(place, {"workspace": {"path": place.ws, "at": "/home/user", "mode": "layer"}, "users": USERS, "root": "layer", "command": ["true"],
                               "filesystem": {"write": [{"path": data, "at": "/d"}]}})
        id = say(place, "create", "-f", job).strip()

        def step(script, user):
            result = atoll(place, "exec", id, "--user", user, "--", *inside_sh(script))
            same(result.status, 0, "%s: %s" % (script, result.err))
            return result.out
        same(step("stat -c '%U %G' /d /d/f; echo x >/d/user; mkdir /d/u; echo x >/d/u/x; chmod 700 /d/u; stat -c %U /d/user", "user"), "user user\nuser user\nuser\n", "the first user")
        same(step("echo x >/d/root; mkdir /d/r; ln -s x /d/l; mv /d/root /d/r; ln /d/f /d/r/hard; echo y >>/d/user; cat /d/u/x; cp /d/user /d/u/copy; rm /d/u/x; "
                  "stat -c %U /d/r /d/r/root; (echo x >/d/.envrc) 2>/dev/null || echo no; (chown root /d/f) 2>/dev/null || echo stays; echo x >/etc/x; stat -c %U /etc/x", "root"),
             "x\nuser\nuser\nno\nstays\nroot\n", "root")
        same(step("mkdir /d/shut; echo x >/d/shut/x; chmod 400 /d/shut/x; chmod 500 /d/shut", "user"), "", "closed by its owner")
        same(step("echo y >>/d/shut/x; touch /d/shut/z; stat -c %U /d/shut/z; rm -r /d/shut; ls -d /d/shut 2>/dev/null || echo gone", "root"), "user\ngone\n", "modes do not stop root")
        same(step("(echo x >/d/other) 2>/dev/null || echo no; (rm /d/f) 2>/dev/null || echo no; cat /d/u/copy 2>/dev/null || echo no; cat /d/f", "other"), "no\nno\nno\nf\n", "another")
        for top, dirs, files in os.walk(data):
            for name in dirs + files:
                st = os.lstat(os.path.join(top, name))
                same((st.st_uid, st.st_gid), (4321, 8765), "whose %s is" % name)
        say(place, "rm", "-f", id)


# ---- the record, and a sandbox's life ----

@test("the record has names of inside, and what became of the host's files")
def _():
    with Place() as place:
        data = data_of(place, "f")
        running = run(place, ["--write-at", "/d=" + data, "--record", "full"], inside_sh("echo more >>/d/f; echo x >/d/new; (echo x >/d/.envrc); true"))
        same(running.status, 0, running.err)
        events = [json.loads(line) for line in say(place, "log", "--json").splitlines()]
        changes = {one["path"]: one for one in events if one["kind"] == "change"}
        same(sorted(changes), ["/d/f", "/d/new"], "changes")
        same(changes["/d/new"].get("after"), "sha256:" + hashlib.sha256(b"x\n").hexdigest(), "what is in it now: %s" % changes["/d/new"])
        denial = [one for one in events if one["kind"] == "denial"]
        check(denial and denial[0]["object"] == "/d/.envrc", "what was refused: %s" % denial)


@test("a sandbox keeps it over steps, and a fork has the same files")
def _():
    need_layers()
    with Place() as place:
        data = data_of(place)
        id = say(place, "create", "--workspace", place.ws, "--write-at", "/d=" + data).strip()
        other = say(place, "fork", id).strip()
        say(place, "exec", id, "--", *inside_sh("echo one >/d/x; echo one >mine"))
        same(say(place, "exec", other, "--", *inside_sh("cat /d/x; test -e mine || echo none; echo two >>/d/x")), "one\nnone\n", "the fork")
        same(say(place, "exec", id, "--", *inside_sh("cat /d/x")), "one\ntwo\n", "the first")
        say(place, "rm", "-f", id, other)
        same(read(data + "/x"), b"one\ntwo\n", "on the host")


@test("limits count what is made there")
def _():
    with Place() as place:
        data = data_of(place)
        result = run(place, ["--write-at", "/d=" + data, "--files", "20"], inside_sh("for i in $(seq 100); do echo x >/d/$i || break; done; true"))
        check(len(os.listdir(data)) <= 20, "made: %s, %s" % (len(os.listdir(data)), result.err))


main()
