# SPDX-License-Identifier: Apache-2.0
"""
The Internet of the network tests: real servers in a network namespace of their own, and a record of all that arrives

Started by net.py, as the first process of a pid namespace: when it ends, every server ends. In its network namespace every
address of the world is local, so whatever leaves "the host" arrives here, wherever it was meant to go.

    dnsmasq     the resolver, 9.9.9.9; logs every query. Below script.test a small server of ours answers, as a test says
    nginx       80 and 443 of every address; logs every request as JSON
    openssl     s_server, 8443
    sshd        22, for git
    ours        5432 a stand-in for PostgreSQL; 3128 a CONNECT proxy; the ports of SINK; raw HTTP on 80 and 443 of RAW
    a sniffer   every packet that came from "the host"

On "the host" itself: 80, 443, 5432 and CANARY of all its addresses, loopback included, which nobody from a sandbox may reach.
"""

import base64
import contextlib
import ctypes
import hashlib
import io
import json
import os
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import zipfile

SERVER4, SERVER6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"
SECOND4 = "93.184.216.35"
RAW = "93.184.216.80"
RESOLVER = "9.9.9.9"
HOST4, HOST6 = "45.33.32.10", "2600:3c01::10"
GATE4, GATE6 = "45.33.32.1", "2600:3c01::1"
PRIVATE, METADATA = "10.9.0.5", "169.254.169.254"
HOLE4, HOLE6 = "81.2.69.200", "2606:2800:220:1::dead"  # swallow packets
CANARY = 7777

# What the ports of our own do with a connection; all of them keep a record.
SINK = {7000: "echo", 7001: "silent", 7002: "reset", 7003: "answer at the end", 7004: "slow", 25: "silent", 6379: "silent", 853: "silent",
        8080: "silent", 7100: "source", 7101: "drain"}

NAMES = {
    "good.test": (SERVER4, SERVER6), "other.test": (SERVER4, SERVER6), "api.test": (SERVER4, SERVER6), "v4.test": (SERVER4,),
    "v6.test": (SERVER6,), "evil.test": (SERVER4, SERVER6), "wild.test": (SERVER4,), "good.test.evil.test": (SERVER4,),
    "evilgood.test": (SERVER4,), "expired.test": (SERVER4,), "selfsigned.test": (SERVER4,), "wrong.test": (SERVER4,),
    "private.test": (PRIVATE,), "loop.test": ("127.0.0.1", "::1"), "meta.test": (METADATA,), "own.test": (HOST4, HOST6),
    "raw.test": (RAW,), "hole.test": (HOLE4,), "half.test": (SERVER4, HOLE6), "two.test": (HOLE4, SERVER4), "git.test": (SERVER4, SERVER6),
    "db.test": (SERVER4,), "xn--bcher-kva.test": (SERVER4,), "_under.test": (SERVER4,), "proxy.test": (SERVER4,), "metadata.google.internal": (METADATA,),
    "cgnat.test": ("100.64.1.1",), "zero.test": ("0.0.0.0",), "mapped.test": ("::ffff:127.0.0.1",), "nat64.test": ("64:ff9b::7f00:1",),
    "multi.test": ("224.0.0.1",), "ula.test": ("fd00::5",), "linklocal.test": ("fe80::1",), "mixed.test": ("127.0.0.1", PRIVATE, SERVER4),
    "synthetic.test": ("198.18.0.1",),
}
CERTIFIED = ("good.test", "*.good.test", "other.test", "api.test", "v4.test", "v6.test", "evil.test", "wild.test", "*.wild.test", "git.test", "raw.test",
             "half.test", "two.test", "xn--bcher-kva.test", "proxy.test", "*.script.test", "private.test")

NGINX = """
daemon off;
%(user)s
worker_processes 1;
pid %(dir)s/nginx.pid;
error_log %(dir)s/nginx-error.log;
events { worker_connections 4096; }
http {
    log_format all escape=json '{"to":"$server_addr","port":"$server_port","tls":"$ssl_protocol","sni":"$ssl_server_name","host":"$http_host",'
        '"method":"$request_method","request":"$request","path":"$uri","query":"$args","auth":"$http_authorization","key":"$http_x_api_key",'
        '"cookie":"$http_cookie","status":"$status","from":"$remote_addr","protocol":"$server_protocol","bytes":"$request_length","token":"$http_x_token",'
        '"proxyauth":"$http_proxy_authorization","agent":"$http_user_agent","alpn":"$ssl_alpn_protocol"}';
    access_log %(dir)s/requests.log all;
    client_body_temp_path %(dir)s/tmp; proxy_temp_path %(dir)s/tmp; fastcgi_temp_path %(dir)s/tmp; uwsgi_temp_path %(dir)s/tmp; scgi_temp_path %(dir)s/tmp;
    client_max_body_size 2000m;
    ssl_session_cache none;
    ssl_protocols TLSv1.2 TLSv1.3;
    keepalive_requests 100000;
    types { text/html html; application/json json; }
    default_type text/plain;
    server {
        listen 80 reuseport backlog=16384; listen [::]:80 reuseport backlog=16384; listen 443 ssl http2 reuseport backlog=4096; listen [::]:443 ssl http2 reuseport;
        ssl_certificate %(dir)s/leaf.pem; ssl_certificate_key %(dir)s/leaf.key;
        root %(dir)s/www;
        include %(dir)s/places;
    }
    %(bad)s
}
"""
PLACES = """
location / { return 200 "hello from $host\\n"; }
location = /reflect { add_header X-Echo "$http_authorization"; add_header X-Echo2 "$http_x_api_key"; return 200 "[$http_authorization|$http_x_api_key|$args]\\n"; }
location = /redirect { return 302 http://other.test/reflect; }
location = /redirect-tls { return 302 https://other.test/reflect; }
location /files/ { }
location /git/ { alias %(dir)s/git/; }
location /simple/ { index index.html; }
location /npm/ { default_type application/json; }
location /py/ { proxy_pass http://127.0.0.1:9000; proxy_http_version 1.1; proxy_buffering off; proxy_request_buffering off; proxy_set_header Host $http_host;
    proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection; proxy_read_timeout 30s; }
"""
BAD = """
server { listen 443 ssl http2; listen [::]:443 ssl http2; server_name %(name)s; ssl_certificate %(dir)s/%(kind)s.pem; ssl_certificate_key %(dir)s/%(kind)s.key;
    include %(dir)s/places; }
"""
SSHD = """
Port 22
AddressFamily any
HostKey %(dir)s/host_key
AuthorizedKeysFile %(dir)s/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
AllowTcpForwarding no
PermitUserEnvironment no
LogLevel VERBOSE
"""


def quiet(argv, **options):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if done.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(argv[:3]), done.stdout.strip()[-400:]))
    return done.stdout


# ---- what the servers need ------------------------------------------------------------------------------------------

def make_certificates(where):
    """An authority, a certificate for all good names, and one of each bad kind."""
    def new(name, subject, names, *more):
        quiet(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{where}/{name}.key", "-out",
               f"{where}/{name}.pem", "-subj", f"/CN={subject}", *(["-addext", "subjectAltName=" + ",".join("DNS:" + n for n in names)] if names else []), *more])
    signed = ("-CA", f"{where}/ca.pem", "-CAkey", f"{where}/ca.key")
    new("ca", "atoll test authority", (), "-days", "30", "-addext", "basicConstraints=critical,CA:TRUE")
    new("leaf", "good.test", CERTIFIED, "-days", "20", *signed)
    new("selfsigned", "selfsigned.test", ("selfsigned.test",), "-days", "20")
    new("wrong", "somebody.test", ("somebody.test",), "-days", "20", *signed)
    quiet(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{where}/expired.key", "-out", f"{where}/expired.req",
           "-subj", "/CN=expired.test", "-addext", "subjectAltName=DNS:expired.test"])
    quiet(["openssl", "x509", "-req", "-in", f"{where}/expired.req", "-out", f"{where}/expired.pem", "-days", "-1", "-copy_extensions", "copy", "-CAcreateserial", *signed])


def make_files(where):
    os.makedirs(f"{where}/www/files")
    os.makedirs(f"{where}/tmp")
    with open(f"{where}/www/files/small", "w") as file:
        file.write("small\n" * 1000)
    with open(f"{where}/www/files/big", "w") as file:
        os.truncate(file.fileno(), 1 << 30)
    # git over http needs no program at the server: the "dumb" way is files
    quiet(["sh", "-ec", """
        git init -q -b main "$1/work"; cd "$1/work"; echo cloned >file; git add .
        git -c user.name=a -c user.email=a@example.org commit -q -m one; mkdir -p "$1/git"; git clone -q --bare . "$1/git/repo.git"
        cd "$1/git/repo.git"; git update-server-info; git config http.receivepack true; rm -rf "$1/work" """, "sh", where],
          env={"PATH": os.environ["PATH"], "HOME": where, "GIT_CONFIG_NOSYSTEM": "1"})
    # a package of Python's
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("tinypackage.py", "word = 'installed'\n")
        wheel.writestr("tinypackage-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinypackage\nVersion: 1.0\n")
        wheel.writestr("tinypackage-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tinypackage-1.0.dist-info/RECORD", "tinypackage.py,,\ntinypackage-1.0.dist-info/METADATA,,\ntinypackage-1.0.dist-info/WHEEL,,\ntinypackage-1.0.dist-info/RECORD,,\n")
    os.makedirs(f"{where}/www/simple/tinypackage")
    with open(f"{where}/www/files/tinypackage-1.0-py3-none-any.whl", "wb") as file:
        file.write(packed.getvalue())
    with open(f"{where}/www/simple/tinypackage/index.html", "w") as file:
        file.write('<!DOCTYPE html><html><body><a href="/files/tinypackage-1.0-py3-none-any.whl">tinypackage-1.0-py3-none-any.whl</a></body></html>')
    # and one of npm's
    os.makedirs(f"{where}/package")
    with open(f"{where}/package/package.json", "w") as file:
        json.dump({"name": "tinypackage", "version": "1.0.0", "main": "index.js"}, file)
    with open(f"{where}/package/index.js", "w") as file:
        file.write("module.exports = 'installed'\n")
    quiet(["tar", "-czf", f"{where}/www/files/tinypackage-1.0.0.tgz", "-C", where, "package"])
    with open(f"{where}/www/files/tinypackage-1.0.0.tgz", "rb") as file:
        digest = base64.b64encode(hashlib.sha512(file.read()).digest()).decode()
    os.makedirs(f"{where}/www/npm")
    with open(f"{where}/www/npm/tinypackage", "w") as file:
        json.dump({"name": "tinypackage", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
            "name": "tinypackage", "version": "1.0.0", "dist": {"tarball": "https://good.test/files/tinypackage-1.0.0.tgz", "integrity": "sha512-" + digest}}}}, file)


def make_keys(where):
    for name in ("host_key", "id"):
        quiet(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{where}/{name}"])
    shutil.copy(f"{where}/id.pub", f"{where}/authorized_keys")
    with open(f"{where}/host_key.pub") as file:
        key = " ".join(file.read().split()[:2])
    with open(f"{where}/known_hosts", "w") as file:
        file.write(f"git.test,good.test,other.test {key}\n")


# ---- our own servers ------------------------------------------------------------------------------------------------

def listener(address, port, kind=socket.SOCK_STREAM, backlog=16384):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND: every address is local here
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address == "::" else 1)
    s.bind((address, port))
    if kind == socket.SOCK_STREAM:
        s.listen(backlog)
    return s


def plainly(address):
    return address[7:] if address.startswith("::ffff:") else address


class Record:
    """What arrived, in order: {"where", "what", "data"}."""

    def __init__(self):
        self.lock = threading.Lock()
        self.entries = []

    def add(self, what, s, data=b"", peer=None):
        where = s.getsockname()
        with self.lock:
            if len(self.entries) < 50000:
                self.entries.append({"what": what, "to": plainly(where[0]), "port": where[1], "data": data[:65536].decode("latin-1")})

    def take(self):
        with self.lock:
            return list(self.entries)

    def clear(self):
        with self.lock:
            self.entries.clear()


class Sink:
    """The ports of SINK, and the canaries of the host: one loop for however many connections."""

    def __init__(self, record):
        self.record, self.selector, self.slow, self.total = record, selectors.DefaultSelector(), {}, {}
        self.live = 0

    def add(self, s, what, mode):
        s.setblocking(False)
        self.selector.register(s, selectors.EVENT_READ, (True, what, mode))

    def serve(self):
        last = time.monotonic()
        while True:
            for key, _ in self.selector.select(0.2):
                is_listening, what, mode = key.data
                with contextlib.suppress(OSError):
                    if is_listening and key.fileobj.type == socket.SOCK_DGRAM:
                        self.record.add(what, key.fileobj, key.fileobj.recv(65536))
                    elif is_listening:
                        self.accept(key.fileobj, what, mode)
                    else:
                        self.read(key.fileobj, what, mode)
            if time.monotonic() - last > 0.2:
                last = time.monotonic()
                for s in list(self.slow):
                    try:
                        s.send(b".")
                    except BlockingIOError:
                        pass
                    except OSError:
                        self.end(s)

    def accept(self, listening, what, mode):
        for _ in range(64):
            s, _ = listening.accept()
            self.record.add(what + " connection", s)
            if mode == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.close()
            elif mode in ("source", "drain"):
                s.setblocking(True)
                threading.Thread(target=getattr(self, mode), args=(s,), daemon=True).start()
            else:
                s.setblocking(False)
                self.live += 1
                self.total[s] = 0
                if mode == "slow":
                    self.slow[s] = True
                self.selector.register(s, selectors.EVENT_READ, (False, what, mode))

    def end(self, s):
        self.slow.pop(s, None)
        if self.total.pop(s, None) is not None:
            self.live -= 1
            self.selector.unregister(s)
        s.close()

    def read(self, s, what, mode):
        try:
            data = s.recv(65536)
        except OSError:
            return self.end(s)
        self.total[s] += len(data)
        if data:
            self.record.add(what, s, data)
        if mode == "echo" and data:
            with contextlib.suppress(BlockingIOError):
                s.send(data)
        elif mode == "canary" and data:
            s.send(b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\n\r\ncanary\n")
            self.end(s)
            return
        if not data:
            if mode == "answer at the end":
                with contextlib.suppress(OSError):
                    s.send(b"got %d\n" % self.total[s])
            self.end(s)

    def source(self, s):
        """Reads a number and a line's end; sends so many bytes."""
        with contextlib.suppress(OSError, ValueError), s:
            size = int(s.recv(64))
            while size > 0:
                size -= os.sendfile(s.fileno(), ZEROES, 0, min(size, 1 << 22))

    def drain(self, s):
        """Reads to the end; answers with how much it was."""
        room, total = bytearray(1 << 20), 0
        with contextlib.suppress(OSError), s:
            while n := s.recv_into(room):
                total += n
            s.sendall(b"%d\n" % total)


ZEROES = os.memfd_create("zeroes")
os.truncate(ZEROES, 1 << 22)


def threads(s, serve):
    """One thread for each connection."""
    def one(connection):
        with contextlib.suppress(OSError, ValueError, struct.error, IndexError), connection:
            connection.settimeout(60)
            serve(connection)

    def loop():
        while True:
            threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


class Raw:
    """HTTP without a server's ideas about it: keeps every byte, and answers each head with `answer`."""

    def __init__(self, record):
        self.record, self.answer, self.ends = record, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n", False

    def serve(self, s):
        self.record.add("raw connection", s)
        held = b""
        while data := s.recv(65536):
            self.record.add("raw", s, data)
            held += data
            while b"\r\n\r\n" in held:
                held = held.split(b"\r\n\r\n", 1)[1]
                s.sendall(self.answer)
                if self.ends:
                    return


def serve_postgres(record):
    def message(kind, body):
        return kind + struct.pack("!I", len(body) + 4) + body

    def serve(s):
        record.add("postgres connection", s)
        while True:
            size, code = struct.unpack("!II", s.recv(8, socket.MSG_WAITALL))
            rest = s.recv(size - 8, socket.MSG_WAITALL) if size > 8 else b""
            if code not in (80877103, 80877104):  # requests for TLS or GSSAPI: no
                break
            s.sendall(b"N")
        record.add("postgres", s, rest)
        s.sendall(message(b"R", struct.pack("!I", 0)) + message(b"S", b"server_version\x0015.0\0") + message(b"S", b"client_encoding\0UTF8\0") +
                  message(b"Z", b"I"))
        while True:
            kind, size = struct.unpack("!cI", s.recv(5, socket.MSG_WAITALL))
            text = s.recv(size - 4, socket.MSG_WAITALL)
            if kind == b"X":
                return
            record.add("postgres", s, text)
            s.sendall(message(b"T", struct.pack("!H", 1) + b"answer\0" + struct.pack("!IHIhiH", 0, 0, 25, -1, -1, 0)) +
                      message(b"D", struct.pack("!HI", 1, 9) + b"from-fake") + message(b"C", b"SELECT 1\0") + message(b"Z", b"I"))
    return serve


def serve_proxy(record):
    """CONNECT, and nothing else. Names are looked up in NAMES."""
    def serve(s):
        head = b""
        while b"\r\n\r\n" not in head:
            data = s.recv(65536)
            if not data:
                return
            head += data
        record.add("proxy", s, head)
        method, target = head.split()[:2]
        name, port = target.decode().rsplit(":", 1)
        if method != b"CONNECT":
            return s.sendall(b"HTTP/1.1 405 no\r\nContent-Length: 0\r\n\r\n")
        if name == "refused.test":
            return s.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        to = socket.create_connection((NAMES.get(name, (name.strip("[]"),))[0], int(port)), 10)
        s.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")

        def pump(a, b):
            with contextlib.suppress(OSError):
                while data := a.recv(65536):
                    b.sendall(data)
            with contextlib.suppress(OSError):
                b.shutdown(socket.SHUT_WR)
        other = threading.Thread(target=pump, args=(to, s), daemon=True)
        other.start()
        pump(s, to)
        other.join(30)
        to.close()
    return serve


def git_backend(where, method, path, headers, body):
    """What git's own server says over HTTP."""
    path, _, query = path.partition("?")
    env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": f"{where}/git", "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": method,
           "REMOTE_USER": "test", "CONTENT_TYPE": headers.get("content-type", ""), "HTTP_GIT_PROTOCOL": headers.get("git-protocol", ""), "HOME": where,
           "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""), "CONTENT_LENGTH": str(len(body))}
    done = subprocess.run(["git", "http-backend"], input=body, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    status = re.search(rb"^Status: (\d+)", head, re.M)
    return b"HTTP/1.1 %s x\r\n%s\r\nContent-Length: %d\r\n\r\n" % (status[1] if status else b"200", head, len(rest)) + rest


def serve_http(record, where):
    """Behind nginx: what nginx itself cannot answer."""
    def read_body(file, headers):
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = b""
            while True:
                size = int(file.readline().split(b";")[0], 16)
                if size == 0:
                    while file.readline().strip():
                        pass
                    return body
                body += file.read(size)
                file.readline()
        return file.read(int(headers.get("content-length", 0)))

    def serve(s):
        file = s.makefile("rwb")
        while True:
            line = file.readline().decode("latin-1").split()
            if len(line) != 3:
                return
            headers = {}
            while (text := file.readline().decode("latin-1").rstrip("\r\n")):
                name, value = text.split(":", 1)
                headers[name.strip().lower()] = value.strip()
            method, path = line[:2]
            if path == "/py/ws":
                accept = base64.b64encode(hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
                file.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
                file.flush()
                while data := s.recv(65536):
                    s.sendall(data)
                return
            body = read_body(file, headers)
            if path.startswith("/py/git/"):
                file.write(git_backend(where, method, path[7:], headers, body))
                file.flush()
                continue
            secret = headers.get("authorization", "") + headers.get("x-api-key", "")
            if path == "/py/split":
                file.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for letter in f"[{secret}]\n":
                    file.write(f"1\r\n{letter}\r\n".encode())
                    file.flush()
                file.write(b"0\r\n\r\n")
            elif path == "/py/late":  # at every offset of large buffers
                text = b"".join(b"." * pad + secret.encode() for pad in (4096 - 7, 8192 - 11, 16384 - 3, 65536 - 13, 131072 - 5))
                file.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            elif path == "/py/slow":
                file.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for n in range(5):
                    file.write(b"2\r\n%d\n\r\n" % n)
                    file.flush()
                    time.sleep(0.15)
                file.write(b"0\r\n\r\n")
            else:
                text = json.dumps({"method": method, "path": path, "size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "headers": headers}).encode()
                file.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
            file.flush()
    return serve


class Names:
    """DNS below script.test: a test says what the first, second, ... query for a name gets; the last goes on for ever. An answer is a list
    of addresses, "nothing" (no reply), "refused", or "name:OTHER" (an alias); with "ttl:30" in front of the list it is good for 30 seconds."""

    def __init__(self):
        self.script, self.asked, self.lock = {}, [], threading.Lock()

    def serve(self, s):
        while True:
            query, peer = s.recvfrom(4096)
            with contextlib.suppress(IndexError, ValueError, struct.error):
                answer = self.answer(query)
                if answer:
                    s.sendto(answer, peer)

    def answer(self, query):
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
            at += 1 + query[at]
        at += 1
        name, kind = ".".join(labels).lower(), struct.unpack("!H", query[at:at + 2])[0]
        question = query[12:at + 4]
        with self.lock:
            self.asked.append([name, kind])
            answers = self.script.get(name, [[]])
            count = sum(1 for one in self.asked if one == [name, kind])
            chosen = answers[min(count, len(answers)) - 1]
        if chosen == "nothing":
            return None
        records, code, owner, ttl = [], 5 if chosen == "refused" else 0, b"\xc0\x0c", 0
        for one in chosen if isinstance(chosen, list) else []:
            if one.startswith("ttl:"):
                ttl = int(one[4:])
            elif one.startswith("name:"):
                target = b"".join(bytes([len(label)]) + label.encode() for label in one[5:].split(".")) + b"\0"
                records.append(owner + struct.pack("!HHIH", 5, 1, ttl, len(target)) + target)
                owner = target
            elif (":" in one) == (kind == 28) and kind in (1, 28):
                data = socket.inet_pton(socket.AF_INET6 if kind == 28 else socket.AF_INET, one)
                records.append(owner + struct.pack("!HHIH", kind, 1, ttl, len(data)) + data)
        return query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(records), 0, 0) + question + b"".join(records)


class Sniffer:
    """Every packet from "the host": [protocol, to, port, flags, data]."""

    def __init__(self, interface):
        self.packets, self.lock, self.count = [], threading.Lock(), 0
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.bind((interface, 3))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)

    def turn(self, on):
        """Off, the kernel lets all of it pass by: a reader that only drops it would take its share of the CPUs that are measured."""
        if on:
            with contextlib.suppress(FileNotFoundError):  # it is on
                self.socket.setsockopt(socket.SOL_SOCKET, 27, 0)  # SO_DETACH_FILTER
        else:
            nothing = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # BPF: return 0
            self.socket.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HxxxxxxQ", 1, ctypes.addressof(nothing)))  # SO_ATTACH_FILTER

    def serve(self):
        while True:
            data, address = self.socket.recvfrom(4096)
            if address[2] != 0:  # PACKET_HOST: to us
                continue
            with contextlib.suppress(struct.error, IndexError):
                packet = self.read(data)
                if packet:
                    with self.lock:
                        self.count += 1
                        if len(self.packets) < 20000:
                            self.packets.append(packet)

    @staticmethod
    def read(data):
        if data[0] >> 4 == 4:
            protocol, to, rest = data[9], socket.inet_ntop(socket.AF_INET, data[16:20]), data[(data[0] & 15) * 4:]
        elif data[0] >> 4 == 6:
            protocol, to, rest = data[6], socket.inet_ntop(socket.AF_INET6, data[24:40]), data[40:]
        else:
            return None
        if protocol == 6:
            return ["tcp", to, struct.unpack("!H", rest[2:4])[0], rest[13], rest[(rest[12] >> 4) * 4:].decode("latin-1")]
        if protocol == 17:
            return ["udp", to, struct.unpack("!H", rest[2:4])[0], 0, rest[8:].decode("latin-1")]
        if protocol == 58 and rest[0] in range(130, 160) or protocol in (0, 2):  # neighbours and groups: the kernel's own
            return None
        return [str(protocol), to, 0, 0, rest.decode("latin-1")]


# ---- all together ---------------------------------------------------------------------------------------------------

class Internet:
    def __init__(self, where, control, host_net, own_net):
        self.where, self.control, self.host_net, self.own_net = where, control, host_net, own_net
        self.record, self.children, self.libc = Record(), [], ctypes.CDLL(None, use_errno=True)
        self.sink, self.raw, self.names = Sink(self.record), Raw(self.record), Names()

    def spawn(self, name, argv, **options):
        with open(f"{self.where}/{name}.out", "wb") as out:
            self.children.append((name, subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **options)))

    def on_host(self, make):
        """Sockets belong to the namespace in which they were made."""
        if self.libc.setns(self.host_net, 0x40000000):
            raise OSError(ctypes.get_errno(), "cannot enter the host's network")
        try:
            return make()
        finally:
            if self.libc.setns(self.own_net, 0x40000000):
                os._exit(1)

    def start_own(self):
        for port, mode in SINK.items():
            self.sink.add(listener("::", port), "sink", mode)
        for port in (123, 443, 7000):
            self.sink.add(listener("::", port, socket.SOCK_DGRAM), "udp", "")
        for port in (80, 443, 22, 5432, CANARY):
            self.sink.add(self.on_host(lambda: listener("::", port)), "canary", "canary")
        self.sink.add(self.on_host(lambda: listener("::", CANARY, socket.SOCK_DGRAM)), "canary udp", "")
        threads(listener(RAW, 80), self.raw.serve)
        threads(listener("::", 5432), serve_postgres(self.record))
        threads(listener("::", 3128), serve_proxy(self.record))
        threads(listener("127.0.0.1", 9000), serve_http(self.record, self.where))
        names = listener("127.0.0.1", 5300, socket.SOCK_DGRAM)
        self.sniffer = Sniffer("net0")
        for serve in (self.sink.serve, lambda: self.names.serve(names), self.sniffer.serve):
            threading.Thread(target=serve, daemon=True).start()

    def start_others(self):
        where = {"dir": self.where, "user": "user root;" if os.geteuid() == 0 else ""}
        where["bad"] = "".join(BAD % {**where, "name": f"{kind}.test", "kind": kind} for kind in ("expired", "selfsigned", "wrong"))
        for name, text in (("places", PLACES), ("nginx.conf", NGINX), ("sshd_config", SSHD)):
            with open(f"{self.where}/{name}", "w") as file:
                file.write(text % where)
        self.spawn("nginx", ["nginx", "-p", self.where, "-e", f"{self.where}/nginx-error.log", "-c", f"{self.where}/nginx.conf"])
        lines = ["host-record=%s" % ",".join((name, *(one for one in addresses))) for name, addresses in NAMES.items()]
        lines += ["address=/w.wild.test/%s" % SERVER4, "address=/any.wild.test/%s" % SERVER4, "server=/script.test/127.0.0.1#5300", "local=/test/", "local=/internal/"]
        with open(f"{self.where}/dnsmasq.conf", "w") as file:
            file.write("\n".join(lines) + "\n")
        self.spawn("dnsmasq", ["dnsmasq", "--keep-in-foreground", f"--conf-file={self.where}/dnsmasq.conf", "--no-resolv", "--no-hosts", "--cache-size=0", "--local-ttl=60", "--pid-file",
                               f"--listen-address={RESOLVER}", "--bind-interfaces", "--log-queries", f"--log-facility={self.where}/queries.log", "--user=root",
                               "--group=root"])
        self.spawn("s_server", ["openssl", "s_server", "-accept", "8443", "-cert", f"{self.where}/leaf.pem", "-key", f"{self.where}/leaf.key", "-www", "-quiet"])
        self.spawn("sshd", [shutil.which("sshd"), "-D", "-e", "-f", f"{self.where}/sshd_config"])

    def wait_up(self):
        waiting = {"nginx": (SERVER4, 443), "dnsmasq": (RESOLVER, 53), "s_server": (SERVER4, 8443), "sshd": (SERVER4, 22)}
        deadline = time.monotonic() + 10
        while waiting:
            for name, child in self.children:
                if child.poll() is not None:
                    with open(f"{self.where}/{name}.out", errors="replace") as file:
                        raise RuntimeError("%s ended: %s" % (name, file.read().strip()[-300:]))
                if name in waiting:
                    with contextlib.suppress(OSError):
                        socket.create_connection(waiting[name], 1).close()
                        del waiting[name]
            if time.monotonic() > deadline:
                raise RuntimeError("%s did not come up" % ", ".join(waiting))
            if waiting:
                time.sleep(0.01)

    # ---- what tests ask

    def do(self, op, **args):
        if op == "clear":
            self.record.clear()
            with self.sniffer.lock:
                self.sniffer.packets.clear()
                self.sniffer.count = 0
            self.names.asked.clear()
            self.names.script.clear()
            self.raw.__init__(self.record)
        elif op == "arrived":
            return self.record.take()
        elif op == "packets":
            with self.sniffer.lock:
                return list(self.sniffer.packets)
        elif op == "sniff":
            self.sniffer.turn(args["on"])
        elif op == "script":
            self.names.script[args["name"]] = args["answers"]
        elif op == "asked":
            return list(self.names.asked)
        elif op == "raw":
            self.raw.answer, self.raw.ends = args["answer"].encode("latin-1"), args["ends"]
        elif op == "spawn":
            self.spawn(args["name"], args["argv"])
        elif op == "live":
            return self.sink.live
        return None

    def run(self):
        file = self.control.makefile("rw")
        for line in file:
            try:
                answer = {"ok": self.do(**json.loads(line))}
            except Exception as error:  # the test shall see it
                answer = {"error": repr(error)}
            file.write(json.dumps(answer) + "\n")
            file.flush()


def main(where, control, host_net, own_net):
    """Never returns. Says "up" or what went wrong in the first line."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        internet = Internet(where, control, host_net, own_net)
        internet.start_own()
        internet.start_others()
        internet.wait_up()
        control.sendall(b"up\n")
        internet.run()
    except Exception as error:
        with contextlib.suppress(OSError):
            control.sendall(("%s: %s\n" % (type(error).__name__, str(error).replace("\n", " "))).encode())
    os._exit(0)
