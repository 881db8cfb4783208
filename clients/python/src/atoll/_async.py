# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. One of one loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import BinaryIO, TypeVar

from . import _calls as calls
from ._calls import Call, link
from ._core import (Asking, Feeding, Following, Gathering, JobCore, SandboxCore, Session, StepCore, can_be_sent,
                    whole_result)
from ._errors import AtollError, ConnectionFailed, from_answer
from ._http import BROKEN, Connection
from ._models import (Applied, Approval, Checkpoint, Diff, Event, FileInfo, JobInfo, Object, Output, Result,
                      SandboxInfo, SecretInfo, StepInfo, StepResult, Usage)
from ._stream import Raw, Reader

T = TypeVar("T")


class AsyncClient:
    """A daemon and a key. `host`: "http://HOST:PORT", "https://HOST", "unix:PATH"; else $ATOLL_HOST. `timeout` is for
    one answer, and for how long a stream may be silent; `retries` for what may be asked again."""

    def __init__(self, host: str | None = None, key: str | None = None, *, timeout: float = 60.0, retries: int = 8,
                 context: ssl.SSLContext | None = None) -> None:
        self._session = Session(host, key, timeout, retries)
        self._context = context
        self._idle: list[Connection] = []

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Connections that rest are closed; the client may be used again."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # ---- connections ----

    async def _send(self, call: Call[T]) -> tuple[int, bytes, str | None]:
        connection = self._idle.pop() if self._idle else None
        fresh = connection is None
        try:
            if connection is None:
                connection = await Connection.open(self._session.place, self._context)
            headers = self._session.headers({"Content-Type": call.type} if call.type else None)
            answer = await connection.request(call.method, self._session.path(call.path), headers, call.body)
            body = await answer.whole()
        except BaseException as problem:
            if connection:
                connection.close()
            # The daemon may have closed one that rested, before it read anything.
            if isinstance(problem, BROKEN) and not fresh and call.again and can_be_sent(call.body):
                return await self._send(call)
            raise
        if answer.keeps:
            self._idle.append(connection)
        else:
            connection.close()
        return answer.status, body, answer.headers.get("retry-after")

    async def _do(self, call: Call[T], timeout: float | None = None) -> T:
        asking = Asking(self._session, call)
        while not asking.is_done:
            asking.begin()
            try:
                answer = await asyncio.wait_for(self._send(call), timeout or self._session.timeout)
            except BROKEN as problem:
                await asyncio.sleep(asking.broken(problem))
            else:
                await asyncio.sleep(asking.answered(*answer))
        return asking.result

    async def _events(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Raw]:
        reader, timeout = Reader(), self._session.timeout
        connection = await asyncio.wait_for(Connection.open(self._session.place, self._context), timeout)
        try:
            answer = await asyncio.wait_for(
                connection.request("GET", self._session.path(path), self._session.headers(headers), None), timeout)
            if answer.status >= 300:
                raise from_answer(answer.status, await answer.whole(), answer.headers.get("retry-after"))
            pieces = answer.pieces()
            while True:
                try:
                    data = await asyncio.wait_for(pieces.__anext__(), timeout)
                except StopAsyncIteration:
                    return
                for event in reader.feed(data):
                    yield event
        finally:
            connection.close()

    # ---- sandboxes ----

    async def create(self, template: str | None = None, *, contract: str | Object | None = None,
               timeout: float | None = None, labels: Mapping[str, str] | None = None,
               metadata: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None,
               on_timeout: str | None = None, internet: bool | None = None) -> AsyncSandbox:
        """Make a sandbox from a template, or with a whole contract (a job file). `timeout`: seconds until it ends by
        itself; float("inf"): never."""
        return AsyncSandbox(self, await self._do(calls.create(
            template=template, contract=contract, timeout=timeout, labels=labels, metadata=metadata,
            environment=environment, on_timeout=on_timeout, internet=internet)))

    async def create_many(self, count: int, template: str | None = None, *, labels: Mapping[str, str],
                    contract: str | Object | None = None, timeout: float | None = None,
                    metadata: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None,
                    on_timeout: str | None = None, internet: bool | None = None) -> list[AsyncSandbox | AtollError]:
        """`count` alike; of each the sandbox, or why there is none. Not asked again if the connection breaks: look
        with sandboxes(labels=...) what was made."""
        made = await self._do(calls.create_many(
            count, template=template, contract=contract, timeout=timeout, labels=labels, metadata=metadata,
            environment=environment, on_timeout=on_timeout, internet=internet))
        return [AsyncSandbox(self, one) if isinstance(one, SandboxInfo) else one for one in made]

    async def sandboxes(self, *, labels: Mapping[str, str] | None = None, state: str | None = None,
                  usage: bool = False, page: int = 100) -> AsyncIterator[AsyncSandbox]:
        """Those that there are, newest first."""
        after: str | None = None
        while True:
            found, after = await self._do(calls.sandboxes(labels, state, usage, page, after))
            for info in found:
                yield AsyncSandbox(self, info)
            if after is None:
                return

    async def sandbox(self, id: str) -> AsyncSandbox:
        return AsyncSandbox(self, await self._do(calls.sandbox(id)))

    async def delete_many(self, *, labels: Mapping[str, str], state: str | None = None) -> list[str]:
        """Delete all that have these labels; their ids."""
        return await self._do(calls.delete_many(labels, state))

    # ---- jobs ----

    async def start_job(self, command: Sequence[str] | None = None, *, contract: str | Object | None = None,
                  template: str | None = None, environment: Mapping[str, str] | None = None,
                  labels: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                  timeout: float | None = None, keep: int | None = None, internet: bool | None = None) -> AsyncJob:
        """Run a command under a contract in a sandbox of its own, which is kept `keep` seconds longer."""
        return AsyncJob(self, await self._do(calls.start_job(
            command=command, contract=contract, template=template, environment=environment, labels=labels, cwd=cwd,
            user=user, timeout=timeout, keep=keep, internet=internet)))

    async def job(self, id: str) -> AsyncJob:
        return AsyncJob(self, await self._do(calls.job(id)))

    async def jobs(self, *, page: int = 100) -> AsyncIterator[AsyncJob]:
        after: str | None = None
        while True:
            found, after = await self._do(calls.jobs(page, after))
            for info in found:
                yield AsyncJob(self, info)
            if after is None:
                return

    # ---- the rest ----

    async def approvals(self) -> list[Approval]:
        """Questions about the network that wait for somebody, of contracts that say `ask`."""
        return await self._do(calls.approvals())

    async def answer(self, approval: str, answer: str) -> None:
        """"deny", "once", or "run": while the sandbox lives."""
        await self._do(calls.answer(approval, answer))

    async def secrets(self) -> list[SecretInfo]:
        """Which values are stored; none of them is told."""
        return await self._do(calls.secrets())

    async def set_secret(self, name: str, value: str) -> SecretInfo:
        """Store a value that contracts name (`network: {secrets: [{..., from: "secret:NAME"}]}`). Another one is for
        sandboxes that are made from then on."""
        return await self._do(calls.set_secret(name, value))

    async def delete_secret(self, name: str) -> None:
        await self._do(calls.delete_secret(name))

    async def usage(self) -> Usage:
        return await self._do(calls.usage())

    async def events(self) -> AsyncIterator[Event]:
        """What happens to all sandboxes, from now on; "ready" first. Ends with ConnectionFailed: what happened
        meanwhile is not told again, so look at sandboxes() before you go on."""
        try:
            async for event in self._events(link("events"), {}):
                yield Event.of(event.name, json.loads(event.data))
        except BROKEN as problem:
            raise self._session.unreachable(problem) from problem
        raise ConnectionFailed("the daemon has ended the stream", "host")

    async def _follow(self, path: str, place: tuple[int, int]) -> AsyncIterator[Output | StepInfo]:
        """A step's output and at last the step itself, across broken connections."""
        following = Following(self._session, place)
        while True:
            problem: BaseException | None = None
            try:
                async for event in self._events(path, following.headers):
                    piece = following.take(event)
                    if piece:
                        yield piece
                    if following.end:
                        yield following.end
                        return
            except (*BROKEN, AtollError) as broken:
                problem = broken
            await asyncio.sleep(following.broken(problem))


class AsyncSandbox(SandboxCore):
    __doc__ = SandboxCore.__doc__

    def __init__(self, client: AsyncClient, info: SandboxInfo) -> None:
        self.client = client
        self.info = info
        self.files = AsyncFiles(self)

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                  trace: TracebackType | None) -> None:
        with contextlib.suppress(AtollError):
            await self.delete()

    async def _change(self, call: Call[SandboxInfo]) -> SandboxInfo:
        self.info = await self.client._do(call)
        return self.info

    async def refresh(self) -> SandboxInfo:
        return await self._change(calls.sandbox(self.id))

    async def delete(self) -> None:
        await self.client._do(calls.delete(self.id))

    async def pause(self, memory: bool = True) -> SandboxInfo:
        return await self._change(calls.pause(self.id, memory))

    async def resume(self, timeout: float | None = None) -> SandboxInfo:
        return await self._change(calls.resume(self.id, timeout))

    async def set_timeout(self, timeout: float) -> SandboxInfo:
        return await self._change(calls.set_timeout(self.id, timeout))

    # ---- steps ----

    async def run(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
            cwd: str | None = None, user: str | None = None, timeout: float | None = None,
            input: bytes | None = None, on_output: Callable[[Output], None] | None = None,
            request_id: str | None = None) -> Result:
        """Run a command (a text: by a shell) to its end. `on_output` hears what it prints as it comes."""
        waits = on_output is None and input is None
        info = await self.client._do(calls.start(
            self.id, command, environment=environment, cwd=cwd, user=user, stdin=input is not None, timeout=timeout,
            wait=10 if waits else 0, request_id=request_id))
        whole = whole_result(info) if waits else None
        if whole:
            return whole
        step, gathering = AsyncStep(self, info), Gathering()
        feeder = asyncio.create_task(step._feed(input)) if input is not None else None
        try:
            async for piece in step.stream():
                gathering.take(piece)
                if on_output:
                    on_output(piece)
            return gathering.result(await step.wait())
        finally:
            if feeder:
                feeder.cancel()

    async def start(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
              cwd: str | None = None, user: str | None = None, stdin: bool = False,
              terminal: tuple[int, int] | None = None, timeout: float | None = None,
              request_id: str | None = None) -> AsyncStep:
        """Start a command, and do not wait. `terminal`: columns and rows. With the same `request_id` it is the same
        step, however often it is asked for."""
        return AsyncStep(self, await self.client._do(calls.start(
            self.id, command, environment=environment, cwd=cwd, user=user, stdin=stdin, terminal=terminal,
            timeout=timeout, request_id=request_id)))

    async def steps(self, state: str | None = None) -> list[AsyncStep]:
        return [AsyncStep(self, info) for info in await self.client._do(calls.steps(self.id, state))]

    async def step(self, number: int) -> AsyncStep:
        return AsyncStep(self, await self.client._do(calls.step(link("sandboxes", self.id, "steps", number))))

    # ---- states and changes ----

    async def checkpoint(self, name: str | None = None) -> str:
        return await self.client._do(calls.checkpoint(self.id, name))

    async def checkpoints(self) -> list[Checkpoint]:
        return await self.client._do(calls.checkpoints(self.id))

    async def rollback(self, checkpoint: str) -> int:
        """How many processes were ended for it."""
        return await self.client._do(calls.rollback(self.id, checkpoint))

    async def fork(self, count: int = 1, timeout: float | None = None) -> list[AsyncSandbox]:
        """Those that could be made; if none could, why."""
        return [AsyncSandbox(self.client, info) for info in await self.client._do(calls.fork(self.id, count, timeout))]

    async def diff(self, path: str | None = None, lines: bool = False) -> Diff:
        return await self.client._do(calls.diff(self.id, path, lines))

    async def diff_text(self, path: str | None = None) -> str:
        return await self.client._do(calls.diff_text(self.id, path))

    async def apply(self, paths: Sequence[str] | None = None, *, merge: bool = False, force: bool = False,
              dry: bool = False) -> Applied:
        """Onto the workspace that the daemon grants the tenant; PolicyRefused if there is none. If something conflicts
        nothing is applied, and `conflicts` is not 0."""
        return await self.client._do(calls.apply(self.id, paths, merge, force, dry))

    async def undo(self, *, force: bool = False) -> Applied:
        """Take the latest apply back; if the host has changed since then nothing is, and `conflicts` is not 0."""
        return await self.client._do(calls.undo(self.id, force))

    async def export(self, format: str = "tar") -> bytes:
        return await self.client._do(calls.export(self.id, format))

    async def log(self, kind: str | None = None, step: int | None = None) -> list[Object]:
        return await self.client._do(calls.log(self.id, kind, step))

    async def receipt(self, step: int | None = None) -> bytes:
        return await self.client._do(calls.receipt(self.id, step))


class _Followed:
    """What a step and a job have in common."""

    client: AsyncClient
    _path: str

    def _told(self, info: StepInfo) -> None:
        raise NotImplementedError

    async def stream(self, place: tuple[int, int] = (0, 0)) -> AsyncIterator[Output]:
        """What it prints, from these offsets of "out" and "err" on, until it ends. Broken connections, and a daemon
        that is started again meanwhile, are not noticed: no byte is missing, and none comes twice."""
        async for piece in self.client._follow(self._path + "/events", place):
            if isinstance(piece, StepInfo):
                self._told(piece)
            else:
                yield piece

    async def output(self, stream: str = "out", start: int | None = None) -> bytes:
        """What it has printed so far, from an offset on."""
        return await self.client._do(calls.output(self._path, stream, start))


class AsyncStep(StepCore, _Followed):
    __doc__ = StepCore.__doc__

    def __init__(self, sandbox: AsyncSandbox, info: StepInfo) -> None:
        super().__init__(sandbox.id, info)
        self.sandbox = sandbox
        self.client = sandbox.client

    async def refresh(self) -> StepInfo:
        self.info = await self.client._do(calls.step(self._path))
        return self.info

    async def wait(self) -> StepResult:
        while self.info.result is None:
            async for _ in self.stream((self.info.out.size, self.info.err.size)):
                pass
        return self.info.result

    async def write(self, data: bytes) -> None:
        """To its standard input, or as if it were typed: each byte once, whatever connections and daemons do. Ends
        when all of it was taken, which a command that does not read makes you wait for."""
        feeding = Feeding(self._path, data, self._fed)
        while not feeding.is_done:
            feeding.heard(await self.client._do(feeding.call()))
            self._fed = feeding.at

    async def _feed(self, data: bytes) -> None:
        # A command may end without having read all of it, as at a pipe.
        with contextlib.suppress(AtollError):
            await self.write(data)
            await self.close_stdin()

    async def close_stdin(self) -> None:
        await self.client._do(calls.stdin(self._path, None, self._fed))

    async def signal(self, name: str = "SIGTERM") -> None:
        await self.client._do(calls.signal(self._path, name))

    async def kill(self) -> None:
        await self.signal("SIGKILL")

    async def resize(self, columns: int, rows: int) -> None:
        await self.client._do(calls.resize(self._path, columns, rows))


class AsyncFiles:
    """A sandbox's files. Paths are as a program inside would write them."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def _do(self, call: Call[T]) -> T:
        return await self._sandbox.client._do(call)

    async def read(self, path: str, user: str | None = None) -> bytes:
        return await self._do(calls.read_file(self._sandbox.id, path, user))

    async def write(self, path: str, data: bytes | str | BinaryIO, user: str | None = None) -> int:
        """A file, or bytes; directories above it are made."""
        return await self._do(calls.write_file(self._sandbox.id, path, data, user))

    async def remove(self, path: str, user: str | None = None) -> None:
        await self._do(calls.remove_file(self._sandbox.id, path, user))

    async def stat(self, path: str, user: str | None = None) -> FileInfo:
        return await self._do(calls.stat_file(self._sandbox.id, path, user))

    async def list(self, path: str = "", depth: int = 1, user: str | None = None) -> list[FileInfo]:
        return await self._do(calls.list_files(self._sandbox.id, path, depth, user))

    async def move(self, source: str, target: str, user: str | None = None) -> None:
        await self._do(calls.move_file(self._sandbox.id, source, target, user))

    async def make_dir(self, path: str, user: str | None = None) -> None:
        await self._do(calls.make_dir(self._sandbox.id, path, user))


class AsyncJob(JobCore, _Followed):
    __doc__ = JobCore.__doc__

    def __init__(self, client: AsyncClient, info: JobInfo) -> None:
        super().__init__(info)
        self.client = client

    async def refresh(self) -> JobInfo:
        self.info = await self.client._do(calls.job(self.id))
        return self.info

    async def wait(self) -> StepResult:
        while self.info.step is None or self.info.step.result is None:
            async for _ in self.stream():
                pass
        return self.info.step.result

    async def sandbox(self) -> AsyncSandbox:
        return await self.client.sandbox(self.id)

    async def cancel(self) -> None:
        """End it, or clear its sandbox away; its result stays."""
        await self.client._do(calls.cancel(self.id))

    async def receipt(self) -> bytes:
        return await self.client._do(calls.job_receipt(self.id))
