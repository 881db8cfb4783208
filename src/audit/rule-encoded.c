/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-shared.h"

#include <stdio.h>

/*
 * Data that is carried out as something else
 *
 * Long runs of base64 or hexadecimal digits in arguments and in what is asked for, names too long
 * or too many to be names, and an encoder beside what sends. A hash is shorter than what counts
 * here (SHA-512 has 128 digits); a path has more slashes than base64 has.
 */

#define RUN_ARG	    180
#define RUN_REQUEST 180
#define LABEL_LONG  50
#define LABEL_ODD   20
#define LABELS_MAX  12

struct run_count {
	size_t size, upper, lower, digits, odd;
};

static void count_char(struct run_count *run, char c)
{
	run->size++;
	if (c >= '0' && c <= '9')
		run->digits++;
	else if (c >= 'A' && c <= 'Z')
		run->upper++;
	else if (c >= 'a' && c <= 'z')
		run->lower++;
	else
		run->odd++;
}

/* Digits only, or letters only, are not data. */
static bool is_hex_data(const struct run_count *run, size_t least)
{
	return run->size >= least && run->digits * 4 > run->size && run->digits < run->size;
}

static bool is_base64_data(const struct run_count *run, size_t least)
{
	return run->size >= least && run->upper * 7 > run->size && run->lower * 7 > run->size &&
	       run->digits * 20 > run->size && run->odd * 12 < run->size;
}

static bool is_base64(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '+' || c == '/' || c == '-' || c == '_';
}

static bool has_encoded(const char *text, size_t least)
{
	struct run_count hex = {0}, base64 = {0};

	if (strlen(text) < least)
		return false;
	for (;; text++) {
		if (str_hex_value(*text) >= 0) {
			count_char(&hex, *text);
		} else {
			if (is_hex_data(&hex, least))
				return true;
			hex = (struct run_count){0};
		}
		if (is_base64(*text)) {
			count_char(&base64, *text);
		} else {
			if (is_base64_data(&base64, least))
				return true;
			base64 = (struct run_count){0};
		}
		if (!*text)
			return false;
	}
}

/* The last two labels of a name. */
static const char *domain_of(const char *name)
{
	const char *at = name + strlen(name);
	int dots = 0;

	while (at > name && dots < 2)
		dots += *--at == '.';
	return dots == 2 ? at + 1 : at;
}

/* Counts unusual names below one domain. */
static bool is_one_of_many(struct rules *rules, const char *name, size_t label)
{
	const char *domain = domain_of(name);
	uint64_t key = rules_hash(domain, strlen(domain)), hash = rules_hash(name, label);
	struct zone *zone = NULL;

	for (size_t i = 0; i < ZONES_MAX && i < rules->n_zones; i++)
		if (rules->zones[i].domain == key)
			zone = &rules->zones[i];
	if (!zone) {
		zone = &rules->zones[rules->n_zones++ % ZONES_MAX];
		*zone = (struct zone){.domain = key};
	}
	zone->n += zone->last != hash;
	zone->last = hash;
	return zone->n == LABELS_MAX;
}

static bool is_odd_label(const char *label, size_t size)
{
	size_t digits = 0, dashes = 0;

	for (size_t i = 0; i < size; i++) {
		digits += label[i] >= '0' && label[i] <= '9';
		dashes += label[i] == '-';
	}
	return size >= LABEL_ODD && digits * 8 > size && dashes * 6 < size;
}

static bool is_odd_name(struct rules *rules, const char *name)
{
	const char *at = name, *domain = domain_of(name);

	if (strlen(name) > 150)
		return true;
	while (at < domain) {
		size_t size = strcspn(at, ".");

		if (size >= LABEL_LONG && is_odd_label(at, size))
			return true;
		if (is_odd_label(at, size) && is_one_of_many(rules, at, size))
			return true;
		at += size + (at[size] == '.');
	}
	return false;
}

static bool look_at_exec(struct rules *rules, const struct line *line, char *why, size_t size)
{
	const struct recent *self = &rules->recents[(rules->n_recents - 1) % RECENT_MAX];
	const char *base = line_base(line->path);

	if (((self->what & PROGRAM_SENDS) && rules_neighbour(rules, line, PROGRAM_ENCODES)) ||
	    ((self->what & PROGRAM_ENCODES) && rules_neighbour(rules, line, PROGRAM_SENDS))) {
		snprintf(why, size, "what is encoded goes straight to what sends it (%s)",
			 shown(base));
		return true;
	}
	/* An argument counts only for a program that sends data, or after a connection. */
	if (!(self->what & PROGRAM_SENDS) && !rules_is_fetcher(base) && !rules->n_talkers)
		return false;
	for (size_t i = 1; i < line->argc; i++)
		if (has_encoded(line->argv[i], RUN_ARG)) {
			snprintf(why, size, "argument %zu of %s looks like encoded data", i,
				 shown(base));
			return true;
		}
	return false;
}

static bool look(struct rules *rules, const struct line *line, char *why, size_t size)
{
	if (line->kind == LINE_EXEC)
		return look_at_exec(rules, line, why, size);
	if (line->kind != LINE_CONNECTION)
		return false;
	if (is_odd_name(rules, line->name)) {
		snprintf(why, size, "the name %s looks like encoded data", shown(line->name));
		return true;
	}
	if (!has_encoded(line->request, RUN_REQUEST))
		return false;
	snprintf(why, size, "what was asked of %s looks like encoded data", shown(line->name));
	return true;
}

const struct rule rule_encoded = {look};
