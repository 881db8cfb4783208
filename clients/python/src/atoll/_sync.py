# SPDX-License-Identifier: Apache-2.0
"""The client that waits. Its methods may be called from several threads."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import BinaryIO, TypeVar

from . import _calls as calls
from ._calls import Call, link
from ._core import (Asking, Feeding, Following, Gathering, JobCore, SandboxCore, Session, StepCore, can_be_sent,
                    whole_result)
from ._errors import AtollError, ConnectionFailed, from_answer
from ._models import (Applied, Approval, Checkpoint, Diff, Event, FileInfo, JobInfo, Object, Output, Result,
                      SandboxInfo, SecretInfo, StepInfo, StepResult, Usage)
from ._stream import Raw, Reader

T = TypeVar("T")
BROKEN = (OSError, http.client.HTTPException)


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
        self._session = Session(host, key, timeout, retries)
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
        place = self._session.place
        if place.scheme == "unix":
            return _UnixConnection(place.host, timeout)
        if place.scheme == "https":
            return http.client.HTTPSConnection(place.host, place.port, timeout=timeout,
                                               context=self._context or ssl.create_default_context())
        return http.client.HTTPConnection(place.host, place.port, timeout=timeout)

    def _send(self, call: Call[T], timeout: float) -> tuple[int, bytes, str | None]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        fresh = connection is None
        if connection is None:
            connection = self._connect(timeout)
        elif connection.sock:
            connection.sock.settimeout(timeout)
        try:
            headers = self._session.headers({"Content-Type": call.type} if call.type else None)
            if call.body is None and call.method in ("POST", "PUT"):
                headers["Content-Length"] = "0"
            connection.request(call.method, self._session.path(call.path), call.body, headers)
            answer = connection.getresponse()
            body = answer.read()
        except BROKEN:
            connection.close()
            # The daemon may have closed one that rested, before it read anything.
            if not fresh and call.again and can_be_sent(call.body):
                return self._send(call, timeout)
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append(connection)
        return answer.status, body, answer.getheader("Retry-After")

    def _do(self, call: Call[T], timeout: float | None = None) -> T:
        asking = Asking(self._session, call)
        while not asking.is_done:
            asking.begin()
            try:
                answer = self._send(call, timeout or self._session.timeout)
            except BROKEN as problem:
                time.sleep(asking.broken(problem))
            else:
                time.sleep(asking.answered(*answer))
        return asking.result

    @contextlib.contextmanager
    def _open(self, path: str, headers: Mapping[str, str]) -> Iterator[http.client.HTTPResponse]:
        connection = self._connect(self._session.timeout)
        try:
            connection.request("GET", self._session.path(path), headers=self._session.headers(headers))
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
        return Sandbox(self, self._do(calls.create(
            template=template, contract=contract, timeout=timeout, labels=labels, metadata=metadata,
            environment=environment, on_timeout=on_timeout, internet=internet)))

    def create_many(self, count: int, template: str | None = None, *, labels: Mapping[str, str],
              contract: str | Object | None = None, timeout: float | None = None,
              metadata: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None,
              on_timeout: str | None = None, internet: bool | None = None) -> list[Sandbox | AtollError]:
        """`count` alike; of each the sandbox, or why there is none. Not asked again if the connection breaks: look
        with sandboxes(labels=...) what was made."""
        made = self._do(calls.create_many(
            count, template=template, contract=contract, timeout=timeout, labels=labels, metadata=metadata,
            environment=environment, on_timeout=on_timeout, internet=internet))
        return [Sandbox(self, one) if isinstance(one, SandboxInfo) else one for one in made]

    def sandboxes(self, *, labels: Mapping[str, str] | None = None, state: str | None = None,
            usage: bool = False, page: int = 100) -> Iterator[Sandbox]:
        """Those that there are, newest first."""
        after: str | None = None
        while True:
            found, after = self._do(calls.sandboxes(labels, state, usage, page, after))
            for info in found:
                yield Sandbox(self, info)
            if after is None:
                return

    def sandbox(self, id: str) -> Sandbox:
        return Sandbox(self, self._do(calls.sandbox(id)))

    def delete_many(self, *, labels: Mapping[str, str], state: str | None = None) -> list[str]:
        """Delete all that have these labels; their ids."""
        return self._do(calls.delete_many(labels, state))

    # ---- jobs ----

    def start_job(self, command: Sequence[str] | None = None, *, contract: str | Object | None = None,
            template: str | None = None, environment: Mapping[str, str] | None = None,
            labels: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
            timeout: float | None = None, keep: int | None = None, internet: bool | None = None) -> Job:
        """Run a command under a contract in a sandbox of its own, which is kept `keep` seconds longer."""
        return Job(self, self._do(calls.start_job(
            command=command, contract=contract, template=template, environment=environment, labels=labels, cwd=cwd,
            user=user, timeout=timeout, keep=keep, internet=internet)))

    def job(self, id: str) -> Job:
        return Job(self, self._do(calls.job(id)))

    def jobs(self, *, page: int = 100) -> Iterator[Job]:
        after: str | None = None
        while True:
            found, after = self._do(calls.jobs(page, after))
            for info in found:
                yield Job(self, info)
            if after is None:
                return

    # ---- the rest ----

    def approvals(self) -> list[Approval]:
        """Questions about the network that wait for somebody, of contracts that say `ask`."""
        return self._do(calls.approvals())

    def answer(self, approval: str, answer: str) -> None:
        """"deny", "once", or "run": while the sandbox lives."""
        self._do(calls.answer(approval, answer))

    def secrets(self) -> list[SecretInfo]:
        """Which values are stored; none of them is told."""
        return self._do(calls.secrets())

    def set_secret(self, name: str, value: str) -> SecretInfo:
        """Store a value that contracts name (`network: {secrets: [{..., from: "secret:NAME"}]}`). Another one is for
        sandboxes that are made from then on."""
        return self._do(calls.set_secret(name, value))

    def delete_secret(self, name: str) -> None:
        self._do(calls.delete_secret(name))

    def usage(self) -> Usage:
        return self._do(calls.usage())

    def events(self) -> Iterator[Event]:
        """What happens to all sandboxes, from now on; "ready" first. Ends with ConnectionFailed: what happened
        meanwhile is not told again, so look at sandboxes() before you go on."""
        try:
            for event in self._events(link("events"), {}):
                yield Event.of(event.name, json.loads(event.data))
        except BROKEN as problem:
            raise self._session.unreachable(problem) from problem
        raise ConnectionFailed("the daemon has ended the stream", "host")

    def _follow(self, path: str, place: tuple[int, int]) -> Iterator[Output | StepInfo]:
        """A step's output and at last the step itself, across broken connections."""
        following = Following(self._session, place)
        while True:
            problem: BaseException | None = None
            try:
                for event in self._events(path, following.headers):
                    piece = following.take(event)
                    if piece:
                        yield piece
                    if following.end:
                        yield following.end
                        return
            except (*BROKEN, AtollError) as broken:
                problem = broken
            time.sleep(following.broken(problem))


class Sandbox(SandboxCore):
    __doc__ = SandboxCore.__doc__

    def __init__(self, client: Client, info: SandboxInfo) -> None:
        self.client = client
        self.info = info
        self.files = Files(self)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
           trace: TracebackType | None) -> None:
        with contextlib.suppress(AtollError):
            self.delete()

    def _change(self, call: Call[SandboxInfo]) -> SandboxInfo:
        self.info = self.client._do(call)
        return self.info

    def refresh(self) -> SandboxInfo:
        return self._change(calls.sandbox(self.id))

    def delete(self) -> None:
        self.client._do(calls.delete(self.id))

    def pause(self, memory: bool = True) -> SandboxInfo:
        return self._change(calls.pause(self.id, memory))

    def resume(self, timeout: float | None = None) -> SandboxInfo:
        return self._change(calls.resume(self.id, timeout))

    def set_timeout(self, timeout: float) -> SandboxInfo:
        return self._change(calls.set_timeout(self.id, timeout))

    # ---- steps ----

    def run(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
      cwd: str | None = None, user: str | None = None, timeout: float | None = None,
      input: bytes | None = None, on_output: Callable[[Output], None] | None = None,
      request_id: str | None = None) -> Result:
        """Run a command (a text: by a shell) to its end. `on_output` hears what it prints as it comes."""
        waits = on_output is None and input is None
        info = self.client._do(calls.start(
            self.id, command, environment=environment, cwd=cwd, user=user, stdin=input is not None, timeout=timeout,
            wait=10 if waits else 0, request_id=request_id))
        whole = whole_result(info) if waits else None
        if whole:
            return whole
        step, gathering = Step(self, info), Gathering()
        feeder = threading.Thread(target=step._feed, args=(input,), daemon=True) if input is not None else None
        if feeder:
            feeder.start()
        for piece in step.stream():
            gathering.take(piece)
            if on_output:
                on_output(piece)
        result = gathering.result(step.wait())
        if feeder:
            feeder.join()
        return result

    def start(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
        cwd: str | None = None, user: str | None = None, stdin: bool = False,
        terminal: tuple[int, int] | None = None, timeout: float | None = None,
        request_id: str | None = None) -> Step:
        """Start a command, and do not wait. `terminal`: columns and rows. With the same `request_id` it is the same
        step, however often it is asked for."""
        return Step(self, self.client._do(calls.start(
            self.id, command, environment=environment, cwd=cwd, user=user, stdin=stdin, terminal=terminal,
            timeout=timeout, request_id=request_id)))

    def steps(self, state: str | None = None) -> list[Step]:
        return [Step(self, info) for info in self.client._do(calls.steps(self.id, state))]

    def step(self, number: int) -> Step:
        return Step(self, self.client._do(calls.step(link("sandboxes", self.id, "steps", number))))

    # ---- states and changes ----

    def checkpoint(self, name: str | None = None) -> str:
        return self.client._do(calls.checkpoint(self.id, name))

    def checkpoints(self) -> list[Checkpoint]:
        return self.client._do(calls.checkpoints(self.id))

    def rollback(self, checkpoint: str) -> int:
        """How many processes were ended for it."""
        return self.client._do(calls.rollback(self.id, checkpoint))

    def fork(self, count: int = 1, timeout: float | None = None) -> list[Sandbox]:
        """Those that could be made; if none could, why."""
        return [Sandbox(self.client, info) for info in self.client._do(calls.fork(self.id, count, timeout))]

    def diff(self, path: str | None = None, lines: bool = False) -> Diff:
        return self.client._do(calls.diff(self.id, path, lines))

    def diff_text(self, path: str | None = None) -> str:
        return self.client._do(calls.diff_text(self.id, path))

    def apply(self, paths: Sequence[str] | None = None, *, merge: bool = False, force: bool = False,
        dry: bool = False) -> Applied:
        """Onto the workspace that the daemon grants the tenant; PolicyRefused if there is none. If something conflicts
        nothing is applied, and `conflicts` is not 0."""
        return self.client._do(calls.apply(self.id, paths, merge, force, dry))

    def undo(self, *, force: bool = False) -> Applied:
        """Take the latest apply back; if the host has changed since then nothing is, and `conflicts` is not 0."""
        return self.client._do(calls.undo(self.id, force))

    def export(self, format: str = "tar") -> bytes:
        return self.client._do(calls.export(self.id, format))

    def log(self, kind: str | None = None, step: int | None = None) -> list[Object]:
        return self.client._do(calls.log(self.id, kind, step))

    def receipt(self, step: int | None = None) -> bytes:
        return self.client._do(calls.receipt(self.id, step))


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
        return self.client._do(calls.output(self._path, stream, start))


class Step(StepCore, _Followed):
    __doc__ = StepCore.__doc__

    def __init__(self, sandbox: Sandbox, info: StepInfo) -> None:
        super().__init__(sandbox.id, info)
        self.sandbox = sandbox
        self.client = sandbox.client

    def refresh(self) -> StepInfo:
        self.info = self.client._do(calls.step(self._path))
        return self.info

    def wait(self) -> StepResult:
        while self.info.result is None:
            for _ in self.stream((self.info.out.size, self.info.err.size)):
                pass
        return self.info.result

    def write(self, data: bytes) -> None:
        """To its standard input, or as if it were typed: each byte once, whatever connections and daemons do. Ends
        when all of it was taken, which a command that does not read makes you wait for."""
        feeding = Feeding(self._path, data, self._fed)
        while not feeding.is_done:
            feeding.heard(self.client._do(feeding.call()))
            self._fed = feeding.at

    def _feed(self, data: bytes) -> None:
        # A command may end without having read all of it, as at a pipe.
        with contextlib.suppress(AtollError):
            self.write(data)
            self.close_stdin()

    def close_stdin(self) -> None:
        self.client._do(calls.stdin(self._path, None, self._fed))

    def signal(self, name: str = "SIGTERM") -> None:
        self.client._do(calls.signal(self._path, name))

    def kill(self) -> None:
        self.signal("SIGKILL")

    def resize(self, columns: int, rows: int) -> None:
        self.client._do(calls.resize(self._path, columns, rows))


class Files:
    """A sandbox's files. Paths are as a program inside would write them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def _do(self, call: Call[T]) -> T:
        return self._sandbox.client._do(call)

    def read(self, path: str, user: str | None = None) -> bytes:
        return self._do(calls.read_file(self._sandbox.id, path, user))

    def write(self, path: str, data: bytes | str | BinaryIO, user: str | None = None) -> int:
        """A file, or bytes; directories above it are made."""
        return self._do(calls.write_file(self._sandbox.id, path, data, user))

    def remove(self, path: str, user: str | None = None) -> None:
        self._do(calls.remove_file(self._sandbox.id, path, user))

    def stat(self, path: str, user: str | None = None) -> FileInfo:
        return self._do(calls.stat_file(self._sandbox.id, path, user))

    def list(self, path: str = "", depth: int = 1, user: str | None = None) -> list[FileInfo]:
        return self._do(calls.list_files(self._sandbox.id, path, depth, user))

    def move(self, source: str, target: str, user: str | None = None) -> None:
        self._do(calls.move_file(self._sandbox.id, source, target, user))

    def make_dir(self, path: str, user: str | None = None) -> None:
        self._do(calls.make_dir(self._sandbox.id, path, user))


class Job(JobCore, _Followed):
    __doc__ = JobCore.__doc__

    def __init__(self, client: Client, info: JobInfo) -> None:
        super().__init__(info)
        self.client = client

    def refresh(self) -> JobInfo:
        self.info = self.client._do(calls.job(self.id))
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
        self.client._do(calls.cancel(self.id))

    def receipt(self) -> bytes:
        return self.client._do(calls.job_receipt(self.id))
