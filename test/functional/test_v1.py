# SPDX-License-Identifier: Apache-2.0
# check: seconds 18
"""The daemon's own API, /v1: every resource on the wire, against its document; src/v1/v1*.c"""

import io
import os
import sys
import tarfile
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from v1 import *

STEPS = "/v1/sandboxes/{}/steps"
FILES = "/v1/sandboxes/{}/files"


@test("the document is served, without a key, and is the one in the tree")
def _():
    with V1() as daemon:
        same(daemon.want(200, "GET", "/v1/openapi.json", key=None), DOCUMENT, "the document")
        same(daemon.want(200, "GET", "/v1")["tenant"], "default", "whose key it is")
        daemon.refused(401, "unauthorized", "GET", "/v1/sandboxes", key=None)
        daemon.refused(401, "unauthorized", "GET", "/v1/sandboxes", key="e2b_" + "0" * 40)
        status, body, headers = daemon.call("PATCH", "/v1/sandboxes")
        same((status, body["error"]["cause"]), (405, "request"), "a method that is none")
        check("DELETE" in headers["allow"], "what there is")
        status, body, _ = daemon.call("GET", "/v1/nothing")
        same((status, body["error"]["cause"]), (404, "not-found"), "a path that is none")


@test("sandboxes: create, list in pages, by label and state, get, pause, resume, time-out, delete")
def _():
    with V1() as daemon:
        boxes = [daemon.box(labels={"n": str(i), "all": "yes"}, metadata={"m": "x"}, timeout=600) for i in range(3)]
        got = daemon.want(200, "GET", f"/v1/sandboxes/{boxes[0]}")
        same((got["state"], got["labels"], got["template"]), ("running", {"n": "0", "all": "yes"}, "base"), "the sandbox")
        seen, after = [], None
        while True:
            page = daemon.want(200, "GET", "/v1/sandboxes?limit=2&usage=true" + (f"&after={after}" if after else ""))
            seen += [item["id"] for item in page["items"]]
            after = page["next"]
            if after is None:
                break
        same(sorted(seen), sorted(boxes), "all of them, each once")
        same([i["id"] for i in daemon.want(200, "GET", "/v1/sandboxes?label=all=yes,n=1")["items"]], [boxes[1]], "by label")
        same(daemon.want(200, "POST", f"/v1/sandboxes/{boxes[1]}/pause")["state"], "paused", "paused")
        daemon.want(200, "POST", f"/v1/sandboxes/{boxes[1]}/pause")
        same([i["id"] for i in daemon.want(200, "GET", "/v1/sandboxes?state=paused")["items"]], [boxes[1]], "by state")
        daemon.refused(409, "conflict", "POST", STEPS.format(boxes[1]), {"command": ["true"]})
        same(daemon.want(200, "POST", f"/v1/sandboxes/{boxes[1]}/resume", {"timeout": 100})["state"], "running", "it goes on")
        same(daemon.run(boxes[1], "true")["result"]["exitCode"], 0, "a step after the pause")
        before = daemon.want(200, "GET", f"/v1/sandboxes/{boxes[2]}")["endsAt"]
        after = daemon.want(200, "POST", f"/v1/sandboxes/{boxes[2]}/timeout", {"timeout": 9000})["endsAt"]
        check(after > before, "its end was moved")
        same(daemon.want(200, "POST", f"/v1/sandboxes/{boxes[2]}/timeout", {"timeout": "never"})["endsAt"], None, "no end")
        daemon.want(204, "DELETE", f"/v1/sandboxes/{boxes[2]}")
        daemon.refused(404, "not-found", "GET", f"/v1/sandboxes/{boxes[2]}")
        daemon.refused(404, "not-found", "DELETE", f"/v1/sandboxes/{boxes[2]}")
        usage = daemon.want(200, "GET", "/v1/usage")
        same((usage["tenant"], usage["sandboxes"]["used"]), ("default", 2), "what the tenant uses")


@test("what makes no sense is refused with its reason; nothing unknown is accepted")
def _():
    with V1() as daemon:
        box = daemon.box()
        for body, word in (({"tempate": "x"}, "template"), ({"timeout": "x"}, "timeout"), ({"timeout": 0}, "timeout"),
                           ({"labels": {"a": 1}}, "labels"), ({"labels": {"atoll.job": "x"}}, "atoll."),
                           ({"onTimeout": "x"}, "onTimeout"), ({"contract": 3}, "contract"), ({"requestId": ""}, "requestId"),
                           ({"metadata": {"a": "b\0c"}}, "NUL")):
            check(word in daemon.refused(400, "request", "POST", "/v1/sandboxes", body)["message"], f"{body}: {word}")
        daemon.refused(404, "not-found", "POST", "/v1/sandboxes", {"template": "nosuch"})
        for body in ({}, {"command": []}, {"command": "ls"}, {"command": ["a\0b"]}, {"command": ["x"], "terminal": {"columns": 0}},
                     {"command": ["x"], "requestId": "x" * 64}, {"command": ["x"], "wait": -1}):
            daemon.refused(400, "request", "POST", STEPS.format(box), body)
        status, body, _ = daemon.call("POST", "/v1/sandboxes", data=b"{nonsense", headers={"Content-Type": "application/json"})
        same((status, body["error"]["cause"]), (400, "request"), "no JSON")
        daemon.refused(400, "request", "GET", "/v1/sandboxes?limit=x")
        daemon.refused(400, "request", "GET", "/v1/sandboxes?label=x")
        daemon.refused(400, "request", "GET", "/v1/sandboxes?after=x")
        daemon.refused(400, "request", "DELETE", "/v1/sandboxes")
        error = daemon.refused(400, "request", "POST", STEPS.format(box), {"command": ["/no/such/program"]})
        same(error["details"]["exitStatus"], 127, "what a shell would say")
        for number in ("0", "x", "99", "-1", "1e3"):
            daemon.refused(404, "not-found", "GET", STEPS.format(box) + "/" + number)


@test("another tenant sees nothing, finds nothing, hears nothing")
def _():
    with V1() as daemon:
        box = daemon.box(labels={"a": "b"})
        number = daemon.run(box, "echo", "secret")["number"]
        other = daemon.make_key("other")
        same(daemon.want(200, "GET", "/v1/sandboxes", key=other)["items"], [], "its sandboxes")
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("GET", "/steps"), ("GET", f"/steps/{number}"),
                             ("GET", f"/steps/{number}/output"), ("GET", f"/steps/{number}/events"), ("GET", "/diff"),
                             ("GET", "/files?path=x"), ("GET", "/log"), ("GET", "/receipt"), ("POST", "/fork"),
                             ("POST", "/checkpoints"), ("GET", "/export")):
            daemon.refused(404, "not-found", method, f"/v1/sandboxes/{box}{path}", key=other)
        same(daemon.want(200, "DELETE", "/v1/sandboxes?label=a=b", key=other)["items"], [], "what it may delete")
        theirs = daemon.want(201, "POST", "/v1/sandboxes", {"labels": {"a": "b"}, "requestId": "r"}, key=other)["id"]
        check(daemon.want(201, "POST", "/v1/sandboxes", {"requestId": "r"})["id"] != theirs, "request ids are a tenant's own")
        same(daemon.want(200, "DELETE", "/v1/sandboxes?label=a=b", key=other)["items"], [theirs], "its own")
        daemon.want(200, "GET", f"/v1/sandboxes/{box}")
        same(daemon.want(200, "GET", "/v1/usage", key=other)["tenant"], "other", "its own usage")


@test("over the quota: 429 with Retry-After, and its cause")
def _():
    with V1() as daemon:
        key = daemon.make_key("small", ["--max-sandboxes", "2"])
        boxes = [daemon.want(201, "POST", "/v1/sandboxes", {}, key=key)["id"] for _ in range(2)]
        daemon.refused(429, "quota", "POST", "/v1/sandboxes", {}, key=key)
        check(int(daemon.headers["retry-after"]) >= 1, "when to come again")
        items = daemon.want(200, "POST", "/v1/sandboxes/bulk", {"count": 2, "labels": {"a": "b"}}, key=key)["items"]
        same([i["error"]["cause"] for i in items], ["quota", "quota"], "of many")
        daemon.want(204, "DELETE", f"/v1/sandboxes/{boxes[0]}", key=key)
        daemon.want(201, "POST", "/v1/sandboxes", {}, key=key)


@test("many at once: created together, deleted by label")
def _():
    with V1() as daemon:
        items = daemon.want(200, "POST", "/v1/sandboxes/bulk", {"count": 12, "labels": {"run": "7"}})["items"]
        made = sorted(item["sandbox"]["id"] for item in items)
        same(len(set(made)), 12, "how many")
        keep = daemon.box(labels={"run": "8"})
        same(sorted(daemon.want(200, "DELETE", "/v1/sandboxes?label=run=7")["items"]), made, "those that are gone")
        same([i["id"] for i in daemon.want(200, "GET", "/v1/sandboxes")["items"]], [keep], "the one that stays")


@test("files: write, read, list, stat, move, make, remove; what cannot be is said")
def _():
    with V1() as daemon:
        box = daemon.box()
        place = FILES.format(box)
        data = bytes(range(256)) * 5000
        same(daemon.want(200, "PUT", place + "?path=d/e/f.bin", data=data)["size"], len(data), "written")
        same(daemon.want(200, "GET", place + "?path=d/e/f.bin"), data, "read")
        same(out(daemon.run(box, "sh", "-c", "sha256sum <d/e/f.bin | cut -c1-64")).decode().strip(),
             hashlib.sha256(data).hexdigest(), "seen from inside")
        got = daemon.want(200, "GET", place + "/stat?path=d/e/f.bin")
        same((got["type"], got["size"], got["name"]), ("file", len(data), "f.bin"), "what it is")
        same([f["name"] for f in daemon.want(200, "GET", place + "/list?path=d&depth=2")["items"]], ["e", "f.bin"], "the list")
        daemon.call("POST", place + "/mkdir", {"path": "new/deep"})
        among(daemon.call("POST", place + "/move", {"from": "d/e/f.bin", "to": "new/deep/g"})[0], (200, 204), "moved")
        same(daemon.want(200, "GET", place + "?path=new/deep/g"), data, "under its new name")
        daemon.want(204, "DELETE", place + "?path=new")
        daemon.refused(404, "not-found", "GET", place + "?path=new/deep/g")
        daemon.refused(409, "conflict", "GET", place + "?path=/tmp")
        daemon.refused(400, "request", "GET", place)
        check(daemon.want(200, "GET", place + "?path=/proc/self/status").startswith(b"Name:"), "a file without a size")
        among(daemon.call("PUT", place + "?path=/proc/x", data=b"x")[0], (403, 404), "what may not be written")


@test("checkpoints, rollback, fork; diff, export; apply has nowhere to go")
def _():
    with V1() as daemon:
        box = daemon.box(timeout=600, requestId="origin", labels={"a": "b"})
        place = f"/v1/sandboxes/{box}"
        daemon.run(box, "sh", "-c", "echo one >f; mkdir d")
        same(daemon.want(201, "POST", place + "/checkpoints", {"name": "first"})["name"], "first", "its name")
        daemon.run(box, "sh", "-c", "echo two >f; echo new >g")
        sleeping = daemon.start_step(box, "sleep", "1000")
        items = daemon.want(200, "GET", place + "/checkpoints")["items"]
        same([c["name"] for c in items], ["first"], "which there are")
        forks = daemon.want(201, "POST", place + "/fork", {"count": 2})["items"]
        for item in forks:
            same(out(daemon.run(item["sandbox"]["id"], "cat", "f", "g")), b"two\nnew\n", "a fork has what was there")
            same(item["sandbox"]["labels"], {"a": "b"}, "and its labels")
        same(daemon.want(200, "POST", "/v1/sandboxes", {"requestId": "origin"})["id"], box, "a request is not its forks'")
        changes = {c["path"]: c["kind"] for c in daemon.want(200, "GET", place + "/diff?lines=true")["changes"]}
        same((changes.get("f"), changes.get("g"), changes.get("d")), ("added", "added", "added"), "what changed")
        text = daemon.want(200, "GET", place + "/diff?format=text&path=f").decode()
        check("+two" in text and "new" not in text, text)
        with tarfile.open(fileobj=io.BytesIO(daemon.want(200, "GET", place + "/export"))) as tar:
            same(tar.extractfile(next(m for m in tar.getmembers() if m.name.rstrip("/").endswith("g"))).read(), b"new\n", "in the tar")
        check(b"+++ b/g" in daemon.want(200, "GET", place + "/export?format=patch"), "a patch")
        check(daemon.want(200, "POST", place + "/rollback", {"checkpoint": "first"})["endedProcesses"] >= 1, "processes end")
        same(out(daemon.run(box, "sh", "-c", "cat f; ls g 2>&1 >/dev/null | wc -l")), b"one\n1\n", "as it was")
        check(daemon.want(200, "GET", place + f"/steps/{sleeping}")["state"] == "ended", "the step has ended with it")
        daemon.refused(404, "not-found", "POST", place + "/rollback", {"checkpoint": "nosuch"})
        for body in ({}, {"force": True}, {"paths": ["f"], "dry": True}):
            daemon.refused(403, "policy", "POST", place + "/apply", body)
        daemon.refused(400, "request", "GET", place + "/export?format=zip")


@test("quotas count what a contract says; what a contract would silently undo is refused")
def _():
    with V1() as daemon:
        key = daemon.make_key("small", ["--max-memory", "2G", "--max-cpus", "3", "--max-disk", "8G"])
        for limits in ({"memory": "3G"}, {"cpus": 4}, {"disk": "9G"}, {"memory": "unlimited"}, {"cpus": "unlimited"}):
            daemon.refused(429, "quota", "POST", "/v1/sandboxes", {"contract": {"limits": limits}}, key=key)
        for limits in ({"pids": 100000}, {"pids": "unlimited"}, {"files": "unlimited"}):
            daemon.refused(403, "policy", "POST", "/v1/sandboxes", {"contract": {"limits": limits}})
        box = daemon.want(201, "POST", "/v1/sandboxes", {"contract": {"limits": {"memory": "1500M", "cpus": 0.5}}}, key=key)
        same((box["memoryMiB"], box["cpus"]), (1500, 1), "what it has")
        daemon.refused(429, "quota", "POST", "/v1/sandboxes", {"contract": {"limits": {"memory": "600M"}}}, key=key)
        plain, laid = (daemon.want(200, "GET", "/v1/sandboxes/" + daemon.box(**more)) for more in ({}, {"contract": {}}))
        same([plain[k] for k in ("memoryMiB", "cpus")], [laid[k] for k in ("memoryMiB", "cpus")], "the template's, unless it says so")
        contract = {"network": {"mode": "rules", "allow": ["example.org"]}}
        for place in ("/v1/sandboxes", "/v1/jobs"):
            body = {"contract": contract, "internet": False, **({"command": ["true"]} if place.endswith("jobs") else {})}
            check("internet" in daemon.refused(400, "request", "POST", place, body)["message"], "which of them")
        status, made, _ = daemon.call("POST", f"/sandboxes/{plain['id']}/snapshots", {"name": "snap"})
        same(status, 201, f"a snapshot: {made}")
        error = daemon.refused(400, "request", "POST", "/v1/sandboxes", {"template": made["snapshotID"], "contract": contract})
        check("contract" in error["message"], error)
        daemon.box(template=made["snapshotID"])
        daemon.box(contract="network: {mode: off}")


@test("a contract is laid over the template; what is the machine owner's is refused; its log and receipt")
def _():
    with V1() as daemon:
        box = daemon.box(contract={"limits": {"pids": 64}, "audit": {"record": "full"}})
        daemon.run(box, "sh", "-c", "echo hi >f")
        same(out(daemon.run(box, "cat", "f")), b"hi\n", "it works")
        lines = [json.loads(line) for line in daemon.raw(f"/v1/sandboxes/{box}/log").splitlines()]
        check(any(line.get("kind") == "step-start" or "exec" in str(line.get("kind")) for line in lines), f"{lines[:3]}")
        receipts = daemon.raw(f"/v1/sandboxes/{box}/receipt").splitlines()
        same(len([r for r in receipts if json.loads(r)["payloadType"]]), 2, "a receipt of each step")
        for contract in ({"filesystem": {"read": ["/etc/shadow"]}}, {"workspace": "/root"}, "filesystem: {write: [/]}"):
            daemon.refused(403, "policy", "POST", "/v1/sandboxes", {"contract": contract})
        daemon.refused(400, "request", "POST", "/v1/sandboxes", {"contract": "limits: [nonsense"})


@test("jobs: run, follow, result, cancel, list; the result outlives the sandbox and the daemon")
def _():
    with V1() as daemon:
        job = daemon.want(201, "POST", "/v1/jobs", {"contract": "command: [sh, -c, 'echo out; echo err >&2; exit 5']",
                                                    "labels": {"j": "1"}, "requestId": "j1", "keep": 600})
        same(daemon.want(200, "POST", "/v1/jobs", {"command": ["true"], "requestId": "j1"})["id"], job["id"], "once")
        events = list(daemon.events(f"/v1/jobs/{job['id']}/events"))
        same((events[0][1], events[-1][1]), ("start", "end"), "its events")
        got = daemon.want(200, "GET", f"/v1/jobs/{job['id']}")
        same((got["state"], got["step"]["result"]["exitCode"], got["labels"]), ("ended", 5, {"j": "1"}), "its result")
        same(daemon.want(200, "GET", f"/v1/jobs/{job['id']}/output?stream=err"), b"err\n", "what it printed")
        long = daemon.want(201, "POST", "/v1/jobs", {"command": ["sleep", "1000"]})["id"]
        daemon.want(204, "DELETE", f"/v1/jobs/{long}")
        got = daemon.want(200, "GET", f"/v1/jobs/{long}")
        same((got["state"], got["sandbox"], got["step"]["result"]["cause"]), ("ended", None, "killed"), "cancelled")
        daemon.want(204, "DELETE", f"/v1/jobs/{job['id']}")
        daemon.again()
        got = daemon.want(200, "GET", f"/v1/jobs/{job['id']}")
        same((got["sandbox"], got["step"]["result"]["exitCode"]), (None, 5), "the result is still there")
        same(daemon.want(200, "GET", f"/v1/jobs/{job['id']}/output"), b"out\n", "and what it printed")
        same(sorted(j["id"] for j in daemon.want(200, "GET", "/v1/jobs")["items"]), sorted([job["id"], long]), "the list")
        other = daemon.make_key("other")
        daemon.refused(404, "not-found", "GET", f"/v1/jobs/{job['id']}", key=other)
        daemon.refused(400, "request", "POST", "/v1/jobs", {})
        error = daemon.refused(400, "request", "POST", "/v1/jobs", {"command": None})
        check("there is no 'command'" in error["message"], "no command: %s" % error)
        daemon.refused(404, "not-found", "GET", "/v1/jobs/nosuch")


@test("events of all sandboxes of the tenant, and of nobody else")
def _():
    with V1() as daemon:
        other = daemon.make_key("other")
        stream = daemon.events("/v1/events")
        same(next(stream)[1], "ready", "the first event")
        daemon.want(201, "POST", "/v1/sandboxes", {}, key=other)
        box = daemon.box()
        daemon.run(box, "true")
        daemon.want(200, "POST", f"/v1/sandboxes/{box}/pause")
        daemon.want(200, "POST", f"/v1/sandboxes/{box}/resume")
        daemon.want(204, "DELETE", f"/v1/sandboxes/{box}")
        names = []
        while names[-1:] != ["ended"]:
            _, name, data = next(stream)
            same(misfit(data, {"$ref": "#/components/schemas/Event"}), None, name)
            same((data.get("sandbox") or {}).get("id", data.get("step", {}).get("sandbox")), box, "whose")
            names.append(name)
        same(names, ["created", "step-started", "step-ended", "paused", "resumed", "ended"], "what happened")
        stream.close()


@test("a job that is asked for many times at once with one request id is one")
def _():
    with V1() as daemon:
        body = {"contract": "limits: {pids: 64}", "command": ["sleep", "1000"], "requestId": "many"}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(daemon.call("POST", "/v1/jobs", body))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = [status for status, _, _ in answers]
        check(statuses.count(201) == 1 and set(statuses) <= {200, 201, 409}, f"{statuses}")
        check(all("retry-after" in headers for status, _, headers in answers if status == 409), "when to come again")
        job = daemon.want(200, "POST", "/v1/jobs", body)["id"]
        same({answer["id"] for status, answer, _ in answers if status != 409}, {job}, "which it is")
        same([box["id"] for box in daemon.want(200, "GET", "/v1/sandboxes")["items"]], [job], "and no other")


@test("a contract that asks: the connection waits, whoever may answers, and nobody else")
def _():
    need("curl")
    with V1() as daemon:
        other = daemon.make_key("other")
        box = daemon.box(contract="network: {mode: rules, allow: [example.org], ask: true}")
        same(daemon.want(200, "GET", "/v1/approvals")["items"], [], "no question")

        def asked(name):
            until(lambda: name in [q["name"] for q in daemon.want(200, "GET", "/v1/approvals")["items"]])
            return next(q for q in daemon.want(200, "GET", "/v1/approvals")["items"] if q["name"] == name)
        number = daemon.start_step(box, "curl", "-sS", "-m", "50", "http://first.test/")
        question = asked("first.test")
        same((question["sandbox"], question["port"], question["program"]), (box, 80, "curl"), "the question")
        same(daemon.want(200, "GET", "/v1/approvals", key=other)["items"], [], "another tenant's questions")
        place = "/v1/approvals/" + question["id"]
        daemon.refused(404, "not-found", "POST", place, {"answer": "once"}, key=other)
        daemon.refused(400, "request", "POST", place, {"answer": "always"})
        daemon.refused(404, "not-found", "POST", "/v1/approvals/x-1", {"answer": "once"})
        daemon.want(204, "POST", place, {"answer": "deny"})
        check(daemon.wait_step(box, number)["result"]["exitCode"] != 0, "it was refused")
        daemon.refused(404, "not-found", "POST", place, {"answer": "once"})
        # Who is allowed is tried: the name leads nowhere, which is another failure. And it is not asked about again.
        number = daemon.start_step(box, "curl", "-sS", "-m", "50", "http://second.test/")
        daemon.want(204, "POST", "/v1/approvals/" + asked("second.test")["id"], {"answer": "run"})
        daemon.wait_step(box, number)
        daemon.run(box, "curl", "-sS", "-m", "50", "http://second.test/")
        daemon.again()
        number = daemon.start_step(box, "curl", "-sS", "-m", "50", "http://third.test/")
        daemon.want(204, "POST", "/v1/approvals/" + asked("third.test")["id"], {"answer": "once"})
        daemon.wait_step(box, number)


main()
