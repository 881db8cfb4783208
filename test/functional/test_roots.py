#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 46
"""
What is written outside the workspace with `root: layer`, and kept: by checkpoints, rollbacks, forks, the end of a holder.
Never by the host. In the daemon: test_roots_daemon.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *
from package import *


def create(place, *flags):
    result = atoll(place, "create", "--mode", "layer", "--root", "layer", *flags)
    same(result.status, 0, "create: %s" % result.err)
    return result.out.strip()


def step(place, id, script, *args, status=0, **options):
    result = atoll(place, "exec", id, "--", *inside_sh(script, *args), **options)
    same(result.status, status, "step %r: %s" % (script, result.err))
    return result.out


def say(place, *args, status=0):
    result = atoll(place, *args)
    same(result.status, status, "%s: %s" % (" ".join(args), result.out + result.err))
    return result.out if status == 0 else result.err


def holders():
    return {pid for pid, name in descendants().items() if name == "atoll-hold"}


def leave(number=signal.SIGTERM):
    """The holder goes; the next step starts another."""
    for pid in holders():
        os.kill(pid, number)
    until(lambda: not holders())
    check(not holders(), "the holder is still there")


def layers(place):
    found = os.path.join(place.home, ".local/state/atoll/layers")
    return sorted(os.listdir(found)) if os.path.isdir(found) else []


def end(place, *ids):
    say(place, "rm", *ids)
    same(layers(place), [], "what is left of the layers")


@test("a checkpoint keeps what was written outside the workspace, a rollback takes it away, and the host has none of it")
def _():
    need_roots()
    need("dpkg", "dpkg-deb")
    with Place() as place:
        id = create(place)
        say(place, "checkpoint", id, "nothing")
        step(place, id, PACKAGE + r"""
            echo x >/usr/local/atoll-kept; ln -s atoll-kept /usr/local/atoll-link
            mkdir -p /atoll-data/sub; echo data >/atoll-data/sub/f; chown 5:7 /atoll-data/sub/f; chmod 640 /atoll-data/sub/f
            echo home >~/atoll-home; echo tmp >/tmp/atoll-tmp; echo run >/run/atoll-run; rm /usr/bin/yes
            echo 'somebody:x:777:777::/:/bin/sh' >>/etc/passwd; echo change >f""")
        say(place, "checkpoint", id, "one")
        look = r"""cat /usr/local/atoll-link /atoll-data/sub/f ~/atoll-home /tmp/atoll-tmp f; stat -c %u:%g:%a /atoll-data/sub/f
            ls /usr/bin/yes /run/atoll-run 2>/dev/null | wc -l; grep -c somebody /etc/passwd; """ + IS_PACKAGE
        wanted = "x\ndata\nhome\ntmp\nchange\n5:7:640\n1\n1\n" + PACKAGE_SAYS
        # The same cell goes on; what is in /run stays until it ends.
        same(step(place, id, look), wanted, "in the same cell")
        step(place, id, "rm /usr/local/atoll-kept /atoll-data/sub/f; rmdir /atoll-data/sub; dpkg -r atoll-hello >/dev/null; echo two >/usr/local/atoll-two")
        say(place, "checkpoint", id, "two")
        say(place, "rollback", id, "one")
        same(step(place, id, look), wanted.replace("\n1\n1\n", "\n0\n1\n"), "back on the first")
        same(step(place, id, "ls /usr/local/atoll-two 2>&1 | grep -c 'No such'; ls -d /usr/bin/yes 2>&1 | grep -c 'No such'"), "1\n1\n", "not the second's")
        say(place, "rollback", id, "two")
        same(step(place, id, "cat /usr/local/atoll-two; ls /usr/local/atoll-kept /atoll-data/sub /usr/bin/atoll-hello 2>/dev/null; ls /atoll-data"), "two\n", "on the second")
        say(place, "rollback", id, "nothing")
        same(step(place, id, "ls /usr/local/atoll-two /atoll-data ~/atoll-home /usr/bin/atoll-hello 2>/dev/null; ls /usr/bin/yes; cat f"), "/usr/bin/yes\none line\n",
             "as in the beginning")
        not_on_host("/usr/local/atoll-kept", "/usr/local/atoll-two", "/atoll-data", *PACKAGE_PATHS)
        check(os.path.exists("/usr/bin/yes"), "the host's file is gone")
        end(place, id)


@test("a fork has it and goes its own way; diff and apply know nothing of it")
def _():
    need_roots()
    with Place() as place:
        place.expect("f")
        id = create(place)
        step(place, id, "echo one >/opt/atoll-f; mkdir /etc/atoll-d; echo a >/etc/atoll-d/a; echo changed >f")
        forks = say(place, "fork", id, "--count", "2").split()
        step(place, forks[0], "echo two >>/opt/atoll-f; rm -r /etc/atoll-d; mkdir /etc/atoll-d; echo b >/etc/atoll-d/b")
        step(place, id, "echo three >>/opt/atoll-f")
        same(step(place, forks[0], "cat /opt/atoll-f; ls /etc/atoll-d"), "one\ntwo\nb\n", "the first fork")
        same(step(place, forks[1], "cat /opt/atoll-f; ls /etc/atoll-d"), "one\na\n", "the second")
        same(step(place, id, "cat /opt/atoll-f; ls /etc/atoll-d"), "one\nthree\na\n", "the first one")
        grand = say(place, "fork", forks[0]).split()[0]
        leave()
        same(step(place, grand, "cat /opt/atoll-f; ls /etc/atoll-d"), "one\ntwo\nb\n", "a fork of a fork")
        same(say(place, "diff", "--name-only", grand), "f\n", "the diff")
        say(place, "apply", grand)
        same(read(place.ws + "/f"), b"changed\n", "what was applied")
        not_on_host("/opt/atoll-f", "/etc/atoll-d", place.ws + "/opt", place.ws + "/etc")
        end(place, id, *forks, grand)


@test("it outlives its holder, with and without processes; what was killed goes back to what was kept last")
def _():
    need_roots()
    with Place() as place:
        id = create(place)
        step(place, id, "echo 1 >/usr/local/atoll-a; mkdir /srv/x; (while :; do echo tick >>/opt/atoll-tick; sleep 0.01; done) >/dev/null 2>&1 &")
        say(place, "checkpoint", id, "busy")
        step(place, id, "rm /usr/local/atoll-a; echo 2 >/usr/local/atoll-b")
        leave()
        same(step(place, id, "ls /usr/local | grep atoll-; ls -d /srv/x; test -s /opt/atoll-tick && echo ticked"), "atoll-b\n/srv/x\nticked\n", "after its end")
        step(place, id, "echo 3 >/usr/local/atoll-c; rm -r /srv/x")
        leave(signal.SIGKILL)
        same(step(place, id, "ls /usr/local | grep atoll-; ls -d /srv/x"), "atoll-b\n/srv/x\n", "after a kill")
        say(place, "rollback", id, "busy")
        same(step(place, id, "ls /usr/local | grep atoll-; ls -d /srv/x"), "atoll-a\n/srv/x\n", "the checkpoint beside processes")
        end(place, id)


@test("killed while it is copied: all of it is kept, or nothing")
def _():
    need_roots()
    with Place() as place:
        id = create(place)
        for wait in (0, 0.01, 0.03, 0.1, 0.3):
            step(place, id, "mkdir -p /opt/atoll-many; cd /opt/atoll-many; rm -f *; for i in $(seq 500); do echo $1 >$i; done", str(wait))
            busy = Running(place, [ATOLL, "checkpoint", id], starts=False)
            time.sleep(wait)
            leave(signal.SIGKILL)
            busy.wait()
            found = step(place, id, "cd /opt/atoll-many 2>/dev/null && cat * | sort | uniq -c | wc -l; ls | wc -l; mkdir -p /opt/atoll-many").split()
            check(found in (["1", "500"], ["0", "0"]) or len(found) == 1, "after %s s: %s" % (wait, found))
            say(place, "checkpoint", id)
        say(place, "rm", id)  # what was half copied is nobody's, and goes with a sweep an hour later


@test("nothing is copied where nothing has changed; many ends make one layer again")
def _():
    need_roots()
    with Place() as place:
        id = create(place)
        step(place, id, "true")
        say(place, "checkpoint", id, "a")
        for name in ("b", "c"):
            step(place, id, "cat /etc/passwd >/dev/null")
            say(place, "checkpoint", id, name)
        check(len(layers(place)) <= 1, "layers of nothing: %s" % layers(place))
        for number in range(14):
            step(place, id, "echo $1 >/opt/atoll-$1; rm -f /opt/atoll-last; echo $1 >/opt/atoll-last; rm -f /opt/atoll-$2", str(number), str(number - 2))
            leave()
        same(step(place, id, "cd /opt; echo atoll-*; cat atoll-last"), "atoll-12 atoll-13 atoll-last\n13\n", "after them")
        meta = read(os.path.join(place.home, ".local/state/atoll/records", id, "meta")).decode()
        count = len(re.search("^roots=(.*)$", meta, re.M).group(1).split())
        check(1 <= count <= 12, "%d layers of the root" % count)
        end(place, id)


# Large, because where a program's own count is not known for a moment what others write on that disk counts.
BIG = "head -c 160000000 /dev/zero >$1; printf %s $2 >>$1"


@test("the contract's disk space bounds it: what is written anew counts once, and too much is refused")
def _():
    need_roots()
    with Place(on_disk=True) as place:
        id = create(place, "--disk", "300M", "--memory", "1G")
        for number in range(3):
            step(place, id, BIG, "/opt/atoll-big", str(number))
            leave()
        step(place, id, BIG, "/opt/atoll-more", "more")
        check("disk space" in say(place, "checkpoint", id, "much", status=POLICY), "why it is refused")
        step(place, id, "rm /opt/atoll-more; echo fits >/opt/atoll-fits")
        say(place, "checkpoint", id, "fits")
        leave()
        same(step(place, id, "tail -c 1 /opt/atoll-big; stat -c %s /opt/atoll-big; cat /opt/atoll-fits; ls /opt | grep -c atoll-more; true"), "2160000001\nfits\n0\n",
             "what is there")
        end(place, id)


def looked_at(name, fd):
    """What lies in the store can do nothing to the host."""
    st = os.lstat(name, dir_fd=fd)
    check(not (stat.S_ISREG(st.st_mode) and st.st_mode & 0o6000), "%s has set-id bits" % name)
    check(not stat.S_ISSOCK(st.st_mode) and not stat.S_ISBLK(st.st_mode), "%s is special" % name)
    check(not stat.S_ISCHR(st.st_mode) or st.st_rdev == 0, "%s is a device" % name)
    check(0x77fe0000 <= st.st_uid < 0x77ff0000 or stat.S_ISCHR(st.st_mode), "%s belongs to %d" % (name, st.st_uid))
    if stat.S_ISDIR(st.st_mode) or stat.S_ISREG(st.st_mode):
        own = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
        try:
            among_all = set(os.listxattr(own)) - {"user.overlay.opaque", "user.atoll"}
            check(not among_all, "%s has %s" % (name, among_all))
        finally:
            os.close(own)


@test("hostile content: names, links, set-id bits, devices, marks of the overlay; what is hidden stays so")
def _():
    need_roots()
    secret = "/etc/atoll-test-secret-%d" % os.getpid()
    os.mkdir(secret, 0o700)
    try:
        write(secret + "/inner", "secret of the host\n")
        with Place() as place:
            id = create(place)
            result = atoll(place, "exec", id, "--", *inside_py(HOSTILE, secret))
            same(result.status, 0, result.err)
            check(result.tries["device"] != "ok" and result.tries["a secret"] == "ENOENT", str(result.tries))
            say(place, "checkpoint", id, "hostile")
            for layer in layers(place):
                upper = os.path.join(place.home, ".local/state/atoll/layers", layer, "upper")
                for _, dirs, files, fd in os.fwalk(upper):
                    for name in dirs + files:
                        looked_at(name, fd)
            leave()
            result = atoll(place, "exec", id, "--", *inside_py(HOSTILE_AFTER, secret))
            same(result.status, 0, result.err)
            check("fine\n" in result.out, result.out)
            # The way to a system tree is replaced: that is told, and nothing is kept of it.
            other = create(place)
            step(place, other, "echo x >/var/lib/dpkg/atoll; mv /var/lib /var/lib2 && ln -s /etc /var/lib")
            check("moved or replaced" in say(place, "checkpoint", other, "moved", status=POLICY), "why it is refused")
            leave(signal.SIGKILL)
            same(step(place, other, "readlink /var/lib; ls /var/lib/dpkg/atoll 2>/dev/null; echo there"), "there\n", "it stands where it stood")
            same(step(place, id, "cat /opt/second"), "named", "and so does the first")
            end(place, id, other)
        same(os.listdir(secret), ["inner"], "the host's directory")
        not_on_host("/opt/second", "/atoll-x", "/opt/plain")
    finally:
        shutil.rmtree(secret)


HOSTILE = r"""
import os, socket, stat, sys
secret = sys.argv[1]
path = "/"
os.mkdir("/atoll-x")
os.chdir("/atoll-x")
for _ in range(300):
    os.mkdir("d" * 20); os.chdir("d" * 20)
os.chdir("/")
for name in (b"new\nline", b"\xff\xfe", b"colon:comma,back\\slash", b".wh.x", b"x" * 255):
    open(b"/opt/" + name, "w").write("named")
os.symlink("/", "/opt/out"); os.symlink("/etc", "/atoll-x/etc"); os.link(b"/opt/new\nline", "/opt/second")
os.setxattr("/opt/second", "user.atoll", b"own")
os.mkfifo("/opt/fifo"); socket.socket(socket.AF_UNIX).bind("/opt/socket")
open("/opt/plain", "w").write("p"); os.chmod("/opt/plain", 0)
os.rmdir("/srv"); os.symlink("/atoll-x", "/srv")
for mode in (0o4755, 0o2755):
    attempt("set-id %o" % mode, lambda: os.chmod("/opt/second", mode))
attempt("device", lambda: os.mknod("/opt/null", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
for name, value in (("opaque", b"y"), ("redirect", b"/etc"), ("metacopy", b""), ("origin", b"x" * 30)):
    for path in ("/atoll-x", "/opt"):
        attempt("%s of %s" % (name, path), lambda: os.setxattr(path, "user.overlay." + name, value))
attempt("a secret", lambda: os.listdir(secret))
os.mkdir(secret); open(secret + "/mine", "w").write("mine")
"""

HOSTILE_AFTER = r"""
import os, sys
secret = sys.argv[1]
assert os.listdir(secret) == ["mine"], os.listdir(secret)
for name in (b"new\nline", b"\xff\xfe", b"colon:comma,back\\slash", b".wh.x", b"x" * 255, b"second"):
    assert open(b"/opt/" + name).read() == "named", name
assert os.stat("/opt/second").st_nlink == 2 and os.getxattr("/opt/second", "user.atoll") == b"own"
assert os.readlink("/opt/out") == "/" and os.readlink("/srv") == "/atoll-x" and not os.path.lexists("/opt/socket")
assert os.path.exists("/opt/fifo") and os.stat("/opt/plain").st_mode & 0o777 == 0
os.chdir("/atoll-x")
depth = 0
while os.path.isdir("d" * 20):
    os.chdir("d" * 20); depth += 1
assert depth == 300, depth
print("fine")
"""


@test("every step's checkpoint holds it; an end by a limit takes nothing of it away")
def _():
    need_roots()
    with Place() as place:
        id = create(place, "--checkpoints", "every-step", "--cpu-time", "2s")
        step(place, id, "echo 1 >/opt/atoll-1")
        step(place, id, "echo 2 >/opt/atoll-2")
        step(place, id, "rm /opt/atoll-1")
        atoll(place, "exec", id, "--", *inside_sh("echo 4 >/opt/atoll-4; while :; do :; done"))
        same(step(place, id, "ls /opt | grep atoll-"), "atoll-2\natoll-4\n", "after the limit")
        say(place, "rollback", id, "step-2")
        same(step(place, id, "ls /opt | grep atoll-"), "atoll-1\natoll-2\n", "of the second step")
        end(place, id)


@test("as an ordinary user: a checkpoint holds the workspace alone")
def _():
    need_layers()
    need_user()
    with Place() as place:
        id = create(place)
        step(place, id, "echo x >/var/lib/mine; echo x >mine")
        fork = say(place, "fork", id).split()[0]
        same(step(place, fork, "ls mine; ls /var/lib/mine 2>/dev/null; true"), "mine\n", "what the fork has")
        plan = atoll(place, "run", "--plan", "--root", "layer", "--", "true", mode="layer")
        check("no checkpoint or fork holds what is written outside the workspace" in " ".join(plan.out.split()), "the plan says so: %s" % plan.out)
        end(place, id, fork)


main()
