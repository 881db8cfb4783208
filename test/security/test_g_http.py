# SPDX-License-Identifier: Apache-2.0
# check: seconds 30
# check: sanitized
"""
Family G of the escape corpus: HTTP and TLS (NET-14, NET-16, NET-17, NET-19, NET-26, NET-32, NET-34, NET-37)

raw.test keeps every byte that it gets and answers each head; the others are nginx, which logs every request that it took one for.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import net  # noqa: E402
from net import NO_WAY, connections, inside  # noqa: E402

rig = net.enter()
BAD = (*NO_WAY, "http 405", "http 421", "http 411", "http 414", "http 431", "http 501", "http 505", "http 426", "http 413")

CONVERSE = r"""
import json
def converse(host, data, port=80, address=None):
    "Send all of it, and what comes back; a second answer on the same connection counts as such."
    with socket.create_connection((address or host, port), 30) as s:
        s.settimeout(2)
        try: s.sendall(data)
        except OSError: pass
        got = b""
        try:
            while True:
                part = s.recv(65536)
                if not part: break
                got += part
                s.settimeout(0.3)
        except TimeoutError: pass
        except ConnectionError:
            if not got: raise
        return got
"""


@test("NET-14 plain HTTP: absolute form, HTTP/1.0, HTTP/0.9, no Host; through the proxy and directly")
def _():
    cases = {
        "control": ("raw.test", "GET /ok HTTP/1.1\r\nHost: raw.test\r\n\r\n", True),
        "with port": ("raw.test", "GET /ok HTTP/1.1\r\nHost: raw.test:80\r\n\r\n", True),
        "case": ("raw.test", "GET /ok HTTP/1.1\r\nhOST:   RAW.test.\r\n\r\n", None),
        "1.0 with Host": ("raw.test", "GET /ok HTTP/1.0\r\nHost: raw.test\r\n\r\n", True),
        "1.0 without": ("raw.test", "GET /X HTTP/1.0\r\n\r\n", None),
        "0.9": ("raw.test", "GET /X\r\n\r\n", False),
        "0.9, one line": ("raw.test", "GET /X\n", False),
        "no Host": ("raw.test", "GET /X HTTP/1.1\r\n\r\n", False),
        "empty Host": ("raw.test", "GET /X HTTP/1.1\r\nHost:\r\n\r\n", False),
        "absolute, own": ("raw.test", "GET http://raw.test/ok HTTP/1.1\r\nHost: raw.test\r\n\r\n", None),
        "absolute, other": ("raw.test", "GET http://evil.test/X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "absolute, other Host": ("raw.test", "GET http://raw.test/X HTTP/1.1\r\nHost: evil.test\r\n\r\n", False),
        "absolute with user": ("raw.test", "GET http://raw.test@evil.test/X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "absolute https": ("raw.test", "GET https://raw.test/X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "ftp": ("raw.test", "GET ftp://raw.test/X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "CONNECT within": ("raw.test", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n", False),
        "CONNECT own": ("raw.test", "CONNECT raw.test:443 HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "2.0": ("raw.test", "GET /X HTTP/2.0\r\nHost: raw.test\r\n\r\n", False),
        "1.2": ("raw.test", "GET /X HTTP/1.2\r\nHost: raw.test\r\n\r\n", False),
        "junk": ("raw.test", "\0\1\2X junk\r\n\r\n", False),
        "ssh": ("raw.test", "SSH-2.0-X\r\n", False),
        "another port": ("raw.test", "GET /X HTTP/1.1\r\nHost: raw.test:8080\r\n\r\n", False),
        "a name in the path": ("raw.test", "GET //evil.test/ok HTTP/1.1\r\nHost: raw.test\r\n\r\n", None),
        "proxy, control": ("127.0.0.1", "GET http://raw.test/ok HTTP/1.1\r\nHost: raw.test\r\n\r\n", True),
        "proxy, evil": ("127.0.0.1", "GET http://evil.test/X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "proxy, Host evil": ("127.0.0.1", "GET http://raw.test/X HTTP/1.1\r\nHost: evil.test\r\n\r\n", None),
        "proxy, origin form": ("127.0.0.1", "GET /X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "proxy, port": ("127.0.0.1", "GET http://raw.test:7000/X HTTP/1.1\r\nHost: raw.test:7000\r\n\r\n", False),
        "proxy, https": ("127.0.0.1", "GET https://raw.test/X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
        "proxy, literal": ("127.0.0.1", "GET http://127.0.0.1:7777/X HTTP/1.1\r\nHost: raw.test\r\n\r\n", False),
    }
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "raw.test"], inside(CONVERSE + r"""
for label, (host, text, _) in json.loads(arg[0]).items():
    outcome(label, lambda: converse(host, text.encode("latin-1"), 1023 if host == "127.0.0.1" else 80))
""", json.dumps(cases)))
        for label, (_, text, wanted) in cases.items():
            if wanted:
                same(result.tries[label], "ok", label)
            elif wanted is False:
                among(result.tries[label], BAD, label)
        arrived = "".join(one["data"] for one in rig.arrived("raw"))
        # "X" was in every path that must not arrive; what may go either way says "ok", or has no other name in it.
        for word in ("evil", "CONNECT", "HTTP/0.9", "HTTP/2", "SSH", "https:", "ftp:", "junk", "8080"):
            check(word not in arrived.replace("//evil.test/ok", ""), "%r arrived: %r" % (word, arrived[:800]))
        check(arrived.count("Host: raw.test") + arrived.lower().count("host:   raw.test") >= 4, "arrived: %r" % arrived[:600])
        same(rig.canaries(), [], "services of the host")
        check(not [one for one in rig.queries() if "evil" in one], "looked up: %s" % rig.queries())


SMUGGLED = "GET /SMUGGLED HTTP/1.1\r\nHost: evil.test\r\n\r\n"
SHAPES = {
    "TE and CL": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "CL and TE": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
    "two CL": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length: 0\r\nContent-Length: 47\r\n\r\n" + SMUGGLED,
    "CL list": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length: 0, 47\r\n\r\n" + SMUGGLED,
    "CL signed": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length: +47\r\n\r\n" + SMUGGLED,
    "CL hex": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length: 0x2f\r\n\r\n" + SMUGGLED,
    "CL huge": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length: 18446744073709551663\r\n\r\n" + SMUGGLED,
    "CL negative": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length: -1\r\n\r\n" + SMUGGLED,
    "CL space": "POST /p HTTP/1.1\r\nHost: raw.test\r\nContent-Length : 47\r\n\r\n" + SMUGGLED,
    "TE twice": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE list": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE unknown": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE in 1.0": "POST /p HTTP/1.0\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE with tab": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "TE by space": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "obs-fold": "GET /p HTTP/1.1\r\nHost: raw.test\r\nX: a\r\n Transfer-Encoding: chunked\r\n\r\n" + SMUGGLED,
    "fold of Host": "GET /p HTTP/1.1\r\nHost:\r\n evil.test\r\n\r\n",
    "two Hosts": "GET /p HTTP/1.1\r\nHost: raw.test\r\nHost: evil.test\r\n\r\n",
    "two Hosts alike": "GET /p HTTP/1.1\r\nHost: raw.test\r\nhost: raw.test\r\nX: evil.test\r\n\r\n",
    "Host list": "GET /p HTTP/1.1\r\nHost: raw.test, evil.test\r\n\r\n",
    "bare LF": "GET /p HTTP/1.1\nHost: raw.test\n\n" + SMUGGLED,
    "bare LF in a header": "GET /p HTTP/1.1\r\nHost: raw.test\r\nX: a\nHost: evil.test\r\n\r\n",
    "bare CR": "GET /p HTTP/1.1\r\nHost: raw.test\r\nX: a\rHost: evil.test\r\n\r\n",
    "NUL": "GET /p HTTP/1.1\r\nHost: raw.test\0.evil.test\r\n\r\n",
    "NUL in a header": "GET /p HTTP/1.1\r\nHost: raw.test\r\nX: a\0evil.test\r\n\r\n",
    "line without colon": "GET /p HTTP/1.1\r\nHost: raw.test\r\nevil.test\r\n\r\n",
    "first line folded": "GET /p HTTP/1.1\r\n Host: evil.test\r\nHost: raw.test\r\n\r\n",
    "space in the target": "GET /p evil.test HTTP/1.1\r\nHost: raw.test\r\n\r\n",
    "control in the target": "GET /p\x01evil.test HTTP/1.1\r\nHost: raw.test\r\n\r\n",
    "chunk size odd": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\n\r\n0x2f\r\n" + SMUGGLED + "\r\n0\r\n\r\n",
    "chunk size huge": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000002f\r\n" + SMUGGLED + "\r\n0\r\n\r\n",
    "chunk by LF": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n" + SMUGGLED,
    "chunk end wrong": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx0\r\n\r\n" + SMUGGLED,
    "chunk extension": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"\r\nx\r\n0\r\n\r\n" + SMUGGLED,
    "chunk extension by LF": "POST /p HTTP/1.1\r\nHost: raw.test\r\nTransfer-Encoding: chunked\r\n\r\n1;a\nevil.test\r\nx\r\n0\r\n\r\n",
    "second to another": "GET /first HTTP/1.1\r\nHost: raw.test\r\n\r\n" + SMUGGLED,
    "second absolute": "GET /first HTTP/1.1\r\nHost: raw.test\r\n\r\nGET http://evil.test/SMUGGLED HTTP/1.1\r\nHost: raw.test\r\n\r\n",
    "body looks like a request": "POST /first HTTP/1.1\r\nHost: raw.test\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
    "GET with a body": "GET /first HTTP/1.1\r\nHost: raw.test\r\nContent-Length: 0\r\n\r\n" + SMUGGLED,
    "leading CRLF": "\r\n\r\n" + SMUGGLED,
    "very long head": "GET /p HTTP/1.1\r\nHost: raw.test\r\nX: " + "a" * 300000 + "\r\nY: evil.test\r\n\r\n",
    "very many headers": "GET /p HTTP/1.1\r\nHost: raw.test\r\n" + "A: b\r\n" * 5000 + "Y: evil.test\r\n\r\n",
    "very long line": "GET /" + "a" * 100000 + "evil.test HTTP/1.1\r\nHost: raw.test\r\n\r\n",
}


@test("NET-16 smuggling: every ambiguous shape is refused, every request of a connection judged")
def _():
    with Place() as place:
        write(place.ws + "/shapes.json", json.dumps(SHAPES))
        place.expect("shapes.json")
        for port in (80, 1023):
            rig.clear()
            result = run(place, ["--allow", "raw.test"], inside(CONVERSE + r"""
port = int(arg[0])
for label, text in json.load(open("shapes.json")).items():
    if port == 1023: text = text.replace(" /", " http://raw.test/", 1)
    try: got = converse("127.0.0.1" if port == 1023 else "raw.test", text.encode("latin-1"), port)
    except OSError as error: got = b""
    answers = [one.split(b" ")[0].decode("latin-1") for one in got.split(b"HTTP/1.1 ")[1:] + got.split(b"HTTP/1.0 ")[1:]]
    tell(label, ",".join(answers) or "end")
outcome("after", lambda: converse("raw.test", request("raw.test")))
""", port))
            result.allowed("after")
            arrived = [one["data"] for one in rig.arrived("raw")]
            for word in ("SMUGGLED", "evil.test"):
                same([one[:300] for one in arrived if word in one], [], "what arrived of it (port %d)" % port)
            for label in SHAPES:
                answers = result.tries[label].split(",")
                # Of two requests the first may be a good one.
                check(answers.count("200") <= ("/first" in SHAPES[label]), "%s got %s (port %d)" % (label, answers, port))


@test("NET-16 what is not ambiguous passes: bodies, chunks, trailers, pipelining, 100-continue, keep-alive")
def _():
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test"], inside(CONVERSE + r"""
import hashlib
body = os.urandom(300000)
def post(head, data):
    got = converse("good.test", b"POST /py/x HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\n" + head + b"\r\n" + data)
    told = json.loads(got.split(b"\r\n\r\n")[-1])
    return "ok" if told["sha256"] == hashlib.sha256(body).hexdigest() else "other %s" % told
outcome("length", lambda: post(b"Content-Length: %d\r\n" % len(body), body))
chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7001]), body[i:i + 7001]) for i in range(0, len(body), 7001)) + b"0\r\n\r\n"
outcome("chunked", lambda: post(b"Transfer-Encoding: chunked\r\n", chunks))
outcome("trailers", lambda: post(b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n", chunks[:-2] + b"X-T: 1\r\n\r\n"))
def expect():
    with socket.create_connection(("good.test", 80), 30) as s:
        s.sendall(b"POST /py/x HTTP/1.1\r\nHost: good.test\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        s.settimeout(30)
        first = s.recv(1000)
        if b" 100 " not in first: return "no: %r" % first[:100]
        s.sendall(body)
        return "ok" if hashlib.sha256(body).hexdigest().encode() in everything(s) else "other"
outcome("continue", expect)
def pipelined():
    got = converse("good.test", b"".join(b"GET /files/small?%d HTTP/1.1\r\nHost: good.test\r\n\r\n" % n for n in range(20)))
    return str(got.count(b"HTTP/1.1 200"))
outcome("pipelined", pipelined)
def kept():
    with socket.create_connection(("good.test", 80), 30) as s:
        s.settimeout(30)
        for n in range(30):
            s.sendall(b"%s /reflect HTTP/1.1\r\nHost: good.test\r\n\r\n" % (b"HEAD" if n % 3 == 0 else b"GET"))
            got = s.recv(65536)
            if b"200 OK" not in got: return "at %d: %r" % (n, got[:60])
    return "ok"
outcome("kept", kept)
outcome("slow answer", lambda: "ok" if b"4\n" in converse("good.test", request("good.test", "/py/slow")).replace(b"\r\n", b"") else "cut")
"""))
        result.allowed("length", "chunked", "trailers", "continue", "kept", "slow answer")
        same(result.tries["pipelined"], "20", "answers to 20 requests at once")


@test("NET-17 the Host header has to be the name that was connected to")
def _():
    hosts = ["evil.test", "other.test", "good.test.evil.test", "good.test:443", "good.test:81", "good.test@evil.test", "93.184.216.34", "[::1]", "good.test evil.test", "good.test\t", "", "xgood.test", "good.test/"]
    code = CONVERSE + r"""
for host in json.loads(arg[0]):
    outcome("http " + host, lambda: converse("good.test", ("GET /TOKEN HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host).encode()))
    if arg[1] == "inspect":
        outcome("https " + host, lambda: tls("good.test", data=("GET /TOKEN HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % host).encode()))
outcome("control", lambda: reach("good.test", 80))
outcome("control tls", lambda: tls("good.test"))
"""
    with Place() as place:
        inspect = job_file(place, {"network": {"allow": [{"host": "good.test", "tls": "inspect"}, "other.test"]}})
        for flags, word in ((["--allow", "good.test", "--allow", "other.test"], "pass"), (["-f", inspect], "inspect")):
            rig.clear()
            result = run(place, flags, inside(code, json.dumps(hosts), word))
            result.allowed("control", "control tls")
            for label, said in result.tries.items():
                if label.startswith(("http ", "https ")) and label.split(" ", 1)[1] not in ("good.test\t", "good.test:443" if label.startswith("https") else ""):
                    among(said, BAD, label)
            same({one["host"].strip().replace(":443", "") for one in rig.requests(2)}, {"good.test"}, "hosts that arrived")


HELLO = r"""
def hello_bytes(name, alpn=None):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
    if alpn: context.set_alpn_protocols(alpn)
    o = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try: o.do_handshake()
    except ssl.SSLWantReadError: pass
    return outgoing.read()
def with_extension(hello, kind, data):
    "Add an extension to a ClientHello, and set all lengths right."
    body = bytearray(hello[9:])
    at = 34; at += 1 + body[at]; at += 2 + struct.unpack("!H", body[at:at + 2])[0]; at += 1 + body[at]
    size = struct.unpack("!H", body[at:at + 2])[0]
    more = struct.pack("!HH", kind, len(data)) + data
    body = body[:at] + struct.pack("!H", size + len(more)) + body[at + 2:] + more
    shake = b"\x01" + struct.pack("!I", len(body))[1:] + bytes(body)
    return hello[:3] + struct.pack("!H", len(shake)) + shake
def without_name(hello):
    return hello
def send(host, data, port=443):
    with socket.create_connection((host, port), 30) as s:
        s.sendall(data); s.settimeout(30)
        return s.recv(5)
"""


@test("NET-19 TLS that is passed on: the name in it must be the name looked up; ECH, no name, and other bytes on 443 are refused")
def _():
    code = HELLO + r"""
outcome("control", lambda: tls("good.test"))
outcome("hello alone", lambda: send("good.test", hello_bytes("good.test")))
outcome("other name", lambda: tls("good.test", sni="evil.test", check=False))
outcome("other allowed name", lambda: tls("good.test", sni="other.test", check=False))
outcome("no name", lambda: tls("good.test", sni="", check=False))
outcome("case", lambda: send("good.test", hello_bytes("GOOD.test")))
outcome("longer", lambda: tls("good.test", sni="good.test.evil.test", check=False))
ech = b"\0\0\1\0\1\x11\0\x20" + os.urandom(32) + b"\0\x90" + os.urandom(144)
outcome("ECH", lambda: send("good.test", with_extension(hello_bytes("good.test"), 0xfe0d, ech)))
outcome("ECH, odd", lambda: send("good.test", with_extension(hello_bytes("good.test"), 0xfe0d, b"\x01")))
name = b"good.test"; two = struct.pack("!H", 2 * (3 + 9)) + (b"\0" + struct.pack("!H", 9) + b"evil.test") * 2
outcome("two name extensions", lambda: send("good.test", with_extension(hello_bytes("good.test"), 0, struct.pack("!H", 12) + b"\0\0\x09evil.test")))
outcome("harmless extension", lambda: send("good.test", with_extension(hello_bytes("good.test"), 0x1a1a, b"")))
outcome("plain HTTP on 443", lambda: send("good.test", request("good.test")))
outcome("junk on 443", lambda: send("good.test", b"\0" * 200))
outcome("ssh on 443", lambda: send("good.test", b"SSH-2.0-x\r\n"))
outcome("TLS on 80", lambda: send("good.test", hello_bytes("evil.test"), 80))
outcome("TLS on 80, own name", lambda: send("good.test", hello_bytes("good.test"), 80))
outcome("SSL 2", lambda: send("good.test", b"\x80\x2e\x01\x00\x02" + b"\0" * 41))
def pieces(size):
    data = hello_bytes("good.test")
    with socket.create_connection(("good.test", 443), 30) as s:
        s.setsockopt(6, 1, 1)
        for i in range(0, len(data), size): s.sendall(data[i:i + size]); time.sleep(0.001)
        s.settimeout(30); return s.recv(5)
outcome("by bytes", lambda: pieces(1))
def records():
    data = hello_bytes("good.test")[5:]
    out = b"".join(b"\x16\x03\x01" + struct.pack("!H", len(data[i:i + 50])) + data[i:i + 50] for i in range(0, len(data), 50))
    return send("good.test", out)
outcome("in records", records)
def records_evil():
    data = hello_bytes("evil.test")[5:]
    return send("good.test", b"".join(b"\x16\x03\x01\0\x01" + data[i:i + 1] for i in range(len(data))))
outcome("in records, evil", records_evil)
outcome("record of nothing", lambda: send("good.test", b"\x16\x03\x01\0\0" * 50 + hello_bytes("evil.test")))
outcome("too long", lambda: send("good.test", b"\x16\x03\x01\x40\x00\x01\x01\x00\x00" + b"\0" * 16380))
outcome("silence then nothing", lambda: None)
outcome("other port", lambda: tls("good.test", 8443))
outcome("other port, evil", lambda: tls("good.test", 8443, sni="evil.test", check=False))
"""
    with Place() as place:
        rig.clear()
        result = run(place, ["--allow", "good.test:80,443,8443", "--allow", "other.test"], inside(code))
        result.allowed("control", "hello alone", "case", "harmless extension", "by bytes", "in records", "other port")
        bad = ("other name", "other allowed name", "no name", "longer", "ECH", "ECH, odd", "two name extensions", "plain HTTP on 443", "junk on 443", "ssh on 443", "TLS on 80", "SSL 2",
               "in records, evil", "record of nothing", "too long", "other port, evil")
        result.refused(*bad, how=(*BAD, "tls UNEXPECTED_EOF_WHILE_READING", "tls EOF occurred in violation of protocol", "ok" if False else "tls SSLV3_ALERT_HANDSHAKE_FAILURE", "tls TLSV1_UNRECOGNIZED_NAME",
                                  "tls TLSV1_ALERT_ACCESS_DENIED"))
        same({one["sni"] for one in rig.requests(1) if one["tls"]}, {"good.test"}, "names in TLS that arrived")
        rig.silence("evil.test")
        # A literal address needs no name in it.
        rig.clear()
        result = run(place, ["--allow", net.SERVER4], inside(r"""
            outcome("no name", lambda: tls("93.184.216.34", sni="", check=False))
            talk("host is the address", "93.184.216.34", 80)
            """))
        result.allowed("no name", "host is the address")


@test("NET-19 tls: off passes what it is, and its plan says so; other ports of a rule carry any protocol")
def _():
    with Place() as place:
        off = job_file(place, {"network": {"allow": [{"host": "good.test", "ports": [443, 80], "tls": "off"}]}})
        rig.clear()
        result = run(place, ["-f", off], inside(HELLO + r"""
outcome("no name", lambda: tls("good.test", sni="", check=False))
outcome("other name", lambda: tls("good.test", sni="evil.test", check=False))
"""))
        result.allowed("no name", "other name")
        result = run(place, ["--allow", "good.test:7000"], inside('talk("bytes", "good.test", 7000, b"\\0\\1\\2 anything")'))
        result.allowed("bytes")
        same(rig.bytes_at(7000), "\0\1\2 anything", "bytes that arrived")


@test("NET-19 a request for another name is found on any port, however long its method is")
def _():
    with Place() as place:
        for n in (3, 33, 100, 9000):
            rig.clear()
            result = run(place, ["--allow", "good.test:7000"],
                         inside('talk("smuggled", "good.test", 7000, b"A" * int(arg[0]) + b" /X HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n")', str(n)))
            check("evil.test" not in rig.bytes_at(7000), "a method of %d characters: it arrived: %r" % (n, rig.bytes_at(7000)[-80:]))
        result = run(place, ["--allow", "good.test:7000"], inside('talk("a long word", "good.test", 7000, b"A" * 5000 + b"\\r\\n")'))
        result.allowed("a long word")


@test("NET-32 WebSocket passes; h2c, HTTP/2 by prior knowledge and other upgrades do not")
def _():
    code = CONVERSE + r"""
def websocket(s):
    s.sendall(b"GET /py/ws HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    s.settimeout(30); head = b""
    while b"\r\n\r\n" not in head: head += s.recv(1)
    if b"101" not in head or b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" not in head: return "head %r" % head
    for size in (5, 200, 70000):
        data = os.urandom(size); s.sendall(data); got = b""
        while len(got) < size: got += s.recv(65536)
        if got != data: return "other bytes"
    return "ok"
def plain_ws():
    with socket.create_connection(("good.test", 80), 30) as s: return websocket(s)
def tls_ws():
    with ssl.create_default_context().wrap_socket(socket.create_connection(("good.test", 443), 30), server_hostname="good.test") as s: return websocket(s)
outcome("ws", plain_ws)
outcome("wss", tls_ws)
def h2c():
    got = converse("good.test", b"GET /py/up HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
    return "switched" if b" 101 " in got[:20] else "stripped" if b'"upgrade"' not in got.lower() else "passed"
outcome("h2c", h2c)
outcome("prior knowledge", lambda: converse("good.test", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"))
outcome("upgrade to TLS", lambda: converse("good.test", b"OPTIONS /py/x HTTP/1.1\r\nHost: good.test\r\nConnection: Upgrade\r\nUpgrade: TLS/1.2\r\n\r\n").replace(b"200", b"200") and "ok")
def other_host_ws():
    return converse("good.test", b"GET /py/ws HTTP/1.1\r\nHost: evil.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
outcome("ws to another", other_host_ws)
def refused_then_smuggle():
    "An upgrade that the server refuses does not open the connection for what follows."
    with socket.create_connection(("raw.test", 80), 30) as s:
        s.sendall(b"GET /a HTTP/1.1\r\nHost: raw.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        s.settimeout(30); s.recv(1000)
        s.sendall(b"GET /SMUGGLED HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        return s.recv(1000)
outcome("after a refused upgrade", refused_then_smuggle)
outcome("http2 by ALPN", lambda: str(alpn()))
def alpn():
    context = ssl.create_default_context(); context.set_alpn_protocols(["h2", "http/1.1"])
    with context.wrap_socket(socket.create_connection(("good.test", 443), 30), server_hostname="good.test") as s: return s.selected_alpn_protocol()
"""
    code = code.replace('outcome("http2 by ALPN", lambda: str(alpn()))\n', "") + 'outcome("http2 by ALPN", lambda: str(alpn()))\n'
    with Place() as place:
        inspect = job_file(place, {"network": {"allow": [{"host": "good.test", "tls": "inspect"}, "raw.test"]}})
        for flags, alpn in ((["--allow", "good.test", "--allow", "raw.test"], "h2"), (["-f", inspect], "http/1.1")):
            rig.clear()
            result = run(place, flags, inside(code))
            result.allowed("ws", "wss")
            among(result.tries["h2c"], ("stripped", *BAD), "h2c")
            result.refused("prior knowledge", "ws to another", "after a refused upgrade", how=BAD)
            same(result.tries["http2 by ALPN"], alpn, "ALPN")
            same([one for one in rig.arrived("raw") if "SMUGGLED" in one["data"]], [], "smuggled")
            check("HTTP/2.0" not in {one["protocol"] for one in rig.requests()}, "HTTP/2 arrived")


METHODS = {"network": {"allow": [{"host": "good.test", "methods": ["GET", "HEAD"], "paths": ["/files/*", "/git/**", "/reflect"]}, {"host": "other.test", "methods": ["POST"]}]}}


@test("NET-34 NET-26 methods and paths, over TLS that egress opens and over plain HTTP")
def _():
    code = CONVERSE + r"""
targets = [("GET", "/files/small", 1), ("HEAD", "/files/small", 1), ("GET", "/reflect?q=1", 1), ("GET", "/git/repo.git/HEAD", 1), ("GET", "/files/a/b", 0), ("POST", "/files/small", 0), ("PUT", "/files/x", 0), ("DELETE", "/files/x", 0),
           ("GET", "/", 0), ("GET", "/other", 0), ("GET", "/filesx", 0), ("GET", "/files/../other", 0), ("GET", "/files/%2e%2e/other", 0), ("GET", "/files/..%2fother", 0), ("GET", "//files/small", 0), ("GET", "/files//small", 0),
           ("GET", "/files/%00", 0), ("GET", "/files/%", 0), ("GET", "/files\\small", 0), ("GET", "/files/./small", 0), ("get", "/files/small", 0), ("GETX", "/files/small", 0), ("OPTIONS", "*", 0), ("GET", "/reflect/", 0), ("GET", "/Reflect", 0),
           ("GET", "/git/repo.git/../../other", 0), ("GET", "/reflect#/other", 0), ("GET", "/dns-query?dns=AAAB", 0), ("TRACE", "/reflect", 0), ("GET", "/files/small;/other", None)]
for method, path, wanted in targets:
    data = request("good.test", path, method)
    for label, get in (("http", lambda: converse("good.test", data)), ("https", lambda: tls("good.test", data=data))):
        outcome("%s %s %s %s" % (label, wanted, method, path), get)
outcome("https 1 POST other", lambda: tls("other.test", data=request("other.test", "/py/x", "POST", "Content-Length: 2\r\n") + b"xy"))
outcome("https 0 GET other", lambda: tls("other.test"))
def second():
    return tls("good.test", data=b"GET /files/small HTTP/1.1\r\nHost: good.test\r\n\r\n" + request("good.test", "/forbidden")).rsplit(b"HTTP/1.1 ", 1)[1][:3].decode()
outcome("second", second)
"""
    with Place() as place:
        rig.clear()
        result = run(place, ["--json", "-f", job_file(place, METHODS)], inside(code))
        for label, said in result.tries.items():
            if " 1 " in label:
                same(said, "ok", label)
            elif " 0 " in label:
                among(said, BAD, label)
        same(result.tries["second"], "403", "a second request on a connection")
        paths = {one["path"] for one in rig.requests(8)}
        check(paths <= {"/files/small", "/reflect", "/git/repo.git/HEAD", "/py/x", "/files/small;/other"}, "paths that arrived: %s" % paths)
        same({(one["host"], one["method"]) for one in rig.requests()}, {("good.test", "GET"), ("good.test", "HEAD"), ("other.test", "POST")}, "methods that arrived")
        told = json.dumps(connections(result))
        check("GET /files/small" in told or "/files" in told, "requests are not told: %s" % told[:400])
        check("q=1" not in told, "a query is told")
        # What the job says otherwise contradicts it.
        for word in ("pass", "off"):
            done = run(place, ["-f", job_file(place, {"network": {"allow": [{"host": "good.test", "methods": ["GET"], "tls": word}]}})], ["true"], starts=False)
            among(done.status, REFUSED, "methods with tls: %s: %s" % (word, done.err))


@test("NET-37 where egress opens TLS it checks the server: expired, self-signed, another's name; the reason is given")
def _():
    names = ["expired.test", "selfsigned.test", "wrong.test"]
    with Place() as place:
        inspect = job_file(place, {"network": {"allow": [{"host": name, "tls": "inspect"} for name in (*names, "good.test")]}})
        code = r"""
            outcome("good", lambda: tls("good.test"))
            for name in arg:
                def get():
                    got = tls(name, data=request(name, "/TOKEN"))
                    print("answer", name, got[:600])
                    return got
                outcome(name, get)
                outcome(name + " unchecked", lambda: tls(name, check=False))
            """
        rig.clear()
        result = run(place, ["--json", "-f", inspect], inside(code, *names))
        result.allowed("good")
        for name in names:
            among(result.tries[name], ("http 502", *NO_WAY, "tls TLSV1_ALERT_INTERNAL_ERROR", "tls UNEXPECTED_EOF_WHILE_READING"), name)
            among(result.tries[name + " unchecked"], ("http 502", *NO_WAY, "tls TLSV1_ALERT_INTERNAL_ERROR", "tls UNEXPECTED_EOF_WHILE_READING"), name)
        same({one["host"] for one in rig.requests(1)}, {"good.test"}, "requests that arrived")
        rig.silence("TOKEN")
        reasons = {one["name"]: one["reason"] for one in connections(result)}
        for name, word in (("expired.test", "expired"), ("selfsigned.test", "self"), ("wrong.test", "name")):
            check(word in reasons.get(name, "").lower(), "the reason for %s: %s" % (name, reasons.get(name)))
        # Passed on unopened the client sees the server's own certificate.
        result = run(place, [part for name in names for part in ("--allow", name)], inside(code.replace('outcome("good", lambda: tls("good.test"))', ""), *names))
        for name in names:
            same(result.tries[name], "tls CERTIFICATE_VERIFY_FAILED", name)
            same(result.tries[name + " unchecked"], "ok", name + " unchecked")


@test("TLS that egress opens: the authority's key is nowhere, its certificate is trusted inside only, and only for what is inspected")
def _():
    need("openssl")
    with Place() as place:
        inspect = job_file(place, {"network": {"allow": [{"host": "good.test", "tls": "inspect"}, "other.test"]}})
        place.expect("up", "stop", "ca.pem")
        running = start(place, ["-f", inspect], inside(r"""
            import glob
            def issuer(name):
                context = ssl.create_default_context()
                with context.wrap_socket(socket.create_connection((name, 443), 30), server_hostname=name) as s:
                    return str(dict(one[0] for one in s.getpeercert()["issuer"])["commonName"])
            outcome("inspected", lambda: issuer("good.test"))
            outcome("passed", lambda: issuer("other.test"))
            names = [n for n in os.environ if n in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO")]
            for name in names:
                text = open(os.environ[name]).read()
                tell("variable " + name, "key" if "PRIVATE" in text else "ok")
            for path in ("/etc/ssl/certs/ca-certificates.crt", *glob.glob("/run/atoll/*"), *glob.glob("/tmp/*")):
                try: text = open(path, errors="replace").read()
                except OSError: continue
                if "PRIVATE KEY" in text: tell("a key in " + path, "there")
            put("ca.pem", open("/etc/ssl/certs/ca-certificates.crt").read().encode()); put("up")
            end = time.monotonic() + 15
            while not os.path.exists("stop") and time.monotonic() < end: time.sleep(0.02)
            """))
        wait_file(place, "up")
        check("BEGIN CERTIFICATE" in read(place.ws + "/ca.pem").decode(), "the bundle inside")
        same(read(net.BUNDLE), read(rig.where + "/ca.pem"), "the bundle of the host")
        write(place.ws + "/stop")
        result = running.wait()
        same(result.tries["passed"], "atoll test authority", "the issuer where it is passed on")
        check(result.tries["inspected"] not in ("atoll test authority",) and "error" not in result.tries["inspected"], "the issuer where it is opened: %s" % result.tries["inspected"])
        check(not [label for label in result.tries if label.startswith("a key")], "a key is inside: %s" % result.tries)
        for label, said in result.tries.items():
            if label.startswith("variable"):
                same(said, "ok", label)


main()
