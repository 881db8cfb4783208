# SPDX-License-Identifier: Apache-2.0
"""
Descriptors of the host inside: which process holds which, and steps that ask for one by a way of /proc

doc/threat-model.md, "Descriptors that processes inside may hold", has the list that audit() holds processes to. Root looks into
its own sandboxes and into those of an ordinary user; a user cannot look into processes that are not dumpable, and tries the ways only.
"""

import base64
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "functional"))
from lib import *
from serving import *
from v1 import V1
from watching import *

NUMBERS = range(0, 65)
SOMEBODY = 61017  # an id without an account, for sandboxes of an ordinary user that root looks into

# By other ways than /proc/self/fd/N; each leads to a directory on a kernel that follows it.
WAYS = ["/proc/self/root", "/proc/self/cwd", "/proc/thread-self/root", "/proc/1/root", "/proc/1/cwd", "/proc/2/cwd", "/proc/self/root/usr",
        "/proc/self/../1/root", "/proc/self/task/../root"]


def number_ways(n):
    return ["/proc/self/fd/%d" % n, "/proc/thread-self/fd/%d" % n, "/dev/fd/%d" % n, "/proc/1/fd/%d" % n, "/proc/2/fd/%d" % n]


# ---- what a process holds

def status_of(pid):
    with open("/proc/%d/status" % pid) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def below(pid):
    found = [pid]
    for child in children(pid):
        found += below(child)
    return found


def number_inside(pid):
    """In the innermost namespace, or 0 for a process of the host."""
    numbers = status_of(pid)["NSpid"].split()
    return int(numbers[-1]) if len(numbers) > len(status_of(os.getpid())["NSpid"].split()) else 0


def inside(pid):
    """All processes of the sandboxes beneath a process of the host."""
    found = []
    for process in below(pid):
        with contextlib.suppress(OSError):
            if number_inside(process):
                found.append(process)
    return found


def descriptors(pid):
    """(number, where it leads, is that reachable in the process's root, flags)"""
    with open("/proc/%d/mountinfo" % pid) as file:
        reachable = {line.split()[0] for line in file}
    for number in sorted(map(int, os.listdir("/proc/%d/fd" % pid))):
        with contextlib.suppress(FileNotFoundError):
            link = os.readlink("/proc/%d/fd/%d" % (pid, number))
            with open("/proc/%d/fdinfo/%d" % (pid, number)) as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
            yield number, link, fields["mnt_id"].strip() in reachable, int(fields["flags"], 8)


def is_nowhere(link):
    """Nothing that has a name in a tree."""
    return link.startswith(("pipe:", "socket:", "anon_inode:", "/memfd:"))


def is_layer_of_pid_1(pid, number, flags):
    """The layer's own directory, on a mount that has nothing else, to count what is in it; only named, not opened."""
    return flags & os.O_PATH and set(os.listdir("/proc/%d/fd/%d" % (pid, number))) <= {"upper", "work"}


def strange(pid):
    """Descriptors that this process of a sandbox may not hold."""
    first, name = number_inside(pid) == 1, read("/proc/%d/comm" % pid).decode().strip()
    found = []
    for number, link, is_reachable, flags in descriptors(pid):
        if is_nowhere(link) or (is_reachable and (name != "atoll-init" or link.startswith("/dev/pts/"))):
            continue
        if first and (is_reachable or link == "/run/atoll/ids" or is_layer_of_pid_1(pid, number, flags)):
            continue
        found.append("%s %d: %d -> %s%s" % (name, pid, number, link, "" if is_reachable else " (of the host)"))
    return found


@contextlib.contextmanager
def gone_meanwhile():
    """A process that ends while it is looked at has no files in /proc, or no mounts (EINVAL)."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ESRCH, errno.EINVAL):
            raise


def commands(top, name=b"sleep"):
    """How many run beneath it: what is being set up is not looked at."""
    found = 0
    for pid in inside(top):
        with contextlib.suppress(OSError):
            found += read("/proc/%d/comm" % pid).strip() == name
    return found


def audit(top, sleeping):
    """No process inside the sandboxes beneath `top` holds what it may not; so many commands sleep there."""
    check(until(lambda: commands(top) >= sleeping), "there are only %d commands" % commands(top))
    found, names = [], []
    for pid in inside(top):
        with gone_meanwhile():
            found += strange(pid)
            names.append(read("/proc/%d/comm" % pid).decode().strip())
            root = os.stat("/proc/%d/root" % pid)
            check((root.st_dev, root.st_ino) != (os.stat("/").st_dev, os.stat("/").st_ino), "the host's root is that of %d" % pid)
            check(os.readlink("/proc/%d/cwd" % pid).startswith("/"), "the working directory of %d" % pid)
    same(found, [], "descriptors that nobody inside may hold")
    return names


def caller_streams():
    """A directory of the host as standard input of whoever starts atoll."""
    return os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@test("run: pid 1, the keeper and the command hold nothing of the host's, whatever the caller had open")
def _():
    need_root()
    for mode in ("layer", "direct", "read-only"):
        with Place() as place:
            top = caller_streams()
            job = start(place, ["--hide", "**/*.pem", "--allow", "127.0.0.1"], "echo >up; sleep 1000", mode=mode, stdin=top)
            try:
                names = audit(job.pid, 1)
                same(names[0], "atoll-init", "the first")
            finally:
                job.kill()
                os.close(top)
            place.expect("up")


@test("run on a terminal: the same, where the command is forked later")
def _():
    need_root()
    with Place() as place:
        master, slave = os.openpty()
        job = start(place, ["--tty"], "sleep 1000", stdin=slave)
        try:
            audit(job.pid, 1)
        finally:
            job.kill()
            os.close(master)
            os.close(slave)


def user_run(place, *words, program=True, **more):
    """atoll for an ordinary user, by root; or another program."""
    home = os.path.join(place.tmp, "somebody")
    if not os.path.isdir(home):
        os.makedirs(home + "/ws")
        make_repository(home + "/ws")
        for where, names, files in os.walk(home):
            for name in [where] + [os.path.join(where, file) for file in names + files]:
                os.chown(name, SOMEBODY, SOMEBODY, follow_symlinks=False)
    for where in (place.base, place.tmp):
        os.chmod(where, os.stat(where).st_mode | 0o711)
    return subprocess.Popen([ATOLL, *words] if program else words, cwd=home + "/ws", user=SOMEBODY, group=SOMEBODY, extra_groups=[],
                            env={"HOME": home, "PATH": HOST_PATH, "TMPDIR": home}, **more)


def holder_of(place, name):
    """The process that holds a sandbox, by its store."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if read("/proc/%s/comm" % pid).strip() != b"atoll-hold":
                continue
            if any(os.readlink("/proc/%s/fd/%s" % (pid, fd)).startswith(place) for fd in os.listdir("/proc/%s/fd" % pid)):
                return int(pid)
    raise Failed("nobody holds " + name)


@test("run, create and exec of an ordinary user: the same")
def _():
    need_root()
    with Place() as place:
        top = caller_streams()
        job = user_run(place, "run", "--hide", "**/*.pem", "--", "sleep", "1000", stdin=top)
        try:
            audit(job.pid, 1)
        finally:
            job.kill()
            job.wait()
        same(user_run(place, "create", "--name", "one", stdout=subprocess.DEVNULL).wait(60), 0, "create")
        step = user_run(place, "exec", "one", "--", "sleep", "1000", stdin=top)
        try:
            check(until(lambda: holds(place.tmp, "one")), "the sandbox does not start")
            holder = holder_of(place.tmp, "one")
            audit(holder, 1)
            kill_template(holder)
            again = user_run(place, "exec", "one", "--", "sleep", "1000", stdin=top)
            audit(holder, 2)
            again.kill()
            again.wait()
        finally:
            step.kill()
            step.wait()
            os.close(top)
            same(user_run(place, "rm", "--force", "one").wait(60), 0, "rm")


def holds(where, name):
    try:
        return bool(holder_of(where, name))
    except Failed:
        return False


def kill_template(holder):
    """As a process inside may: the next one is forked by pid 1 with all that pid 1 holds."""
    first = next(pid for pid in inside(holder) if number_inside(pid) == 1)
    template = next(pid for pid in children(first) if read("/proc/%d/comm" % pid).strip() == b"atoll-init")
    os.kill(template, signal.SIGKILL)
    check(until(lambda: template not in children(first)), "the template lives")


@test("create and exec: pid 1, each template and the steps hold nothing of the host's, also after a checkpoint and a rollback")
def _():
    need_root()
    need_layers()
    with Place() as place:
        same(atoll(place, "create", "--name", "one").status, 0, "create")
        top = caller_streams()
        try:
            step = Running(place, [ATOLL, "exec", "one", "--", "sleep", "1000"], stdin=top)
            check(until(lambda: holds(place.home, "one")), "the sandbox does not start")
            holder = holder_of(place.home, "one")
            audit(holder, 1)
            kill_template(holder)
            other = Running(place, [ATOLL, "exec", "--tty", "one", "--", "sleep", "1000"])
            audit(holder, 2)
            other.kill()
            same(atoll(place, "checkpoint", "one", "first").status, 0, "checkpoint")
            audit(holder, 1)
            step.kill()
            same(atoll(place, "exec", "one", "--", "sh", "-c", "echo x >made").status, 0, "another step")
            same(atoll(place, "rollback", "one", "first").status, 0, "rollback")
            late = Running(place, [ATOLL, "exec", "one", "--", "sleep", "1000"])
            check(until(lambda: holds(place.home, "one")), "the sandbox does not start again")
            audit(holder_of(place.home, "one"), 1)
            late.kill()
        finally:
            os.close(top)
            same(atoll(place, "rm", "--force", "one").status, 0, "rm")


@test("a daemon: boxes, parked ones, forks, restored ones and the guest hold nothing of the host's")
def _():
    need_root()
    need_layers()
    with V1() as daemon:
        box = daemon.box()
        daemon.start_step(box, "sleep", "1000")
        fork = daemon.want(201, "POST", "/v1/sandboxes/%s/fork" % box, {})["items"][0]["sandbox"]["id"]
        daemon.start_step(fork, "sleep", "1000")
        paused = daemon.box()
        daemon.want(200, "POST", "/v1/sandboxes/%s/pause" % paused, {})
        daemon.want(200, "POST", "/v1/sandboxes/%s/resume" % paused, {})
        daemon.start_step(paused, "sleep", "1000")
        daemon.want(200, "GET", "/v1/sandboxes/%s/files/list?path=/tmp" % box)
        check(until(lambda: len(daemon.holders()) >= 4), "no box is parked beside the three")
        busy = [holder for holder in daemon.holders() if commands(holder)]
        same(len(busy), 3, "boxes with a command")
        for holder in busy:
            kill_template(holder)
        for one in (box, fork, paused):
            daemon.start_step(one, "sleep", "1000")
        for holder in busy:
            audit(holder, 2)
        names = []
        for holder in daemon.holders():
            names += audit(holder, 0)
        check("guest" in names, "no guest among %s" % names)


@test("a step without input does not change who owns the host's /dev/null, and cannot change its mode")
def _():
    need_root()
    need_layers()
    with V1() as daemon:
        box = daemon.box()
        mode = os.stat("/dev/null").st_mode & 0o7777
        step = daemon.run(box, "sh", "-c", "cat; chmod %o /dev/null || echo refused; stat -L -c %%t:%%T /proc/self/fd/0" % mode)
        after = os.stat("/dev/null")
        # By the ids of this daemon's boxes: another one on the machine may be of an older build.
        for holder in daemon.holders():
            for first in [pid for pid in inside(holder) if number_inside(pid) == 1]:
                for line in read("/proc/%d/uid_map" % first).decode().splitlines():
                    _, start_id, count = map(int, line.split())
                    check(not start_id <= after.st_uid < start_id + count, "/dev/null of the host belongs to id %d, which is a box's" % after.st_uid)
        same(after.st_mode & 0o7777, mode, "the mode of the host's /dev/null")
        same(out(step), b"refused\n1:3\n", "what the step saw")


# ---- ways of /proc as a working directory and as a program

def tried(ways, attempt):
    """Those ways that led somewhere."""
    return [(way, said) for way in ways for said in [attempt(way)] if said]


@test("run: a working directory by a way of /proc is refused, every number, directly and through links")
def _():
    with Place() as place:
        if BARE:
            ways = ["/proc/self/fd/%d" % n for n in (0, 3, 4, 17, 200)] + WAYS[:4]
        else:
            ways = [way for n in (*range(0, 33), 200) for way in number_ways(n)[:1]] + WAYS
            ways += [way for n in (3, 17) for way in number_ways(n)[1:]]

        def attempt(way):
            result = run(place, ["--chdir", way], ["/bin/sh", "-c", "echo inside; pwd -P"], starts=False)
            return result.out if result.status == 0 else None
        same(tried(ways, attempt), [], "ways that were followed")
        for n in (0, 3, 17, 200):
            os.symlink("/proc/self/fd/%d" % n, os.path.join(place.ws, "to-%d" % n))
            place.expect("to-%d" % n)
        same(tried([os.path.join(place.ws, "to-%d" % n) for n in (0, 3, 17, 200)], attempt), [], "links that were followed")
        result = run(place, ["--chdir", place.ws + "/src"], ["/bin/sh", "-c", "pwd -P"])
        same(result.out, place.ws + "/src\n", "a directory of the workspace")


@test("create and exec: a step's directory and program by a way of /proc, every number, by the first template and the next")
def _():
    need_layers()
    with Place() as place:
        same(atoll(place, "create", "--name", "one", "--hide", place.ws + "/f").status, 0, "create")

        def step(*words):
            return atoll(place, "exec", *words)

        def attempt(way):
            result = step("--chdir", way, "one", "--", "/bin/sh", "-c", "echo inside; pwd -P; ls")
            return result.out if result.status == 0 else None

        def program(way):
            result = step("one", "--", way, "-c", "echo inside")
            return result.out if "inside" in result.out else None

        try:
            step("one", "--", "sh", "-c", "mkdir d; ln -s /usr d/usr; ln -s ../src d/src; for n in $(seq 0 64); do ln -s /proc/self/fd/$n to-$n; done; sleep 1000 >/dev/null 2>&1 &")
            for which in ("first", "next"):
                ways = ["/proc/self/fd/%d" % n for n in NUMBERS] + WAYS + [place.ws + "/to-%d" % n for n in range(3, 33, 2)]
                ways += [way for n in (3, 9, 14) for way in number_ways(n)[1:]]
                same(tried(ways, attempt), [], "ways that were followed by the %s template" % which)
                same(tried(["/proc/self/fd/%d%s" % (n, end) for n in range(0, 33) for end in ("/bin/sh", "/bash")], program), [],
                     "programs that were found by the %s template" % which)
                # The one after it is forked by pid 1, with whatever that holds.
                step("one", "--", "sh", "-c", "kill -9 2; kill -9 $(ps -eo pid,comm 2>/dev/null | awk '/atoll-init/ && $1 != 1 {print $1}')")
            for path, there in ((place.ws + "/d/usr", "/usr"), (place.ws + "/d/src", place.ws + "/src"), ("d", place.ws + "/d")):
                result = step("--chdir", path, "one", "--", "pwd", "-P")
                same(result.out, there + "\n", "an ordinary way: " + path)
            same(step("--env", "PATH=/proc/self/fd/9/bin:/proc/self/fd/13/usr/bin", "one", "--", "sh", "-c", "echo inside").status, 127, "by PATH")
        finally:
            same(atoll(place, "rm", "--force", "one").status, 0, "rm")


@test("create and exec: no number of a descriptor leads a step of a later template to a hidden file")
def _():
    need_layers()
    kill = "for p in /proc/[0-9]*; do case $(cat $p/comm) in atoll-init) kill -9 ${p#/proc/};; esac; done 2>/dev/null; true"
    for mode in ("layer", "direct", "read-only"):
        with Place() as place:
            hidden = write(place.ws + "/hidden.txt", "hidden text\n")
            place.settle()
            same(atoll(place, "create", "--mode", mode, "--name", "one", "--hide", hidden).status, 0, "create")
            try:
                seen = []
                for n in range(3, 33):
                    # pid 1 forks the next template, which holds what pid 1 holds. A command cannot kill pid 1.
                    atoll(place, "exec", "one", "--", "sh", "-c", kill)
                    result = atoll(place, "exec", "--chdir", "/proc/self/fd/%d" % n, "one", "--", "/bin/cat", "hidden.txt", "." + hidden)
                    if "hidden text" in result.out:
                        seen.append(n)
                same(seen, [], "%s: descriptors by which the hidden file was read" % mode)
                same(atoll(place, "exec", "one", "--", "cat", "f").status, 0, "an ordinary step afterwards")
            finally:
                same(atoll(place, "rm", "--force", "one").status, 0, "rm")


@test("a daemon: steps, jobs, E2B's processes, contexts, templates and volumes, directly and through links")
def _():
    need_layers()
    with V1() as daemon:
        box = daemon.box()
        home = out(daemon.run(box, "sh", "-c", "cd; pwd; for n in $(seq 0 64); do ln -s /proc/self/fd/$n to-$n; done")).decode().strip()

        def step(way, **more):
            status, body, _ = daemon.call("POST", "/v1/sandboxes/%s/steps" % box,
                                          {"command": ["/bin/sh", "-c", "echo inside; pwd -P; ls"], "wait": 60, "cwd": way, **more})
            return status == 201 and b"inside" in out(body) and out(body)

        ways = ["/proc/self/fd/%d" % n for n in NUMBERS] + ["%s/to-%d" % (home, n) for n in NUMBERS] + WAYS
        ways += [way for n in range(3, 20) for way in number_ways(n)[1:]]
        same(tried(ways, step), [], "steps")
        if IS_ROOT:
            same(tried(ways[:40] + WAYS, lambda way: step(way, user="root")), [], "steps of root inside")
        check(step("/usr/lib"), "a step in an ordinary directory")

        def program(way):
            status, body, _ = daemon.call("POST", "/v1/sandboxes/%s/steps" % box, {"command": [way, "-c", "echo inside"], "wait": 60})
            return status == 201 and b"inside" in out(body) and str(body)
        same(tried(["/proc/self/fd/%d%s" % (n, end) for n in NUMBERS for end in ("/bin/sh", "/bash")], program), [], "programs")

        def job(way):
            status, body, _ = daemon.call("POST", "/v1/jobs", {"command": ["/bin/sh", "-c", "echo inside; ls"], "cwd": way})
            if status != 201:
                return None
            path = "/v1/jobs/" + body["id"]
            until(lambda: daemon.call("GET", path)[1].get("state") not in ("running", "starting", "queued"))
            return b"inside" in daemon.call("GET", path + "/output")[1] if status == 201 else None
        same(tried(["/proc/self/fd/%d" % n for n in range(0, 24)] + WAYS[:3], job), [], "jobs")


def out(step):
    return base64.b64decode(step["out"]["data"])


@test("E2B: a process, a context of the interpreter, a template's directory and a volume's link")
def _():
    need_layers()
    with Daemon() as daemon:
        status, volume, _ = daemon.call("POST", "/volumes", {"name": "v"})
        same(status, 201, "a volume: %s" % volume)
        box = daemon.create(timeout=120, volumeMounts=[{"name": "v", "path": "/mnt/v"}])
        made = daemon.run(box, "for n in $(seq 0 40); do ln -s /proc/self/fd/$n ~/to-$n; ln -s /proc/self/fd/$n /mnt/v/to-$n; done; ls ~ | wc -l; ls /mnt/v | wc -l")
        same(made.out.split(), [b"41", b"0"], "links in the home, and out of the volume: %s" % made.err)
        ways = ["/proc/self/fd/%d" % n for n in NUMBERS] + WAYS + ["~/to-%d" % n for n in range(0, 41)]

        def process(way):
            result = daemon.run(box, "echo inside; pwd -P; ls", cwd=way)
            return result.out if b"inside" in result.out else None
        same(tried(ways, process), [], "processes")

        def context(way):
            status, body, _ = daemon.call("POST", "/contexts", {"cwd": way}, box=box, port=49999)
            if status not in (200, 201):
                return None
            lines = daemon.call("POST", "/execute", {"code": "import os\nos.listdir('.')", "context_id": body["id"]}, box=box, port=49999)[1]
            daemon.call("DELETE", "/contexts/" + body["id"], box=box, port=49999)
            return lines if b'"result"' in lines else None
        same(tried(["/proc/self/fd/%d" % n for n in (*range(0, 12), 17)] + ["~/to-3", "/proc/self/root"], context), [], "contexts")

    with Daemon() as daemon:
        for number, way in enumerate(("/proc/self/fd/3", "/proc/self/fd/9", "/proc/self/root/usr", "/home/user/app")):
            status, asked, _ = daemon.call("POST", "/v3/templates", {"name": "t%d" % number})
            same(status, 202, "a template: %s" % asked)
            path = "/v2/templates/%s/builds/%s" % (asked["templateID"], asked["buildID"])
            steps = [{"type": "RUN", "args": ["ln -s /proc/self/fd/9 /home/user/app"]}, {"type": "WORKDIR", "args": [way]},
                     {"type": "RUN", "args": ["pwd -P; ls; echo inside"]}]
            daemon.call("POST", path, {"fromTemplate": "base", "steps": steps})
            path = "/templates/%s/builds/%s/status" % (asked["templateID"], asked["buildID"])
            until(lambda: daemon.call("GET", path)[1]["status"] in ("ready", "error"))
            told = daemon.call("GET", path)[1]
            check(told["status"] == "error", "a template in %s: %s" % (way, told))


# ---- descriptors of the caller

def is_passed_on(number):
    try:
        return os.get_inheritable(number)
    except OSError:
        return False


@test("--fd names a descriptor of the caller, never one of the supervisor's own")
def _():
    with Place() as place:
        for n in [n for n in range(3, 40) if n not in CALLER_FDS and not is_passed_on(n)]:
            result = run(place, ["--fd", n], "ls -l /proc/self/fd", starts=False)
            same((result.status, "descriptor %d" % n in result.err), (BAD_REQUEST, True), "--fd %d, which the caller has not open: %s" % (n, result.out))
        reads, writes = os.pipe()
        same(run(place, ["--fd", "9"], "echo through >&9", fds={9: writes}).status, 0, "one of the caller's")
        os.close(writes)
        same(os.read(reads, 100), b"through\n", "what came through")
        os.close(reads)


# ---- without namespaces

@test("bare: the command's process holds its streams and what the contract names, the guard nothing of the caller's")
def _():
    with Place() as place:
        result = run(place, [], inside_py("""
            for fd in sorted(os.listdir("/proc/self/fd"), key=int):
                try:
                    print("fd", fd, os.readlink("/proc/self/fd/" + fd))
                except OSError:
                    pass
        """))
        found = [line.split()[1:] for line in result.out.splitlines() if line.startswith("fd ")]
        same([line for line in found if int(line[0]) > 2 and not line[1].startswith("/proc/")], [], "what the command holds")
        check(all(line[1].startswith("pipe:") for line in found if int(line[0]) < 3), "the streams: %s" % found)


def bare_strange(pid):
    """Without namespaces the guard stands among the host's files: it may name writable roots (O_PATH), read /proc and write /dev/null."""
    found = []
    for number, link, _, flags in descriptors(pid):
        is_own = link.startswith("/proc") or (link == "/dev/null" and number > 2) or (flags & os.O_PATH and link != "/")
        if not (is_nowhere(link) or is_own or "/atoll-" in link):
            found.append("%s: %d -> %s" % (read("/proc/%d/comm" % pid).decode().strip(), number, link))
    return found


@test("bare: warden, guard and command of an ordinary user, whatever the caller had open")
def _():
    need_root()
    with Place() as place:
        words = [PYTHON, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bare.py"), "1", "/bin/sh", "-c",
                 'exec "$0" "$@" </ 3</ 7</usr', ATOLL, "run", "--mode", "direct"]
        words += [word for weaker in bare.WORDS for word in ("--accept-weaker", weaker)] + ["--", "sleep", "1000"]
        job = user_run(place, *words, program=False, stdin=subprocess.DEVNULL)
        try:
            def named(name):
                return [pid for pid in below(job.pid) if read("/proc/%d/comm" % pid).strip() == name]
            check(until(lambda: named(b"sleep")), "the command does not run")
            for name in (b"atoll-warden", b"atoll-init", b"sleep"):
                # The guard opens for the command what that may read, and closes it.
                check(until(lambda: not [line for pid in named(name) for line in bare_strange(pid)], 5),
                      "it holds %s" % [bare_strange(pid) for pid in named(name)])
                check(named(name), "there is no %s" % name)
        finally:
            job.kill()
            job.wait()


# ---- helpers of the host's side

# Egress is started by the first connection.
CONNECT = """
import socket, time
try:
    socket.create_connection(("example.com", 80), 5)
except OSError:
    pass
time.sleep(1000)
"""


@test("egress and the monitor hold sockets, pipes and /dev/null, no directory and no file")
def _():
    need_root()
    with Place() as place, Service(lambda _: verdict("allow")) as service:
        job = {"command": [PYTHON, "-c", CONNECT], "network": {"allow": ["example.com"]},
               "audit": {"monitor": {"url": service.url, "model": "m-1", "interval": "200ms", "timeout": "5s"}}}
        running = start(place, ["-f", job_file(place, job)], None, env=state_of(place), stdin=None)
        try:
            def helpers():
                found = {}
                for pid in below(running.pid):
                    with contextlib.suppress(OSError):
                        name = read("/proc/%d/comm" % pid).decode().strip()
                        if name in ("atoll-egress", "atoll-monitor"):
                            found[name] = pid
                return found
            check(until(lambda: len(helpers()) == 2), "helpers: %s" % helpers())
            check(until(lambda: all(status_of(pid)["Seccomp"] == "2" for pid in helpers().values())), "not locked in")
            for name, pid in helpers().items():
                held = [link for _, link, _, _ in descriptors(pid) if not is_nowhere(link)]
                same([link for link in held if link != "/dev/null"], [], "what %s holds" % name)
                check(not [fd for fd in os.listdir("/proc/%d/fd" % pid) if int(fd) in CALLER_FDS[1:]], "%s has a descriptor of the caller's" % name)
        finally:
            running.kill()


@test("the archive program holds the archive, the directory to fill and its answer")
def _():
    need_root()
    with Place() as place:
        reads, writes = os.pipe()
        job = Running(place, [ATOLL, "import", "--to", os.path.join(place.tmp, "made"), "-"], stdin=reads)
        try:
            def archive():
                for pid in below(job.pid):
                    with contextlib.suppress(OSError):
                        if read("/proc/%d/comm" % pid).strip() == b"atoll-archive":
                            return pid
                return None
            check(until(archive), "no atoll-archive: %s" % job.argv)
            check(until(lambda: status_of(archive())["Seccomp"] == "2" or job.process.poll() is not None), "not locked in")
            held = [(number, link) for number, link, _, _ in descriptors(archive()) if not is_nowhere(link)]
            check(all(link == "/dev/null" or link.startswith(place.tmp) or number < 3 for number, link in held) and
                  all(number < 8 for number, _ in held), "what it holds: %s" % held)
        finally:
            os.close(writes)
            os.close(reads)
            job.kill()


main()
