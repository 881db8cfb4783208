/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/time.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Times in RFC 3339, written and parsed. */

#define DAY_S (24 * 60 * 60)

static void write_digits(char *ret, int n, unsigned value)
{
	while (n-- > 0) {
		ret[n] = (char)('0' + value % 10);
		value /= 10;
	}
}

/* "2026-11-15T19:27:23", without a NUL. gmtime_r() is slow, and the files of a directory mostly
 * have one day: the last day is kept. */
static void write_seconds(int64_t seconds, char ret[19])
{
	static _Thread_local int64_t last_day = INT64_MIN;
	static _Thread_local char last[24];
	int64_t day = seconds / DAY_S - (seconds % DAY_S < 0);
	unsigned second = (unsigned)(seconds - day * DAY_S);

	if (day != last_day) {
		time_t midnight = (time_t)(day * DAY_S);
		struct tm tm;

		gmtime_r(&midnight, &tm);
		snprintf(last, sizeof last, "%04u-%02u-%02uT00:00:00",
			 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
			 (unsigned)tm.tm_mday % 100);
		last_day = day;
	}
	memcpy(ret, last, 19);
	write_digits(ret + 11, 2, second / 3600);
	write_digits(ret + 14, 2, second / 60 % 60);
	write_digits(ret + 17, 2, second % 60);
}

void api_time(int64_t ms, char ret[32])
{
	/* Times out of range become the first or last one that RFC 3339 can express. */
	const int64_t first_ms = INT64_C(-62167219200000), last_ms = INT64_C(253402300799999);
	int64_t seconds;

	if (ms < first_ms)
		ms = first_ms;
	if (ms > last_ms)
		ms = last_ms;
	seconds = ms / 1000 - (ms % 1000 < 0);
	write_seconds(seconds, ret);
	ret[19] = '.';
	write_digits(ret + 20, 3, (unsigned)(ms - seconds * 1000));
	strcpy(ret + 23, "Z");
}

void api_time_ns(int64_t ns, char ret[32])
{
	/* The year of any int64_t of nanoseconds has four digits. */
	int64_t seconds = ns / 1000000000 - (ns % 1000000000 < 0);

	write_seconds(seconds, ret);
	ret[19] = '.';
	write_digits(ret + 20, 9, (unsigned)((uint64_t)ns - (uint64_t)seconds * 1000000000));
	strcpy(ret + 29, "Z");
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

/* Digits behind the point; the first three are used. */
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

bool api_parse_time(const char *text, int64_t *ret_ms)
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
	/* timegm() turns an invalid day into another one: compare. */
	if (tm.tm_mday != check.tm_mday || tm.tm_mon != check.tm_mon || check.tm_hour > 23 ||
	    check.tm_min > 59 || check.tm_sec > 60)
		return false;
	*ret_ms = ((int64_t)seconds - minutes * 60) * 1000 + ms;
	return true;
}
