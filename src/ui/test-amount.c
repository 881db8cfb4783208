/* SPDX-License-Identifier: Apache-2.0 */
#include "base/scope.h"
#include "base/test.h"
#include "cli/summary-layer.h"
#include "ui/amount.h"

#include <atoll/atoll.h>

TEST(ages_and_sizes_are_read_as_people_write_them)
{
	uint64_t value;

	CHECK(amount_parse_age("7d", &value, NULL) == 0);
	CHECK_INT(value, 7 * 86400);
	CHECK(amount_parse_age("90s", &value, NULL) == 0);
	CHECK_INT(value, 90);
	CHECK(amount_parse_size("5G", &value, NULL) == 0);
	CHECK_INT(value, 5LL << 30);
	CHECK(amount_parse_size("12", &value, NULL) == 0);
	CHECK_INT(value, 12);
}

TEST(what_is_no_amount_is_refused)
{
	static const char *const bad[] = {"",	"d",   "-1d",  "1",
					  "1y", "1 d", "1d2h", "99999999999999999999s"};
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(amount_parse_age(bad[i], &value, NULL) < 0);
	CHECK(amount_parse_size("99999999999T", &value, NULL) < 0);
	CHECK(amount_parse_size("5X", &value, NULL) < 0);
}

static struct atoll_result result;

static void check_text(const char *want)
{
	cleanup_free char *have = NULL;
	size_t size;
	FILE *out = open_memstream(&have, &size);

	summary_layer_text(&result, out);
	fclose(out);
	CHECK_STR(have, want);
}

TEST(what_a_run_changed_is_one_line_and_what_needs_care_another)
{
	result = (struct atoll_result){0};
	check_text("");
	result = (struct atoll_result){.record = "k3f9x2ab", .n_added = 1, .n_changed = 2};
	check_text("atoll: 3 files changed (atoll diff k3f9x2ab; atoll apply k3f9x2ab)\n");
	result = (struct atoll_result){.record = "k3f9x2ab", .n_deleted = 1, .n_conflicts = 1};
	check_text("atoll: 1 file changed (atoll diff k3f9x2ab; atoll apply k3f9x2ab)\n"
		   "atoll: the host has changed 1 of them meanwhile; 'atoll diff --stat k3f9x2ab' "
		   "shows which\n");
	result = (struct atoll_result){.record = "k3f9x2ab", .layer_note = "no\033space"};
	check_text("atoll: what it wrote is not kept as it should be (k3f9x2ab): no\\x1bspace\n");
}
