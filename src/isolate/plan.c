/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/plan.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"
#include "spec/spec.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const strength_words[] = {
	[PLAN_ENFORCED] = "enforced",
	[PLAN_WEAKER] = "weaker",
	[PLAN_MISSING] = "missing",
	[PLAN_NOTE] = "note",
};

void plan_done(struct plan *plan)
{
	for (size_t i = 0; i < plan->n_lines; i++) {
		free(plan->lines[i].clause);
		free(plan->lines[i].subject);
		free(plan->lines[i].mechanism);
		free(plan->lines[i].note);
		free(plan->lines[i].origin);
	}
	free(plan->lines);
	*plan = (struct plan){0};
}

static char *copy(struct plan *plan, const char *text)
{
	char *made = text ? strdup(text) : NULL;

	plan->is_short_of_memory |= text && !made;
	return made;
}

#define BRIEF_ROOM 64

static bool has_line(const struct plan *plan, enum plan_strength strength, const char *clause,
		     const char *mechanism)
{
	for (size_t i = plan->n_lines; i > 0; i--) {
		const struct plan_line *line = &plan->lines[i - 1];

		if (line->strength == strength && streq(line->clause, clause) &&
		    streq(line->mechanism, mechanism))
			return true;
	}
	return false;
}

static void add_brief(struct plan *plan, enum plan_strength strength, const char *clause,
		      const char *mechanism)
{
	struct plan_line *lines = plan->lines;

	if (strength == PLAN_NOTE || has_line(plan, strength, clause, mechanism))
		return;
	if (plan->n_lines % BRIEF_ROOM == 0)
		lines = realloc(lines, (plan->n_lines + BRIEF_ROOM) * sizeof *lines);
	if (!lines) {
		plan->is_short_of_memory = true;
		return;
	}
	plan->lines = lines;
	lines[plan->n_lines++] = (struct plan_line){.clause = copy(plan, clause),
						    .mechanism = copy(plan, mechanism),
						    .strength = strength};
}

void plan_add(struct plan *plan, enum plan_strength strength, const char *clause,
	      const char *subject, const char *mechanism, const char *note, const char *origin)
{
	struct plan_line *grown;

	if (plan->is_brief) {
		add_brief(plan, strength, clause, mechanism);
		return;
	}
	grown = realloc(plan->lines, (plan->n_lines + 1) * sizeof *grown);
	if (!grown) {
		plan->is_short_of_memory = true;
		return;
	}
	plan->lines = grown;
	grown[plan->n_lines++] = (struct plan_line){
		.clause = copy(plan, clause),
		.subject = copy(plan, subject),
		.mechanism = copy(plan, mechanism),
		.note = copy(plan, note),
		.origin = copy(plan, origin),
		.strength = strength,
	};
}

const struct plan_line *plan_first_missing(const struct plan *plan)
{
	for (size_t i = 0; i < plan->n_lines; i++) {
		if (plan->lines[i].strength == PLAN_MISSING)
			return &plan->lines[i];
	}
	return NULL;
}

static void render_json(const struct plan *plan, const struct spec *spec, const char *digest,
			struct buf *out)
{
	struct json json = {.out = out};

	json_open(&json, NULL, '{');
	json_uint(&json, "version", 1);
	json_str(&json, "digest", digest);
	json_str(&json, "tier", "process");
	json_bool(&json, "enforceable", !plan_first_missing(plan));
	json_open(&json, "command", '[');
	for (size_t i = 0; spec->command[i]; i++)
		json_str(&json, NULL, spec->command[i]);
	json_close(&json, ']');
	json_str(&json, "workspace", spec->workspace);
	json_open(&json, "clauses", '[');
	for (size_t i = 0; i < plan->n_lines; i++) {
		const struct plan_line *line = &plan->lines[i];

		json_open(&json, NULL, '{');
		json_str(&json, "clause", line->clause);
		json_str(&json, "subject", line->subject);
		json_str(&json, "strength", strength_words[line->strength]);
		json_str(&json, "mechanism", line->mechanism);
		json_str(&json, "note", line->note);
		json_str(&json, "origin", line->origin);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	json_close(&json, '}');
	buf_add_char(out, '\n');
}

/* A path on a terminal: nothing in it may act. */
static void add_plain(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			buf_addf(out, "\\x%02x", (unsigned char)*text);
		else
			buf_add_char(out, *text);
	}
}

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && streq(a, b));
}

/* Lines that differ in nothing but their subject are one line for people. */
static bool is_alike(const struct plan_line *a, const struct plan_line *b)
{
	return a->strength == b->strength && a->subject && b->subject &&
	       is_same(a->clause, b->clause) && is_same(a->mechanism, b->mechanism) &&
	       is_same(a->note, b->note) && is_same(a->origin, b->origin);
}

#define INDENT 25
#define WIDTH  100

/* Broken between words. */
static void add_subjects(const struct plan_line *lines, size_t n, struct buf *out)
{
	size_t column = INDENT;

	for (size_t i = 0; i < n && lines[i].subject; i++) {
		for (const char *word = lines[i].subject, *end; *word;
		     word = *end ? end + 1 : end) {
			char text[256];

			end = strchrnul(word, ' ');
			if (column > INDENT && column + (size_t)(end - word) > WIDTH) {
				buf_addf(out, "\n%*s", INDENT, "");
				column = INDENT;
			}
			for (const char *at = word; at < end; at += strlen(text)) {
				snprintf(text, sizeof text, "%.*s", (int)(end - at), at);
				add_plain(out, text);
			}
			buf_add_char(out, ' ');
			column += (size_t)(end - word) + 1;
		}
	}
}

/* `n` lines that are alike. */
static void render_group(const struct plan_line *lines, size_t n, struct buf *out)
{
	static const char *const marks[] = {[PLAN_ENFORCED] = "  ",
					    [PLAN_WEAKER] = "~ ",
					    [PLAN_MISSING] = "! ",
					    [PLAN_NOTE] = "  "};

	buf_addf(out, "%s%-22s ", marks[lines->strength], lines->clause);
	add_subjects(lines, n, out);
	buf_addf(out, "%s[%s]", lines->subject ? " " : "", lines->mechanism);
	if (lines->origin && !streq(lines->origin, "default"))
		buf_addf(out, "  (%s)", lines->origin);
	buf_add_char(out, '\n');
	if (lines->note) {
		buf_addf(out, "%*s  ", INDENT, "");
		add_plain(out, lines->note);
		buf_add_char(out, '\n');
	}
}

static void render_text(const struct plan *plan, const struct spec *spec, const char *digest,
			struct buf *out)
{
	const struct plan_line *missing = plan_first_missing(plan);

	buf_add_str(out, "command    ");
	for (size_t i = 0; spec->command[i]; i++) {
		buf_add_str(out, i ? " " : "");
		add_plain(out, spec->command[i]);
	}
	buf_add_str(out, "\nworkspace  ");
	add_plain(out, spec->workspace);
	buf_addf(out, "\ntier       process\ndigest     sha256:%s\n\n", digest);
	for (size_t i = 0, n; i < plan->n_lines; i += n) {
		for (n = 1; i + n < plan->n_lines && is_alike(&plan->lines[i], &plan->lines[i + n]);
		     n++)
			;
		render_group(&plan->lines[i], n, out);
	}
	buf_add_str(out,
		    missing ? "\nThis host cannot keep the lines marked with '!': the run would be "
			      "refused.\n"
			    : "\nNothing was run. A line marked '~' is kept by a weaker "
			      "mechanism, as its note says.\n");
}

int plan_render(const struct plan *plan, const struct spec *spec, enum atoll_format format,
		struct buf *out, struct atoll_error *err)
{
	char digest[65];
	int r = spec_digest(spec, digest, err);

	if (r < 0)
		return r;
	if (plan->is_short_of_memory)
		return error_oom(err);
	if (format == ATOLL_JSON)
		render_json(plan, spec, digest, out);
	else
		render_text(plan, spec, digest, out);
	return buf_error(out) < 0 ? error_oom(err) : 0;
}
