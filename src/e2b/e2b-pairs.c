/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of names and values: metadata and variables, from JSON and from filters. */
#include "e2b/e2b-pairs.h"

#include "httpd/httpd.h"

#include <stdlib.h>

#define PAIRS_MAX 256

void e2b_free_pairs(struct box_pairs *pairs)
{
	for (size_t i = 0; i < pairs->n; i++) {
		free(pairs->items[i].name);
		free(pairs->items[i].value);
	}
	free(pairs->items);
	*pairs = (struct box_pairs){0};
}

bool e2b_read_pairs(const json_t *object, struct box_pairs *ret)
{
	size_t n = json_object_size(object);
	const char *name;
	json_t *value;

	*ret = (struct box_pairs){0};
	if (!object || n == 0)
		return !object || json_is_object(object);
	ret->items = calloc(n, sizeof *ret->items);
	if (!ret->items)
		return false;
	json_object_foreach((json_t *)object, name, value)
	{
		struct box_pair *pair = &ret->items[ret->n++];

		pair->name = strdup(name);
		pair->value = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
		if (!pair->name || !pair->value) {
			e2b_free_pairs(ret);
			return false;
		}
	}
	return true;
}

/* ---- metadata=, which is encoded three times ---- */

static char *decode(const char *text, size_t size)
{
	char *once = malloc(size + 1), *twice = malloc(size + 1);
	size_t n;

	if (once && twice) {
		n = query_decode(text, size, true, once);
		n = query_decode(once, n, false, twice);
		twice[n] = '\0';
		free(once);
		return twice;
	}
	free(once);
	free(twice);
	return NULL;
}

bool e2b_read_filter(const char *text, struct box_pairs *ret)
{
	*ret = (struct box_pairs){0};
	ret->items = calloc(PAIRS_MAX, sizeof *ret->items);
	if (!ret->items)
		return false;
	while (*text) {
		size_t n = strcspn(text, "&");
		const char *is = memchr(text, '=', n);
		size_t n_name = is ? (size_t)(is - text) : n;
		struct box_pair *pair = &ret->items[ret->n];

		if (n > 0 && ret->n == PAIRS_MAX)
			break;
		if (n > 0) {
			ret->n++;
			pair->name = decode(text, n_name);
			pair->value = is ? decode(is + 1, n - n_name - 1) : strdup("");
			if (!pair->name || !pair->value)
				break;
		}
		text += n;
		text += *text == '&';
	}
	if (!*text)
		return true;
	e2b_free_pairs(ret);
	return false;
}
