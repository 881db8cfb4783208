/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-form.h"

#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/*
 * Reads the bodies and queries of requests
 *
 * A handler calls form_known(), then one form_...() for each member, then form_fails(). The first
 * mistake becomes the message of a 400.
 */

#define PAIRS_MAX 256
#define WORDS_MAX 4096

void form_bad(struct form *form, const char *format, ...)
{
	va_list args;

	if (form->is_bad)
		return;
	form->is_bad = true;
	va_start(args, format);
	vsnprintf(form->why, sizeof form->why, format, args);
	va_end(args);
}

bool form_fails(struct form *form)
{
	if (form->is_bad)
		v1_refuse(form->call, 400, "request", "%s", form->why);
	return form->is_bad;
}

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++) {
		if (streq(*list, word))
			return true;
	}
	return false;
}

void form_known(struct form *form, const char *const *keys)
{
	const char *key, *nearest;
	json_t *value;

	json_object_foreach(form->body, key, value)
	{
		if (is_one_of(key, keys))
			continue;
		nearest = str_nearest(key, keys);
		form_bad(form, "'%.40s' is not known%s%s%s", key, nearest ? "; did you mean '" : "",
			 nearest ? nearest : "", nearest ? "'?" : "");
	}
}

/* null counts as missing. */
static json_t *find(struct form *form, const char *key)
{
	json_t *value = json_object_get(form->body, key);

	return json_is_null(value) ? NULL : value;
}

/* A string without a NUL: all of them become C strings. */
static const char *plain(const json_t *value)
{
	const char *text = json_string_value(value);

	return text && strlen(text) == json_string_length(value) ? text : NULL;
}

const char *form_str(struct form *form, const char *key, const char *usual)
{
	json_t *value = find(form, key);
	const char *text;

	if (!value)
		return usual;
	text = plain(value);
	if (!text)
		form_bad(form, "'%s' has to be a text", key);
	return text;
}

uint64_t form_uint(struct form *form, const char *key, uint64_t usual, uint64_t least,
		   uint64_t most)
{
	json_t *value = find(form, key);
	json_int_t number;

	if (!value)
		return usual;
	number = json_integer_value(value);
	if (json_is_integer(value) && number >= 0 && (uint64_t)number >= least &&
	    (uint64_t)number <= most)
		return (uint64_t)number;
	form_bad(form, "'%s' has to be a whole number from %" PRIu64 " to %" PRIu64, key, least,
		 most);
	return usual;
}

bool form_bool(struct form *form, const char *key, bool usual)
{
	json_t *value = find(form, key);

	if (value && !json_is_boolean(value))
		form_bad(form, "'%s' has to be true or false", key);
	return value ? json_is_true(value) : usual;
}

void form_free_pairs(struct box_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		free(pairs->items[i].name);
		free(pairs->items[i].value);
	}
	free(pairs->items);
	*pairs = (struct box_pairs){0};
}

static bool add_pair(struct box_pairs *pairs, const char *name, const char *value)
{
	struct box_pair *pair = &pairs->items[pairs->n];

	pair->name = strdup(name);
	pair->value = strdup(value);
	pairs->n++;
	return pair->name && pair->value;
}

void form_pairs(struct form *form, const char *key, struct box_pairs *ret)
{
	json_t *object = find(form, key), *value;
	const char *name;

	*ret = (struct box_pairs){0};
	if (!object)
		return;
	if (!json_is_object(object) || json_object_size(object) > PAIRS_MAX) {
		form_bad(form, "'%s' has to be an object of at most %d texts", key, PAIRS_MAX);
		return;
	}
	/* Four more: the caller adds labels of the daemon. */
	ret->items = calloc(json_object_size(object) + 4, sizeof *ret->items);
	if (!ret->items) {
		form_bad(form, "out of memory");
		return;
	}
	json_object_foreach(object, name, value)
	{
		if (!name[0] || strlen(name) > 128 || !plain(value))
			form_bad(form, "'%s': '%.40s' has to be a text, with a name", key, name);
		else if (!add_pair(ret, name, plain(value)))
			form_bad(form, "out of memory");
	}
}

char **form_words(struct form *form, const char *key)
{
	json_t *list = find(form, key), *value;
	size_t n = json_array_size(list), i, size = 0;
	char **words, *at;

	if (!list)
		return NULL;
	if (!json_is_array(list) || n == 0 || n > WORDS_MAX) {
		form_bad(form, "'%s' has to be a list of 1 to %d texts", key, WORDS_MAX);
		return NULL;
	}
	json_array_foreach(list, i, value)
	{
		if (!plain(value)) {
			form_bad(form, "'%s' has to be a list of texts", key);
			return NULL;
		}
		size += json_string_length(value) + 1;
	}
	words = malloc((n + 1) * sizeof *words + size);
	if (!words) {
		form_bad(form, "out of memory");
		return NULL;
	}
	at = (char *)(words + n + 1);
	json_array_foreach(list, i, value)
	{
		words[i] = at;
		at = stpcpy(at, json_string_value(value)) + 1;
	}
	words[n] = NULL;
	return words;
}

/* ---- the query ---- */

bool v1_query_uint(struct api_call *call, const char *name, uint64_t usual, uint64_t most,
		   uint64_t *ret)
{
	const char *text = exchange_query(call->exchange, name);
	unsigned long long value;
	char *end;

	*ret = usual;
	if (!text)
		return true;
	value = strtoull(text, &end, 10);
	if (text[0] >= '0' && text[0] <= '9' && !*end && strlen(text) < 20 && value <= most) {
		*ret = value;
		return true;
	}
	v1_refuse(call, 400, "request", "'%s' has to be a whole number up to %" PRIu64, name, most);
	return false;
}

bool v1_query_bool(struct api_call *call, const char *name, bool *ret)
{
	const char *text = exchange_query(call->exchange, name);

	*ret = text && (streq(text, "true") || streq(text, "1"));
	if (!text || *ret || streq(text, "false") || streq(text, "0"))
		return true;
	v1_refuse(call, 400, "request", "'%s' has to be true or false", name);
	return false;
}
