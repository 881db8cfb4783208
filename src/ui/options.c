/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/options.h"

#include "base/error.h"
#include "base/str.h"

#define WORDS_MAX 64

static int unknown(const struct options *options, const char *dashes, const char *typed,
		   size_t length, struct atoll_error *err)
{
	const char *words[WORDS_MAX + 1];
	const char *nearest = NULL;
	char name[64];
	size_t n = 0;

	for (const struct option *row = options->table; option_is_row(row); row++)
		if (row->name && n < WORDS_MAX)
			words[n++] = row->name;
	words[n] = NULL;
	if (length < sizeof name) {
		memcpy(name, typed, length);
		name[length] = '\0';
		nearest = str_nearest(name, words);
	}
	if (nearest)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "unknown option '%s%.*s'; did you mean '--%s'?", dashes,
				 (int)length, typed, nearest);
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "unknown option '%s%.*s'; for a list: atoll %s --help", dashes,
			 (int)length, typed, options->command);
}

/* The value is the next argument. "--" is not a value: it means that the value is missing. */
static int read_value(struct options *options, const struct option *option, const char **ret_value,
		      struct atoll_error *err)
{
	const char *value = *options->next;

	if (!value || streq(value, "--"))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "option '--%s' needs a value: --%s %s", option->name, option->name,
				 option->argument);
	options->next++;
	*ret_value = value;
	return 1;
}

static int next_long(struct options *options, const char *text, const struct option **ret_option,
		     const char **ret_value, struct atoll_error *err)
{
	size_t length = strcspn(text, "=");
	const struct option *row = options->table;

	while (option_is_row(row) &&
	       (!row->name || strlen(row->name) != length || strncmp(row->name, text, length) != 0))
		row++;
	if (!option_is_row(row))
		return unknown(options, "--", text, length, err);
	*ret_option = row;
	*ret_value = NULL;
	if (text[length] == '=') {
		if (!row->argument)
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "option '--%s' takes no value", row->name);
		*ret_value = text + length + 1;
		return 1;
	}
	return row->argument ? read_value(options, row, ret_value, err) : 1;
}

static int next_short(struct options *options, const char *text, const struct option **ret_option,
		      const char **ret_value, struct atoll_error *err)
{
	const struct option *row = options->table;

	while (option_is_row(row) && row->letter != text[0])
		row++;
	/* "-qf" is an error: letters cannot be combined. */
	if (!option_is_row(row) || (!row->argument && text[1] != '\0'))
		return unknown(options, "-", text, strlen(text), err);
	*ret_option = row;
	*ret_value = NULL;
	if (!row->argument)
		return 1;
	if (text[1] != '\0') {
		*ret_value = text + 1;
		return 1;
	}
	return read_value(options, row, ret_value, err);
}

int options_next(struct options *options, const struct option **ret_option, const char **ret_value,
		 struct atoll_error *err)
{
	const char *text = *options->next;

	if (!text || text[0] != '-' || text[1] == '\0')
		return 0;
	options->next++;
	if (streq(text, "--"))
		return 0;
	if (text[1] == '-')
		return next_long(options, text + 2, ret_option, ret_value, err);
	return next_short(options, text + 1, ret_option, ret_value, err);
}

int options_next_or_id(struct options *options, const char **id, const struct option **ret_option,
		       const char **ret_value, struct atoll_error *err)
{
	for (;;) {
		char **before = options->next;
		int r = options_next(options, ret_option, ret_value, err);

		if (r != 0 || options->next != before || !id || *id || !*before)
			return r;
		*id = *options->next++;
	}
}

int options_read_with_id(struct options *options, const char **id, const bool *is_help,
			 int (*add)(void *data, const struct option *option, const char *value,
				    struct atoll_error *err),
			 void *data, struct atoll_error *err)
{
	const struct option *option;
	const char *value;
	int r = 0;

	while (r == 0 &&
	       (r = options_next_or_id(options, *is_help ? NULL : id, &option, &value, err)) > 0)
		r = add(data, option, value, err);
	return r;
}
