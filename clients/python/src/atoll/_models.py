# SPDX-License-Identifier: Apache-2.0
"""What the daemon tells, as objects. Members that a newer daemon adds are ignored."""

from __future__ import annotations

import base64
import datetime
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


@dataclass(frozen=True)
class SandboxUsage:
    cpu_seconds: float
    memory_gib_seconds: float
    bytes_in: int
    bytes_out: int
    steps: int
    cpu_percent: float
    memory: int
    disk: int
    processes: int
    living_steps: int

    @staticmethod
    def of(o: Object) -> SandboxUsage:
        return SandboxUsage(o["cpuSeconds"], o["memoryGiBSeconds"], o["bytesIn"], o["bytesOut"], o["steps"],
                            o["cpuPercent"], o["memory"], o["disk"], o["processes"], o["livingSteps"])


@dataclass(frozen=True)
class SandboxInfo:
    id: str
    record: str
    state: str
    template: str | None
    labels: dict[str, str]
    metadata: dict[str, str]
    started_at: datetime.datetime | None
    ends_at: datetime.datetime | None
    on_timeout: str
    keeps_memory: bool
    internet: bool
    cpus: int
    memory_mib: int
    disk_mib: int
    is_job: bool
    usage: SandboxUsage | None

    @staticmethod
    def of(o: Object) -> SandboxInfo:
        usage = o.get("usage")
        return SandboxInfo(o["id"], o["record"], o["state"], o["template"], o["labels"], o["metadata"],
                           _time(o["startedAt"]), _time(o["endsAt"]), o["onTimeout"], o["keepsMemory"], o["internet"],
                           o["cpus"], o["memoryMiB"], o["diskMiB"], o["isJob"],
                           SandboxUsage.of(usage) if usage else None)


@dataclass(frozen=True)
class StepResult:
    """How a step ended: by itself (`exit_code`), by a signal ("SIGKILL"), or because of a limit or rule (`cause`)."""
    exit_code: int | None
    signal: str | None
    cause: str | None
    message: str
    cpu_ms: int
    memory_peak: int

    @staticmethod
    def of(o: Object) -> StepResult:
        return StepResult(o["exitCode"], o["signal"], o["cause"], o["message"], o["cpuMs"], o["memoryPeak"])

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and self.cause is None


@dataclass(frozen=True)
class StreamInfo:
    first: int
    size: int
    data: bytes | None

    @staticmethod
    def of(o: Object) -> StreamInfo:
        return StreamInfo(o["first"], o["size"], base64.b64decode(o["data"]) if "data" in o else None)


@dataclass(frozen=True)
class StepInput:
    """Of what a step was given to read: how many bytes were taken, and whether no more are."""
    taken: int
    closed: bool

    @staticmethod
    def of(o: Object) -> StepInput:
        return StepInput(o["taken"], o["closed"])


@dataclass(frozen=True)
class StepInfo:
    number: int
    sandbox: str
    state: str
    request_id: str | None
    command: list[str]
    cwd: str | None
    user: str | None
    pid: int
    terminal: bool
    stdin: bool
    started_at: datetime.datetime | None
    ended_at: datetime.datetime | None
    result: StepResult | None
    out: StreamInfo
    err: StreamInfo
    input: StepInput = StepInput(0, True)

    @staticmethod
    def of(o: Object) -> StepInfo:
        result = o["result"]
        # Not in results that an older daemon has written down.
        input = StepInput.of(o["input"]) if "input" in o else StepInput(0, True)
        return StepInfo(o["number"], o["sandbox"], o["state"], o["requestId"], o["command"], o["cwd"], o["user"],
                        o["pid"], o["terminal"], o["stdin"], _time(o["startedAt"]), _time(o["endedAt"]),
                        StepResult.of(result) if result else None, StreamInfo.of(o["out"]), StreamInfo.of(o["err"]),
                        input)


@dataclass(frozen=True)
class Output:
    """A piece of what a step prints: `stream` is "out" or "err", `offset` counts from the step's start."""
    stream: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Result(StepResult):
    """How a step ended, and all that it printed."""
    out: bytes = b""
    err: bytes = b""

    @staticmethod
    def make(result: StepResult, out: bytes, err: bytes) -> Result:
        return Result(result.exit_code, result.signal, result.cause, result.message, result.cpu_ms, result.memory_peak,
                      out, err)


@dataclass(frozen=True)
class FileInfo:
    path: str
    name: str
    type: str
    target: str | None
    size: int
    mode: int
    owner: str
    group: str
    modified_at: datetime.datetime | None

    @staticmethod
    def of(o: Object) -> FileInfo:
        return FileInfo(o["path"], o["name"], o["type"], o["target"], o["size"], int(o["mode"], 8), o["owner"],
                        o["group"], _time(o["modifiedAt"]))


@dataclass(frozen=True)
class Checkpoint:
    name: str
    number: int
    made_at: datetime.datetime | None
    current: bool
    status: int | None
    command: str | None

    @staticmethod
    def of(o: Object) -> Checkpoint:
        return Checkpoint(o["name"], o["number"], _time(o["madeAt"]), o["current"], o["status"], o["command"])


@dataclass(frozen=True)
class Change:
    path: str
    kind: str
    renamed_from: str | None
    parts: list[str]
    mark: str | None
    conflict: str | None
    added: int | None
    removed: int | None

    @staticmethod
    def of(o: Object) -> Change:
        return Change(o["path"], o["kind"], o["from"], o["parts"], o["mark"], o["conflict"], o.get("added"),
                      o.get("removed"))


@dataclass(frozen=True)
class Diff:
    record: str
    changes: list[Change]

    @staticmethod
    def of(o: Object) -> Diff:
        return Diff(o["record"], [Change.of(c) for c in o["changes"]])


@dataclass(frozen=True)
class Applied:
    applied: int
    merged: int
    held: int
    conflicts: int
    dry: bool
    fates: dict[str, str]

    @staticmethod
    def of(o: Object) -> Applied:
        return Applied(o["applied"], o["merged"], o["held"], o["conflicts"], o["dry"],
                       {c["path"]: c["fate"] for c in o["changes"]})


@dataclass(frozen=True)
class JobInfo:
    id: str
    state: str
    labels: dict[str, str]
    sandbox: str | None
    step: StepInfo | None

    @staticmethod
    def of(o: Object) -> JobInfo:
        return JobInfo(o["id"], o["state"], o["labels"], o["sandbox"], StepInfo.of(o["step"]) if o["step"] else None)


@dataclass(frozen=True)
class Approval:
    """A connection that waits for an answer: `name` and `port` are whom a program in the sandbox wants to talk to."""
    id: str
    sandbox: str
    name: str
    port: int
    program: str
    until: datetime.datetime | None

    @staticmethod
    def of(o: Object) -> Approval:
        return Approval(o["id"], o["sandbox"], o["name"], o["port"], o["program"], _time(o["until"]))


@dataclass(frozen=True)
class SecretInfo:
    """A value that contracts may name; nobody can read it."""
    name: str
    version: int
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None

    @staticmethod
    def of(o: Object) -> SecretInfo:
        return SecretInfo(o["name"], o["version"], _time(o["createdAt"]), _time(o["updatedAt"]))


@dataclass(frozen=True)
class Quota:
    used: int
    limit: int | None


@dataclass(frozen=True)
class Usage:
    tenant: str
    cpu_seconds: float
    memory_gib_seconds: float
    bytes_in: int
    bytes_out: int
    steps: int
    quotas: dict[str, Quota] = field(default_factory=dict)

    @staticmethod
    def of(o: Object) -> Usage:
        quotas = {name: Quota(**o[name]) for name in ("sandboxes", "memoryMiB", "diskMiB", "cpus")}
        return Usage(o["tenant"], o["cpuSeconds"], o["memoryGiBSeconds"], o["bytesIn"], o["bytesOut"], o["steps"],
                     quotas)


@dataclass(frozen=True)
class Event:
    """Something happened to a sandbox of the tenant: "created", "paused", "resumed", "ended", "step-started", ..."""
    name: str
    sandbox: SandboxInfo | None
    step: StepInfo | None
    cause: str | None

    @staticmethod
    def of(name: str, o: Object) -> Event:
        sandbox, step = o.get("sandbox"), o.get("step")
        return Event(name, SandboxInfo.of(sandbox) if isinstance(sandbox, dict) else None,
                     StepInfo.of(step) if step else None, o.get("cause"))
