# SPDX-License-Identifier: Apache-2.0
"""Every request that there is, and how its answer is read, for both clients: no connection is known here."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from ._errors import AtollError, RequestRefused, from_answer
from ._models import (Applied, Approval, Checkpoint, Diff, FileInfo, JobInfo, Object, SandboxInfo, SecretInfo, StepInfo,
                      StepInput, Usage)

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


def new_id() -> str:
    return uuid.uuid4().hex


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
    if timeout == float("inf"):
        return "never"
    # What makes no sense the daemon says.
    return max(1, round(timeout)) if timeout > 0 else round(timeout)


Page = tuple[list[T], "str | None"]


def member(name: str, kind: Callable[[Any], T]) -> Callable[[bytes], T]:
    return lambda body: kind(json.loads(body)[name])


def either(make: Callable[[Object], T]) -> Callable[[bytes], list[T | AtollError]]:
    """Of each what was made, or why it was not."""
    def read(body: bytes) -> list[T | AtollError]:
        return [make(item["sandbox"]) if item["sandbox"] else
                AtollError(item["error"]["message"], item["error"]["cause"]) for item in json.loads(body)["items"]]
    return read


# ---- sandboxes ----

def _wanted(template: str | None, contract: str | Object | None, timeout: float | None,
            labels: Mapping[str, str] | None, metadata: Mapping[str, str] | None,
            environment: Mapping[str, str] | None, on_timeout: str | None, internet: bool | None) -> Object:
    return {"template": template, "contract": contract, "timeout": seconds(timeout),
            "labels": dict(labels) if labels else None, "metadata": dict(metadata) if metadata else None,
            "environment": dict(environment) if environment else None, "onTimeout": on_timeout, "internet": internet}


def create(**wanted: Any) -> Call[SandboxInfo]:
    return with_json("POST", link("sandboxes"), one(SandboxInfo.of), requestId=new_id(), **_wanted(**wanted))


def create_many(count: int, **wanted: Any) -> Call[list[SandboxInfo | AtollError]]:
    return with_json("POST", link("sandboxes", "bulk"), either(SandboxInfo.of), again=False, count=count,
                     **_wanted(**wanted))


def sandboxes(labels: Mapping[str, str] | None, state: str | None, usage: bool, page: int,
              after: str | None) -> Call[Page[SandboxInfo]]:
    return Call("GET", link("sandboxes", label=label_text(labels), state=state, usage=usage, limit=page, after=after),
                paged(SandboxInfo.of))


def delete_many(labels: Mapping[str, str], state: str | None) -> Call[list[str]]:
    return Call("DELETE", link("sandboxes", label=label_text(labels), state=state),
                lambda body: [str(id) for id in json.loads(body)["items"]])


def sandbox(id: str) -> Call[SandboxInfo]:
    return Call("GET", link("sandboxes", id), one(SandboxInfo.of))


def delete(id: str) -> Call[None]:
    return Call("DELETE", link("sandboxes", id), nothing, also=(404,))


def pause(id: str, memory: bool) -> Call[SandboxInfo]:
    return with_json("POST", link("sandboxes", id, "pause"), one(SandboxInfo.of), memory=memory)


def resume(id: str, timeout: float | None) -> Call[SandboxInfo]:
    return with_json("POST", link("sandboxes", id, "resume"), one(SandboxInfo.of), timeout=seconds(timeout))


def set_timeout(id: str, timeout: float) -> Call[SandboxInfo]:
    return with_json("POST", link("sandboxes", id, "timeout"), one(SandboxInfo.of), timeout=seconds(timeout))


# ---- steps ----

def start(sandbox: str, command: Sequence[str] | str, *, environment: Mapping[str, str] | None, cwd: str | None,
          user: str | None, stdin: bool = False, terminal: tuple[int, int] | None = None, timeout: float | None,
          wait: int = 0, request_id: str | None) -> Call[StepInfo]:
    if isinstance(command, str):
        command = ["/bin/sh", "-c", command]
    return with_json(
        "POST", link("sandboxes", sandbox, "steps"), one(StepInfo.of), command=list(command),
        environment=dict(environment) if environment else None, cwd=cwd, user=user, stdin=stdin or None,
        terminal={"columns": terminal[0], "rows": terminal[1]} if terminal else None,
        timeoutMs=round(timeout * 1000) if timeout else None, wait=wait or None, requestId=request_id or new_id())


def steps(sandbox: str, state: str | None) -> Call[list[StepInfo]]:
    return Call("GET", link("sandboxes", sandbox, "steps", state=state), many(StepInfo.of))


def step(path: str) -> Call[StepInfo]:
    return Call("GET", path, one(StepInfo.of))


def output(path: str, stream: str, start: int | None) -> Call[bytes]:
    return Call("GET", f"{path}/output?{link(stream=stream, from_=start).partition('?')[2]}", raw)


def stdin(path: str, data: bytes | None, offset: int) -> Call[StepInput]:
    """Bytes from this offset on; None: there are no more. May be sent again: what was taken is not taken twice."""
    end = "&eof=true" if data is None else ""
    return Call("POST", f"{path}/stdin?offset={offset}{end}", one(StepInput.of), data,
                "application/octet-stream" if data is not None else None)


def signal(path: str, name: str) -> Call[None]:
    return with_json("POST", path + "/signal", nothing, again=False, signal=name)


def resize(path: str, columns: int, rows: int) -> Call[None]:
    return with_json("POST", path + "/resize", nothing, columns=columns, rows=rows)


# ---- states and changes ----

def checkpoint(sandbox: str, name: str | None) -> Call[str]:
    return with_json("POST", link("sandboxes", sandbox, "checkpoints"), member("name", str), again=False, name=name)


def checkpoints(sandbox: str) -> Call[list[Checkpoint]]:
    return Call("GET", link("sandboxes", sandbox, "checkpoints"), many(Checkpoint.of))


def rollback(sandbox: str, checkpoint: str) -> Call[int]:
    return with_json("POST", link("sandboxes", sandbox, "rollback"), member("endedProcesses", int),
                     checkpoint=checkpoint)


def fork(sandbox: str, count: int, timeout: float | None) -> Call[list[SandboxInfo]]:
    read = either(SandboxInfo.of)

    def made(body: bytes) -> list[SandboxInfo]:
        found = read(body)
        forks = [item for item in found if isinstance(item, SandboxInfo)]
        for item in found:
            if isinstance(item, AtollError) and not forks:
                raise item
        return forks
    return with_json("POST", link("sandboxes", sandbox, "fork"), made, again=False, count=count,
                     timeout=seconds(timeout))


def diff(sandbox: str, path: str | None, lines: bool) -> Call[Diff]:
    return Call("GET", link("sandboxes", sandbox, "diff", path=path, lines=lines or None), one(Diff.of))


def diff_text(sandbox: str, path: str | None) -> Call[str]:
    return Call("GET", link("sandboxes", sandbox, "diff", format="text", path=path), text)


def _applied(body: bytes) -> Applied:
    """What conflicts is told as what was applied is; another conflict is a failure."""
    told = json.loads(body)
    if "error" in told:
        raise from_answer(409, body, None)
    return Applied.of(told)


def apply(sandbox: str, paths: Sequence[str] | None, merge: bool, force: bool, dry: bool) -> Call[Applied]:
    return with_json("POST", link("sandboxes", sandbox, "apply"), _applied, again=False, also=(409,),
                     paths=list(paths) if paths else None, merge=merge, force=force, dry=dry)


def undo(sandbox: str, force: bool) -> Call[Applied]:
    return with_json("POST", link("sandboxes", sandbox, "undo"), _applied, again=False, also=(409,), force=force)


def export(sandbox: str, format: str) -> Call[bytes]:
    return Call("GET", link("sandboxes", sandbox, "export", format=format), raw)


def log(sandbox: str, kind: str | None, step: int | None) -> Call[list[Object]]:
    return Call("GET", link("sandboxes", sandbox, "log", kind=kind, step=step),
                lambda body: [json.loads(line) for line in body.splitlines()])


def receipt(sandbox: str, step: int | None) -> Call[bytes]:
    return Call("GET", link("sandboxes", sandbox, "receipt", step=step), raw)


# ---- files ----

def _files(sandbox: str, *segments: str, **query: object) -> str:
    return link("sandboxes", sandbox, "files", *segments, **query)


def read_file(sandbox: str, path: str, user: str | None) -> Call[bytes]:
    return Call("GET", _files(sandbox, path=path, user=user), raw)


def write_file(sandbox: str, path: str, data: Any, user: str | None) -> Call[int]:
    return Call("PUT", _files(sandbox, path=path, user=user), member("size", int),
                data.encode() if isinstance(data, str) else data, "application/octet-stream")


def remove_file(sandbox: str, path: str, user: str | None) -> Call[None]:
    return Call("DELETE", _files(sandbox, path=path, user=user), nothing)


def stat_file(sandbox: str, path: str, user: str | None) -> Call[FileInfo]:
    return Call("GET", _files(sandbox, "stat", path=path, user=user), one(FileInfo.of))


def list_files(sandbox: str, path: str, depth: int, user: str | None) -> Call[list[FileInfo]]:
    return Call("GET", _files(sandbox, "list", path=path, depth=depth, user=user), many(FileInfo.of))


def move_file(sandbox: str, source: str, target: str, user: str | None) -> Call[None]:
    return with_json("POST", _files(sandbox, "move"), nothing, again=False,
                     **{"from": source, "to": target, "user": user})


def make_dir(sandbox: str, path: str, user: str | None) -> Call[None]:
    return with_json("POST", _files(sandbox, "mkdir"), nothing, path=path, user=user)


# ---- jobs ----

def start_job(*, command: Sequence[str] | None, contract: str | Object | None, template: str | None,
              environment: Mapping[str, str] | None, labels: Mapping[str, str] | None, cwd: str | None,
              user: str | None, timeout: float | None, keep: int | None, internet: bool | None) -> Call[JobInfo]:
    return with_json(
        "POST", link("jobs"), one(JobInfo.of), requestId=new_id(), command=list(command) if command else None,
        contract=contract, template=template, environment=dict(environment) if environment else None,
        labels=dict(labels) if labels else None, cwd=cwd, user=user,
        timeoutMs=round(timeout * 1000) if timeout else None, keep=keep, internet=internet)


def job(id: str) -> Call[JobInfo]:
    return Call("GET", link("jobs", id), one(JobInfo.of))


def jobs(page: int, after: str | None) -> Call[Page[JobInfo]]:
    return Call("GET", link("jobs", limit=page, after=after), paged(JobInfo.of))


def cancel(id: str) -> Call[None]:
    return Call("DELETE", link("jobs", id), nothing)


def job_receipt(id: str) -> Call[bytes]:
    return Call("GET", link("jobs", id, "receipt"), raw)


# ---- the rest ----

def approvals() -> Call[list[Approval]]:
    return Call("GET", link("approvals"), many(Approval.of))


def answer(approval: str, answer: str) -> Call[None]:
    return with_json("POST", link("approvals", approval), nothing, again=False, answer=answer)


def secrets() -> Call[list[SecretInfo]]:
    return Call("GET", link("secrets"), many(SecretInfo.of))


def set_secret(name: str, value: str) -> Call[SecretInfo]:
    return with_json("PUT", link("secrets", name), one(SecretInfo.of), value=value)


def delete_secret(name: str) -> Call[None]:
    return Call("DELETE", link("secrets", name), nothing, also=(404,))


def usage() -> Call[Usage]:
    return Call("GET", link("usage"), one(Usage.of))
