# SPDX-License-Identifier: Apache-2.0
"""Server-sent events, read from bytes as they come; and what a step's events mean."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass

from ._errors import OutputLost, SandboxGone
from ._models import Output, StepInfo

LIMIT = 16 << 20  # of one event


@dataclass
class Raw:
    id: str | None
    name: str
    data: str


class Reader:
    """feed() it bytes, and take whole events out of it."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Raw]:
        self._rest += data
        while (end := self._rest.find(b"\n\n")) >= 0:
            block, self._rest = self._rest[:end], self._rest[end + 2:]
            event = self._parse(block)
            if event:
                yield event
        if len(self._rest) > LIMIT:
            raise ValueError("an event without an end")

    @staticmethod
    def _parse(block: bytes) -> Raw | None:
        event = Raw(None, "message", "")
        for line in block.decode("utf-8", "replace").split("\n"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                event.id = value
            elif name == "event":
                event.name = value
            elif name == "data":
                event.data += value
        return event if event.data else None


class StepReader:
    """Where somebody is in what a step prints. Nothing is told twice, whatever connections do."""

    def __init__(self, place: tuple[int, int] = (0, 0)) -> None:
        self.at = {"out": place[0], "err": place[1]}
        self.end: StepInfo | None = None

    @property
    def id(self) -> str:
        return f"{self.at['out']}-{self.at['err']}"

    def take(self, event: Raw) -> Output | None:
        """A piece of output, or None; `end` is set at the end."""
        told = json.loads(event.data)
        if event.name == "output":
            stream, offset, data = told["stream"], told["offset"], base64.b64decode(told["data"])
            skipped = self.at[stream] - offset
            if skipped < 0:
                raise OutputLost(f"the daemon left out {-skipped} bytes of '{stream}'", "internal")
            data = data[skipped:]
            if not data:
                return None
            offset = self.at[stream]
            self.at[stream] += len(data)
            return Output(stream, offset, data)
        if event.name == "lost":
            self.at[told["stream"]] = told["to"]
            raise OutputLost(f"bytes {told['from']} to {told['to']} of '{told['stream']}' are not kept any more",
                             "request", details=told)
        if event.name == "gone":
            raise SandboxGone(told["message"], told["cause"])
        if event.name == "end":
            self.end = StepInfo.of(told)
        return None
