# SPDX-License-Identifier: Apache-2.0
# check: seconds 94
# check: sanitized if long
"""clients/python against the real daemon: both clients, broken connections, a daemon that is killed"""

import asyncio
import os
import socket
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from v1 import *

sys.path.insert(0, os.path.join(ROOT, "clients", "python", "src"))
import atoll


class Breaker:
    """A way to the daemon that breaks: each connection is cut after so many bytes of answers, as often as is said."""

    def __init__(self, port, after, times):
        self.port, self.after, self.times, self.cuts = port, after, times, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.create_connection(("127.0.0.1", self.port)) as server:
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
            seen = 0
            while data := self._receive(server):
                seen += len(data)
                if seen > self.after and self.cuts < self.times:
                    self.cuts += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)

    @staticmethod
    def _receive(sock):
        try:
            return sock.recv(4096)
        except OSError:
            return b""

    def _pass(self, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.close()


def port_of(daemon):
    return int(daemon.url.rsplit(":", 1)[1])


@test("a sandbox from Python: run, files, steps, states, changes")
def _():
    with V1() as daemon, atoll.Client(daemon.url, daemon.key) as client:
        with client.create(labels={"a": "b"}, timeout=600, environment={"E": "v"}) as sandbox:
            result = sandbox.run(["sh", "-c", "echo $E; echo err >&2; exit 3"])
            same((result.out, result.err, result.exit_code, result.ok), (b"v\n", b"err\n", 3, False), "run")
            same(sandbox.run("seq 100000").out, b"".join(b"%d\n" % i for i in range(1, 100001)), "more than fits an answer")
            same(sandbox.run(["cat"], input=b"x" * 3000000).out, b"x" * 3000000, "input")
            same(sandbox.files.write("d/f", "text"), 4, "write")
            same((sandbox.files.read("d/f"), sandbox.files.stat("d/f").size), (b"text", 4), "read")
            same([f.name for f in sandbox.files.list("d")], ["f"], "list")
            sandbox.files.move("d/f", "d/g")
            sandbox.files.make_dir("e")
            sandbox.files.remove("e")
            expect_error(atoll.NotFound, "not-found", lambda: sandbox.files.read("d/f"))
            sandbox.checkpoint("one")
            sandbox.files.write("d/g", "other")
            among("d/g", [c.path for c in sandbox.diff(lines=True).changes], "diff")
            check("+other" in sandbox.diff_text("d"), "diff as text")
            same([c.name for c in sandbox.checkpoints()], ["one"], "checkpoints")
            sandbox.rollback("one")
            same(sandbox.files.read("d/g"), b"text", "rolled back")
            fork = sandbox.fork()[0]
            same(fork.files.read("d/g"), b"text", "a fork")
            fork.delete()
            same((sandbox.pause().state, sandbox.resume().state), ("paused", "running"), "pause")
            same([s.id for s in client.sandboxes(labels={"a": "b"}, page=1)], [sandbox.id], "the list")
            check(sandbox.export()[257:262] == b"ustar", "a tar")
        expect_error(atoll.NotFound, "not-found", lambda: client.sandbox(sandbox.id))


def expect_error(kind, cause, function):
    try:
        function()
    except kind as error:
        same(error.cause, cause, str(error))
        return error
    raise Failed(f"no {kind.__name__}")


@test("steps from Python: stream, input, signal, a terminal; the same by its request id")
def _():
    with V1() as daemon, atoll.Client(daemon.url, daemon.key) as client, client.create() as sandbox:
        step = sandbox.start(["sh", "-c", "echo ready; cat; exit 2"], stdin=True, request_id="mine")
        same(sandbox.start(["sh", "-c", "echo ready; cat; exit 2"], stdin=True, request_id="mine").number, step.number, "once")
        got = b""
        for piece in step.stream():
            got += piece.data
            if piece.data == b"ready\n":
                step.write(b"typed\n")
                step.close_stdin()
        same((got, step.wait().exit_code, step.output(start=6)), (b"ready\ntyped\n", 2, b"typed\n"), "the step")
        step = sandbox.start(["sleep", "1000"])
        same([s.number for s in sandbox.steps("running")], [step.number], "it runs")
        step.kill()
        same(step.wait().signal, "SIGKILL", "its end")
        step = sandbox.start("stty size; read x; stty size", terminal=(70, 20))
        for piece in step.stream():
            if b"20 70" in piece.data:
                step.resize(90, 30)
                step.write(b"\r")
        check(b"30 90" in step.output(), "the new size")
        expect_error(atoll.RequestRefused, "request", lambda: sandbox.run(["/no/such"]))
        for timeout in (0, -1):
            expect_error(atoll.RequestRefused, "request", lambda: client.create(timeout=timeout))
        heard = []
        sandbox.run("echo a; echo b >&2", on_output=heard.append)
        same({p.stream for p in heard}, {"out", "err"}, "who listens hears both")


@test("many, jobs, usage and events from Python")
def _():
    with V1() as daemon, atoll.Client(daemon.url, daemon.key) as client:
        made = client.create_many(3, labels={"x": "1"})
        check(all(isinstance(s, atoll.Sandbox) for s in made), "made")
        events = client.events()
        same(next(events).name, "ready", "the first event")
        same(sorted(client.delete_many(labels={"x": "1"})), sorted(s.id for s in made), "deleted")
        same([next(events).name for _ in range(3)], ["ended"] * 3, "heard of it")
        job = client.start_job(["sh", "-c", "echo job; exit 4"], labels={"j": "k"}, keep=1)
        same((b"".join(p.data for p in job.stream()), job.wait().exit_code), (b"job\n", 4), "the job")
        same([j.id for j in client.jobs()], [job.id], "the list")
        same(client.job(job.id).info.labels, {"j": "k"}, "its labels")
        job.cancel()
        same(client.job(job.id).refresh().step.result.exit_code, 4, "its result")
        same(client.usage().tenant, "default", "usage")
        bad = atoll.Client(daemon.url, "nonsense")
        expect_error(atoll.Unauthorized, "unauthorized", bad.usage)
        expect_error(atoll.ConnectionFailed, "host", atoll.Client("http://127.0.0.1:1", "x", retries=1).usage)


@test("secrets, a workspace that is granted, apply and undo from Python, with and without asyncio")
def _():
    place = os.path.realpath(tempfile.mkdtemp(prefix="atoll-test-client-"))
    name = os.path.join(place, "f")

    def read():
        return open(name).read() if os.path.exists(name) else None

    async def body(daemon):
        async with atoll.AsyncClient(daemon.url, daemon.key) as client:
            same((await client.set_secret("two", "value")).version, 1, "a secret")
            same([s.name for s in await client.secrets()], ["one", "two"], "which there are")
            async with await client.create(contract={"workspace": place}) as sandbox:
                await sandbox.run("echo async >f")
                same(((await sandbox.apply()).applied, read()), (1, "async\n"), "applied")
                same(((await sandbox.undo()).conflicts, read()), (0, None), "undone")
            await client.delete_secret("two")
    try:
        with V1(config="tenants: {default: {workspaces: [%s]}}\n" % place) as daemon, atoll.Client(daemon.url, daemon.key) as client:
            same([client.set_secret("one", text).version for text in ("a", "b")], [1, 2], "a secret, and another value")
            expect_error(atoll.RequestRefused, "request", lambda: client.set_secret("one", "a\nb"))
            with client.create() as plain:
                expect_error(atoll.PolicyRefused, "policy", plain.apply)
            expect_error(atoll.PolicyRefused, "policy", lambda: client.create(contract={"workspace": place + "/x"}))
            with client.create(contract={"workspace": place}) as sandbox:
                sandbox.run("echo sync >f; mkdir .vscode; echo '{}' >.vscode/tasks.json")
                same((sandbox.apply(dry=True).dry, read()), (True, None), "only said")
                applied = sandbox.apply()
                same((applied.fates["f"], applied.fates[".vscode/tasks.json"], read()), ("applied", "held", "sync\n"), "applied")
                with open(name, "w") as file:
                    file.write("host")
                same((sandbox.undo().conflicts > 0, read()), (True, "host"), "a conflict")
                sandbox.undo(force=True)
                same(read(), None, "undone")
            asyncio.run(body(daemon))
            client.delete_secret("one")
            client.delete_secret("one")
            same(client.secrets(), [], "none is left")
    finally:
        shutil.rmtree(place)


@test("connections that break: what was asked is done once, and no byte is missing or comes twice")
def _():
    with V1() as daemon, atoll.Client(daemon.url, daemon.key) as direct:
        sandbox = direct.create(timeout=600)
        breaker = Breaker(port_of(daemon), 300, 4)
        with atoll.Client(breaker.url, daemon.key) as client:
            twin = client.sandbox(sandbox.id)
            same(twin.run("echo x >>count; wc -l <count").out, b"1\n", "once")
            made = client.create(labels={"via": "breaker"})
            same([s.id for s in direct.sandboxes(labels={"via": "breaker"})], [made.id], "one sandbox")
        check(breaker.cuts > 0, "nothing broke")
        breaker.close()
        breaker = Breaker(port_of(daemon), 20000, 6)
        with atoll.Client(breaker.url, daemon.key) as client:
            step = direct.sandbox(sandbox.id).start("i=0; while [ $i -lt 8000 ]; do echo line $i; i=$((i+1)); done; exit 6")
            twin = client.sandbox(sandbox.id).step(step.number)
            data = b"".join(p.data for p in twin.stream())
            same((data, twin.wait().exit_code), (b"".join(b"line %d\n" % i for i in range(8000)), 6), "the stream")
        same(breaker.cuts, 6, "how often it broke")
        breaker.close()
        data = b"".join(b"%07d\n" % i for i in range(300000))
        breaker = Breaker(port_of(daemon), 200, 8)
        with atoll.Client(breaker.url, daemon.key) as client:
            step = sandbox.start(["sh", "-c", "cat >read; wc -c <read"], stdin=True)
            twin = client.sandbox(sandbox.id).step(step.number)
            for at in range(0, len(data), 100000):
                twin.write(data[at:at + 100000])
            twin.close_stdin()
            same(step.wait().exit_code, 0, "its end")
            check(sandbox.files.read("read") == data, "input, each byte once")
        check(breaker.cuts > 0, "nothing broke")
        breaker.close()
        same(sandbox.run(["true"], input=b"x" * 1000000).exit_code, 0, "who does not read his input ends all the same")
        size = 20 << 20
        same(len(sandbox.run(["cat"], input=b"y" * size).out), size, "more than is kept of either")


@test("the daemon is killed while both clients read: they do not notice")
def _():
    with V1() as daemon:
        script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); [ $((i % 200)) = 0 ] && sleep 0.2; done; exit 8"
        wanted = b"".join(b"line %d\n" % i for i in range(2000))
        results = {}

        def read_sync(box, number):
            step = atoll.Client(daemon.url, daemon.key).sandbox(box).step(number)
            results["sync"] = b"".join(p.data for p in step.stream()), step.wait().exit_code

        def read_async(box, number):
            async def body():
                async with atoll.AsyncClient(daemon.url, daemon.key) as client:
                    step = await (await client.sandbox(box)).step(number)
                    data = b"".join([p.data async for p in step.stream()])
                    results["async"] = data, (await step.wait()).exit_code
            asyncio.run(body())
        with atoll.Client(daemon.url, daemon.key) as client:
            sandbox = client.create(timeout=600)
            step = sandbox.start(script)
        threads = [threading.Thread(target=f, args=(sandbox.id, step.number)) for f in (read_sync, read_async)]
        for thread in threads:
            thread.start()
        until(lambda: len(daemon.want(200, "GET", f"/v1/sandboxes/{sandbox.id}/steps/{step.number}/output")) > 3000)
        daemon.again()
        for thread in threads:
            thread.join()
        same(results, {"sync": (wanted, 8), "async": (wanted, 8)}, "what they read")


@test("the client for asyncio: many things at once")
def _():
    async def body(url, key):
        async with atoll.AsyncClient(url, key) as client:
            async with await client.create(labels={"a": "b"}) as sandbox:
                results = await asyncio.gather(*(sandbox.run(f"echo {i}") for i in range(10)))
                same([r.out for r in results], [b"%d\n" % i for i in range(10)], "ten at once")
                await sandbox.files.write("f", io.BytesIO(b"z" * 1000000))
                same(await sandbox.files.read("f"), b"z" * 1000000, "a file")
                step = await sandbox.start(["cat"], stdin=True)
                await step.write(b"hi")
                await step.close_stdin()
                same(b"".join([p.data async for p in step.stream()]), b"hi", "input")
                await sandbox.checkpoint("c")
                same(await sandbox.rollback("c") >= 0, True, "rollback")
                same([s.id async for s in client.sandboxes()], [sandbox.id], "the list")
                job = await client.start_job(["true"])
                same((await job.wait()).exit_code, 0, "a job")
                await job.cancel()
                try:
                    await client.sandbox("nosuch")
                except atoll.NotFound:
                    return
                raise Failed("no NotFound")
    with V1() as daemon:
        asyncio.run(body(daemon.url, daemon.key))
    unix = os.path.join(tempfile.mkdtemp(prefix="v1-"), "s")
    with V1(listen="unix:" + unix) as daemon:
        with atoll.Client("unix:" + unix, daemon.key) as client, client.create() as sandbox:
            same(sandbox.run("echo unix").out, b"unix\n", "by a unix socket")
    shutil.rmtree(os.path.dirname(unix))


main()
