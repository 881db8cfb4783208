# SPDX-License-Identifier: Apache-2.0
"""
Runs Python for one context: the worker that kernel.py forks

A cell is compiled as a whole, run in one namespace that lives as long as the worker, and the value of its last
expression is its result. What is printed goes to the standard output that kernel.py reads, like that of every program
that the cell starts; what has a form goes there as a message.
"""

import ast
import builtins
import io
import json
import linecache
import os
import signal
import sys
import threading
import time
import types

import kernel_magics
import kernel_rich

# What is printed within this time is sent together: print() writes its text and its end one after the other.
FLUSH_S = 0.02
BUFFER_MAX = 32 << 10
TEXT_MAX = 1 << 20

COMPILE_FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
CO_COROUTINE = 0x80  # inspect knows it, and takes long to load


class Printed(io.TextIOBase):
    """sys.stdout and sys.stderr: gathers for a moment, then writes to the descriptor."""

    def __init__(self, fd, name):
        self.fd, self.name = fd, name
        self.lock = threading.RLock()
        self.parts, self.size = [], 0
        self.timer = threading.Event()
        self.is_forked = False
        self.buffer = Bytes(self)

    encoding, errors, newlines, line_buffering = "utf-8", "backslashreplace", None, False

    def fileno(self):
        return self.fd

    def isatty(self):
        return False

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self.lock:
            self.parts.append(text)
            self.size += len(text)
            if self.is_forked or self.size > BUFFER_MAX:
                self.flush()
            elif len(self.parts) == 1:
                self.timer.set()
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def flush(self):
        with self.lock:
            data = "".join(self.parts).encode("utf-8", "backslashreplace")
            self.parts, self.size = [], 0
            while data:
                data = data[os.write(self.fd, data):]

    def keep_flushing(self):
        while True:
            self.timer.wait()
            self.timer.clear()
            time.sleep(FLUSH_S)
            try:
                self.flush()
            except OSError:
                return

    def reconfigure(self, **_):
        pass


class Bytes(io.RawIOBase):
    """sys.stdout.buffer."""

    def __init__(self, text):
        self.text = text

    def fileno(self):
        return self.text.fd

    def writable(self):
        return True

    def write(self, data):
        with self.text.lock:
            self.text.flush()
            view = memoryview(data).cast("B")
            size = len(view)
            while view:
                view = view[os.write(self.text.fd, view):]
        return size

    def flush(self):
        self.text.flush()


def no_input(prompt=""):
    raise RuntimeError("input() was called, but nobody can be asked here: code is executed without a terminal")


class Cell:
    """What is being executed; the shell that magics and display() find by get_ipython()."""

    def __init__(self, request_fd, answer_fd):
        self.answer_fd = answer_fd
        self.requests = os.fdopen(request_fd, "rb")
        self.lock = threading.Lock()
        self.is_running = False
        self.count = 0
        self.loop = None
        self.user_ns = self.namespace()
        self.magics = kernel_magics.Magics(self)

    def namespace(self):
        module = types.ModuleType("__main__")
        module.__builtins__ = builtins
        sys.modules["__main__"] = module
        names = module.__dict__
        names.update(display=kernel_rich.display, get_ipython=lambda: self, In=[""], Out={}, _="", __="", ___="")
        builtins.display = kernel_rich.display
        builtins.get_ipython = names["get_ipython"]
        builtins.input = no_input
        return names

    # ---- telling ----

    def tell(self, message):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass
        data = json.dumps(message, allow_nan=False, default=str).encode() + b"\n"
        with self.lock:
            while data:
                data = data[os.write(self.answer_fd, data):]

    def show(self, value, is_main=False, **options):
        self.tell(kernel_rich.bounded({"type": "result", **kernel_rich.formats(value, **options),
                                       "is_main_result": is_main}))

    def publish(self, bundle):
        self.tell(kernel_rich.bounded({"type": "result", **kernel_rich.keyed(bundle), "is_main_result": False}))

    # ---- executing ----

    def serve(self):
        while True:
            try:
                line = self.requests.readline()
            except KeyboardInterrupt:
                continue
            if not line:
                return
            request = json.loads(line)
            self.execute(request["code"], request["env"], request["count"])

    def execute(self, code, environment, count):
        self.count = count
        before = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        error = None
        try:
            self.is_running = True
            try:
                self.run_cell(code, f"Cell In[{count}]")
            except BaseException as raised:
                error = raised
            self.is_running = False
        except KeyboardInterrupt as raised:  # between the two lines above
            self.is_running = False
            error = error or raised
        try:
            kernel_rich.show_figures()
        except Exception as raised:
            error = error or raised
        if error is not None:
            self.tell_error(error)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.tell({"type": "end"})

    def run_cell(self, code, name):
        self.user_ns["In"].append(code)
        code = kernel_magics.transform(dedented(code))
        kernel_rich.before_cell(code)
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = ast.parse(code, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        if tree.body:
            self.run_code(compile(tree, name, "exec", COMPILE_FLAGS, True))
        if last is not None:
            value = self.run_code(compile(last, name, "eval", COMPILE_FLAGS, True))
            if value is not None and not is_silenced(code):
                self.remember(value)
                self.show(value, is_main=True)

    def run_code(self, code):
        if not code.co_flags & CO_COROUTINE:
            return eval(code, self.user_ns)
        import asyncio
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop.run_until_complete(eval(code, self.user_ns))

    def remember(self, value):
        names = self.user_ns
        names["___"], names["__"], names["_"] = names.get("__"), names.get("_"), value
        names["Out"][self.count] = names[f"_{self.count}"] = value

    def tell_error(self, error):
        name = type(error).__name__
        try:
            value = str(error)
        except Exception:
            value = "<exception str() failed>"
        try:
            text = kernel_magics.traceback_text(error, name, value)
        except Exception:
            text = f"{name}: {value}"
        self.tell({"type": "error", "name": name, "value": value[:TEXT_MAX], "traceback": text[:TEXT_MAX]})

    # ---- what code calls: the parts of IPython's shell that are used most ----

    def system(self, command):
        return self.magics.system(command)

    def getoutput(self, command):
        return self.magics.getoutput(command)

    def run_line_magic(self, name, line, *_):
        return self.magics.line(name, line)

    magic = run_line_magic

    def run_cell_magic(self, name, line, cell):
        return self.magics.cell(name, line, cell)

    def interrupted(self, number, frame):
        if self.is_running:
            raise KeyboardInterrupt


def is_silenced(code):
    """A semicolon at the end wants no result."""
    text = code.rstrip()
    if text.endswith(";"):
        return True
    last = text.rsplit("\n", 1)[-1]
    return "#" in last and last.split("#", 1)[0].rstrip().endswith(";")


def dedented(code):
    """Code that was cut out of something with its indentation."""
    lines = code.split("\n")
    first = next((line for line in lines if line.strip()), "")
    indent = first[:len(first) - len(first.lstrip(" \t"))]
    if not indent:
        return code
    return "\n".join(line[len(indent):] if line.startswith(indent) else line for line in lines)


def flush_all(*_):
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Printed):
            stream.flush()


def audited(event, _):
    # What a program prints that is started now comes after what was printed before.
    if event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork", "os.forkpty"):
        flush_all()


def forked():
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Printed):
            stream.is_forked = True


def serve(request_fd, answer_fd):
    sys.argv = [""]
    sys.stdin = open(os.devnull)
    sys.stdout, sys.stderr = Printed(1, "<stdout>"), Printed(2, "<stderr>")
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    for stream in (sys.stdout, sys.stderr):
        threading.Thread(target=stream.keep_flushing, daemon=True).start()
    sys.addaudithook(audited)
    os.register_at_fork(before=flush_all, after_in_child=forked)
    cell = Cell(request_fd, answer_fd)
    kernel_rich.begin(cell)
    signal.signal(signal.SIGINT, cell.interrupted)
    os.write(answer_fd, b"ready\n")
    cell.serve()
    flush_all()
