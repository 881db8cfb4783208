"use strict";
/*
 * What the page shows, from the object in "data". Texts become text nodes, never markup.
 */
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const main = document.getElementById("main");
	const TONES = ["plain", "quiet", "main", "good", "bad", "alarm", "net", "change"];
	const PAGE = 100;

	/* ---- pieces ---- */

	function h(name, props, ...children) {
		const element = document.createElement(name);
		for (const [key, value] of Object.entries(props || {})) {
			if (value === null || value === undefined || value === false)
				continue;
			if (key === "class")
				element.className = value;
			else if (key.startsWith("on"))
				element.addEventListener(key.slice(2), value);
			else
				element.setAttribute(key, value === true ? "" : value);
		}
		element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
		return element;
	}

	const SVG = "http://www.w3.org/2000/svg";
	function s(name, props, ...children) {
		const element = document.createElementNS(SVG, name);
		for (const [key, value] of Object.entries(props || {}))
			element.setAttribute(key, value);
		element.append(...children);
		return element;
	}

	const number = (n) => Number(n).toLocaleString("en");
	const count = (n, one, many) => `${number(n)} ${n === 1 ? one : many || one + "s"}`;
	const fixed = (value, digits) => value.toFixed(digits);

	function span(ms) {
		if (ms < 1)
			return `${Math.round(ms * 1000)} µs`;
		if (ms < 1000)
			return `${fixed(ms, ms < 10 ? 1 : 0)} ms`;
		if (ms < 60000)
			return `${fixed(ms / 1000, ms < 10000 ? 2 : 1)} s`;
		if (ms < 3600000)
			return `${Math.floor(ms / 60000)} min ${Math.round(ms / 1000) % 60} s`;
		return `${Math.floor(ms / 3600000)} h ${Math.floor(ms / 60000) % 60} min`;
	}
	/* A moment: how long after the beginning. */
	const moment = (ms) => `+${fixed(ms / 1000, 3)} s`;

	function bytes(n) {
		const units = ["B", "KiB", "MiB", "GiB", "TiB"];
		let i = 0;
		for (; n >= 1024 && i < units.length - 1; i++)
			n /= 1024;
		return `${i && n < 100 ? fixed(n, 1) : Math.round(n)} ${units[i]}`;
	}
	const badge = (text, kind) => h("span", { class: `badge ${kind || text}` }, text);
	const note = (text, kind) => h("p", { class: `note ${kind || ""}` }, text);

	const sections = [];
	function section(id, title, lead, total, isBad) {
		const element = h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title),
			lead ? h("p", { class: "lead" }, lead) : null);
		sections.push({ id, title, total, isBad });
		main.append(element);
		return element;
	}

	/* ---- tables: sorted by a column, filtered, a page at a time ---- */

	function table(options) {
		const state = { rows: options.rows, page: 0, sort: null, down: false, text: "", test: null };
		const body = h("tbody");
		const said = h("span", { class: "said", role: "status" });
		const back = h("button", { type: "button", onclick: () => turn(-1) }, "Previous");
		const next = h("button", { type: "button", onclick: () => turn(1) }, "Next");
		const heads = options.columns.map((column) => h("th", { scope: "col", class: column.num ? "num" : null },
			column.sort ? h("button", { type: "button", onclick: () => order(column) }, column.name) : column.name));
		const search = h("input", { type: "search", placeholder: options.search || "Filter", "aria-label": options.search || "Filter",
			oninput: () => { state.text = search.value.toLowerCase(); state.page = 0; draw(); } });
		const tools = h("div", { class: "tools" }, options.rows.length > 8 ? search : null, options.tools || [], said, back, next);

		function order(column) {
			state.down = state.sort === column ? !state.down : false;
			state.sort = column;
			heads.forEach((head, i) => options.columns[i] === column
				? head.setAttribute("aria-sort", state.down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
			draw();
		}
		function turn(by) {
			state.page += by;
			draw();
		}
		function draw() {
			let rows = options.rows;
			if (state.text)
				rows = rows.filter((row) => options.text(row).toLowerCase().includes(state.text));
			if (state.test)
				rows = rows.filter(state.test);
			if (state.sort) {
				const value = state.sort.sort, sign = state.down ? -1 : 1;
				rows = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * sign);
			}
			const pages = Math.max(1, Math.ceil(rows.length / PAGE));
			state.page = Math.min(Math.max(0, state.page), pages - 1);
			const from = state.page * PAGE, shown = rows.slice(from, from + PAGE);
			body.replaceChildren(...shown.map((row) => h("tr", { class: options.tone ? options.tone(row) : null },
				options.columns.map((column) => h("td", { class: column.num ? "num" : column.class, "data-label": column.name },
					column.show(row))))));
			said.textContent = rows.length > PAGE ? `${number(from + 1)} to ${number(from + shown.length)} of ${number(rows.length)}`
				: rows.length === options.rows.length ? count(rows.length, options.one, options.many) : `${number(rows.length)} of ${number(options.rows.length)}`;
			back.hidden = next.hidden = pages === 1;
			back.disabled = state.page === 0;
			next.disabled = state.page === pages - 1;
		}
		draw();
		return {
			nodes: [tools, h("div", { class: "scroll" }, h("table", { class: "cards" },
				h("caption", {}, options.caption), h("thead", {}, h("tr", {}, heads)), body))],
			test(test) { state.test = test; state.page = 0; draw(); },
		};
	}

	/* ---- summary ---- */

	function facts(step) {
		const rows = [["Command", step.command, true], ["Workspace", step.workspace, true], ["Directory", step.cwd, true], ["Mode", step.mode],
			["Tier", step.tier], ["Job file", step.job, true], ["Host's user", step.user], ["Contract", step.contract, true],
			["Input", step.input, true], ["Image", step.image, true], ["Ended", step.end || "not yet"], ["Exit status", step.status],
			["Environment", (step.env || []).join(" "), true]];
		return h("dl", {}, rows.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([name, value, isCode]) =>
			[h("dt", {}, name), h("dd", {}, isCode ? h("code", {}, value) : String(value))]));
	}

	function usage(step) {
		if (!step.usage || !step.usage.length)
			return null;
		return [h("h3", {}, "Used"), h("dl", {}, step.usage.flatMap((each) => {
			const fill = h("i", { class: each.share >= .9 ? "full" : null });
			fill.style.width = `${Math.min(100, Math.max(each.share * 100, .5))}%`;
			return [h("dt", {}, each.name), h("dd", {}, each.used, each.limit ? h("span", { class: "said" }, ` of ${each.limit}`) : null,
				each.limit ? h("span", { class: "bar" }, fill) : null)];
		}))];
	}

	function clauses(list) {
		const rows = new Map();
		for (const each of list) {
			const key = `${each.strength} ${each.clause}`;
			if (!rows.has(key))
				rows.set(key, { ...each, all: [] });
			if (each.mechanism)
				rows.get(key).all.push(each.mechanism);
		}
		return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["Clause", "Strength", "Mechanism"].map((name) => h("th", { scope: "col" }, name)))),
			h("tbody", {}, [...rows.values()].map((each) => h("tr", {}, h("td", {}, each.clause), h("td", {}, badge(each.strength)),
				h("td", {}, [...new Set(each.all)].map((text) => h("div", {}, text))))))));
	}

	function mechanisms(step) {
		if (!step.mechanisms.length)
			return null;
		const weaker = step.mechanisms.filter((each) => each.strength !== "enforced"), rest = step.mechanisms.filter((each) => each.strength === "enforced");
		const names = new Set(weaker.map((each) => each.clause));
		return [h("h3", {}, "What holds it"), h("p", { class: "said" }, weaker.length
			? `${count(names.size, "clause")} held by less than full enforcement` + (step.accepted.length ? `; accepted: ${step.accepted.join(", ")}` : "")
			: "Every clause is enforced."), weaker.length ? clauses(weaker) : null,
		rest.length ? h("details", { class: "more" }, h("summary", {}, `${count(new Set(rest.map((each) => each.clause)).size, "clause")} enforced, and by what`), clauses(rest)) : null].filter(Boolean);
	}

	function summary() {
		const place = section("summary", "Summary", null);
		const total = (kind) => data.totals[kind] || 0;
		const marked = data.changes.filter((each) => each.mark).length;
		const refused = data.denials.reduce((sum, each) => sum + each.count, 0);
		const numbers = [[data.tree.total - data.steps.length, "processes"], [data.n_connections, "connections"], [refused, "denials", "bad"], [data.n_changes, "changed files"], [marked, "the host would trust", "alarm"], [data.flags.length, "flags", "alarm"],
			[total("approval"), "approvals"]];
		place.append(h("ul", { class: "numbers" }, numbers.filter(([n], i) => n > 0 || i < 2 || i === 3).map(([n, name, kind]) =>
			h("li", { class: n > 0 ? kind : null }, h("b", {}, number(n)), h("span", {}, name)))));
		if (data.bad_lines)
			place.append(note(`${count(data.bad_lines, "line")} of the log could not be read: somebody has changed it, or it is damaged.`, "bad"));
		if (total("lost"))
			place.append(note("Some events could not be recorded; the list of events says how many, and why.", "bad"));
		data.steps.slice(0, 50).forEach((step, i) => {
			const parts = h("div", { class: "columns" }, h("div", {}, h("h3", {}, "What was asked"), facts(step)), h("div", {}, usage(step)));
			const held = mechanisms(step);
			if (data.steps.length === 1)
				place.append(parts, ...(held || []));
			else
				place.append(h("details", { class: "file", open: i === 0 }, h("summary", {}, badge(step.end || "not ended", !step.end ? "open" : step.good ? "good" : "bad"),
					h("code", {}, `${step.number}  ${step.command}`)), h("div", { class: "inside" }, parts, held)));
		});
		if (data.steps.length > 50)
			place.append(note(`${count(data.steps.length - 50, "step")} more left out here.`));
		if (!data.steps.length)
			place.append(note("No step has begun."));
	}

	/* ---- timeline ---- */

	const LANE_NAMES = { steps: "Steps", programs: "Programs", connections: "Connections", changes: "Changed files", denials: "Denials", attention: "Attention" };
	let onRange = () => {};

	function timeline() {
		const place = section("timeline", "Timeline", "Drag across it to look closer; the list of events follows.");
		const whole = Math.max(data.span, .001);
		const state = { from: 0, to: whole, hidden: new Set() };
		const lanes = data.lanes.map((lane) => {
			let at = 0;
			return { name: lane.name, times: Float64Array.from(lane.times, (delta) => (at += delta) / 1000).sort() };
		}).filter((lane) => lane.times.length);
		const plot = h("div", { class: "plot" });
		const said = h("span", { class: "said", role: "status" });
		const keys = lanes.map((lane) => h("button", { type: "button", "aria-pressed": "true", "data-lane": lane.name, onclick: (event) => {
			const isHidden = state.hidden.has(lane.name);
			isHidden ? state.hidden.delete(lane.name) : state.hidden.add(lane.name);
			event.currentTarget.setAttribute("aria-pressed", String(isHidden));
			draw();
		} }, h("span", { class: `dot lane-${lane.name}` }), `${LANE_NAMES[lane.name]} ${number(lane.times.length)}`));

		function zoom(from, to) {
			const least = Math.max(whole / 1e6, .001), length = Math.min(whole, Math.max(least, to - from));
			state.from = Math.min(Math.max(0, from), whole - length);
			state.to = state.from + length;
			draw();
			onRange(state.from <= 0 && state.to >= whole ? null : [state.from, state.to]);
		}
		const by = (factor) => {
			const middle = (state.from + state.to) / 2, half = (state.to - state.from) / 2 * factor;
			zoom(middle - half, middle + half);
		};
		const move = (share) => zoom(state.from + (state.to - state.from) * share, state.to + (state.to - state.from) * share);
		const button = (name, action) => h("button", { type: "button", onclick: action }, name);
		place.append(h("div", { class: "tools" }, keys), h("div", { class: "tools" }, button("Zoom in", () => by(.5)), button("Zoom out", () => by(2)),
			button("Earlier", () => move(-.5)), button("Later", () => move(.5)), button("All", () => zoom(0, whole)), said), plot);

		const first = (times, value) => {
			let low = 0, high = times.length;
			while (low < high) {
				const middle = (low + high) >> 1;
				times[middle] < value ? low = middle + 1 : high = middle;
			}
			return low;
		};
		const LEFT = 112, ROW = 34, GAP = 6;
		let width = 800;
		const x = (time) => left() + (time - state.from) / (state.to - state.from) * (width - left() - 8);
		const left = () => width < 520 ? 8 : LEFT;

		function axis(height) {
			const length = state.to - state.from, rough = length / Math.max(2, Math.floor(width / 130));
			const power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
			const group = s("g");
			const digits = Math.max(0, Math.ceil(-Math.log10(step / 1000)));
			for (let time = Math.ceil(state.from / step) * step; time <= state.to; time += step)
				group.append(s("line", { class: "grid", x1: x(time), x2: x(time), y1: 0, y2: height - 18 }),
					s("text", { x: x(time), y: height - 4, "text-anchor": x(time) > width - 40 ? "end" : x(time) < 24 ? "start" : "middle" }, `${fixed(time / 1000, Math.min(digits, 6))} s`));
			return group;
		}
		function marks(lane, top) {
			const size = 3, n = Math.floor((width - left() - 8) / size), each = (state.to - state.from) / n;
			const counts = new Uint32Array(n + 1);
			const begin = first(lane.times, state.from);
			let most = 0;
			for (let i = begin; i < lane.times.length && lane.times[i] <= state.to; i++) {
				const bin = Math.min(n - 1, Math.floor((lane.times[i] - state.from) / each));
				most = Math.max(most, ++counts[bin]);
			}
			const group = s("g", { class: `marks lane-${lane.name}` });
			counts.forEach((total, bin) => {
				if (!total)
					return;
				const share = most > 1 ? .35 + .65 * Math.log(total) / Math.log(most) : 1, tall = (ROW - GAP) * share;
				group.append(s("rect", { x: left() + bin * size, y: top + ROW - tall, width: size - .5, height: tall, rx: 1 },
					s("title", {}, `${LANE_NAMES[lane.name]}: ${total} at ${span(state.from + bin * each)}`)));
			});
			return group;
		}
		let svg = null;
		function draw() {
			const shown = lanes.filter((lane) => !state.hidden.has(lane.name));
			const height = shown.length * ROW + 26;
			width = Math.max(240, plot.clientWidth);
			svg = s("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
				"aria-label": `Timeline from ${span(state.from)} to ${span(state.to)}; the list of events has the same as text` });
			shown.forEach((lane, i) => {
				svg.append(s("rect", { class: "row", x: left(), y: i * ROW + GAP, width: width - left() - 8, height: ROW - GAP, rx: 3 }));
				if (left() === LEFT)
					svg.append(s("text", { class: "name", x: 0, y: i * ROW + GAP + 18 }, LANE_NAMES[lane.name]));
			});
			svg.append(axis(height));
			shown.forEach((lane, i) => svg.append(marks(lane, i * ROW)));
			plot.replaceChildren(svg);
			said.textContent = state.from <= 0 && state.to >= whole ? `All of ${span(whole)}` : `${span(state.from)} to ${span(state.to)}`;
		}

		let begin = null, brush = null;
		const at = (event) => {
			const box = plot.getBoundingClientRect();
			const share = (event.clientX - box.left - left()) / (width - left() - 8);
			return state.from + Math.min(1, Math.max(0, share)) * (state.to - state.from);
		};
		plot.addEventListener("pointerdown", (event) => {
			if (event.button !== 0)
				return;
			begin = at(event);
			plot.setPointerCapture(event.pointerId);
			brush = s("rect", { class: "brush", y: 0, height: svg.getAttribute("height") - 18, x: x(begin), width: 0 });
			svg.append(brush);
		});
		plot.addEventListener("pointermove", (event) => {
			if (begin === null)
				return;
			const a = x(Math.min(begin, at(event))), b = x(Math.max(begin, at(event)));
			brush.setAttribute("x", a);
			brush.setAttribute("width", b - a);
		});
		plot.addEventListener("pointerup", (event) => {
			if (begin === null)
				return;
			const end = at(event), a = Math.min(begin, end), b = Math.max(begin, end);
			begin = null;
			brush.remove();
			if (x(b) - x(a) > 4)
				zoom(a, b);
		});
		plot.addEventListener("pointercancel", () => { begin = null; draw(); });
		draw();
		new ResizeObserver(() => { if (Math.abs(plot.clientWidth - width) > 2) draw(); }).observe(plot);
	}

	/* ---- what was refused ---- */

	function denials() {
		const total = data.denials.reduce((sum, each) => sum + each.count, 0);
		const place = section("denials", "Denials", total ? "What the contract did not allow, and what would." : null, total, total > 0);
		if (!total) {
			place.append(h("p", { class: "empty" }, "Nothing was refused."));
			return;
		}
		if (data.denials_left)
			place.append(note(`${number(data.denials_left)} more are left out here; "atoll log --denials" has all.`));
		place.append(...more(h("ul", { class: "refused-list" }), data.denials, 50, (each) => h("li", {},
			h("p", {}, badge(each.kind === "limit" ? "limit" : each.action || "refused", "denial"), " ", h("code", {}, each.kind === "limit" ? each.text : each.object || each.text),
				each.count > 1 ? h("span", { class: "said" }, ` ${number(each.count)} times`) : null),
			h("p", { class: "why" }, [each.kind === "limit" ? null : each.rule, each.who.trim() ? `by ${each.who.trim()}` : null, `at ${moment(each.time)}`].filter(Boolean).join(" · ")),
			each.allow ? h("p", { class: "allow" }, h("span", {}, "To allow it:"), h("code", {}, each.allow)) : null)));
	}

	/* A list with the first so many of its items, and a button for the next. */
	function more(list, items, size, make) {
		let at = 0;
		const button = h("button", { type: "button", onclick: () => add() });
		const rest = h("p", { class: "tools" }, button);
		function add() {
			list.append(...items.slice(at, at + size).map(make));
			at = Math.min(items.length, at + size);
			rest.hidden = at === items.length;
			button.textContent = `Show ${number(Math.min(size, items.length - at))} more of ${number(items.length - at)}`;
		}
		add();
		return rest.hidden ? [list] : [list, rest];
	}

	function attention() {
		const notes = [...data.flags, ...data.approvals].sort((a, b) => a.seq - b.seq);
		if (!notes.length)
			return;
		const place = section("attention", "Flags and approvals", "What a rule or a monitor had to say, and what people decided.", notes.length, data.flags.length > 0);
		place.append(...table({ caption: "Flags and approvals, in order", one: "entry", many: "entries", rows: notes, text: (row) => row.text, columns: [
			{ name: "When", class: "fit", show: (row) => moment(row.time) }, { name: "Kind", class: "fit", show: (row) => badge(row.kind) },
			{ name: "What", show: (row) => row.text }] }).nodes);
	}

	/* ---- processes ---- */

	function processes() {
		const items = data.tree.items.map((item, i) => ({ i, up: item[0], pid: item[1], through: item[2], text: item[3], time: item[4], below: item[5],
			step: item[6], acts: item[7], children: [], bad: 0 }));
		for (const item of items)
			if (item.up >= 0)
				items[item.up].children.push(item);
		for (let i = items.length - 1; i >= 0; i--) {
			items[i].bad += items[i].acts.filter((act) => act[5]).length;
			if (items[i].up >= 0)
				items[items[i].up].bad += items[i].bad;
		}
		const total = data.tree.total - data.steps.length;
		const place = section("processes", "Processes", "Who started whom, and what each of them did. Processes that only forked are left out.", Math.max(0, total));
		if (data.tree.left_out)
			place.append(note(`${count(data.tree.left_out, "process", "processes")} of ${number(data.tree.total)} are left out here; "atoll log --tree" has all.`));
		if (data.tree.acts_left_out)
			place.append(note(`${number(data.tree.acts_left_out)} of what they did is left out here; "atoll log --tree" has all.`));

		const act = ([kind, tone, time, text, allow]) => h("div", { class: `act ${TONES[tone]}` }, badge(kind === "exec" ? "then" : kind), text,
			allow ? h("span", { class: "allow" }, h("span", {}, "To allow it:"), h("code", {}, allow)) : null);
		/* Long command lines would hide the tree; the list of events has them. */
		const short = (text) => text.length > 240 ? h("span", { title: text }, `${text.slice(0, 220)} …`) : text;
		const command = (item) => (data.steps.find((step) => step.number === item.step) || { command: item.text }).command;
		const head = (item) => [h("span", { class: "pid" }, item.up < 0 ? `step ${item.step}` : String(item.pid)), short(item.up < 0 ? command(item) : item.text),
			item.through ? h("span", { class: "below" }, `through ${item.through}`) : null,
			item.children.length ? h("span", { class: "below" }, count(item.below, "process", "processes")) : null,
			item.bad ? h("span", { class: "below" }, badge(`${number(item.bad)} refused`, "bad")) : null];
		function node(item, depth) {
			if (!item.children.length && !item.acts.length)
				return h("li", {}, h("div", { class: "leaf" }, head(item)));
			const details = h("details", {}, h("summary", {}, head(item)));
			let isFilled = false;
			details.fill = () => {
				if (isFilled)
					return;
				isFilled = true;
				details.append(h("div", {}, item.acts.slice(0, 200).map(act), item.acts.length > 200 ? note(`${number(item.acts.length - 200)} more`) : null), ...more(h("ul"), item.children, 100, (child) => node(child, depth + 1)));
			};
			details.addEventListener("toggle", () => { if (details.open) details.fill(); });
			if (opened < 28 && (depth < 2 || item.bad || item.children.length === 1 || depth < 4)) {
				opened += 1 + Math.min(item.children.length, 100) / 8;
				details.open = true;
				details.fill();
			}
			return h("li", {}, details);
		}
		let opened = 0;
		const tree = h("ul", { class: "tree" });
		const all = (isOpen) => {
			let n = 0;
			for (let round = 0; round < (isOpen ? 64 : 1); round++) {
				const list = [...tree.querySelectorAll(isOpen ? "details:not([open])" : "details[open]")].slice(0, 600 - n);
				if (!list.length)
					break;
				for (const each of list) {
					if (isOpen)
						each.fill();
					each.open = isOpen;
				}
				n += isOpen ? list.length : 0;
			}
		};
		place.append(h("div", { class: "tools" }, h("button", { type: "button", onclick: () => all(true) }, "Open all"),
			h("button", { type: "button", onclick: () => all(false) }, "Close all")), ...more(tree, items.filter((item) => item.up < 0), 100, (item) => node(item, 0)));
		if (!items.length)
			place.append(h("p", { class: "empty" }, "No program was recorded."));
	}

	/* ---- connections ---- */

	function connections() {
		const refused = data.connections.filter((each) => each.verdict === "refused").length;
		const place = section("connections", "Connections", null, data.n_connections, refused > 0);
		if (!data.n_connections) {
			place.append(h("p", { class: "empty" }, "There was none."));
			return;
		}
		if (data.n_connections > data.connections.length)
			place.append(note(`The first ${number(data.connections.length)} of ${number(data.n_connections)}; "atoll log --kind connection" has all.`));
		const toggles = ["allowed", "refused", "failed"].filter((verdict) => data.connections.some((each) => each.verdict === verdict));
		const off = new Set();
		const buttons = toggles.length < 2 ? [] : toggles.map((verdict) => h("button", { type: "button", "aria-pressed": "true", onclick: (event) => {
			off.has(verdict) ? off.delete(verdict) : off.add(verdict);
			event.currentTarget.setAttribute("aria-pressed", String(!off.has(verdict)));
			list.test(off.size ? (row) => !off.has(row.verdict) : null);
		} }, verdict[0].toUpperCase() + verdict.slice(1)));
		const list = table({ caption: "Connections, in order", one: "connection", rows: data.connections, tools: buttons, search: "Filter by name, program, rule",
			text: (row) => [row.target, row.program, row.rule, row.reason, row.request].join(" "), columns: [
				{ name: "When", class: "fit", sort: (row) => row.time, show: (row) => moment(row.time) },
				{ name: "To", class: "", sort: (row) => row.target, show: (row) => h("code", {}, row.target) },
				{ name: "Verdict", class: "fit", sort: (row) => row.verdict || "", show: (row) => [badge(row.verdict || "?"), row.count > 1 ? ` ${number(row.count)} times` : null] },
				{ name: "Why", show: (row) => [row.reason || row.rule || "", row.request ? h("div", {}, h("code", {}, row.request)) : null] },
				{ name: "By", show: (row) => [row.pid ? `${row.pid} ` : "", row.program || ""] },
				{ name: "Sent", num: true, sort: (row) => row.sent, show: (row) => row.sent ? bytes(row.sent) : "" },
				{ name: "Received", num: true, sort: (row) => row.received, show: (row) => row.received ? bytes(row.received) : "" },
				{ name: "Time", num: true, sort: (row) => row.duration, show: (row) => row.duration ? span(row.duration) : "" }] });
		place.append(...list.nodes);
	}

	/* ---- changed files ---- */

	function diffText(text) {
		const block = h("pre", { class: "diff", tabindex: "0" });
		for (const line of text.split("\n").slice(0, -1)) {
			const kind = line.startsWith("+++") || line.startsWith("---") ? "f" : line[0] === "+" ? "a" : line[0] === "-" ? "d" : line[0] === "@" ? "h" : "";
			block.append(h("span", { class: kind }, line || " "));
		}
		return block;
	}

	function changes() {
		const marked = data.changes.filter((each) => each.mark);
		const place = section("changes", "Changed files", null, data.n_changes, false);
		if (!data.n_changes) {
			place.append(h("p", { class: "empty" }, "No file was changed."));
			return;
		}
		if (marked.length)
			place.append(note(`${count(marked.length, "change")} that the host would execute or trust come first.`, "bad"));
		if (data.diffs.there)
			place.append(h("p", { class: "lead" }, "Texts are those of the layer when this page was made."));
		else
			place.append(note(`Without texts: ${data.diffs.why}.`));
		if (data.n_changes > data.changes.length)
			place.append(note(`The first ${number(data.changes.length)} of ${number(data.n_changes)}; "atoll log --kind change" has all.`));
		if (data.diffs.left_out)
			place.append(note(`The texts of ${count(data.diffs.left_out, "file")} are left out; "atoll diff" has all.`));
		const list = h("div");
		place.append(...more(list, [...marked, ...data.changes.filter((each) => !each.mark)], 100, (each) => {
			const hasMore = Boolean(each.diff || each.before || each.after);
			const details = h("details", { class: `file ${each.mark ? "marked" : ""} ${hasMore ? "" : "plain"}` }, h("summary", {}, badge(each.change || "changed"),
				h("code", {}, each.from ? `${each.from} → ${each.path}` : each.path), each.mark ? badge(each.mark, "mark") : null,
				each.added !== undefined && !each.binary ? [h("span", { class: "plus" }, `+${number(each.added)}`), h("span", { class: "minus" }, `−${number(each.removed)}`)] : null,
				h("span", { class: "size" }, [each.type && each.type !== "file" ? each.type : null, each.mode, typeof each.size === "number" ? bytes(each.size) : null].filter(Boolean).join(" · "))));
			let isFilled = false;
			details.fill = () => {
				if (isFilled)
					return;
				isFilled = true;
				details.append(h("div", { class: "hashes" }, each.before ? h("div", {}, `before ${each.before}`) : null, each.after ? h("div", {}, `after ${each.after}`) : null));
				if (each.diff)
					details.append(diffText(each.diff));
				if (each.cut)
					details.append(note("It goes on; \"atoll diff\" has all of it."));
			};
			details.addEventListener("toggle", () => { if (details.open) details.fill(); });
			return details;
		}));
		const firsts = [...list.querySelectorAll("details")].slice(0, 8).filter((each) => !each.classList.contains("plain"));
		if (data.diffs.there && data.changes.length <= 8)
			firsts.forEach((each) => { each.open = true; each.fill(); });
	}

	/* ---- events ---- */

	function events() {
		const place = section("events", "Events", null, data.n_events);
		if (data.n_events > data.events.length)
			place.append(note(`${number(data.events.length)} of ${number(data.n_events)} are here: all kinds, but not every execution and change. "atoll log ${data.run}" has all.`));
		const totals = Object.entries(data.totals);
		const off = new Set();
		let range = null;
		const apply = () => list.test(off.size || range ? (row) => !off.has(row[3]) && (!range || (row[1] >= range[0] && row[1] <= range[1])) : null);
		const buttons = totals.length < 2 ? [] : totals.filter(([kind]) => kind !== "other").map(([kind, n]) => h("button", { type: "button", "aria-pressed": "true", "data-kind": kind,
			onclick: (event) => {
				off.has(kind) ? off.delete(kind) : off.add(kind);
				event.currentTarget.setAttribute("aria-pressed", String(!off.has(kind)));
				apply();
			} }, `${kind} ${number(n)}`));
		const none = h("button", { type: "button", onclick: () => press(false) }, "None");
		const every = h("button", { type: "button", onclick: () => press(true) }, "All");
		function press(isOn) {
			buttons.forEach((button) => {
				button.setAttribute("aria-pressed", String(isOn));
				isOn ? off.delete(button.dataset.kind) : off.add(button.dataset.kind);
			});
			apply();
		}
		const hasSteps = data.steps.length > 1;
		const list = table({ caption: "Events, in the order in which they became known", one: "event", rows: data.events, search: "Filter by program, path, name",
			text: (row) => `${row[5]} ${row[6]} ${row[7]}`, tone: (row) => `tone-${TONES[row[4]]}`, columns: [
				{ name: "No.", num: true, sort: (row) => row[0], show: (row) => String(row[0]) },
				{ name: "When", class: "fit", sort: (row) => row[1], show: (row) => moment(row[1]) },
				...(hasSteps ? [{ name: "Step", num: true, sort: (row) => row[2], show: (row) => row[2] ? String(row[2]) : "" }] : []),
				{ name: "Kind", class: "fit", sort: (row) => row[3], show: (row) => badge(row[3]) },
				{ name: "Who", class: "fit", sort: (row) => row[5], show: (row) => row[5] },
				{ name: "What", class: "mono", show: (row) => [row[6], row[7] ? h("div", { class: "allow" }, h("span", {}, "To allow it:"), h("code", {}, row[7])) : null] }] });
		onRange = (wanted) => { range = wanted; apply(); };
		place.append(h("div", { class: "tools" }, buttons, buttons.length ? [every, none] : null), ...list.nodes,
			h("p", { class: "print-only" }, `${count(data.n_events, "event")}; not printed.`));
	}

	/* ---- proof ---- */

	function proof() {
		const { proof: it } = data;
		const place = section("proof", "Proof", "The log's lines form a chain, and its heads are signed. Anybody with the public key can check that nothing was changed, left out or added.");
		const words = { good: "It verified when this page was made", open: "It verified as far as it is signed when this page was made", broken: "It did not verify when this page was made",
			unknown: "It could not be checked when this page was made" };
		place.append(note(`${words[it.finding]}: ${it.text}`, { good: "good", broken: "bad" }[it.finding]));
		const rows = [["Log", data.run], ["Lines", number(it.lines)], ["Signed up to line", it.size ? number(it.size) : "none"], ["Closed", it.closed ? "yes" : "no: the run goes on, or was interrupted"],
			["Root", it.root], ["Key", data.key], ["Store", data.store], ["atoll", data.atoll], ["To check it", `atoll verify ${data.run}`]];
		place.append(h("dl", {}, rows.filter(([, value]) => value).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, value))])));
		if (it.note)
			place.append(h("h3", {}, "Signed head"), h("pre", { class: "diff", tabindex: "0" }, it.note.split("\\n").map((line) => h("span", {}, line || " "))));
	}

	/* ---- the page ---- */

	summary();
	timeline();
	denials();
	attention();
	processes();
	connections();
	changes();
	events();
	proof();
	const local = new Date(data.begin);
	document.getElementById("meta").textContent = `${data.what === "sandbox" ? "Sandbox" : "Run"} ${data.run} · ${isNaN(local) ? data.begin : local.toLocaleString(undefined, { dateStyle: "long", timeStyle: "medium" })} · ${span(data.span)}`;
	document.getElementById("nav").append(h("ul", {}, sections.map((each) => h("li", {}, h("a", { href: `#${each.id}` }, each.title,
		each.total !== undefined ? h("span", { class: `count ${each.isBad ? "bad" : ""}` }, number(each.total)) : null)))));
	document.body.append(h("footer", {}, `Made ${data.made} by atoll ${data.atoll || ""}. This page is complete in itself and asks nobody for anything.`));
	addEventListener("beforeprint", () => [...document.querySelectorAll("details.file, details.more")].slice(0, 100).forEach((each) => { if (each.fill) each.fill(); each.open = true; }));
	document.documentElement.dataset.ready = "yes";
})();
