/* SPDX-License-Identifier: Apache-2.0 */
#include "ui/amount.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct unit {
	const char *name;
	uint64_t size;
};

static int parse(const char *text, const struct unit *units, size_t n, const char *what,
		 uint64_t *ret, struct atoll_error *err)
{
	bool is_number = text[0] >= '0' && text[0] <= '9';
	char *end = NULL, shown[64];
	uint64_t number;

	errno = 0;
	number = strtoull(text, &end, 10);
	for (size_t i = 0; is_number && errno == 0 && i < n; i++) {
		if (streq(end, units[i].name) &&
		    !__builtin_mul_overflow(number, units[i].size, ret))
			return 0;
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0, "'%s' is not %s",
			 str_show(text, shown, sizeof shown), what);
}

int amount_parse_age(const char *text, uint64_t *ret_s, struct atoll_error *err)
{
	static const struct unit units[] = {{"s", 1},	 {"m", 60},    {"min", 60},
					    {"h", 3600}, {"d", 86400}, {"w", 604800}};

	return parse(text, units, ARRAY_SIZE(units), "a time such as 90s, 12h, 7d or 2w", ret_s,
		     err);
}

int amount_parse_size(const char *text, uint64_t *ret_bytes, struct atoll_error *err)
{
	static const struct unit units[] = {
		{"", 1},	  {"K", 1 << 10},	    {"KiB", 1 << 10},
		{"M", 1 << 20},	  {"MiB", 1 << 20},	    {"G", 1 << 30},
		{"GiB", 1 << 30}, {"T", UINT64_C(1) << 40}, {"TiB", UINT64_C(1) << 40}};

	return parse(text, units, ARRAY_SIZE(units), "a size such as 512M or 5G", ret_bytes, err);
}

const char *amount_age(uint64_t seconds, char *ret, size_t size)
{
	if (seconds < 60)
		snprintf(ret, size, "%" PRIu64 " s", seconds);
	else if (seconds < 3600)
		snprintf(ret, size, "%" PRIu64 " min", seconds / 60);
	else if (seconds < 48 * 3600)
		snprintf(ret, size, "%" PRIu64 " h", seconds / 3600);
	else
		snprintf(ret, size, "%" PRIu64 " d", seconds / 86400);
	return ret;
}

const char *amount_size(uint64_t bytes, char *ret, size_t size)
{
	if (bytes >= UINT64_C(1) << 30)
		snprintf(ret, size, "%.1f GiB", (double)bytes / (1 << 30));
	else if (bytes >= 1 << 20)
		snprintf(ret, size, "%.1f MiB", (double)bytes / (1 << 20));
	else
		snprintf(ret, size, "%" PRIu64 " KiB", (bytes + 1023) >> 10);
	return ret;
}
