/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- a store, and logs in it ---- */

static struct atoll_error err;
static const struct atoll_verify_options usual;

/* Its directory as a descriptor. */
static int new_store(void)
{
	char path[4096];

	close(test_tempdir());
	CHECK(setenv("XDG_STATE_HOME", test_tempdir_path(), 1) == 0);
	snprintf(path, sizeof path, "%s/atoll", test_tempdir_path());
	CHECK(mkdir(path, 0700) == 0);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void add(struct audit_log *log, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct json *json = audit_begin(log, "exec", 0, 1);

		json_uint(json, "pid", i);
		json_str(json, "path", "/bin/\"odd\"\n\xff");
		CHECK(audit_commit(log, &err) == 0);
	}
}

static void seal(struct audit_log *log, bool is_last)
{
	CHECK(audit_seal(log, is_last, false, &err) == 0);
}

/* open, 3 events, head, 2 events, last head: 8 lines */
static void write_small(const char *id)
{
	struct audit_log *log;

	CHECK(audit_create(id, "run", NULL, &log, &err) == 0);
	add(log, 3);
	seal(log, false);
	add(log, 2);
	seal(log, true);
	audit_close(log);
}

static const char *log_path(const char *id)
{
	static char path[4200];

	snprintf(path, sizeof path, "%s/atoll/log/%s.jsonl", test_tempdir_path(), id);
	return path;
}

static char *read_log(const char *id, size_t *ret_size)
{
	cleanup_fd int fd = open(log_path(id), O_RDONLY | O_CLOEXEC);
	struct buf text = BUF_INIT(1 << 20);

	CHECK(fd >= 0 && fd_read_all(fd, &text) == 0);
	*ret_size = text.used;
	return buf_take(&text);
}

static void write_log(const char *id, const char *text, size_t size)
{
	cleanup_fd int fd = open(log_path(id), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && fd_write_all(fd, text, size) == 0);
}

static struct atoll_verified found;

static enum atoll_finding finding(const char *id)
{
	memset(&found, 0, sizeof found);
	CHECK(atoll_verify(id, &usual, &found, &err) == 0);
	return found.finding;
}

static enum atoll_finding finding_of_file(const char *id)
{
	memset(&found, 0, sizeof found);
	CHECK(atoll_verify_file(log_path(id), &usual, &found, &err) == 0);
	return found.finding;
}

/* Where line `n` begins; one more than there are is the end. */
static size_t line_at(const char *text, size_t size, unsigned n)
{
	const char *at = text;

	while (n-- > 0)
		at = (const char *)memchr(at, '\n', size - (size_t)(at - text)) + 1;
	return (size_t)(at - text);
}

/* ---- changed by others ---- */

TEST(a_flipped_bit_is_found_in_every_byte)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *text = NULL;
	size_t size;

	write_small("smallone");
	CHECK_INT(finding("smallone"), ATOLL_FINDING_GOOD);
	CHECK(found.n_lines == 8 && found.n_signed == 8);
	text = read_log("smallone", &size);
	for (size_t i = 0; i < size; i++) {
		char c = (char)(text[i] ^ 1 << i % 8);
		cleanup_fd int fd = open(log_path("smallone"), O_WRONLY | O_CLOEXEC);

		CHECK(pwrite(fd, &c, 1, (off_t)i) == 1);
		/* With the file and the key alone. */
		if (finding_of_file("smallone") == ATOLL_FINDING_GOOD)
			test_fail(__FILE__, __LINE__, "byte %zu of %zu: %s", i, size, found.text);
		CHECK(pwrite(fd, text + i, 1, (off_t)i) == 1);
	}
	CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_GOOD);
}

TEST(an_edited_line_is_named)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *text = NULL;
	size_t size;

	write_small("smallone");
	text = read_log("smallone", &size);
	for (unsigned line = 0; line < 8; line++) {
		/* In the time, which every line has. */
		size_t at = line_at(text, size, line) + strlen("{\"prev\":\"") + 64 +
			    strlen("\",\"seq\":1,\"time\":\"2026-11-1");

		text[at] ^= 1;
		write_log("smallone", text, size);
		CHECK_INT(finding("smallone"), ATOLL_FINDING_BROKEN);
		CHECK_INT(found.line, line + 1);
		text[at] ^= 1;
	}
}

TEST(lines_that_are_cut_dropped_doubled_or_swapped_are_found)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *text = NULL, *other = NULL;
	size_t size;

	write_small("smallone");
	text = read_log("smallone", &size);
	other = calloc(2, size);
	for (unsigned line = 0; line < 8; line++) {
		size_t at = line_at(text, size, line), next = line_at(text, size, line + 1),
		       after = line < 7 ? line_at(text, size, line + 2) : next;

		/* Cut: by itself it is good up to there; the tree knows that there was more. */
		write_log("smallone", text, at);
		CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_OPEN);
		CHECK_INT(finding("smallone"), ATOLL_FINDING_BROKEN);
		CHECK_INT(found.line, line + 1);
		write_log("smallone", text, at + 10);
		CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_OPEN);
		CHECK_INT(finding("smallone"), ATOLL_FINDING_BROKEN);
		/* Doubled */
		memcpy(other, text, next);
		memcpy(other + next, text + at, size - at);
		write_log("smallone", other, size + next - at);
		CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_BROKEN);
		CHECK_INT(found.line, line + 2);
		if (line == 7)
			break;
		/* Dropped */
		memcpy(other, text, at);
		memcpy(other + at, text + next, size - next);
		write_log("smallone", other, size - (next - at));
		CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_BROKEN);
		CHECK_INT(found.line, line + 1);
		/* Swapped with the next */
		memcpy(other, text, size);
		memcpy(other + at, text + next, after - next);
		memcpy(other + at + (after - next), text + at, next - at);
		write_log("smallone", other, size);
		CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_BROKEN);
		CHECK_INT(found.line, line + 1);
	}
}

TEST(another_runs_log_under_this_name_is_found)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *text = NULL;
	size_t size;

	write_small("smallone");
	write_small("smalltwo");
	text = read_log("smalltwo", &size);
	write_log("smallone", text, size);
	CHECK_INT(finding("smallone"), ATOLL_FINDING_BROKEN);
	CHECK_INT(found.line, 1);
	CHECK(strstr(found.text, "another run (smalltwo, not smallone)"));
	CHECK_INT(finding("smalltwo"), ATOLL_FINDING_GOOD);
}

TEST(a_log_that_was_written_anew_with_the_key_is_found_by_the_tree)
{
	cleanup_fd __attribute__((unused)) int store = new_store();

	write_small("smallone");
	CHECK(unlink(log_path("smallone")) == 0);
	CHECK_INT(finding("smallone"), ATOLL_FINDING_BROKEN);
	CHECK(strstr(found.text, "its log is gone"));
	/* The tree cannot be told to forget; what comes later is longer, and its own. */
	{
		struct audit_log *log;

		CHECK(audit_create("smallone", "run", NULL, &log, &err) == 0);
		add(log, 40);
		CHECK(audit_seal(log, false, false, &err) == 0);
		audit_close(log);
	}
	CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_OPEN);
	CHECK_INT(finding("smallone"), ATOLL_FINDING_BROKEN);
	CHECK(strstr(found.text, "replaced"));
}

TEST(another_stores_log_is_not_signed_by_our_key)
{
	cleanup_fd int store = new_store();
	cleanup_free char *text = NULL;
	size_t size;

	write_small("smallone");
	text = read_log("smallone", &size);
	close(store);
	store = new_store();
	write_small("smalltwo");
	write_log("smallone", text, size);
	CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_BROKEN);
	CHECK(strstr(found.text, "line 5: the head is signed by a key that is not trusted"));
	CHECK_INT(finding("smallone"), ATOLL_FINDING_BROKEN);
	CHECK(strstr(found.text, "another store"));
}

TEST(the_tree_of_logs_is_checked_as_well)
{
	cleanup_fd int store = new_store();
	cleanup_free char *text = NULL;
	struct atoll_verified worst;
	size_t size;

	for (unsigned i = 0; i < 5; i++) {
		char id[] = "smallaaa";

		id[7] = (char)('a' + i);
		write_small(id);
	}
	CHECK(atoll_verify_all(&usual, &worst, &err) == 0);
	CHECK_INT(worst.finding, ATOLL_FINDING_GOOD);
	text = read_log("runs", &size);
	for (size_t i = 0; i < size; i++) {
		text[i] ^= 1;
		write_log("runs", text, size);
		CHECK(atoll_verify_all(&usual, &worst, &err) == 0);
		CHECK_INT(worst.finding, ATOLL_FINDING_BROKEN);
		text[i] ^= 1;
	}
	for (unsigned line = 0; line < 5; line++) {
		write_log("runs", text, line_at(text, size, line));
		CHECK_INT(finding("smallaaa"), ATOLL_FINDING_BROKEN);
	}
	CHECK(unlinkat(store, "log/runs.jsonl", 0) == 0);
	CHECK_INT(finding("smallaaa"), ATOLL_FINDING_BROKEN);
	write_log("runs", text, size);
	CHECK(unlinkat(store, "log/checkpoint", 0) == 0);
	CHECK_INT(finding("smallaaa"), ATOLL_FINDING_BROKEN);
}

/* ---- going on ---- */

static void reopen(const char *id, unsigned n, bool is_last)
{
	struct audit_log *log;
	int r = audit_reopen(id, &log, &err);

	if (r < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	add(log, n);
	seal(log, is_last);
	audit_close(log);
}

static void write_sandbox(const char *id)
{
	struct audit_log *log;

	CHECK(audit_create(id, "sandbox", "parentid", &log, &err) == 0);
	add(log, 2);
	seal(log, false);
	audit_close(log);
}

/* So much that its edge is worth a file. */
#define MANY 120

static void write_long_sandbox(const char *id)
{
	write_sandbox(id);
	reopen(id, MANY - 1, false);
}

TEST(a_sandboxs_log_goes_on_with_and_without_its_edge)
{
	cleanup_fd int store = new_store();

	write_sandbox("sandboxa");
	CHECK_INT(finding("sandboxa"), ATOLL_FINDING_OPEN);
	reopen("sandboxa", 3, true);
	CHECK_INT(finding("sandboxa"), ATOLL_FINDING_GOOD);
	CHECK_INT(found.n_lines, 8);
	CHECK(faccessat(store, "log/sandboxa.edge", F_OK, 0) < 0);
	reopen("sandboxa", MANY - 1, true);
	CHECK_INT(finding("sandboxa"), ATOLL_FINDING_GOOD);
	CHECK_INT(found.n_lines, 8 + MANY);
	reopen("sandboxa", 3, true);
	CHECK_INT(finding("sandboxa"), ATOLL_FINDING_GOOD);
	CHECK_INT(found.n_lines, 12 + MANY);
	CHECK(unlinkat(store, "log/sandboxa.edge", 0) == 0);
	reopen("sandboxa", 3, true);
	CHECK_INT(finding("sandboxa"), ATOLL_FINDING_GOOD);
	CHECK_INT(found.n_lines, 16 + MANY);
}

/* What was changed before the edge is not read again; behind it, it is found. */
TEST(with_an_edge_only_what_came_later_is_read)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *text = NULL;
	struct audit_log *log;
	size_t size;

	write_long_sandbox("sandboxa");
	reopen("sandboxa", 2, false);
	text = read_log("sandboxa", &size);
	strstr(text, "/bin/")[1] = 's';
	write_log("sandboxa", text, size);
	CHECK_INT(audit_reopen("sandboxa", &log, &err), 0);
	audit_close(log);
	text[size - 3] ^= 1;
	write_log("sandboxa", text, size);
	CHECK_INT(audit_reopen("sandboxa", &log, &err), -EBADMSG);
}

TEST(the_last_step_is_known_again_with_and_without_the_edge)
{
	cleanup_fd int store = new_store();
	struct audit_log *log;

	CHECK(audit_create("sandboxs", "sandbox", "parentid", &log, &err) == 0);
	CHECK_INT(audit_last_step(log), 0);
	for (uint32_t step = 1; step <= 70; step++) {
		audit_begin(log, "start", 0, step);
		CHECK(audit_commit(log, &err) == 0);
	}
	add(log, MANY);
	seal(log, false);
	audit_close(log);
	for (int i = 0; i < 2; i++) {
		CHECK(audit_reopen("sandboxs", &log, &err) == 0);
		CHECK_INT(audit_last_step(log), 70);
		audit_close(log);
		CHECK_INT(unlinkat(store, "log/sandboxs.edge", 0), i == 0 ? 0 : -1);
	}
}

TEST(a_log_that_was_removed_on_purpose_is_not_missed)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	struct atoll_verified worst;

	write_small("smallone");
	write_small("smalltwo");
	CHECK(audit_remove("smallone", &err) == 0);
	CHECK_INT(finding("smallone"), ATOLL_FINDING_UNKNOWN);
	CHECK(strstr(found.text, "was removed"));
	CHECK(atoll_verify_all(&usual, &worst, &err) == 0);
	CHECK_INT(worst.finding, ATOLL_FINDING_GOOD);
}

TEST(an_edge_that_is_old_or_damaged_does_no_harm)
{
	cleanup_fd int store = new_store(), old = -1, fd = -1;
	struct buf text = BUF_INIT(8192);

	write_long_sandbox("sandboxa");
	old = openat(store, "log/sandboxa.edge", O_RDONLY | O_CLOEXEC);
	CHECK(fd_read_all(old, &text) == 0);
	reopen("sandboxa", 5, false);
	for (size_t i = 0; i < text.used; i += 7) {
		text.data[i] ^= (char)(i % 14 == 0);
		fd = openat(store, "log/sandboxa.edge", O_WRONLY | O_TRUNC | O_CLOEXEC);
		CHECK(fd_write_all(fd, text.data, text.used - i % 5) == 0);
		close(take_fd(&fd));
		text.data[i] ^= (char)(i % 14 == 0);
		reopen("sandboxa", 1, true);
		CHECK_INT(finding("sandboxa"), ATOLL_FINDING_GOOD);
	}
	buf_done(&text);
}

TEST(a_half_line_is_cut_off_and_that_is_told)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *text = NULL;
	char *last;
	size_t size;

	write_sandbox("sandboxa");
	text = read_log("sandboxa", &size);
	/* Cut within each line; what the edge knows is more than there is. */
	for (unsigned line = 0; line < 4; line++) {
		cleanup_free char *after = NULL;
		size_t cut = line_at(text, size, line) + 20, after_size;

		write_log("sandboxa", text, cut);
		reopen("sandboxa", 1, false);
		CHECK_INT(finding_of_file("sandboxa"), ATOLL_FINDING_OPEN);
		CHECK(found.n_signed == found.n_lines);
		after = read_log("sandboxa", &after_size);
		last = after + line_at(after, after_size, line ? line : 1);
		CHECK(strstr(last, "\"kind\":\"cut\",\"bytes\":20}"));
	}
}

TEST(a_log_that_was_changed_is_not_gone_on_with)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *text = NULL;
	struct audit_log *log;
	size_t size;

	write_sandbox("sandboxa");
	text = read_log("sandboxa", &size);
	strstr(text, "/bin/")[1] = 's';
	write_log("sandboxa", text, size);
	CHECK_INT(audit_reopen("sandboxa", &log, &err), -EBADMSG);
	CHECK(strstr(err.text, "the event log of run sandboxa was changed"));
	CHECK(strstr(err.text, "line 2: it was changed"));
}

/* ---- writing ---- */

TEST(one_id_is_one_log)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	struct audit_log *log;

	write_small("smallone");
	CHECK_INT(audit_create("smallone", "run", NULL, &log, &err), -EEXIST);
	CHECK_INT(audit_create("../other", "run", NULL, &log, &err), -EINVAL);
	CHECK_INT(audit_create("", "run", NULL, &log, &err), -EINVAL);
	CHECK_INT(audit_reopen("smalltwo", &log, &err), -ENOENT);
}

TEST(an_event_that_is_too_large_is_refused_and_the_log_goes_on)
{
	cleanup_fd __attribute__((unused)) int store = new_store();
	cleanup_free char *huge = malloc(2 << 20);
	struct audit_log *log;
	struct json *json;
	size_t size;

	CHECK(audit_create("smallone", "run", NULL, &log, &err) == 0);
	add(log, 1);
	memset(huge, 'x', 2 << 20);
	json = audit_begin(log, "output", 0, 1);
	json_strn(json, "content", huge, 2 << 20);
	CHECK_INT(audit_commit(log, &err), -E2BIG);
	CHECK(!audit_last_line(log, &size) && size == 0);
	add(log, 1);
	CHECK(memcmp(audit_last_line(log, &size), "{\"prev\":\"", 9) == 0);
	seal(log, true);
	seal(log, true); /* nothing more to sign */
	audit_close(log);
	CHECK_INT(finding("smallone"), ATOLL_FINDING_GOOD);
	CHECK_INT(found.n_lines, 4);
}

TEST(a_key_that_others_can_read_is_refused_with_the_fix)
{
	cleanup_fd int store = new_store();
	struct audit_log *log;

	write_small("smallone");
	CHECK(fchmodat(store, "keys/key.pem", 0640, 0) == 0);
	CHECK(audit_create("smalltwo", "run", NULL, &log, &err) < 0);
	CHECK(err.fault == ATOLL_FAULT_POLICY && strstr(err.text, "chmod 600"));
	CHECK(fchmodat(store, "keys/key.pem", 0600, 0) == 0);
	write_small("smalltwo");
	CHECK(truncate(log_path("../keys/key.pem"), 0) < 0);
}

TEST(a_damaged_key_is_refused)
{
	cleanup_fd int store = new_store(), fd = -1;
	struct buf text = BUF_INIT(4096);
	struct audit_log *log;

	write_small("smallone");
	fd = openat(store, "keys/key.pem", O_RDWR | O_CLOEXEC);
	CHECK(fd_read_all(fd, &text) == 0);
	for (size_t i = 0; i < text.used; i++) {
		char c = (char)(text.data[i] ^ 1);

		CHECK(pwrite(fd, &c, 1, (off_t)i) == 1);
		if (audit_create("smalltwo", "run", NULL, &log, &err) == 0)
			test_fail(__FILE__, __LINE__, "byte %zu of the key", i);
		CHECK(pwrite(fd, text.data + i, 1, (off_t)i) == 1);
	}
	write_small("smalltwo");
	buf_done(&text);
}

TEST(a_rotated_key_still_vouches_for_what_the_old_one_signed)
{
	cleanup_fd int store = new_store();
	struct atoll_key a, b, c;

	write_small("smallone");
	write_sandbox("sandboxa");
	CHECK(atoll_key_rotate(&a, &b, &err) == 0);
	reopen("sandboxa", 1, false);
	CHECK(atoll_key_rotate(&b, &c, &err) == 0);
	CHECK(!streq(a.id, b.id) && !streq(b.id, c.id) && streq(a.store, c.store));
	reopen("sandboxa", 1, true);
	write_small("smalltwo");
	CHECK_INT(finding("smallone"), ATOLL_FINDING_GOOD);
	CHECK_STR(found.key, a.id);
	CHECK_INT(finding("smalltwo"), ATOLL_FINDING_GOOD);
	CHECK_STR(found.key, c.id);
	CHECK_INT(finding("sandboxa"), ATOLL_FINDING_GOOD);
	/* Without the hand-overs of the store: the log has its own. */
	CHECK(faccessat(store, "keys/.", F_OK, 0) == 0);
	CHECK(renameat(store, "keys", store, "keys-away") == 0);
	CHECK(mkdirat(store, "keys", 0700) == 0);
	CHECK(renameat(store, "keys-away/key.pem", store, "keys/key.pem") == 0);
	CHECK_INT(finding_of_file("sandboxa"), ATOLL_FINDING_GOOD);
	CHECK_INT(finding_of_file("smallone"), ATOLL_FINDING_BROKEN);
}
