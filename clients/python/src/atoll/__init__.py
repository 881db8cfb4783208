# SPDX-License-Identifier: Apache-2.0
"""A client of atoll's daemon.

    import atoll

    with atoll.Client() as client:              # $ATOLL_HOST, $ATOLL_KEY
        with client.create(labels={"for": "docs"}) as sandbox:
            sandbox.files.write("hello.py", b"print(6 * 7)")
            result = sandbox.run(["python3", "hello.py"])
            print(result.out.decode())

AsyncClient is the same with `await`. Only the standard library is needed. Requests that have no answer because
a connection broke are sent again, with an id by which the daemon knows them: what they ask for is done once. Streams go
on where they were.
"""

from ._async import AsyncClient, AsyncFiles, AsyncJob, AsyncSandbox, AsyncStep
from ._errors import (AtollError, Conflict, ConnectionFailed, HostFailed, NotFound, OutputLost, PolicyRefused,
                      QuotaExceeded, RequestRefused, SandboxGone, Unauthorized)
from ._models import (Applied, Approval, Change, Checkpoint, Diff, Event, FileInfo, JobInfo, Output, Quota, Result,
                      SandboxInfo, SandboxUsage, SecretInfo, StepInfo, StepInput, StepResult, Usage)
from ._sync import Client, Files, Job, Sandbox, Step

__all__ = [
    "Applied", "Approval", "AsyncClient", "AsyncFiles", "AsyncJob", "AsyncSandbox", "AsyncStep", "AtollError", "Change",
    "Checkpoint", "Client", "Conflict", "ConnectionFailed", "Diff", "Event", "FileInfo", "Files", "HostFailed", "Job",
    "JobInfo", "NotFound", "Output", "OutputLost", "PolicyRefused", "Quota", "QuotaExceeded", "RequestRefused",
    "Result", "Sandbox", "SandboxGone", "SandboxInfo", "SandboxUsage", "SecretInfo", "Step", "StepInfo",
    "StepInput", "StepResult", "Unauthorized", "Usage",
]
__version__ = "0.1.0"
