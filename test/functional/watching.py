# SPDX-License-Identifier: Apache-2.0
"""
What the tests of watching share: the events of a run, and a service that imitates an OpenAI-compatible API.
"""

import glob
import http.server
import json
import os
import ssl
import threading

STOPPED = 247


def state_of(place):
    """A store of the test's own; flags and environment for run()."""
    path = os.path.join(place.tmp, "state")
    os.makedirs(path, 0o700, exist_ok=True)
    return {"XDG_STATE_HOME": path}


def events(place, kind=None):
    """All lines of the only log, or those of one kind."""
    [path] = [name for name in glob.glob(os.path.join(place.tmp, "state/atoll/log/*.jsonl")) if "runs" not in name]
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if kind in (None, line["kind"])]


class Service:
    """Answers each request by `answer(request)`: the model's words, or (status, body), or None to say nothing at all. Keeps what it was asked."""

    def __init__(self, answer, certificate=None):
        self.requests, self.keys, self.paths = [], [], []
        self.silence = threading.Event()
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append(body)
                service.keys.append(self.headers.get("Authorization"))
                service.paths.append(self.path)
                said = answer(body)
                if said is None:
                    service.silence.wait(60)
                    return
                status, data = said if isinstance(said, tuple) else (200, completion(said))
                self.send_response(status)
                if status in (301, 302, 307):
                    self.send_header("Location", "http://127.0.0.1:%d/elsewhere" % service.port)
                self.send_header("Content-Length", str(len(data.encode())))
                self.end_headers()
                self.wfile.write(data.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = "http%s://127.0.0.1:%d/v1/chat/completions" % ("s" if certificate else "", self.port)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.silence.set()
        self.server.shutdown()
        self.server.server_close()

    def asked(self):
        """All events that it was asked about."""
        return [event for request in self.requests for event in json.loads(request["messages"][1]["content"])["events"]]


def completion(content):
    return json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": content}}]})


def verdict(word, why="because", about=None):
    answer = {"verdict": word, "why": why}
    if about is not None:
        answer["about"] = about
    return json.dumps(answer)
