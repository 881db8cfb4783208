# SPDX-License-Identifier: Apache-2.0
# check: alone
# check: timeout 600
"""
The service as it is installed, started and watched by a systemd

It is the first process of namespaces of its own (pid, mount, network, host name, ipc, control groups), sees nothing of
the machine's own init, and can change none of its settings: /etc, /sys and, while it starts, /proc/sys are read-only,
/var/lib, /run and /dev are its own, its control groups are beneath one that is made for it. Of all units it starts only ours.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402

BUILD = os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL)
SYSTEMD = "/lib/systemd/systemd"
URL = "http://127.0.0.1:8642"
STATE = "/var/lib/atoll-daemon"
WAIT = 120 * SLOW

# $1: a directory of ours, $2: a terminal. What is mounted is gone with the namespace.
LAY_OUT = r"""
set -e
until test -e $1/go; do sleep 0.1; done
mount --make-rprivate /
mkdir -p $1/dev $1/lib
mount --bind /etc /etc
mount -o remount,bind,ro /etc
mount -t tmpfs -o mode=755 tmpfs /run
mount --bind $1/lib /var/lib
mkdir -p /run/systemd
cp -RP $1/units /run/systemd/system
mount -t tmpfs -o mode=755 tmpfs $1/dev
for name in null zero full random urandom tty; do
	: >$1/dev/$name
	mount --bind /dev/$name $1/dev/$name
done
mkdir $1/dev/pts $1/dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts $1/dev/pts
mount -t tmpfs -o mode=1777 tmpfs $1/dev/shm
ln -s pts/ptmx $1/dev/ptmx
ln -s /proc/self/fd/0 $1/dev/stdin
ln -s /proc/self/fd/1 $1/dev/stdout
ln -s /proc/self/fd/2 $1/dev/stderr
ln -s /proc/self/fd $1/dev/fd
: >$1/dev/console
mount --bind $2 $1/dev/console
mount --rbind $1/dev /dev
ip link set lo up
mount -t proc proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t sysfs -o ro sysfs /sys
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
exec env -i PATH="$PATH" LANG=C.UTF-8 container=other SYSTEMD_UNIT_PATH=/run/systemd/system:/lib/systemd/system \
	SYSTEMD_GENERATOR_PATH=/run/none SYSTEMD_ENVIRONMENT_GENERATOR_PATH=/run/none /lib/systemd/systemd --system --unit=own.target --log-target=console --log-level=info --show-status=no
"""


def unified():
    """Where the hierarchy of version 2 is mounted."""
    found = [line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"]
    return found[0] if found else skip("control groups of version 2")


class Systemd:
    def __init__(self):
        need_root()
        need("unshare", "nsenter", "systemctl", "ip")
        if not os.path.exists(SYSTEMD):
            skip("systemd")
        unit = os.path.join(BUILD, "src/daemon/atoll.service")
        if not os.path.exists(unit):
            skip("the unit, which is beside the program that is built")
        self.place = tempfile.mkdtemp(prefix="atoll-test-systemd-", dir="/tmp")
        self.make_units(unit)
        self.console, slave = os.openpty()
        self.said = []
        threading.Thread(target=self.listen, daemon=True).start()
        self.group = "%s/atoll-test-%d" % (unified(), os.getpid())
        os.mkdir(self.group)
        self.process = subprocess.Popen(["unshare", "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child", "--propagation", "private",
                                         "sh", "-c", LAY_OUT, "sh", self.place, os.ttyname(slave)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        preexec_fn=lambda: write(self.group + "/cgroup.procs", b"0"))
        children = "/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)
        check(until(lambda: open(children).read().split()), "it does not start")
        self.pid = open(children).read().split()[0]
        # A group that hands controllers down has no process: unshare(1) goes back to ours.
        own = re.search("^0::(.*)$", open("/proc/self/cgroup").read(), re.M)[1]
        if not own.startswith("/.."):
            write(unified() + own + "/cgroup.procs", str(self.process.pid))
        write(self.place + "/go", "")

    def make_units(self, unit):
        """Ours, and none of those that a machine would begin with."""
        units = self.place + "/units"
        os.mkdir(units)
        for name in {os.path.basename(path) for path in glob.glob("/lib/systemd/system/*.target.wants/*")}:
            os.symlink("/dev/null", os.path.join(units, name))
        with open(unit) as file:
            # Not installed, so the program is where it was built; the rest is as it is.
            write(units + "/atoll.service", re.sub(r"^ExecStart=\S+", "ExecStart=" + ATOLL, file.read(), flags=re.M))
        for name in ("atoll.socket", "atoll-sandboxes.service"):
            shutil.copy(os.path.join(os.path.dirname(unit), name), units)
        write(units + "/own.target", "[Unit]\nDescription=only what is tried\nDefaultDependencies=no\nWants=atoll.socket\n")

    def listens(self):
        """Whether the socket does, as soon as somebody can be asked: each question costs more than a second on an emulated machine."""
        until(lambda: os.path.exists("/proc/%s/root/run/systemd/private" % self.pid), WAIT)
        return until(lambda: self.shows("atoll.socket", "ActiveState")[0] == "active", WAIT)

    def listen(self):
        with contextlib.suppress(OSError):
            while data := os.read(self.console, 65536):
                self.said.append(data)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.kill()  # and with it the first process, and with that all of them
        said = self.process.communicate()[0]
        if what[0]:
            print("\n".join("# " + line for line in (self.log() + said.decode(errors="replace")).splitlines()[-30:]))
        check(until(lambda: not read(self.group + "/cgroup.procs") and self.forget()), "its groups are left")
        shutil.rmtree(self.place)

    def forget(self):
        with contextlib.suppress(OSError):
            for path, _, _ in os.walk(self.group, topdown=False):
                os.rmdir(path)
            return True

    def inside(self, *words, stdin=None):
        return subprocess.run(["nsenter", "--target", self.pid, "--all", "--", *words], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=WAIT)

    def ctl(self, *words):
        return self.inside("systemctl", "--no-pager", *words)

    def shows(self, unit, *names):
        told = dict(line.split("=", 1) for line in self.ctl("show", unit, "-p", ",".join(names)).stdout.decode().splitlines() if "=" in line)
        return tuple(told.get(name) for name in names)

    def log(self):
        return b"".join(self.said).decode(errors="replace")

    def main_pid(self):
        return int(self.shows("atoll.service", "MainPID")[0] or 0)

    def kill(self, number):
        self.inside("kill", "-%d" % number, str(self.main_pid()))

    def call(self, method, path, body=None):
        """From in there: nobody else reaches it."""
        key = ["-H", "X-API-Key: " + self.key] if getattr(self, "key", None) else []
        data = ["-H", "Content-Type: application/json", "-d", json.dumps(body)] if body is not None else []
        done = self.inside("curl", "-s", "-m", str(int(WAIT)), "-X", method, "-w", "\n%{http_code}", *key, *data, URL + path)
        text, _, status = done.stdout.decode().rpartition("\n")
        return int(status or 0), json.loads(text) if text.startswith(("{", "[")) else text

    def answers(self):
        return self.call("GET", "/healthz")[0] == 200

    def step(self, box, command, user=None):
        status, answer = self.call("POST", "/v1/sandboxes/%s/steps" % box, {"command": ["/bin/sh", "-c", command], "wait": 60, **({"user": user} if user else {})})
        return answer["result"]["exitCode"] if status == 201 else (status, answer)


# What commands need, and a hardened service could have taken from all that it starts.
NEEDS = {
    "processes of its own, with their /proc": "test $$ -lt 1000 && test -r /proc/self/status && ls /proc/1/fd 2>/dev/null; test -d /proc/self",
    "a network of its own": "! grep -q eth /proc/net/dev && grep -q lo: /proc/net/dev",
    "memory that can be executed, threads, shared memory": PYTHON + " -c 'import mmap, threading, multiprocessing.shared_memory as s\n"
    "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\nt = threading.Thread(target=len, args=(\"\",)); t.start(); t.join()\n"
    "m = s.SharedMemory(create=True, size=9); m.close(); m.unlink()'",
    "files that it can change": "echo x >f && chmod 755 f && ln -s f l && mkdir d && mv l d && echo y >/tmp/y",
    "terminals and the usual devices": "test -c /dev/urandom && test -c /dev/ptmx && head -c 1 /dev/urandom >/dev/null",
}


@test("the socket starts the service, which says that it is ready; sandboxes lack nothing under what the unit takes away")
def _():
    need("curl")
    with Systemd() as systemd:
        check(systemd.listens(), "the socket does not listen")
        # What it sets at its start it has set. The kernel mounts no /proc for a sandbox where a part of one is covered.
        same(systemd.inside("umount", "/proc/sys").returncode, 0, "umount")
        same(systemd.shows("atoll.service", "ActiveState"), ("inactive",), "the service before somebody comes")
        check(systemd.answers(), "the first request")
        same(systemd.shows("atoll.service", "ActiveState", "SubState", "Type"), ("active", "running", "notify"), "the service")
        same(systemd.inside("stat", "-c", "%a", STATE).stdout, b"700\n", "its state")
        systemd.key = systemd.inside("cat", STATE + "/local").stdout.decode().split()[1]
        status, box = systemd.call("POST", "/v1/sandboxes", {"timeout": 86400})
        check(status == 201, "a sandbox: %s %s" % (status, box))
        box = box["id"]
        for name, command in NEEDS.items():
            same(systemd.step(box, command), 0, "inside: " + name)
        same(systemd.step(box, "test $(id -u) = 0", "root"), 0, "as root inside")
        same(systemd.step(box, "echo kept >kept; sleep 86400 >/dev/null 2>&1 & echo $! >pid"), 0, "a command that goes on")
        lives = 'kill -0 $(cat pid) && test "$(cat kept)" = kept'

        pid = systemd.main_pid()
        same(systemd.ctl("restart", "atoll.service").returncode, 0, "a restart")
        check(systemd.main_pid() not in (0, pid), "the same daemon")
        same(systemd.step(box, lives), 0, "the sandbox after a restart")

        pid = systemd.main_pid()
        systemd.kill(signal.SIGKILL)
        check(until(lambda: systemd.main_pid() not in (0, pid), WAIT), "what was killed is not started anew")
        check(until(systemd.answers, WAIT), "it does not answer")
        same(systemd.step(box, lives), 0, "the sandbox after a kill")

        # Not for the 30 s of the unit: the same, in two.
        systemd.inside("sh", "-c", "mkdir -p /run/systemd/system/atoll.service.d && printf '[Service]\\nWatchdogSec=2\\n' >/run/systemd/system/atoll.service.d/quick.conf")
        same(systemd.ctl("daemon-reload").returncode, 0, "daemon-reload")
        same(systemd.ctl("restart", "atoll.service").returncode, 0, "a restart")
        time.sleep(5)
        pid = systemd.main_pid()
        same(systemd.shows("atoll.service", "NRestarts", "ActiveState")[1], "active", "one that moves, by the watchdog")
        systemd.kill(signal.SIGSTOP)
        check(until(lambda: systemd.main_pid() not in (0, pid), WAIT), "one that does not move is not ended by the watchdog")
        check(until(lambda: "atchdog" in systemd.log()), "it was not the watchdog")
        check(until(systemd.answers, WAIT), "it does not answer")
        same(systemd.step(box, lives), 0, "the sandbox after that")

        same(systemd.ctl("stop", "atoll.socket", "atoll.service").returncode, 0, "a stop")
        same(systemd.shows("atoll.service", "ActiveState", "Result"), ("inactive", "success"), "after a stop")
        same(systemd.ctl("start", "atoll.socket").returncode, 0, "a start")
        check(until(systemd.answers, WAIT), "it does not answer")
        same(systemd.step(box, lives), 0, "the sandbox after a stop and a start")
        among(systemd.call("DELETE", "/v1/sandboxes/" + box)[0], (200, 204), "a kill")
        # There is no journal in there; and the two that were ended had to fail.
        wrong = [line for line in systemd.log().splitlines() if "Failed" in line and not re.search("journal socket|Failed with result '(signal|watchdog)'", line)]
        same(wrong, [], "what systemd says")


# What also an old kernel can do on whatever its files are on.
PLAIN = {"root": "read-only", "network": {"mode": "off"}}


@test("what runs inside is in control groups that systemd has delegated, with their limits; to stop that unit ends all of it")
def _():
    need("curl")
    groups = "/sys/fs/cgroup/system.slice/atoll-sandboxes.service"
    with Systemd() as systemd:
        check(systemd.listens(), "the socket does not listen")
        same(systemd.inside("umount", "/proc/sys").returncode, 0, "umount")
        check(until(systemd.answers, WAIT), "the first request")
        same(systemd.shows("atoll-sandboxes.service", "ActiveState", "Delegate", "ControlGroup"), ("active", "yes", groups[len("/sys/fs/cgroup"):]), "the unit")
        same(systemd.inside("cat", groups + "/cgroup.procs").stdout, b"", "processes in the group itself")
        keeper = systemd.shows("atoll-sandboxes.service", "MainPID")[0]
        same(systemd.inside("cat", groups + "/keeper/cgroup.procs").stdout.decode().split(), [keeper], "in the group beneath")
        if "memory" not in systemd.inside("cat", groups + "/cgroup.controllers").stdout.decode().split():
            skip("control groups of version 2 with memory")

        systemd.key = systemd.inside("cat", STATE + "/local").stdout.decode().split()[1]
        status, box = systemd.call("POST", "/v1/sandboxes", {"timeout": 86400, "contract": PLAIN})
        check(status == 201, "a sandbox: %s %s" % (status, box))
        same(systemd.step(box["id"], "sleep 86400 >/dev/null 2>&1 & echo $! >pid"), 0, "a command that goes on")

        def limits():
            # A daemon that has just begun tries once whether it can make a group: that one is empty.
            said = systemd.inside("sh", "-c", "cd %s && for group in atoll-*; do read -r one 2>/dev/null <$group/cgroup.procs || continue; cat $group/memory.max $group/pids.max; wc -l <$group/cgroup.procs; done" % groups)
            return said.stdout.decode().split()
        before = limits()
        check(len(before) == 3 and before[0].isdigit() and before[1].isdigit() and int(before[2]) >= 2, "its group: %s" % before)
        same(systemd.inside("find", "/sys/fs/cgroup", "-name", "atoll-[0-9]*", "-not", "-path", groups + "/*").stdout, b"", "groups elsewhere")
        for words in (["daemon-reload"], ["restart", "atoll.service"]):
            same(systemd.ctl(*words).returncode, 0, words[0])
            check(until(systemd.answers, WAIT), "it does not answer")
            same(limits()[:2], before[:2], "limits after a " + words[0])
        same(systemd.step(box["id"], "kill -0 $(cat pid)"), 0, "what goes on after a restart")

        same(systemd.ctl("stop", "atoll.socket", "atoll-sandboxes.service").returncode, 0, "a stop")
        same(systemd.shows("atoll.service", "ActiveState"), ("inactive",), "the daemon after that")
        check(until(lambda: systemd.inside("pgrep", "-f", "sleep 86400").returncode == 1, WAIT), "a command lives on")
        same(systemd.ctl("start", "atoll.socket").returncode, 0, "a start")
        check(until(systemd.answers, WAIT), "it does not answer")
        status, box = systemd.call("POST", "/v1/sandboxes", {"timeout": 60, "contract": PLAIN})
        check(status == 201, "a sandbox after that: %s %s" % (status, box))
        same(systemd.step(box["id"], "true"), 0, "a step after that")


main()
