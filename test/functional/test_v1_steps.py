# SPDX-License-Identifier: Apache-2.0
# check: seconds 52
# check: user only
"""Steps under /v1: exactly once, output from any offset, and a daemon that is killed; src/v1/v1-step.c, v1-follow.c, v1-output.c"""

import os
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from v1 import *

STEPS = "/v1/sandboxes/{}/steps"
FILES = "/v1/sandboxes/{}/files"


@test("steps: output, both streams, result, environment, directory; input; signals; a terminal and its size")
def _():
    with V1() as daemon:
        box = daemon.box(environment={"FROM": "box"})
        step = daemon.run(box, "sh", "-c", "echo $FROM $OWN; pwd; echo err >&2; exit 3", environment={"OWN": "mine"}, cwd="/tmp")
        same((out(step), out(step, "err")), (b"box mine\n/tmp\n", b"err\n"), "what it printed")
        same((step["state"], step["result"]["exitCode"], step["result"]["cause"]), ("ended", 3, None), "its end")
        number = daemon.start_step(box, "cat", stdin=True)
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/stdin", data=b"one\ntwo\0")
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/stdin?eof=true", data=b"three")
        same(daemon.wait_step(box, number)["result"]["exitCode"], 0, "cat ends with its input")
        same(daemon.want(200, "GET", STEPS.format(box) + f"/{number}/output"), b"one\ntwo\0three", "what was sent")
        daemon.refused(409, "conflict", "POST", STEPS.format(box) + f"/{number}/stdin", data=b"x")
        number = daemon.start_step(box, "sleep", "1000")
        check(number in [s["number"] for s in daemon.want(200, "GET", STEPS.format(box) + "?state=running")["items"]], "it runs")
        daemon.refused(400, "request", "POST", STEPS.format(box) + f"/{number}/signal", {"signal": "SIGNONSENSE"})
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/signal", {"signal": "SIGINT"})
        same(daemon.wait_step(box, number)["result"]["signal"], "SIGINT", "what it died of")
        daemon.refused(409, "conflict", "POST", STEPS.format(box) + f"/{number}/signal", {})
        number = daemon.start_step(box, "sh", "-c", "stty size; read line; stty size", terminal={"columns": 91, "rows": 17})
        until(lambda: b"17 91" in daemon.want(200, "GET", STEPS.format(box) + f"/{number}/output"))
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/resize", {"columns": 120, "rows": 40})
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/stdin", data=b"\r")
        daemon.wait_step(box, number)
        check(b"40 120" in daemon.want(200, "GET", STEPS.format(box) + f"/{number}/output"), "the new size")
        daemon.refused(400, "request", "POST", STEPS.format(box), {"command": ["true"], "cwd": "/" + 200000 * "x"})
        same(daemon.run(box, "sleep", "1000", timeoutMs=300)["result"]["cause"], "time-out", "its time")
        same([s["number"] for s in daemon.want(200, "GET", STEPS.format(box) + "?state=running")["items"]], [], "nothing runs")


@test("a request with the same id is the same step, however often it is asked for; also after the daemon was killed")
def _():
    with V1() as daemon:
        box = daemon.box(requestId="make")
        same(daemon.want(200, "POST", "/v1/sandboxes", {"requestId": "make"})["id"], box, "the same sandbox")
        request = {"command": ["sh", "-c", "echo x >>count; wc -l <count"], "requestId": "once", "wait": 30}
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(daemon.call("POST", STEPS.format(box), request)))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        same({(a[0], a[1]["number"]) for a in answers}, {(201, answers[0][1]["number"])}, "one step for all")
        same(daemon.want(200, "GET", FILES.format(box) + "?path=count"), b"x\n", "it ran once")
        daemon.again()
        status, step, _ = daemon.call("POST", STEPS.format(box), request)
        among(status, (200, 201), f"{step}")
        same(step["number"], answers[0][1]["number"], "still the same")
        same(daemon.want(200, "GET", FILES.format(box) + "?path=count"), b"x\n", "it ran once")
        same(daemon.want(200, "POST", "/v1/sandboxes", {"requestId": "make"})["id"], box, "still the same sandbox")


@test("output can be had from any offset, as often as one likes; what is not there is said")
def _():
    with V1() as daemon:
        box = daemon.box()
        step = daemon.run(box, "sh", "-c", "seq 1000; seq 50 >&2")
        place, whole = STEPS.format(box) + f"/{step['number']}/output", "".join(f"{i}\n" for i in range(1, 1001)).encode()
        same(daemon.want(200, "GET", place), whole, "all")
        for start in (0, 1, 500, len(whole) - 1, len(whole)):
            same(daemon.want(200, "GET", f"{place}?from={start}&follow=true"), whole[start:], f"from {start}")
            same(daemon.headers["atoll-offset"], str(start), "the offset")
        error = daemon.refused(416, "request", "GET", f"{place}?from={len(whole) + 1}")
        same(error["details"], {"first": 0, "size": len(whole)}, "what there is")
        check(daemon.want(200, "GET", f"{place}?stream=err").endswith(b"\n50\n"), "the other stream")
        daemon.refused(400, "request", "GET", f"{place}?stream=x")
        events = list(daemon.events(STEPS.format(box) + f"/{step['number']}/events"))
        same((events[0][1], events[-1][1]), ("start", "end"), "first and last event")
        same(misfit(events[-1][2], {"$ref": "#/components/schemas/Step"}), None, "the step in the event")
        for id, name, data in events:
            if name == "output":
                same(misfit(data, {"$ref": "#/components/schemas/Output"}), None, "the event")
        for after in ("0-0", "100-0", "3893-141", "17-5"):
            got = b"".join(base64.b64decode(data["data"]) for _, name, data in
                           daemon.events(STEPS.format(box) + f"/{step['number']}/events", after)
                           if name == "output" and data["stream"] == "out")
            same(got, whole[int(after.split("-")[0]):], f"after {after}")


@test("more than is kept: whoever comes soon reads all of it, however slowly; a command that nobody reads is not held for ever")
def _():
    with V1() as daemon:
        box = daemon.box(timeout=600)
        step = daemon.want(201, "POST", STEPS.format(box), {"command": ["sh", "-c", "seq 3000000; echo e >&2"], "wait": 60})
        same((step["state"], step["result"]), ("running", None), "an answer that comes before the end, because there is much")
        got, held = hashlib.sha256(), 0
        for _, name, data in daemon.events(STEPS.format(box) + f"/{step['number']}/events"):
            among(name, ("start", "output", "end"), str(data)[:200])
            if name == "output" and data["stream"] == "out":
                got.update(base64.b64decode(data["data"]))
                held += 1
                if held in (1, 20, 40):
                    time.sleep(0.5)  # a reader that is slow
        wanted = hashlib.sha256("".join(f"{i}\n" for i in range(1, 3000001)).encode())
        same(got.hexdigest(), wanted.hexdigest(), "all of it")
        number = daemon.start_step(box, "sh", "-c", "seq 3000000; echo done >end")
        until(lambda: daemon.call("GET", FILES.format(box) + "?path=end")[0] == 200)
        lost = next(data for _, name, data in daemon.events(STEPS.format(box) + f"/{number}/events", "0-0") if name == "lost")
        same((lost["from"], lost["to"] > 0), (0, True), "what is not kept any more is said")


@test("kill -9 of the daemon in the middle of a stream: whoever comes back misses no byte and gets none twice")
def _():
    with V1() as daemon:
        box = daemon.box(timeout=600)
        number = daemon.start_step(box, "sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line $i; echo e $i >&2; i=$((i+1)); "
                                                   "[ $((i % 300)) = 0 ] && sleep 0.2; done; exit 7")
        got, last, kills, end = {"out": b"", "err": b""}, "0-0", 0, None
        while end is None:
            for id, name, data in daemon.events(STEPS.format(box) + f"/{number}/events", last):
                if name == "output":
                    same(data["offset"], len(got[data["stream"]]), "the next byte")
                    got[data["stream"]] += base64.b64decode(data["data"])
                if name == "end":
                    end = data
                last = id
                if kills < 3 and len(got["out"]) > 5000 * (kills + 1):
                    kills += 1
                    daemon.again()
        same(kills, 3, "how often it was killed")
        same(got["out"], "".join(f"line {i}\n" for i in range(3000)).encode(), "standard output")
        same(got["err"], "".join(f"e {i}\n" for i in range(3000)).encode(), "standard error")
        same(end["result"]["exitCode"], 7, "its end")


@test("a step that ends while no daemon is there: its result is there when the next one is")
def _():
    with V1() as daemon:
        box = daemon.box(timeout=600)
        number = daemon.start_step(box, "sh", "-c", "read x; echo got $x; exit 9", stdin=True)
        ended = daemon.run(box, "sh", "-c", "echo early; exit 4")["number"]
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/stdin?eof=true", data=b"it\n")
        daemon.again()
        same(daemon.wait_step(box, number)["result"]["exitCode"], 9, "the one that ended meanwhile")
        step = daemon.want(200, "GET", STEPS.format(box) + f"/{ended}")
        same((step["state"], step["result"]["exitCode"]), ("ended", 4), "the one that had ended")
        same(daemon.want(200, "GET", STEPS.format(box) + f"/{ended}/output"), b"early\n", "what it printed")


@test("input with offsets is written once, however often it is sent, also across a kill -9 of the daemon")
def _():
    with V1() as daemon:
        box = daemon.box()
        place = STEPS.format(box) + "/%d/stdin?offset=%d"
        number = daemon.start_step(box, "cat", stdin=True)

        def send(at, data, more=""):
            return daemon.want(200, "POST", place % (number, at) + more, data=data)
        same(send(0, b"0123"), {"taken": 4, "closed": False}, "the first")
        same(send(0, b"0123")["taken"], 4, "the same again")
        same(send(2, b"234567")["taken"], 8, "half of it is new")
        error = daemon.refused(409, "conflict", "POST", place % (number, 9), data=b"x")
        same(error["details"], {"taken": 8}, "a hole")
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/stdin", data=b"89")
        same(send(4, b"456789ab")["taken"], 12, "behind what came without an offset")
        daemon.again()
        until(lambda: daemon.call("GET", STEPS.format(box) + f"/{number}")[0] == 200)
        same(daemon.want(200, "GET", STEPS.format(box) + f"/{number}")["input"], {"taken": 12, "closed": False}, "the next daemon knows")
        same(send(8, b"89abcd")["taken"], 14, "and goes on")
        same(send(14, b"e", "&eof=true"), {"taken": 15, "closed": True}, "its end")
        same(send(14, b"e", "&eof=true"), {"taken": 15, "closed": True}, "twice is once")
        same(daemon.wait_step(box, number)["result"]["exitCode"], 0, "cat ends")
        same(daemon.want(200, "GET", STEPS.format(box) + f"/{number}/output"), b"0123456789abcde", "what it read")
        daemon.refused(409, "conflict", "POST", place % (number, 15), data=b"f")


@test("much input for a slow reader, with a daemon that is killed again and again: every byte once, in its order")
def _():
    size = 3 << 20
    data = b"".join(b"%07d\n" % i for i in range(size // 8))
    with V1() as daemon:
        box = daemon.box()
        number = daemon.start_step(box, "sh", "-c", "while head -c 100000 >part && [ -s part ]; do cat part >>all; done", stdin=True)
        at, kills = 0, 0
        while at < size:
            piece = data[at:at + (1 << 20)]
            if kills < 3 and at > kills * size // 4:
                kills += 1
                threading.Timer(0.02 * kills, daemon.process.kill).start()
                with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                    daemon.call("POST", STEPS.format(box) + f"/{number}/stdin?offset={at}", data=piece)
                daemon.process.wait()
                daemon.again()
                until(lambda: daemon.call("GET", STEPS.format(box) + f"/{number}")[0] == 200)
                taken = daemon.want(200, "GET", STEPS.format(box) + f"/{number}")["input"]["taken"]
                check(taken >= at, f"{taken} of what was at {at}")
                continue  # from where the client knows it is, not from where the daemon is
            at = daemon.want(200, "POST", STEPS.format(box) + f"/{number}/stdin?offset={at}", data=piece)["taken"]
        same(kills, 3, "how often")
        daemon.want(200, "POST", STEPS.format(box) + f"/{number}/stdin?offset={size}&eof=true")
        same(daemon.wait_step(box, number)["result"]["exitCode"], 0, "its end")
        check(daemon.want(200, "GET", FILES.format(box) + "?path=all") == data, "what it read is what was sent")


@test("a command that does not read takes a bounded amount, and says how much")
def _():
    with V1() as daemon:
        box = daemon.box()
        number = daemon.start_step(box, "sleep", "1000", stdin=True)
        connection = daemon.connect()
        connection.request("POST", STEPS.format(box) + f"/{number}/stdin?offset=0", b"x" * (4 << 20), {"X-API-Key": daemon.key})
        until(lambda: daemon.want(200, "GET", STEPS.format(box) + f"/{number}")["input"]["taken"] > 0)
        daemon.want(204, "POST", STEPS.format(box) + f"/{number}/signal", {"signal": "SIGKILL"})
        told = json.loads(connection.getresponse().read())
        check(0 < told["taken"] < 1 << 20 and told["closed"], f"{told}")


@test("a sandbox that ends cuts what is open to it, and says why")
def _():
    with V1() as daemon:
        box = daemon.box()
        number = daemon.start_step(box, "sleep", "1000")
        stream = daemon.events(STEPS.format(box) + f"/{number}/events")
        same(next(stream)[1], "start", "it runs")
        waiting = threading.Thread(target=lambda: answers.append(
            daemon.call("POST", STEPS.format(box), {"command": ["sleep", "1000"], "wait": 100})))
        answers = []
        waiting.start()
        until(lambda: len(daemon.want(200, "GET", STEPS.format(box) + "?state=running")["items"]) == 2)
        daemon.want(204, "DELETE", f"/v1/sandboxes/{box}")
        _, name, data = next(stream)
        same((name, data["cause"]), ("gone", "killed"), "the last event")
        same(list(stream), [], "and nothing more")
        waiting.join()
        same((answers[0][0], answers[0][1]["error"]["cause"]), (409, "killed"), "who waited is told")


@test("a pause without memory tells who waits and who reads, and what a step cost is counted once")
def _():
    with V1() as daemon:
        box = daemon.box()
        streams = []
        answers = []
        for _ in range(3):
            number = daemon.start_step(box, "sh", "-c", "trap '' TERM; echo here; sleep 1000")
            streams.append(daemon.events(STEPS.format(box) + f"/{number}/events"))
            same(next(streams[-1])[1], "start", "it runs")
        waiting = [threading.Thread(target=lambda: answers.append(
            daemon.call("POST", STEPS.format(box), {"command": ["sleep", "1000"], "wait": 3}))) for _ in range(3)]
        for thread in waiting:
            thread.start()
        for _ in range(3):  # nobody reads these: they are held for their first reader
            daemon.start_step(box, "sleep", "1000")
        until(lambda: len(daemon.want(200, "GET", STEPS.format(box) + "?state=running")["items"]) == 9)
        same(daemon.want(200, "GET", f"/v1/sandboxes/{box}")["usage"]["steps"], 9, "steps")
        daemon.want(200, "POST", f"/v1/sandboxes/{box}/pause", {"memory": False})
        for stream in streams:
            check([name for _, name, _ in stream][-1] in ("gone", "end"), "its last event")
        for thread in waiting:
            thread.join()
        same({a[0] for a in answers} - {201, 409}, set(), "who waited is told: %s" % answers)
        daemon.want(204, "DELETE", "/v1/sandboxes/" + daemon.box())  # looks at all that are held
        daemon.want(200, "POST", f"/v1/sandboxes/{box}/resume", {})
        same(out(daemon.run(box, "echo", "again")), b"again\n", "and it goes on")


main()
