/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void api_time(int64_t ms, char ret[32])
{
	/* What never ends is written as a time that every reader of such times knows. */
	const int64_t last_ms = INT64_C(253402300799999);
	time_t seconds;
	struct tm tm;

	if (ms > last_ms)
		ms = last_ms;
	seconds = (time_t)(ms / 1000);
	gmtime_r(&seconds, &tm);
	snprintf(ret, 32, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (tm.tm_year + 1900) % 10000,
		 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(ms % 1000));
}

static bool read_digits(const char **at, int n, int *ret)
{
	*ret = 0;
	for (int i = 0; i < n; i++, (*at)++) {
		if (**at < '0' || **at > '9')
			return false;
		*ret = *ret * 10 + (**at - '0');
	}
	return true;
}

static bool skip(const char **at, const char *among)
{
	if (!**at || !strchr(among, **at))
		return false;
	(*at)++;
	return true;
}

/* Digits behind the point, of which three count. */
static bool read_fraction(const char **at, int *ret_ms)
{
	int scale = 100;

	*ret_ms = 0;
	if (!skip(at, "."))
		return true;
	if (**at < '0' || **at > '9')
		return false;
	for (; **at >= '0' && **at <= '9'; (*at)++, scale /= 10)
		*ret_ms += (**at - '0') * scale;
	return true;
}

static bool read_offset(const char **at, int *ret_minutes)
{
	int hours, minutes, sign;

	*ret_minutes = 0;
	if (skip(at, "Zz"))
		return true;
	sign = **at == '-' ? -1 : 1;
	if (!skip(at, "+-") || !read_digits(at, 2, &hours) || !skip(at, ":") ||
	    !read_digits(at, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_minutes = sign * (hours * 60 + minutes);
	return true;
}

bool api_read_time(const char *text, int64_t *ret_ms)
{
	const char *at = text;
	struct tm tm = {0}, check;
	int ms, minutes;
	time_t seconds;

	if (!read_digits(&at, 4, &tm.tm_year) || !skip(&at, "-") ||
	    !read_digits(&at, 2, &tm.tm_mon) || !skip(&at, "-") ||
	    !read_digits(&at, 2, &tm.tm_mday) || !skip(&at, "Tt ") ||
	    !read_digits(&at, 2, &tm.tm_hour) || !skip(&at, ":") ||
	    !read_digits(&at, 2, &tm.tm_min) || !skip(&at, ":") ||
	    !read_digits(&at, 2, &tm.tm_sec) || !read_fraction(&at, &ms) ||
	    !read_offset(&at, &minutes) || *at)
		return false;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	check = tm;
	seconds = timegm(&tm);
	/* A day that there is not would have become another one. */
	if (tm.tm_mday != check.tm_mday || tm.tm_mon != check.tm_mon || check.tm_hour > 23 ||
	    check.tm_min > 59 || check.tm_sec > 60)
		return false;
	*ret_ms = ((int64_t)seconds - minutes * 60) * 1000 + ms;
	return true;
}
