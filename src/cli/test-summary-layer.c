/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/summary-layer.h"

#include "base/scope.h"
#include "base/test.h"

#include <atoll/atoll.h>

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
	check_text("atoll: the changes of k3f9x2ab are incomplete: no\\x1bspace\n");
}
