/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/top.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote.h"
#include "remote/screen.h"
#include "remote/top-data.h"
#include "remote/top-show.h"
#include "ui/ui.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define PERIOD_NS 2000000000

enum {
	TOP_SORT,
	TOP_ONCE,
};

static const struct option top_options[] = {
	{"sort", 0, "WORD", "'cpu' (the default), 'memory', 'network', 'age' or 'id'", TOP_SORT},
	{"once", 0, NULL, "print the table once (the default if there is no terminal)", TOP_ONCE},
	OPTION_HELP_ROW,
	{0},
};

static int read_order(const char *word, enum top_order *ret, struct atoll_error *err)
{
	static const char *const words[] = {"cpu", "memory", "network", "age", "id"};

	for (size_t i = 0; word && i < ARRAY_SIZE(words); i++) {
		if (streq(words[i], word)) {
			*ret = (enum top_order)i;
			return 0;
		}
	}
	return word ? error_set(err, ATOLL_FAULT_REQUEST, 0,
				"'%s' is none of cpu, memory, network, age, id", word)
		    : 0;
}

/* ---- keys ---- */

static void move(struct top *top, int key)
{
	size_t *at = top->is_inside ? &top->selected_step : &top->selected;
	size_t n = top->is_inside ? top->n_steps : top->n, page = top_room(top);

	if (key == KEY_UP || key == 'k')
		*at -= *at > 0;
	else if (key == KEY_DOWN || key == 'j')
		*at += 1;
	else if (key == KEY_PAGE_UP)
		*at -= *at < page ? *at : page;
	else if (key == KEY_PAGE_DOWN)
		*at += page;
	else if (key == KEY_HOME)
		*at = 0;
	else if (key == KEY_END)
		*at = n;
	if (*at >= n)
		*at = n ? n - 1 : 0;
	if (!top->is_inside && top_row(top))
		snprintf(top->selected_id, sizeof top->selected_id, "%s", top_row(top)->id);
}

static void on_confirm_key(struct top *top, int key)
{
	if (key == KEY_NONE || key == KEY_RESIZED)
		return;
	top->asks = false;
	if (key == 'y' || key == 'Y')
		top_kill(top);
	else
		snprintf(top->said, sizeof top->said, "nothing was done");
}

static void ask_to_kill(struct top *top)
{
	const struct top_row *row = top_row(top);

	if (!row)
		return;
	top->asks = true;
	snprintf(top->question, sizeof top->question,
		 "End sandbox %s and all in it, for good? y: yes, any other key: no", row->id);
}

static void go_inside(struct top *top, bool is_inside)
{
	if (is_inside && !top_row(top))
		return;
	top->is_inside = is_inside;
	top->selected_step = 0;
	top->n_steps = 0;
	if (is_inside)
		top_fetch_steps(top);
	else
		top_fetch(top);
}

/* Handles a key; false to quit. */
static bool on_key(struct top *top, int key)
{
	if (key == KEY_OVER || (key == 'q' && !top->asks))
		return false;
	if (top->asks) {
		on_confirm_key(top, key);
		return true;
	}
	if (key != KEY_NONE && key != KEY_RESIZED)
		top->said[0] = '\0';
	move(top, key);
	if (key == KEY_ESCAPE && top->is_inside)
		go_inside(top, false);
	if (top->is_inside)
		return true;
	if (key == KEY_ENTER)
		go_inside(top, true);
	else if (key == 'p')
		top_toggle(top);
	else if (key == 'x')
		ask_to_kill(top);
	else if (key == 's') {
		top->order = (top->order + 1) % ORDER_COUNT;
		top_sort(top);
	}
	return true;
}

static int watch(struct top *top, struct atoll_error *err)
{
	int r = screen_open(), key;
	int64_t left_ns;

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "use the terminal");
	if (top_row(top))
		snprintf(top->selected_id, sizeof top->selected_id, "%s", top_row(top)->id);
	do {
		if (clock_monotonic_ns() - top->seen_ns >= PERIOD_NS) {
			if (top->is_inside)
				top_fetch_steps(top);
			else
				top_fetch(top);
		}
		top_show(top);
		left_ns = top->seen_ns + PERIOD_NS - clock_monotonic_ns();
		key = screen_key(left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0);
	} while (on_key(top, key));
	screen_close();
	return 0;
}

static int run_top(char **args, struct atoll_error *err)
{
	struct top top = {0};
	struct command_values line;
	int r = command_read_values(&remote_top, args, 0, 0, &line, err);

	if (r != 0)
		return r < 0 ? r : 0;
	r = read_order(line.values[TOP_SORT], &top.order, err);
	if (r < 0)
		return r;
	/* A shorter timeout than for other commands, because a person waits. */
	remote.patience_s = 10;
	top_fetch(&top);
	if (top.problem[0] && top.n == 0)
		r = error_set(err, ATOLL_FAULT_HOST, 0, "%s", top.problem);
	else if (line.seen & 1U << TOP_ONCE || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		top_print(&top);
	else
		r = watch(&top, err);
	top_free(&top);
	if (r == 0 && screen_signal()) {
		signal(screen_signal(), SIG_DFL);
		return 128 + screen_signal();
	}
	return r < 0 ? r : command_flush(err);
}

const struct command remote_top = {
	.name = "top",
	.usage = "[--sort WORD] [--once]",
	.summary = "watch the sandboxes of a daemon",
	.description = (const char *const[]){NULL},
	.options = top_options,
	.run = run_top,
};
