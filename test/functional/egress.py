# SPDX-License-Identifier: Apache-2.0
"""
Driving the program `atoll-egress` by itself: its channel, servers for it to talk to, messages of its protocols

    with Egress({"mode": "rules", "allow": [...]}, hosts={"good.test": "127.0.0.1"}) as egress:
        with egress.proxy() as client: ...            # a connection to its listener, which stands for 127.0.0.1 inside
        egress.event(name="good.test")                 # waits for the event that has these values

The messages are those of src/egress/egress.h.
"""
import contextlib
import json
import os
import select
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

from lib import ATOLL, Failed, check

PROGRAM = os.path.join(os.path.dirname(ATOLL), "atoll-egress")

# The channel is descriptor 3 of the program: so that number must not be one of subprocess's own.
_kept = []
while not _kept or _kept[-1] < 3:
    _kept.append(os.open("/dev/null", os.O_RDONLY))

CONFIG, SOCKETS, ANSWER, INSIDE, READY, FAILED, CONNECTION, QUESTION, WANT, LIMIT = range(10)
ALLOWED, REFUSED, UNREACHED = range(3)
MESSAGE = 736
_event = struct.Struct("=QQQQiiIHH16s256s46s96s128s128s")


def text_of(data):
    return data.split(b"\0")[0].decode()


def message(type, count=0, body=b"", is_allowed=False):
    data = struct.pack("=II", type, count) + body
    return data.ljust(728, b"\0") + bytes([is_allowed]) + bytes(7)


def read_event(body):
    (start, duration, sent, received, pid, verdict, count, port, local_port, program, name, address, rule, reason,
     request) = _event.unpack_from(body)
    return {"sent": sent, "received": received, "verdict": verdict, "count": count, "port": port, "local_port": local_port,
            "name": text_of(name), "address": text_of(address), "rule": text_of(rule), "reason": text_of(reason),
            "request": text_of(request), "duration": duration, "start": start}


def listener(host="127.0.0.1"):
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((host, 0))
    server.listen(512)
    return server


class Server:
    """A server on loopback; `serve(connection)` runs in a thread for each."""

    def __init__(self, serve, host="127.0.0.1"):
        self.socket = listener(host)
        self.port = self.socket.getsockname()[1]
        self.serve = serve
        self.n = 0
        self.errors = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.n += 1
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection):
        with connection:
            try:
                self.serve(connection)
            except OSError as error:
                self.errors.append(error)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def echo(connection):
    while True:
        data = connection.recv(65536)
        if not data:
            return
        connection.sendall(data)


class Egress:
    def __init__(self, network, hosts=None, token="", starts=True, config=None, sockets=None, **more):
        network = dict(network)
        for key in ("allow", "deny"):
            network[key] = [{"host": rule} if isinstance(rule, str) else rule for rule in network.get(key, [])]
        self.dir = tempfile.mkdtemp(prefix="atoll-egress-test-")
        self.events, self.questions, self.others = [], [], []
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.channel = ours
        with open(os.path.join(self.dir, "hosts"), "w") as file:
            for name, addresses in (hosts or {}).items():
                for address in [addresses] if isinstance(addresses, str) else addresses:
                    file.write("%s %s\n" % (address, name))
        with open(os.path.join(self.dir, "resolv.conf"), "w") as file:
            file.write(more.pop("resolv", "nameserver 127.0.0.66\n"))
        os.chmod(self.dir, 0o755)
        settings = {"network": network, "token": token, "hosts": os.path.join(self.dir, "hosts"),
                    "resolv": os.path.join(self.dir, "resolv.conf"), "own": [], "secrets": []}
        settings.update(more)
        fd = os.memfd_create("config")
        os.write(fd, config if config is not None else json.dumps(settings).encode())
        self.process = subprocess.Popen(["/bin/bash", "-c", 'exec "$0" 3<&%d' % theirs.fileno(), PROGRAM],
                                        pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self.send(message(CONFIG), [fd])
        os.close(fd)
        if not starts:
            return
        kind, count, body, fds = self.receive(20)
        check(kind == READY, "egress did not start: %s" % (text_of(body[8:]) if kind == FAILED else kind))
        self.ports = struct.unpack_from("=16H", body)[:count]
        self.certificate = os.read(fds[0], 65536).decode() if fds else None
        for fd in fds:
            os.close(fd)
        if sockets is None:
            self.listener = listener()
            self.dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.dns.bind(("127.0.0.1", 0))
            sockets = [self.listener.fileno(), self.dns.fileno()]
        self.send(message(SOCKETS), sockets)

    def send(self, data, fds=()):
        socket.send_fds(self.channel, [data], list(fds))

    def receive(self, seconds=10):
        if not select.select([self.channel], [], [], seconds)[0]:
            raise Failed("egress said nothing within %g s" % seconds)
        data, fds, _, _ = socket.recv_fds(self.channel, MESSAGE, 8)
        if not data:
            raise Failed("egress ended")
        check(len(data) == MESSAGE, "a message of %d bytes" % len(data))
        kind, count = struct.unpack_from("=II", data)
        return kind, count, data[8:728], fds

    def pump(self, seconds):
        """Take one message, if one comes."""
        if not select.select([self.channel], [], [], seconds)[0]:
            return False
        kind, count, body, fds = self.receive()
        if kind == CONNECTION:
            self.events.append(read_event(body))
        elif kind == QUESTION:
            number, port = struct.unpack_from("=QH", body)
            self.questions.append((number, text_of(body[12:268]), port))
        else:
            self.others.append((kind, count, body))
        return True

    def event(self, seconds=10, **values):
        end = time.monotonic() + seconds
        while True:
            for event in self.events:
                if all(event[key] == value for key, value in values.items()):
                    self.events.remove(event)
                    return event
            left = end - time.monotonic()
            check(left > 0, "no event %r, but %r" % (values, self.events))
            self.pump(left)

    def question(self, seconds=10):
        end = time.monotonic() + seconds
        while not self.questions:
            left = end - time.monotonic()
            check(left > 0, "no question")
            self.pump(left)
        return self.questions.pop(0)

    def other(self, kind, seconds=10):
        end = time.monotonic() + seconds
        while True:
            for one in self.others:
                if one[0] == kind:
                    self.others.remove(one)
                    return one
            left = end - time.monotonic()
            check(left > 0, "no message of type %d" % kind)
            self.pump(left)

    def quiet(self, seconds=0.3):
        """No event but those taken."""
        while self.pump(seconds):
            pass
        check(not self.events, "more events: %r" % self.events)

    def answer(self, number, is_allowed):
        self.send(message(ANSWER, body=struct.pack("=Q", number), is_allowed=is_allowed))

    def proxy(self, seconds=10):
        return socket.create_connection(self.listener.getsockname(), timeout=seconds)

    def connect(self, target, extra=""):
        """CONNECT through the proxy; the connection, and the answer's first line."""
        client = self.proxy()
        client.sendall(("CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n" % (target, target, extra)).encode())
        return client, read_head(client)

    def query(self, name, type=1, **how):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(how.pop("seconds", 5))
            client.connect(self.dns.getsockname())
            client.send(dns_query(name, type, **how))
            return DnsAnswer(client.recv(4096))

    def memory_kib(self):
        with open("/proc/%d/status" % self.process.pid) as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.channel.close()
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "it did not end with its channel"
        shutil.rmtree(self.dir)
        if kind is None:
            check(status == 0, "atoll-egress ended with %r" % status)


def read_head(client):
    """Byte by byte: what follows belongs to others."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte:
            break
        head += byte
    return head.decode()


def read_exactly(client, size):
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            break
        data += more
    return data


def is_reset(client):
    """Does the other side reset it?"""
    try:
        return client.recv(1) == b"" and None
    except ConnectionResetError:
        return True


def socks5(client, host, port, command=1, auth=None):
    """The reply's code; the connection is then the server's if it is 0."""
    client.sendall(b"\5\1" + (b"\2" if auth else b"\0"))
    method = read_exactly(client, 2)
    if method == b"\5\2":
        client.sendall(b"\1" + bytes([len(auth[0])]) + auth[0].encode() + bytes([len(auth[1])]) + auth[1].encode())
        if read_exactly(client, 2) != b"\1\0":
            return "password"
    elif method != b"\5\0":
        return "method"
    if ":" in host:
        address = b"\4" + socket.inet_pton(socket.AF_INET6, host)
    elif host.replace(".", "").isdigit():
        address = b"\1" + socket.inet_aton(host)
    else:
        address = b"\3" + bytes([len(host)]) + host.encode()
    client.sendall(b"\5" + bytes([command]) + b"\0" + address + struct.pack(">H", port))
    return read_exactly(client, 10)[1]


def hello(name):
    """A real ClientHello."""
    context = ssl.create_default_context()
    context.check_hostname = False
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def dns_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def dns_query(name, type=1, klass=1, flags=0x0100, edns=None, number=0x1234):
    return (struct.pack(">HHHHHH", number, flags, 1, 0, 0, edns is not None) + dns_name(name) +
            struct.pack(">HH", type, klass) + (b"" if edns is None else edns))


EDNS = b"\0" + struct.pack(">HHBBHH", 41, 1232, 0, 0, 0, 0)


class DnsAnswer:
    def __init__(self, data):
        self.data = data
        self.id, self.flags, self.questions, answers, _, self.extra = struct.unpack(">HHHHHH", data[:12])
        self.code = self.flags & 15
        at = data.index(b"\0", 12) + 5 if self.questions else 12
        self.question = data[12:at]
        self.address, self.ttl = None, None
        if answers:
            type, _, self.ttl, size = struct.unpack_from(">HHIH", data, at + 2)
            self.address = socket.inet_ntop(socket.AF_INET if type == 1 else socket.AF_INET6, data[at + 12:at + 12 + size])
            at += 12 + size
        self.rest = data[at:]


_INSIDE = r"""
import json, os, socket, subprocess, sys, traceback
channel = socket.socket(fileno=int(sys.argv[1]))
for line in ("link set lo up", "route add local 0.0.0.0/0 dev lo", "-6 route add local ::/0 dev lo"):
    subprocess.run(["ip"] + line.split(), check=True)
subprocess.run(["nft", "-f", "-"], check=True, text=True, input='''
table inet atoll {
chain in {
  type filter hook prerouting priority -150;
  meta l4proto tcp ip daddr 127.0.0.0/8 tcp dport != 53 accept
  meta l4proto tcp ip6 daddr ::1 tcp dport != 53 accept
  meta l4proto tcp meta nfproto ipv4 tproxy ip to :1023 accept
  meta l4proto tcp meta nfproto ipv6 tproxy ip6 to :1023 accept
}
}
''')
def make(kind, port):
    made = socket.socket(socket.AF_INET6, kind)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.setsockopt(socket.SOL_IP, 19, 1)          # IP_TRANSPARENT
    made.setsockopt(socket.IPPROTO_IPV6, 75, 1)    # IPV6_TRANSPARENT
    made.bind(("::", port))
    return made
tcp, udp = make(socket.SOCK_STREAM, 1023), make(socket.SOCK_DGRAM, 53)
tcp.listen(4096)
socket.send_fds(channel, [b"x"], [tcp.fileno(), udp.fileno()])
tcp.close(), udp.close()
scope = {}
for line in sys.stdin:
    try:
        exec(json.loads(line), scope)
        print(json.dumps({"result": scope.pop("result", None)}), flush=True)
    except BaseException as error:
        print(json.dumps({"error": "%s: %s" % (type(error).__name__, error)}), flush=True)
"""


class Inside:
    """A network namespace as the sandbox's, and a Python in it: run(code) gives back what it leaves in `result`."""

    def __init__(self):
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(["unshare", "-Urn", "/usr/bin/python3", "-c", _INSIDE, str(theirs.fileno())],
                                        pass_fds=[theirs.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        theirs.close()
        _, fds, _, _ = socket.recv_fds(ours, 1, 2)
        ours.close()
        if len(fds) != 2:
            self.process.wait()
        self.sockets = fds

    def run(self, code):
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise Failed("inside: %s" % answer["error"])
        return answer["result"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for fd in self.sockets:
            os.close(fd)
        self.process.stdin.close()
        self.process.wait()
