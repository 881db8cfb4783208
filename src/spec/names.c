/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/names.h"

#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"

#include <stdint.h>

/* The most components that a name of the table has. */
enum {
	DEPTH_MAX = 3,
};

static const char whole_container[] =
	"directories that hold trusted settings (make the directory, move the files one by one)";

/*
 * Folding
 *
 * The union of what file systems do, as far as the result is ASCII: ext4 and f2fs with casefold
 * (Unicode full case folding, ignorable code points dropped), HFS+ and APFS, NTFS and vfat (upper
 * case; trailing dots and blanks, streams), ZFS (upper case, where a dotless i becomes I).
 */

static const struct {
	uint32_t code;
	const char *text;
} ascii_folds[] = {
	{0x00df, "ss"},	 {0x0130, "i"},	 {0x0131, "i"},	 {0x017f, "s"},	 {0x1e9e, "ss"},
	{0x212a, "k"},	 {0xfb00, "ff"}, {0xfb01, "fi"}, {0xfb02, "fl"}, {0xfb03, "ffi"},
	{0xfb04, "ffl"}, {0xfb05, "st"}, {0xfb06, "st"},
};

static uint32_t decode_utf8(const char *text, size_t length)
{
	static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t code = (unsigned char)text[0] & lead_bits[length];

	for (size_t i = 1; i < length; i++)
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	return code;
}

/* What a character beyond ASCII folds to: "" for nothing, NULL for itself. */
static const char *fold_character(uint32_t code)
{
	if (utf8_is_ignorable(code))
		return "";
	for (size_t i = 0; i < ARRAY_SIZE(ascii_folds); i++)
		if (code == ascii_folds[i].code)
			return ascii_folds[i].text;
	return NULL;
}

bool names_fold(const char *component, size_t size, char ret_folded[NAMES_FOLD_SIZE])
{
	size_t used = 0;

	for (size_t i = 0; i < size && component[i] != ':';) {
		unsigned char c = component[i];
		size_t length = 1;
		const char *fold = NULL;

		/* No fold is longer than the character it stands for, so this holds for all. */
		if (used + 4 >= NAMES_FOLD_SIZE)
			return false;
		if (c < 0x80) {
			ret_folded[used++] = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
			i++;
			continue;
		}
		length = utf8_length(component + i, size - i);
		if (length)
			fold = fold_character(decode_utf8(component + i, length));
		else
			length = 1;
		if (fold) {
			while (*fold)
				ret_folded[used++] = *fold++;
		} else {
			memcpy(ret_folded + used, component + i, length);
			used += length;
		}
		i += length;
	}
	while (used && (ret_folded[used - 1] == '.' || ret_folded[used - 1] == ' '))
		used--;
	ret_folded[used] = '\0';
	return true;
}

/* Is `folded` a short name, "stem~1.ext", as vfat and NTFS make it for a long `name`? Which digit
 * the name got depends on its neighbours, so every digit will do. */
static bool is_short_name(const char *folded, const char *name, size_t size)
{
	const char *tilde = strchr(folded, '~');
	const char *end = name + size, *dot = NULL, *have = folded;
	size_t stem = 0, extension = 0;

	if (!tilde || tilde[1] < '1' || tilde[1] > '9')
		return false;
	while (name < end && *name == '.')
		name++;
	for (const char *c = name; c < end; c++)
		if (*c == '.')
			dot = c;
	for (const char *c = name; c < (dot ? dot : end) && stem < 6; c++) {
		if (*c == '.')
			continue;
		if (*have++ != *c)
			return false;
		stem++;
	}
	if (have != tilde)
		return false;
	have += 2;
	if (!dot)
		return *have == '\0';
	if (*have++ != '.')
		return false;
	for (const char *c = dot + 1; c < end && extension < 3; c++, extension++)
		if (*have++ != *c)
			return false;
	return *have == '\0';
}

static bool same(const char *folded, const char *name, size_t size)
{
	if (strncmp(folded, name, size) == 0 && folded[size] == '\0')
		return true;
	return is_short_name(folded, name, size);
}

bool names_same(const char *folded, const char *name)
{
	return same(folded, name, strlen(name));
}

bool names_is_git(const char *component, size_t size)
{
	char folded[NAMES_FOLD_SIZE];

	return names_fold(component, size, folded) && names_same(folded, ".git");
}

/* The first component of `path` beneath `root`; "" if that is `root` itself. A path that is not
 * beneath it is judged from its beginning. */
static const char *beneath(const char *root, const char *path)
{
	const char *rest = path;

	if (path_is_within(path, root))
		rest += strlen(root);
	while (*rest == '/')
		rest++;
	return rest;
}

static const char *end_of_component(const char *component)
{
	return strchrnul(component, '/');
}

static const char *next_component(const char *component)
{
	component = end_of_component(component);
	while (*component == '/')
		component++;
	return component;
}

const char *names_git_inside(const char *root, const char *path)
{
	for (const char *c = beneath(root, path); *c; c = next_component(c))
		if (names_is_git(c, end_of_component(c) - c))
			return next_component(c);
	return NULL;
}

enum match {
	MATCH_NONE,
	MATCH_BEGINS, /* the path ends within the name: ".github" of ".github/workflows" */
	MATCH_FULL,
};

/* A name that begins so; or a short one, of which no more than six characters are left. */
static bool begins(const char *folded, const char *name, size_t size)
{
	return strncmp(folded, name, size) == 0 || is_short_name(folded, name, size);
}

static bool matches_one(const char *name, size_t size, const char *folded)
{
	size_t length;

	if (size && name[size - 1] == '*')
		return begins(folded, name, size - 1);
	if (*name != '*')
		return same(folded, name, size);
	name++, size--;
	length = strlen(folded);
	return length >= size && memcmp(folded + length - size, name, size) == 0;
}

/* Compare a name of the table, component by component, with `path` from where `folded` was made. A
 * full match that ends before `from` is none: the grant lies beneath it. */
static enum match matches(const char *name, const char *folded, const char *path, const char *from)
{
	char next[NAMES_FOLD_SIZE];

	for (;;) {
		size_t size = end_of_component(name) - name;

		if (!matches_one(name, size, folded))
			return MATCH_NONE;
		if (name[size] == '\0')
			return path >= from ? MATCH_FULL : MATCH_NONE;
		name += size + 1;
		path = next_component(path);
		if (*path == '\0')
			return MATCH_BEGINS;
		if (!names_fold(path, end_of_component(path) - path, next))
			return MATCH_NONE;
		folded = next;
	}
}

/* The best match of all names at one component, and the group it is in. Of names that are only
 * marked a beginning means nothing. */
static enum match look_up(const char *folded, const char *path, const char *from, bool with_marks,
			  const char **ret_what)
{
	enum match best = MATCH_NONE;
	bool is_short = strchr(folded, '~');

	for (size_t i = 0; i < names_group_count; i++) {
		if (names_groups[i].is_mark && !with_marks)
			continue;
		for (const char *const *name = names_groups[i].names; *name; name++) {
			enum match match;

			/* Nearly every file that is ever made ends here, for every name. */
			if (**name != '*' && !is_short &&
			    ((*name)[0] != folded[0] || (*name)[1] != folded[1]))
				continue;
			match = matches(*name, folded, path, from);
			if (match == MATCH_FULL) {
				*ret_what = names_groups[i].what;
				return MATCH_FULL;
			}
			if (match > best && !names_groups[i].is_mark)
				best = match;
		}
	}
	return best;
}

/* A file in the place of the directory `.jj/repo` names another repository, with settings of its
 * own. `c` is the component that the match begins with. */
static bool is_pointer(const char *c, enum names_action action)
{
	char folded[NAMES_FOLD_SIZE];
	const char *next = next_component(c);

	if (action != NAMES_CREATE && action != NAMES_WRITE && action != NAMES_RENAME_TO)
		return false;
	return names_fold(c, end_of_component(c) - c, folded) && names_same(folded, ".jj") &&
	       names_fold(next, end_of_component(next) - next, folded) &&
	       names_same(folded, "repo");
}

static const char *judge(const char *root, const char *path, enum names_action action,
			 bool with_marks)
{
	const char *from = beneath(root, path);
	const char *what = NULL;
	char folded[NAMES_FOLD_SIZE];

	if (*from == '\0')
		return NULL;
	for (const char *c = path + strspn(path, "/"); *c; c = next_component(c)) {
		const char *last = c;

		/* No name is long enough to reach from here to beneath the root. */
		for (unsigned i = 1; i < DEPTH_MAX && last < from; i++)
			last = next_component(last);
		if (last < from)
			continue;
		/* What does not fit is no name of ours, and no file system's either. */
		if (!names_fold(c, end_of_component(c) - c, folded))
			continue;
		if (c >= from && names_same(folded, ".git"))
			return NULL;
		switch (look_up(folded, c, from, with_marks, &what)) {
		case MATCH_FULL:
			return what;
		case MATCH_BEGINS:
			if (action == NAMES_RENAME_DIR_TO || action == NAMES_SYMLINK)
				return whole_container;
			if (is_pointer(c, action))
				return "settings of another repository";
			break;
		case MATCH_NONE:
			break;
		}
	}
	return NULL;
}

const char *names_refuse(const char *root, const char *path, enum names_action action)
{
	return judge(root, path, action, false);
}

const char *names_mark(const char *root, const char *path, enum names_action action)
{
	return judge(root, path, action, true);
}

/* Their text is harmless, but programs of the host open them wherever somebody lists, searches or
 * edits files, and wait at a FIFO for ever. */
static const char *const read_names[] = {
	".gitignore",	  /* git status, git add; and searches such as ripgrep */
	".gitattributes", /* git status, git add, git diff */
	".mailmap",	  /* git log, git shortlog */
	".ignore",	  /* ripgrep, fd, ag */
	".rgignore",	  /* ripgrep */
	".fdignore",	  /* fd */
	".editorconfig",  /* editors, for each file that they open */
	"head",		  /* git, which looks for a repository from each directory up */
};

const char *names_refuse_special(const char *root, const char *path)
{
	const char *what = names_mark(root, path, NAMES_CREATE), *name = path_name(path);
	char folded[NAMES_FOLD_SIZE];

	if (what || !names_fold(name, strlen(name), folded))
		return what;
	for (size_t i = 0; i < ARRAY_SIZE(read_names); i++)
		if (names_same(folded, read_names[i]))
			return "FIFO or socket in the place of a file that the host reads";
	return NULL;
}

bool names_is_container(const char *component)
{
	char folded[NAMES_FOLD_SIZE];
	const char *what;

	return names_fold(component, strlen(component), folded) &&
	       look_up(folded, component, component, false, &what) == MATCH_BEGINS;
}

int names_for_each_in(const char *component, int (*use)(const char *rest, void *data), void *data)
{
	char folded[NAMES_FOLD_SIZE];
	int r = 0;

	if (!names_fold(component, strlen(component), folded))
		return 0;
	for (size_t i = 0; i < names_group_count; i++) {
		if (names_groups[i].is_mark)
			continue;
		for (const char *const *name = names_groups[i].names; *name && r == 0; name++) {
			const char *end = end_of_component(*name);

			if (*end && !strchr(end, '*') && same(folded, *name, (size_t)(end - *name)))
				r = use(end + 1, data);
		}
	}
	return r;
}
