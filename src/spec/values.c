/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with units. */
#include "spec/spec-inner.h"

#include <inttypes.h>
#include <stdio.h>

#define KIB  (UINT64_C(1) << 10)
#define MIB  (UINT64_C(1) << 20)
#define GIB  (UINT64_C(1) << 30)
#define TIB  (UINT64_C(1) << 40)
#define PIB  (UINT64_C(1) << 50)
#define SEC  UINT64_C(1000)
#define MIN  (60 * SEC)
#define HOUR (60 * MIN)
#define DAY  (24 * HOUR)

const struct spec_limit_info spec_limits[SPEC_LIMIT_COUNT] = {
	[SPEC_WALL] = {"wall", "--timeout", "ms", 1, 365 * DAY, HOUR, "1ms to 365d", "10m"},
	[SPEC_CPU_TIME] = {"cpu", "--cpu-time", "ms", 1, 36500 * DAY, 4 * HOUR, "1ms to 36500d",
			   "5m"},
	[SPEC_CPUS] = {"cpus", "--cpus", "millicpus", 10, 4096000, SPEC_UNLIMITED, "0.01 to 4096",
		       "1.5"},
	[SPEC_MEMORY] = {"memory", "--memory", "bytes", 4 * MIB, PIB, 4 * GIB, "4M to 1P", "512M"},
	[SPEC_PIDS] = {"pids", "--pids", "count", 4, 4194304, 1024, "4 to 4194304", "512"},
	[SPEC_DISK] = {"disk", "--disk", "bytes", MIB, PIB, 20 * GIB, "1M to 1P", "10G"},
	[SPEC_FILES] = {"files", "--files", "count", 1, 1000000000, 1000000, "1 to 1000000000",
			"100000"},
	[SPEC_OPEN_FILES] = {"open-files", "--open-files", "count", 16, 1048576, 4096,
			     "16 to 1048576", "4096"},
	[SPEC_OUTPUT] = {"output", "--output", "bytes", 1, PIB, 256 * MIB, "1 to 1P", "64M"},
	[SPEC_GRACE] = {"grace", "--grace", "ms", 0, 10 * MIN, 2 * SEC, "0s to 10m", "5s"},
};

struct unit {
	const char *name;
	uint64_t size;
};

static const struct unit size_units[] = {
	{"B", 1},     {"K", KIB}, {"Ki", KIB}, {"KiB", KIB}, {"M", MIB}, {"Mi", MIB},
	{"MiB", MIB}, {"G", GIB}, {"Gi", GIB}, {"GiB", GIB}, {"T", TIB}, {"Ti", TIB},
	{"TiB", TIB}, {"P", PIB}, {"Pi", PIB}, {"PiB", PIB}, {"k", KIB}, {"m", MIB},
	{"g", GIB},   {"t", TIB}, {"p", PIB},
};
static const struct unit time_units[] = {
	{"ms", 1}, {"s", SEC}, {"m", MIN}, {"min", MIN}, {"h", HOUR}, {"d", DAY},
};

/* What a plain number counts, and which units may stand behind one. */
struct notation {
	const char *unit; /* as in struct spec_limit_info */
	const char *what;
	uint64_t plain;
	const struct unit *units;
	size_t n_units;
	bool is_compound; /* "1h30m" */
};
static const struct notation notations[] = {
	{"ms", "a time", SEC, time_units, ARRAY_SIZE(time_units), true},
	{"bytes", "a size", 1, size_units, ARRAY_SIZE(size_units), false},
	{"millicpus", "a number of CPUs", 1000, NULL, 0, false},
	{"count", "a whole number", 1, NULL, 0, false},
};

static const struct notation *notation_of(const struct spec_limit_info *info)
{
	for (size_t i = 0; i < ARRAY_SIZE(notations); i++)
		if (streq(notations[i].unit, info->unit))
			return &notations[i];
	return NULL; /* a test goes through all limits */
}

/* A decimal number as written. What is too large to count is as large as can be. */
struct number {
	uint64_t whole;
	uint64_t fraction;
	uint64_t scale; /* `fraction` counts 1/scale */
};

/* Returns what follows the number, or NULL if there is none here. A zero in front is refused: some
 * readers take "010" for eight. */
static const char *read_number(const char *p, struct number *ret)
{
	const char *start = p;

	*ret = (struct number){.scale = 1};
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(ret->whole, 10, &ret->whole) ||
		    __builtin_add_overflow(ret->whole, (uint64_t)(*p - '0'), &ret->whole))
			ret->whole = UINT64_MAX / 10 * 10; /* stays so large with further digits */
	if (p == start || (p - start > 1 && *start == '0'))
		return NULL;
	if (*p != '.')
		return p;
	start = ++p;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (p - start == 6)
			return NULL;
		ret->fraction = ret->fraction * 10 + (uint64_t)(*p - '0');
		ret->scale *= 10;
	}
	return p == start ? NULL : p;
}

/* Times the unit; false if a part smaller than one was asked for. */
static bool scale_number(const struct number *number, uint64_t unit, uint64_t *ret)
{
	uint64_t part;

	if (number->scale > unit)
		return false;
	part = (uint64_t)((unsigned __int128)number->fraction * unit / number->scale);
	if (__builtin_mul_overflow(number->whole, unit, ret) ||
	    __builtin_add_overflow(*ret, part, ret))
		*ret = UINT64_MAX;
	return true;
}

static const struct unit *find_unit(const struct notation *notation, const char *name, size_t size)
{
	for (size_t i = 0; i < notation->n_units; i++)
		if (strlen(notation->units[i].name) == size &&
		    memcmp(notation->units[i].name, name, size) == 0)
			return &notation->units[i];
	return NULL;
}

static bool read_value(const struct notation *notation, const char *text, uint64_t *ret)
{
	uint64_t last_unit = UINT64_MAX;

	*ret = 0;
	for (bool is_first = true; *text || is_first; is_first = false) {
		struct number number;
		const struct unit *unit;
		uint64_t part;
		size_t length;

		text = read_number(text, &number);
		if (!text || (!is_first && !notation->is_compound))
			return false;
		length = strcspn(text, "0123456789");
		if (length == 0 && *text == '\0' && is_first)
			return scale_number(&number, notation->plain, ret);
		unit = find_unit(notation, text, length);
		if (!unit || unit->size >= last_unit || !scale_number(&number, unit->size, &part))
			return false;
		if (__builtin_add_overflow(*ret, part, ret))
			*ret = UINT64_MAX;
		last_unit = unit->size;
		text += length;
	}
	return true;
}

int values_parse(const struct spec_limit_info *info, bool may_be_lifted, const char *text,
		 uint64_t *ret_value, struct atoll_error *err)
{
	const struct notation *notation = notation_of(info);
	const char *problem = NULL;
	uint64_t value;

	if (may_be_lifted && streq(text, "unlimited")) {
		*ret_value = SPEC_UNLIMITED;
		return 0;
	}
	if (!read_value(notation, text, &value))
		problem = notation->what;
	else if (value >= info->least && value <= info->most) {
		*ret_value = value;
		return 0;
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "%s '%s' is %s%s; allowed is %s%s; for example %s", info->key, shown(text),
			 problem ? "not " : "out of range", problem ? problem : "", info->range,
			 may_be_lifted ? ", or \"unlimited\"" : "", info->example);
}

int spec_parse_amount(enum spec_limit_id id, const char *of, const char *text, uint64_t *ret_value,
		      struct atoll_error *err)
{
	struct spec_limit_info info = spec_limits[id];

	info.key = of;
	/* A limit that ends a run would be none if what follows it had no end. */
	return values_parse(&info, id != SPEC_GRACE, text, ret_value, err);
}

int spec_parse_limit(enum spec_limit_id id, const char *text, uint64_t *ret_value,
		     struct atoll_error *err)
{
	return spec_parse_amount(id, spec_limits[id].key, text, ret_value, err);
}

static void format_size(uint64_t value, char *ret, size_t size)
{
	static const struct unit units[] = {
		{"PiB", PIB}, {"TiB", TIB}, {"GiB", GIB}, {"MiB", MIB}, {"KiB", KIB},
	};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		uint64_t tenths = value % units[i].size * 10 / units[i].size;

		if (value < units[i].size || value % units[i].size * 10 % units[i].size)
			continue;
		if (tenths)
			snprintf(ret, size, "%" PRIu64 ".%" PRIu64 " %s", value / units[i].size,
				 tenths, units[i].name);
		else
			snprintf(ret, size, "%" PRIu64 " %s", value / units[i].size, units[i].name);
		return;
	}
	snprintf(ret, size, "%" PRIu64 " bytes", value);
}

static void format_time(uint64_t value, char *ret, size_t size)
{
	static const struct unit units[] = {
		{"d", DAY}, {"h", HOUR}, {"min", MIN}, {"s", SEC}, {"ms", 1},
	};
	size_t used = 0;

	snprintf(ret, size, "0 ms");
	for (size_t i = 0; i < ARRAY_SIZE(units) && used < size; i++) {
		if (value < units[i].size)
			continue;
		used += (size_t)snprintf(ret + used, size - used, "%s%" PRIu64 " %s",
					 used ? " " : "", value / units[i].size, units[i].name);
		value %= units[i].size;
	}
}

static void format_cpus(uint64_t value, char *ret, size_t size)
{
	size_t length;

	if (value % 1000 == 0) {
		snprintf(ret, size, "%" PRIu64, value / 1000);
		return;
	}
	snprintf(ret, size, "%" PRIu64 ".%03" PRIu64, value / 1000, value % 1000);
	for (length = strlen(ret); length && ret[length - 1] == '0'; length--)
		ret[length - 1] = '\0';
}

void values_format(const struct spec_limit_info *info, uint64_t value, char *ret, size_t size)
{
	const char *unit = info->unit;

	if (value == SPEC_UNLIMITED)
		snprintf(ret, size, "unlimited");
	else if (streq(unit, "bytes"))
		format_size(value, ret, size);
	else if (streq(unit, "ms"))
		format_time(value, ret, size);
	else if (streq(unit, "millicpus"))
		format_cpus(value, ret, size);
	else
		snprintf(ret, size, "%" PRIu64, value);
}

void spec_format_limit(enum spec_limit_id id, uint64_t value, char *ret, size_t size)
{
	values_format(&spec_limits[id], value, ret, size);
}
