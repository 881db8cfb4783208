/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/git.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

/*
 * Reading a git index the way git does
 *
 *	"DIRC" version count | entries | extensions | hash
 *
 * git trusts the paths in it, because it wrote them. Large ones it reads in several threads, by a
 * table of offsets (extension IEOT) that it finds by another (EOIE): both must say what reading
 * from the start says. The hash at the end is git's own to check.
 */

enum {
	HEADER_SIZE = 12,
	STAT_SIZE = 40, /* before the hash of an entry */
	FLAG_EXTENDED = 0x4000,
	NAME_MASK = 0xfff,
};

struct index {
	const unsigned char *data;
	size_t end; /* where the hash begins */
	unsigned hash_size;
	uint32_t version, count;
	/* where we are, and the path of the entry that was read last */
	size_t at;
	size_t name_length;
	char name[PATH_MAX];
};

static uint32_t get32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool is_good_component(const char *name, size_t length)
{
	if (length == 0 || (length == 1 && name[0] == '.') ||
	    (length == 2 && name[0] == '.' && name[1] == '.'))
		return false;
	return !names_is_git(name, length);
}

/* Relative, plain, and not into a git directory. A directory of a sparse index ends in a slash. */
static bool is_good_path(const char *path, size_t length)
{
	if (length && path[length - 1] == '/')
		length--;
	for (size_t start = 0; start <= length;) {
		const char *slash = memchr(path + start, '/', length - start);
		size_t size = slash ? (size_t)(slash - path) - start : length - start;

		if (!is_good_component(path + start, size))
			return false;
		start += size + 1;
	}
	return true;
}

/* Version 4: how much of the last path to drop, in git's variable length. */
static bool take_strip(struct index *index, size_t *ret)
{
	size_t value;

	if (index->at >= index->end)
		return false;
	value = index->data[index->at] & 127;
	while (index->data[index->at] & 128) {
		if (++index->at >= index->end || value > SIZE_MAX >> 8)
			return false;
		value = ((value + 1) << 7) | (index->data[index->at] & 127);
	}
	index->at++;
	*ret = value;
	return true;
}

/* The path of an entry, from `index->at` on; `kept` bytes of the last one stay. */
static bool take_name(struct index *index, size_t kept, size_t stated)
{
	const unsigned char *start = index->data + index->at;
	const unsigned char *nul = memchr(start, '\0', index->end - index->at);
	size_t size = nul ? (size_t)(nul - start) : 0;

	if (!nul || kept + size >= sizeof index->name)
		return false;
	memcpy(index->name + kept, start, size);
	index->name_length = kept + size;
	index->name[index->name_length] = '\0';
	index->at += size;
	/* git takes the length from the flags where it fits in there, and the NUL where it does
	 * not. */
	return stated == NAME_MASK ? index->name_length >= NAME_MASK : index->name_length == stated;
}

/* One entry. `begins` says that a block of the table begins here, where nothing of the last path
 * may be used. */
static bool take_entry(struct index *index, bool begins)
{
	size_t start = index->at, fixed = STAT_SIZE + index->hash_size + 2, strip = 0, kept = 0;
	const unsigned char *p = index->data + start;
	unsigned flags;

	if (index->end - start < fixed + 2)
		return false;
	flags = (unsigned)p[fixed - 2] << 8 | p[fixed - 1];
	index->at += fixed;
	if (flags & FLAG_EXTENDED) {
		if (index->version < 3)
			return false;
		index->at += 2;
	}
	if (index->version == 4) {
		if (!take_strip(index, &strip) || strip > index->name_length)
			return false;
		kept = index->name_length - strip;
		if (begins && kept)
			return false;
	}
	if (!take_name(index, kept, flags & NAME_MASK))
		return false;
	/* Padded with NULs to a multiple of eight, at least one; version 4 has just the one. */
	if (index->version == 4)
		index->at++;
	else
		index->at = start + ((index->at - start + 8) & ~(size_t)7);
	return index->at <= index->end && is_good_path(index->name, index->name_length);
}

/* The table: blocks of (offset, count) that together are all entries, in order. */
static bool is_good_table(const struct index *index, const unsigned char *table, size_t size)
{
	static struct index again; /* a path is large, and this runs one at a time */
	size_t blocks = size < 4 ? 0 : (size - 4) / 8;
	uint32_t done = 0;

	if (size < 4 || (size - 4) % 8 || get32(table) != 1 || blocks == 0)
		return false;
	again = *index;
	again.at = HEADER_SIZE;
	again.name_length = 0;
	for (size_t i = 0; i < blocks; i++) {
		uint32_t offset = get32(table + 4 + 8 * i), n = get32(table + 8 + 8 * i);

		if (offset != again.at || n > index->count - done)
			return false;
		for (uint32_t k = 0; k < n; k++) {
			if (!take_entry(&again, k == 0))
				return false;
		}
		done += n;
	}
	return done == index->count;
}

static const char *vet_extensions(const struct index *index)
{
	size_t at = index->at;

	while (index->end - at >= 8) {
		const unsigned char *p = index->data + at;
		size_t size = get32(p + 4);

		if (size > index->end - at - 8)
			return "git index: an extension is too long";
		if (memcmp(p, "link", 4) == 0)
			return "git index: a split index";
		if (memcmp(p, "IEOT", 4) == 0 && !is_good_table(index, p + 8, size))
			return "git index: its table of offsets is wrong";
		if (memcmp(p, "EOIE", 4) == 0 &&
		    (size != 4 + index->hash_size || at + 8 + size != index->end ||
		     get32(p + 8) != index->at))
			return "git index: its end is elsewhere";
		at += 8 + size;
	}
	return at == index->end ? NULL : "git index: there is more behind it";
}

const char *git_index_vet(const unsigned char *data, size_t size, unsigned hash_size)
{
	static struct index index;

	if (size < HEADER_SIZE + hash_size || memcmp(data, "DIRC", 4) != 0)
		return "git index: it is none";
	index.data = data;
	index.end = size - hash_size;
	index.hash_size = hash_size;
	index.version = get32(data + 4);
	index.count = get32(data + 8);
	index.at = HEADER_SIZE;
	index.name_length = 0;
	if (index.version < 2 || index.version > 4)
		return "git index: of an unknown version";
	for (uint32_t i = 0; i < index.count; i++) {
		if (!take_entry(&index, false))
			return "git index: an entry leads outside the work tree";
	}
	return vet_extensions(&index);
}
