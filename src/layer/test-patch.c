/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/scope.h"
#include "base/str.h"
#include "base/test.h"
#include "layer/patch.h"

#include <stdlib.h>

TEST(blobs_are_named_as_git_names_them)
{
	char name[PATCH_NAME_SIZE];

	patch_blob_name("", 0, name);
	CHECK_STR(name, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
	patch_blob_name("hello\n", 6, name);
	CHECK_STR(name, "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(a_literal_is_lines_of_base_85_with_their_lengths)
{
	cleanup_buf struct buf out = BUF_INIT(1000);

	patch_add_literal(&out, "", 0);
	CHECK_STR(out.data, "GIT binary patch\nliteral 0\nKcmV+b0RR6000031\n\n");
}
