# SPDX-License-Identifier: Apache-2.0
"""The client that waits. Its methods may be called from several threads."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

from . import _calls as calls
from ._calls import Call, Place, link, many, nothing, one, paged, raw, text, with_json
from ._errors import AtollError, ConnectionFailed, from_answer
from ._models import (Applied, Approval, Checkpoint, Diff, Event, FileInfo, JobInfo, Object, Output, Result,
                      SandboxInfo, StepInfo, StepResult, Usage)
from ._stream import Raw, Reader, StepReader

T = TypeVar("T")
_BROKEN = (OSError, http.client.HTTPException)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Client:
    """A daemon and a key. `host`: "http://HOST:PORT", "https://HOST", "unix:PATH"; else $ATOLL_HOST. `timeout` is for
    one answer, and for how long a stream may be silent; `retries` for what may be asked again."""

    def __init__(self, host: str | None = None, key: str | None = None, *, timeout: float = 60.0, retries: int = 8,
                 context: ssl.SSLContext | None = None) -> None:
        self._place = Place.of(host)
        self._key = calls.find_key(key)
        self._timeout = timeout
        self._retries = retries
        self._context = context
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Connections that rest are closed; the client may be used again."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # ---- connections ----

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._place.scheme == "unix":
            return _UnixConnection(self._place.host, timeout)
        if self._place.scheme == "https":
            return http.client.HTTPSConnection(self._place.host, self._place.port, timeout=timeout,
                                               context=self._context or ssl.create_default_context())
        return http.client.HTTPConnection(self._place.host, self._place.port, timeout=timeout)

    def _headers(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        headers = {"Host": self._place.authority, **(extra or {})}
        if self._key:
            headers["X-API-Key"] = self._key
        return headers

    def _send(self, call: Call[T], timeout: float) -> tuple[int, bytes, str | None]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        fresh = connection is None
        if connection is None:
            connection = self._connect(timeout)
        elif connection.sock:
            connection.sock.settimeout(timeout)
        try:
            headers = self._headers({"Content-Type": call.type} if call.type else None)
            if call.body is None and call.method in ("POST", "PUT"):
                headers["Content-Length"] = "0"
            connection.request(call.method, self._place.prefix + call.path, call.body, headers)
            answer = connection.getresponse()
            body = answer.read()
        except _BROKEN:
            connection.close()
            # The daemon may have closed one that rested, before it read anything.
            if not fresh and call.again and _rewind(call.body):
                return self._send(call, timeout)
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return answer.status, body, answer.getheader("Retry-After")

    def _do(self, call: Call[T], timeout: float | None = None) -> T:
        for attempt in range(self._retries + 1):
            last = attempt == self._retries or not call.again or not _rewind(call.body)
            try:
                status, body, retry_after = self._send(call, timeout or self._timeout)
            except _BROKEN as problem:
                if last:
                    raise calls.unreachable(self._place, problem) from problem
                _rest(attempt, None)
                continue
            if status < 300 or status in call.also:
                return call.parse(body)
            failure = from_answer(status, body, retry_after)
            if last or failure.retry_after is None or status not in (409, 429, 503):
                raise failure
            _rest(attempt, failure.retry_after)
        raise AssertionError

    @contextlib.contextmanager
    def _open(self, path: str, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
        connection = self._connect(self._timeout)
        try:
            connection.request("GET", self._place.prefix + path, headers=self._headers(headers))
            answer = connection.getresponse()
            if answer.status >= 300:
                raise from_answer(answer.status, answer.read(), answer.getheader("Retry-After"))
            yield answer
        finally:
            connection.close()

    def _events(self, path: str, headers: Mapping[str, str]) -> Iterator[Raw]:
        reader = Reader()
        with self._open(path, headers) as answer:
            while data := answer.read1(65536):
                yield from reader.feed(data)

    # ---- sandboxes ----

    def create(self, template: str | None = None, *, contract: str | Object | None = None,
               timeout: float | None = None, labels: Mapping[str, str] | None = None,
               metadata: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None,
               on_timeout: str | None = None, internet: bool | None = None) -> Sandbox:
        """Make a sandbox from a template, or with a whole contract (a job file). `timeout`: seconds until it ends by
        itself; float("inf"): never."""
        members = calls.create(template, contract, timeout, labels, metadata, environment, on_timeout, internet)
        return Sandbox(self, self._do(calls.create_one(members)))

    def create_many(self, count: int, template: str | None = None, *, labels: Mapping[str, str],
                    contract: str | Object | None = None, timeout: float | None = None,
                    metadata: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None,
                    on_timeout: str | None = None, internet: bool | None = None) -> list[Sandbox | AtollError]:
        """`count` alike; of each the sandbox, or why there is none. Not asked again if the connection breaks: look
        with sandboxes(labels=...) what was made."""
        members = calls.create(template, contract, timeout, labels, metadata, environment, on_timeout, internet)
        made = self._do(with_json("POST", link("sandboxes", "bulk"), calls.results, again=False, count=count,
                                  **members))
        return [Sandbox(self, SandboxInfo.of(item["sandbox"])) if item["sandbox"] else
                AtollError(item["error"]["message"], item["error"]["cause"]) for item in made]

    def sandboxes(self, *, labels: Mapping[str, str] | None = None, state: str | None = None, usage: bool = False,
                  page: int = 100) -> Iterator[Sandbox]:
        """Those that there are, newest first."""
        after: str | None = None
        while True:
            found, after = self._do(Call("GET", link("sandboxes", label=calls.label_text(labels), state=state,
                                                     usage=usage, limit=page, after=after), paged(SandboxInfo.of)))
            yield from (Sandbox(self, info) for info in found)
            if after is None:
                return

    def sandbox(self, id: str) -> Sandbox:
        return Sandbox(self, self._do(Call("GET", link("sandboxes", id), one(SandboxInfo.of))))

    def delete_many(self, *, labels: Mapping[str, str], state: str | None = None) -> list[str]:
        """Delete all that have these labels; their ids."""
        return self._do(Call("DELETE", link("sandboxes", label=calls.label_text(labels), state=state),
                             lambda body: [str(id) for id in calls.results(body)]))

    # ---- jobs ----

    def start_job(self, command: Sequence[str] | None = None, *, contract: str | Object | None = None,
                  template: str | None = None, environment: Mapping[str, str] | None = None,
                  labels: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                  timeout: float | None = None, keep: int | None = None, internet: bool | None = None) -> Job:
        """Run a command under a contract in a sandbox of its own, which is kept `keep` seconds longer."""
        members: Object = {
            "command": list(command) if command else None, "contract": contract, "template": template,
            "environment": dict(environment) if environment else None, "labels": dict(labels) if labels else None,
            "cwd": cwd, "user": user, "timeoutMs": round(timeout * 1000) if timeout else None, "keep": keep,
            "internet": internet}
        return Job(self, self._do(calls.job(members)))

    def job(self, id: str) -> Job:
        return Job(self, self._do(Call("GET", link("jobs", id), one(JobInfo.of))))

    def jobs(self, *, page: int = 100) -> Iterator[Job]:
        after: str | None = None
        while True:
            found, after = self._do(Call("GET", link("jobs", limit=page, after=after), paged(JobInfo.of)))
            yield from (Job(self, info) for info in found)
            if after is None:
                return

    # ---- the rest ----

    def approvals(self) -> list[Approval]:
        """Questions about the network that wait for somebody, of contracts that say `ask`."""
        return self._do(Call("GET", link("approvals"), many(Approval.of)))

    def answer(self, approval: str, answer: str) -> None:
        """"deny", "once", or "run": while the sandbox lives."""
        self._do(with_json("POST", link("approvals", approval), nothing, again=False, answer=answer))

    def usage(self) -> Usage:
        return self._do(Call("GET", link("usage"), one(Usage.of)))

    def events(self) -> Iterator[Event]:
        """What happens to all sandboxes, from now on; "ready" first. Ends with ConnectionFailed: what happened
        meanwhile is not told again, so look at sandboxes() before you go on."""
        try:
            for event in self._events(link("events"), {}):
                yield Event.of(event.name, json.loads(event.data))
        except _BROKEN as problem:
            raise calls.unreachable(self._place, problem) from problem
        raise ConnectionFailed("the daemon has ended the stream", "host")

    def _follow(self, path: str, place: tuple[int, int]) -> Iterator[Output | StepInfo]:
        """A step's output and at last the step itself, across broken connections."""
        reader, attempt = StepReader(place), 0
        while True:
            try:
                for event in self._events(path, {"Last-Event-ID": reader.id}):
                    attempt = 0
                    piece = reader.take(event)
                    if piece:
                        yield piece
                    if reader.end:
                        yield reader.end
                        return
                problem: Exception = ConnectionFailed("the stream ended early", "host")
            except _BROKEN as broken:
                problem = broken
            except AtollError as failure:
                if failure.status not in (429, 502, 503):
                    raise
                problem = failure
            if attempt >= self._retries:
                raise calls.unreachable(self._place, problem) from problem
            _rest(attempt, None)
            attempt += 1


def _rewind(body: Any) -> bool:
    """Can it be sent (again)?"""
    if body is None or isinstance(body, bytes):
        return True
    try:
        body.seek(0)
    except (AttributeError, OSError, ValueError):
        return False
    return True


def _rest(attempt: int, retry_after: float | None) -> None:
    time.sleep(min(retry_after if retry_after is not None else 0.1 * 2 ** attempt, 10) * random.uniform(0.8, 1.2))


class Sandbox:
    """A sandbox of the daemon's; as a context it is deleted at the end. `info` is what was last heard of it."""

    def __init__(self, client: Client, info: SandboxInfo) -> None:
        self.client = client
        self.info = info
        self.files = Files(self)

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} {self.info.state}>"

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        with contextlib.suppress(AtollError):
            self.delete()

    def _link(self, *segments: object, **query: object) -> str:
        return link("sandboxes", self.id, *segments, **query)

    def _change(self, call: Call[SandboxInfo]) -> SandboxInfo:
        self.info = self.client._do(call)
        return self.info

    def refresh(self) -> SandboxInfo:
        return self._change(Call("GET", self._link(), one(SandboxInfo.of)))

    def delete(self) -> None:
        self.client._do(Call("DELETE", self._link(), nothing, also=(404,)))

    def pause(self, memory: bool = True) -> SandboxInfo:
        return self._change(with_json("POST", self._link("pause"), one(SandboxInfo.of), memory=memory))

    def resume(self, timeout: float | None = None) -> SandboxInfo:
        return self._change(with_json("POST", self._link("resume"), one(SandboxInfo.of),
                                      timeout=calls.seconds(timeout)))

    def set_timeout(self, timeout: float) -> SandboxInfo:
        return self._change(with_json("POST", self._link("timeout"), one(SandboxInfo.of),
                                      timeout=calls.seconds(timeout)))

    # ---- steps ----

    def run(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
            cwd: str | None = None, user: str | None = None, timeout: float | None = None, input: bytes | None = None,
            on_output: Callable[[Output], None] | None = None, request_id: str | None = None) -> Result:
        """Run a command (a text: by a shell) to its end. `on_output` hears what it prints as it comes."""
        if on_output is None and input is None:
            info = self.client._do(calls.step(self.id, command, environment=environment, cwd=cwd, user=user,
                                              stdin=False, terminal=None, timeout=timeout, wait=10,
                                              request=request_id))
            step = Step(self, info)
            if info.result and _is_whole(info):
                return Result.make(info.result, info.out.data or b"", info.err.data or b"")
        else:
            step = self.start(command, environment=environment, cwd=cwd, user=user, stdin=input is not None,
                              timeout=timeout, request_id=request_id)
        if input is not None:
            for at in range(0, len(input), 1 << 20):
                step.write(input[at:at + (1 << 20)])
            step.close_stdin()
        got = {"out": bytearray(), "err": bytearray()}
        for piece in step.stream():
            got[piece.stream] += piece.data
            if on_output:
                on_output(piece)
        return Result.make(step.wait(), bytes(got["out"]), bytes(got["err"]))

    def start(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
              cwd: str | None = None, user: str | None = None, stdin: bool = False,
              terminal: tuple[int, int] | None = None, timeout: float | None = None,
              request_id: str | None = None) -> Step:
        """Start a command, and do not wait. `terminal`: columns and rows. With the same `request_id` it is the same
        step, however often it is asked for."""
        return Step(self, self.client._do(calls.step(
            self.id, command, environment=environment, cwd=cwd, user=user, stdin=stdin, terminal=terminal,
            timeout=timeout, wait=0, request=request_id)))

    def steps(self, state: str | None = None) -> list[Step]:
        found = self.client._do(Call("GET", self._link("steps", state=state), many(StepInfo.of)))
        return [Step(self, info) for info in found]

    def step(self, number: int) -> Step:
        return Step(self, self.client._do(Call("GET", self._link("steps", number), one(StepInfo.of))))

    # ---- states and changes ----

    def checkpoint(self, name: str | None = None) -> str:
        return self.client._do(with_json("POST", self._link("checkpoints"), lambda b: str(json.loads(b)["name"]),
                                         again=False, name=name))

    def checkpoints(self) -> list[Checkpoint]:
        return self.client._do(Call("GET", self._link("checkpoints"), many(Checkpoint.of)))

    def rollback(self, checkpoint: str) -> int:
        """How many processes were ended for it."""
        return self.client._do(with_json("POST", self._link("rollback"),
                                         lambda b: int(json.loads(b)["endedProcesses"]), checkpoint=checkpoint))

    def fork(self, count: int = 1, timeout: float | None = None) -> list[Sandbox]:
        """Those that could be made; if none could, why."""
        made = self.client._do(with_json("POST", self._link("fork"), calls.results, again=False, count=count,
                                         timeout=calls.seconds(timeout)))
        forks = [Sandbox(self.client, SandboxInfo.of(item["sandbox"])) for item in made if item["sandbox"]]
        if made and not forks:
            raise AtollError(made[0]["error"]["message"], made[0]["error"]["cause"])
        return forks

    def diff(self, path: str | None = None, lines: bool = False) -> Diff:
        return self.client._do(Call("GET", self._link("diff", path=path, lines=lines or None), one(Diff.of)))

    def diff_text(self, path: str | None = None) -> str:
        return self.client._do(Call("GET", self._link("diff", format="text", path=path), text))

    def apply(self, paths: Sequence[str] | None = None, *, merge: bool = False, force: bool = False,
              dry: bool = False) -> Applied:
        """Onto the daemon's machine. If something conflicts nothing is applied, and `conflicts` is not 0."""
        return self.client._do(calls.apply(self.id, paths, merge, force, dry))

    def export(self, format: str = "tar") -> bytes:
        return self.client._do(Call("GET", self._link("export", format=format), raw))

    def log(self, kind: str | None = None, step: int | None = None) -> list[Object]:
        body = self.client._do(Call("GET", self._link("log", kind=kind, step=step), raw))
        return [json.loads(line) for line in body.splitlines()]

    def receipt(self, step: int | None = None) -> bytes:
        return self.client._do(Call("GET", self._link("receipt", step=step), raw))


def _is_whole(info: StepInfo) -> bool:
    return all(s.first == 0 and s.data is not None and len(s.data) == s.size for s in (info.out, info.err))


class _Followed:
    """What a step and a job have in common."""

    client: Client
    _path: str

    def _told(self, info: StepInfo) -> None:
        raise NotImplementedError

    def stream(self, place: tuple[int, int] = (0, 0)) -> Iterator[Output]:
        """What it prints, from these offsets of "out" and "err" on, until it ends. Broken connections, and a daemon
        that is started again meanwhile, are not noticed: no byte is missing, and none comes twice."""
        for piece in self.client._follow(self._path + "/events", place):
            if isinstance(piece, StepInfo):
                self._told(piece)
            else:
                yield piece

    def output(self, stream: str = "out", start: int | None = None) -> bytes:
        """What it has printed so far, from an offset on."""
        query = link(stream=stream, from_=start).partition("?")[2]
        return self.client._do(Call("GET", f"{self._path}/output?{query}", raw))


class Step(_Followed):
    """A command in a sandbox. `info` is what was last heard of it."""

    def __init__(self, sandbox: Sandbox, info: StepInfo) -> None:
        self.sandbox = sandbox
        self.client = sandbox.client
        self.info = info
        self._path = link("sandboxes", sandbox.id, "steps", info.number)

    @property
    def number(self) -> int:
        return self.info.number

    def __repr__(self) -> str:
        return f"<Step {self.number} of {self.sandbox.id} {self.info.state}>"

    def _told(self, info: StepInfo) -> None:
        self.info = info

    def refresh(self) -> StepInfo:
        self.info = self.client._do(Call("GET", self._path, one(StepInfo.of)))
        return self.info

    def wait(self) -> StepResult:
        while self.info.result is None:
            for _ in self.stream((self.info.out.size, self.info.err.size)):
                pass
        return self.info.result

    def write(self, data: bytes) -> None:
        """To its standard input, or as if it were typed. Not sent again if the connection breaks: nobody would know
        how much of it has arrived."""
        self.client._do(Call("POST", self._path + "/stdin", nothing, data, "application/octet-stream", again=False))

    def close_stdin(self) -> None:
        self.client._do(Call("POST", self._path + "/stdin?eof=true", nothing))

    def signal(self, name: str = "SIGTERM") -> None:
        self.client._do(with_json("POST", self._path + "/signal", nothing, again=False, signal=name))

    def kill(self) -> None:
        self.signal("SIGKILL")

    def resize(self, columns: int, rows: int) -> None:
        self.client._do(with_json("POST", self._path + "/resize", nothing, columns=columns, rows=rows))


class Files:
    """A sandbox's files. Paths are as a program inside would write them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def _do(self, method: str, parse: Callable[[bytes], T], *segments: str, body: bytes | BinaryIO | None = None,
            again: bool = True, also: tuple[int, ...] = (), **query: object) -> T:
        kind = "application/octet-stream" if body is not None else None
        return self._sandbox.client._do(Call(method, self._sandbox._link("files", *segments, **query), parse, body,
                                             kind, again, also))

    def read(self, path: str, user: str | None = None) -> bytes:
        return self._do("GET", raw, path=path, user=user)

    def write(self, path: str, data: bytes | str | BinaryIO, user: str | None = None) -> int:
        """A file, or bytes; directories above it are made."""
        body = data.encode() if isinstance(data, str) else data
        return self._do("PUT", lambda b: int(json.loads(b)["size"]), body=body, path=path, user=user)

    def remove(self, path: str, user: str | None = None) -> None:
        self._do("DELETE", nothing, path=path, user=user)

    def stat(self, path: str, user: str | None = None) -> FileInfo:
        return self._do("GET", one(FileInfo.of), "stat", path=path, user=user)

    def list(self, path: str = "", depth: int = 1, user: str | None = None) -> list[FileInfo]:
        return self._do("GET", many(FileInfo.of), "list", path=path, depth=depth, user=user)

    def move(self, source: str, target: str, user: str | None = None) -> None:
        self._sandbox.client._do(with_json("POST", self._sandbox._link("files", "move"), nothing, again=False,
                                           **{"from": source, "to": target, "user": user}))

    def make_dir(self, path: str, user: str | None = None) -> None:
        self._sandbox.client._do(with_json("POST", self._sandbox._link("files", "mkdir"), nothing, path=path,
                                           user=user))


class Job(_Followed):
    """A command under a contract, in a sandbox of its own."""

    def __init__(self, client: Client, info: JobInfo) -> None:
        self.client = client
        self.info = info
        self._path = link("jobs", info.id)

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.info.state}>"

    def _told(self, info: StepInfo) -> None:
        self.info = JobInfo(self.info.id, "ended", self.info.labels, self.info.sandbox, info)

    def refresh(self) -> JobInfo:
        self.info = self.client._do(Call("GET", self._path, one(JobInfo.of)))
        return self.info

    def wait(self) -> StepResult:
        while self.info.step is None or self.info.step.result is None:
            for _ in self.stream():
                pass
        return self.info.step.result

    def sandbox(self) -> Sandbox:
        return self.client.sandbox(self.id)

    def cancel(self) -> None:
        """End it, or clear its sandbox away; its result stays."""
        self.client._do(Call("DELETE", self._path, nothing))

    def receipt(self) -> bytes:
        return self.client._do(Call("GET", self._path + "/receipt", raw))
