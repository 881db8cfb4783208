# SPDX-License-Identifier: Apache-2.0
"""
A host with a network, and an Internet, for tests: as root and as an ordinary user, nothing of the machine's own

    from lib import *
    import net
    rig = net.enter()        # starts the test file again on "the host"; returns there

    rig.clear()
    run(place, ["--allow", "good.test"], ["curl", "-s", "http://good.test/"])
    same([r["host"] for r in rig.requests()], ["good.test"], "requests that arrived")

    test/net.py COMMAND...   any command on such a host

Three processes: this one only waits; a child leads the Internet (internet.py) in network and pid namespaces of its own; another is the test
on "the host": network and mount namespaces of its own, joined by a veth pair. For an ordinary user all is within a user namespace where the
user keeps the own id, so the test, and atoll, still are an ordinary user's, without capabilities. "The host" has a public address, a default
route, /etc/resolv.conf, /etc/hosts, and the test's authority instead of the usual ones in /etc/ssl/certs. All of it ends with the test.

rig.requests()   what nginx answered: dicts, see NGINX in internet.py        rig.queries()   what was looked up: ["A good.test", ...]
rig.arrived()    what our own servers got: {"what", "to", "port", "data"}    rig.canaries()  what reached services of the host itself
rig.packets()    every packet of the host's: [protocol, to, port, flags, data]; rig.attempts(): "tcp 1.2.3.4:80" for every first packet
rig.silence(*texts)  fails if anything of the host's arrived, or, with texts, if one of them is in any packet (also with its letters' case changed)
rig.script(name, answers...)  what the resolver says about a name below script.test, query by query
"""

import atexit
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import internet  # noqa: E402
from internet import *  # noqa: E402,F403

TOOLS = ("ip", "dnsmasq", "nginx", "sshd", "ssh-keygen", "openssl", "git", "curl")
CAPABILITIES = (12, 13, 21)  # NET_ADMIN, NET_RAW, SYS_ADMIN
NEWNS, NEWUSER, NEWPID, NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_libc = ctypes.CDLL(None, use_errno=True)


class Lacks(Exception):
    """The rig cannot be had here."""


def call(what, result):
    if result < 0:
        raise Lacks("%s: %s" % (what, os.strerror(ctypes.get_errno())))


def unshare(flags, what):
    call(what, _libc.unshare(flags))


def mount(source, target, kind=None, flags=0):
    def text(value):
        return value.encode() if value else None
    call("mount on %s" % target, _libc.mount(text(source), text(target), text(kind), flags, None))


def die_with_parent():
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)


# ---- set-up ---------------------------------------------------------------------------------------------------------

def enter_user_namespace():
    """The own id is mapped to itself: no root, only capabilities, until the next exec."""
    uid, gid = os.geteuid(), os.getegid()
    unshare(NEWUSER, "a user namespace")
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)


def keep_capabilities():
    """In a child before exec, so that `ip` may do what we may."""
    _libc.prctl(1, signal.SIGKILL, 0, 0, 0)
    header, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    _libc.capget(header, data)
    sets = list(struct.unpack("6I", data.raw))
    sets[2], sets[5] = sets[1], sets[4]  # inheritable as permitted
    _libc.capset(header, struct.pack("6I", *sets))
    for one in CAPABILITIES:
        _libc.prctl(47, 2, one, 0, 0)


def ip(*lines):
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=keep_capabilities)
    if done.returncode != 0:
        raise Lacks("ip: %s" % done.stdout.strip()[-300:])


def put(path, text):
    with open(path, "w") as file:
        file.write(str(text))


def own_network(what):
    unshare(NEWNS | NEWNET, what)
    mount(None, "/", None, 0x4000 | 0x40000)  # recursively private
    put("/proc/sys/net/ipv6/conf/all/accept_dad", 0)
    put("/proc/sys/net/ipv6/conf/default/accept_dad", 0)
    put("/proc/sys/net/ipv4/ip_unprivileged_port_start", 0)


def lead_internet(where, control, go, host_net):
    """In a child: becomes the Internet once the wire is there."""
    own_network("a network namespace")
    go.sendall(b"?")  # this namespace exists: a wire can be laid into it
    if go.recv(1) != b"!":
        os._exit(0)
    ip("link set lo up", "link set net0 up", f"addr add {GATE4}/24 dev net0", f"addr add {GATE6}/64 dev net0 nodad",
       *(f"addr add {one}/32 dev lo" for one in (SERVER4, SECOND4, RAW, RESOLVER)), f"addr add {SERVER6}/128 dev lo nodad",
       "route add local 0.0.0.0/0 dev lo table main", "route add local ::/0 dev lo table main metric 4096",
       f"route add blackhole {HOLE4}/32", f"route add blackhole {HOLE6}/128")
    lines = [line for line in read_text("/etc/passwd").splitlines(True) if not line.startswith("git:")]
    put(where + "/passwd", "".join(lines) + f"git:x:{os.geteuid()}:{os.getegid()}::{where}:/bin/sh\n")
    mount(where + "/passwd", "/etc/passwd", None, 0x1000)  # somebody to log in as
    internet.make_keys(where)
    if os.geteuid() == 0:
        mount("tmpfs", "/run", "tmpfs")
        os.mkdir("/run/sshd", 0o755)
    unshare(NEWPID, "a pid namespace")
    first = os.fork()
    if first == 0:
        die_with_parent()
        go.close()
        internet.main(where, control, host_net(), os.open("/proc/self/ns/net", os.O_RDONLY))
    control.close()
    os.waitpid(first, 0)
    os._exit(0)


def make_host(where, leader, go):
    """This process's namespaces become "the host"."""
    own_network("a network namespace")
    if go.recv(1) != b"?":
        raise Lacks("no network for the Internet: %s" % (read_text(where + "/error") or "it ended"))
    ip("link set lo up", f"link add host0 type veth peer name net0 netns {leader}", "link set host0 up", f"addr add {HOST4}/24 dev host0",
       f"addr add {HOST6}/64 dev host0 nodad", f"route add default via {GATE4}", f"route add default via {GATE6}")
    put(where + "/resolv.conf", f"nameserver {RESOLVER}\noptions timeout:2 attempts:2\n")
    put(where + "/hosts", "127.0.0.1 localhost\n::1 localhost\n")
    for name, target in (("resolv.conf", "/etc/resolv.conf"), ("hosts", "/etc/hosts"), ("ca.pem", BUNDLE)):
        if os.path.exists(target):
            mount(f"{where}/{name}", os.path.realpath(target), None, 0x1000)
        elif name != "hosts":
            raise Lacks("a file %s to mount on" % target)


def read_text(path):
    with contextlib.suppress(OSError), open(path, errors="replace") as file:
        return file.read()
    return ""


def build():
    """Everything but the test's own process. Returns the directory, the leader's pid and the control socket."""
    lacking = [tool for tool in TOOLS if not shutil.which(tool)]
    if lacking:
        raise Lacks("no %s on this host" % ", ".join(lacking))
    where = tempfile.mkdtemp(prefix="atoll-test-rig-")
    os.chmod(where, 0o755)
    atexit.register(shutil.rmtree, where, True)
    if os.geteuid() != 0:
        enter_user_namespace()
    prepare(where)
    (ours, theirs), (go, come) = socket.socketpair(), socket.socketpair()
    parent = os.getpid()
    leader = os.fork()
    if leader == 0:
        die_with_parent()
        try:
            ours.close()
            go.close()
            lead_internet(where, theirs, come, lambda: os.open("/proc/%d/ns/net" % parent, os.O_RDONLY))
        except BaseException as error:
            put(where + "/error", str(error))
        os._exit(1)
    theirs.close()
    come.close()
    make_host(where, leader, go)
    go.sendall(b"!")
    ours.settimeout(20)
    said = b""
    while not said.endswith(b"\n"):
        data = ours.recv(4096)
        if not data:
            raise Lacks("the Internet ended: %s" % read_text(where + "/error"))
        said += data
    if said != b"up\n":
        raise Lacks(said.decode(errors="replace").strip())
    ours.settimeout(None)
    return where, leader, ours


def prepare(where):
    """Certificates and files, both at once: most of it is waiting for other programs."""
    children = []
    for make in (internet.make_certificates, internet.make_files):
        pid = os.fork()
        if pid == 0:
            try:
                make(where)
                os._exit(0)
            except BaseException as error:
                put(where + "/error", str(error))
                os._exit(1)
        children.append(pid)
    if any([os.waitpid(pid, 0)[1] for pid in children]):
        raise Lacks(read_text(where + "/error") or "certificates and keys")


def start(argv):
    """Build the rig, run a command on "the host", end like it."""
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    where, leader, control = build()
    test = os.fork()
    if test == 0:
        die_with_parent()
        os.environ.update(ATOLL_RIG=where, ATOLL_RIG_FD=str(control.fileno()))
        control.set_inheritable(True)
        os.execvp(argv[0], argv)
    control.close()

    def stop(number, _frame):
        for pid in (test, leader):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        sys.exit(128 + number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    status = os.waitstatus_to_exitcode(os.waitpid(test, 0)[1])
    with contextlib.suppress(OSError):
        os.kill(leader, signal.SIGKILL)
    os.waitpid(leader, 0)
    sys.exit(status if status >= 0 else 128 - status)


def enter():
    """Start the test file again on "the host", or skip all of it; there, return the rig."""
    if "ATOLL_RIG" not in os.environ:
        sys.stdout.reconfigure(line_buffering=True)
        try:
            start([sys.executable, *sys.argv])
        except (Lacks, OSError) as what:
            print("skip all of it: no network for tests: %s\n0 passed, 0 failed, 1 skipped" % what)
            sys.exit(0)
    return Rig(os.environ["ATOLL_RIG"], int(os.environ["ATOLL_RIG_FD"]))


# ---- on "the host" --------------------------------------------------------------------------------------------------

class Rig:
    def __init__(self, where, fd):
        self.where = where
        # A host without user namespaces (bare.py) starts the file once more.
        is_last = not os.environ.get("ATOLL_BARE") or "ATOLL_BARE_INSIDE" in os.environ
        os.set_inheritable(fd, not is_last)
        self.control = socket.socket(fileno=os.dup(fd) if is_last else fd)
        if is_last:
            os.close(fd)
        self.file = self.control.makefile("rw")
        self.at = {"requests.log": 0, "queries.log": 0}

    def ask(self, op, **args):
        self.file.write(json.dumps({"op": op, **args}) + "\n")
        self.file.flush()
        answer = json.loads(self.file.readline())
        if "error" in answer:
            raise RuntimeError("the Internet: %s" % answer["error"])
        return answer["ok"]

    def clear(self):
        """Forget what has come, and what was scripted."""
        for name in self.at:
            self.at[name] = os.path.getsize(f"{self.where}/{name}") if os.path.exists(f"{self.where}/{name}") else 0
        self.ask("clear")

    def _new(self, name):
        with open(f"{self.where}/{name}", "rb") as file:
            file.seek(self.at[name])
            return file.read().decode("utf-8", "replace").splitlines()

    def requests(self, count=0, seconds=2):
        """What nginx has answered; waits for `count` of them."""
        deadline = time.monotonic() + seconds
        while True:
            found = [json.loads(line) for line in self._new("requests.log") if line.endswith("}")]
            if len(found) >= count or time.monotonic() > deadline:
                return found
            time.sleep(0.01)

    def queries(self):
        found = [re.search(r"query\[(\S+)\] (\S+) from", line) for line in self._new("queries.log")]
        return ["%s %s" % (one[1], one[2]) for one in found if one]

    def arrived(self, what=None):
        return [one for one in self.ask("arrived") if not one["what"].startswith("canary") and (what is None or one["what"] == what)]

    def bytes_at(self, port):
        """All that came to one of our own ports, in order."""
        return "".join(one["data"] for one in self.arrived() if one["port"] == port)

    def canaries(self):
        return [one for one in self.ask("arrived") if one["what"].startswith("canary")]

    def packets(self):
        return self.ask("packets")

    def attempts(self):
        """Each beginning of a conversation: a SYN, or a datagram; DNS to the resolver left out (see queries())."""
        return ["%s %s:%s" % (one[0], one[1], one[2]) for one in self.packets()
                if (one[0] != "tcp" or one[3] & 0x12 == 2) and not (one[1] == RESOLVER and one[2] == 53)]

    def silence(self, *texts):
        from lib import Failed
        packets = self.packets()
        if not texts and (packets or self.canaries()):
            raise Failed("something left the host: %s, canaries %s" % ([one[:3] for one in packets][:8], self.canaries()[:4]))
        for one in packets:
            for text in texts:
                if text.lower() in one[4].lower():
                    raise Failed("%r is in a packet to %s %s:%s" % (text, one[0], one[1], one[2]))
        for one in self.canaries():
            raise Failed("a service of the host was reached: %s" % one)

    def script(self, name, *answers):
        self.ask("script", name=name, answers=list(answers))

    def raw(self, answer, ends=False):
        """What 80 of RAW answers to a request's head."""
        self.ask("raw", answer=answer, ends=ends)


# ---- inside the sandbox ---------------------------------------------------------------------------------------------

# How an attempt ends that was refused at once. A time-out is none of it: programs must fail fast.
NO_WAY = ("ECONNRESET", "ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH", "EPIPE", "EPERM", "EACCES", "no such name", "end", "http 403", "http 400", "http 421")

INSIDE = r"""
import socket, ssl
def request(host, path="/", method="GET", more=""):
    return ("%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n" % (method, path, host, more)).encode()
def at(host, port):
    host = "[%s]" % host if ":" in host else host
    return host if port in (80, 443) else "%s:%d" % (host, port)
patience = 5
def everything(s, most=1 << 20):
    s.settimeout(patience)
    got = b""
    while len(got) < most:
        try:
            data = s.recv(65536)
        except TimeoutError:
            if got: break
            raise
        if not data:
            break
        got += data
        if not got.startswith(b"HTTP/"): s.settimeout(0.3)  # who does not close
    return got
def outcome(label, action):
    "Tell how it ended: ok and the bytes, http N, an errno, end (nothing came), no such name, timeout."
    try:
        got = action()
    except socket.gaierror as error:
        tell(label, "no such name" if error.errno in (-2, -5) else "gaierror %s" % error.errno)
    except TimeoutError:
        tell(label, "timeout")
    except ssl.SSLError as error:
        tell(label, "tls %s" % (error.reason or error))
    except OSError as error:
        tell(label, errno.errorcode.get(error.errno, str(error.errno)))
    except Exception as error:
        tell(label, "error %r" % error)
    else:
        if isinstance(got, bytes):
            status = got.split(b" ", 2)[1].decode("latin-1") if got.startswith(b"HTTP/") and b" " in got else ""
            tell(label, "end" if not got else "ok" if status in ("", "200") else "http " + status)
        else:
            tell(label, "ok" if got is None else got)
        return got
def reach(host, port, data=b"", family=0):
    for kind in socket.getaddrinfo(host.encode(), port, family, socket.SOCK_STREAM):  # as it is: Python's own idea of names is not asked
        try:
            with socket.socket(kind[0], socket.SOCK_STREAM) as s:
                s.settimeout(patience)
                s.connect(kind[4])
                s.sendall(data or request(at(host, port)))
                return everything(s)
        except OSError as error:
            last = error
    raise last
def talk(label, host, port, data=b"", family=0):
    return outcome(label, lambda: reach(host, port, data, family))
def query(name, kind=1, number=0x1234, edns=b"", flags=0x0100):
    labels = name if isinstance(name, bytes) else b"".join(bytes([len(one)]) + one.encode("latin-1") for one in name.split(".") if one) + b"\0"
    return struct.pack("!HHHHHH", number, flags, 1, 0, 0, 1 if edns else 0) + labels + struct.pack("!HH", kind, 1) + edns
EDNS = b"\0" + struct.pack("!HHIH", 41, 1232, 0, 0)
def dns_raw(message, server="9.9.9.9", tcp=False, wait=3):
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(wait)
        s.connect((server, 53))
        if not tcp:
            s.send(message)
            return s.recv(65535)
        s.sendall(struct.pack("!H", len(message)) + message)
        head = s.recv(2, socket.MSG_WAITALL)
        return s.recv(struct.unpack("!H", head)[0], socket.MSG_WAITALL) if len(head) == 2 else b""
def dns_read(answer):
    "Response code and addresses: '0 198.18.0.2', '3', '0'."
    if len(answer) < 12:
        return "end"
    code, at, found = answer[3] & 15, 12, []
    while answer[at]:
        at += 1 + answer[at]
    at += 5
    for _ in range(struct.unpack("!H", answer[6:8])[0]):
        while answer[at] and answer[at] < 192:
            at += 1 + answer[at]
        at += 2 if answer[at] else 1
        kind, _, ttl, size = struct.unpack("!HHIH", answer[at:at + 10])
        data = answer[at + 10:at + 10 + size]
        at += 10 + size
        found.append(socket.inet_ntop(socket.AF_INET6 if kind == 28 else socket.AF_INET, data) if kind in (1, 28) else "type%d" % kind)
    return " ".join([str(code), *found])
def dns(name, kind=1, **more):
    return dns_read(dns_raw(query(name, kind), **more))
def tls(host, port=443, sni=None, data=None, check=True, address=None, alpn=None):
    context = ssl.create_default_context()
    if not check:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    with socket.create_connection((address or host, port), 5) as plain:
        with context.wrap_socket(plain, server_hostname=host if sni is None else sni or None) as s:
            s.sendall(data or request(at(host, port)))
            return everything(s)
"""


def inside(code, *args):
    """As inside_py() of lib.py, with what is above."""
    import lib
    return lib.inside_py(INSIDE + lib._dedent(code), *args)


def connections(result):
    """What `--json` says about them: the last line of stderr."""
    for line in reversed(result.err.splitlines()):
        with contextlib.suppress(ValueError):
            return json.loads(line)["connections"]
    return []


def egress_of(running):
    """The host's pid of the run's egress."""
    from lib import check, until

    def look():
        for pid, name in descendants_of(running.pid).items():
            if name.startswith("atoll-egress"):
                return pid
        return None
    found = until(look, 5)
    check(found, "no atoll-egress beneath %d: %s" % (running.pid, descendants_of(running.pid)))
    return found


def descendants_of(top):
    parent, name = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):
                text = read_text("/proc/%s/stat" % entry)
                parent[int(entry)], name[int(entry)] = int(text[text.rindex(")") + 2:].split()[1]), text[text.index("(") + 1:text.rindex(")")]
    found = {top}
    while more := {pid for pid, above in parent.items() if above in found} - found:
        found |= more
    return {pid: name[pid] for pid in found - {top} if pid in name}


if __name__ == "__main__":
    try:
        start(sys.argv[1:] or ["/bin/sh"])
    except Lacks as what:
        sys.exit("no network for tests: %s" % what)
