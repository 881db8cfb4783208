#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 19
# check: bare only without namespaces
"""
What a sandbox looks like inside: the workspace at another place, users of its own, an open top

As root each user is an id of its own, and root inside is not `user`; an ordinary user has one id, which has all the names. Both are
looked at from inside and from the host: what a diff calls things, whose they are once they are applied, and that nothing of the
host's came in with the other names.
"""
import os
import pwd
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
from image import image

USERS = [{"name": "user", "uid": 1000, "gid": 1000, "home": "/home/user"}, {"name": "root", "uid": 0, "gid": 0, "home": "/root"}]


def contract(place, **more):
    job = {"workspace": {"path": place.ws, "at": "/home/user", "mode": "layer"}, "users": USERS, "command": ["true"]}
    job.update(more)
    return job_file(place, job)


def inside(place, script, flags=(), status=0, **more):
    need_layers()
    result = run(place, ["-f", contract(place, **more), *flags], script)
    same(result.status, status, "status of %r: %s" % (script, result.err))
    return result.out


def create(place, **more):
    need_layers()
    result = atoll(place, "create", "-f", contract(place, **more))
    same(result.status, 0, "create: %s" % result.err)
    return result.out.strip()


BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)


def step(place, id, script, user=None, status=0):
    result = atoll(place, "exec", id, *(["--user", user] if user else []), "--", *inside_sh(script))
    same(result.status, status, "step %r: %s" % (script, result.err))
    return result.out


def say(place, *args, status=0):
    result = atoll(place, *args)
    same(result.status, status, "%s: %s" % (" ".join(args), result.out + result.err))
    return result.out if status == 0 else result.err


def gone(place, *ids):
    say(place, "rm", "-f", *ids)


# ---- the workspace's place ----

@test("the workspace is seen at its place, and at the host's there is nothing")
def _():
    with Place() as place:
        out = inside(place, "pwd; echo $PWD; cat f; ls -d %s 2>&1 | wc -l; test -e %s || echo none" % (place.ws, place.ws))
        same(out, "/home/user\n/home/user\none line\n1\nnone\n", "inside")


@test("--workspace-at says the same, with and without users")
def _():
    need_layers()
    with Place() as place:
        result = run(place, ["--workspace-at", "/work/here"], "pwd; echo new >made; cat f; id -u", mode="layer")
        same((result.status, result.out), (0, "/work/here\none line\n%d\n" % os.stat(place.ws).st_uid), result.err)
        same(say(place, "diff", "--stat").split("\n")[0].split()[-1], "made", "the diff")
        result = run(place, ["--workspace-at", "/work", "--chdir", "src"], "pwd; ls", mode="layer")
        same(result.out, "/work/src\na.c\n", "from a directory in it: %s" % result.err)


@test("a diff has the workspace's names, and apply writes the host's directory")
def _():
    with Place() as place:
        place.expect("f", "made", "d", "d/x")
        inside(place, "echo more >>f; echo new >made; mkdir d; echo x >d/x")
        names = [line.split()[1] for line in say(place, "diff", "--stat").splitlines()[:-1] if len(line.split()) > 3]
        among("made", say(place, "diff"), "the diff: %s" % names)
        check("/home/user" not in say(place, "diff"), "the inner name is in the diff")
        say(place, "apply")
        same(read(place.ws + "/f"), b"one line\nmore\n", "f on the host")
        for name in ("made", "d", "d/x"):
            same(os.stat(os.path.join(place.ws, name)).st_uid, os.stat(place.ws).st_uid, "whose %s is" % name)


@test("what is hidden or protected on the host is so at the other place")
def _():
    with Place() as place:
        write(place.ws + "/deep/.env", place.secret)
        write(place.ws + "/secret.txt", place.secret)
        place.settle()
        out = inside(place, "ls; ls -A deep; cat secret.txt deep/.env 2>&1 | grep -c %s; echo x >kept" % place.secret,
                     filesystem={"hide": ["secret.txt", "**/.env"], "protect": ["kept"]})
        check("secret.txt" not in out and ".env" not in out and out.endswith("\n0\n"), "hidden names: %r" % out)
        among("kept", say(place, "diff"), "the diff")
        say(place, "apply")
        check(not os.path.lexists(place.ws + "/kept"), "a protected name was applied unasked")


@test("places that are taken are refused, in one line that says why")
def _():
    need_layers()
    with Place() as place:
        os.mkdir(place.base + "/other")
        cases = [("/", POLICY), ("/proc/x", POLICY), ("/usr", POLICY), ("/usr/share/x", POLICY), ("/dev", POLICY), ("/run/atoll", POLICY),
                 ("/etc/x", POLICY), ("/tmp", POLICY), ("/home", POLICY), ("..", BAD_REQUEST), ("home/user", BAD_REQUEST),
                 ("/home/../etc", BAD_REQUEST), ("/home/user/../../usr", BAD_REQUEST), ("", BAD_REQUEST),
                 (place.base + "/other", POLICY), (place.base + "/other/x", POLICY), (place.base, POLICY)]
        for at, status in cases:
            result = run(place, ["--read", place.base + "/other", "--workspace-at", at], "true", mode="layer", starts=False)
            same(result.status, status, "at %r: %s" % (at, result.err))
            same(len(result.err.splitlines()), 1, "lines of %r" % result.err)
        for mode in ("direct", "read-only"):
            same(run(place, ["--workspace-at", "/home/user"], "true", mode=mode, starts=False).status, BAD_REQUEST, mode)
        result = run(place, ["--workspace-at", "/home/user", "--write", place.ws + "/src"], "true", mode="layer", starts=False)
        same(result.status, POLICY, "a part of the workspace: %s" % result.err)


@test("checkpoints, rollback and fork keep the place")
def _():
    with Place() as place:
        id = create(place)
        step(place, id, "echo one >made; mkdir sub")
        name = say(place, "checkpoint", id).strip()
        step(place, id, "echo two >>made; rm f")
        say(place, "rollback", id, name)
        same(step(place, id, "pwd; cat made; cat f"), "/home/user\none\none line\n", "after the rollback")
        fork = say(place, "fork", id).strip()
        same(step(place, fork, "pwd; echo fork >>made; cat made"), "/home/user\none\nfork\n", "the fork")
        same(step(place, id, "cat made"), "one\n", "the first one")
        same(atoll(place, "exec", id, "--chdir", "sub", "--", "pwd").out, "/home/user/sub\n", "a directory in it")
        gone(place, id, fork)


@test("the log has where a step ran by its name inside, and the workspace by the host's")
def _():
    with Place() as place:
        write(place.ws + "/secret.txt", place.secret)
        place.settle()
        id = create(place, filesystem={"hide": ["secret.txt"]})
        step(place, id, "mkdir sub; cat ~/secret.txt; true")
        events = [json.loads(line) for line in say(place, "log", id, "--json").splitlines()]
        start = [one for one in events if one["kind"] == "start"][0]
        same((start["cwd"], start["workspace"], start.get("workspace_at")), ("/home/user", place.ws, "/home/user"), "the start")
        denial = [one for one in events if one["kind"] == "denial"][0]
        same((denial["object"], denial["rule"]), ("/home/user/secret.txt", "hide"), "what was refused")
        among(place.ws + "/secret.txt", denial["allow"], "how to allow it")
        gone(place, id)


# ---- users ----

@test("a command is the first user, by name and by id")
def _():
    with Place() as place:
        write(place.ws + "/mine")
        place.settle()
        out = inside(place, "whoami; id; id -un; id -gn; echo $HOME $USER $LOGNAME; cd; pwd; ls -ld . mine | tr -s ' ' | cut -d' ' -f3,4; getent passwd user")
        more = ",65534(nogroup)" if os.geteuid() != 0 and os.getgroups() else ""  # which an ordinary user's cannot give up
        same(out, "user\nuid=1000(user) gid=1000(user) groups=1000(user)%s\nuser\nuser\n/home/user user user\n/home/user\nuser user\nuser user\n" % more
             + "user:x:1000:1000::/home/user:%s\n" % ("/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"), "inside")


@test("a user has no capability, and none to get")
def _():
    with Place() as place:
        same(inside(place, "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | sort -u -k2 | cut -f2; grep NoNewPrivs /proc/self/status | cut -f2"),
             "0000000000000000\n1\n", "of a run")
        id = create(place, root="layer")
        same(step(place, id, "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | sort -u -k2 | cut -f2"), "0000000000000000\n", "of a step")
        gone(place, id)


@test("accounts of the host's people are not there, system accounts are")
def _():
    with Place() as place:
        out = inside(place, "cat /etc/passwd; echo; cat /etc/group; ls -A /etc | grep -E '^(passwd-|group-|subuid|subgid|shadow)'; cat /etc/shadow 2>/dev/null; true")
        people = [one for one in pwd.getpwall() if 1000 <= one.pw_uid < 65534]
        passwd, _, group = out.partition("\n\n")
        for one in people:
            check("\n%s:" % one.pw_name not in "\n" + out or one.pw_name == "user", "%s of the host is named" % one.pw_name)
        for line in passwd.splitlines():
            fields = line.split(":")
            same((len(fields), fields[1]), (7, "x"), "a line of passwd: %r" % line)
            check(fields[0] == "user" or int(fields[2]) < 1000 or int(fields[2]) == 65534, "line %r" % line)
        for line in group.splitlines():
            fields = line.split(":")
            same((len(fields), fields[1], fields[3]), (4, "x", ""), "a line of group, or more: %r" % line)
        among("daemon", passwd, "system accounts")
        check("root:x:0:0::/root:" in passwd, "root: %r" % passwd)


@test("the two files cannot be written without root: layer")
def _():
    with Place() as place:
        same(inside(place, "(echo x >>/etc/passwd) 2>/dev/null || echo no; (rm /etc/group) 2>/dev/null || echo no"), "no\nno\n", "inside")


@test("nobody by that name")
def _():
    with Place() as place:
        id = create(place)
        result = atoll(place, "exec", id, "--user", "mallory", "--", "true")
        same(result.status, BAD_REQUEST, "unknown user: %s" % result.err)
        among("there is no user 'mallory' inside", result.err, "the story")
        gone(place, id)


@test("as root: root and user are two")
def _():
    need_root()
    with Place() as place:
        place.expect("*")
        id = create(place, root="layer")
        same(step(place, id, "id -un; echo $HOME $USER; echo kept >rootfile; chmod 600 rootfile; mkdir rootdir; echo x >rootdir/kept; echo x >/root/x; stat -c %U rootfile .", "root"),
             "root\n/root root\nroot\nuser\n", "root's step")
        out = step(place, id, "cat rootfile; cat /root/x; ls /root; echo x >rootdir/x; (echo x >/etc/x); (echo x >/usr/bin/x); rm -rf rootdir; mkdir /top; "
                   "echo u >mine; (echo x >/tmp/u) && cat mine; stat -c '%U %a' rootfile; kill -9 1; true")
        same(out, "u\nroot 600\n", "what a user may")
        same(step(place, id, "cat mine /tmp/u; chown user:user rootfile; stat -c %U rootfile; mkdir /top && echo made", "root"), "u\nx\nuser\nmade\n", "what root may")
        same(step(place, id, "cat rootfile; echo more >>rootfile; cat rootfile"), "kept\nkept\nmore\n", "handed over")
        name = say(place, "checkpoint", id).strip()
        fork = say(place, "fork", id).strip()
        same(step(place, fork, "stat -c '%U %n' mine rootdir rootfile"), "user mine\nroot rootdir\nuser rootfile\n", "in a fork")
        say(place, "rollback", id, name)
        same(step(place, id, "stat -c '%U %n' mine rootdir"), "user mine\nroot rootdir\n", "after a rollback")
        say(place, "apply", fork)
        owner = os.stat(place.ws)
        for name in ("mine", "rootdir", "rootfile"):
            st = os.lstat(os.path.join(place.ws, name))
            same((st.st_uid, st.st_gid), (owner.st_uid, owner.st_gid), "whose %s is on the host" % name)
        gone(place, id, fork)


@test("as root: what the guard does in somebody's stead it does as him")
def _():
    """Connecting to a socket is always the guard's, and with a directory of the host's to write so are modes and names."""
    need_root()
    listen = """
import os, socket, sys, time
kept = []
for path, mode in (("/root/s", 0o777), ("/tmp/closed", 0o700), ("/tmp/open", 0o777)):
    kept.append(socket.socket(socket.AF_UNIX)); kept[-1].bind(path); os.chmod(path, mode); kept[-1].listen()
os.mkdir("/tmp/dir", 0o700); open("/tmp/dir/f", "w").close()
socket.socket(socket.AF_UNIX).connect("/root/s"); print("up")
if os.fork() == 0:
    os.close(1); os.close(2); time.sleep(600)
"""
    attempts = """
import os, socket
def attempt(what, action):
    try:
        action(); print(what)
    except OSError as error:
        print(what, error.strerror)
for path in ("/root/s", "/tmp/closed", "/tmp/open"):
    attempt(path, lambda: socket.socket(socket.AF_UNIX).connect(path))
attempt("mode", lambda: os.chmod("/tmp/dir", 0o777))
attempt("mode of a home", lambda: os.chmod("/root", 0o777))
attempt("cut", lambda: os.truncate("/tmp/dir/f", 0))
attempt("own", lambda: os.chmod("/home/user/f", 0o600))
"""
    denied = "Permission denied"
    with Place() as place:
        os.mkdir(place.base + "/direct")
        place.settle()
        for more in ({}, {"filesystem": {"write": [place.base + "/direct"]}}):
            id = create(place, root="layer", **more)
            same(atoll(place, "exec", id, "--user", "root", "--", "/usr/bin/python3", "-c", listen).out, "up\n", "root's sockets")
            same(atoll(place, "exec", id, "--", "/usr/bin/python3", "-c", attempts).out,
                 "/root/s %s\n/tmp/closed %s\n/tmp/open\nmode Operation not permitted\nmode of a home Operation not permitted\ncut %s\nown\n"
                 % (denied, denied, denied), "a user's attempts, with %s" % more)
            gone(place, id)


@test("as root: in a directory that is written directly all files are the first user's")
def _():
    need_root()
    with Place() as place:
        os.mkdir(place.base + "/direct")
        place.settle()
        id = create(place, root="layer", filesystem={"write": [place.base + "/direct"]})
        step(place, id, "cd %s/direct; echo x >mine; mkdir d; mv mine d; (echo x >.envrc) 2>/dev/null && echo wrote; true" % place.base)
        same(step(place, id, "cd %s/direct; echo x >roots; (echo x >.envrc) 2>/dev/null && echo wrote; echo more >>d/mine; stat -c %%U roots" % place.base, "root"), "user\n", "what root makes")
        same(sorted(os.listdir(place.base + "/direct")), ["d", "roots"], "on the host")
        same(read(place.base + "/direct/d/mine"), b"x\nmore\n", "the file")
        for name in ("d", "d/mine", "roots"):
            same(os.stat(place.base + "/direct/" + name).st_uid, os.stat(place.ws).st_uid, "whose %s is" % name)
        gone(place, id)


@test("as root: packages add accounts, whose ids exist")
def _():
    need_root()
    with Place() as place:
        id = create(place, root="layer")
        same(step(place, id, "sed -i /:999:/d /etc/passwd /etc/group; echo 'svc:x:999:999::/:/bin/sh' >>/etc/passwd; echo 'svc:x:999:' >>/etc/group; touch a; chown svc:svc a; stat -c %U:%G a; "
                  "touch /run/pid && echo pid", "root"), "svc:svc\npid\n", "a system account")
        gone(place, id)


@test("as root: what an ordinary process of the machine may not read is not there for root inside either")
def _():
    need_root()
    with Place() as place:
        write("/etc/atoll-test-secret", place.secret, 0o600)
        try:
            id = create(place, root="layer")
            out = step(place, id, "cat /etc/shadow /etc/atoll-test-secret; ls /etc; cat %s/secret.txt; ls %s" % (place.out, place.home), "root", status=2)
            check(place.secret not in out and "atoll-test-secret" not in out and "shadow\n" not in out, "root inside reads %r" % out[:500])
            gone(place, id)
        finally:
            os.unlink("/etc/atoll-test-secret")


@test("as a user: all names are one, and the plan says so")
def _():
    need_user()
    with Place() as place:
        id = create(place, root="layer")
        same(step(place, id, "id -u; echo $HOME $USER; echo x >~/x; cat ~/x", "root"), "1000\n/root root\nx\n", "by the name of root")
        same(step(place, id, "cat /root/x"), "x\n", "by the other")
        gone(place, id)
        plan = run(place, ["-f", contract(place), "--plan"], "true", starts=False).out
        among("one id has all the names", plan, "the plan")


@test("as a user: what is written is the caller's own on the host")
def _():
    need_user()
    with Place() as place:
        place.expect("made")
        inside(place, "echo x >made")
        say(place, "apply")
        same(os.stat(place.ws + "/made").st_uid, os.getuid(), "whose it is")


# ---- an open top ----

@test("root: layer: directories can be made at the top, and no way to a mount can be moved")
def _():
    with Place() as place:
        id = create(place, root="layer")
        out = step(place, id, """mkdir /data && echo x >/data/x && cat /data/x; mkdir -p /srv/a /mnt/b /opt/c && echo made
for d in home run run/atoll dev sys usr etc var proc root tmp opt home/user; do
	python3 -c 'import os, sys; os.rename(sys.argv[1], "/moved")' /$d 2>/dev/null && echo moved $d; rmdir /$d 2>/dev/null && echo gone $d
done
for f in /run/atoll/x /run/atoll/contract.json /home/x /dev/x /sys/x; do (echo x >$f) 2>/dev/null && echo wrote $f; done
rm /run/atoll/contract.md 2>/dev/null && echo removed; ln -s / /run/atoll/y 2>/dev/null && echo linked; true""", "root")
        same(out, "x\nmade\n", "inside")
        name = say(place, "checkpoint", id).strip()
        say(place, "rollback", id, name)
        same(step(place, id, "pwd; cat f"), "/home/user\none line\n", "layers are exchanged all the same")
        gone(place, id)
        for name in ("/data", "/srv/a", "/opt/c"):
            check(not os.path.lexists(name), "%s is on the host" % name)


@test("root: layer and a directory that is written directly: the top is closed")
def _():
    with Place() as place:
        os.mkdir(place.base + "/direct")
        place.settle()
        out = inside(place, "mkdir /data 2>/dev/null && echo made; (echo x >%s/direct/.envrc) 2>/dev/null && echo wrote; true" % place.base, root="layer",
                     filesystem={"write": [place.base + "/direct"]})
        same(out, "", "inside")
        same(os.listdir(place.base + "/direct"), [], "what the guard let pass")


@test("the way to the workspace is replaced by a link: nothing is mounted elsewhere")
def _():
    """A workspace in /tmp lies on storage that is written inside, and who exchanges layers goes there by name."""
    need_layers()
    with Place() as place:
        write(place.base + "/deep/etc/f", "one line\n")
        place.settle()
        result = atoll(place, "create", "--mode", "layer", "--workspace", place.base + "/deep/etc")
        id = result.out.strip()
        step(place, id, "echo x >made; cd /; mv %s/deep %s/moved && ln -s / %s/deep; true" % ((place.base,) * 3))
        atoll(place, "checkpoint", id)
        same(step(place, id, "cat /etc/hostname >/dev/null && echo there; cat %s/deep/etc/f %s/deep/etc/made" % ((place.base,) * 2)), "there\none line\nx\n", "the next step")
        gone(place, id)


# ---- the guest ----

@test("guest: on shows our program, read-only, or says that it is missing")
def _():
    need_layers()
    with Place() as place:
        result = run(place, ["-f", contract(place, guest="on")], "ls /run/atoll; test -x /run/atoll/guest && echo there; (echo x >/run/atoll/guest) 2>/dev/null || echo no; rm -f /run/atoll/guest 2>/dev/null || echo no")
        if os.path.exists(os.path.join(BUILD, "atoll-guest")):
            check(result.out.endswith("there\nno\nno\n"), "inside: %r %s" % (result.out, result.err))
        else:
            same(result.status, HOST_CANNOT, "without it: %s" % result.err)
            among("'atoll-guest' is not installed", result.err, "the story")
        check("guest" not in inside(place, "ls /run/atoll"), "it is there unasked")


@test("a server of root's inside is told whose a connection is")
def _():
    need_root()
    with Place() as place:
        id = create(place, root="layer")
        server = ("import os, socket, struct; s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); os.chmod('/tmp/s', 0o777); s.listen(); "
                  "os.fork() and os._exit(0); os.setsid(); n = os.open('/dev/null', os.O_RDWR); [os.dup2(n, i) for i in range(3)]; "
                  "[(lambda c: c.sendall(b'%d %d' % struct.unpack('iII', c.getsockopt(1, 17, 12))[1:]))(s.accept()[0]) for _ in range(2)]")
        client = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/tmp/s'); print(s.recv(99).decode())"
        step(place, id, 'python3 -c "%s"' % server, "root")
        same(step(place, id, 'python3 -c "%s"' % client, "user"), "1000 1000\n", "user")
        same(step(place, id, 'python3 -c "%s"' % client, "root"), "0 0\n", "root")
        gone(place, id)


# ---- an image ----

@test("an image's system directories stand in the place of the host's")
def _():
    with Place() as place:
        root = image(place)
        out = inside(place, "cat /etc/here; ls -d /usr/bin/python3 /etc/hostname /etc/shadow; id -un; cat /etc/passwd; (echo x >/etc/x); cat f", image={"root": root}, users=USERS)
        check(out.startswith("of the image\nuser\nuser:x:1000:"), "inside: %r" % out)
        check("fromimage:" in out and "somebody:" not in out and "daemon:" not in out and out.endswith("one line\n"), "accounts: %r" % out)
        check(not os.path.lexists(root + "/etc/x"), "the image was written")


@test("an image under root: layer can be written, and stays as it is")
def _():
    with Place() as place:
        root = image(place)
        before = snapshot(root)
        id = create(place, root="layer", image={"root": root})
        same(step(place, id, "echo new >/etc/here; rm /usr/bin/id; mkdir /usr/share; echo v >/var/lib/y; cat /etc/here /var/lib/x /var/lib/y; mkdir /data && ls /usr/bin", "root"),
             "new\nof the image\nv\n" + "".join(sorted(name + "\n" for name in os.listdir(root + "/usr/bin") if name != "id")), "inside")
        gone(place, id)
        same(difference(before, snapshot(root)), "", "the image")


@test("what is no image is refused, in one line that says why")
def _():
    need_layers()
    with Place() as place:
        root = image(place)
        os.symlink(root, place.base + "/link")
        os.mkdir(place.base + "/empty")
        place.settle()
        for path, status in (("/", POLICY), ("/usr", POLICY), ("/proc", POLICY), (place.home, POLICY), (place.base, POLICY), (place.ws, POLICY), (place.ws + "/src", POLICY),
                             (place.base + "/link", POLICY), (place.base + "/none", BAD_REQUEST), (place.base + "/empty", BAD_REQUEST), (root + "/etc/here", BAD_REQUEST)):
            result = run(place, ["-f", contract(place, image={"root": path})], "true", starts=False)
            same(result.status, status, "image %s: %s" % (path, result.err))
            same(len(result.err.splitlines()), 1, "lines of %r" % result.err)
        for lines in ({"read": ["/etc/hostname"]}, {"write": [place.base + "/image"]}, {"hide": ["/usr/share"]}):
            result = run(place, ["-f", contract(place, image={"root": root}, filesystem=lines)], "true", starts=False)
            same(result.status, POLICY, "%s: %s" % (lines, result.err))


@test("an image's links lead nowhere on the host while the root is built")
def _():
    need_layers()
    with Place() as place:
        root = image(place)
        trap = os.path.join(place.base, "trap")
        os.mkdir(trap, 0o755)
        place.settle()
        before = snapshot(trap)
        for name, to in (("var", trap), ("var", "../trap"), ("var/log", trap), ("var/lib", trap), ("var/log", "../../trap"), ("etc", "../trap"), ("etc", trap), ("etc", "usr"), ("opt", trap), ("opt", "a/../../trap")):
            at = os.path.join(root, name)
            kept = at + ".kept"
            if os.path.lexists(at):
                os.rename(at, kept)
            os.symlink(to, at)
            result = run(place, ["-f", contract(place, root="layer", image={"root": root})], "true", starts=False)
            # Within /var it is the image's own business, so long as nothing is made behind it.
            same(result.status, 0 if "/" in name else POLICY, "%s -> %s: %s" % (name, to, result.err))
            check("/" in name or "is a link" in result.err, "the story: %s" % result.err)
            same(difference(before, snapshot(trap)), "", "%s -> %s: the target" % (name, to))
            os.unlink(at)
            if os.path.lexists(kept):
                os.rename(kept, at)
        inside(place, "true", root="layer", image={"root": root})


# ---- hosts that cannot ----

@test("without namespaces users and the guest are refused with the reason")
def _():
    if not BARE:
        skip("a host without user namespaces")
    with Place() as place:
        for more in ({"users": USERS}, {"guest": "on"}, {"filesystem": {"write": [{"path": place.out, "at": "/data"}]}}):
            job = job_file(place, dict({"command": ["true"], "workspace": {"mode": "direct"}}, **more))
            result = run(place, ["-f", job], None, starts=False)
            same(result.status, HOST_CANNOT, "%s: %s" % (more, result.err))
            among("needs user namespaces", result.err, "the story")


if __name__ == "__main__":
    main()
