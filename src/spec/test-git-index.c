/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "spec/git.h"

#include <stdint.h>

static unsigned char data[65536];
static size_t used;

static void put(const void *bytes, size_t size)
{
	memcpy(data + used, bytes, size);
	used += size;
}

static void put32(uint32_t value)
{
	unsigned char bytes[] = {value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255};

	put(bytes, 4);
}

static void begin(uint32_t version, uint32_t count)
{
	used = 0;
	memset(data, 0, sizeof data);
	put("DIRC", 4);
	put32(version);
	put32(count);
}

static void entry(const char *name, unsigned more_flags)
{
	size_t start = used, length = strlen(name);
	unsigned flags = (unsigned)(length < 0xfff ? length : 0xfff) | more_flags;
	unsigned char bytes[] = {flags >> 8, flags & 255};

	used += 60;
	put(bytes, 2);
	if (more_flags & 0x4000)
		used += 2;
	put(name, length);
	used = start + ((used - start + 8) & ~(size_t)7);
}

static void entry4(unsigned strip, const char *rest, unsigned length)
{
	unsigned char bytes[] = {length >> 8, length & 255, strip};

	used += 60;
	put(bytes, 3);
	put(rest, strlen(rest) + 1);
}

static const char *end(void)
{
	used += 20;
	return git_index_vet(data, used, 20);
}

static const char *with(const char *name)
{
	begin(2, 2);
	entry("a", 0);
	entry(name, 0);
	return end();
}

TEST(ordinary_paths_pass)
{
	static const char *const names[] = {"b",	   "src/main.c", ".gitignore", "a b/c",
					    ".github/x",   "...",	 "..a/b",      "dir/",
					    "git/hooks/x", "a.git/x"};

	begin(2, 0);
	CHECK(!end());
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (with(names[i]))
			test_fail(__FILE__, __LINE__, "%s: %s", names[i], with(names[i]));
	}
}

TEST(paths_that_lead_elsewhere_are_refused)
{
	static const char *const names[] = {
		"../evil", "/etc/x",   ".git/hooks/x",	  "a/../../x", "a//b", "./a",
		"a/./b",   "a/.git/x", ".GIT/x",	  ".git",      "..",   "",
		"a/..",

		"git~1/x", ".git./x",  "sub/.Git/config",
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (!with(names[i]))
			test_fail(__FILE__, __LINE__, "'%s' passes", names[i]);
	}
}

TEST(version_3_has_more_flags_and_version_2_has_not)
{
	begin(3, 1);
	entry("a", 0x4000);
	CHECK(!end());
	begin(2, 1);
	entry("a", 0x4000);
	CHECK(end());
	begin(5, 0);
	CHECK(end());
}

TEST(version_4_shares_the_beginning_of_paths)
{
	begin(4, 2);
	entry4(0, "dir/one", 7);
	entry4(3, "two", 7);
	CHECK(!end());
	begin(4, 2);
	entry4(0, ".gi", 3);
	entry4(0, "t/hooks/x", 12);
	CHECK(end());
	begin(4, 1);
	entry4(1, "a", 1);
	CHECK(end());
}

static void extension(const char *name, uint32_t size)
{
	put(name, 4);
	put32(size);
}

TEST(the_table_of_offsets_must_be_of_these_entries)
{
	for (uint32_t wrong = 0; wrong < 3; wrong++) {
		size_t second;

		begin(2, 2);
		entry("a", 0);
		second = used;
		entry("b", 0);
		extension("IEOT", 4 + 16);
		put32(1);
		put32(12);
		put32(1);
		put32((uint32_t)second + (wrong == 1 ? 8 : 0));
		put32(wrong == 2 ? 0 : 1);
		CHECK((end() == NULL) == (wrong == 0));
	}
}

TEST(the_end_of_entries_must_be_where_it_is)
{
	for (uint32_t wrong = 0; wrong < 2; wrong++) {
		uint32_t at;

		begin(2, 1);
		entry("a", 0);
		at = (uint32_t)used;
		extension("EOIE", 24);
		put32(at + 8 * wrong);
		used += 20;
		CHECK((end() == NULL) == (wrong == 0));
	}
}

TEST(a_split_index_and_what_is_cut_off_are_refused)
{
	begin(2, 0);
	extension("link", 20);
	used += 20;
	CHECK(end());
	begin(2, 1);
	entry("a", 0);
	for (size_t size = 0; size < used + 20; size++)
		CHECK(git_index_vet(data, size, 20));
	begin(2, 9);
	entry("a", 0);
	CHECK(end());
}

TEST(sha256_entries_are_longer)
{
	static const char config[] = "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n"
				     "\tobjectFormat = sha256\n";
	static const char both[] = "[extensions]\n\tobjectFormat = sha1\n\tobjectFormat = sha256\n";
	static const char behind[] = "[a.b]\n\tx = 1\n[extensions]\n\tobjectFormat = sha256\n";
	static const char sub[] = "[extensions \"x\"]\n\tobjectFormat = sha256\n";

	CHECK(git_config_hash_size(config, sizeof config - 1) == 32);
	CHECK(git_config_hash_size("[core]\n\tbare = false\n", 21) == 20);
	CHECK(git_config_hash_size(both, sizeof both - 1) == 0);
	CHECK(git_config_hash_size(behind, sizeof behind - 1) == 0);
	CHECK(git_config_hash_size(sub, sizeof sub - 1) == 20);
}

TEST(an_object_format_counts_with_version_1_alone)
{
	static const char none[] = "[extensions]\n\tobjectFormat = sha256\n";
	static const char zero[] = "[core]\n\trepositoryFormatVersion = 0\n[extensions]\n"
				   "\tobjectFormat = sha256\n";
	static const char two[] = "[core]\n\trepositoryFormatVersion = 1\n"
				  "\trepositoryFormatVersion = 0\n[extensions]\n"
				  "\tobjectFormat = sha256\n";
	static const char sha1[] = "[extensions]\n\tobjectFormat = sha1\n";
	static const char unknown[] = "[extensions]\n\tobjectFormat = sha512\n";

	CHECK(git_config_hash_size(none, sizeof none - 1) == 0);
	CHECK(git_config_hash_size(zero, sizeof zero - 1) == 0);
	CHECK(git_config_hash_size(two, sizeof two - 1) == 0);
	CHECK(git_config_hash_size(sha1, sizeof sha1 - 1) == 20);
	CHECK(git_config_hash_size(unknown, sizeof unknown - 1) == 0);
}
