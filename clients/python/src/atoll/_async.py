# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. One of one loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

from . import _calls as calls
from ._calls import Call, Place, link, many, nothing, one, paged, raw, text, with_json
from ._errors import AtollError, ConnectionFailed, from_answer
from ._http import BROKEN, Connection
from ._models import (Applied, Approval, Checkpoint, Diff, Event, FileInfo, JobInfo, Object, Output, Result,
                      SandboxInfo, StepInfo, StepResult, Usage)
from ._stream import Raw, Reader, StepReader

T = TypeVar("T")


class AsyncClient:
    """A daemon and a key. `host`: "http://HOST:PORT", "https://HOST", "unix:PATH"; else $ATOLL_HOST. `timeout` is for
    one answer, and for how long a stream may be silent; `retries` for what may be asked again."""

    def __init__(self, host: str | None = None, key: str | None = None, *, timeout: float = 60.0, retries: int = 8,
                 context: ssl.SSLContext | None = None) -> None:
        self._place = Place.of(host)
        self._key = calls.find_key(key)
        self._timeout = timeout
        self._retries = retries
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

    def _headers(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        headers = {"Host": self._place.authority, **(extra or {})}
        if self._key:
            headers["X-API-Key"] = self._key
        return headers

    async def _send(self, call: Call[T]) -> tuple[int, bytes, str | None]:
        connection = self._idle.pop() if self._idle else None
        fresh = connection is None
        try:
            if connection is None:
                connection = await Connection.open(self._place, self._context)
            headers = self._headers({"Content-Type": call.type} if call.type else None)
            answer = await connection.request(call.method, self._place.prefix + call.path, headers, call.body)
            body = await answer.whole()
        except BaseException as problem:
            if connection:
                connection.close()
            # The daemon may have closed one that rested, before it read anything.
            if isinstance(problem, BROKEN) and not fresh and call.again and _rewind(call.body):
                return await self._send(call)
            raise
        if answer.keeps:
            self._idle.append(connection)
        else:
            connection.close()
        return answer.status, body, answer.headers.get("retry-after")

    async def _do(self, call: Call[T], timeout: float | None = None) -> T:
        for attempt in range(self._retries + 1):
            last = attempt == self._retries or not call.again or not _rewind(call.body)
            try:
                status, body, retry_after = await asyncio.wait_for(self._send(call), timeout or self._timeout)
            except BROKEN as problem:
                if last:
                    raise calls.unreachable(self._place, problem) from problem
                await _rest(attempt, None)
                continue
            if status < 300 or status in call.also:
                return call.parse(body)
            failure = from_answer(status, body, retry_after)
            if last or failure.retry_after is None or status not in (409, 429, 503):
                raise failure
            await _rest(attempt, failure.retry_after)
        raise AssertionError

    async def _events(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Raw]:
        reader = Reader()
        connection = await asyncio.wait_for(Connection.open(self._place, self._context), self._timeout)
        try:
            answer = await asyncio.wait_for(
                connection.request("GET", self._place.prefix + path, self._headers(headers), None), self._timeout)
            if answer.status >= 300:
                raise from_answer(answer.status, await answer.whole(), answer.headers.get("retry-after"))
            pieces = answer.pieces()
            while True:
                try:
                    data = await asyncio.wait_for(pieces.__anext__(), self._timeout)
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
        members = calls.create(template, contract, timeout, labels, metadata, environment, on_timeout, internet)
        return AsyncSandbox(self, await self._do(calls.create_one(members)))

    async def create_many(self, count: int, template: str | None = None, *, labels: Mapping[str, str],
                    contract: str | Object | None = None, timeout: float | None = None,
                    metadata: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None,
                    on_timeout: str | None = None, internet: bool | None = None) -> list[AsyncSandbox | AtollError]:
        """`count` alike; of each the sandbox, or why there is none. Not asked again if the connection breaks: look
        with sandboxes(labels=...) what was made."""
        members = calls.create(template, contract, timeout, labels, metadata, environment, on_timeout, internet)
        made = await self._do(with_json("POST", link("sandboxes", "bulk"), calls.results, again=False, count=count,
                                  **members))
        return [AsyncSandbox(self, SandboxInfo.of(item["sandbox"])) if item["sandbox"] else
                AtollError(item["error"]["message"], item["error"]["cause"]) for item in made]

    async def sandboxes(self, *, labels: Mapping[str, str] | None = None, state: str | None = None, usage: bool = False,
                  page: int = 100) -> AsyncIterator[AsyncSandbox]:
        """Those that there are, newest first."""
        after: str | None = None
        while True:
            found, after = await self._do(Call("GET", link("sandboxes", label=calls.label_text(labels), state=state,
                                                     usage=usage, limit=page, after=after), paged(SandboxInfo.of)))
            for info in found:
                yield AsyncSandbox(self, info)
            if after is None:
                return

    async def sandbox(self, id: str) -> AsyncSandbox:
        return AsyncSandbox(self, await self._do(Call("GET", link("sandboxes", id), one(SandboxInfo.of))))

    async def delete_many(self, *, labels: Mapping[str, str], state: str | None = None) -> list[str]:
        """Delete all that have these labels; their ids."""
        return await self._do(Call("DELETE", link("sandboxes", label=calls.label_text(labels), state=state),
                             lambda body: [str(id) for id in calls.results(body)]))

    # ---- jobs ----

    async def start_job(self, command: Sequence[str] | None = None, *, contract: str | Object | None = None,
                  template: str | None = None, environment: Mapping[str, str] | None = None,
                  labels: Mapping[str, str] | None = None, cwd: str | None = None, user: str | None = None,
                  timeout: float | None = None, keep: int | None = None, internet: bool | None = None) -> AsyncJob:
        """Run a command under a contract in a sandbox of its own, which is kept `keep` seconds longer."""
        members: Object = {
            "command": list(command) if command else None, "contract": contract, "template": template,
            "environment": dict(environment) if environment else None, "labels": dict(labels) if labels else None,
            "cwd": cwd, "user": user, "timeoutMs": round(timeout * 1000) if timeout else None, "keep": keep,
            "internet": internet}
        return AsyncJob(self, await self._do(calls.job(members)))

    async def job(self, id: str) -> AsyncJob:
        return AsyncJob(self, await self._do(Call("GET", link("jobs", id), one(JobInfo.of))))

    async def jobs(self, *, page: int = 100) -> AsyncIterator[AsyncJob]:
        after: str | None = None
        while True:
            found, after = await self._do(Call("GET", link("jobs", limit=page, after=after), paged(JobInfo.of)))
            for info in found:
                yield AsyncJob(self, info)
            if after is None:
                return

    # ---- the rest ----

    async def approvals(self) -> list[Approval]:
        """Questions about the network that wait for somebody, of contracts that say `ask`."""
        return await self._do(Call("GET", link("approvals"), many(Approval.of)))

    async def answer(self, approval: str, answer: str) -> None:
        """"deny", "once", or "run": while the sandbox lives."""
        await self._do(with_json("POST", link("approvals", approval), nothing, again=False, answer=answer))

    async def usage(self) -> Usage:
        return await self._do(Call("GET", link("usage"), one(Usage.of)))

    async def events(self) -> AsyncIterator[Event]:
        """What happens to all sandboxes, from now on; "ready" first. Ends with ConnectionFailed: what happened
        meanwhile is not told again, so look at sandboxes() before you go on."""
        try:
            async for event in self._events(link("events"), {}):
                yield Event.of(event.name, json.loads(event.data))
        except BROKEN as problem:
            raise calls.unreachable(self._place, problem) from problem
        raise ConnectionFailed("the daemon has ended the stream", "host")

    async def _follow(self, path: str, place: tuple[int, int]) -> AsyncIterator[Output | StepInfo]:
        """A step's output and at last the step itself, across broken connections."""
        reader, attempt = StepReader(place), 0
        while True:
            try:
                async for event in self._events(path, {"Last-Event-ID": reader.id}):
                    attempt = 0
                    piece = reader.take(event)
                    if piece:
                        yield piece
                    if reader.end:
                        yield reader.end
                        return
                problem: Exception = ConnectionFailed("the stream ended early", "host")
            except BROKEN as broken:
                problem = broken
            except AtollError as failure:
                if failure.status not in (429, 502, 503):
                    raise
                problem = failure
            if attempt >= self._retries:
                raise calls.unreachable(self._place, problem) from problem
            await _rest(attempt, None)
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


async def _rest(attempt: int, retry_after: float | None) -> None:
    pause = retry_after if retry_after is not None else 0.1 * 2 ** attempt
    await asyncio.sleep(min(pause, 10) * random.uniform(0.8, 1.2))


class AsyncSandbox:
    """A sandbox of the daemon's; as a context it is deleted at the end. `info` is what was last heard of it."""

    def __init__(self, client: AsyncClient, info: SandboxInfo) -> None:
        self.client = client
        self.info = info
        self.files = AsyncFiles(self)

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} {self.info.state}>"

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        with contextlib.suppress(AtollError):
            await self.delete()

    def _link(self, *segments: object, **query: object) -> str:
        return link("sandboxes", self.id, *segments, **query)

    async def _change(self, call: Call[SandboxInfo]) -> SandboxInfo:
        self.info = await self.client._do(call)
        return self.info

    async def refresh(self) -> SandboxInfo:
        return await self._change(Call("GET", self._link(), one(SandboxInfo.of)))

    async def delete(self) -> None:
        await self.client._do(Call("DELETE", self._link(), nothing, also=(404,)))

    async def pause(self, memory: bool = True) -> SandboxInfo:
        return await self._change(with_json("POST", self._link("pause"), one(SandboxInfo.of), memory=memory))

    async def resume(self, timeout: float | None = None) -> SandboxInfo:
        return await self._change(with_json("POST", self._link("resume"), one(SandboxInfo.of),
                                      timeout=calls.seconds(timeout)))

    async def set_timeout(self, timeout: float) -> SandboxInfo:
        return await self._change(with_json("POST", self._link("timeout"), one(SandboxInfo.of),
                                      timeout=calls.seconds(timeout)))

    # ---- steps ----

    async def run(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
            cwd: str | None = None, user: str | None = None, timeout: float | None = None, input: bytes | None = None,
            on_output: Callable[[Output], None] | None = None, request_id: str | None = None) -> Result:
        """Run a command (a text: by a shell) to its end. `on_output` hears what it prints as it comes."""
        if on_output is None and input is None:
            info = await self.client._do(calls.step(self.id, command, environment=environment, cwd=cwd, user=user,
                                              stdin=False, terminal=None, timeout=timeout, wait=10,
                                              request=request_id))
            step = AsyncStep(self, info)
            if info.result and _is_whole(info):
                return Result.make(info.result, info.out.data or b"", info.err.data or b"")
        else:
            step = await self.start(command, environment=environment, cwd=cwd, user=user, stdin=input is not None,
                              timeout=timeout, request_id=request_id)
        if input is not None:
            for at in range(0, len(input), 1 << 20):
                await step.write(input[at:at + (1 << 20)])
            await step.close_stdin()
        got = {"out": bytearray(), "err": bytearray()}
        async for piece in step.stream():
            got[piece.stream] += piece.data
            if on_output:
                on_output(piece)
        return Result.make(await step.wait(), bytes(got["out"]), bytes(got["err"]))

    async def start(self, command: Sequence[str] | str, *, environment: Mapping[str, str] | None = None,
              cwd: str | None = None, user: str | None = None, stdin: bool = False,
              terminal: tuple[int, int] | None = None, timeout: float | None = None,
              request_id: str | None = None) -> AsyncStep:
        """Start a command, and do not wait. `terminal`: columns and rows. With the same `request_id` it is the same
        step, however often it is asked for."""
        return AsyncStep(self, await self.client._do(calls.step(
            self.id, command, environment=environment, cwd=cwd, user=user, stdin=stdin, terminal=terminal,
            timeout=timeout, wait=0, request=request_id)))

    async def steps(self, state: str | None = None) -> list[AsyncStep]:
        found = await self.client._do(Call("GET", self._link("steps", state=state), many(StepInfo.of)))
        return [AsyncStep(self, info) for info in found]

    async def step(self, number: int) -> AsyncStep:
        return AsyncStep(self, await self.client._do(Call("GET", self._link("steps", number), one(StepInfo.of))))

    # ---- states and changes ----

    async def checkpoint(self, name: str | None = None) -> str:
        return await self.client._do(with_json("POST", self._link("checkpoints"), lambda b: str(json.loads(b)["name"]),
                                         again=False, name=name))

    async def checkpoints(self) -> list[Checkpoint]:
        return await self.client._do(Call("GET", self._link("checkpoints"), many(Checkpoint.of)))

    async def rollback(self, checkpoint: str) -> int:
        """How many processes were ended for it."""
        return await self.client._do(with_json("POST", self._link("rollback"),
                                         lambda b: int(json.loads(b)["endedProcesses"]), checkpoint=checkpoint))

    async def fork(self, count: int = 1, timeout: float | None = None) -> list[AsyncSandbox]:
        """Those that could be made; if none could, why."""
        made = await self.client._do(with_json("POST", self._link("fork"), calls.results, again=False, count=count,
                                         timeout=calls.seconds(timeout)))
        forks = [AsyncSandbox(self.client, SandboxInfo.of(item["sandbox"])) for item in made if item["sandbox"]]
        if made and not forks:
            raise AtollError(made[0]["error"]["message"], made[0]["error"]["cause"])
        return forks

    async def diff(self, path: str | None = None, lines: bool = False) -> Diff:
        return await self.client._do(Call("GET", self._link("diff", path=path, lines=lines or None), one(Diff.of)))

    async def diff_text(self, path: str | None = None) -> str:
        return await self.client._do(Call("GET", self._link("diff", format="text", path=path), text))

    async def apply(self, paths: Sequence[str] | None = None, *, merge: bool = False, force: bool = False,
              dry: bool = False) -> Applied:
        """Onto the daemon's machine. If something conflicts nothing is applied, and `conflicts` is not 0."""
        return await self.client._do(calls.apply(self.id, paths, merge, force, dry))

    async def export(self, format: str = "tar") -> bytes:
        return await self.client._do(Call("GET", self._link("export", format=format), raw))

    async def log(self, kind: str | None = None, step: int | None = None) -> list[Object]:
        body = await self.client._do(Call("GET", self._link("log", kind=kind, step=step), raw))
        return [json.loads(line) for line in body.splitlines()]

    async def receipt(self, step: int | None = None) -> bytes:
        return await self.client._do(Call("GET", self._link("receipt", step=step), raw))


def _is_whole(info: StepInfo) -> bool:
    return all(s.first == 0 and s.data is not None and len(s.data) == s.size for s in (info.out, info.err))


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
        query = link(stream=stream, from_=start).partition("?")[2]
        return await self.client._do(Call("GET", f"{self._path}/output?{query}", raw))


class AsyncStep(_Followed):
    """A command in a sandbox. `info` is what was last heard of it."""

    def __init__(self, sandbox: AsyncSandbox, info: StepInfo) -> None:
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

    async def refresh(self) -> StepInfo:
        self.info = await self.client._do(Call("GET", self._path, one(StepInfo.of)))
        return self.info

    async def wait(self) -> StepResult:
        while self.info.result is None:
            async for _ in self.stream((self.info.out.size, self.info.err.size)):
                pass
        return self.info.result

    async def write(self, data: bytes) -> None:
        """To its standard input, or as if it were typed. Not sent again if the connection breaks: nobody would know
        how much of it has arrived."""
        await self.client._do(Call("POST", self._path + "/stdin", nothing, data, "application/octet-stream",
                                   again=False))

    async def close_stdin(self) -> None:
        await self.client._do(Call("POST", self._path + "/stdin?eof=true", nothing))

    async def signal(self, name: str = "SIGTERM") -> None:
        await self.client._do(with_json("POST", self._path + "/signal", nothing, again=False, signal=name))

    async def kill(self) -> None:
        await self.signal("SIGKILL")

    async def resize(self, columns: int, rows: int) -> None:
        await self.client._do(with_json("POST", self._path + "/resize", nothing, columns=columns, rows=rows))


class AsyncFiles:
    """A sandbox's files. Paths are as a program inside would write them."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox

    async def _do(self, method: str, parse: Callable[[bytes], T], *segments: str, body: bytes | BinaryIO | None = None,
            again: bool = True, also: tuple[int, ...] = (), **query: object) -> T:
        kind = "application/octet-stream" if body is not None else None
        return await self._sandbox.client._do(Call(method, self._sandbox._link("files", *segments, **query), parse,
                                                   body, kind, again, also))

    async def read(self, path: str, user: str | None = None) -> bytes:
        return await self._do("GET", raw, path=path, user=user)

    async def write(self, path: str, data: bytes | str | BinaryIO, user: str | None = None) -> int:
        """A file, or bytes; directories above it are made."""
        body = data.encode() if isinstance(data, str) else data
        return await self._do("PUT", lambda b: int(json.loads(b)["size"]), body=body, path=path, user=user)

    async def remove(self, path: str, user: str | None = None) -> None:
        await self._do("DELETE", nothing, path=path, user=user)

    async def stat(self, path: str, user: str | None = None) -> FileInfo:
        return await self._do("GET", one(FileInfo.of), "stat", path=path, user=user)

    async def list(self, path: str = "", depth: int = 1, user: str | None = None) -> list[FileInfo]:
        return await self._do("GET", many(FileInfo.of), "list", path=path, depth=depth, user=user)

    async def move(self, source: str, target: str, user: str | None = None) -> None:
        await self._sandbox.client._do(with_json("POST", self._sandbox._link("files", "move"), nothing, again=False,
                                           **{"from": source, "to": target, "user": user}))

    async def make_dir(self, path: str, user: str | None = None) -> None:
        await self._sandbox.client._do(with_json("POST", self._sandbox._link("files", "mkdir"), nothing, path=path,
                                           user=user))


class AsyncJob(_Followed):
    """A command under a contract, in a sandbox of its own."""

    def __init__(self, client: AsyncClient, info: JobInfo) -> None:
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

    async def refresh(self) -> JobInfo:
        self.info = await self.client._do(Call("GET", self._path, one(JobInfo.of)))
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
        await self.client._do(Call("DELETE", self._path, nothing))

    async def receipt(self) -> bytes:
        return await self.client._do(Call("GET", self._path + "/receipt", raw))
