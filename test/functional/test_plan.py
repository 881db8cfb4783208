#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: user only
"""
The plan against the kernel's own view

Each contract is asked for its plan (`atoll run --plan --json`), then run with a command that waits; meanwhile the sandbox's
process is looked at from the host: mountinfo, status, namespaces, limits, cgroup files, environment, descriptors, and its root
directory. Every line that says something about these is checked, in both directions: every mount seen has its line, and
every line that mounts something is seen, with the flags that it promises. And every line says where it comes from.
"""
import glob
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
KNOWN_CLAUSES = re.compile(
    r"^(isolation\.(tier|accept-weaker)|filesystem\.(system|root|private|private-files|read|write|hide|protect|trusted|device|socket|accept-broad)"
    r"|identity|processes\.(shared|namespaces|privileges|first|syscalls|files|descriptors|keyring)|network(\.[a-z]+){0,2}|sockets|limits\.[a-z-]+|environment|audit\.(record|size))$")


# ---- the kernel's view ----------------------------------------------------------------------------------------------

def children(pid):
    found = []
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError):
            found += map(int, read("/proc/%d/task/%s/children" % (pid, task)).split())
    return found


def name_of(pid):
    with contextlib.suppress(OSError):
        return read("/proc/%d/comm" % pid).decode().strip()
    return ""


def command_of(running, name="sleep"):
    """The process of the command itself: atoll's grandchild."""
    def look():
        with contextlib.suppress(OSError):
            for first in children(running.pid):
                for pid in children(first):
                    if name_of(pid) == name:
                        return pid
        return -1 if running.process.poll() is not None else None
    pid = until(look)
    if pid == -1:
        running.wait()
    check(pid and pid > 0, "the command's process did not appear")
    return pid


def unescape(text):
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), text)


def mounts_of(pid):
    """{path: [(flags, type, root, super options), ...]}, the topmost last."""
    found = {}
    with open("/proc/%s/mountinfo" % pid, errors="surrogateescape") as file:
        for line in file:
            left, right = line.rstrip("\n").split(" - ", 1)
            fields, kind = left.split(" "), right.split(" ")
            found.setdefault(unescape(fields[4]), []).append(
                (set(fields[5].split(",")), kind[0], unescape(fields[3]), set(kind[2].split(","))))
    return found


def status_of(pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def limits_of(pid):
    found = {}
    with open("/proc/%d/limits" % pid) as file:
        for line in list(file)[1:]:
            name, soft, hard = line[:26].strip(), line[26:47].strip(), line[47:68].strip()
            found[name] = (soft, hard)
    return found


def cgroups_of(pid):
    with open("/proc/%d/cgroup" % pid) as file:
        return {line.split(":")[1]: line.rstrip("\n").split(":", 2)[2] for line in file}


def cgroup_file(pid, controller, name):
    """The content of a file of the process's group; v1 by controller, else the unified hierarchy."""
    groups = cgroups_of(pid)
    for kind in (controller, ""):
        for mounted in mounts_of("self").items():
            for _flags, filesystem, root, options in mounted[1]:
                right = filesystem == "cgroup" and kind in options if kind else filesystem == "cgroup2"
                if right and kind in groups:
                    below = os.path.relpath(groups[kind], root) if root != "/" else groups[kind].lstrip("/")
                    path = os.path.normpath(os.path.join(mounted[0], below, name))
                    if os.path.exists(path):
                        return read(path).decode().strip()
    return None


# ---- the plan -------------------------------------------------------------------------------------------------------

class Plan:
    def __init__(self, text):
        self.whole = json.loads(text)
        self.lines = self.whole["clauses"]

    def of(self, clause, subject=None):
        return [line for line in self.lines if line["clause"] == clause and subject in (None, line["subject"])]

    def one(self, clause, subject=None):
        found = self.of(clause, subject)
        check(len(found) == 1, "%d lines about %s %s" % (len(found), clause, subject or ""))
        return found[0]


def plan_of(place, flags, command, **options):
    done = atoll(place, "run", "--plan", "--json", *flags, *(["--", *command] if command else []), **options)
    check(done.status == 0, "no plan: status %d, %s" % (done.status, done.err))
    same(done.err, "", "stderr of --plan")
    return Plan(done.out)


# Mechanisms that are a mount, with what the kernel must say about it: flags that are set, flags that are not.
MOUNTED = [
    (r"^private tmpfs, gone at the end$", {"rw", "nosuid", "nodev"}, {"ro"}),
    (r"^private tmpfs, read-only$", {"ro", "nosuid", "nodev"}, {"rw"}),
    (r"^devpts of its own$", {"rw", "nosuid", "noexec"}, {"ro"}),
    (r"^procfs of its own$", {"nosuid", "nodev", "noexec"}, set()),
    (r"^empty mount over it$", {"ro", "nosuid", "nodev"}, {"rw"}),
    (r"^bind mount of the device node", {"nosuid", "noexec"}, set()),
    (r"^bind mount, ids mapped; writes by the guard", {"rw", "nosuid", "nodev", "idmapped"}, {"ro"}),
    (r"^bind mount; writes by the guard", {"rw", "nosuid", "nodev"}, {"ro", "idmapped"}),
    (r"^bind mount, read-only", {"ro", "nosuid", "nodev"}, {"rw"}),
    (r"^overlay", {"rw", "nosuid", "nodev"}, {"ro"}),
]
UNMOUNTED = r"^(symbolic link of the system|layer over the (read-only mount|workspace|system's tree)|marked in the layer|empty mounts over every match|empty mount by a watcher|" \
            r"guard|none$|the kernel keeps it for root|nothing is shown there|part of another line|a grant as wide|" \
            r"kept by its own mode|nothing of the host's can be written|bind mount with the grant that it lies in)"
TYPES = {"private tmpfs": "tmpfs", "devpts of its own": "devpts", "procfs of its own": "proc", "empty mount over it": "tmpfs",
         "bind mount, read-only, hidden names": "overlay", "overlay": "overlay"}


def promise(line):
    """What a line promises about a mount: (set, unset), or None if it is not about one."""
    for pattern, has, lacks in MOUNTED:
        if re.match(pattern, line["mechanism"]):
            return has, lacks
    check(re.match(UNMOUNTED, line["mechanism"]), "a mechanism that this test does not know: %s" % line)
    return None


def check_mounts(plan, pid, hidden_by_pattern):
    seen, host = mounts_of(pid), mounts_of("self")
    lines = {}
    for line in plan.lines:
        is_about_files = line["clause"].startswith("filesystem.") or line["clause"] == "network.authority"
        if is_about_files and line["strength"] == "enforced":
            promised = promise(line)
            if promised:
                check(line["subject"] not in lines, "two mounts at %s" % line["subject"])
                lines[line["subject"]] = (line, promised)
    # From the plan to the kernel.
    for path, (line, (has, lacks)) in lines.items():
        check(path in seen, "the plan says '%s' at %s, and nothing is mounted there" % (line["mechanism"], path))
        flags, kind, root, _ = seen[path][-1]
        check(has <= flags and not lacks & flags, "%s: mounted %s, the plan says '%s'" % (path, sorted(flags), line["mechanism"]))
        for start, wanted in TYPES.items():
            if line["mechanism"].startswith(start):
                same(kind, wanted, "file system at %s" % path)
        if line["clause"] == "network.authority":
            check(root.endswith("/run/atoll/cacerts" if line["note"] else "/run/atoll/ca-bundle.pem"), "%s shows %s" % (path, root))
        elif line["mechanism"].startswith("bind mount") and kind != "overlay":
            check(root == path or root.endswith(os.path.basename(path)) or root == "/", "%s shows %s" % (path, root))
    # From the kernel to the plan.
    for path, stack in seen.items():
        if path in lines:
            same(len(stack), 1, "mounts at %s" % path)
            continue
        if path in hidden_by_pattern:
            check({"ro", "nosuid", "nodev"} <= stack[-1][0], "%s is hidden by a mount that is %s" % (path, sorted(stack[-1][0])))
            continue
        # A tree comes with what the host has mounted beneath it, restricted alike.
        above = max((p for p in lines if path.startswith(p.rstrip("/") + "/")), key=len)
        check(path in host and lines[above][0]["mechanism"].startswith("bind mount"), "mounted, and not in the plan: %s" % path)
        check(lines[above][1][0] - {"idmapped"} <= stack[-1][0], "%s: %s, less than %s" % (path, sorted(stack[-1][0]), above))


def check_names(plan, pid):
    """What the lines say about names: links, hidden entries, private directories, devices."""
    root = "/proc/%d/root" % pid

    for line in plan.lines:
        inside = root + (line["subject"] or "")
        if line["mechanism"] == "symbolic link of the system":
            same(os.readlink(inside), os.readlink(line["subject"]), "link %s" % line["subject"])
        elif line["mechanism"].startswith("layer over"):
            check(not os.path.lexists(inside), "%s is there" % line["subject"])
        elif line["mechanism"].startswith("kept by its own mode"):
            st = os.lstat(inside)
            same(st.st_mode & 0o007, 0, "%s: rights of others" % line["subject"])
        elif line["mechanism"] == "nothing is there":
            check(not os.path.lexists(inside), "%s is there" % line["subject"])
        elif line["mechanism"] == "empty mount over it":
            if os.path.isdir(inside):
                same(os.listdir(inside), [], "content of %s" % line["subject"])
            else:
                same(os.path.getsize(inside), 0, "size of %s" % line["subject"])
        elif line["clause"] == "filesystem.device":
            same(os.stat(inside).st_rdev, os.stat(line["subject"]).st_rdev, "number of %s" % line["subject"])
        elif line["clause"] == "filesystem.private":
            check(os.stat(inside).st_dev != os.stat(line["subject"]).st_dev, "%s is the host's" % line["subject"])
            check(os.stat(inside).st_mode & 0o777 in (0o777, 0o700), "mode of %s" % line["subject"])
        elif line["clause"] in ("filesystem.read", "filesystem.write") and line["strength"] == "enforced":
            same(os.path.isdir(inside), os.path.isdir(line["subject"]), "a directory at %s" % line["subject"])
    same(sorted(os.listdir(root + "/run")), ["atoll"], "/run")


def check_process(plan, pid, running):
    status = status_of(pid)

    privileges = plan.one("processes.privileges")["mechanism"]
    same(privileges, "no_new_privs, no capability, empty bounding set, locked secure bits", "privileges")
    same(status["NoNewPrivs"].strip(), "1", "NoNewPrivs")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        same(int(status[name], 16), 0, name)
    check("seccomp allow-list" in plan.one("processes.syscalls")["mechanism"], "no line about system calls")
    same(status["Seccomp"].strip(), "2", "Seccomp")
    same(plan.one("processes.first")["mechanism"], "pid 1: a seccomp filter; of capabilities sys_ptrace, in the user namespace", "pid 1")
    first = status_of(int(status["PPid"]))
    same((first["Seccomp"].strip(), int(first["CapEff"], 16)), ("2", 1 << 19), "the filter and the capabilities of pid 1")

    names = plan.one("processes.namespaces")["subject"].split()
    differ = [n for n in NAMESPACES if os.path.exists("/proc/self/ns/" + n)
              and os.readlink("/proc/self/ns/" + n) != os.readlink("/proc/%d/ns/%s" % (pid, n))]
    same(sorted(differ), sorted(names), "namespaces of its own")

    uids, gids = set(status["Uid"].split()), set(status["Gid"].split())
    line = plan.one("identity")
    st = os.stat(plan.whole["workspace"])
    with open("/proc/%d/uid_map" % pid) as file:
        inside, outside, count = map(int, file.read().split())
    same(count, 1, "ids in the map")
    if "an id of its own" in line["mechanism"]:
        floor = int(re.search(r"from (\d+) on", line["note"])[1])
        check(all(floor <= int(i) < floor + 0x07fe0000 for i in uids | gids), "ids %s %s, the plan says: %s" % (uids, gids, line["note"]))
        same((len(uids), len(gids)), (1, 1), "number of ids")
        check("uid %d and gid %d" % (st.st_uid, st.st_gid) in line["note"], "not the workspace's owner: %s" % line["note"])
        same(inside, st.st_uid, "uid inside")
    else:
        same("user namespace with the caller's own id", line["mechanism"], "identity")
        same((uids, gids), ({str(os.geteuid())}, {str(os.getegid())}), "ids")
        check("uid %d is host uid %d" % (inside, os.geteuid()) in line["note"], "identity: %s" % line["note"])
    check(outside in map(int, uids), "the map leads to %d" % outside)
    same(status["Groups"].split(), [] if IS_ROOT else status["Groups"].split(), "groups")

    # Egress's sockets are in the sandbox's network where there is one, and nobody's else.
    line = plan.one("network")
    listens = {kind: re.findall(r":([0-9A-F]{4}) 0+:0000 (?:0A|07)", read("/proc/%d/net/%s" % (pid, kind + six)).decode())
               for six in ([""] if "IPv4 only" in (line["note"] or "") else ["6"]) for kind in ("tcp", "udp")}
    same(listens, {"tcp": [], "udp": []} if line["subject"] == "off" else {"tcp": ["03FF"], "udp": ["0035"]}, "network " + line["subject"])
    same(plan.one("identity")["subject"], "offline" if line["subject"] == "off" else "online", "class of ids")
    devices = [row.split(":")[0].strip() for row in read("/proc/%d/net/dev" % pid).decode().splitlines()[2:]]
    check(set(devices) <= {"lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"},
          "network devices %s" % devices)

    same(plan.one("processes.files")["mechanism"], "Landlock ABI %d" % landlock_abi(), "Landlock")
    plan.one("processes.keyring")


def landlock_abi():
    return _libc_syscall(444, None, 0, 1)


def _libc_syscall(number, *args):
    libc = ctypes.CDLL(None)
    libc.syscall.restype = ctypes.c_long
    return libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])


def check_descriptors(plan, pid, given):
    said = set()
    for line in plan.of("processes.descriptors"):
        said |= set(map(int, line["subject"].split()))
    there = {}

    def look():  # a program that has just started still opens its libraries
        there.clear()
        for entry in os.listdir("/proc/%d/fd" % pid):
            with contextlib.suppress(OSError):
                there[int(entry)] = os.readlink("/proc/%d/fd/%s" % (pid, entry))
        return set(there) == said
    until(look)
    same(set(there), said, "descriptors")
    for number in (0, 1, 2):
        check(there[number].startswith("pipe:"), "descriptor %d is %s" % (number, there[number]))
    for number, target in given.items():
        same(there[number], target, "descriptor %d" % number)


def check_environment(plan, pid):
    there = {word.split(b"=", 1)[0].decode() for word in read("/proc/%d/environ" % pid).split(b"\0") if word}
    same({line["subject"] for line in plan.of("environment")}, there, "variables")


UNITS = {"": 1, "bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
         "ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}


def amount(text):
    """A limit as the plan writes it, in bytes, seconds or plain."""
    if text == "unlimited":
        return None
    total = 0
    for number, unit in re.findall(r"([0-9.]+) ?([A-Za-z]*)", text):
        total += float(number) * UNITS[unit]
    return total


def check_limits(plan, pid):
    limits = limits_of(pid)

    def limit(key):
        line = plan.one("limits." + key)
        value = amount(line["subject"])
        same(line["strength"] == "note", value is None, "strength of limits.%s %s" % (key, line["subject"]))
        same(line["mechanism"] == "none", value is None, "mechanism of limits.%s" % key)
        return value, line["mechanism"]

    def resource(name, value):
        if value is None:
            same(limits[name], limits_of(os.getpid())[name], name)
        else:
            same(limits[name], ("%d" % value,) * 2, name)

    for key in ("wall", "output", "grace"):
        limit(key)
    value, how = limit("cpu")
    check(value is None or "RLIMIT_CPU" in how, how)
    resource("Max cpu time", value and -(-value // 1))
    value, how = limit("open-files")
    check(value is None or "RLIMIT_NOFILE" in how, how)
    resource("Max open files", value)
    value, how = limit("disk")
    check(value is None or "RLIMIT_FSIZE" in how, how)
    resource("Max file size", value)
    bounds = [v for v in (value, amount(plan.one("limits.memory")["subject"])) if v is not None]
    check(value is None or "at most that of memory" in how and "sums up what is written" in how, how)
    if bounds:
        tmpfs = next(o for o in mounts_of(pid)["/tmp"][-1][3] if o.startswith("size="))
        same(int(tmpfs[5:].rstrip("k")) * 1024, -(-int(min(bounds)) // 4096) * 4096, "size of the private tmpfs")
    value, how = limit("files")
    inodes = [int(o[10:]) for o in mounts_of(pid)["/tmp"][-1][3] if o.startswith("nr_inodes=")]
    if value is not None:
        check("inodes of the private tmpfs" in how, how)
        same(len(inodes) == 1 and 0 <= inodes[0] - value <= 20000, True, "inodes of the private tmpfs: %s" % inodes)
    value, how = limit("cpus")
    cpus = bin(int(status_of(pid)["Cpus_allowed"].replace(",", ""), 16)).count("1")
    have = len(os.sched_getaffinity(0))
    same(cpus, have if value is None else min(have, -int(-value // 1)), "CPUs")
    if "cpu.max" in how:
        same(cgroup_file(pid, "cpu", "cpu.max"), "%d 100000" % (value * 100000), "cpu.max")
    if "cpu.cfs_quota_us" in how:
        same(cgroup_file(pid, "cpu", "cpu.cfs_quota_us"), "%d" % (value * 100000), "cpu.cfs_quota_us")
    value, how = limit("pids")
    resource("Max processes", value and value + 1)
    check(value is None or "RLIMIT_NPROC" in how + str(plan.one("limits.pids")["note"]), how)
    if "cgroup" in how:
        same(cgroup_file(pid, "pids", "pids.max"), "%d" % (value + 1), "pids.max")
    value, how = limit("memory")
    if "cgroup" in how:
        name = re.search(r"memory\.\w+", how)[0]
        same(int(cgroup_file(pid, "memory", name)), value // 4096 * 4096, name)
        if "v2" in how:
            same(cgroup_file(pid, "memory", "memory.swap.max") or "0", "0", "memory.swap.max")
    same(plan.one("limits.memory")["strength"] == "weaker", value is not None and "cgroup" not in how, "a watched limit is weaker")
    own, shared = limits_of(os.getpid()), {word for line in plan.of("processes.shared") for word in line["subject"].split()}
    check({"signals", "queues"} <= shared, "processes.shared: %s" % shared)
    for name in ("Max pending signals", "Max msgqueue size"):
        check(int(limits[name][1]) <= int(own[name][1]) // 2, "%s: %s of %s" % (name, limits[name], own[name]))
    check("inotify-instances" in shared, "no share of inotify")
    check("RLIMIT_CORE 1" in plan.one("limits.core")["mechanism"], "no line about core files")
    same(limits["Max core file size"], ("1", "1"), "Max core file size")


def compare(place, flags=(), job=None, fds=None, env=None, hidden=(), origins=(), mode=None):
    """One contract: plan, run, look, compare. `origins`: [(clause, subject, origin)] that must be in the plan."""
    flags = list(flags)
    command = ["sleep", "600"]
    if job is not None:
        path = job_file(place, {"command": command, **job} if isinstance(job, dict) else job)
        flags, command = ["-f", path, *flags], None
    plan = plan_of(place, flags, command, fds=fds, env=env, mode=mode)
    same(plan.whole["enforceable"], True, "enforceable")
    same(plan.whole["command"], ["sleep", "600"], "command")
    running = start(place, flags, command, fds=fds, env=env, mode=mode)
    pid = command_of(running)
    check_mounts(plan, pid, set(hidden))
    check_names(plan, pid)
    check_process(plan, pid, running)
    targets = {number: os.readlink("/proc/self/fd/%d" % fd) for number, fd in (fds or {}).items()}
    check_descriptors(plan, pid, targets)
    check_environment(plan, pid)
    check_limits(plan, pid)
    check_origins(plan, flags, origins)
    running.kill()
    return plan


def check_origins(plan, flags, origins):
    given = {"default", "command line", "--mode"} | {f.split("=")[0] for f in flags if str(f).startswith("--")}
    for line in plan.lines:
        check(line["origin"], "a line without an origin: %s" % line)
        check(line["origin"] in given or re.search(r"job\.yaml:\d+$", line["origin"]), "an origin from nowhere: %s" % line)
        check(line["strength"] in ("enforced", "weaker", "missing", "note") and line["mechanism"], "a line without strength: %s" % line)
        check(KNOWN_CLAUSES.match(line["clause"]), "a clause that this test does not know: %s" % line)
    for clause, subject, origin in origins:
        said = [line["origin"] for line in plan.of(clause, subject)]
        check(any(o == origin or o.endswith(origin) for o in said), "%s %s comes from %s, expected %s" % (clause, subject, said, origin))


# ---- contracts ------------------------------------------------------------------------------------------------------

@test("the default contract: the workspace is a layer")
def _():
    with Place() as place:
        plan = compare(place, mode="default", origins=[("filesystem.write", place.ws, "default"), ("limits.memory", None, "default")])
        check("until changes are applied" in plan.one("filesystem.write", place.ws)["note"], "the plan does not say that the host's files stay")
        check("overlay" in plan.one("filesystem.write", place.ws)["mechanism"], "the plan does not say how")
        for line in plan.of("filesystem.trusted"):
            check("applied only if" in line["mechanism"], "not said when it is held: %s" % line)


@test("a layer with all kinds of lines in it")
def _():
    with Place() as place:
        for name in ("ro/a", "out/a", "plans/a", "kept", ".env", "sub/.env"):
            write(os.path.join(place.ws, name))
        place.settle()
        flags = ["--read", "ro", "--write", "out", "--hide", "plans", "--protect", "kept"]
        plan = compare(place, flags, mode="layer", origins=[("filesystem.write", place.ws + "/out", "--write"), ("filesystem.read", place.ws + "/ro", "--read"),
                                                            ("filesystem.hide", place.ws + "/plans", "--hide"), ("filesystem.protect", place.ws + "/kept", "--protect")])
        check("applied only if" in plan.one("filesystem.protect", place.ws + "/kept")["mechanism"], "a protected file is not marked")
        check("guard" in plan.one("filesystem.write", place.ws + "/out")["mechanism"], "a directory that is written directly is not guarded")


@test("a workspace that is written directly")
def _():
    with Place() as place:
        plan = compare(place, origins=[("filesystem.write", place.ws, "default"), ("limits.memory", None, "default")])
        check("directly" in plan.one("filesystem.write", place.ws)["note"], "the plan does not say that the workspace is written")
        same(plan.whole["workspace"], place.ws, "workspace")
        same(len(plan.of("processes.descriptors")), 1, "lines about descriptors")


@test("a hidden name in a read-only place is not listed")
def _():
    with Place() as place:
        write(place.out + "/a/b/secret")
        place.settle()
        flags = ["--read", place.out, "--hide", place.out + "/a/b", "--hide", place.out + "/secret.txt", "--hide", place.out + "/no/such"]
        plan = plan_of(place, flags, ["sleep", "600"])
        running = start(place, flags, ["sleep", "600"])
        root = "/proc/%d/root" % command_of(running)
        listed = []
        for line in plan.lines:
            if line["mechanism"].startswith("layer over"):
                above, name = os.path.split(line["subject"])
                with contextlib.suppress(OSError):
                    if name in os.listdir(root + above):
                        listed.append(line["subject"])
                if os.path.lexists(root + above) and not os.path.lexists(above):
                    listed.append(above + " (the host has none)")
        running.kill()
        same(listed, [], "hidden and listed")


@test("--read of a directory")
def _():
    with Place() as place:
        compare(place, ["--read", place.out], origins=[("filesystem.read", place.out, "--read")])


@test("--read of a file")
def _():
    with Place() as place:
        path = place.out + "/canary"
        compare(place, ["--read", path], origins=[("filesystem.read", path, "--read")])


@test("--read of what can be read already")
def _():
    with Place() as place:
        compare(place, ["--read", "/usr/share"], origins=[("filesystem.read", "/usr/share", "--read")])


@test("--write of another root")
def _():
    with Place(strict=False) as place:
        compare(place, ["--write", place.out], origins=[("filesystem.write", place.out, "--write")])


@test("--write of a file")
def _():
    with Place(strict=False) as place:
        path = place.out + "/canary"
        compare(place, ["--write", path], origins=[("filesystem.write", path, "--write")])


@test("reading nested in writing, and writing in reading")
def _():
    with Place(strict=False) as place:
        write(place.ws + "/vendor/x")
        write(place.out + "/sub/x", mode=0o666)
        place.settle()
        compare(place, ["--read", "vendor", "--read", place.out, "--write", place.out + "/sub"],
                origins=[("filesystem.read", place.ws + "/vendor", "--read"), ("filesystem.write", place.out + "/sub", "--write")])


@test("a hidden name in a read-only root")
def _():
    with Place() as place:
        write(place.out + "/a/b/secret")
        place.settle()
        paths = [place.out + "/secret.txt", place.out + "/a/b"]
        compare(place, ["--read", place.out, "--hide", paths[0], "--hide", paths[1]],
                origins=[("filesystem.hide", path, "--hide") for path in paths])


@test("a hidden name beneath a system directory")
def _():
    with Place() as place:
        compare(place, ["--hide", "/usr/share/doc"], origins=[("filesystem.hide", "/usr/share/doc", "--hide"),
                                                              ("filesystem.hide", "/etc/shadow", "default")])


@test("hidden names in the workspace")
def _():
    with Place() as place:
        write(place.ws + "/dir/x")
        write(place.ws + "/file", "hidden")
        place.settle()
        compare(place, ["--hide", "dir", "--hide", "file"],
                origins=[("filesystem.hide", place.ws + "/dir", "--hide"), ("filesystem.hide", place.ws + "/file", "--hide")])


@test("a hidden name that is not there, and one where nothing is shown")
def _():
    with Place() as place:
        compare(place, ["--hide", "later", "--hide", place.out],
                origins=[("filesystem.hide", place.ws + "/later", "--hide"), ("filesystem.hide", place.out, "--hide")])


@test("hidden patterns")
def _():
    with Place() as place:
        hidden = [place.ws + n for n in ("/.env", "/a/b/.env", "/a/x.key")]
        for path in hidden:
            write(path, "hidden")
        place.settle()
        compare(place, ["--hide", "**/.env", "--hide", "*.key"], hidden=hidden,
                origins=[("filesystem.hide", place.ws + "/**/.env", "--hide")])


@test("a read-only workspace by job file")
def _():
    with Place() as place:
        plan = compare(place, job={"workspace": {"mode": "read-only"}}, origins=[("filesystem.read", place.ws, "job.yaml:1")])
        check("read-only" in plan.one("filesystem.read", place.ws)["note"], "the plan does not say that the workspace is read-only")


@test("another workspace and another place to start")
def _():
    with Place() as place:
        plan = compare(place, ["--workspace", place.ws + "/src", "--chdir", place.ws + "/src"],
                       origins=[("filesystem.write", place.ws + "/src", "--workspace")])
        same(plan.whole["workspace"], place.ws + "/src", "workspace")


@test("all limits by flags")
def _():
    with Place() as place:
        compare(place, ["--timeout", "50s", "--cpu-time", "1500ms", "--cpus", "1", "--memory", "512M", "--pids", "33", "--disk", "10M",
                        "--files", "77", "--open-files", "64", "--output", "1M"],
                origins=[("limits.wall", "50 s", "--timeout"), ("limits.cpu", None, "--cpu-time"), ("limits.cpus", "1", "--cpus"),
                         ("limits.memory", "512 MiB", "--memory"), ("limits.pids", "33", "--pids"), ("limits.disk", "10 MiB", "--disk"),
                         ("limits.files", "77", "--files"), ("limits.open-files", "64", "--open-files"),
                         ("limits.output", "1 MiB", "--output")])


@test("odd limits")
def _():
    with Place() as place:
        compare(place, ["--cpus", "0.5", "--memory", "100000000", "--disk", "1048577", "--pids", "4", "--open-files", "1023"])


@test("the fewest open files that can be asked for")
def _():
    with Place() as place:
        compare(place, ["--open-files", "16"])


@test("no limits")
def _():
    with Place() as place:
        flags = []
        for name in ("timeout", "cpu-time", "cpus", "memory", "pids", "disk", "files", "open-files", "output"):
            flags += ["--" + name, "unlimited"]
        compare(place, flags, origins=[("limits.memory", "unlimited", "--memory")])


@test("limits by job file, one overridden by a flag")
def _():
    with Place() as place:
        text = "command: [sleep, '600']\nlimits:\n  wall: 1m\n  pids: 20\n  memory: 256M\n"
        compare(place, ["--pids", "21"], job=text,
                origins=[("limits.wall", "1 min", "job.yaml:3"), ("limits.memory", "256 MiB", "job.yaml:5"), ("limits.pids", "21", "--pids")])


@test("a network by rules, and everything that can be said about one")
def _():
    with Place() as place:
        plan = compare(place, job={"network": {"allow": ["good.test", "192.0.2.0/24:22"]}},
                       origins=[("network.allow", "good.test", "job.yaml:1"), ("network.allow", "192.0.2.0/24:22", "job.yaml:1")])
        check("tproxy" in plan.one("network")["mechanism"], "by another way")
        same(plan.of("network.authority"), [], "authorities where no TLS is opened")
        text = "command: [sleep, '600']\nnetwork:\n  allow:\n    - {host: '*.good.test', methods: [GET], paths: [/x/**]}\n    - api.test\n" \
               "  deny: [bad.good.test]\n  rate: 1M\n  ask: true\n  secrets:\n    - {name: A_KEY, host: api.test}\n" \
               "  listen: [8080]\n  upstream: 'http://127.0.0.1:3128'\n"
        plan = compare(place, job=text, env={"A_KEY": "key-0123456789"}, origins=[
            ("network.allow", "*.good.test", "job.yaml:4"), ("network.deny", "bad.good.test", "job.yaml:6"), ("network.ask", None, "job.yaml:8"),
            ("network.secrets", "A_KEY for api.test", "job.yaml:10"), ("network.listen", "8080", "job.yaml:11"),
            ("network.upstream", None, "job.yaml:12"), ("network.rate", "1 MiB", "default")])
        same(plan.one("network.upstream")["strength"], "weaker", "another proxy")
        check("methods GET" in plan.one("network.allow", "*.good.test")["note"], "the note of a rule")
        if os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
            plan.one("network.authority", os.path.realpath("/etc/ssl/certs/ca-certificates.crt"))
        for store in {os.path.realpath(one) for one in glob.glob("/usr/lib/jvm/*/lib/security/cacerts") if os.path.exists(one)}:
            check("Java" in plan.one("network.authority", store)["note"], "the note of %s" % store)


@test("a socket of the host")
def _():
    with Place() as place, Sink(place) as sink:
        plan = compare(place, ["--socket", sink.path], origins=[("sockets", sink.path, "--socket"),
                                                                ("filesystem.socket", sink.path, "--socket")])
        check("host" in plan.one("sockets", sink.path)["note"], "no warning about the socket")
    with Place() as place, Sink(place) as sink:
        compare(place, ["--read", place.out, "--socket", sink.path], origins=[("sockets", sink.path, "--socket")])


@test("descriptors")
def _():
    with Place() as place:
        ends = os.pipe()
        try:
            with open(place.out + "/canary", "rb") as file:
                compare(place, ["--fd", "9", "--fd", "12"], fds={9: ends[1], 12: file.fileno()},
                        origins=[("processes.descriptors", "9", "--fd"), ("processes.descriptors", "12", "--fd")])
        finally:
            os.close(ends[0])
            os.close(ends[1])


@test("descriptors by job file")
def _():
    with Place() as place:
        ends = os.pipe()
        try:
            compare(place, job={"environment": {"descriptors": [5]}}, fds={5: ends[0]},
                    origins=[("processes.descriptors", "5", "job.yaml:1")])
        finally:
            os.close(ends[0])
            os.close(ends[1])


@test("variables")
def _():
    with Place() as place:
        plan = compare(place, ["--env", "A=" + place.secret, "--env", "PASSED", "--env", "ABSENT", "--env", "TERM=dumb"],
                       env={"PASSED": place.secret, "DROPPED": "x", "LD_LIBRARY_PATH": "/x", "SSH_AUTH_SOCK": "/x"},
                       origins=[("environment", "A", "--env"), ("environment", "PASSED", "--env"), ("environment", "TERM", "--env"),
                                ("environment", "HOME", "default")])
        check(place.secret not in json.dumps(plan.whole), "a value in the plan")


@test("variables by job file")
def _():
    with Place() as place:
        compare(place, job="command: [sleep, '600']\nenvironment:\n  pass: [PASSED]\n  set:\n    B: x\n", env={"PASSED": "y"},
                origins=[("environment", "B", "job.yaml:5"), ("environment", "PASSED", "job.yaml:3")])


@test("protected names")
def _():
    with Place() as place:
        compare(place, ["--protect", "f", "--protect", "not-there", "--protect", "*.lock"],
                origins=[("filesystem.protect", place.ws + "/f", "--protect"), ("filesystem.protect", place.ws + "/not-there", "--protect"),
                         ("filesystem.protect", place.ws + "/**/*.lock", "--protect")])


@test("a home that is meant")
def _():
    with Place() as place:
        compare(place, ["--read", place.home, "--accept-broad", place.home],
                origins=[("filesystem.read", place.home, "--read"), ("filesystem.hide", place.home + "/.ssh", "default"),
                         ("filesystem.accept-broad", place.home, "--accept-broad")])


@test("a weakness that is accepted")
def _():
    with Place() as place:
        compare(place, ["--accept-weaker", "memory"], origins=[("isolation.accept-weaker", "memory", "--accept-weaker")])


@test("a home with toolchains and a workspace in it")
def _():
    with Place() as place:
        write(place.home + "/.cargo/bin/tool")
        write(place.home + "/go/pkg/x")
        write(place.home + "/project/f")
        place.settle()
        compare(place, ["--workspace", place.home + "/project", "--chdir", place.home + "/project"],
                origins=[("filesystem.read", place.home + "/.cargo/bin", "default"), ("filesystem.read", place.home + "/go", "default"),
                         ("filesystem.write", place.home + "/project", "--workspace")])


@test("names with blanks and other signs")
def _():
    with Place(strict=False) as place:
        odd = place.base + "/a b\\c, \u00e4:\"x"
        write(odd + "/in/f")
        write(odd + "/out/f")
        compare(place, ["--read", odd + "/in", "--write", odd + "/out"])


@test("all of it together")
def _():
    with Place(strict=False) as place, Sink(place) as sink:
        write(place.ws + "/deep/er/.env", "x")
        write(place.ws + "/vendor/x")
        write(place.base + "/more/in/x")
        write(place.base + "/more/out/x")
        place.settle()
        job = {"filesystem": {"read": [place.base + "/more"], "write": [place.base + "/more/out"], "hide": ["**/.env", place.base + "/more/in"],
                              "protect": ["Makefile"], "sockets": [sink.path]},
               "limits": {"memory": "1G", "pids": 100, "cpus": 1}, "environment": {"set": {"X": "y"}}}
        compare(place, ["--read", "vendor", "--timeout", "40s", "--env", "Y=z"], job=job, hidden=[place.ws + "/deep/er/.env"],
                origins=[("filesystem.read", place.base + "/more", "job.yaml:1"), ("filesystem.hide", place.base + "/more/in", "job.yaml:1"),
                         ("filesystem.read", place.ws + "/vendor", "--read"), ("limits.wall", "40 s", "--timeout")])


@test("the text says what the JSON says")
def _():
    with Place() as place:
        flags = ["--read", place.out, "--hide", place.out + "/secret.txt", "--pids", "9"]
        plan = plan_of(place, flags, ["true"])
        text = atoll(place, "run", "--plan", *flags, "--", "true").out
        check("sha256:" + plan.whole["digest"] in text, "no digest")
        # Lines that differ only in their subject are joined, and long ones wrapped.
        blocks = []
        for row in text.split("\n\n", 1)[1].splitlines():
            if row[2:3] not in ("", " "):
                blocks.append(row[2:])
            elif blocks:
                blocks[-1] += " " + row.strip()
        for line in plan.lines:
            found = [block for block in blocks if block.startswith(line["clause"] + " ") and "[%s]" % line["mechanism"] in block
                     and all(word in block for word in (line["subject"] or "").split())
                     and (line["note"] or "") in block and ("(%s)" % line["origin"] in block or line["origin"] == "default")]
            check(found, "not in the text: %s" % line)
        for row in text.splitlines():
            check("\x1b" not in row, "a control character")


@test("a plan runs nothing and leaves nothing")
def _():
    with Place() as place:
        atoll(place, "run", "--plan", "--", "touch", "made")
        check(not os.path.exists(place.ws + "/made"), "the command ran")
        same(read(place.ws + "/f"), b"one line\n", "f")


main()
