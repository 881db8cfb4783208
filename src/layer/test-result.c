/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "base/test.h"
#include "layer/result.h"

#include <errno.h>
#include <sys/stat.h>

static const struct stat file = {.st_mode = S_IFREG | 0644};
static const struct stat dir = {.st_mode = S_IFDIR | 0755};

TEST(a_result_is_what_was_copied_over_what_the_host_has)
{
	struct layer_result *result = result_new();
	struct stat st;

	CHECK(result != NULL);
	CHECK(result_add_copy(result, "new", -1, "1.new", &dir) == 0);
	CHECK(result_add_copy(result, "new/file", -1, "2.new", &file) == 0);
	CHECK(result_add_gone(result, "gone") == 0);
	CHECK(result_add_kept(result, "kept", -1, NULL, &dir) == 0);
	result_sort(result);
	CHECK(result_look(result, "new/file", &st) == LAYER_PRESENT && st.st_mode == file.st_mode);
	/* Nothing of the host's shows in a directory that is new, nor where one was. */
	CHECK(result_look(result, "new/other", &st) == LAYER_COVERED);
	CHECK(result_look(result, "new/file/beneath", &st) == LAYER_COVERED);
	CHECK(result_look(result, "gone", &st) == LAYER_DELETED);
	CHECK(result_look(result, "gone/beneath", &st) == LAYER_COVERED);
	/* A directory that stays shows what it has, and so does all that nobody noted. */
	CHECK(result_look(result, "kept", &st) == LAYER_PRESENT && S_ISDIR(st.st_mode));
	CHECK(result_look(result, "kept/file", &st) == LAYER_ABSENT);
	CHECK(result_look(result, "newer", &st) == LAYER_ABSENT);
	result_free(result);
}

TEST(of_two_notes_of_one_path_the_later_counts)
{
	struct layer_result *result = result_new();
	struct stat st;
	const char *name;
	int fd;

	CHECK(result != NULL);
	CHECK(result_add_gone(result, "a") == 0);
	CHECK(result_add_copy(result, "a", 7, "1.new", &file) == 0);
	CHECK(result_add_copy(result, "b", 7, "2.new", &file) == 0);
	CHECK(result_add_gone(result, "b") == 0);
	result_sort(result);
	CHECK(result_look(result, "a", &st) == LAYER_PRESENT);
	CHECK(result_place(result, "a", &fd, &name) && fd == 7);
	CHECK_STR(name, "1.new");
	CHECK(result_look(result, "b", &st) == LAYER_DELETED);
	CHECK(!result_place(result, "b", &fd, &name));
	result_free(result);
	result_free(NULL);
}
