# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one class for each thing that a program may want to handle."""

from __future__ import annotations

import json
from typing import Any


class AtollError(Exception):
    """A failure that the daemon has told, or that kept us from hearing it.

    `cause` is for programs ("quota", "not-found", ...), `status` the HTTP status or 0.
    """

    def __init__(self, message: str, cause: str = "internal", status: int = 0,
                 details: dict[str, Any] | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.status = status
        self.details = details or {}
        self.retry_after = retry_after


class ConnectionFailed(AtollError):
    """The daemon cannot be reached, or the connection broke and could not be made again."""


class RequestRefused(AtollError):
    """The request makes no sense."""


class Unauthorized(AtollError):
    """There is no key, or nobody has it."""


class PolicyRefused(AtollError):
    """It makes sense, and the policy says no."""


class NotFound(AtollError):
    """There is no such thing, or it is somebody else's."""


class Conflict(AtollError):
    """It is not in the state for it: paused, ended, there already."""


class QuotaExceeded(AtollError):
    """More than the tenant or the machine has room for; `retry_after` seconds may help."""


class HostFailed(AtollError):
    """The daemon's machine cannot do it, at least now."""


class SandboxGone(AtollError):
    """The sandbox ended while something in it was waited for; `cause` says why."""


class OutputLost(AtollError):
    """Output was asked for that is not kept any more."""


_BY_STATUS: dict[int, type[AtollError]] = {
    400: RequestRefused, 401: Unauthorized, 403: PolicyRefused, 404: NotFound, 409: Conflict, 410: NotFound,
    413: RequestRefused, 416: OutputLost, 429: QuotaExceeded, 502: HostFailed, 503: HostFailed, 507: HostFailed,
}


def from_answer(status: int, body: bytes, retry_after: str | None) -> AtollError:
    """The failure that an answer tells."""
    cause, message, details = "internal", f"HTTP status {status}", {}
    try:
        told = json.loads(body)["error"]
        cause, message, details = str(told["cause"]), str(told["message"]), dict(told.get("details") or {})
    except (ValueError, KeyError, TypeError):
        pass
    try:
        seconds = float(retry_after) if retry_after else None
    except ValueError:
        seconds = None
    return _BY_STATUS.get(status, AtollError)(message, cause, status, details, seconds)
