# SPDX-License-Identifier: Apache-2.0
"""What both clients decide alike, without a connection: when to ask again, where a stream goes on, what is known.

Each client only sends what it is told here to send, waits as long as it is told, and hands back what came.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from . import _calls as calls
from ._calls import Call, Place, link
from ._errors import AtollError, Conflict, ConnectionFailed, from_answer
from ._models import JobInfo, Output, Result, SandboxInfo, StepInfo, StepInput, StepResult
from ._stream import Raw, StepReader

T = TypeVar("T")
PIECE = 1 << 20  # of input, in one request


class Session:
    """Where the daemon is, who asks, and how patiently."""

    def __init__(self, host: str | None, key: str | None, timeout: float, retries: int) -> None:
        self.place = Place.of(host)
        self.key = calls.find_key(key)
        self.timeout = timeout
        self.retries = retries

    def headers(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        headers = {"Host": self.place.authority, **(extra or {})}
        if self.key:
            headers["X-API-Key"] = self.key
        return headers

    def path(self, path: str) -> str:
        return self.place.prefix + path

    def unreachable(self, why: BaseException) -> ConnectionFailed:
        return ConnectionFailed(
            f"the daemon at {self.place.scheme}://{self.place.authority} cannot be reached: {why}", "host")


def can_be_sent(body: Any) -> bool:
    """At all, or again."""
    if body is None or isinstance(body, bytes):
        return True
    try:
        body.seek(0)
    except (AttributeError, OSError, ValueError):
        return False
    return True


def pause(attempt: int, retry_after: float | None = None) -> float:
    return min(retry_after if retry_after is not None else 0.1 * 2 ** attempt, 10) * random.uniform(0.8, 1.2)


class Asking(Generic[T]):
    """One call until it is answered: begin() each attempt, then broken() or answered() says how long to wait before
    the next one, or raises. `is_done`, and `result` is there."""

    def __init__(self, session: Session, call: Call[T]) -> None:
        self.session = session
        self.call = call
        self.attempt = -1
        self.is_done = False
        self.result: T

    def begin(self) -> None:
        self.attempt += 1
        self.is_last = (self.attempt == self.session.retries or not self.call.again or
                        not can_be_sent(self.call.body))

    def broken(self, problem: BaseException) -> float:
        if self.is_last:
            raise self.session.unreachable(problem) from problem
        return pause(self.attempt)

    def answered(self, status: int, body: bytes, retry_after: str | None) -> float:
        if status < 300 or status in self.call.also:
            self.result = self.call.parse(body)
            self.is_done = True
            return 0
        failure = from_answer(status, body, retry_after)
        if self.is_last or failure.retry_after is None or status not in (409, 429, 503):
            raise failure
        return pause(self.attempt, failure.retry_after)


class Following:
    """What a step prints, across broken connections: take() each event of events() from `headers` on; when that ends,
    or broke, broken() says how long to wait. `end` is the step, at its end."""

    def __init__(self, session: Session, place: tuple[int, int]) -> None:
        self.session = session
        self.reader = StepReader(place)
        self.attempt = 0

    @property
    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": self.reader.id}

    @property
    def end(self) -> StepInfo | None:
        return self.reader.end

    def take(self, event: Raw) -> Output | None:
        self.attempt = 0
        return self.reader.take(event)

    def broken(self, problem: BaseException | None) -> float:
        if isinstance(problem, AtollError) and problem.status not in (429, 502, 503):
            raise problem
        problem = problem or ConnectionFailed("the stream ended early", "host")
        if self.attempt >= self.session.retries:
            raise self.session.unreachable(problem) from problem
        self.attempt += 1
        return pause(self.attempt - 1)


class Feeding:
    """Bytes for a step, each exactly once: call() what is to be sent next, and heard() how far it was taken."""

    def __init__(self, path: str, data: bytes, at: int) -> None:
        self.path = path
        self.data = data
        self.start = self.at = at

    @property
    def is_done(self) -> bool:
        return self.at - self.start >= len(self.data)

    def call(self) -> Call[StepInput]:
        done = self.at - self.start
        return calls.stdin(self.path, self.data[done:done + PIECE], self.at)

    def heard(self, told: StepInput) -> None:
        self.at = max(self.at, told.taken)
        if told.closed and not self.is_done:
            raise Conflict(f"its standard input is closed; {self.at} bytes were taken", "conflict", 409,
                           {"taken": self.at})


class Gathering:
    """All that a step prints."""

    def __init__(self) -> None:
        self.got = {"out": bytearray(), "err": bytearray()}

    def take(self, piece: Output) -> None:
        self.got[piece.stream] += piece.data

    def result(self, end: StepResult) -> Result:
        return Result.make(end, bytes(self.got["out"]), bytes(self.got["err"]))


def whole_result(info: StepInfo) -> Result | None:
    """If the answer has it all."""
    if info.result and all(s.first == 0 and s.data is not None and len(s.data) == s.size for s in (info.out, info.err)):
        return Result.make(info.result, info.out.data or b"", info.err.data or b"")
    return None


# ---- what is known of things ----

class SandboxCore:
    """A sandbox of the daemon's; as a context it is deleted at the end. `info` is what was last heard of it."""

    info: SandboxInfo

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"<Sandbox {self.id} {self.info.state}>"


class StepCore:
    """A command in a sandbox. `info` is what was last heard of it."""

    def __init__(self, sandbox: str, info: StepInfo) -> None:
        self.info = info
        self._sandbox_id = sandbox
        self._path = link("sandboxes", sandbox, "steps", info.number)
        self._fed = info.input.taken

    @property
    def number(self) -> int:
        return self.info.number

    def __repr__(self) -> str:
        return f"<Step {self.number} of {self._sandbox_id} {self.info.state}>"

    def _told(self, info: StepInfo) -> None:
        self.info = info


class JobCore:
    """A command under a contract, in a sandbox of its own."""

    def __init__(self, info: JobInfo) -> None:
        self.info = info
        self._path = link("jobs", info.id)

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.info.state}>"

    def _told(self, info: StepInfo) -> None:
        self.info = JobInfo(self.info.id, "ended", self.info.labels, self.info.sandbox, info)
