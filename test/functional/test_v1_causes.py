#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 32
# check: user only
"""Why something failed or ended, as a word for programs: each of them, of steps, jobs, sandboxes and requests; src/box/process.c, src/v1/v1.c"""

import os
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from v1 import *

STEPS = "/v1/sandboxes/{}/steps"
FILL = "head -c 200000000 /dev/zero >big"
EAT = "python3 -c 'x = bytearray(400 << 20); print(len(x))'"


def end_of(daemon, command, **members):
    """Of a step in a sandbox of its own, and of a job with the same contract."""
    contract = members.pop("contract", None)
    box = daemon.box(**({"contract": contract} if contract else {}))
    step = daemon.wait_step(box, daemon.start_step(box, "sh", "-c", command, **members))["result"]
    daemon.want(204, "DELETE", f"/v1/sandboxes/{box}")
    job = daemon.want(201, "POST", "/v1/jobs", {"command": ["sh", "-c", command], **({"contract": contract} if contract else {}), **members})["id"]
    check(until(lambda: daemon.want(200, "GET", f"/v1/jobs/{job}")["state"] == "ended", 60), "the job does not end")
    return step, daemon.want(200, "GET", f"/v1/jobs/{job}")["step"]["result"]


@test("steps and jobs: time-out, disk, policy; none for what ends by itself")
def _():
    with V1() as daemon:
        for cause, command, members in (
                (None, "exit 3", {}),
                (None, "kill -9 $$", {}),
                ("time-out", "sleep 1000", {"timeoutMs": 300}),
                ("time-out", "sleep 1000", {"contract": {"limits": {"wall": "1s"}}}),
                ("disk", FILL + "; sleep 1000", {"contract": {"limits": {"disk": "20M"}}}),
                ("policy", "yes", {"contract": {"limits": {"output": "1M"}}})):
            for kind, end in zip(("step", "job"), end_of(daemon, command, **members)):
                same(end["cause"], cause, f"{kind} '{command}' {members}: {end}")
                check(end["message"], "in words, too")


@test("memory that is used up ends the step, and says so")
def _():
    need("python3")
    with V1() as daemon:
        step, job = end_of(daemon, EAT, contract={"limits": {"memory": "128M"}})
        if step["exitCode"] is not None and step["cause"] is None:
            # Without a control group a process is refused memory, and ends by itself.
            check(step["exitCode"] != 0 and job["exitCode"] != 0, f"{step} {job}")
            skip("this host has no control group for it: memory is refused, not ended")
        same((step["cause"], job["cause"]), ("memory", "memory"), f"{step} {job}")


@test("a sandbox whose process on the host is killed: its steps are told as internal, and it starts anew")
def _():
    with V1() as daemon:
        box = daemon.box()
        number = daemon.start_step(box, "sh", "-c", "echo before; sleep 1000")
        until(lambda: daemon.want(200, "GET", STEPS.format(box) + f"/{number}")["out"]["size"] > 0)
        # Parked ones have holders, too: only one has a step.
        for pid in daemon.holders():
            os.kill(pid, signal.SIGKILL)
        end = daemon.wait_step(box, number)
        same((end["result"]["cause"], end["result"]["exitCode"]), ("internal", None), f"{end['result']}")
        for pid in daemon.holders():
            os.kill(pid, signal.SIGKILL)
        # A file alone starts it, too.
        check(until(lambda: daemon.call("PUT", f"/v1/sandboxes/{box}/files?path=f", data=b"x")[0] in (200, 201)), "a file")
        check(until(lambda: daemon.call("POST", STEPS.format(box), {"command": ["cat", "f"], "wait": 30})[0] == 201), "the next step")


@test("sandboxes: killed, time-out, budget; who waits for a step hears it")
def _():
    with V1() as daemon:
        box = daemon.box(timeout=2)
        number = daemon.start_step(box, "sleep", "1000")
        *_, (_, name, data) = daemon.events(STEPS.format(box) + f"/{number}/events")
        same((name, data["cause"]), ("gone", "time-out"), "its time")
        box = daemon.box()
        number = daemon.start_step(box, "sleep", "1000")
        stream = daemon.events(STEPS.format(box) + f"/{number}/events")
        next(stream)
        daemon.want(204, "DELETE", f"/v1/sandboxes/{box}")
        *_, (_, name, data) = stream
        same((name, data["cause"]), ("gone", "killed"), "somebody's wish")
    with V1(config="tenants: {default: {budget: {steps: 1, then: end}}}\n") as daemon:
        box = daemon.box()
        number = daemon.start_step(box, "sleep", "1000")
        *_, (_, name, data) = daemon.events(STEPS.format(box) + f"/{number}/events")
        same((name, data["cause"]), ("gone", "budget"), "the budget")
        daemon.refused(429, "quota", "POST", "/v1/sandboxes", {})


@test("requests: request, unauthorized, policy, not-found, conflict, quota, host")
def _():
    with V1() as daemon:
        box = daemon.box()
        daemon.refused(400, "request", "POST", "/v1/sandboxes", {"nosuch": 1})
        daemon.refused(401, "unauthorized", "GET", "/v1/sandboxes", key="e2b_" + "0" * 40)
        daemon.refused(403, "policy", "POST", "/v1/sandboxes", {"contract": {"identity": "online"}})
        daemon.refused(404, "not-found", "GET", "/v1/sandboxes/inone")
        daemon.refused(404, "not-found", "POST", "/v1/sandboxes", {"template": "nosuch"})
        number = daemon.run(box, "true")["number"]
        daemon.refused(409, "conflict", "POST", STEPS.format(box) + f"/{number}/signal", {})
        small = daemon.make_key("small", ["--max-sandboxes", "0"])
        daemon.refused(429, "quota", "POST", "/v1/sandboxes", {}, key=small)
    with V1(config="machine: {free-disk: 1000T}\n") as daemon:
        for path, body in (("/v1/sandboxes", {}), ("/v1/jobs", {"command": ["true"]})):
            daemon.refused(429, "host", "POST", path, body)
            check("retry-after" in daemon.headers, "when to come again")


@test("a job whose machine has gone meanwhile is told as host's, and not started again")
def _():
    with V1() as daemon:
        job = daemon.want(201, "POST", "/v1/jobs", {"command": ["sh", "-c", "echo x >>/home/user/count; sleep 1000"], "requestId": "j"})["id"]
        until(lambda: daemon.want(200, "GET", f"/v1/jobs/{job}")["state"] == "running")
        # As after a boot: nobody has ended it, and nothing runs.
        daemon.crash()
        for pid in daemon.holders():
            os.kill(pid, signal.SIGKILL)
        check(until(lambda: not daemon.holders()), "holders stay")
        daemon.start()
        check(until(lambda: daemon.call("GET", f"/v1/jobs/{job}")[1].get("state") == "ended"), "it is told as ended")
        end = daemon.want(200, "GET", f"/v1/jobs/{job}")["step"]["result"]
        among(end["cause"], ("host", "internal"), f"{end}")


main()
