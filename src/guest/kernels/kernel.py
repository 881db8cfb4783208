#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
One context of the code interpreter

    python3 kernel.py LANGUAGE        python, javascript, typescript or bash; in the directory where it is to work

What is asked for comes as lines of JSON on standard input; what there is to tell goes as lines "ID JSON" to standard
output, and the JSON is what a client of the interpreter reads, in ASCII. Code never runs in this process: a worker of
its own does that, a fork of this one for Python, and it can print, crash and be killed as it likes:

    stdin  -> kernel.py -> pipe -> worker (kernel_python.py, kernel.js, kernel.sh)
    stdout <- kernel.py <- pipe <-   results, errors, the end
                        <- pipes <-  its standard output and error, and those of all that it starts

So nothing that code prints can pass for a line of the protocol, and what programs print that code has started is
caught as well. A worker that ends is told as an error, and the next execution has a new one.

Asked: {"op": "execute", "id": N, "code": "...", "env": {...}}, {"op": "interrupt"}, {"op": "restart", "id": N},
{"op": "sync", "id": N}: like interrupt, and an answer {"type": "sync"} when nothing is running any more.
"""

import codecs
import json
import os
import selectors
import signal
import sys
import time

# A line that is longer would not be taken.
LINE_MAX = 4 << 20
PIECE = 64 << 10
# What a pipe can hold at most: so much may still be in it that was printed before the end.
PIPE_MAX = 1 << 20
# An interrupt is repeated once; who does not care is killed. Counted is the time in which it could have reacted: not
# when we stood still ourselves, which is seen by a STEP_S that took longer, nor when it waited for a CPU.
REPEAT_S, KILL_S, STEP_S = 2, 5, 0.25
# When Node.js is told by another way: it hears of a SIGINT between two callbacks.
BREAK_S = 1
# As long as this, by the clock on the wall: somebody waits.
KILL_MAX_S = 60

# What a worker says when a SIGINT ends what it executes, and not the worker; and how many may come.
READY = {b"ready": 1 << 30, b"ready once": 1}

# A directory, or the one file that all of this is packed into (pack.py).
HERE = os.path.dirname(os.path.abspath(__file__))


def beside(name):
    return __loader__.get_data(os.path.join(HERE, name)).decode()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"


class Worker:
    """
    The process that runs code, and the pipes to it. A start of it has counted nothing yet.

    A SIGINT must not come as long as it would end the worker instead of what it executes: before a handler is there,
    and in Node.js whenever handlers are exchanged. So the worker says when it can take one. Node.js exchanges them
    before and behind the code's synchronous part. Behind it, it asks first, and the permission comes through a pipe of
    its own; or it was interrupted, and so that part can take only one. Nor does Node.js look at a SIGINT when it comes:
    it says when it has, and until then there is no other, and nothing to execute that this one could be taken for.
    """

    def __init__(self, language):
        self.language = language
        self.count = 0
        request_out, self.request = os.pipe()
        self.answer, answer_in = os.pipe()
        self.out, out_in = os.pipe()
        self.err, err_in = os.pipe()
        permit_out, self.permit = os.pipe()
        breaks_out, self.breaks = os.pipe()
        inner = (request_out, answer_in, out_in, err_in, permit_out, breaks_out)
        self.pid = os.fork()
        if self.pid == 0:
            self.become(inner)
        for fd in inner:
            os.close(fd)
        for fd in (self.answer, self.out, self.err, self.request, self.permit, self.breaks):
            os.set_blocking(fd, False)
        self.takes_interrupts = 0
        self.is_unanswered = False
        self.unsent = b""
        self.heard = b""
        self.exit_code = None
        self.decoders = {"stdout": self.decoder(), "stderr": self.decoder()}

    @staticmethod
    def decoder():
        return codecs.getincrementaldecoder("utf-8")("replace")

    def become(self, inner):
        """In the child; does not return."""
        status = 70
        try:
            os.setpgid(0, 0)  # interrupts are for it and what it starts; of our session, to be killed with us
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if self.language != "python":
                signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python has turned off
            # First out of the way of the numbers that they are to have.
            high = [fcntl_dup(fd, 20) for fd in inner]
            null = os.open("/dev/null", os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(high[2], 1)
            os.dup2(high[3], 2)
            if self.language == "python":
                # They rise, with gaps where a number was taken.
                os.closerange(3, high[0])
                os.closerange(high[0] + 1, high[1])
                os.closerange(high[1] + 1, 256)
                sys.path[0] = ""
                sys.path.append(HERE)
                import kernel_python
                kernel_python.serve(high[0], high[1])
                status = 0
            else:
                os.dup2(high[0], 3)
                os.dup2(high[1], 4)
                os.dup2(high[4], 5)
                os.dup2(high[5], 6)
                os.closerange(5 if self.language == "bash" else 7, 256)
                if self.language == "bash":
                    command = ["bash", "--noprofile", "--norc", "-c", beside("kernel.sh"), "kernel"]
                else:
                    # What stands at the top there would be names of the code's own scope.
                    script = "(function () {" + beside("kernel.js") + "})();"
                    # What is ended in a callback leaves Node.js's notes of callbacks within callbacks as they were;
                    # they are of use to nobody, and it would end itself for that.
                    command = ["node", "--no-warnings", "--no-force-async-hooks-checks", "-e", script, "kernel", self.language]
                os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{self.language} cannot be started: {error.strerror}\n".encode())
        finally:
            os._exit(status)

    def send(self, message):
        if self.language == "bash":
            self.unsent += shell_request(message)
        else:
            self.unsent += json.dumps(message).encode() + b"\n"
        self.push()

    def push(self):
        try:
            while self.unsent:
                self.unsent = self.unsent[os.write(self.request, self.unsent[:PIECE]):]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self.unsent = b""

    def allow(self, count):
        """To exchange its handlers, in the execution of this number: a SIGINT comes only after it has said so. The
        highest bit: one was sent."""
        try:
            os.write(self.permit, (count | self.is_unanswered << 31).to_bytes(4, "little"))
        except (BlockingIOError, BrokenPipeError):
            pass  # code that asks by itself, and does not read

    def end_callback(self):
        """Of what loops after it has waited."""
        try:
            os.write(self.breaks, self.count.to_bytes(4, "little"))
        except (BlockingIOError, BrokenPipeError):
            pass

    def waited_for_cpu(self):
        """Seconds, of all its life; 0 where the kernel does not tell."""
        try:
            with open(f"/proc/{self.pid}/schedstat") as file:
                return int(file.read().split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            return 0

    def close(self):
        for fd in (self.request, self.answer, self.out, self.err, self.permit, self.breaks):
            os.close(fd)


def fcntl_dup(fd, least):
    import fcntl
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def shell_request(message):
    """Three texts, each with a NUL at its end: what sets this execution's environment, the code, what takes it back."""
    before, after = [], []
    for name, value in message["env"].items():
        if not (name.replace("_", "a").isalnum() and name.isascii() and not name[0].isdigit()):
            continue
        before.append(f"__atoll_had_{name}=${{{name}+x}}; __atoll_was_{name}=${{{name}-}}; export {name}={quoted(value)}")
        after.append(f"if [ -n \"$__atoll_had_{name}\" ]; then export {name}=\"$__atoll_was_{name}\"; else unset {name}; fi; "
                     f"unset __atoll_had_{name} __atoll_was_{name}")
    texts = ["\n".join(before), message["code"], "\n".join(after)]
    return b"".join(text.replace("\0", "").encode("utf-8", "replace") + b"\0" for text in texts)


class Kernel:
    def __init__(self, language, asked_fd, told_fd):
        self.language = language
        self.asked_fd, self.told_fd = asked_fd, told_fd
        self.asked = b""
        self.worker = None
        self.queue = []
        self.running = None  # the id of the execution at hand
        self.forget_interrupts()
        self.syncs = []
        self.selector = selectors.DefaultSelector()
        self.selector.register(asked_fd, selectors.EVENT_READ, self.hear)
        wake, woken = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self.wake = wake
        self.selector.register(wake, selectors.EVENT_READ, self.reap)

    def forget_interrupts(self):
        self.is_interrupted = self.is_killed = self.is_broken = False
        self.n_interrupts = 0  # that were sent

    # ---- telling ----

    def tell(self, message, number=None):
        line = json.dumps(message)
        if len(line) > LINE_MAX:
            line = json.dumps({"type": message["type"], "text": "[left out: more than 4 MiB]",
                               **({"is_main_result": message["is_main_result"]} if "is_main_result" in message else {})})
        data = f"{self.running if number is None else number} {line}\n".encode("ascii")
        while data:
            data = data[os.write(self.told_fd, data):]

    def tell_output(self, stream, data, is_final=False):
        text = self.worker.decoders[stream].decode(data, is_final)
        # What is printed while nothing is being executed belongs to nobody.
        if text and self.running is not None:
            self.tell({"type": stream, "text": text, "timestamp": now()})

    # ---- the worker ----

    def start(self):
        self.worker = Worker(self.language)
        for fd, call in ((self.worker.answer, self.answered), (self.worker.out, self.printed), (self.worker.err, self.printed)):
            self.selector.register(fd, selectors.EVENT_READ, call)

    def unwatch(self, fd):
        if fd in self.selector.get_map():
            self.selector.unregister(fd)

    def drop(self):
        for fd in (self.worker.answer, self.worker.out, self.worker.err, self.worker.request):
            self.unwatch(fd)
        self.worker.close()
        self.worker = None

    def printed(self, fd):
        stream = "stdout" if fd == self.worker.out else "stderr"
        try:
            data = os.read(fd, PIECE)
        except BlockingIOError:
            return 0
        if data:
            self.tell_output(stream, data)
        else:
            # Closed by all; the worker itself may go on without.
            self.unwatch(fd)
        return len(data)

    def drain(self):
        for fd in (self.worker.out, self.worker.err):
            left = PIPE_MAX
            while left > 0:
                n = self.printed(fd)
                if not n:
                    break
                left -= n

    def answered(self, fd):
        try:
            data = os.read(fd, PIECE)
        except BlockingIOError:
            return
        if not data:
            self.unwatch(fd)  # it is about to end, which is told by itself
        self.worker.heard += data
        if b"\n" not in data:
            if len(self.worker.heard) > 4 * LINE_MAX:
                self.kill()
            return
        # What was printed before it comes before it.
        self.drain()
        lines = self.worker.heard.split(b"\n")
        self.worker.heard = lines.pop()
        for line in lines:
            self.take_answer(line)

    def take_answer(self, line):
        if line in READY:
            self.worker.takes_interrupts = READY[line]
            self.worker.is_unanswered = False
            self.send_interrupt()
            self.go_on()
            return
        if self.running is None:
            return
        # Code can write here, too, if it looks for the descriptor; what makes no sense is dropped.
        try:
            message = int(line) if self.language == "bash" else json.loads(line)
        except ValueError:
            return
        if self.language == "bash":
            if message:
                self.tell({"type": "error", "name": "ExitStatus", "value": str(message),
                           "traceback": f"the last command ended with status {message}"})
            self.finish()
        elif not isinstance(message, dict):
            return
        elif message.get("type") == "end":
            self.finish()
        elif message.get("type") == "leave":
            self.worker.takes_interrupts = 0
            self.worker.allow(self.worker.count)
        elif message.get("type") == "exit" and isinstance(message.get("code"), int):
            self.worker.exit_code = message["code"]
            self.kill()
        elif message.get("type") in ("result", "error"):
            self.tell(message)

    def reap(self, fd):
        try:
            os.read(fd, PIECE)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.worker and pid == self.worker.pid:
                self.ended(os.waitstatus_to_exitcode(status))

    def ended(self, code, why=None):
        self.answered(self.worker.answer)
        self.drain()
        for stream in ("stdout", "stderr"):
            self.tell_output(stream, b"", True)
        if self.worker.exit_code is not None:
            code = self.worker.exit_code
        self.drop()
        if self.running is None:
            self.go_on()
            return
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with status {code}"
        if why:
            how = why
        elif self.is_killed:
            how = "did not react to an interrupt, and was killed"
        what = {"bash": "the shell"}.get(self.language, "the kernel")
        self.tell({"type": "error", "name": "KernelDied",
                   "value": f"{what} {how}; what it knew is lost, the next execution has a new one", "traceback": ""})
        self.finish()

    def kill(self):
        try:
            os.killpg(self.worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    # ---- executions ----

    def hear(self, fd):
        data = os.read(fd, PIECE)
        if not data:
            if self.worker:
                self.kill()
            sys.exit(0)
        self.asked += data
        if b"\n" not in data:
            return
        lines = self.asked.split(b"\n")
        self.asked = lines.pop()
        for line in lines:
            self.take(json.loads(line))

    def take(self, message):
        op = message["op"]
        if op == "execute":
            self.queue.append(message)
            self.go_on()
        elif op == "interrupt":
            self.interrupt()
        elif op == "restart":
            self.queue.clear()
            if self.worker:
                self.kill()
                os.waitpid(self.worker.pid, 0)
                self.ended(-signal.SIGKILL, "was restarted")
            self.tell({"type": "restarted"}, message["id"])
        elif op == "sync":
            self.queue.clear()
            self.interrupt()
            self.syncs.append(message["id"])
            self.go_on()

    def go_on(self):
        if self.running is not None:
            return
        for number in self.syncs:
            self.tell({"type": "sync"}, number)
        self.syncs.clear()
        if not self.queue or (self.worker and self.worker.is_unanswered):
            return
        message = self.queue.pop(0)
        if not self.worker:
            self.start()
        self.worker.count += 1
        self.running = message["id"]
        self.forget_interrupts()
        if self.language in ("javascript", "typescript"):
            self.worker.takes_interrupts = 0  # the first thing that it does is to exchange its handlers
        self.tell({"type": "number_of_executions", "execution_count": self.worker.count})
        self.worker.send({"code": message["code"], "env": message.get("env") or {}, "count": self.worker.count})
        if self.worker.unsent:
            self.selector.register(self.worker.request, selectors.EVENT_WRITE, self.pushed)

    def pushed(self, fd):
        self.worker.push()
        if not self.worker.unsent:
            self.unwatch(fd)

    def finish(self):
        if self.worker:
            self.drain()
            for stream in ("stdout", "stderr"):
                self.tell_output(stream, b"", True)
        self.tell({"type": "end_of_execution"})
        self.running = None
        self.forget_interrupts()
        self.go_on()

    # ---- interrupts ----

    def interrupt(self):
        if self.running is None or not self.worker:
            return
        if not self.is_interrupted:
            self.is_interrupted = True
            self.began_at = self.looked_at = time.monotonic()
            self.delay_s = self.worker.waited_for_cpu()
            self.patience_s = 0
        self.is_unsent = True
        self.send_interrupt()

    def send_interrupt(self):
        if not self.is_interrupted or not self.is_unsent or not self.worker.takes_interrupts:
            return
        self.is_unsent = False
        self.n_interrupts += 1
        self.worker.takes_interrupts -= 1
        self.worker.is_unanswered = self.language in ("javascript", "typescript")
        try:
            os.killpg(self.worker.pid, signal.SIGINT)
        except ProcessLookupError:
            pass

    def count_patience(self):
        now, delay_s = time.monotonic(), self.worker.waited_for_cpu()
        self.patience_s += max(0, min(now - self.looked_at, 2 * STEP_S) - (delay_s - self.delay_s))
        self.looked_at, self.delay_s = now, delay_s

    def look_at_clock(self):
        """Nothing has happened for a while."""
        if self.running is None or not self.is_interrupted or self.is_killed:
            return
        self.count_patience()
        if self.patience_s >= KILL_S or self.looked_at - self.began_at >= KILL_MAX_S:
            self.kill()
            self.is_killed = True
        elif self.patience_s >= BREAK_S and self.worker.is_unanswered and not self.is_broken:
            self.is_broken = True
            self.worker.end_callback()
        elif self.patience_s >= REPEAT_S and self.n_interrupts == 1:
            self.is_unsent = True
            self.send_interrupt()

    def run(self):
        while True:
            is_waiting = self.running is not None and self.is_interrupted and not self.is_killed
            events = self.selector.select(STEP_S if is_waiting else None)
            for key, _ in events:
                # An earlier one of the same round may have ended it.
                if key.fd in self.selector.get_map() and self.selector.get_map()[key.fd].data == key.data:
                    key.data(key.fd)
            self.look_at_clock()


def main():
    # The descriptors of the protocol are ours alone; what is 1 and 2 from here on is nobody's.
    asked, told = fcntl_dup(0, 10), fcntl_dup(1, 10)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("E2B_SANDBOX", "true")
    try:
        Kernel(sys.argv[1] if len(sys.argv) > 1 else "python", asked, told).run()
    except BrokenPipeError:
        sys.exit(0)  # nobody is there any more


if __name__ == "__main__":
    main()
