# SPDX-License-Identifier: Apache-2.0
"""
A server that gives a credential back, in every form that somebody might think of

    reflect.py DIRECTORY ADDRESS PORT

Started by test_n_secrets.py in the network of internet.py, with its certificates. FORMS has one entry for each form: how the server
writes a text. decode() is what a program inside does with it.
"""
import base64
import codecs
import gzip
import json
import socket
import ssl
import struct
import sys
import threading
import time
import zlib


def raw_deflate(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


# name: (bytes of a text, fields of the head)
FORMS = {
    "plain": (lambda t: t.encode(), ""),
    "upper": (lambda t: t.upper().encode(), ""),
    "lower": (lambda t: t.lower().encode(), ""),
    "utf-16-le": (lambda t: t.encode("utf-16-le"), ""),
    "utf-16-be": (lambda t: t.encode("utf-16-be"), ""),
    "utf-16": (lambda t: t.encode("utf-16"), ""),
    "utf-32-le": (lambda t: t.encode("utf-32-le"), ""),
    "utf-32-be": (lambda t: t.encode("utf-32-be"), ""),
    "json": (lambda t: ('"%s"' % "".join("\\u%04x" % ord(c) for c in t)).encode(), ""),
    "json-upper": (lambda t: ('"%s"' % "".join("\\u%04X" % ord(c) for c in t)).encode(), ""),
    "json-some": (lambda t: ('"%s"' % "".join("\\u%04x" % ord(c) if i % 3 == 0 else c for i, c in enumerate(t))).encode(), ""),
    "json-slash": (lambda t: json.dumps(t).replace("/", "\\/").encode(), ""),
    "json-twice": (lambda t: json.dumps('"%s"' % "".join("\\u%04x" % ord(c) for c in t)).encode(), ""),
    "python": (lambda t: "".join("\\x%02x" % ord(c) for c in t).encode(), ""),
    "octal": (lambda t: "".join("\\%03o" % ord(c) for c in t).encode(), ""),
    "percent": (lambda t: "".join("%%%02X" % ord(c) for c in t).encode(), ""),
    "percent-some": (lambda t: t.replace("/", "%2F").replace("-", "%2d").encode(), ""),
    "percent-twice": (lambda t: "".join("%%25%02x" % ord(c) for c in t).encode(), ""),
    "html": (lambda t: "".join("&#%d;" % ord(c) for c in t).encode(), ""),
    "html-open": (lambda t: "".join("&#%d" % ord(c) for c in t).encode(), ""),
    "html-zeros": (lambda t: "".join("&#x%012x;" % ord(c) for c in t).encode(), ""),
    "html-names": (lambda t: t.replace("/", "&sol;").replace("+", "&plus;").encode(), ""),
    "html-hex": (lambda t: "".join("&#x%02X;" % ord(c) for c in t).encode(), ""),
    "hex": (lambda t: t.encode().hex().encode(), ""),
    "hex-upper": (lambda t: t.encode().hex().upper().encode(), ""),
    "base64-0": (lambda t: base64.b64encode(t.encode()), ""),
    "base64-1": (lambda t: base64.b64encode(b"." + t.encode()), ""),
    "base64-2": (lambda t: base64.b64encode(b".." + t.encode() + b"...."), ""),
    "base64-url": (lambda t: base64.urlsafe_b64encode(b"?" + t.encode() + b">>"), ""),
    "base64-json": (lambda t: json.dumps(base64.b64encode(t.encode()).decode()).replace("/", "\\/").encode(), ""),
    "pages": (lambda t: t.encode(), "Content-Range: 0-24/3573\r\n"),
    "gzip": (lambda t: gzip.compress(t.encode()), "Content-Encoding: gzip\r\n"),
    "x-gzip": (lambda t: gzip.compress(t.encode()), "Content-Encoding: x-gzip\r\n"),
    "gzip-members": (lambda t: gzip.compress(b"first ") + gzip.compress(t.encode()), "Content-Encoding: gzip\r\n"),
    "gzip-hex": (lambda t: gzip.compress(t.encode().hex().encode()), "Content-Encoding: gzip\r\n"),
    "deflate": (lambda t: zlib.compress(t.encode()), "Content-Encoding: deflate\r\n"),
    "deflate-raw": (lambda t: raw_deflate(t.encode()), "Content-Encoding: deflate\r\n"),
}
# These cannot be looked into, or are lies: refused as a whole.
REFUSED = {
    "br": (lambda t: t.encode(), "Content-Encoding: br\r\n"),
    "zstd": (lambda t: t.encode(), "Content-Encoding: zstd\r\n"),
    "compress": (lambda t: t.encode(), "Content-Encoding: compress\r\n"),
    "gzip-twice": (lambda t: gzip.compress(gzip.compress(t.encode())), "Content-Encoding: gzip, gzip\r\n"),
    "gzip-two-fields": (lambda t: gzip.compress(gzip.compress(t.encode())), "Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n"),
    "dcb": (lambda t: t.encode(), "Content-Encoding: dcb\r\n"),
    "content-range": (lambda t: t.encode(), "Content-Range: bytes 0-5/100\r\n"),
    "byteranges": (lambda t: t.encode(), "Content-Type: multipart/byteranges; boundary=x\r\n"),
}


def decode(form, head, body):
    """Plain text of a body, as a program inside would get at it; "" where it is none."""
    lower = head.lower()
    if b"\r\ncontent-encoding: gzip" in lower or b"\r\ncontent-encoding: x-gzip" in lower:
        body = gzip.decompress(body)
    elif b"\r\ncontent-encoding: deflate" in lower:
        body = zlib.decompress(body, -15 if form == "deflate-raw" else 15)
    if form.startswith("utf-"):
        return body.decode(form, "replace")
    text = body.decode("latin-1")
    if form.startswith("json"):
        text = json.loads(text)
        return json.loads(text) if form == "json-twice" else text
    if form in ("python", "octal"):
        return codecs.decode(text, "unicode_escape")
    if form.startswith("percent"):
        import urllib.parse
        return urllib.parse.unquote(urllib.parse.unquote(text))
    if form.startswith("html"):
        import html
        return html.unescape(text)
    if form.startswith("hex") or form == "gzip-hex":
        return bytes.fromhex(text).decode("latin-1")
    if form.startswith("base64"):
        text = json.loads(text) if form == "base64-json" else text
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "==").decode("latin-1")
    return text


def frame(opcode, data, final=True, more=0):
    head = bytes([(0x80 if final else 0) | more | opcode])
    if len(data) < 126:
        return head + bytes([len(data)]) + data
    if len(data) < 65536:
        return head + b"\x7e" + struct.pack("!H", len(data)) + data
    return head + b"\x7f" + struct.pack("!Q", len(data)) + data


def frames_of(kind, text):
    """What a WebSocket server sends."""
    data = text.encode()
    if kind == "text":
        return frame(1, data)
    if kind == "binary":
        return frame(2, b"\xff\x00" + data + b"\xfe")
    if kind == "parts":  # one byte each, with pings between
        return b"".join(frame(1 if i == 0 else 0, data[i:i + 1], i == len(data) - 1) + (frame(9, b"p") if i % 5 == 0 else b"") for i in range(len(data)))
    if kind == "large":
        return frame(1, b"." * 100000 + data + b"." * 100000)
    if kind == "ping":
        return frame(9, data[:125]) + frame(10, data[:125])
    if kind == "close":
        return frame(8, b"\x03\xe8" + data[:120])
    if kind == "json":
        return frame(1, ('"%s"' % "".join("\\u%04x" % ord(c) for c in text)).encode())
    if kind == "compressed":
        return frame(1, raw_deflate(data), more=0x40)
    if kind == "masked":
        return b"\x81" + bytes([0x80 | len(data)]) + b"\0\0\0\0" + data
    if kind == "odd":
        return frame(3, data)
    return b""


class Connection:
    def __init__(self, s):
        self.s, self.file = s, s.makefile("rwb")

    def send(self, data):
        self.file.write(data)
        self.file.flush()

    def body(self, data, more="", status="200 OK"):
        self.send(("HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n%s\r\n" % (status, len(data), more)).encode() + data)

    def chunks(self, pieces, more="", trailers=""):
        self.send(("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n%s\r\n" % more).encode())
        for piece in pieces:
            self.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.send(("0\r\n%s\r\n" % trailers).encode())

    def serve(self):
        line = self.file.readline().decode("latin-1").split()
        headers = {}
        while (text := self.file.readline().decode("latin-1").rstrip("\r\n")):
            name, value = text.split(":", 1)
            headers[name.strip().lower()] = value.strip()
        path, _, query = line[1].partition("?")
        secret = headers.get("authorization", "").removeprefix("Bearer ")
        part = path.split("/")[1:]
        getattr(self, "do_" + part[0].replace("-", "_"))(secret, headers, part[1] if len(part) > 1 else "", query)

    def do_form(self, secret, headers, form, query):
        write, more = {**FORMS, **REFUSED}[form]
        data = write(secret)
        if query == "bytes":
            self.chunks([data[i:i + 1] for i in range(len(data))], more)
        elif query == "end":
            self.send(("HTTP/1.0 200 OK\r\n%s\r\n" % more).encode() + data)
        else:
            self.body(data, more)

    def do_head(self, secret, headers, where, query):
        if where == "reason":
            self.body(b"x", status="200 " + secret)
        elif where == "location":
            self.body(b"x", "Location: https://raw.test/?k=%s\r\n" % "".join("%%%02x" % ord(c) for c in secret), "302 Found")
        elif where == "field":
            self.body(b"x", "X-Echo: %s\r\nX-%s: 1\r\n" % (base64.b64encode(secret.encode()).decode(), "".join(c for c in secret if c.isalnum() or c == "-")))
        elif where == "interim":
            self.send(("HTTP/1.1 103 Early Hints\r\nLink: <%s>\r\n\r\n" % secret).encode())
            self.body(b"x")
        elif where == "trailer":
            self.chunks([b"x"], trailers="X-Echo: %s\r\n" % secret)
        elif where == "extension":
            self.send(("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1;k=%s\r\nx\r\n0\r\n\r\n" % secret).encode())

    def do_fields(self, secret, headers, form, query):
        """Names of the fields that came."""
        self.body(" ".join(sorted(headers)).encode())

    def do_range(self, secret, headers, form, query):
        text = "............%s............" % secret
        wanted = headers.get("range") or headers.get("request-range")
        if form == "always":
            wanted = "bytes=0-20"
        if not wanted:
            return self.body(text.encode(), "Accept-Ranges: bytes\r\n")
        first, last = wanted.removeprefix("bytes=").split("-")
        piece = text[int(first):int(last or len(text)) + 1]
        self.body(piece.encode(), "Content-Range: bytes %s-%s/%d\r\n" % (first, last, len(text)) if form != "silent" else "", "206 Partial Content")

    def do_ws(self, secret, headers, kind, query):
        more = "Sec-WebSocket-Extensions: permessage-deflate\r\n" if query == "extension" or ("sec-websocket-extensions" in headers and query != "without") else ""
        self.send(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n%s\r\n" % more).encode())
        if kind == "echo":
            while data := self.s.recv(65536):
                self.s.sendall(data)
            return
        if kind == "flood":
            while True:
                self.s.sendall(frame(2, bytes(60000)) * 4)
        if kind == "bytes":
            for byte in frames_of("parts", secret):
                self.s.sendall(bytes([byte]))
        else:
            self.s.sendall(frames_of(kind, secret))
        self.s.sendall(frame(1, b"end"))

    def do_sse(self, secret, headers, kind, query):
        """An event every 10 ms, with the time at which it was sent."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for _ in range(int(query)):
            data = b"data: {\"k\": \"%s\", \"at\": %d}\n\n" % (secret.encode(), time.monotonic_ns())
            self.send(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(0.01)
        self.send(b"0\r\n\r\n")

    def do_oracle(self, secret, headers, kind, query):
        """The text, a pause, the rest."""
        self.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n")
        for text in query.split("/"):
            data = ("[" + text).encode()
            self.send(b"%x\r\n%s\r\n" % (len(data), data))
            time.sleep(0.04)
        self.send(b"1\r\n]\r\n0\r\n\r\n")

    def do_repeat(self, secret, headers, kind, query):
        """What the program says, for 8 MB."""
        self.body(query.encode() * ((8 << 20) // len(query)))

    def do_bomb(self, secret, headers, kind, query):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        data = packer.compress(bytes(1 << 20))
        for _ in range(int(query) - 1):
            data += packer.compress(bytes(1 << 20))
        data += packer.flush()
        self.body(data, "Content-Encoding: gzip\r\n")


def main():
    where, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{where}/leaf.pem", f"{where}/leaf.key")
    listening = socket.socket()
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        listening.setsockopt(socket.SOL_SOCKET, option, 1)
    listening.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND
    listening.bind((address, port))
    listening.listen(4096)
    while True:
        plain, _ = listening.accept()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def one(plain=plain):
            try:
                with context.wrap_socket(plain, server_side=True) as s:
                    Connection(s).serve()
                    s.unwrap()
            except (OSError, ValueError, IndexError, KeyError, AttributeError):
                pass
        threading.Thread(target=one, daemon=True).start()


if __name__ == "__main__":
    main()
