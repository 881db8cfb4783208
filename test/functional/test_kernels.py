# SPDX-License-Identifier: Apache-2.0
# check: seconds 96
# check: sanitized if long
"""The kernels of the code interpreter, by themselves: what they make of code, and that nothing in it breaks them."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *

KERNEL = os.path.join(os.environ.get("ATOLL_BUILD") or os.path.dirname(ATOLL), "kernel.py")


class Told(list):
    """What a kernel has told of one execution."""

    def of(self, kind):
        return [line for line in self if line["type"] == kind]

    def text(self, kind="stdout"):
        return "".join(line["text"] for line in self.of(kind))

    @property
    def result(self):
        found = [line for line in self.of("result") if line["is_main_result"]]
        return found[0] if found else None

    @property
    def value(self):
        return self.result and self.result["text"]

    @property
    def error(self):
        found = self.of("error")
        return found[0] if found else {"name": None, "value": None, "traceback": ""}


class Kernel:
    def __init__(self, language="python", env=None):
        if not os.path.exists(KERNEL):
            skip("the kernels are not built")
        if language in ("javascript", "typescript"):
            need("node")
        self.place = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [PYTHON, "-B", KERNEL, language], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=self.place.name, env={"PATH": HOST_PATH, "HOME": self.place.name, **(env or {})}, start_new_session=True)
        self.number = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.place.cleanup()

    def ask(self, op, **more):
        self.process.stdin.write(json.dumps({"op": op, **more}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, code, env=None):
        self.number += 1
        self.ask("execute", id=self.number, code=code, env=env or {})

    def line(self):
        raw = self.process.stdout.readline()
        check(raw.isascii() and raw.endswith(b"\n"), f"no line in ASCII: {raw[:100]!r}")
        number, _, text = raw.partition(b" ")
        return int(number), json.loads(text)

    def end(self):
        told = Told()
        while not told or told[-1]["type"] != "end_of_execution":
            number, line = self.line()
            same(number, self.number, "whose line it is")
            told.append(line)
        return told

    def run(self, code, env=None):
        self.begin(code, env)
        return self.end()

    def until_printed(self, text):
        told = Told()
        while text not in told.text():
            told.append(self.line()[1])
        return told


@test("python: state, count, result, and what is printed, in order and whole")
def _():
    with Kernel() as kernel:
        told = kernel.run('x = 1; print("hi é"); x')
        same([line["type"] for line in told], ["number_of_executions", "stdout", "result", "end_of_execution"], "the lines")
        same((told.text(), told.value), ("hi é\n", "1"), "what it tells")
        told = kernel.run("x += 1\nx")
        same((told.of("number_of_executions")[0]["execution_count"], told.value), (2, "2"), "the second")
        same(kernel.run('print("a\\nb")').of("stdout")[0]["text"], "a\nb\n", "one print() is one line of the protocol")
        same(kernel.run("x = 5").result, None, "an assignment has no result")
        same(kernel.run("x;").result, None, "nor has what ends in a semicolon")
        same(kernel.run("None").result, None, "nor has None")
        same(kernel.run("'quoted'").value, "quoted", "a text stands without its quotes")
        same(kernel.run('import sys; print("e", file=sys.stderr)').text("stderr"), "e\n", "stderr")
        same(kernel.run('import os\nprint("a"); r = os.system("echo b"); print("c")').text(), "a\nb\nc\n", "with a program's output")


@test("python: errors have a name, a value, and show the lines")
def _():
    with Kernel() as kernel:
        told = kernel.run("def f():\n    return 1 / 0\n\nf()")
        same((told.error["name"], told.error["value"]), ("ZeroDivisionError", "division by zero"), "the error")
        for part in ("Traceback (most recent call last)", "Cell In[1], line 4", "----> 2     return 1 / 0"):
            check(part in told.error["traceback"], f"{part!r} is not in {told.error['traceback']}")
        check("kernel_python" not in told.error["traceback"], "our own frames are shown")
        same(kernel.run("y").error["value"], "name 'y' is not defined", "a name that is not there")
        same(kernel.run("for").error["name"], "SyntaxError", "no Python")
        same(kernel.run("input()").error["name"], "RuntimeError", "nobody can be asked")
        same(kernel.run("import sys; sys.exit(3)").error["name"], "SystemExit", "an exit does not end it")
        same(kernel.run("class E(Exception):\n def __str__(self): raise self\nraise E()").error["name"], "E", "a hostile one")
        same(kernel.run("1").value, "1", "and it goes on")


@test("python: indentation, !commands, magics, await")
def _():
    with Kernel() as kernel:
        same(kernel.run("    a = 1\n    a").value, "1", "indented as a whole")
        same(kernel.run("x = 7\n!echo $x {x + 1}").text(), "7 8\n", "a command")
        same(kernel.run("if x:\n    y = !echo out\ny").value, "['out']", "its output as a value")
        same(kernel.run('s = """\n!echo no\n"""\n!echo yes\ns').value, "\\n!echo no\\n", "what stands in a text stays")
        same(kernel.run("7 %3").value, "1", "what is Python stays")
        same(kernel.run("%cd /\nimport os\nos.getcwd()").value, "/", "%cd")
        same(kernel.run("%%bash\necho one; echo two").text(), "one\ntwo\n", "%%bash")
        same(kernel.run("%nothing").error["name"], "UsageError", "no such magic")
        same(kernel.run("import asyncio\nawait asyncio.sleep(0, 7)").value, "7", "await")


@test("python: forms of values, display(), and what is too large")
def _():
    with Kernel() as kernel:
        told = kernel.run("class A:\n  def _repr_html_(self): return '<b>é</b>'\n  def _repr_png_(self): return b'\\x89P'\n"
                          "  def _repr_json_(self): return {'n': float('nan')}\n  def __repr__(self): return 'A!'\ndisplay(A())\nA()")
        for result, is_main in zip(told.of("result"), (False, True)):
            same(result, {"type": "result", "text": "A!", "html": "<b>é</b>", "png": base64.b64encode(b"\x89P").decode(),
                          "json": {"n": None}, "is_main_result": is_main}, "the forms")
        told = kernel.run("class B:\n  def _repr_mimebundle_(self, **k): return {'text/latex': '$x$', 'application/x-own': {'a': 1}}\nB()")
        same((told.result["latex"], told.result["application/x-own"]), ("$x$", {"a": 1}), "a bundle")
        told = kernel.run("from IPython.display import display, HTML\ndisplay(HTML('<i>'))")
        same(told.of("result")[0]["html"], "<i>", "IPython.display is there without IPython")
        told = kernel.run("class C:\n  def _repr_html_(self): return 'x' * 6000000\n  def __repr__(self): return 'C'\nC()")
        check("html" not in told.result and "left out" in told.value, "6 MB came through")
        check(len(kernel.run("[0] * 10**6").value) < 10000, "a million items are shown")
        same(kernel.run("class D:\n  def __getattr__(self, name): return lambda *a, **k: 1\nD()").error["name"], None, "has every attribute")


PANDAS = """
class DataFrame:
    __module__ = "pandas.core.frame"
    def to_dict(self, orient):
        import datetime
        return {"a": [1, float("nan")], 2: [datetime.date(2026, 1, 2), None]}
    def _repr_html_(self):
        return "<table>"
"""

MATPLOTLIB = {
    "__init__.py": "backend = None\ndef use(name):\n    global backend\n    backend = name\n",
    "backends/__init__.py": "", "backends/backend_agg.py": "class FigureCanvasAgg: pass\n",
    "axes.py": """
class Axis:
    converter, units = None, None
    def get_scale(self): return "linear"
    def get_ticklocs(self): return [0, 1]
    def get_ticklabels(self): return []
class Line:
    def __init__(self, x, y, label): self.x, self.y, self.label = x, y, label
    def get_label(self): return self.label
    def get_xdata(self): return self.x
    def get_ydata(self): return self.y
class Axes:
    patches = containers = collections = ()
    def __init__(self): self.lines, self.xaxis, self.yaxis = [], Axis(), Axis()
    def bxp(self, stats): pass
    def get_title(self): return "T"
    def get_xlabel(self): return "Time (s)"
    def get_ylabel(self): return ""
    def has_data(self): return bool(self.lines)
""",
    "figure.py": "class Figure:\n    _suptitle = None\n    def __init__(self): self.axes = []\n    def get_axes(self): return self.axes\n"
                 "    def savefig(self, file, **k): file.write(b'PNG')\n",
    "patches.py": "class Wedge: pass\n", "container.py": "class BarContainer: pass\n", "collections.py": "class PathCollection: pass\n",
    "pyplot.py": """
import sys, importlib, matplotlib
from matplotlib.axes import Axes, Line
from matplotlib.figure import Figure
figures = {}
def figure(number): return figures[number]
def get_fignums(): return list(figures)
def close(which): figures.clear()
def show(): sys.modules[matplotlib.backend.split("//")[1]].show()
def plot(x, y, label="_l"):
    made = Figure(); made.axes.append(Axes()); made.axes[0].lines.append(Line(x, y, label)); figures[len(figures) + 1] = made
""",
}


@test("python: data frames and figures, of stand-ins for the libraries")
def _():
    with tempfile.TemporaryDirectory() as libraries:
        write(os.path.join(libraries, "pandas.py"), PANDAS)
        for name, text in MATPLOTLIB.items():
            os.makedirs(os.path.dirname(os.path.join(libraries, "matplotlib", name)), exist_ok=True)
            write(os.path.join(libraries, "matplotlib", name), text)
        with Kernel(env={"PYTHONPATH": libraries}) as kernel:
            told = kernel.run("import pandas as pd\npd.DataFrame()")
            same(told.result["data"], {"a": [1, None], "2": ["2026-01-02", None]}, "the columns")
            same(told.result["html"], "<table>", "and the table")
            told = kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4], 'l')")
            shown = told.of("result")[0]
            same(base64.b64decode(shown["png"]), b"PNG", "the picture")
            same({k: shown["chart"][k] for k in ("type", "title", "x_label", "x_unit", "x_scale", "elements")},
                 {"type": "line", "title": "T", "x_label": "Time (s)", "x_unit": "s", "x_scale": "linear",
                  "elements": [{"label": "l", "points": [[1.0, 3.0], [2.0, 4.0]]}]}, "the chart")
            same(len(kernel.run("plt.plot([1], [1]); plt.show(); print('after')").of("result")), 1, "shown once, by show()")
            same(kernel.run("1").of("result")[0]["text"], "1", "and is closed then")


@test("env_vars are there for one execution, in every language")
def _():
    for language, shows, plain in (("python", "import os; os.environ.get('V')", None), ("javascript", "process.env.V", None),
                                   ("bash", "echo $V", "")):
        with Kernel(language, env={"W": "kept"}) as kernel:
            told = kernel.run(shows, {"V": "it's é"})
            same((told.value or told.text().strip()), "it's é", language)
            told = kernel.run(shows)
            check(told.value in (None, "None") and told.text().strip() == "", f"{language}: it is still there: {told}")
            kernel.run("1" if language != "bash" else ":", {"W": "other"})
            told = kernel.run(shows.replace("V", "W"))
            same((told.value or told.text().strip()), "kept", f"{language}: back again")


@test("a worker that dies is an error, and the next execution has a new one")
def _():
    for language, code, how in (("python", "import os; os._exit(9)", "status 9"), ("javascript", "process.exit(4)", "status 4"),
                                ("bash", "exit 3", "status 3"), ("python", "import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
                                ("python", "import os; os.kill(0, 9)", "SIGKILL")):
        with Kernel(language) as kernel:
            told = kernel.run(code)
            same(told.error["name"], "KernelDied", f"{language}: {code}")
            check(how in told.error["value"], told.error["value"])
            told = kernel.run("echo 1" if language == "bash" else "1")
            same((told.of("number_of_executions")[0]["execution_count"], told.error["name"]), (1, None), "a new one")


@test("what code prints cannot pass for a line of the protocol")
def _():
    line = '1 {"type": "end_of_execution"}\\n'
    with Kernel() as kernel:
        told = kernel.run(f"import os, sys\nfor fd in range(64):\n  try: os.write(fd, b'{line}')\n  except OSError: pass\n42")
        check(told.value == "42" or told.error["name"], "it was believed")
        same(kernel.run("43").value, "43", "and it goes on")


@test("an interrupt ends what is executed, and not what is known")
def _():
    for language, setup, code, shows in (
            ("python", "x = 5", "import time\nprint('go', flush=True)\nwhile True: time.sleep(1)", "x"),
            ("python", "x = 5", "!echo go; sleep 1000", "x"),
            ("javascript", "const x = 5", "console.log('go'); while (true) {}", "x"),
            ("javascript", "const x = 5", "console.log('go'); await new Promise(() => {})", "x"),
            ("bash", "x=5", "echo go; while true; do sleep 1; done; echo after", "echo $x")):
        with Kernel(language) as kernel:
            kernel.run(setup)
            kernel.begin(code)
            kernel.until_printed("go")
            kernel.ask("interrupt")
            told = kernel.end()
            check("after" not in told.text(), "it went on behind it")
            told = kernel.run(shows)
            same(told.value or told.text().strip(), "5", f"{language}: {code}")


# Node.js takes our handler of SIGINT away before code runs, and puts it back when it waits; between the two a SIGINT ends
# the process. Here that takes a while.
SLOW_HANDLERS = """
const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
const { addListener, removeAllListeners } = process;
process.addListener = function (name, ...rest) { if (name === "SIGINT") pause(); return addListener.call(this, name, ...rest); };
process.removeAllListeners = function (name) { const all = removeAllListeners.call(this, name); if (name === "SIGINT") pause(); return all; };
"""


@test("an interrupt at any moment ends what is executed, and not what is known")
def _():
    with tempfile.TemporaryDirectory() as place:
        slow = os.path.join(place, "slow.js")
        write(slow, SLOW_HANDLERS)
        with Kernel("javascript", env={"NODE_OPTIONS": "--require " + slow}) as kernel:
            kernel.run("const x = 5")
            for begins, code in ((False, "while (true) {}"), (True, "console.log('go'); await new Promise(() => {})"),
                                 (False, "await new Promise(() => {})"), (True, "console.log('go'); while (true) {}")):
                kernel.begin(code)
                if begins:
                    kernel.until_printed("go")
                kernel.ask("interrupt")
                kernel.ask("interrupt")
                same(kernel.end().error["name"], "Interrupted", code)
                same(kernel.run("x").value, "5", code)
    # Before there is a worker that could know anything; and while the code ends by itself.
    for language, code, empty in (("python", "while True: pass", "x = 5"), ("javascript", "while (true) {}", "var x = 5"),
                                  ("bash", "while true; do :; done", "x=5")):
        with Kernel(language) as kernel:
            kernel.begin(code)
            kernel.ask("interrupt")
            check(kernel.end().error["name"] != "KernelDied", "%s: a first execution" % language)
            kernel.run(empty)
            for n in range(100):
                kernel.begin(":" if language == "bash" else "1")
                kernel.ask("interrupt")
                kernel.end()
                if n % 5 == 0:  # none is left for the next
                    told = kernel.run("echo $x" if language == "bash" else "x")
                    same(told.value or told.text().strip(), "5", language)


LOOPS = (
    "await null; console.log('go'); while (true) {}",
    "await new Promise((done) => setTimeout(done, 10)); console.log('go'); while (true) {}",
    "setTimeout(() => { console.log('go'); for (;;); }, 5); await new Promise(() => {})",
    "setImmediate(() => { console.log('go'); for (;;); }); await new Promise(() => {})",
    "await 1; process.nextTick(() => { console.log('go'); for (;;); }); await new Promise(() => {})",
    "await fs.promises.readFile('/etc/passwd'); console.log('go'); for (;;);",
    "await 1; console.log('go'); for (;;) await null",
    "child.exec('true', () => { console.log('go'); for (;;); }); await new Promise(() => {})",
    "Promise.resolve().then(() => { console.log('go'); for (;;); }); await new Promise(() => {})",
)
# Each by another way through Node.js, which could have been left in the midst of it.
STILL_WORKS = (
    ("x", "5"),
    ("await new Promise((done) => setTimeout(() => done(6), 3))", "6"),
    ("await new Promise((done) => setImmediate(done, 7))", "7"),
    ("await new Promise((done) => process.nextTick(done, 8))", "8"),
    ("(await fs.promises.readFile('/etc/passwd')).length > 0", "true"),
    ("await new Promise((done) => child.exec('echo 9', (error, out) => done(out)))", "9\n"),
)


@test("javascript: what loops after it has waited is ended by an interrupt, and what is known stays")
def _():
    with Kernel("javascript") as kernel:
        kernel.run("var x = 5, fs = require('fs'), child = require('child_process')")
        for code in (2 if os.environ.get("ATOLL_LONG") else 1) * LOOPS:  # each loops for a second until it is ended
            kernel.begin(code)
            kernel.until_printed("go")
            kernel.ask("interrupt")
            told = kernel.end()
            same((told.error["name"], told.text("stderr")), ("Interrupted", ""), code)
            for ask, value in STILL_WORKS:
                same(kernel.run(ask).value, value, f"{ask}, after {code}")


@test("an interrupt in the midst of printing ends that, and not what is printed later")
def _():
    for language, code, later in (("python", "while True: print('go')", "print('later')"),
                                  ("javascript", "while (true) console.log('go')", "console.log('later'); console.error('too')"),
                                  ("javascript", "while (true) process.stdout.write('go\\n')", "process.stdout.write('later', () => 0)"),
                                  ("bash", "while true; do echo go; done", "echo later")):
        with Kernel(language) as kernel:
            kernel.run("x=5")
            for _ in range(10):
                kernel.begin(code)
                kernel.until_printed("go")
                kernel.ask("interrupt")
                kernel.end()
                told = kernel.run(later)
                same((told.text().strip(), told.error["name"]), ("later", None), language)
            told = kernel.run("echo $x" if language == "bash" else "x")
            same(told.value or told.text().strip(), "5", language)
    with Kernel("javascript") as kernel:
        told = kernel.run("process.stdout.write(Buffer.from('b')); process.stdout.write('c3', 'hex'); process.stdout.write(new Uint8Array([0xa9]));"
                          "await new Promise((done) => process.stdout.write('!', done)); require('stream').Readable.from(['p']).pipe(process.stdout);"
                          "await new Promise((done) => setTimeout(done, 50)); console.log('x'.repeat(300000))")
        same(told.text(), "bé!p" + "x" * 300000 + "\n", "ways to print")


def worker_of(kernel):
    return int(open("/proc/%d/task/%d/children" % (kernel.process.pid, kernel.process.pid)).read().split()[0])


@test("what only had no chance to react to an interrupt is not killed: the time does not count in which all stood still")
def _():
    with Kernel() as kernel:
        kernel.run("x = 5")
        kernel.begin("import time\nprint('go', flush=True)\nwhile True: time.sleep(1)")
        kernel.until_printed("go")
        worker = worker_of(kernel)
        os.kill(worker, signal.SIGSTOP)
        kernel.ask("interrupt")
        until(lambda: int(re.search(r"^ShdPnd:\s*(\w+)", read("/proc/%d/status" % worker).decode(), re.M)[1], 16) & 2)
        os.kill(kernel.process.pid, signal.SIGSTOP)
        time.sleep(7)
        os.kill(kernel.process.pid, signal.SIGCONT)
        time.sleep(0.1)
        os.kill(worker, signal.SIGCONT)
        same(kernel.end().error["name"], "KeyboardInterrupt", "the execution")
        same(kernel.run("x").value, "5", "what it knew")


STARVED = """
import os, signal, subprocess, sys
delay = lambda: int(open("/proc/self/schedstat").read().split()[1])
cpu = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpu})
busy = "import os\\nparent = os.getppid()\\nprint(flush=True)\\nwhile os.getppid() == parent: pass"
loops = [subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE, start_new_session=True) for _ in range(2)]
for loop in loops:
    loop.stdout.readline()
try:
    print("go", flush=True)
    while True: pass
except KeyboardInterrupt:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    since = delay()
    while delay() - since < 6e9: pass
finally:
    for loop in loops:
        loop.kill()
    signal.signal(signal.SIGINT, handler)
    os._had_to_wait = True
"""


@test("nor does the time in which it waited for a CPU")
def _():
    if not os.path.exists("/proc/self/schedstat"):
        skip("the kernel does not tell who waits for a CPU")
    with Kernel() as kernel:
        kernel.run("x = 5")
        kernel.begin(STARVED)
        kernel.until_printed("go")
        kernel.ask("interrupt")
        same(kernel.end().error["name"], None, "the execution")
        same(kernel.run("assert os._had_to_wait\nx").value, "5", "what it knew")


@test("who does not care about interrupts is killed; a sync is answered when nothing runs")
def _():
    with Kernel() as kernel:
        kernel.begin("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('go')\nwhile True: time.sleep(1)")
        kernel.until_printed("go")
        kernel.ask("sync", id=77)
        same(kernel.end().error["name"], "KernelDied", "the execution")
        same(kernel.line(), (77, {"type": "sync"}), "the answer")
        same(kernel.run("1").value, "1", "and it goes on")


@test("a slow reader makes code wait, and loses nothing")
def _():
    with Kernel() as kernel:
        same(len(kernel.run("for i in range(100000): print('x' * 99)").text()), 10_000_000, "of 10 MB")


@test("javascript: names anew, await, imports, results, errors, output")
def _():
    with Kernel("javascript") as kernel:
        same(kernel.run('const x = 1; console.log("hi é"); x').text(), "hi é\n", "console.log")
        same(kernel.run("const x = 2; x + 1").value, "3", "declared anew")
        same(kernel.run("await new Promise((r) => setTimeout(() => r(5), 1))").value, "5", "await")
        same(kernel.run('import fs, { readFileSync as r } from "fs"\ntypeof fs + typeof r').value, "objectfunction", "import")
        same(kernel.run('import { join as j } from "path"; import * as p from "node:path" // both\nj("a", "b") + (typeof p.join)').value, "a/bfunction",
             "import, with more on its line")
        same(kernel.run('\n  import os from "os"\n  let k = 1; import "fs"; typeof os.platform').value, "function", "import, indented")
        same(kernel.run('`\nimport x from "y"\n` // import z from "z"').value, '\nimport x from "y"\n', "what is no import")
        same(kernel.run('const os = await import("node:os"); typeof os.cpus').value, "function", "import()")
        same(kernel.run("'import(1)'").value, "import(1)", "in a text it stays")
        same(kernel.run("({ a: [1, 2] })").value, "{ a: [ 1, 2 ] }", "an object")
        same(kernel.run("undefined").result, None, "nothing")
        same(kernel.run("10n").value, "10n", "a large number")
        told = kernel.run("function f() { throw new TypeError('no') }\nf()")
        same((told.error["name"], told.error["value"]), ("TypeError", "no"), "an error")
        check("at f (" in told.error["traceback"] and "node:" not in told.error["traceback"], told.error["traceback"])
        same(kernel.run("let a = [").error["name"], "SyntaxError", "no JavaScript")
        same(kernel.run('require("child_process").execSync("echo child", { stdio: "inherit" }); console.error("e")').text(),
             "child\n", "a program's output")
        same(kernel.run("display({ _repr_html_() { return '<b>' } })").of("result")[0]["html"], "<b>", "display()")
        kernel.run("setTimeout(() => { throw new Error('late') }, 0)")
        same(kernel.run("await new Promise((r) => setTimeout(r, 5)); 3").value, "3", "an error of nobody ends nothing")


@test("bash: one shell, with its directory, functions and variables")
def _():
    with Kernel("bash") as kernel:
        kernel.run("X=1; f() { echo f$1; }; cd /usr")
        same(kernel.run("echo $X; f 2; pwd; read line; echo $?").text(), "1\nf2\n/usr\n1\n", "all is there")
        told = kernel.run("echo out; false")
        same((told.text(), told.error["name"], told.error["value"]), ("out\n", "ExitStatus", "1"), "a command that fails")
        same(kernel.run("if").error["value"], "2", "no shell code")
        same(kernel.run("echo on").text(), "on\n", "and it goes on")


@test("a kernel ends with whoever reads it, and takes its worker along")
def _():
    with Kernel() as kernel:
        kernel.begin("import os\nprint(os.getpid(), flush=True)\nwhile True: pass")
        pid = int(kernel.until_printed("\n").text())
    until(lambda: not os.path.exists(f"/proc/{pid}") or open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1][0] == "Z")


main()
