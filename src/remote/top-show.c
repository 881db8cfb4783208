/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/top-show.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/str.h"
#include "remote/remote.h"
#include "remote/screen.h"
#include "remote/top-data.h"
#include "remote/top.h"

#include <inttypes.h>
#include <stdio.h>

#define FRAME_LINES 4 /* lines above and below the table */

static const char *const orders[] = {
	[ORDER_CPU] = "cpu", [ORDER_MEMORY] = "memory", [ORDER_NETWORK] = "network",
	[ORDER_AGE] = "age", [ORDER_ID] = "id",
};

/* In at most 5 characters: "812", "9.1K", "120M". */
static const char *short_size(uint64_t bytes, char ret[16])
{
	static const char units[] = "BKMGTP";
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1000 && units[unit + 1]) {
		value /= 1024;
		unit++;
	}
	if (unit == 0)
		snprintf(ret, 16, "%" PRIu64, bytes);
	else
		snprintf(ret, 16, value < 10 ? "%.1f%c" : "%.0f%c", value, units[unit]);
	return ret;
}

/* "42s", "5m", "3h", "12d". */
static const char *short_age(int64_t start_ms, char ret[16])
{
	int64_t s = ((int64_t)(clock_real_ns() / 1000000) - start_ms) / 1000;

	if (start_ms == 0 || s < 0)
		s = 0;
	if (s < 100)
		snprintf(ret, 16, "%" PRId64 "s", s);
	else if (s < 6000)
		snprintf(ret, 16, "%" PRId64 "m", s / 60);
	else if (s < 48 * 3600)
		snprintf(ret, 16, "%" PRId64 "h", s / 3600);
	else
		snprintf(ret, 16, "%" PRId64 "d", s / 86400);
	return ret;
}

static const char heading[] = "ID                    STATE    CPU%   MEM  NET IN  NET OUT  PROC  "
			      "AGE  WHAT";

static void row_text(const struct top_row *row, char *ret, size_t size)
{
	char memory[16], in[16], out[16], age[16];

	snprintf(ret, size, "%-21.21s %-7.7s %5.0f %5s %7s %8s %5" PRIu64 " %4s  %s", row->id,
		 row->state, row->cpu, short_size(row->memory, memory),
		 short_size(row->bytes_in, in), short_size(row->bytes_out, out), row->processes,
		 short_age(row->start_ms, age), row->what);
}

size_t top_room(const struct top *top)
{
	int rows = screen_rows() - FRAME_LINES;

	(void)top;
	return rows > 1 ? (size_t)rows : 1;
}

static void show_summary(const struct top *top)
{
	uint64_t memory = 0;
	size_t paused = 0;
	double cpu = 0;
	char text[16];

	for (size_t i = 0; i < top->n; i++) {
		memory += top->rows[i].memory;
		cpu += top->rows[i].cpu;
		paused += streq(top->rows[i].state, "paused");
	}
	screen_line('b', "atoll  %zu sandbox%s, %zu paused   cpu %.0f%%   memory %s   by %s   %s",
		    top->n, top->n == 1 ? "" : "es", paused, cpu, short_size(memory, text),
		    orders[top->order], remote.unix_path ? remote.unix_path : remote.base);
}

/* Scrolls so that the selected row is visible. */
static void scroll(struct top *top, size_t selected, size_t n)
{
	size_t room = top_room(top);

	if (selected < top->first)
		top->first = selected;
	if (selected >= top->first + room)
		top->first = selected - room + 1;
	if (top->first > 0 && top->first + room > n)
		top->first = n > room ? n - room : 0;
}

static void show_boxes(struct top *top)
{
	size_t room = top_room(top), i;
	char text[512];

	scroll(top, top->selected, top->n);
	screen_line('d', "%s", heading);
	for (i = top->first; i < top->n && i < top->first + room; i++) {
		row_text(&top->rows[i], text, sizeof text);
		screen_line(i == top->selected ? 'r' : 0, "%s", text);
	}
	for (i = i - top->first; i < room; i++)
		screen_line(0, "%s", i == 0 && top->n == 0 ? "there is no sandbox" : "");
}

static void show_steps(struct top *top)
{
	size_t room = top_room(top), i;
	char age[16];

	screen_line('d', "STEP     PID  USER       AGE  COMMAND in %s", top->selected_id);
	for (i = 0; i < top->n_steps && i < room; i++)
		screen_line(i == top->selected_step ? 'r' : 0,
			    "%-6" PRId64 " %5" PRId64 "  %-8.8s %5s  %s", top->steps[i].number,
			    top->steps[i].pid, top->steps[i].user,
			    short_age(top->steps[i].start_ms, age), top->steps[i].command);
	for (; i < room; i++)
		screen_line(0, "%s", i == 0 ? "nothing runs in it" : "");
}

void top_show(struct top *top)
{
	screen_begin();
	show_summary(top);
	if (top->is_inside)
		show_steps(top);
	else
		show_boxes(top);
	screen_line(0, "%s", top->problem[0] ? top->problem : top->said);
	if (top->asks)
		screen_line('r', "%s", top->question);
	else if (top->is_inside)
		screen_line('d', "Esc back   q quit");
	else
		screen_line('d', "Enter look inside   p pause/resume   x kill   s sort   q quit");
	screen_end();
}

void top_print(const struct top *top)
{
	char text[512];

	puts(heading);
	for (size_t i = 0; i < top->n; i++) {
		row_text(&top->rows[i], text, sizeof text);
		puts(text);
	}
}
