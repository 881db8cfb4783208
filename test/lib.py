# SPDX-License-Identifier: Apache-2.0
"""
What the tests of the whole program share: fixtures, running atoll, and looking from the host side

    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    from lib import *

    @test("FS-W02 symlink leaf in the workspace")
    def _():
        with Place() as place:                       # fresh directories, checked when left
            place.expect("l")                        # what the attack may leave in the workspace
            result = run(place, ["--read", place.out], inside_sh("ln -s $1/canary l; echo x >l", place.out))
            check(result.status != 0, "the write came through")

    main()                                           # last line: runs the tests in order

Started as `ATOLL=build/atoll /usr/bin/python3 test/security/test_x.py [part of a name]...`, as root and as an
ordinary user; a part that no name contains is an error (status 2). One line per test: `ok NAME`, `not ok NAME` (then details on lines that start with `# `), `skip NAME:
what is missing`; at the end `N passed, N failed, N skipped`; status 1 if one failed. With ATOLL_TIMES=1 also what each test cost.

Place    `ws` workspace: a git repository with one commit (files f, README.md, src/a.c); also the current directory of run()
         `out` a directory outside every grant: `canary` (random bytes), `secret.txt`. World-writable on purpose: only
         the sandbox may be what stops a write, not the mode, also when root's sandbox runs under another id
         `home` a throw-away home full of secrets (SECRETS lists them), world-readable for the same reason
         `mark` a path that no planted command may ever create; `secret` the text in every secret
         settle() after preparing more on the host: from then on that is the state to be kept
         `tmp` scratch for the host's side of a test; `name("/etc")` a unique path that must not come to exist
    Leaving it checks: out, home and mark unchanged; nothing new in ws but what expect() named, owned by ws's owner,
    without set-id bits or capabilities; no process, mount, or file in /tmp and friends left; all of it can be deleted.
    Place(strict=False) leaves out the checks of out, home and mark: for showing that an attack works when allowed.
    Place(on_disk=True) lies in ATOLL_DISK, if that is set: TMPDIR may be memory, which counts as that. Place(where="/tmp") lies there.

run()    `$ATOLL run FLAGS -- COMMAND` in ws with HOME=home, waits. The workspace is written directly, so that a test sees what was
         done; unless the flags or the job file say how it is written, or mode= does: "layer" (then need_layers()), "read-only", or
         "default" for what holds if nobody says. The descriptors 3, 17 and 200 are open on `/` in the
         caller, always; `fds={9: fd}` adds more. Returns a Result: status, out, err, tries, refusals. place.secret in
         the output fails the test, unless leaks=True; a run that atoll refused to start (status 240-242, 246) fails it, unless
         starts=False: what did not run shows nothing. start() is the same without waiting; end it with .wait() or .kill().
    Commands: a list; inside_sh(script, args...): sh -c with $1...; inside_py(code, args...): python with a small
    prelude (INSIDE below), where `attempt("label", lambda: ...)` prints a line that result.tries["label"] gives back:
    "ok", an errno's name, or "exit N"/"signal N" with attempt_child().

build_c()  compiles a C program into the workspace, for attacks that Python is too slow for.
plain()  runs a command without atoll, to show that an attack works; for root the rest of the machine is read-only then.
both()   "refused with the rule, allowed without it": the same attack twice, each on a fresh Place. See there.
job_file()  writes a job file, from text or a dict, for run(place, ["-f", path], None).
hostgit()  git status, diff and log as the host's user in every repository of ws; then `mark` must not exist.
Sink     listeners on 127.0.0.1 and ::1 (TCP, UDP), a unix socket by path and an abstract one; logs what arrives.
skip(), need("git"), need_root(), need_user()   a test that cannot be tried is skipped by name, never passed; once() is for what
         one of root and a user has to try.
Residue  what a machine looked like before; .found() lists what is new since: processes, mounts, files, IPC, sockets, groups.
bare.py  the same tests on a host without user namespaces (ATOLL_BARE=1), and what cannot hold there.
processes_left()   waits for their end; the processes that runs have left behind, which should be none.
check(), same(), among(), until()               assertions with a message; waiting for an event.

No test is timed: that something was quick is shown by an order (it was done while another still waited), or by a bound far above
what it takes and far below what the mistake would take. What a run must have begun before a limit ends it: in_time(). What
depends on when the kernel lets somebody run, such as how far an attack gets before a limit sees it: at_best().
"""

import contextlib
import ctypes
import errno
import fcntl
import fnmatch
import glob
import hashlib
import io
import json
import os
import pwd
import re
import resource
import secrets as _random
import selectors
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import bare

BARE = os.environ.get("ATOLL_BARE")  # a host without user namespaces; see bare.py
# Tests change their directory: a relative path means the directory that the file was started in.
os.environ.update({name: os.path.abspath(os.environ[name]) for name in ("ATOLL", "ATOLL_BUILD", "ATOLL_ROOT") if os.environ.get(name)})
ATOLL = os.environ.get("ATOLL") or os.path.abspath(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "atoll"))
MODE = os.environ.get("ATOLL_MODE") or "direct"  # how the workspace is written where a test does not say
ATOLL_RUN = [ATOLL, "run", "--mode", MODE, *bare.flags([])]  # for tests that start it themselves
IS_ROOT = os.geteuid() == 0
IS_SANITIZED = "ASAN_OPTIONS" in os.environ
DISK = os.environ.get("ATOLL_DISK")
PYTHON = "/usr/bin/python3"
HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHARED_PLACES = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/etc", "/usr/local/bin", "/opt", "/var/lib", "/srv", "/home",
                 "/root", "/"]
CALLER_FDS = (3, 17, 200)
SLOW = float(os.environ.get("ATOLL_SLOW") or 1)  # how many times as long things take here, such as on an emulated machine
# How long to wait for what must happen, and for the end of a run. They are for what never comes: a machine that is busy may
# stand still for seconds, so no test fails because something took a while.
PATIENCE = 30
RUN_SECONDS = 120 * SLOW
TEST_SECONDS = 300 * SLOW

# Exit statuses of `atoll run` that are not the command's.
BAD_REQUEST, POLICY, HOST_CANNOT, TIMED_OUT, OUT_OF_MEMORY, OVER_LIMIT, INTERNAL = range(240, 247)
NOT_STARTED = (BAD_REQUEST, POLICY, HOST_CANNOT)
REFUSED = (BAD_REQUEST, POLICY)  # for a reason that lies in the request: what a test of a bad request wants to see

# What a refusal may look like from inside.
DENIED = ("EPERM", "EACCES", "EROFS")
GONE = DENIED + ("ENOENT", "ENOTDIR", "EXDEV", "ELOOP")

SECRETS = [
    ".ssh/id", ".ssh/id_ed25519", ".ssh/known_hosts", ".aws/credentials", ".config/gcloud/credentials.db", ".kube/config",
    ".docker/config.json", ".netrc", ".npmrc", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".config/gh/hosts.yml",
    ".gnupg/secring.gpg", ".gnupg/private-keys-v1.d/key", ".password-store/mail.gpg", ".mozilla/firefox/p/logins.json",
    ".config/google-chrome/Default/Cookies", ".bash_history", ".git-credentials", ".bashrc", ".gem/credentials",
    ".terraform.d/credentials.tfrc.json", ".config/op/config", ".local/share/keyrings/login.keyring", ".azure/token.json",
    ".claude/.credentials.json", ".codex/auth.json", ".m2/settings.xml", ".gradle/gradle.properties",
]


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


def same(got, wanted, what):
    check(got == wanted, "%s: %r, expected %r" % (what, got, wanted))


def among(got, wanted, what):
    check(got in wanted, "%s: %r, expected one of %s" % (what, got, ", ".join(map(str, wanted))))


def skip(what):
    raise Skipped(what)


def need(*tools):
    """The host must have these programs where the sandbox can see them. A tool that the host has and the sandbox lacks
    is a failure of the test that uses it, not a reason to skip it."""
    for tool in tools:
        if not shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin"):
            skip("no %s on this host" % tool)


def leave_mounts():
    """Mount where nobody else sees it: other tests look for what is left behind."""
    if os.readlink("/proc/self/ns/mnt") == os.readlink("/proc/%d/ns/mnt" % os.getppid()):
        check(ctypes.CDLL(None, use_errno=True).unshare(0x20000) == 0, "unshare")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def need_root():
    if not IS_ROOT:
        skip("root")


def need_user():
    if IS_ROOT:
        skip("an ordinary user")


def once(as_root):
    """Where root and a user both run a file (ATOLL_HALF), what takes long and is the same for both is tried by one of them; and,
    if the sanitizers see it at all, with those."""
    if os.environ.get("ATOLL_HALF") and not os.environ.get("ATOLL_LONG") and IS_ROOT != as_root and not IS_SANITIZED:
        skip("once is enough: as %s" % ("root" if as_root else "an ordinary user"))


def need_layers():
    if BARE:
        skip("user namespaces: without them there are no layers")


def until(condition, seconds=PATIENCE, pause=0.01):
    """Wait until condition() is true; its value, or the last false one. What costs much to look at, with a longer pause."""
    deadline = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(pause)


def lasting(look):
    """What look() still lists after waiting for it to list nothing. Looking once more afterwards would find what others have
    just begun."""
    listed = []

    def is_clean():
        listed[:] = look()
        return not listed
    until(is_clean)
    return listed


# ---- processes of this test -----------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what a run leaves behind becomes our child, so that we see it
_root_fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
for _n in CALLER_FDS:  # keep these numbers from being taken by something that subprocess needs
    try:
        os.fstat(_n)
    except OSError:
        os.dup2(_root_fd, _n)
# The usual descriptors of a caller come to a run by themselves then: what is to be done in a child needs a copy of this whole process
# for it, which costs more than the start of atoll.
_are_ours = all(os.path.samestat(os.fstat(_n), os.fstat(_root_fd)) for _n in CALLER_FDS)
if _are_ours:
    for _n in CALLER_FDS:
        os.set_inheritable(_n, True)


_live = []  # runs that nobody has waited for yet


def descendants():
    """Living descendants of this process, but for runs that are still wanted: {pid: name}."""
    wanted = {running.process.pid for running in _live}
    found, above = {}, [os.getpid()]
    while above:
        for pid in children(above.pop()):
            state, name = _state_and_name(pid)
            if state not in "ZX" and pid not in wanted:
                found[pid] = name
                above.append(pid)
    return found


def children(pid):
    """The process ids of a process's children, whichever of its threads has them. The kernel may leave one out if another is waited
    for meanwhile: of ours, which is where orphans come to, only we can."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir("/proc/%d/task" % pid):
            with contextlib.suppress(OSError):
                with open("/proc/%d/task/%s/children" % (pid, thread)) as file:
                    found += map(int, file.read().split())
    return found


def _state_and_name(pid):
    try:
        with open("/proc/%d/stat" % pid, errors="replace") as file:
            text = file.read()
    except OSError:
        return "X", ""
    left, right = text.index("("), text.rindex(")")
    return text[right + 2], text[left + 1:right]


def reap_orphans():
    """Bury adopted children that nobody waits for."""
    kept = {running.process.pid for running in _live}
    for pid in children(os.getpid()):
        if pid not in kept:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def processes_left(seconds=PATIENCE):
    """What runs have left behind: {pid: name}, empty as soon as nothing is."""
    left = {}

    def gone():
        nonlocal left
        reap_orphans()
        left = descendants()
        return not left
    until(gone, seconds)
    return left


# ---- the fixtures ---------------------------------------------------------------------------------------------------

STORE = ".local/state/atoll"  # beneath a home: records of runs in a layer


def snapshot(top):
    """Everything under a directory that a write could change: {path: (kind and mode, uid, gid, links, content)}; but for what atoll
    itself keeps in a home."""
    found = {}

    def look(path, shown):
        st = os.lstat(path)
        if stat.S_ISREG(st.st_mode):
            # The overlay's own work directory has what its owner may not read.
            with open(path, "rb") if os.access(path, os.R_OK) else io.BytesIO() as file:
                content = hashlib.sha256(file.read()).hexdigest()
        elif stat.S_ISLNK(st.st_mode):
            content = os.readlink(path)
        else:
            content = st.st_rdev
        links = st.st_nlink if not stat.S_ISDIR(st.st_mode) else 0
        found[shown] = (oct(st.st_mode), st.st_uid, st.st_gid, links, content)
        if stat.S_ISDIR(st.st_mode) and shown != STORE and os.access(path, os.R_OK | os.X_OK):
            for entry in sorted(os.listdir(path)):
                look(os.path.join(path, entry), os.path.normpath(os.path.join(shown, entry)))

    look(top, ".")
    return found


def _without_store(found):
    """A snapshot of a home without the way to the store."""
    return {path: what for path, what in found.items() if path not in (STORE, os.path.dirname(STORE))}


def difference(before, after):
    """The paths in which two snapshots differ, as text for people."""
    lines = []
    for path in sorted(set(before) | set(after)):
        if before.get(path) != after.get(path):
            lines.append("%s: %s -> %s" % (path, before.get(path, "absent"), after.get(path, "absent")))
    return "; ".join(lines)


def git(where, *args, **options):
    """git on the host, as the host's user, without anybody's global settings."""
    env = {"PATH": HOST_PATH, "HOME": options.pop("home", "/nonexistent"), "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_TERMINAL_PROMPT": "0"}
    return subprocess.run(["git", "-C", where, *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=RUN_SECONDS, text=True, errors="replace", **options)


def make_repository(where):
    """A git repository with one commit."""
    os.makedirs(where, exist_ok=True)
    for name, text in (("f", "one line\n"), ("README.md", "# a workspace\n"), ("src/a.c", "int a;\n")):
        write(os.path.join(where, name), text)
    for args in (["init", "-q", "-b", "main"], ["config", "user.name", "A Tester"], ["config", "user.email", "t@example.org"],
                 ["add", "."], ["commit", "-q", "-m", "first"]):
        done = git(where, *args)
        check(done.returncode == 0, "cannot make a repository: git %s: %s" % (args[0], done.stdout))


def write(path, content="x\n", mode=None):
    """A file on the host, with the directories above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
    if mode is not None:
        os.chmod(path, mode)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


_template = None  # a repository to make again: faster than by git each time


def _repository_in_memory():
    """[(name, mode, content, or None of a directory)], each directory before what lies in it."""
    with tempfile.TemporaryDirectory(prefix="atoll-test-") as where:
        make_repository(where)
        found = []
        for above, directories, files in os.walk(where):
            for name in directories + files:
                path = os.path.join(above, name)
                found.append((os.path.relpath(path, where), os.stat(path).st_mode & 0o7777, None if name in directories else read(path)))
        return found


def _make(path, mode, content):
    """A file, or a directory if there is no content; write() would do as well, in three times the time."""
    if content is None:
        os.mkdir(path, mode)
        return
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    os.write(fd, content)
    os.close(fd)


def _above(names):
    """The directories that these lie in, each after those above it."""
    found = set()
    for name in names:
        while name := os.path.dirname(name):
            found.add(name)
    return sorted(found)


def remove(path):
    """rm -rf that opens directories which a run has closed. Raises if something cannot be removed."""
    def again(function, name, _info):
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(name), 0o700)
            if os.path.isdir(name) and not os.path.islink(name):
                os.chmod(name, 0o700)
        if function in (os.rmdir, os.unlink):
            function(name)
        else:
            remove(name)
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
    else:
        shutil.rmtree(path, onerror=again)


class Place:
    def __init__(self, strict=True, repository=True, on_disk=False, where=None):
        self.strict = strict
        self.where = where or (DISK if on_disk else None)
        self.repository = repository
        self.token = _random.token_hex(6)
        self.secret = "SECRET-" + _random.token_hex(12)
        self.expected = []
        self.runs = []
        self.running = []

    def __enter__(self):
        global _template
        if self.repository and _template is None:
            _template = _repository_in_memory()
        self.base = os.path.realpath(tempfile.mkdtemp(prefix="atoll-test-", dir=self.where))
        os.chmod(self.base, 0o711)
        self.ws, self.out, self.home, self.tmp = (os.path.join(self.base, n) for n in ("ws", "out", "home", "tmp"))
        self.mark = os.path.join(self.base, "mark")
        os.mkdir(self.ws, 0o755)
        for name, mode, content in _template if self.repository else ():
            _make(os.path.join(self.ws, name), mode, content)
        os.mkdir(self.tmp, 0o700)
        write(self.out + "/canary", os.urandom(4096), 0o666)
        write(self.out + "/secret.txt", self.secret + "\n", 0o666)
        os.chmod(self.out, 0o777)
        os.mkdir(self.home, 0o755)
        for name in _above(SECRETS):
            os.mkdir(os.path.join(self.home, name), 0o755)
        for name in SECRETS:
            _make(os.path.join(self.home, name), 0o644, self.secret.encode() + b"\n")
        _make(self.home + "/public.txt", 0o644, b"nothing secret\n")
        self.mounts_before = _mounts()
        self.shared_before = _shared_names()
        self.settle()
        return self

    def settle(self):
        """Take what is there now as the state to be kept: after the host's side of a test has prepared more."""
        self.before = {"out": snapshot(self.out), "home": snapshot(self.home)}
        self.ws_before = set(_names(self.ws))

    def expect(self, *patterns):
        """These may newly exist in the workspace when the test is over (fnmatch; what lies under them, too)."""
        self.expected.extend(patterns)

    def name(self, directory, suffix=""):
        """A path that nobody has, in a directory that is not ours; checked to be absent at the end."""
        return os.path.join(directory, "atoll-test-%s%s" % (self.token, suffix))

    def __exit__(self, kind, _value, _trace):
        wrong = []
        try:
            for running in self.running:
                if running in _live:
                    running.kill()
            wrong += self._check_residue()
            if self.strict:
                wrong += self._check_untouched()
            wrong += self._check_workspace()
        finally:
            try:
                remove(self.base)
            except OSError as error:
                wrong.append("cannot be deleted: %s" % error)
        for line in wrong:
            _details.append("left behind or changed: " + line)
        if wrong and kind is None:
            raise Failed("; ".join(wrong))
        return False

    def _check_untouched(self):
        wrong = []
        for name in ("out", "home"):
            changed = difference(_without_store(self.before[name]), _without_store(snapshot(getattr(self, name))))
            if changed:
                wrong.append("%s changed: %s" % (name, changed))
        if os.path.lexists(self.mark):
            wrong.append("the marker exists: a planted command ran on the host")
        return wrong

    def _check_workspace(self):
        wrong = []
        if not os.path.isdir(self.ws) or os.path.islink(self.ws):
            return ["the workspace is gone"] if "ws" not in self.expected else []
        owner = os.stat(self.ws).st_uid
        for name in _names(self.ws):
            path = os.path.join(self.ws, name)
            st = os.lstat(path)
            if name not in self.ws_before and not self._is_expected(name):
                wrong.append("new in the workspace: %r" % name)
            if st.st_uid != owner:
                wrong.append("%r belongs to uid %d, the workspace to %d" % (name, st.st_uid, owner))
            if stat.S_ISREG(st.st_mode) and st.st_mode & 0o6000:
                wrong.append("%r has mode %o" % (name, st.st_mode))
            if stat.S_ISREG(st.st_mode) and "security.capability" in os.listxattr(path, follow_symlinks=False):
                wrong.append("%r has file capabilities" % name)
        return wrong[:8]

    def _is_expected(self, name):
        while name:
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.expected):
                return True
            name = os.path.dirname(name)
        return False

    def _check_residue(self):
        wrong = []

        for pid, name in processes_left().items():
            wrong.append("process %d (%s)" % (pid, name))
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for line in _mounts() - self.mounts_before:
            if self.base in line or "atoll" in line:
                wrong.append("mount " + line)

        def fresh():
            return [path for path in _shared_names() - self.shared_before
                    if self.token in path or ("atoll" in path and not bare.is_in_use(path) and
                                              not re.search("/atoll-([a-z]+-)?(test|check|bench|vm|life)-|^/run/atoll$", path))]
        for path in lasting(fresh):
            wrong.append("file " + path)
            if self.token in path:
                with contextlib.suppress(OSError):
                    remove(path)
        return wrong


def _names(top):
    """Relative names of all that lies under a directory; git's object store left out."""
    for where, directories, files in os.walk(top):
        below = os.path.relpath(where, top)
        for name in directories + files:
            yield os.path.normpath(os.path.join(below, name))
        directories[:] = [d for d in directories if not (os.path.basename(where) == ".git" and d in ("objects", "logs"))]


def _mounts():
    with open("/proc/self/mountinfo") as file:
        return {" ".join(line.split()[2:]) for line in file}


def _shared_names():
    found = set()
    for where in SHARED_PLACES:
        with contextlib.suppress(OSError):
            found.update(["%s/%s" % (where, name) for name in os.listdir(where)])
    return found


class Residue:
    """What runs may leave on a machine. Take one before; afterwards residue.found() lists what is new, empty if nothing is.

    Processes are those beneath this one: it is a subreaper, so what a run leaves behind comes to it. Mounts, IPC objects,
    sockets that listen, control groups, and names in shared places are compared for the whole machine, but for what other
    tests are known to make; for a strict answer nothing else may run meanwhile ("# check: alone")."""

    def __init__(self):
        self.before = self._look()
        # Also those that seem to be in use: the number of a maker that is long gone may just be somebody else's.
        self.before["control group"] = _groups(of_all=True)

    def _look(self):
        return {"mount": _mounts(), "file": {name for name in _shared_names() if not OTHER_TESTS.search(name) and name != LOCKS},
                "IPC object": _ipc_objects(), "listening socket": _listeners(), "control group": _groups()}

    def found(self):
        def left():
            reap_orphans()
            now = self._look()
            lines = ["%s %s" % (kind, name) for kind in now for name in sorted(now[kind] - self.before[kind])]
            return lines + ["process %d (%s)" % item for item in descendants().items()]
        return lasting(left)


LOCKS = "/run/atoll"  # root's first run after a boot makes it, and it stays: the locks of ids lie there
OTHER_TESTS = re.compile("/(atoll-([a-z]+-)?(test|check|bench|vm|bare)-|tmp)")


def _ipc_objects():
    found = set()
    for kind in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError):
            with open("/proc/sysvipc/" + kind) as file:
                found.update("%s %s" % (kind, line.split()[1]) for line in file.readlines()[1:])
    for where in ("/dev/shm", "/dev/mqueue"):
        with contextlib.suppress(OSError):
            found.update(os.path.join(where, name) for name in os.listdir(where))
    return found


def _listeners():
    found = set()
    for kind in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            with open("/proc/net/" + kind) as file:
                found.update("%s %s" % (kind, line.split()[1]) for line in file if line.split()[3] == "0A")
    with contextlib.suppress(OSError):
        with open("/proc/net/unix") as file:
            rows = [line.split() for line in file]
        # Flag 0x10000: it listens. One without a name cannot be told from another.
        found.update("unix " + row[7] for row in rows if len(row) > 7 and row[3] == "00010000")
    return found


def _groups(of_all=False):
    """Control groups that an atoll of this user has made whose maker is gone, or all of them."""
    found = set()
    for where, directories, _ in os.walk("/sys/fs/cgroup"):
        for name in directories:
            maker = re.match(r"atoll-(\d+)-", name)
            path = os.path.join(where, name)
            with contextlib.suppress(OSError):
                if maker and (of_all or not os.path.exists("/proc/" + maker[1])) and os.stat(path).st_uid == os.geteuid():
                    found.add(path)
    return found


# ---- running --------------------------------------------------------------------------------------------------------

# For raw system calls, where code makes some: to load this takes as long as the rest of a Python's start.
INSIDE_CALLS = r"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def syscall(number, *args):
    "A raw system call (x86-64 number); bytes and ints. Raises OSError."
    fixed = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *fixed)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""
INSIDE = r"""
import errno, os, stat, struct, sys, time
AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, O_TMPFILE, O_PATH = -100, 0x1000, 0x400, 0o20200000, 0o10000000
def tell(label, text):
    sys.stdout.write("try %s => %s\n" % (label, text)); sys.stdout.flush()
def attempt(label, action):
    "Try it and say how it ended: a line that Result.tries reads. Returns action()'s value, or None."
    try:
        value = action()
    except OSError as error:
        tell(label, "EOPNOTSUPP" if error.errno == 95 else errno.errorcode.get(error.errno, str(error.errno)))
        return None
    except Exception as error:
        tell(label, "error %s: %s" % (type(error).__name__, error))
        return None
    tell(label, "ok")
    return value
def attempt_child(label, action):
    "The same in a child, for what may kill the caller."
    pid = os.fork()
    if pid == 0:
        attempt(label, action); sys.stdout.flush(); os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        tell(label, "signal %d" % os.WTERMSIG(status))
def put(path, data=b"x\n", flags=os.O_WRONLY | os.O_CREAT, mode=0o644, **more):
    fd = os.open(path, flags, mode, **more)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
def get(path, **more):
    fd = os.open(path, os.O_RDONLY, **more)
    try:
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)
def until(condition, seconds=30):
    "Wait until condition() is true; its value, or the last false one."
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.01)
arg = sys.argv[1:]
"""


def inside_sh(script, *args):
    return ["/bin/sh", "-c", script, "sh", *map(str, args)]


def inside_py(code, *args):
    words, any_code = set(re.findall(r"\w+", code)), {"exec", "eval"}
    more = ("import signal\n" if words & {"signal", *any_code} else "") + (INSIDE_CALLS if words & {"ctypes", "libc", "syscall", *any_code} else "")
    return [PYTHON, "-I", "-S", "-c", INSIDE + more + _dedent(code) + "\ntell('end', 'ok')\n", *map(str, args)]


def _dedent(code):
    import textwrap
    return textwrap.dedent(code)


class Result:
    def __init__(self, argv, status, out, err, seconds):
        self.argv, self.status, self.out, self.err, self.seconds = argv, status, out, err, seconds
        self.tries = {}
        for line in out.splitlines():
            if line.startswith("try ") and " => " in line:
                label, said = line[4:].split(" => ", 1)
                self.tries[label] = said

    @property
    def refusals(self):
        """atoll's own lines about what it refused: "create .git/hooks/x: protected (git hooks)"."""
        lines = self.err.splitlines()
        for i, line in enumerate(lines):
            if line.startswith("atoll: refused"):
                return [said.strip() for said in lines[i + 1:] if said.startswith("  ")] or [line]
        return []

    def refused(self, *labels, how=GONE):
        """These attempts took place and were refused; without labels, all that were made."""
        check(self.tries.get("end") == "ok", "the attack did not come to its end (status %d)" % self.status)
        for label in labels or [name for name in self.tries if name != "end"]:
            check(label in self.tries, "%s was not tried" % label)
            among(self.tries[label], how, label)

    def allowed(self, *labels):
        for label in labels:
            same(self.tries.get(label), "ok", label)

    def describe(self):
        def cut(text):
            return text if len(text) < 1500 else text[:700] + "\n[...]\n" + text[-700:]
        shown = [a if len(a) < 300 else a[:60] + "[...]" + a[-230:] for a in self.argv]
        text = "ran %s\nstatus %s after %.2f s" % (" ".join(map(repr, shown)), self.status, self.seconds)
        for name, stream in (("stdout", self.out), ("stderr", self.err)):
            for line in cut(stream).splitlines():
                text += "\n%s: %s" % (name, ascii(line)[1:-1])
        return text


def caller_environment(place, env=None):
    """What the caller of atoll has; env adds to it, and a value None takes away."""
    whole = {"PATH": HOST_PATH, "HOME": place.home, "LANG": "C.UTF-8", "TERM": "xterm", "USER": pwd.getpwuid(os.geteuid())[0]
             if _has_name() else "nobody", "SHELL": "/bin/sh"}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            whole[name] = os.environ[name]
    for name, value in (env or {}).items():
        if value is None:
            whole.pop(name, None)
        else:
            whole[name] = value
    return whole


def _has_name():
    try:
        return bool(pwd.getpwuid(os.geteuid()))
    except KeyError:
        return False


def build_c(place, name, source, *flags):
    """Compile a C program on the host into the workspace, for attacks that Python is too slow for; "./NAME" runs it."""
    need("gcc")
    where = write(os.path.join(place.tmp, name + ".c"), source)
    done = subprocess.run(["gcc", "-O2", "-w", "-D_GNU_SOURCE", "-pthread", *flags, "-o", os.path.join(place.ws, name), where],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"PATH": HOST_PATH, "TMPDIR": place.tmp})
    check(done.returncode == 0, "cannot compile: %s" % done.stdout)
    place.expect(name)
    return "./" + name


class Running:
    def __init__(self, place, argv, env=None, stdin=None, fds=None, cwd=None, leaks=False, starts=True, confined=False):
        self.place, self.argv, self.leaks, self.starts = place, argv, leaks, starts
        wanted = {number: _root_fd for number in CALLER_FDS} if fds or confined or not _are_ours else {}
        wanted.update(fds or {})
        # Copies above every number asked for, so that one dup2 does not destroy the source of another.
        high = [(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 300), number) for number, fd in wanted.items()]

        def in_child():
            for source, number in high:
                os.dup2(source, number, inheritable=True)
            if confined:
                _confine(place.base, cwd or place.ws)
        if isinstance(stdin, str):
            stdin = stdin.encode()
        self.stdin = stdin if isinstance(stdin, bytes) else None
        self.began = time.monotonic()
        try:
            self.process = subprocess.Popen(
                argv, cwd=cwd or place.ws, env=caller_environment(place, env), preexec_fn=in_child if wanted else None,
                close_fds=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,  # ours are all close-on-exec
                stdin=subprocess.PIPE if self.stdin is not None else subprocess.DEVNULL if stdin is None else stdin)
        finally:
            for source, _ in high:
                os.close(source)
        place.running.append(self)
        _live.append(self)

    @property
    def pid(self):
        return self.process.pid

    def wait(self, timeout=RUN_SECONDS):
        try:
            out, err = self.process.communicate(self.stdin, timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed("no end after %d s" % timeout)
        result = self._result(out, err)
        if not self.leaks and self.place.secret in result.out + result.err:
            raise Failed("a secret came out")
        if result.status in ((*NOT_STARTED, INTERNAL) if self.starts else (INTERNAL,)):
            raise Failed("atoll did not run it: status %d, %s" % (result.status, result.err.strip()[:300]))
        return result

    def kill(self, number=signal.SIGKILL):
        """End the run's first process, and nothing else: that the rest ends with it is what a test wants to see."""
        with contextlib.suppress(OSError):
            self.process.send_signal(number)
        try:
            return self._result(*self.process.communicate(timeout=PATIENCE))
        except subprocess.TimeoutExpired as left:  # somebody holds its pipes, or it goes on
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            return self._result(left.stdout or b"", left.stderr or b"")

    def _result(self, out, err):
        if self in _live:
            _live.remove(self)
        result = Result(self.argv, self.process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"),
                        time.monotonic() - self.began)
        result.raw_out, result.raw_err = out, err
        self.place.runs.append(result)
        _details_runs.append(result)
        return result


def mode_flags(flags, mode=None, stdin=None, where="."):
    """How the workspace is written: directly, unless a mode is asked for, or the flags or the job file among them say one."""
    if mode:
        return [] if mode == "default" else ["--mode", mode]
    words = list(map(str, flags))
    words = words[:words.index("--")] if "--" in words else words
    said = " ".join(word for word in words if re.match("--(direct|mode(=.*)?)$", word))
    for option, name in [word.split("=", 1) for word in words if word.startswith("--file=")] + list(zip(words, words[1:])):
        if option in ("-f", "--file"):
            path = os.path.join(where, name)
            with contextlib.suppress(OSError, ValueError):
                # Bad ones, too, are named as job files: /dev/zero, a fifo.
                text = read(path) if os.path.isfile(path) and os.path.getsize(path) < 1 << 20 else stdin if name == "-" else ""
                text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
                said += " ".join(re.findall(r"mode['\"]?: *['\"]?(?:layer|direct|read-only)", text))
    return [] if said else ["--mode", MODE]


def start(place, flags, command, mode=None, before=(), **options):
    """Start `atoll run` and do not wait for it. Keyword arguments: mode, env, stdin (bytes or a descriptor), fds, cwd, leaks,
    starts; before: words in front, of a program that executes it ("prlimit", ...)."""
    if isinstance(command, str):
        command = inside_sh(command)
    how = mode_flags(flags, mode, options.get("stdin"), options.get("cwd") or place.ws)
    argv = [*before, ATOLL, "run", *how, *bare.flags(flags), *map(str, flags)]
    if command is not None:
        argv += ["--", *command]
    return Running(place, argv, **options)


def run(place, flags, command, timeout=RUN_SECONDS, **options):
    """Run a command (list, or text for sh) under atoll and wait for its end. command=None: the job file has one."""
    return start(place, flags, command, **options).wait(timeout)


def atoll(place, *args, timeout=RUN_SECONDS, mode=None, **options):
    """Another command of atoll: atoll(place, "doctor", "--json"). `run` is told how the workspace is written, as by run()."""
    if args[:1] == ("run",):
        args = ("run", *mode_flags(args[1:], mode, options.get("stdin"), options.get("cwd") or place.ws), *args[1:])
    return Running(place, [ATOLL, *map(str, args)], starts=False, **options).wait(timeout)


def plain(place, command, timeout=RUN_SECONDS, confined=True, **options):
    """The same command without atoll, as the host's user: what happens where nothing stands in the way.

    An attack that works must not hit this machine: for root everything but the Place is read-only then (not a wall, but it
    catches the slip of following one's own link out of it). confined=False is for commands that are no attack."""
    if isinstance(command, str):
        command = inside_sh(command)
    return Running(place, list(command), leaks=True, starts=False, confined=confined and IS_ROOT, **options).wait(timeout)


def _confine(base, cwd):
    """In the child, before exec: a mount namespace in which only `base` can be written."""
    def call(result):
        if result < 0:
            raise OSError(ctypes.get_errno(), "cannot make the host read-only for an attack without a sandbox")
    rec, private, bind, at_fdcwd, recursive, read_only = 0x4000, 0x40000, 0x1000, -100, 0x8000, 1
    where = base.encode()
    call(_libc.unshare(0x20000))
    call(_libc.mount(None, b"/", None, rec | private, None))
    call(_libc.mount(where, where, None, bind | rec, None))
    call(_libc.syscall(442, at_fdcwd, b"/", recursive, struct.pack("QQQQ", read_only, 0, 0, 0), 32))
    call(_libc.syscall(442, at_fdcwd, where, recursive, struct.pack("QQQQ", 0, read_only, 0, 0), 32))
    os.chdir(cwd)


def job_file(place, job, name="job.yaml"):
    """A job file outside the workspace, from text or from a dict (JSON is YAML). Returns its path."""
    return write(os.path.join(place.tmp, name), job if isinstance(job, (str, bytes)) else json.dumps(job))


def wait_file(place, name, seconds=PATIENCE):
    """Wait until a run has made this file in the workspace, or in a layer over it."""
    def found():
        kept = glob.glob(os.path.join(glob.escape(os.path.join(place.home, STORE)), "records/*/top/upper", glob.escape(name)))
        return [path for path in (os.path.join(place.ws, name), *kept) if os.path.lexists(path)]
    return (until(found, seconds) or check(False, "the run did not make %s" % name))[0]


def in_time(once, *limits):
    """For a run that has to get somewhere before a limit of time ends it: once(limit) with one limit after the other, until
    it says that the run got there, by a result that is true. A machine that is busy needs more than one that is not."""
    for limit in limits or ("1s", "5s", "25s"):
        result = once(limit)
        if result:
            return result
    raise Failed("the run did not get there within %s" % limit)


def at_best(once, bound, what, tries=5):
    """For a figure that is higher whenever this machine stands still: one of several tries has to stay below the bound.
    What must hold each time, once() checks itself."""
    figures = []
    for _ in range(tries):
        figures.append(once())
        if figures[-1] < bound:
            return
    raise Failed("%s: %s, each time, and not below %s" % (what, ", ".join("%.4g" % figure for figure in figures), bound))


OUTSIDE = object()


def both(attack, effect, deny=(), allow=OUTSIDE, prepare=None, expect=(), repository=True, **options):
    """Refused with the rule, allowed without it.

    attack(place)   the command
    effect(place, result)   true if the attack reached its aim, seen from the host (or in its output)
    deny(place), allow(place)   flags (or a fixed list); allow=OUTSIDE runs it without atoll
    prepare(place)  on the host, before
    expect          names that the attack leaves in the workspace

    Under `deny` there must be no effect, with `allow` there must be: otherwise the test shows nothing. Returns the
    refused run's Result."""
    def flags(what, place):
        return what(place) if callable(what) else list(what)

    with Place(repository=repository) as place:
        place.expect(*expect)
        if prepare:
            prepare(place)
        refused = run(place, flags(deny, place), attack(place), **options)
        check(not effect(place, refused), "the attack worked (flags %s)" % flags(deny, place))
    with Place(strict=False, repository=repository) as place:
        place.expect("*")
        if prepare:
            prepare(place)
        if allow is OUTSIDE:
            options.pop("leaks", None)
            allowed = plain(place, attack(place), **options)
        else:
            allowed = run(place, flags(allow, place), attack(place), **{**options, "leaks": True})
        check(effect(place, allowed), "the attack does not work where it is allowed: this test shows nothing")
    return refused


def repositories(place):
    """Every directory of the workspace that git may take for a work tree or repository."""
    found = [place.ws]
    for where, directories, files in os.walk(place.ws):
        inside_git = "/.git/" in where + "/"
        if not inside_git and where != place.ws and (".git" in directories + files or {"HEAD", "objects"} <= set(directories + files)):
            found.append(where)
    return found


def hostgit(place):
    """Use git on the host in every repository of the workspace; no planted command may run."""
    for where in repositories(place):
        for args in (["status"], ["diff"], ["log", "-1"]):
            git(where, *args, home=place.home)
    check(not os.path.lexists(place.mark), "a planted command ran on the host")


# ---- listeners ------------------------------------------------------------------------------------------------------

class Sink:
    """with Sink(place) as sink: sink.tcp4, sink.udp4, sink.tcp6, sink.udp6 (ports; None without IPv6), sink.path, sink.abstract
    (with its leading NUL). sink.log: [(which, bytes)], a connection alone counts as (which, b"")."""

    def __init__(self, place):
        self.path = os.path.join(place.out, "sink.sock")
        self.abstract = "\0atoll-test-" + place.token
        self.place = place
        self.log = []
        self.sockets = {}

    def __enter__(self):
        self.tcp4 = self._open("tcp4", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
        self.udp4 = self._open("udp4", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        try:
            self.tcp6 = self._open("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))
            self.udp6 = self._open("udp6", socket.AF_INET6, socket.SOCK_DGRAM, ("::1", 0))
        except OSError:
            self.tcp6 = self.udp6 = None
        self._open("unix", socket.AF_UNIX, socket.SOCK_STREAM, self.path)
        os.chmod(self.path, 0o777)
        self._open("abstract", socket.AF_UNIX, socket.SOCK_STREAM, self.abstract)
        self.wake, self.woken = os.pipe()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()
        return self

    def _open(self, which, family, kind, address):
        s = socket.socket(family, kind)
        s.bind(address)
        if kind == socket.SOCK_STREAM:
            s.listen(64)
        s.setblocking(False)
        self.sockets[s] = which
        return s.getsockname()[1] if family in (socket.AF_INET, socket.AF_INET6) else None

    def _serve(self):
        selector = selectors.DefaultSelector()
        selector.register(self.wake, selectors.EVENT_READ, None)
        for s, which in self.sockets.items():
            selector.register(s, selectors.EVENT_READ, which)
        while True:
            for key, _ in selector.select():
                if key.data is None:
                    return
                s, which = key.fileobj, key.data
                try:
                    if s in self.sockets and s.type == socket.SOCK_STREAM:
                        peer, _ = s.accept()
                        self.log.append((which, b""))
                        peer.setblocking(False)
                        selector.register(peer, selectors.EVENT_READ, which)
                        continue
                    data = s.recv(65536)
                    if data:
                        self.log.append((which, data))
                    if s not in self.sockets and not data:
                        selector.unregister(s)
                        s.close()
                except BlockingIOError:
                    pass
                except OSError:
                    selector.unregister(s)
                    s.close()

    def __exit__(self, *_):
        os.write(self.woken, b"x")
        self.thread.join(PATIENCE)
        for s in self.sockets:
            s.close()
        os.close(self.wake)
        os.close(self.woken)
        with contextlib.suppress(OSError):
            os.unlink(self.path)


# ---- the runner -----------------------------------------------------------------------------------------------------

_tests = []
_details = []       # about the test that is running
_details_runs = []


def test(name):
    def keep(function):
        _tests.append((name, function))
        return function
    return keep


def _too_long(*_):
    raise Failed("the test took more than %d s" % TEST_SECONDS)


def _cost():
    """(time, processor time) so far; the latter also of what was started and has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), sum(each.ru_utime + each.ru_stime for each in used)


def main():
    """Run what @test named, and functions of the main file called test_..., in order; then exit."""
    known = {function for _, function in _tests}
    for name, thing in vars(sys.modules["__main__"]).items():
        if name.startswith("test_") and callable(thing) and thing not in known:
            _tests.append((name[5:].replace("_", " "), thing))
    wrong = [word for word in sys.argv[1:] if not any(word.lower() in name.lower() for name, _ in _tests)]
    for word in wrong:
        print("# no test has '%s' in its name" % word)
    if wrong:
        sys.exit(2)
    bare.enter()
    if not os.access(ATOLL, os.X_OK):
        print("# no program at %s: set ATOLL" % ATOLL)
        sys.exit(1)
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGALRM, _too_long)
    os.umask(0o022)
    passed = failed = skipped = 0
    for name, function in _tests:
        if sys.argv[1:] and not any(word.lower() in name.lower() for word in sys.argv[1:]):
            continue
        del _details[:], _details_runs[:]
        began = _cost()
        signal.alarm(int(TEST_SECONDS))
        try:
            if BARE and name in bare.WEAKER:
                wrong = bare.says(bare.WEAKER[name])
                check(not wrong, wrong)
            else:
                function()
        except Skipped as what:
            print("skip %s: %s" % (name, what))
            skipped += 1
        except Exception as error:
            signal.alarm(0)
            print("not ok %s" % name)
            _explain(error)
            failed += 1
        else:
            print("ok %s%s" % (name, ": cannot hold here, and the plan says so" if BARE and name in bare.WEAKER else ""))
            passed += 1
        finally:
            signal.alarm(0)
            if os.environ.get("ATOLL_TIMES"):
                print("# %6.1f s, %6.1f s of a processor: %s" % (*(now - then for now, then in zip(_cost(), began)), name))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(1 if failed else 0)


def _explain(error):
    lines = []
    if isinstance(error, Failed):
        here = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.basename(frame.filename) != "lib.py"]
        where = " (line %d)" % here[-1].lineno if here else ""
        lines.append("%s%s" % (error, where))
    else:
        lines += traceback.format_exc().splitlines()
    lines += [line for line in _details if str(error) not in line]
    for result in _details_runs[-3:]:
        lines += result.describe().splitlines()
    for line in lines:
        for part in str(line).splitlines() or [""]:
            print("# " + part.encode("utf-8", "backslashreplace").decode("utf-8"))
