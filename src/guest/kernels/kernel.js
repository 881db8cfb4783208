// SPDX-License-Identifier: Apache-2.0
//
// Runs JavaScript for one context: the worker that kernel.py starts, as `node -e THIS kernel LANGUAGE`
//
// Code runs in the global scope, as in a browser's console: names may be declared anew, `await` stands anywhere, and the
// value of the last expression is the result. It is the console of V8's inspector that does this. Requests are lines of
// JSON on descriptor 3, answers go to 4; what is printed goes where every program's output goes. A SIGINT ends what is
// being executed: what runs, by vm's breakOnSigint, and what waits for a promise, by no longer waiting. Around what runs
// vm takes our handler away and puts it back, and a SIGINT between the two would end us: so kernel.py is told when one
// may come, and asked (descriptor 5) before vm's handler goes. What loops after it has waited, in a callback or behind an
// `await`, is ended by a thread that kernel.py can still tell of it (descriptor 6) when nobody else is heard any more.
"use strict";

const fs = require("node:fs");
const inspector = require("node:inspector");
const nodeModule = require("node:module");
const path = require("node:path");
const util = require("node:util");
const vm = require("node:vm");
const { pathToFileURL } = require("node:url");
const { Worker } = require("node:worker_threads");

const LANGUAGE = process.argv.at(-1);
const TEXT_MAX = 1 << 20;
const LINE_MAX = (4 << 20) - 4096;
const MIMES = {
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
	"image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
	"application/json": "json", "application/javascript": "javascript",
};

// ---- telling ----

function line(message) {
	return JSON.stringify(message).replace(/[\u007f-\uffff]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

function tell(message) {
	let data = Buffer.from(line(message) + "\n");
	while (data.length) data = data.subarray(fs.writeSync(4, data));
}

// A SIGINT may come; and one that has come was seen.
function tellReady() {
	fs.writeSync(4, "\nready once\n"); // on a line of its own, whatever was interrupted
}

// Until kernel.py knows that no SIGINT may come. One that it has sent (the highest bit of its answer) has come by then;
// but it is a thread of vm's that ends us for it, and it would end what is executed next if we did not wait for that. An
// answer to a question that was interrupted may be left from an earlier execution.
function askToLeave(count) {
	const answer = Buffer.alloc(4);
	tell({ type: "leave" });
	do {
		try {
			if (!fs.readSync(5, answer, 0, 4)) return; // kernel.py is gone
		} catch (error) {
			if (error.code !== "EINTR") throw error;
		}
	} while ((answer.readUInt32LE() & 0x7fffffff) !== count);
	if (answer[3] & 0x80) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60000);
}

function plain(value) {
	const text = typeof value === "string" ? value : util.inspect(value, { maxArrayLength: 1000 });
	return text.length > TEXT_MAX ? text.slice(0, TEXT_MAX) + "..." : text;
}

function content(data) {
	return data instanceof Uint8Array ? Buffer.from(data).toString("base64") : data;
}

// Forms that a value has itself: Symbol.for("Jupyter.display"), or methods with the names that Python's have.
function forms(value) {
	const found = { text: plain(value) };
	if (value === null || typeof value !== "object") return found;
	const own = value[Symbol.for("Jupyter.display")];
	const bundle = typeof own === "function" ? own.call(value) : {};
	for (const [mime, data] of Object.entries(bundle ?? {})) found[MIMES[mime] ?? mime] = content(data);
	for (const kind of ["html", "markdown", "svg", "png", "jpeg", "pdf", "latex", "json", "javascript"]) {
		const name = `_repr_${kind}_`;
		if (!(kind in found) && typeof value[name] === "function") found[kind] = content(value[name]());
	}
	return found;
}

function show(value, isMain) {
	const found = forms(value);
	const message = { type: "result", ...found, is_main_result: isMain };
	while (line(message).length > LINE_MAX) {
		const size = (key) => line(message[key]).length;
		const largest = Object.keys(found).filter((key) => key in message).sort((a, b) => size(b) - size(a))[0];
		delete message[largest];
		message.text = `${message.text ?? ""}\n[left out, more than 4 MiB: ${largest}]`.trimStart();
	}
	tell(message);
}

function tellError(error) {
	if (error === null || typeof error !== "object" || !("stack" in error)) {
		tell({ type: "error", name: "Error", value: plain(error), traceback: plain(error) });
		return;
	}
	const isOurs = (frame) => /^\s+at /.test(frame) && /node:|\[eval\]/.test(frame);
	const stack = String(error.stack).split(/\n\s+at evalmachine/)[0].split("\n").filter((frame) => !isOurs(frame)).join("\n");
	tell({ type: "error", name: String(error.name), value: String(error.message).slice(0, TEXT_MAX),
		traceback: stack.slice(0, TEXT_MAX) });
}

// ---- code ----

const requireHere = nodeModule.createRequire(path.join(process.cwd(), "cell.js"));

function importHere(name) {
	if (nodeModule.isBuiltin(name) || /^(node|data|file):/.test(name)) return import(name);
	if (/^\.{0,2}\//.test(name)) return import(pathToFileURL(path.resolve(name)));
	let found = name;
	try {
		found = pathToFileURL(requireHere.resolve(name)).href;
	} catch {
		// Then import() says itself what is wrong.
	}
	return import(found);
}

const IMPORT = 'globalThis[Symbol.for("atoll.import")]';

// What strings and comments say stays as it is.
const PASSED = /"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|\/\/.*|\/\*[^]*?\*\//.source;
// At the beginning of a statement; a comment, or the next statement, may follow on its line.
const STATIC_IMPORT = new RegExp(`(${PASSED})|` +
	/(?<=^\s*|[;\n}]\s*)import\s+(?:([\w$]+)\s*,?\s*)?(?:\*\s+as\s+([\w$]+)|\{([^}]*)\})?\s*(?:from\s+)?(["'][^"'\n]+["'])[ \t]*(?:;|(?=\n|$|\/\/|\/\*))/.source, "g");
const DYNAMIC_IMPORT = new RegExp(`(${PASSED})|` + /(?<![.\w$])import\s*\(/.source, "g");

// Static imports are not for consoles: they become what a dynamic one says.
function withoutStaticImports(code) {
	return code.replace(STATIC_IMPORT, (whole, passed, one, all, some, from) => {
		if (passed !== undefined) return passed;
		if (!one && !all && some === undefined) return `await import(${from});`;
		const parts = (some ?? "").split(",").map((part) => part.trim().replace(/\s+as\s+/, ": ")).filter(Boolean);
		if (one) parts.unshift(`default: ${one}`);
		return (all ? `const ${all} = await import(${from}); ` : "") +
			(parts.length ? `const { ${parts.join(", ")} } = await import(${from});` : "");
	});
}

// The inspector has no way to import; we have.
function withOurImport(code) {
	return code.replace(DYNAMIC_IMPORT, (whole, passed) => passed ?? `${IMPORT}(`);
}

function prepared(code) {
	if (LANGUAGE === "typescript") {
		if (typeof nodeModule.stripTypeScriptTypes !== "function")
			throw new Error(`TypeScript needs Node.js 22.13 or later; this is ${process.version}`);
		code = nodeModule.stripTypeScriptTypes(code, { mode: "strip" });
	}
	return withOurImport(withoutStaticImports(code));
}

// ---- executing ----

const session = new inspector.Session();
session.connect();

let interrupt = null;
let taken;

// The value behind what the inspector tells of it.
function valueOf(remote) {
	if (!remote.objectId) return "unserializableValue" in remote ? Function(`return ${remote.unserializableValue}`)() : remote.value;
	taken = undefined;
	session.post("Runtime.callFunctionOn", { objectId: remote.objectId,
		functionDeclaration: 'function () { "use strict"; globalThis[Symbol.for("atoll.take")](this); }' });
	return taken;
}

function evaluate(code, count) {
	return new Promise((resolve, reject) => {
		interrupt = () => reject(Object.assign(new Error("the execution was interrupted"), { name: "Interrupted", stack: "" }));
		globalThis[Symbol.for("atoll.run")] = () => {
			tellReady();
			session.post("Runtime.evaluate", {
				expression: code, replMode: true, awaitPromise: true, objectGroup: "cell",
			}, (error, outcome) => error ? reject(error) : resolve(outcome));
			askToLeave(count);
		};
		if (/\b(await|async|then)\b/.test(code)) startBreaker();
		try {
			vm.runInThisContext('globalThis[Symbol.for("atoll.run")]()', { breakOnSigint: true });
		} catch (error) {
			if (error.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED") interrupt();
			else reject(error);
		}
		Atomics.store(waiting, 0, count);
		setImmediate(() => Atomics.load(waiting, 0) === count && startBreaker());
		tellReady();
	});
}

// ---- what loops after it has waited ----

// The number of the execution that waits: only then nothing of ours is executed that could be ended by mistake.
const waiting = new Int32Array(new SharedArrayBuffer(4));

const BREAKER = `
const session = new (require("node:inspector").Session)();
session.connectToMainThread();
const asked = Buffer.alloc(4), { workerData } = require("node:worker_threads");
while (require("node:fs").readSync(6, asked, 0, 4) === 4)
	if (Atomics.load(workerData, 0) === asked.readUInt32LE()) session.post("Runtime.terminateExecution");
`;

// A thread costs some 10 MB: not before it could be of use. It starts by itself, also if we loop from now on.
let breaker = null;
function startBreaker() {
	breaker ??= new Worker(BREAKER, { eval: true, workerData: waiting, env: {}, execArgv: [] }).on("error", () => {});
}

function setEnvironment(wanted) {
	const before = Object.keys(wanted).map((name) => [name, process.env[name]]);
	Object.assign(process.env, wanted);
	return () => before.forEach(([name, value]) =>
		value === undefined ? delete process.env[name] : (process.env[name] = value));
}

async function execute(request) {
	const restore = setEnvironment(request.env);
	try {
		const outcome = await evaluate(prepared(request.code), request.count);
		Atomics.store(waiting, 0, 0);
		const failed = outcome.exceptionDetails;
		if (failed) {
			tellError(failed.exception ? valueOf(failed.exception) : new Error(failed.text));
		} else {
			const value = valueOf(outcome.result);
			if (value !== undefined) show(value, true);
		}
	} catch (error) {
		Atomics.store(waiting, 0, 0);
		tellError(error);
	}
	interrupt = null;
	session.post("Runtime.releaseObjectGroup", { objectGroup: "cell" });
	restore();
	tell({ type: "end" });
}

// A stream of Node.js that is interrupted in the midst of a write may take itself for busy for ever, and print no more.
// Ours knows of nothing but the descriptor. That may be one that does not block, if code or a program made it so.
function printWith(stream, fd) {
	const wait = new Int32Array(new SharedArrayBuffer(4));
	stream.write = (chunk, encoding, done) => {
		let data = typeof chunk === "string" ? Buffer.from(chunk, typeof encoding === "string" ? encoding : "utf8") : chunk;
		while (data.length) {
			try {
				data = data.subarray(fs.writeSync(fd, data));
			} catch (error) {
				if (error.code !== "EAGAIN" && error.code !== "EINTR") break; // nobody reads it
				Atomics.wait(wait, 0, 0, 1);
			}
		}
		const call = typeof encoding === "function" ? encoding : done;
		if (typeof call === "function") process.nextTick(call);
		return true;
	};
}

function hide(name, value) {
	Object.defineProperty(globalThis, name, { value, enumerable: false, writable: true, configurable: true });
}

process.argv.length = 1;
printWith(process.stdout, 1);
printWith(process.stderr, 2);
hide("require", requireHere);
hide("module", { exports: {} });
hide("exports", globalThis.module.exports);
hide("display", (...values) => values.forEach((value) => show(value, false)));
hide(Symbol.for("atoll.import"), importHere);
hide(Symbol.for("atoll.take"), (value) => { taken = value; });
hide(Symbol.for("atoll.run"), null);

// An exit from within the inspector never comes to its end; kernel.py ends us then.
process.exit = process.reallyExit = (code = process.exitCode ?? 0) => {
	tell({ type: "exit", code: Number(code) });
	Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
};

// What fails when nobody waits for it any more is printed, and does not end the context.
process.on("uncaughtException", (error) => console.error("Uncaught", error));
process.on("unhandledRejection", (error) => console.error("Uncaught (in promise)", error));
process.on("SIGINT", () => {
	Atomics.store(waiting, 0, 0);
	interrupt?.();
	tellReady();
});

let rest = Buffer.alloc(0);
fs.createReadStream(null, { fd: 3 }).on("data", (data) => {
	rest = Buffer.concat([rest, data]);
	for (let end; (end = rest.indexOf(10)) >= 0; rest = rest.subarray(end + 1)) {
		const request = JSON.parse(rest.subarray(0, end).toString());
		// The next comes only after the end of this one. Not as the work of a promise, nor beneath the stream: what is
		// ended after it has waited takes with it whatever was about to be done.
		setImmediate(execute, request);
	}
}).on("end", () => process.exit(0));
