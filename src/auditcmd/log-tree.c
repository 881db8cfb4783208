/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/log-tree.h"

#include "auditcmd/describe.h"
#include "auditcmd/events.h"
#include "auditcmd/log-command.h"
#include "auditcmd/processes.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <strings.h>

/*
 * The processes of a run as a tree
 *
 *	step 1: npm test  in /srv/app (layer)
 *	+- 2 /usr/bin/npm test
 *	|  connection registry.example:443 refused: ...
 *	|  +- 3 /bin/sh -c 'node test.js'
 *
 * The indentation ends at DEPTH_MAX, because a log may come from anybody.
 */

#define DEPTH_MAX 48

struct tree_view {
	const struct processes *all;
	const struct log_request *request;
	struct pager *pager;
	bool is_utf8;
	bool has_more[DEPTH_MAX + 1]; /* at each depth: does a sibling follow? */
};

static bool is_utf8_wanted(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

static void tint(const struct tree_view *view, const char *code)
{
	if (view->pager->has_colours)
		fputs(code, view->pager->out);
}

static void print_edge(const struct tree_view *view, int depth, bool is_branch)
{
	FILE *out = view->pager->out;

	tint(view, "\033[2m");
	for (int i = 1; i < depth; i++)
		fputs(!view->has_more[i] ? "   " : view->is_utf8 ? "\xe2\x94\x82  " : "|  ", out);
	if (is_branch && view->is_utf8)
		fputs(view->has_more[depth] ? "\xe2\x94\x9c\xe2\x94\x80 "
					    : "\xe2\x94\x94\xe2\x94\x80 ",
		      out);
	else if (is_branch)
		fputs("+- ", out);
	tint(view, "\033[m");
}

static void print_act(const struct tree_view *view, const struct process_act *act, int depth,
		      bool has_children)
{
	static const char *const codes[] = {[TONE_BAD] = "\033[31m", [TONE_NET] = "\033[36m"};
	FILE *out = view->pager->out;
	const char *code = act->tone < ARRAY_SIZE(codes) ? codes[act->tone] : NULL;

	print_edge(view, depth + 1, false);
	fputs(!has_children ? "   " : view->is_utf8 ? "\xe2\x94\x82  " : "|  ", out);
	tint(view, code ? code : "");
	fprintf(out, "%s %s", streq(act->kind, "exec") ? "then" : act->kind, act->text);
	if (act->allow)
		fprintf(out, " (allow with %s)", act->allow);
	tint(view, code ? "\033[m" : "");
	fputc('\n', out);
}

static void print_process(struct tree_view *view, const struct process *process, int depth)
{
	FILE *out = view->pager->out;

	if (depth > 0 && depth <= DEPTH_MAX)
		view->has_more[depth] = process->next != PROCESS_NONE;
	print_edge(view, depth, depth > 0);
	tint(view, depth == 0 ? "\033[1m" : "");
	if (depth == 0)
		fprintf(out, "step %" PRIu32 ": ", process->step);
	else
		fprintf(out, "%" PRIu64 " ", process->pid);
	fputs(process->text, out);
	tint(view, depth == 0 ? "\033[m" : "");
	if (process->is_indirect)
		fprintf(out, " (through %" PRIu64 ")", process->parent_pid);
	fputc('\n', out);
	for (uint32_t i = process->first_act; i != PROCESS_NONE; i = view->all->acts[i].next)
		print_act(view, &view->all->acts[i], depth, process->first != PROCESS_NONE);
}

/* Prints a step and its processes, without recursion: the depth is not limited by us. */
static void print_step(struct tree_view *view, uint32_t top)
{
	const struct process *items = view->all->items;
	uint32_t i = top;
	int depth = 0;

	while (!ferror(view->pager->out)) {
		print_process(view, &items[i], depth < DEPTH_MAX ? depth : DEPTH_MAX);
		if (items[i].first != PROCESS_NONE) {
			i = items[i].first;
			depth++;
			continue;
		}
		while (i != top && items[i].next == PROCESS_NONE) {
			i = items[i].up;
			depth--;
		}
		if (i == top)
			return;
		i = items[i].next;
	}
}

static int read_all(struct events *events, const struct log_request *request,
		    struct processes *processes, struct atoll_error *err)
{
	cleanup_event struct event event = {0};
	int r;

	while ((r = events_next(events, &event, err)) != 0) {
		if (r < 0)
			return r;
		if (log_wants(request, &event) && processes_add(processes, &event) < 0)
			return error_oom(err);
	}
	processes_finish(processes);
	return 0;
}

int log_tree(struct events *events, const struct log_request *request, struct pager *pager,
	     struct atoll_error *err)
{
	struct processes *processes = processes_new();
	struct tree_view view = {processes, request, pager, is_utf8_wanted(), {0}};
	int r = processes ? read_all(events, request, processes, err) : error_oom(err);

	for (uint32_t i = 0; r == 0 && i < processes->n; i = processes->items[i].next)
		print_step(&view, i);
	if (r == 0 && processes->n == 0)
		fputs("no step has begun\n", pager->out);
	if (r == 0 && processes->n_left_out)
		fprintf(pager->out, "%" PRIu64 " more were left out\n", processes->n_left_out);
	processes_free(processes);
	return r;
}
