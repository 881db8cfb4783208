# SPDX-License-Identifier: Apache-2.0
# check: seconds 118
# check: sanitized if long
"""`atoll setup`, in a machine of its own

Nothing here may touch the real machine. So a case runs in this very file, started again with `--inside CASE` by
unshare(1): with mount, network, pid and cgroup namespaces of its own, a copy of /etc on a tmpfs, empty /var/lib and
/run, and no control groups, or those beneath one that was made for the test. Before anything else it checks that all
of that is so. At the end the real files are compared with what they were.

nft(8) is the judge of what the packet filter holds.
"""

import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

WATCHED = ["/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/.pwd.lock"]
NAMESPACES = ("mnt", "net", "pid", "cgroup")
OFFLINE, ONLINE, BLOCK = 0x70000000, 0x78000000, 0x07fe0000
INCOMPLETE = HOST_CANNOT
V1 = ("memory", "pids", "cpu")

cases = {}


# ---- outside --------------------------------------------------------------------------------------------------------

def real_state():
    """What a mistake would change. Other tests may add users meanwhile: only our own names count in those files."""
    state = {path: [line for line in read(path).decode().splitlines() if re.match("atoll-(offline|online):", line)]
             for path in WATCHED if os.path.exists(path)}
    state["paths"] = [os.path.lexists(path) for path in
                      ("/var/lib/atoll", "/etc/systemd/system/atoll-setup.service", "/etc/passwd.atoll-setup",
                       *("/sys/fs/cgroup/%s/atoll" % name for name in (*V1, "unified", ".")))]
    listed = subprocess.run(["nft", "list", "tables"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    state["tables"] = listed.stdout
    return state


def own_groups(place):
    """A group of this test's in each v1 hierarchy that there is: {controller: path}."""
    groups = {}
    for name in V1:
        path = "/sys/fs/cgroup/%s/atoll-test-%s" % (name, place.token)
        if os.path.exists("/sys/fs/cgroup/%s/cgroup.procs" % name):
            os.mkdir(path)
            groups[name] = path
    return groups


def in_cage(place, case, groups=None):
    env = {"PATH": HOST_PATH, "HOME": "/root", "LANG": "C.UTF-8", "ATOLL": ATOLL, "CAGE": place.tmp,
           "CAGE_GROUPS": " ".join(groups or {}), "CAGE_ETC": str(os.stat("/etc").st_dev)}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    if "kill" in case and "ASAN_OPTIONS" in env:  # a search for leaks that is killed reports its own end
        env["ASAN_OPTIONS"] += ":detect_leaks=0"
    for name in NAMESPACES:
        env["CAGE_" + name] = os.readlink("/proc/self/ns/" + name)

    def enter():
        for path in (groups or {}).values():
            write(path + "/cgroup.procs", str(os.getpid()))
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--cgroup", "--fork", "--kill-child", "--mount-proc", "--propagation",
         "private", PYTHON, os.path.abspath(__file__), "--inside", case], env=env, cwd="/", preexec_fn=enter,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TEST_SECONDS * 5)
    check(done.returncode == 0, "inside, status %d:\n%s" % (done.returncode, done.stdout[-3000:]))


def case(name, with_groups=False, with_sanitizers=True):
    """A test whose body runs inside."""
    def keep(function):
        cases[name] = function

        @test(name)
        def _():
            need_root()
            need("unshare", "nft", "ip", "strace")
            if "ASAN_OPTIONS" in os.environ and not with_sanitizers:
                skip("a build without sanitizers")
            groups = {}
            with Place() as place:
                before = real_state()
                try:
                    if with_groups:
                        groups = own_groups(place)
                        if not groups:
                            skip("no v1 control groups")
                    in_cage(place, name, groups)
                finally:
                    for path in groups.values():
                        for child in [os.path.join(path, "atoll"), path]:
                            with contextlib.suppress(FileNotFoundError):
                                until(lambda: _can_remove(child))
                same(real_state(), before, "the real machine")
        return function
    return keep


def _can_remove(path):
    try:
        os.rmdir(path)
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


# ---- inside ---------------------------------------------------------------------------------------------------------

def mount(*args):
    subprocess.run(["mount", *args], check=True)


def enter_cage():
    """The last line of defence: refuse to go on unless this is not the machine itself."""
    for name in NAMESPACES:
        check(os.readlink("/proc/self/ns/" + name) != os.environ["CAGE_" + name], "the %s namespace is the machine's" % name)
    cage = os.environ["CAGE"] + "/cage"
    os.mkdir(cage)
    mount("-t", "tmpfs", "-o", "mode=755", "cage", cage)
    subprocess.run(["cp", "-a", "/etc", cage + "/etc"], check=True)
    for name in ("lib", "run", "cgroup"):
        os.mkdir(os.path.join(cage, name))
    mount("--bind", cage + "/etc", "/etc")
    mount("--bind", cage + "/lib", "/var/lib")
    mount("--bind", cage + "/run", "/run")
    mount("--bind", cage + "/cgroup", "/sys/fs/cgroup")
    os.makedirs("/run/systemd/system")
    for name in os.environ["CAGE_GROUPS"].split():
        # The root of what is mounted is the group that this process is in: that of the test.
        os.mkdir("/sys/fs/cgroup/" + name)
        mount("-t", "cgroup", "-o", name, "cgroup", "/sys/fs/cgroup/" + name)
        with open("/proc/self/cgroup") as file:
            check(":%s:/\n" % name in file.read(), "the top of the hierarchy %s is the machine's" % name)
    check(os.stat("/etc").st_dev != int(os.environ["CAGE_ETC"]), "/etc is the machine's")
    for path in ("/etc", "/var/lib", "/run", "/sys/fs/cgroup"):
        check(os.stat(path).st_dev == os.stat(cage).st_dev, "%s is the machine's" % path)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    write("/etc/passwd", read("/etc/passwd").rstrip(b"\n"))  # an end without a newline, as some editors leave it
    for path in WATCHED:
        if os.path.exists(path):
            os.utime(path, (1500000000, 1500000000))


def setup(*args, status=0):
    done = subprocess.run([ATOLL, "setup", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    check(done.returncode == status, "setup %s: status %d\n%s%s" % (args, done.returncode, done.stdout, done.stderr))
    return done.stdout


def ruleset():
    return subprocess.run(["nft", "-j", "-a", "list", "ruleset"], check=True, stdout=subprocess.PIPE, text=True).stdout


def tree():
    """All that setup may change, with the times of the account files and of nothing else."""
    found = {}
    for top in ("/etc", "/var/lib", "/sys/fs/cgroup"):
        if top != "/sys/fs/cgroup":
            found.update((os.path.join(top, name), value) for name, value in snapshot(top).items())
        else:
            found.update((path, "group") for path, _, _ in os.walk(top))
    for path in WATCHED:
        if os.path.exists(path):
            found[path] += (os.stat(path).st_mtime_ns,)
    return found


def tops():
    """The same for a tight loop: only where setup works."""
    found = {path: (read(path), os.stat(path).st_mtime_ns, os.stat(path).st_mode) for path in WATCHED if os.path.exists(path)}
    for top in ("/etc", "/etc/systemd/system", "/etc/systemd/system/sysinit.target.wants", "/var/lib"):
        found[top] = sorted(os.listdir(top)) if os.path.exists(top) else None
    return found


def unchanged(before, what, look=tree):
    changed = difference(before, look())
    check(not changed, "%s: %s" % (what, changed))


def has_table():
    return "atoll" in ruleset()


def account(name):
    return [int(line.split(":")[2]) for line in read("/etc/passwd").decode().splitlines() if line.startswith(name + ":")][0]


@case("a plan changes nothing and names every change")
def _():
    before, rules = tree(), ruleset()
    text = setup("--plan")
    unchanged(before, "after --plan")
    same(ruleset(), rules, "rules")
    for word in ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "inet atoll",
                 "atoll-setup.service", "atoll-offline:x:", "atoll-online:x:", "atoll-offline:%d:%d" % (OFFLINE, BLOCK)):
        check(word in text, "no %r in the plan:\n%s" % (word, text))
    plan = json.loads(setup("--plan", "--json"))
    made = json.loads(setup("--json"))
    same(made["changes"], plan["changes"], "what was made, and what was planned")
    same(setup("--undo", "--plan").count("remove "), len(plan["changes"]), "lines of the plan to undo")


@case("what is set up is there: accounts, ids, table, unit")
def _():
    setup()
    for number, name in enumerate(("atoll-offline", "atoll-online")):
        entry = subprocess.run(["getent", "passwd", name], stdout=subprocess.PIPE, text=True, check=True).stdout.split(":")
        check(100 < int(entry[2]) < 1000 and entry[2] == entry[3], "ids %s" % entry)
        check(entry[5] == "/nonexistent" and entry[6].endswith("/nologin\n"), str(entry))
        shadow = [line for line in read("/etc/shadow").decode().splitlines() if line.startswith(name + ":")]
        same(shadow, [name + ":!*:::::::"], "shadow")
        for path in ("/etc/subuid", "/etc/subgid"):
            check("%s:%d:%d\n" % (name, (OFFLINE, ONLINE)[number], BLOCK) in read(path).decode(), path)
    for tool in (["pwck", "-r", "-q"], ["grpck", "-r"]):
        if shutil.which(tool[0]):
            done = subprocess.run(tool, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            check("atoll-o" not in done.stdout, "%s: %s" % (tool[0], done.stdout))
    same(stat.S_IMODE(os.stat("/var/lib/atoll/setup.json").st_mode), 0o600, "mode of the ledger")
    same(os.readlink("/etc/systemd/system/sysinit.target.wants/atoll-setup.service"),
         "/etc/systemd/system/atoll-setup.service", "link")
    check("--restore" in read("/etc/systemd/system/atoll-setup.service").decode(), "the unit")
    check(has_table(), "no table")
    same(setup("--status"), "complete\n", "status")


@case("a second time changes nothing")
def _():
    setup()
    before, rules = tree(), ruleset()
    check("nothing to do" in setup(), "it did something")
    same(json.loads(setup("--json"))["changes"], [], "changes")
    unchanged(before, "after the second time")
    same(ruleset(), rules, "rules, with their handles")


@case("undo leaves the machine as it was, to the byte and the time")
def _():
    before, rules = tree(), ruleset()
    setup()
    check(difference(before, tree()), "nothing was changed")
    setup("--undo")
    unchanged(before, "after --undo")
    same(ruleset(), rules, "rules")
    check("nothing to do" in setup("--undo"), "a second undo did something")
    unchanged(before, "after the second undo")


@case("files that were not there are gone again")
def _():
    for path in ("/etc/subuid", "/etc/subgid", "/etc/gshadow", "/etc/.pwd.lock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    shutil.rmtree("/etc/systemd/system/sysinit.target.wants", ignore_errors=True)
    before = tree()
    setup()
    check(os.path.exists("/etc/subuid") and not os.path.exists("/etc/gshadow"), "subuid or gshadow")
    setup("--undo")
    unchanged(before, "after --undo")


@case("what others changed in between stays")
def _():
    setup()
    subprocess.run(["useradd", "--system", "--no-create-home", "somebody"], check=True)
    write("/var/lib/atoll/foreign", "x\n")
    subprocess.run(["nft", "add", "table", "inet", "other"], check=True)
    setup("--undo")
    text = read("/etc/passwd").decode()
    check("somebody:" in text and "atoll-o" not in text, text)
    check("somebody:" in read("/etc/shadow").decode(), "shadow")
    same(sorted(os.listdir("/var/lib/atoll")), ["foreign"], "the directory")
    check("other" in ruleset() and not has_table(), ruleset())


@case("what is no longer as we made it is left, and said")
def _():
    setup()
    text = read("/etc/passwd").decode()
    write("/etc/passwd", re.sub("(atoll-online:.*):[^:]*\n", r"\1:/bin/sh\n", text))
    write("/etc/systemd/system/atoll-setup.service", "mine\n")
    subprocess.run(["nft", "add", "rule", "inet", "atoll", "offline", "counter"], check=True)
    out = setup("--undo", status=INCOMPLETE)
    same(out.count("left "), 3, out)
    text = read("/etc/passwd").decode()
    check("atoll-online:" in text and "atoll-offline:" not in text, text)
    same(read("/etc/systemd/system/atoll-setup.service"), b"mine\n", "the unit")
    check(has_table(), "a table that somebody changed is gone")
    # Once those are gone, the rest goes, too.
    write("/etc/passwd", "".join(line for line in text.splitlines(True) if "atoll-online" not in line))
    os.unlink("/etc/systemd/system/atoll-setup.service")
    subprocess.run(["nft", "delete", "table", "inet", "atoll"], check=True)
    setup("--undo")
    check(not os.path.exists("/var/lib/atoll"), "the ledger is left")


@case("what somebody else has made is not taken over")
def _():
    subprocess.run(["useradd", "--system", "--no-create-home", "atoll-offline"], check=True)
    before = tree()
    setup(status=HOST_CANNOT)
    setup("--undo")
    unchanged(before, "after a refusal and --undo")
    subprocess.run(["userdel", "atoll-offline"], check=True)
    subprocess.run(["nft", "add", "table", "inet", "atoll"], check=True)
    before, rules = tree(), ruleset()
    setup(status=HOST_CANNOT)
    setup("--undo")
    unchanged(before, "after a refusal because of the table")
    same(ruleset(), rules, "rules")


LEDGER = "/var/lib/atoll/setup.json"


def refused(*args):
    """setup does nothing, and says why."""
    before, rules = tree(), ruleset()
    done = subprocess.run([ATOLL, "setup", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)
    check(done.returncode in (POLICY, HOST_CANNOT) and done.stderr, "setup %s: status %d\n%s%s" % (args, done.returncode, done.stdout, done.stderr))
    unchanged(before, "after a refusal of setup %s" % (args,))
    same(ruleset(), rules, "rules")
    return done.stderr


@case("a ledger that others can write is not believed")
def _():
    setup()
    for path, change, back in ((LEDGER, lambda: os.chmod(LEDGER, 0o622), lambda: os.chmod(LEDGER, 0o600)),
                               (LEDGER, lambda: os.chown(LEDGER, 65534, 0), lambda: os.chown(LEDGER, 0, 0)),
                               ("/var/lib/atoll", lambda: os.chmod("/var/lib/atoll", 0o775), lambda: os.chmod("/var/lib/atoll", 0o755))):
        change()
        for args in (["--undo"], ["--restore"], []):
            check("'%s' can be written by others" % path in refused(*args), path)
        back()
    os.rename(LEDGER, LEDGER + ".real")
    os.symlink(LEDGER + ".real", LEDGER)
    refused("--undo")
    os.unlink(LEDGER)
    os.rename(LEDGER + ".real", LEDGER)
    setup("--undo")


@case("an edited ledger removes, writes and makes nothing that is not ours")
def _():
    setup()
    whole = json.loads(read(LEDGER))
    os.mkdir("/etc/empty-dir")
    write("/etc/empty-file", "")
    write("/etc/a-file", "x\n")
    os.symlink("/etc/a-file", "/etc/a-link")
    write("/etc/target", "")
    os.symlink("/etc/target", "/etc/cgroup.subtree_control")
    root = read("/etc/shadow").decode().splitlines()[0] + "\n"
    bad = [("directory", "/etc/empty-dir", ""), ("lock", "/etc/empty-file", ""), ("file", "/etc/a-file", "x\n"),
           ("link", "/etc/a-link", "/etc/a-file"), ("lines", "/etc/shadow", root), ("lines", "/etc/a-file", "x\n"),
           ("lines", "/etc/passwd", "atoll-offline:x:0:0::/:/bin/sh\n"), ("lines", "/etc/sudoers", "atoll-offline: ALL\n"),
           ("lines", "/etc/passwd", "atoll-offline:x:998:998::/:/bin/sh"), ("controller", "/etc/cgroup.subtree_control", "cpuset"),
           ("group", "/etc/empty-dir", ""), ("group", "/sys/fs/cgroup/../../../etc/atoll", ""), ("table", "inet other", "offline 998, online 999"),
           ("table", "inet atoll", "offline 0, online 0"), ("lines", "", "x\n"), ("group", "atoll", ""), ("nothing", "/etc/a-file", "")]
    for kind, path, text in bad:
        entry = {"step": "ids", "kind": kind, "path": path, "text": text, "before": False}
        write(LEDGER, json.dumps({**whole, "changes": [*whole["changes"], entry]}))
        for args in (["--undo"], ["--restore"], []):
            check("none that atoll setup makes" in refused(*args), "%s %s" % (kind, path))
    for changes in (["text"], [None], [[]], [{}], [{"kind": "file"}]):
        write(LEDGER, json.dumps({**whole, "changes": changes}))
        refused("--undo")
    # What looks like a control group and is none is neither made nor written.
    for kind, path, text in (("group", "/etc/atoll", ""), ("controller", "/etc/cgroup.subtree_control", "cpu")):
        write(LEDGER, json.dumps({**whole, "changes": [{"step": "groups", "kind": kind, "path": path, "text": text}]}))
        done = subprocess.run([ATOLL, "setup", "--restore"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        same(done.returncode, HOST_CANNOT, done.stderr)
    check(not os.path.exists("/etc/atoll") and read("/etc/target") == b"", "made or written")
    write(LEDGER, json.dumps(whole))
    setup("--undo")
    check(os.path.isdir("/etc/empty-dir") and os.path.exists("/etc/empty-file") and os.path.lexists("/etc/a-link"), "something is gone")


@case("an ordinary user cannot hold a set-up up")
def _():
    for when in ("before", "after"):
        code = "import fcntl, os, sys; os.setuid(65534)\n" \
               "for name in sys.argv[1:]:\n try: fcntl.flock(os.open(name, os.O_RDONLY), 2)\n except OSError: pass\n" \
               "print('held', flush=True); sys.stdin.read()"
        names = ["/var/lib/atoll", "/var/lib/atoll/setup.lock", LEDGER]
        os.makedirs("/var/lib/atoll", exist_ok=True)
        holder = subprocess.Popen([PYTHON, "-c", code, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        same(holder.stdout.readline(), b"held\n", "the holder")
        done = subprocess.run([ATOLL, "setup", *([] if when == "before" else ["--undo"])], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=60)
        holder.stdin.close()
        holder.wait()
        same(done.returncode, 0, done.stderr)
    check(not os.path.exists("/var/lib/atoll"), "something is left")


@case("two set-ups at once: one after the other")
def _():
    before = tree()
    for args in ([], ["--undo"], []):
        both = [subprocess.Popen([ATOLL, "setup", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        for each in both:
            out, err = each.communicate(timeout=60)
            same(each.returncode, 0, err.decode())
    setup("--undo")
    unchanged(before, "afterwards")


@case("a file that was not there is gone after an undo, also if it was repaired in between")
def _():
    for path in ("/etc/subuid", "/etc/subgid"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    before = tree()
    setup()
    write("/etc/subuid", read("/etc/subuid").decode().splitlines(True)[0])
    setup()
    check(read("/etc/subuid").count(b"atoll-o") == 2, "not repaired")
    setup("--undo")
    unchanged(before, "after --undo")


@case("an account file with a byte 0 in it is not replaced")
def _():
    write("/etc/subgid", read("/etc/subgid") + b"ada:1:1\n\0\nbob:2:2\n")
    text = read("/etc/subgid")
    setup(status=HOST_CANNOT)
    same(read("/etc/subgid"), text, "/etc/subgid")
    setup("--undo", status=0)
    same(read("/etc/subgid"), text, "/etc/subgid")


@case("the lock of the account files is left to whoever holds it")
def _():
    with contextlib.suppress(FileNotFoundError):
        os.unlink("/etc/.pwd.lock")
    setup()
    code = "import fcntl, os, sys; fcntl.lockf(os.open('/etc/.pwd.lock', os.O_RDWR), fcntl.LOCK_EX); " \
           "print('held', flush=True); sys.stdin.read()"
    # Nothing but the lock is left to undo, so that nothing else waits for the holder.
    whole = json.loads(read(LEDGER))
    setup("--undo")
    write("/etc/.pwd.lock", "")
    os.mkdir("/var/lib/atoll", 0o755)
    write(LEDGER, json.dumps({**whole, "changes": [one for one in whole["changes"] if one["kind"] == "lock"]}))
    os.chmod(LEDGER, 0o600)
    holder = subprocess.Popen([PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    same(holder.stdout.readline(), b"held\n", "the holder")
    out = setup("--undo", status=INCOMPLETE)
    check("somebody is changing accounts" in out and os.path.exists("/etc/.pwd.lock"), out)
    holder.stdin.close()
    holder.wait()
    setup("--undo")
    check(not os.path.exists("/etc/.pwd.lock"), "the lock is left")


@case("a unit that others can write is damage")
def _():
    setup()
    unit = "/etc/systemd/system/atoll-setup.service"
    if not os.path.exists(unit):
        return
    for change, back in ((lambda: os.chmod(unit, 0o666), lambda: os.chmod(unit, 0o644)), (lambda: os.chown(unit, 65534, 0), lambda: os.chown(unit, 0, 0))):
        change()
        check("damaged" in setup("--status"), "not seen")
        back()
        same(setup("--status"), "complete\n", "status")


@case("a range that overlaps ours is refused with its owner")
def _():
    write("/etc/subuid", read("/etc/subuid").decode() + "ada:%d:65536\n" % (ONLINE + 5))
    before = tree()
    done = subprocess.run([ATOLL, "setup"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    same(done.returncode, HOST_CANNOT, "status")
    check("'ada'" in done.stderr and "/etc/subuid" in done.stderr, done.stderr)
    setup("--undo")
    unchanged(before, "afterwards")


@case("damage is seen and repaired")
def _():
    setup()
    rules = subprocess.run(["nft", "list", "ruleset"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for damage in (["flush", "chain", "inet", "atoll", "offline"], ["delete", "table", "inet", "atoll"],
                   ["add", "table", "inet", "atoll", "{ flags dormant; }"],
                   ["insert", "rule", "inet", "atoll", "output", "accept"],
                   ["add", "chain", "inet", "atoll", "output", "{ policy drop; }"]):
        subprocess.run(["nft", *damage], check=True)
        check(setup("--status").startswith("damaged: table inet atoll"), "not seen: %s" % damage)
        check("repair   firewall" in setup(), "not repaired: %s" % damage)
        same(subprocess.run(["nft", "list", "ruleset"], check=True, stdout=subprocess.PIPE, text=True).stdout, rules, "rules")
    before = tree()
    subprocess.run(["userdel", "atoll-online"], check=True)
    check(setup("--status").startswith("damaged"), "a missing account is not seen")
    setup()
    same(setup("--status"), "complete\n", "status")
    subprocess.run(["nft", "delete", "table", "inet", "atoll"], check=True)
    check("restore" in setup("--restore"), "nothing was restored")
    check("nothing to do" in setup("--restore"), "restored twice")
    check(set(before) == set(tree()), "other files")


def doctor(**options):
    done = subprocess.run([ATOLL, "doctor", "--json"], stdout=subprocess.PIPE, text=True, **options)
    return {finding["what"]: finding for finding in json.loads(done.stdout)["findings"]}


@case("doctor tells of the set-up, and of free host ids")
def _():
    user = {"user": 54321, "group": 54321, "extra_groups": []}
    before = tree()
    told = doctor()
    same((told["elevated set-up"]["holds"], told["elevated set-up"]["result"]), (False, "absent"), "before")
    check("sudo atoll setup" in told["elevated set-up"]["fix"], str(told))
    check(told["host ids for root's runs"]["holds"], str(told))
    check(not os.path.exists("/run/atoll"), "a look has made something")
    unchanged(before, "after looking")
    setup()
    check(doctor()["elevated set-up"]["holds"], "not complete")
    check(doctor(**user)["elevated set-up"]["holds"], "not complete for a user")
    subprocess.run(["nft", "delete", "table", "inet", "atoll"], check=True)
    finding = doctor()["elevated set-up"]
    check(not finding["holds"] and "table inet atoll" in finding["result"] and "repairs" in finding["fix"], str(finding))
    write("/run/atoll/ids", "", 0o666)
    check(not doctor()["host ids for root's runs"]["holds"], "a file for everyone was accepted")


@case("kill -9 at any moment, then undo", with_sanitizers=False)
def _():
    before = tree()
    began = time.monotonic()
    setup()
    whole = time.monotonic() - began
    setup("--undo")
    unchanged(before, "after --undo")
    stopped = 0
    for number in range(20):
        for args in ([], ["--undo"]):  # an undo that is killed must not lose anything either
            child = subprocess.Popen([ATOLL, "setup", *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole * 1.2 * number / 20)
            child.kill()
            stopped += child.wait() == -signal.SIGKILL
        if number % 2:
            setup()  # goes on from any state as well
            same(setup("--status"), "complete\n", "status")
        setup("--undo")
        unchanged(before, "after kill %d and --undo" % number)
        check(not has_table(), "a table is left")
    check(stopped > 0, "only %d of 40 were still running when they were killed" % stopped)


@case("kill -9 at every call that changes something, then undo", with_sanitizers=False)  # they cannot be traced
def _():
    before = tops()
    killed = 0
    for args in ([], ["--undo"]):
        for call in ("fsync", "rename", "renameat", "renameat2", "mkdir", "symlink", "unlink", "unlinkat", "rmdir", "sendto"):
            for number in range(1, 200):
                if args:
                    setup()
                done = subprocess.run(["strace", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                                       "inject=%s:signal=KILL:when=%d" % (call, number), ATOLL, "setup", *args],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                setup("--undo")
                unchanged(before, "after a kill at %s %d of setup %s, and --undo" % (call, number, args), tops)
                if done.returncode == 0:
                    break
                killed += 1
    check(killed > 100, "only %d calls were tried" % killed)
    check(not has_table(), "a table is left")


@case("two at once do not get into each other's way")
def _():
    before = tree()
    for _ in range(5):
        children = [subprocess.Popen([ATOLL, "setup"], stdout=subprocess.DEVNULL) for _ in range(3)]
        same([child.wait() for child in children], [0, 0, 0], "statuses")
        same(setup("--status"), "complete\n", "status")
        children = [subprocess.Popen([ATOLL, "setup", "--undo"], stdout=subprocess.DEVNULL) for _ in range(3)]
        same([child.wait() for child in children], [0, 0, 0], "statuses of undo")
        unchanged(before, "afterwards")


@case("an ordinary user gets a plan and one line")
def _():
    before = tree()
    user = {"user": 54321, "group": 54321, "extra_groups": []}
    done = subprocess.run([ATOLL, "setup"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **user)
    same((done.returncode, done.stdout), (POLICY, ""), "status")
    check("needs root" in done.stderr and done.stderr.count("\n") == 1, done.stderr)
    done = subprocess.run([ATOLL, "setup", "--plan"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **user)
    check(done.returncode == 0 and "/etc/shadow" in done.stdout, done.stderr)
    setup("--undo")
    unchanged(before, "afterwards")
    setup()
    done = subprocess.run([ATOLL, "setup", "--status"], stdout=subprocess.PIPE, text=True, **user)
    same(done.stdout, "complete, as far as a user can see\n", "status")


@case("control groups, beneath one of the test's own", with_groups=True)
def _():
    before = tree()
    setup()
    for name in os.environ["CAGE_GROUPS"].split():
        check(os.path.exists("/sys/fs/cgroup/%s/atoll/cgroup.procs" % name), name)
    check("nothing to do" in setup(), "it did something")
    child = subprocess.Popen(["sleep", "60"])
    write("/sys/fs/cgroup/memory/atoll/cgroup.procs", str(child.pid))
    out = setup("--undo", status=INCOMPLETE)
    check("runs are going on in it" in out and os.path.exists("/sys/fs/cgroup/memory/atoll"), out)
    child.kill()
    child.wait()
    check(until(lambda: not read("/sys/fs/cgroup/memory/atoll/cgroup.procs")), "the group is not empty")
    setup("--undo")
    unchanged(before, "after --undo")


IN_GUEST = r"""
set -eu
top=/sys/fs/cgroup
mount -t tmpfs lib /var/lib
echo "-io -cpu" >$top/cgroup.subtree_control
before=$(cat $top/cgroup.subtree_control)
"$1" setup >/dev/null
for word in cpu io memory pids; do
	grep -qw $word $top/atoll/cgroup.subtree_control || { echo "$word is not handed down"; exit 1; }
done
"$1" setup | grep -q "nothing to do" || { echo "a second time did something"; exit 1; }
mkdir $top/other
echo 50 >$top/other/cpu.weight
"$1" setup --undo >/tmp/said && { echo "what others use was taken away"; exit 1; }
grep -q "left .* cpu: other control groups use" /tmp/said || { cat /tmp/said; exit 1; }
grep -qw cpu $top/cgroup.subtree_control || { echo "cpu is off"; exit 1; }
echo 100 >$top/other/cpu.weight
"$1" setup --undo >/dev/null
test "$(cat $top/cgroup.subtree_control)" = "$before"
test ! -e $top/atoll && test ! -e /var/lib/atoll
echo all is well
"""


@test("control groups of version 2, in a virtual machine")
def _():
    need_root()
    if IS_SANITIZED and not os.environ.get("ATOLL_LONG"):
        skip("a build without sanitizers: the machine may be an emulated one")
    machine = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vm", "run")
    if not os.path.exists(machine):
        skip("test/vm/run")
    lack = subprocess.run([machine, "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if lack.returncode != 0:
        skip("a virtual machine: " + lack.stdout.strip())
    done = subprocess.run([machine, "--memory", "1G", "--timeout", "250", "--show", os.path.dirname(ATOLL), "--", "sh", "-c",
                           IN_GUEST, "sh", ATOLL], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(done.returncode == 0 and done.stdout.endswith("all is well\n"), done.stdout[-2000:])


# ---- the firewall, with packets -------------------------------------------------------------------------------------

SEND = r"""
import os, socket, sys
kind, family, address, port, uid, gid, text, seconds = sys.argv[1:]
os.setgroups([]); os.setresgid(*[int(gid)] * 3); os.setresuid(*[int(uid)] * 3)
s = socket.socket(getattr(socket, family), getattr(socket, kind))
s.settimeout(float(seconds))
try:
    s.connect(socket.getaddrinfo(address, int(port))[0][4])
    s.send(text.encode())
except OSError as error:
    print(error)
"""


class Listener:
    """TCP and UDP on one address; what arrives is kept."""

    def __init__(self, family, address, port):
        self.family, self.address, self.port, self.got = family, address, port, b""
        self.tcp, self.udp = (socket.socket(family, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM))
        self.tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.tcp.bind((address, port))
        self.tcp.listen(16)
        self.udp.bind((address, port))

    def take(self):
        """Everything that has arrived by now."""
        for each in (self.tcp, self.udp):
            each.setblocking(False)
        with contextlib.suppress(OSError):
            while True:
                peer = self.tcp.accept()[0]
                peer.settimeout(1)
                self.got += peer.recv(100)
                peer.close()
        with contextlib.suppress(OSError):
            while True:
                self.got += self.udp.recv(100)
        return self.got


def send(listener, uid, gid, text, seconds):
    for kind in ("SOCK_STREAM", "SOCK_DGRAM"):
        subprocess.run([PYTHON, "-c", SEND, kind, listener.family.name, listener.address, str(listener.port), str(uid), str(gid),
                        "%s-%s;" % (text, kind), str(seconds)], check=True, stdout=subprocess.DEVNULL)


def arrived(listener, uid, gid, wanted):
    """What of TCP and UDP arrives from this owner. If nothing is wanted, nothing is waited for longer than it usually takes."""
    listener.got = b""
    send(listener, uid, gid, "x%d" % uid, PATIENCE if wanted else 3)
    until(lambda: listener.take().count(b";") == 2, PATIENCE if wanted else 0.3)
    return sorted(part.split("-")[1] for part in listener.got.decode().split(";") if part)


BOTH = ["SOCK_DGRAM", "SOCK_STREAM"]


@case("packets: offline ids reach nothing, not even loopback; others are not concerned")
def _():
    listeners = [Listener(socket.AF_INET, "127.0.0.1", 7001), Listener(socket.AF_INET6, "::1", 7001)]
    block = (OFFLINE, OFFLINE + 1024 * 77, OFFLINE + BLOCK - 1)
    for listener in listeners:
        same(arrived(listener, OFFLINE, OFFLINE, BOTH), BOTH, "before setup, from an offline id")
    setup()
    mine = account("atoll-offline")
    for listener in listeners:
        for uid in (*block, mine):
            same(arrived(listener, uid, uid, []), [], "from user and group %d" % uid)
            same(arrived(listener, uid, 54321, []), [], "from user %d" % uid)
            same(arrived(listener, 54321, uid, []), [], "from group %d" % uid)
        for uid in (0, 54321, OFFLINE - 1, OFFLINE + BLOCK, mine + 5000):
            same(arrived(listener, uid, uid, BOTH), BOTH, "from %d, which is nobody's here" % uid)
    setup("--undo")
    for listener in listeners:
        same(arrived(listener, OFFLINE, OFFLINE, BOTH), BOTH, "after undo")


@case("packets: online ids reach the open internet and nothing near")
def _():
    public, near = ["203.0.113.7", "2600::7"], ["127.0.0.1", "10.1.2.3", "172.20.1.1", "192.168.3.4", "100.64.9.9",
                                                "169.254.169.254", "168.63.129.16", "::1", "fd00:ec2::254", "fe80::7",
                                                "64:ff9b::a00:1"]
    # "The internet" is another namespace behind a pair of interfaces; it owns every address of the list.
    far = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up; echo ready; exec sleep 900"],
                           stdout=subprocess.PIPE)
    check(far.stdout.readline() == b"ready\n", "no second namespace")

    def ip(*args, there=False):
        subprocess.run((["nsenter", "--net", "-t", str(far.pid)] if there else []) + ["ip", *args], check=True)
    ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(far.pid))
    for name, side in (("near", False), ("far", True)):
        subprocess.run((["nsenter", "--net", "-t", str(far.pid)] if side else []) +
                       ["sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/%s/accept_dad; echo 0 >/proc/sys/net/ipv6/conf/%s/dad_transmits"
                        % (name, name)], stderr=subprocess.DEVNULL)
        ip("link", "set", name, "up", there=side)
    ip("addr", "add", "203.0.113.1/24", "dev", "near")
    ip("addr", "add", "2600::1/64", "dev", "near", "nodad")
    for address in public + near:
        if address not in ("127.0.0.1", "::1"):
            length = "24" if address == public[0] else "64" if address == public[1] else "128" if ":" in address else "32"
            ip("addr", "add", "%s/%s" % (address, length), "dev", "far", *(["nodad"] if ":" in address else []), there=True)
            if address not in public and not address.startswith("fe80"):
                ip("route", "add", "%s/%s" % (address, length), "dev", "near")
    # A server there for all addresses; it answers what it got.
    server = subprocess.Popen(["nsenter", "--net", "-t", str(far.pid), PYTHON, "-c", r'''
import selectors, socket
wait = selectors.DefaultSelector()
for family, any in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        s = socket.socket(family, kind)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((any, 7002))
        if kind == socket.SOCK_STREAM:
            s.listen(64)
        wait.register(s, selectors.EVENT_READ)
print("ready", flush=True)
while True:
    for key, _ in wait.select():
        s = key.fileobj
        if s.type == socket.SOCK_STREAM:
            peer = s.accept()[0]
            text = peer.recv(100)
        else:
            text = s.recv(100)
        print(text.decode(), flush=True)
'''], stdout=subprocess.PIPE)
    same(server.stdout.readline(), b"ready\n", "the server")
    os.set_blocking(server.stdout.fileno(), False)
    near_by = {"127.0.0.1": Listener(socket.AF_INET, "127.0.0.1", 7002), "::1": Listener(socket.AF_INET6, "::1", 7002)}

    class Far:
        def __init__(self, address):
            self.family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self.address = address + "%near" if address.startswith("fe80") else address
            self.port, self.got = 7002, b""

        def take(self):
            with contextlib.suppress(BlockingIOError):
                self.got += os.read(server.stdout.fileno(), 4096).replace(b"\n", b"")
            return self.got

    def reach(address, uid, wanted):
        return arrived(near_by.get(address) or Far(address), uid, uid, wanted)
    for address in public + near:
        same(reach(address, ONLINE, BOTH), BOTH, "before setup, to %s" % address)
    setup()
    for uid in (ONLINE, ONLINE + BLOCK - 1, account("atoll-online")):
        for address in public:
            same(reach(address, uid, BOTH), BOTH, "from %d to %s" % (uid, address))
    for address in near:
        same(reach(address, ONLINE + 4096, []), [], "to %s" % address)
        same(reach(address, 54321, BOTH), BOTH, "from an ordinary id to %s" % address)
    for address in public:
        same(reach(address, OFFLINE + 1024, []), [], "offline to %s" % address)
    server.kill()
    far.kill()


SERVE = r"""
import os, socket, sys
uid = int(sys.argv[1])
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
s = socket.create_server(("127.0.0.1", 7005))
print("ready", flush=True)
while True:
    peer = s.accept()[0]; peer.sendall(peer.recv(100)); peer.close()
"""


@case("packets: what connects for sandboxes asks resolvers and answers on the loopback; near only where it has leave")
def _():
    resolver, server = Listener(socket.AF_INET, "127.0.0.1", 53), Listener(socket.AF_INET, "127.0.0.1", 7004)
    resolver6 = Listener(socket.AF_INET6, "::1", 53)
    slot = ONLINE + 1024 * 5
    setup()
    for where, ids in ((resolver, (slot + 1, slot + 2)), (resolver6, (slot + 1, slot + 2)), (server, (slot + 2,))):
        for uid in (slot, slot + 1, slot + 2, slot + 3, slot - 1, OFFLINE + 1, OFFLINE + 2, account("atoll-online")):
            wanted = BOTH if uid in ids else []
            same(arrived(where, uid, uid, wanted), wanted, "from %d to port %d" % (uid - slot, where.port))
    # Only the number counts, and it has to be one of the block.
    same(arrived(server, 1026, slot + 2, []), [], "by group alone")
    published = subprocess.Popen([PYTHON, "-c", SERVE, str(slot + 1)], stdout=subprocess.PIPE)
    same(published.stdout.readline(), b"ready\n", "the server")
    peer = socket.create_connection(("127.0.0.1", 7005), 5)
    peer.sendall(b"hello")
    same(peer.recv(100), b"hello", "an answer of egress's")
    published.kill()


if sys.argv[1:2] == ["--inside"]:
    enter_cage()
    cases[sys.argv[2]]()
    sys.exit(0)

main()
