/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Random operations on the current directory
 *
 *	ops make SEED COUNT    choose, do, and print them: one line each, with how it ended
 *	ops redo <LINES        do what an earlier one printed, and print it anew
 *	ops play <LINES        do it, and see that each ends the same way; status 3 if not
 *	ops copy FROM TO       a tree
 *	ops remove PATH        a tree
 *
 * Without capabilities, as inside a sandbox: otherwise root would enter directories here that are
 * closed to it there.
 */

#define ENTRIES_MAX 250 /* a tree of this size is not to grow */
#define DEPTH_MAX   7

static const char *const pool[] = {
	"a",
	"b",
	"c",
	"d",
	"e.txt",
	"f.c",
	"with space",
	"new\nline",
	"\xff\xfe\x80",
	"\xc3\xa4\xe2\x82\xac",
	"-rf",
	"\"quote'",
	"back\\slash",
	".hidden",
	".wh.a",
	"tab\tbell\a",
	"$(x)*?",
	"%s%n",
	"long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long-long",
};
#define N_POOL (sizeof pool / sizeof *pool)

static uint64_t state;

static uint64_t below(uint64_t n)
{
	return random_next(&state) % n;
}

static unsigned names_of(const char *path, struct stat *ret)
{
	memset(ret, 0, sizeof *ret);
	return lstat(path, ret) == 0 && !S_ISDIR(ret->st_mode) ? ret->st_nlink : 0;
}

/* ---- choosing ---- */

static size_t count_entries(const char *path, size_t depth)
{
	char whole[4096], **names;
	size_t n, sum;
	struct stat st;

	if (names_read(path, &names, &n) < 0)
		return 0;
	sum = n;
	for (size_t i = 0; i < n && depth < DEPTH_MAX + 2; i++) {
		snprintf(whole, sizeof whole, "%s/%s", path, names[i]);
		if (lstat(whole, &st) == 0 && S_ISDIR(st.st_mode))
			sum += count_entries(whole, depth + 1);
	}
	names_free(names, n);
	return sum;
}

/* Something that is there, at most so deep; "" if there is nothing. */
static void choose_there(char *ret, bool wants_dir)
{
	char path[4096] = "", next[4096], **names;
	struct stat st;
	size_t n, at;

	*ret = 0;
	for (size_t depth = 0; depth < DEPTH_MAX; depth++) {
		if (names_read(*path ? path : ".", &names, &n) < 0)
			return;
		if (n == 0) {
			free(names);
			return;
		}
		at = below(n);
		snprintf(next, sizeof next, "%s%s%s", path, *path ? "/" : "", names[at]);
		names_free(names, n);
		if (lstat(next, &st) < 0)
			return;
		if (!wants_dir || S_ISDIR(st.st_mode))
			strcpy(ret, next);
		if (!S_ISDIR(st.st_mode) || below(3) == 0)
			return;
		strcpy(path, next);
	}
}

/* A name that may be new, in a directory that is there. */
static void choose_new(char *ret)
{
	char dir[4096];

	choose_there(dir, true);
	snprintf(ret, 4096, "%.3900s%s%s", dir, *dir ? "/" : "", pool[below(N_POOL)]);
}

static uint64_t choose_size(void)
{
	switch (below(20)) {
	case 0:
		return 0;
	case 1:
		return below(200000);
	case 2:
	case 3:
	case 4:
		return below(10000);
	default:
		return below(400);
	}
}

/* Mostly what lets its owner go on. */
static uint64_t choose_mode(const char *path)
{
	struct stat st;
	uint64_t mode = below(01000);

	/* Into a directory that is closed to its owner an ordinary user's apply cannot look either.
	 */
	if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return mode | 0700 | (below(10) == 0 ? 01000 : 0);
	return mode | (below(20) ? 0600 : 0400);
}

static void choose_text(struct op *op)
{
	op->n[0] = choose_size();
	op->n[1] = below(1 << 20);
	op->n[2] = below(4) ? 0644 : 0755;
}

/* What changes a file's bytes. */
static void choose_edit(struct op *op)
{
	static const char *const verbs[] = {"write",	"append", "map",    "punch",
					    "truncate", "save",	  "append", "write"};
	const char *verb = verbs[below(8)];

	strcpy(op->verb, verb);
	choose_there(op->a, false);
	choose_text(op);
	if (!strcmp(verb, "write"))
		op->n[2] = below(1 << 20), op->n[1] = op->n[0],
		op->n[0] = below(12) ? below(500) : below(2000000);
	else if (!strcmp(verb, "punch"))
		op->n[0] = below(4) * 4096 + below(2) * below(4096),
		op->n[1] = 1 + below(4) * 4096 + below(2) * below(5000);
	else if (!strcmp(verb, "truncate"))
		op->n[0] = below(10) ? choose_size() : below(3000000);
}

/* A new name, or a name less. */
static void choose_name(struct op *op, bool shrinks)
{
	static const char *const grow[] = {"create",  "mkdir",	"symlink", "fifo",  "fifo",
					   "tmpfile", "create", "mkdir",   "create"};
	static const char *const shrink[] = {"unlink", "unlink", "rmdir",
					     "rmtree", "tofile", "todir"};

	if (shrinks) {
		strcpy(op->verb, shrink[below(6)]);
		choose_there(op->a, !strcmp(op->verb, "rmdir") || !strcmp(op->verb, "rmtree"));
		choose_text(op);
		return;
	}
	strcpy(op->verb, grow[below(9)]);
	choose_new(op->a);
	choose_text(op);
	if (!strcmp(op->verb, "symlink"))
		below(2) ? choose_there(op->b, false) : (void)strcpy(op->b, pool[below(N_POOL)]);
	else if (strcmp(op->verb, "create") && strcmp(op->verb, "tmpfile"))
		op->n[0] = !strcmp(op->verb, "mkdir") ? 0755 : 0644;
}

/* Of two names. */
static void choose_move(struct op *op)
{
	static const char *const verbs[] = {"rename", "rename",	  "rename",    "link",
					    "link",   "exchange", "noreplace", "copytree"};
	struct stat st;

	strcpy(op->verb, verbs[below(8)]);
	choose_there(op->a, below(3) == 0);
	/* Several names of a pipe or a link mean nothing to anybody, and apply does not keep them.
	 */
	if (!strcmp(op->verb, "link") && names_of(op->a, &st) && !S_ISREG(st.st_mode))
		strcpy(op->verb, "rename");
	if (!strcmp(op->verb, "exchange") || (!strcmp(op->verb, "rename") && below(2)))
		choose_there(op->b, below(3) == 0);
	else
		choose_new(op->b);
}

/* About a name: mode, times, extended attributes. */
static void choose_about(struct op *op)
{
	static const char *const verbs[] = {"chmod", "utimes", "setxattr", "setxattr",
					    "removexattr"};
	static const char *const xattrs[] = {"user.a", "user.b", "user.long.name"};
	struct stat st;

	strcpy(op->verb, verbs[below(5)]);
	choose_there(op->a, below(4) == 0);
	/* The kernel's overlay may look at another name's mode for a while: not of several names.
	 */
	if (!strcmp(op->verb, "chmod") && names_of(op->a, &st) > 1)
		strcpy(op->verb, "utimes");
	if (!strcmp(op->verb, "chmod"))
		op->n[0] = choose_mode(op->a);
	else if (!strcmp(op->verb, "utimes"))
		op->n[0] = below(1000000000), op->n[1] = below(1000000000);
	else
		strcpy(op->b, xattrs[below(3)]), op->n[0] = below(120), op->n[1] = below(1 << 20);
}

static void choose(struct op *op, bool shrinks)
{
	do {
		uint64_t kind = below(20);

		memset(op, 0, sizeof *op);
		if (kind < 7)
			choose_edit(op);
		else if (kind < 13)
			choose_name(op, shrinks || below(3) == 0);
		else if (kind < 16)
			choose_move(op);
		else
			choose_about(op);
		if (!*op->a) /* there is nothing yet */
			strcpy(op->verb, "mkdir"), choose_new(op->a), op->n[0] = 0755;
	} while (!*op->a);
}

/* ---- doing, and telling ---- */

/* Did a file with several names lose the others by this? See tree.h. */
static unsigned find_splits(const struct op *op, const struct stat *a, const struct stat *b)
{
	bool moves = !strcmp(op->verb, "rename") || !strcmp(op->verb, "noreplace"),
	     swaps = !strcmp(op->verb, "exchange"), links = !strcmp(op->verb, "link");
	bool is_done = op->result == 0;
	struct stat now;
	unsigned n, found = 0;

	if (!S_ISDIR(a->st_mode) && a->st_nlink > 1) {
		n = names_of((moves || swaps) && is_done ? op->b : op->a, &now);
		if (n && n != a->st_nlink + (links && is_done))
			found |= 1;
		/* Two names of one file: nothing moves, unless they are two to the overlay. */
		if (moves && is_done && a->st_ino == b->st_ino && names_of(op->a, &now) == 0)
			found |= 1;
	}
	if (swaps && !S_ISDIR(b->st_mode) && b->st_nlink > 1) {
		n = names_of(is_done ? op->a : op->b, &now);
		if (n && n != b->st_nlink)
			found |= 2;
	}
	return found;
}

static void tell(const struct op *op)
{
	printf("%s %d %d %u %ju %ju %ju ", op->verb, op->result, op->copies, op->splits,
	       (uintmax_t)op->n[0], (uintmax_t)op->n[1], (uintmax_t)op->n[2]);
	word_write(op->a);
	putchar(' ');
	word_write(op->b);
	putchar('\n');
}

static void do_first(struct op *op)
{
	struct stat a, b;

	names_of(op->a, &a);
	names_of(op->b, &b);
	op->result = op_perform(op, true);
	op->splits = find_splits(op, &a, &b);
	tell(op);
}

static int make(uint64_t count)
{
	struct op op;
	bool shrinks = false;

	for (uint64_t i = 0; i < count; i++) {
		if (i % 64 == 0)
			shrinks = count_entries(".", 0) > ENTRIES_MAX;
		choose(&op, shrinks);
		do_first(&op);
	}
	return 0;
}

static bool hear(struct op *op)
{
	static char line[40000], a[16384], b[16384];
	uintmax_t n[3];
	int copies;

	memset(op, 0, sizeof *op);
	if (!fgets(line, sizeof line, stdin))
		return false;
	*a = *b = 0;
	if (sscanf(line, "%15s %d %d %u %ju %ju %ju %16383s %16383s", op->verb, &op->result,
		   &copies, &op->splits, &n[0], &n[1], &n[2], a, b) < 9)
		return false;
	op->copies = copies;
	for (size_t i = 0; i < 3; i++)
		op->n[i] = n[i];
	word_read(a, op->a, sizeof op->a);
	word_read(b, op->b, sizeof op->b);
	return true;
}

static int redo(void)
{
	struct op op;

	while (hear(&op))
		do_first(&op);
	return 0;
}

static int play(void)
{
	struct op op;
	int r;

	for (size_t i = 1; hear(&op); i++) {
		/* What an overlay cannot do, and is not done in another way either. */
		if (op.result == -EXDEV || op.result == -ESTALE)
			continue;
		if (op.splits & 1)
			file_split(op.a);
		if (op.splits & 2)
			file_split(op.b);
		r = op_perform(&op, false);
		if (r != op.result) {
			fprintf(stderr, "operation %zu: %s here, %s there: ", i,
				strerrorname_np(-r) ?: "0", strerrorname_np(-op.result) ?: "0");
			fflush(stderr);
			tell(&op);
			return 3;
		}
	}
	return 0;
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {0};

	syscall(SYS_capset, &header, none);
}

int main(int argc, char **argv)
{
	int r;

	umask(022);
	if (argc == 4 && !strcmp(argv[1], "copy")) {
		r = tree_copy(argv[2], argv[3], true);
		if (r < 0)
			fprintf(stderr, "copy %s: %s\n", argv[2], strerror(-r));
		return r < 0;
	}
	if (argc == 3 && !strcmp(argv[1], "remove"))
		return tree_remove(argv[2]) < 0;
	drop_capabilities();
	if (argc == 4 && !strcmp(argv[1], "make")) {
		state = strtoull(argv[2], NULL, 10);
		return make(strtoull(argv[3], NULL, 10));
	}
	if (argc == 2 && !strcmp(argv[1], "redo"))
		return redo();
	if (argc == 2 && !strcmp(argv[1], "play"))
		return play();
	return 2;
}
