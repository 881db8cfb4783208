# SPDX-License-Identifier: Apache-2.0
"""What is asked and how its answer is read, for both clients: no connection is known here."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from ._errors import ConnectionFailed, RequestRefused
from ._models import (Applied, Checkpoint, Diff, FileInfo, JobInfo, Object, SandboxInfo, StepInfo, Usage)

T = TypeVar("T")
DEFAULT_HOST = "http://127.0.0.1:8642"


@dataclass
class Call(Generic[T]):
    method: str
    path: str
    parse: Callable[[bytes], T]
    body: Any = None  # bytes, or a binary file
    type: str | None = None
    # May it be sent again if nobody knows whether it arrived? With a request id it may.
    again: bool = True
    also: tuple[int, ...] = ()  # statuses that are an answer, too


@dataclass(frozen=True)
class Place:
    """Where the daemon listens."""
    scheme: str  # "http", "https", "unix"
    host: str
    port: int
    prefix: str

    @staticmethod
    def of(host: str | None) -> Place:
        text = host or os.environ.get("ATOLL_HOST") or DEFAULT_HOST
        if text.startswith("unix:"):
            return Place("unix", text[len("unix:"):].removeprefix("//"), 0, "")
        parts = urlsplit(text if "://" in text else "http://" + text)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RequestRefused(f"'{text}' is no place of a daemon: http://HOST:PORT, https://HOST, or unix:PATH",
                                 "request")
        return Place(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80),
                     parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        return "localhost" if self.scheme == "unix" else f"{self.host}:{self.port}"


def find_key(key: str | None) -> str:
    key = key or os.environ.get("ATOLL_KEY") or ""
    if any(c in key for c in "\r\n\0"):
        raise RequestRefused("the key is none", "request")
    return key


def request_id() -> str:
    return uuid.uuid4().hex


def unreachable(place: Place, why: BaseException) -> ConnectionFailed:
    return ConnectionFailed(f"the daemon at {place.scheme}://{place.authority} cannot be reached: {why}", "host")


def nothing(_: bytes) -> None:
    return None


def raw(body: bytes) -> bytes:
    return body


def text(body: bytes) -> str:
    return body.decode("utf-8", "surrogateescape")


def one(make: Callable[[Object], T]) -> Callable[[bytes], T]:
    return lambda body: make(json.loads(body))


def many(make: Callable[[Object], T]) -> Callable[[bytes], list[T]]:
    return lambda body: [make(item) for item in json.loads(body)["items"]]


def paged(make: Callable[[Object], T]) -> Callable[[bytes], tuple[list[T], str | None]]:
    def read(body: bytes) -> tuple[list[T], str | None]:
        page = json.loads(body)
        return [make(item) for item in page["items"]], page["next"]
    return read


def link(*segments: object, **query: object) -> str:
    """"/v1/a/b?c=d"; what is None is left out."""
    path = "/v1" + "".join("/" + quote(str(segment), safe="") for segment in segments)
    given = {name.rstrip("_"): str(value).lower() if isinstance(value, bool) else str(value)
             for name, value in query.items() if value is not None}
    return path + ("?" + urlencode(given) if given else "")


def with_json(method: str, path: str, parse: Callable[[bytes], T], /, again: bool = True,
              also: tuple[int, ...] = (), **members: object) -> Call[T]:
    body = json.dumps({name: value for name, value in members.items() if value is not None}).encode()
    return Call(method, path, parse, body, "application/json", again, also)


def label_text(labels: Mapping[str, str] | None) -> str | None:
    return ",".join(f"{name}={value}" for name, value in labels.items()) if labels else None


def seconds(timeout: float | None) -> object:
    """None is the daemon's own, infinity "never"."""
    if timeout is None:
        return None
    return "never" if timeout == float("inf") else max(1, round(timeout))


# ---- sandboxes ----

def create(template: str | None, contract: str | Object | None, timeout: float | None,
           labels: Mapping[str, str] | None, metadata: Mapping[str, str] | None,
           environment: Mapping[str, str] | None, on_timeout: str | None, internet: bool | None) -> Object:
    return {"template": template, "contract": contract, "timeout": seconds(timeout),
            "labels": dict(labels) if labels else None, "metadata": dict(metadata) if metadata else None,
            "environment": dict(environment) if environment else None, "onTimeout": on_timeout, "internet": internet}


def create_one(members: Object) -> Call[SandboxInfo]:
    return with_json("POST", link("sandboxes"), one(SandboxInfo.of), requestId=request_id(), **members)


def results(body: bytes) -> list[Object]:
    return list(json.loads(body)["items"])


def step(sandbox: str, command: Sequence[str], *, environment: Mapping[str, str] | None, cwd: str | None,
         user: str | None, stdin: bool, terminal: tuple[int, int] | None, timeout: float | None, wait: int,
         request: str | None) -> Call[StepInfo]:
    if isinstance(command, str):
        command = ["/bin/sh", "-c", command]
    return with_json(
        "POST", link("sandboxes", sandbox, "steps"), one(StepInfo.of), command=list(command),
        environment=dict(environment) if environment else None, cwd=cwd, user=user, stdin=stdin or None,
        terminal={"columns": terminal[0], "rows": terminal[1]} if terminal else None,
        timeoutMs=round(timeout * 1000) if timeout else None, wait=wait or None, requestId=request or request_id())


def apply(sandbox: str, paths: Sequence[str] | None, merge: bool, force: bool, dry: bool) -> Call[Applied]:
    return with_json("POST", link("sandboxes", sandbox, "apply"), one(Applied.of), again=False, also=(409,),
                     paths=list(paths) if paths else None, merge=merge, force=force, dry=dry)


def job(members: Object) -> Call[JobInfo]:
    return with_json("POST", link("jobs"), one(JobInfo.of), requestId=request_id(), **members)


__all__ = ["Applied", "Call", "Checkpoint", "Diff", "FileInfo", "JobInfo", "Place", "Usage"]
