/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/log-command.h"

#include "auditcmd/auditcmd.h"
#include "auditcmd/call-options.h"
#include "auditcmd/describe.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "auditcmd/find-log.h"
#include "auditcmd/log-follow.h"
#include "auditcmd/log-list.h"
#include "auditcmd/log-since.h"
#include "auditcmd/log-text.h"
#include "auditcmd/log-tree.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "ui/ui.h"

#include <stdio.h>

/* `atoll log`: reads the request, then sends each selected event to one of the outputs. */

struct words {
	const char *run, *kind, *step, *since;
	bool is_tree, is_list, is_schema;
};

/* ---- reading the request ---- */

static int read_kind(const char *word, struct log_request *ret, struct atoll_error *err)
{
	const char *nearest;

	for (size_t i = 0; event_kinds[i]; i++)
		if (streq(event_kinds[i], word)) {
			if (ret->n_kinds < LOG_KINDS_MAX)
				ret->kinds[ret->n_kinds++] = event_kinds[i];
			return 0;
		}
	nearest = str_nearest(word, event_kinds);
	if (nearest)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "there is no kind of event '%s'; did you mean '%s'?", word,
				 nearest);
	return error_set(
		err, ATOLL_FAULT_REQUEST, 0,
		"there is no kind of event '%s'; kinds are open, start, exec, denial, "
		"connection, change, approval, outcome, limit, output, flag, end and others",
		word);
}

static int read_kinds(const char *text, struct log_request *ret, struct atoll_error *err)
{
	char *next = ret->kinds_text, *word;
	int r = 0;

	if (strlen(text) >= sizeof ret->kinds_text)
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "--kind: that is too much");
	strcpy(ret->kinds_text, text);
	while (r == 0 && (word = strsep(&next, ",")))
		r = read_kind(word, ret, err);
	return r;
}

static int read_step(const char *text, uint32_t *ret, struct atoll_error *err)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || number == 0 || number > UINT32_MAX)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--step '%s' is no number of a step; the first is 1", text);
	*ret = (uint32_t)number;
	return 0;
}

static int read_request(char **args, struct words *words, struct log_request *ret,
			struct atoll_error *err)
{
	const struct call_option table[] = {
		{"follow", NULL, &ret->is_following}, {"kind", &words->kind, NULL},
		{"step", &words->step, NULL},	      {"since", &words->since, NULL},
		{"denials", NULL, &ret->is_denials},  {"tree", NULL, &words->is_tree},
		{"json", NULL, &ret->is_json},	      {"list", NULL, &words->is_list},
		{"schema", NULL, &words->is_schema},  {0},
	};
	int r = call_options_read(args, table, &words->run, 1, err);

	if (r == 0 && words->is_tree + ret->is_json + words->is_schema > 1)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--tree, --json and --schema exclude each other");
	if (r == 0 && words->is_tree && (ret->is_following || ret->is_denials || words->kind))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--tree shows all that a process did, when it has been done: not "
				 "with -f, --kind or --denials");
	if (r == 0 && words->is_list && words->run)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "--list is about all logs; leave '%s' out", words->run);
	if (r == 0 && words->kind)
		r = read_kinds(words->kind, ret, err);
	if (r == 0 && words->step)
		r = read_step(words->step, &ret->step, err);
	if (r == 0 && words->since)
		r = log_read_since(words->since, &ret->since_ns, err);
	return r;
}

bool log_wants(const struct log_request *request, const struct event *event)
{
	bool is_kind = request->n_kinds == 0;

	for (unsigned i = 0; i < request->n_kinds && !is_kind; i++)
		is_kind = streq(request->kinds[i], event->kind);
	return is_kind && (!request->step || event->step == request->step) &&
	       event->time_ns >= request->since_ns &&
	       (!request->is_denials || event_is_denial(event));
}

/* ---- showing ---- */

struct show {
	const struct log_request *request;
	struct pager *pager;
	struct log_text *text; /* NULL: print the JSON lines */
	uint64_t n_bad;	       /* lines that are not events */
	bool is_sandbox;
	bool is_closed; /* the log is closed */
};

static void show_event(struct show *show, const struct event *event)
{
	const char *what = event_text(event->object, "what");

	if (streq(event->kind, "open"))
		show->is_sandbox = what && streq(what, "sandbox");
	show->is_closed = streq(event->kind, "head") && event_has(event->object, "last");
	if (!log_wants(show->request, event))
		return;
	if (show->text) {
		log_text_line(show->text, event);
		return;
	}
	fwrite(event->line, 1, event->size, show->pager->out);
	fputc('\n', show->pager->out);
}

/* The number of bad lines that are reported one by one. */
#define BAD_MAX 10

/* Prints all present events. A line that is not an event is reported on standard error and
 * skipped. A file whose first line is not an event is refused. */
static int show_present(struct events *events, struct show *show, struct atoll_error *err)
{
	cleanup_event struct event event = {0};
	char shown[sizeof err->text];
	int r;

	while ((r = events_next(events, &event, err)) != 0 && !ferror(show->pager->out)) {
		if (r > 0) {
			show_event(show, &event);
		} else if (r == -EBADMSG && !(events->n_lines == 1 && !events->id[0])) {
			fflush(show->pager->out);
			if (show->n_bad++ < BAD_MAX)
				fprintf(stderr, "atoll: %s\n",
					str_show(err->text, shown, sizeof shown));
		} else {
			return r;
		}
	}
	return 0;
}

/* The log of a sandbox is closed when it becomes idle, and continues with the next step. */
static bool is_over(const struct events *events, const struct show *show)
{
	return show->is_closed && !(show->is_sandbox && events_has_sandbox(events->id));
}

static int follow(struct events *events, struct show *show, struct atoll_error *err)
{
	struct log_wait *wait = log_wait_new(events, show->is_sandbox);
	int r = wait ? 0 : error_oom(err);

	while (r == 0 && !is_over(events, show) && !ferror(show->pager->out)) {
		bool goes_on;

		fflush(show->pager->out);
		goes_on = log_wait_more(wait);
		r = show_present(events, show, err);
		if (!goes_on)
			break;
	}
	if (r == 0 && !show->is_closed && !ferror(show->pager->out))
		fputs("atoll: nobody writes this log any more, and it was not closed; 'atoll "
		      "verify' tells how much of it is signed\n",
		      stderr);
	log_wait_free(wait);
	return r;
}

static int show_log(struct events *events, const struct log_request *request, struct pager *pager,
		    struct atoll_error *err)
{
	struct show show = {.request = request, .pager = pager};
	int r;

	if (!request->is_json)
		show.text = log_text_new(pager, request->is_denials);
	if (!request->is_json && !show.text)
		return error_oom(err);
	r = show_present(events, &show, err);
	if (r == 0 && request->is_following)
		r = follow(events, &show, err);
	log_text_free(show.text);
	if (r == 0 && show.n_bad)
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "%llu line%s of the log could not be read",
				 (unsigned long long)show.n_bad, show.n_bad == 1 ? "" : "s");
	return r;
}

/* JSON lines, and --follow, never go through the pager. */
static void open_output(struct pager *pager, const struct log_request *request)
{
	const char *term = getenv("TERM");

	if (!request->is_json && !request->is_following) {
		pager_open(pager);
		return;
	}
	*pager = (struct pager){.out = stdout, .is_terminal = isatty(STDOUT_FILENO)};
	pager->has_colours = pager->is_terminal && !request->is_json && !getenv("NO_COLOR") &&
			     term && *term && !streq(term, "dumb");
}

static int run_log(char **args, struct atoll_error *err)
{
	cleanup_events struct events *events = NULL;
	struct log_request request = {0};
	struct words words = {0};
	struct pager pager;
	int r = read_request(args, &words, &request, err), closed;

	if (r < 0)
		return r;
	if (words.is_schema)
		return fputs(log_schema, stdout) < 0 || fflush(stdout) != 0
			       ? error_set(err, ATOLL_FAULT_HOST, errno, "write to standard output")
			       : 0;
	if (words.is_list)
		return log_list(request.is_json, err);
	r = events_open(words.run, &events, err);
	if (r < 0)
		return r;
	open_output(&pager, &request);
	r = words.is_tree ? log_tree(events, &request, &pager, err)
			  : show_log(events, &request, &pager, err);
	closed = pager_close(&pager);
	if (r == 0 && closed < 0)
		return error_set(err, ATOLL_FAULT_HOST, -closed, "write to standard output");
	return r;
}

const struct audit_command audit_command_log = {"log", run_log};
