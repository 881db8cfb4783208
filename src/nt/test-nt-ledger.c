/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/test.h"
#include "nt/nt-ledger.h"

#define SID "S-1-5-21-1635020652-1-2-2147483651"

static void put(struct buf *out, const char *kind, const char *a, const char *b, const char *c)
{
	const char *const fields[] = {a, b, c, NULL};
	cleanup_free char *line = nt_ledger_line(kind, fields);

	CHECK(line);
	buf_add_str(out, line);
}

TEST(lines_are_read_as_they_were_written)
{
	cleanup_buf struct buf out = BUF_INIT(10000);
	struct nt_ledger ledger;

	put(&out, "root", "1", SID, "C:\\p\t%\n");
	put(&out, "changing", "1", NULL, NULL);
	put(&out, "made", "C:\\p\\.git", NULL, NULL);
	put(&out, "made", "C:\\p\\.idea", NULL, NULL);
	put(&out, "removed", "C:\\p\\.git", NULL, NULL);
	put(&out, "account", "atoll-off-1", NULL, NULL);
	put(&out, "rule", "block", NULL, NULL);
	put(&out, "undone", "account", "atoll-off-1", NULL);
	CHECK_INT(nt_ledger_read(out.data, out.used, &ledger), 0);
	CHECK_INT(ledger.n_damaged, 0);
	CHECK_INT(ledger.n_roots, 1);
	CHECK_STR(ledger.roots[0].path, "C:\\p\t%\n");
	CHECK_INT(ledger.roots[0].state, NT_ROOT_CHANGING);
	CHECK(nt_ledger_find(&ledger, "c:\\P\t%\n"));
	CHECK_INT(ledger.n_things, 2);
	nt_ledger_done(&ledger);
}

/* Every single damaged byte: one line is lost, the others count. */
TEST(a_damaged_byte_loses_its_line_only)
{
	cleanup_buf struct buf out = BUF_INIT(10000);
	struct nt_ledger ledger;
	size_t second;

	put(&out, "root", "1", SID, "C:\\p");
	second = out.used;
	put(&out, "granted", "1", NULL, NULL);
	put(&out, "made", "C:\\p\\x", NULL, NULL);
	for (size_t i = 0; i < second; i++) {
		char kept = out.data[i];

		out.data[i] = 0;
		CHECK_INT(nt_ledger_read(out.data, out.used, &ledger), 0);
		CHECK_INT(ledger.n_roots, 0);
		CHECK(ledger.n_damaged >= 1);
		CHECK_INT(ledger.n_things, 1);
		nt_ledger_done(&ledger);
		out.data[i] = kept;
	}
	/* Torn anywhere: what came before counts. */
	for (size_t size = second; size < out.used; size++) {
		CHECK_INT(nt_ledger_read(out.data, size, &ledger), 0);
		CHECK_INT(ledger.n_roots, 1);
		nt_ledger_done(&ledger);
	}
}

TEST(a_ledger_of_nuls_is_survived)
{
	char nuls[4096] = {0};
	struct nt_ledger ledger;

	CHECK_INT(nt_ledger_read(nuls, sizeof nuls, &ledger), 0);
	CHECK_INT(ledger.n_damaged, 1);
	nt_ledger_done(&ledger);
}

TEST(a_sid_that_is_not_ours_is_no_root)
{
	cleanup_buf struct buf out = BUF_INIT(10000);
	struct nt_ledger ledger;

	put(&out, "root", "1", "S-1-5-18", "C:\\p");
	put(&out, "root", "2", "S-1-5-21-1-2-3-1001", "C:\\q");
	put(&out, "granted", "3", NULL, NULL);
	CHECK_INT(nt_ledger_read(out.data, out.used, &ledger), 0);
	CHECK_INT(ledger.n_roots, 0);
	CHECK_INT(ledger.n_damaged, 3);
	nt_ledger_done(&ledger);
}
