/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"
#include "layer/layer.h"
#include "layer/test-layers.h"

#include <errno.h>
#include <sys/xattr.h>
#include <time.h>

TEST(nothing_touched_is_no_change)
{
	struct layers *l = layers_new(2);

	layers_file(l, BASE, "a", "one\n");
	layers_file(l, BASE, "dir/b", "two\n");
	layers_read(l);
	CHECK_STR(layers_words(l), "");
}

TEST(added_changed_and_deleted_are_told_apart)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "changed", "one\n");
	layers_file(l, BASE, "deleted", "one\n");
	layers_file(l, BASE, "kept", "one\n");
	layers_file(l, 0, "changed", "two\n");
	layers_file(l, 0, "added", "new\n");
	layers_whiteout(l, 0, "deleted");
	layers_whiteout(l, 0, "never");
	layers_read(l);
	CHECK_STR(layers_words(l), "A added\nC changed content\nD deleted\n");
}

TEST(a_copy_that_is_the_same_in_all_is_no_change)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "dir/a", "one\n");
	layers_copy_up(l, 0, "dir");
	layers_copy_up(l, 0, "dir/a");
	layers_read(l);
	CHECK_STR(layers_words(l), "");
}

TEST(times_count_for_files_alone_and_only_if_nothing_else_differs)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "dir/a", "one\n");
	layers_copy_up(l, 0, "dir");
	layers_copy_up(l, 0, "dir/a");
	layers_touch(l, 0, "dir", 7);
	layers_touch(l, 0, "dir/a", 7);
	layers_read(l);
	CHECK_STR(layers_words(l), "C dir/a time\n");
}

TEST(a_deleted_directory_lists_all_that_was_in_it)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "dir/sub/a", "one\n");
	layers_file(l, BASE, "dir/b", "one\n");
	layers_file(l, BASE, "dirt", "one\n");
	layers_whiteout(l, 0, "dir");
	layers_read(l);
	CHECK_STR(layers_words(l), "D dir\nD dir/b\nD dir/sub\nD dir/sub/a\n");
}

TEST(of_an_opaque_directory_only_real_differences_are_told)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "dir/same", "one\n");
	layers_file(l, BASE, "dir/other", "one\n");
	layers_file(l, BASE, "dir/gone", "one\n");
	layers_file(l, BASE, "dir/sub/gone", "one\n");
	layers_dir(l, 0, "dir");
	layers_opaque(l, 0, "dir");
	layers_copy_up(l, 0, "dir/same");
	layers_file(l, 0, "dir/other", "two!\n");
	layers_file(l, 0, "dir/new", "new\n");
	layers_read(l);
	CHECK_STR(layers_words(l), "D dir/gone\nA dir/new\nC dir/other content\nD dir/sub\n"
				   "D dir/sub/gone\n");
}

TEST(the_file_gone_says_the_same_as_whiteouts_and_attributes)
{
	static const char gone[] = "deleted\0dir/\0x/y\0";
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "deleted", "one\n");
	layers_file(l, BASE, "dir/gone", "one\n");
	layers_file(l, BASE, "x/y/z", "one\n");
	layers_dir(l, 0, "dir");
	layers_dir(l, 0, "x");
	layers_gone(l, 0, gone, sizeof gone - 1);
	layers_read(l);
	CHECK_STR(layers_words(l), "D deleted\nD dir/gone\nD x/y\nD x/y/z\n");
}

TEST(a_list_of_deleted_names_that_leads_out_is_refused)
{
	static const char *const bad[] = {"/etc", "../x", "a//b", "a/../b", ".", "a/.", ""};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct layers *l = layers_new(1);

		layers_gone(l, 0, bad[i], strlen(bad[i]) + 1);
		CHECK_INT(layers_try(l), -EBADMSG);
		layers_done(l);
	}
}

TEST(types_modes_links_and_empty_directories)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "file-dir", "one\n");
	layers_file(l, BASE, "dir-file/x", "one\n");
	layers_file(l, BASE, "mode", "one\n");
	layers_link(l, BASE, "link", "old");
	layers_file(l, BASE, "file-link", "one\n");
	layers_dir(l, BASE, "dirmode");
	layers_file(l, 0, "file-dir/y", "new\n");
	layers_file(l, 0, "dir-file", "one\n");
	layers_copy_up(l, 0, "mode");
	layers_chmod(l, 0, "mode", 0755);
	layers_link(l, 0, "link", "new");
	layers_link(l, 0, "file-link", "one");
	layers_dir(l, 0, "empty");
	layers_dir(l, 0, "dirmode");
	layers_chmod(l, 0, "dirmode", 0700);
	layers_read(l);
	CHECK_STR(layers_words(l), "C dir-file type\nD dir-file/x\nC dirmode mode\nA empty\n"
				   "C file-dir type\nA file-dir/y\nC file-link type\n"
				   "C link content\nC mode mode\n");
}

TEST(attributes_of_the_overlay_are_not_the_commands_but_escaped_ones_are)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "a", "one\n");
	layers_file(l, BASE, "b", "one\n");
	layers_file(l, BASE, "c", "one\n");
	for (const char *name = "abc"; *name; name++)
		layers_copy_up(l, 0, (char[]){*name, '\0'});
	layers_xattr(l, 0, "a", "user.overlay.impure", "y");
	layers_xattr(l, 0, "b", "user.overlay.overlay.opaque", "y");
	layers_xattr(l, 0, "c", "user.note", "y");
	layers_read(l);
	CHECK_STR(layers_words(l), "C b xattrs\nC c xattrs\n");
}

TEST(layers_speak_from_the_topmost_down)
{
	struct layers *l = layers_new(3);

	layers_file(l, BASE, "a", "base\n");
	layers_file(l, BASE, "b", "base\n");
	layers_file(l, BASE, "d/x", "base\n");
	layers_file(l, BASE, "e/x", "base\n");
	layers_file(l, 2, "a", "lowest\n");
	layers_whiteout(l, 0, "a");
	layers_whiteout(l, 2, "b");
	layers_file(l, 1, "b", "again\n");
	layers_file(l, 1, "new", "new\n");
	layers_whiteout(l, 0, "new");
	layers_whiteout(l, 2, "d");
	layers_file(l, 1, "d/y", "new\n");
	layers_opaque(l, 1, "d");
	layers_file(l, 0, "d/z", "new\n");
	layers_file(l, 2, "e/y", "new\n");
	layers_file(l, 1, "e/z", "new\n");
	layers_whiteout(l, 0, "e/x");
	layers_read(l);
	CHECK_STR(layers_words(l), "D a\nC b content\nD d/x\nA d/y\nA d/z\nD e/x\nA e/y\nA e/z\n");
}

TEST(a_stack_is_looked_at_and_opened_as_one_tree)
{
	struct layers *l = layers_new(2);
	struct layer_stack stack;
	struct stat st;
	size_t index;
	cleanup_fd int after = -1, before = -1;

	layers_file(l, BASE, "d/a", "base\n");
	layers_file(l, BASE, "d/b", "base\n");
	layers_file(l, BASE, "o/c", "base\n");
	layers_file(l, 1, "d/a", "lower\n");
	layers_whiteout(l, 0, "d/b");
	layers_dir(l, 1, "o");
	layers_opaque(l, 1, "o");
	CHECK_INT(layer_stack_open(layers_record(l), &stack, NULL), 0);
	CHECK_INT(layer_stack_look(&stack, "d/a", &index, &st), LAYER_PRESENT);
	CHECK_INT(index, 1);
	CHECK_INT(layer_stack_look(&stack, "d/b", &index, &st), LAYER_DELETED);
	CHECK_INT(layer_stack_look(&stack, "o/c", &index, &st), LAYER_COVERED);
	CHECK_INT(layer_stack_look(&stack, "d/none", &index, &st), LAYER_ABSENT);
	after = layer_stack_open_after(&stack, "d/a");
	before = layer_stack_open_before(&stack, "d/a");
	CHECK(after >= 0 && before >= 0);
	CHECK(fstat(after, &st) == 0 && st.st_size == 6);
	CHECK(fstat(before, &st) == 0 && st.st_size == 5);
	CHECK_INT(layer_stack_open_after(&stack, "o/c"), -ENOENT);
	CHECK_INT(layer_stack_open_after(&stack, "d/b"), -ENOENT);
	layer_stack_close(&stack);
}

TEST(names_of_one_file_are_a_group)
{
	struct layers *l = layers_new(1);
	const struct atoll_changes *list;

	layers_file(l, 0, "a", "one\n");
	layers_hard_link(l, 0, "a", "b");
	layers_file(l, 0, "c", "one\n");
	list = layers_read(l);
	CHECK_INT(list->n, 3);
	CHECK(list->items[0].link_group && list->items[0].link_group == list->items[1].link_group);
	CHECK_INT(list->items[2].link_group, 0);
}

TEST(sparse_files_of_a_gibibyte_are_compared_by_their_data)
{
	struct layers *l = layers_new(1);

	for (const char *name = "ab"; *name; name++) {
		layers_sparse(l, BASE, (char[]){*name, '\0'}, (off_t)1 << 30, "x", 5000);
		layers_sparse(l, 0, (char[]){*name, '\0'}, (off_t)1 << 30, *name == 'a' ? "x" : "y",
			      *name == 'a' ? 5000 : (1 << 29));
		layers_touch(l, BASE, (char[]){*name, '\0'}, 5);
		layers_touch(l, 0, (char[]){*name, '\0'}, 5);
	}
	layers_read(l);
	CHECK_STR(layers_words(l), "C b content\n");
}

TEST(what_the_host_changed_since_is_a_conflict_and_what_is_equal_is_not)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "calm", "one\n");
	layers_file(l, BASE, "both", "one\n");
	layers_file(l, BASE, "deleted", "one\n");
	layers_file(l, 0, "calm", "two\n");
	layers_file(l, 0, "both", "two\n");
	layers_file(l, 0, "alike", "two\n");
	layers_file(l, 0, "twice", "two\n");
	layers_whiteout(l, 0, "deleted");
	layers_begin(l);
	layers_write(l, BASE, "both", "three\n");
	layers_write(l, BASE, "deleted", "three\n");
	layers_file(l, BASE, "alike", "two\n");
	layers_file(l, BASE, "twice", "three\n");
	layers_read(l);
	CHECK_STR(layers_words(l), "C both content: changed on the host since\nC calm content\n"
				   "D deleted: changed on the host since\n"
				   "C twice content: added on the host as well\n");
}

/* Their path is longer than PATH_MAX, and they are more than a process has descriptors. */
#define LEVELS 2100

TEST(thousands_of_levels_and_names_of_any_bytes)
{
	struct layers *l = layers_new(1);
	const struct atoll_changes *list;

	layers_deep(l, 0, LEVELS);
	layers_file(l, 0, "\x01\xff\n\"\\ name", "x");
	list = layers_read(l);
	CHECK_INT(list->n, LEVELS + 1);
	CHECK_STR(list->items[0].path, "\x01\xff\n\"\\ name");
	CHECK_INT(strlen(list->items[LEVELS].path), LEVELS * 2 - 1);
	layers_deep_remove(l, 0);
}

TEST(what_shuts_its_owner_out_is_read_and_left_as_it_is)
{
	struct layers *l = layers_new(1);
	const struct atoll_changes *list;

	layers_file(l, 0, "dir/sub/file", "x");
	layers_chmod(l, 0, "dir/sub/file", 0);
	layers_chmod(l, 0, "dir/sub", 0);
	layers_chmod(l, 0, "dir", 0);
	list = layers_read(l);
	CHECK_STR(layers_words(l), "A dir\nA dir/sub\nA dir/sub/file\n");
	for (size_t i = 0; i < 3; i++)
		CHECK_INT(list->items[i].after.st_mode & 07777, 0);
	list = layers_read(l);
	CHECK_INT(list->n, 3);
	layers_chmod(l, 0, "dir", 0700);
	layers_chmod(l, 0, "dir/sub", 0700);
}

TEST(fifos_and_sockets_do_not_keep_the_reader_waiting)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "README.md", "one\n");
	layers_fifo(l, 0, "README.md");
	layers_fifo(l, 0, "new");
	layers_read(l);
	CHECK_STR(layers_words(l), "C README.md type (special file)\nA new (special file)\n");
}

TEST(what_was_moved_is_a_rename_by_origin_by_content_or_by_likeness)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "a", "origin\n");
	layers_file(l, BASE, "b", "content\n");
	layers_file(l, BASE, "c/same", "content\n");
	layers_file(l, BASE, "d", "line one\nline two\nline three\nline four\n");
	layers_file(l, BASE, "e", "unlike\n");
	layers_whiteout(l, 0, "a");
	layers_whiteout(l, 0, "b");
	layers_whiteout(l, 0, "c");
	layers_whiteout(l, 0, "d");
	layers_whiteout(l, 0, "e");
	layers_file(l, 0, "new-b", "content\n");
	layers_file(l, 0, "new/same", "content\n");
	layers_file(l, 0, "new-d", "line one\nline two\nline 3\nline four\n");
	layers_file(l, 0, "new-e", "quite another text\n");
	layers_touch(l, 0, "new-b", 7);
	layers_touch(l, 0, "new/same", 7);
	layers_read(l);
	CHECK_STR(layers_words(l), "D a\nD c\nD e\nA new\nR b -> new-b time\n"
				   "R d -> new-d content\nA new-e\nR c/same -> new/same time\n");
}

TEST(a_rename_that_was_written_to_is_known_by_its_origin)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "a", "some text\n");
	layers_copy_up(l, 0, "a");
	layers_rename(l, 0, "a", "b");
	layers_write(l, 0, "b", "all of it is new\n");
	layers_whiteout(l, 0, "a");
	layers_begin(l);
	layers_read(l);
	CHECK_STR(layers_words(l), "R a -> b content\n");
}

TEST(what_was_copied_up_and_is_gone_from_the_host_is_a_conflict)
{
	struct layers *l = layers_new(1);

	layers_file(l, BASE, "a", "some text\n");
	layers_file(l, BASE, "b", "other\n");
	layers_file(l, BASE, "dir/c", "other\n");
	layers_copy_up(l, 0, "a");
	layers_write(l, 0, "a", "new\n");
	layers_copy_up(l, 0, "dir");
	layers_copy_up(l, 0, "b");
	layers_rename(l, 0, "b", "moved");
	layers_file(l, 0, "b", "new b\n");
	layers_begin(l);
	layers_remove(l, BASE, "a");
	layers_remove(l, BASE, "dir/c");
	layers_rmdir(l, BASE, "dir");
	layers_read(l);
	CHECK_STR(layers_words(l), "A a: deleted on the host since\nC b content\n"
				   "A dir: deleted on the host since\nA moved\n");
}
