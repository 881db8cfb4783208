/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/call-options.h"

#include "base/error.h"
#include "base/str.h"

static int set_option(const char *text, const struct call_option *table, struct atoll_error *err)
{
	size_t length = strcspn(text, "=");

	for (; table->name; table++) {
		bool has_value = text[length] == '=';

		if (strlen(table->name) != length || memcmp(table->name, text, length) != 0)
			continue;
		if (has_value != (table->value != NULL))
			break;
		if (table->value)
			*table->value = text + length + 1;
		if (table->is_given)
			*table->is_given = true;
		return 0;
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "unknown option '--%s'", text);
}

int call_options_read(char **args, const struct call_option *table, const char **ret_args,
		      size_t max, struct atoll_error *err)
{
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < max; i++)
		ret_args[i] = NULL;
	for (; r == 0 && *args && starts_with(*args, "--") && !streq(*args, "--"); args++)
		r = set_option(*args + 2, table, err);
	if (r == 0 && *args && streq(*args, "--"))
		args++;
	for (; r == 0 && *args; args++) {
		if (n == max)
			return error_set(err, ATOLL_FAULT_REQUEST, 0, "unexpected argument '%s'",
					 *args);
		ret_args[n++] = *args;
	}
	return r;
}
