/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/log-since.h"

#include "auditcmd/event-values.h"
#include "base/error.h"
#include "base/scope.h"
#include "ui/ui.h"

#include <string.h>
#include <time.h>

/* A time of day means the latest one in the past. */
static bool read_local(const char *text, time_t now, uint64_t *ret_ns)
{
	static const struct {
		const char *format;
		bool has_date;
	} forms[] = {
		{"%Y-%m-%d %H:%M:%S", true},
		{"%Y-%m-%dT%H:%M:%S", true},
		{"%Y-%m-%d %H:%M", true},
		{"%Y-%m-%dT%H:%M", true},
		{"%Y-%m-%d", true},
		{"%H:%M:%S", false},
		{"%H:%M", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct tm tm;
		const char *end;
		time_t then;

		localtime_r(&now, &tm);
		tm.tm_sec = 0;
		if (forms[i].has_date)
			tm.tm_hour = tm.tm_min = 0;
		end = strptime(text, forms[i].format, &tm);
		if (!end || *end)
			continue;
		tm.tm_isdst = -1;
		then = mktime(&tm);
		if (!forms[i].has_date && then > now)
			then -= 86400;
		if (then < 0)
			return false;
		*ret_ns = (uint64_t)then * 1000000000U;
		return true;
	}
	return false;
}

int log_read_since(const char *text, uint64_t *ret_ns, struct atoll_error *err)
{
	struct timespec now;
	uint64_t seconds, now_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
	if (event_read_time(text, ret_ns) || read_local(text, now.tv_sec, ret_ns))
		return 0;
	if (amount_parse_age(text, &seconds, NULL) == 0 && seconds < now_ns / 1000000000U) {
		*ret_ns = now_ns - seconds * 1000000000U;
		return 0;
	}
	return error_set(
		err, ATOLL_FAULT_REQUEST, 0,
		"--since '%s' is no time: 2026-11-16T10:45:00Z, '2026-11-16 10:45', 10:45, "
		"or how long ago, such as 90s, 5m, 12h, 7d",
		text);
}
