/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/log-text.h"

#include "auditcmd/describe.h"
#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "base/scope.h"
#include "base/str.h"
#include "ui/ui.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/*
 * Events as lines of text
 *
 *	10:45:39.123  exec            7 sh          /usr/bin/git status
 *
 * Local time of day, kind, process, description. A line with the date comes before the first event
 *of a day.
 */

#define KIND_WIDTH 10
#define WHO_WIDTH  20

struct log_text {
	struct pager *pager;
	bool is_denials;
	struct description words;
	uint64_t second; /* the second that `clock` shows; UINT64_MAX: none yet */
	char clock[16];
	int year, day;
	uint32_t step;
};

static const char *const codes[] = {
	[TONE_PLAIN] = "",	  [TONE_QUIET] = "\033[2m",   [TONE_MAIN] = "\033[1m",
	[TONE_GOOD] = "\033[32m", [TONE_BAD] = "\033[31m",    [TONE_ALARM] = "\033[1;31m",
	[TONE_NET] = "\033[36m",  [TONE_CHANGE] = "\033[33m",
};

struct log_text *log_text_new(struct pager *pager, bool is_denials)
{
	struct log_text *text = malloc(sizeof *text);

	if (text)
		*text = (struct log_text){.pager = pager,
					  .is_denials = is_denials,
					  .words = DESCRIPTION_INIT,
					  .second = UINT64_MAX,
					  .day = -1};
	return text;
}

void log_text_free(struct log_text *text)
{
	if (!text)
		return;
	description_done(&text->words);
	free(text);
}

static void print_day(struct log_text *text, const struct tm *tm)
{
	char day[32] = "", zone[32] = "";

	strftime(day, sizeof day, "%A, %Y-%m-%d", tm);
	strftime(zone, sizeof zone, "%Z (UTC%z)", tm);
	fprintf(text->pager->out, "%s%s, %s%s\n", text->pager->has_colours ? "\033[2m" : "", day,
		zone, text->pager->has_colours ? "\033[m" : "");
}

/* Most lines have the same second as the line before: reuse the text. */
static void print_time(struct log_text *text, uint64_t time_ns)
{
	uint64_t second = time_ns / 1000000000U;
	time_t then = (time_t)second;
	struct tm tm;

	if (second == text->second)
		return;
	text->second = second;
	localtime_r(&then, &tm);
	strftime(text->clock, sizeof text->clock, "%H:%M:%S", &tm);
	if (tm.tm_yday == text->day && tm.tm_year == text->year)
		return;
	text->day = tm.tm_yday;
	text->year = tm.tm_year;
	print_day(text, &tm);
}

/* The width of a text: its number of characters. */
static int columns(const struct buf *text)
{
	int n = 0;

	for (size_t i = 0; i < text->used; i++)
		n += ((unsigned char)text->data[i] & 0xc0) != 0x80;
	return n;
}

static const char *data(const struct buf *text)
{
	return text->data ? text->data : "";
}

/* Print the number of the step if there can be several. */
static void print_step(struct log_text *text, const struct event *event)
{
	if (event->step > 1 && streq(event->kind, "start"))
		fprintf(text->pager->out, "step %" PRIu32 ": ", event->step);
}

void log_text_line(struct log_text *text, const struct event *event)
{
	const bool has_colours = text->pager->has_colours;
	FILE *out = text->pager->out;
	struct description *words = &text->words;
	cleanup_buf struct buf kind = BUF_INIT(4096);
	int width;

	print_time(text, event->time_ns);
	describe(event, words);
	event_show(event->kind, &kind);
	width = columns(&words->who);
	fprintf(out, "%s%s.%03u%s  %s%-*s%s  %s%*s  ", has_colours ? "\033[2m" : "", text->clock,
		(unsigned)(event->time_ns / 1000000 % 1000), has_colours ? "\033[m" : "",
		has_colours ? codes[words->tone] : "", KIND_WIDTH, data(&kind),
		has_colours ? "\033[m" : "", data(&words->who),
		width < WHO_WIDTH ? WHO_WIDTH - width : 0, "");
	print_step(text, event);
	if (has_colours)
		fputs(codes[words->tone], out);
	fwrite(data(&words->what), 1, words->what.used, out);
	if (has_colours && words->tone != TONE_PLAIN)
		fputs("\033[m", out);
	if (words->allow.used && text->is_denials)
		fprintf(out, "\n%*sallow with %s", 12 + 2 + KIND_WIDTH + 2 + WHO_WIDTH + 2, "",
			words->allow.data);
	else if (words->allow.used)
		fprintf(out, " (allow with %s)", words->allow.data);
	fputc('\n', out);
}
