/* SPDX-License-Identifier: Apache-2.0 */
/* Makes environment blocks. Called by the launcher, last before CreateProcess. */
#include "nt/environment-block.h"

#include "base/buf.h"
#include "base/scope.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_MAX (1 << 20)

struct variable {
	const char *text;
	size_t position; /* in the caller's list */
};

static int upper(char c)
{
	return (unsigned char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

/* Length of the name; a drive variable's name begins with "=". */
static size_t name_length(const char *text)
{
	const char *end = *text ? strchr(text + 1, '=') : NULL;

	return end ? (size_t)(end - text) : 0;
}

static int compare_names(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t size = a_size < b_size ? a_size : b_size;

	for (size_t i = 0; i < size; i++)
		if (upper(a[i]) != upper(b[i]))
			return upper(a[i]) - upper(b[i]);
	return (a_size > b_size) - (a_size < b_size);
}

int nt_environment_compare(const char *a, const char *b)
{
	return compare_names(a, strlen(a), b, strlen(b));
}

/* By name; of the same name the later one first. */
static int compare_variables(const void *left, const void *right)
{
	const struct variable *a = left, *b = right;
	int order = compare_names(a->text, name_length(a->text), b->text, name_length(b->text));

	if (order != 0)
		return order;
	return (a->position < b->position) - (a->position > b->position);
}

static int put_sorted(const struct variable *list, size_t n, char **ret)
{
	cleanup_buf struct buf out = BUF_INIT(BLOCK_MAX);
	size_t size;

	for (size_t i = 0; i < n; i++) {
		if (i > 0 && compare_names(list[i].text, name_length(list[i].text),
					   list[i - 1].text, name_length(list[i - 1].text)) == 0)
			continue;
		buf_add(&out, list[i].text, strlen(list[i].text) + 1);
	}
	/* An empty block ends with two NULs as well. */
	if (out.used == 0)
		buf_add_char(&out, '\0');
	buf_add_char(&out, '\0');
	if (buf_error(&out) < 0)
		return buf_error(&out);
	size = out.used;
	*ret = buf_take(&out);
	return *ret ? (int)size : -ENOMEM;
}

int nt_environment_block(const char *const *env, char **ret)
{
	cleanup_free struct variable *list = NULL;
	size_t n = 0;

	while (env[n])
		n++;
	list = calloc(n + 1, sizeof *list);
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (name_length(env[i]) == 0)
			return -EINVAL;
		list[i] = (struct variable){.text = env[i], .position = i};
	}
	qsort(list, n, sizeof *list, compare_variables);
	return put_sorted(list, n, ret);
}
