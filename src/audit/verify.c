/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/verify.h"

#include "audit/key-trust.h"
#include "audit/log-check.h"
#include "audit/log-line.h"
#include "audit/runs-read.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

/*
 * Verifies a log, or all logs of a store
 *
 * The store's tree is read before the logs: a log that is closed in between has more lines than the
 * tree knows, which is accepted. In the other order its end would seem to be missing.
 */

/* ---- which log ---- */

/* Is it "ID.jsonl" of a run? */
static bool log_id(const char *name, char ret[ATOLL_ID_SIZE])
{
	size_t length = strlen(name);

	if (!ends_with(name, ".jsonl") || length - 6 >= ATOLL_ID_SIZE || streq(name, "runs.jsonl"))
		return false;
	snprintf(ret, ATOLL_ID_SIZE, "%.*s", (int)(length - 6), name);
	return audit_is_id(ret);
}

static DIR *open_logs(int state_fd, struct atoll_error *err)
{
	int fd = openat(state_fd, "log", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		error_set(err, ATOLL_FAULT_REQUEST, errno, "open the store's logs");
		if (fd >= 0)
			close(fd);
	}
	return dir;
}

int audit_find_log(int state_fd, const char *beginning, char ret[ATOLL_ID_SIZE],
		   struct atoll_error *err)
{
	DIR *dir = open_logs(state_fd, err);
	const struct dirent *entry;
	struct timespec latest = {0};
	char id[ATOLL_ID_SIZE];
	struct stat st;
	unsigned n = 0;

	if (!dir)
		return -ENOENT;
	while ((entry = readdir(dir))) {
		if (!log_id(entry->d_name, id) || (beginning && !starts_with(id, beginning)))
			continue;
		if (beginning && streq(id, beginning)) {
			memcpy(ret, id, sizeof id);
			n = 1;
			break;
		}
		if (beginning) {
			memcpy(ret, id, sizeof id);
			n++;
		} else if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			   (st.st_mtim.tv_sec > latest.tv_sec ||
			    (st.st_mtim.tv_sec == latest.tv_sec &&
			     st.st_mtim.tv_nsec > latest.tv_nsec))) {
			latest = st.st_mtim;
			memcpy(ret, id, sizeof id);
			n = 1;
		}
	}
	closedir(dir);
	if (n > 1)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' begins the id of %u runs; give more of it", beginning, n);
	return n ? 0 : -ENOENT;
}

/* ---- one log ---- */

static void describe_broken(struct atoll_verified *ret, const struct audit_check *check,
			    const char *who, const char *message)
{
	ret->finding = ATOLL_FINDING_BROKEN;
	ret->line = check->bad_line;
	snprintf(ret->text, sizeof ret->text, "%s: BROKEN at %s", who, message);
}

/* All lines are good: is the log complete? */
static void describe_whole(struct atoll_verified *ret, const struct audit_check *check,
			   const char *who, uint64_t cut, bool is_live)
{
	uint64_t n = check->place.edge.size, unsigned_n = n - check->n_signed;
	char tail[160] = "";

	if (check->known_size && n <= check->known_size) {
		ret->finding = ATOLL_FINDING_BROKEN;
		ret->line = n + 1;
		snprintf(ret->text, sizeof ret->text,
			 "%s: BROKEN at line %" PRIu64
			 ": its end is gone: it was closed after %" PRIu64
			 " lines and a head, as the store's tree knows",
			 who, n + 1, check->known_size);
		return;
	}
	if (check->is_closed && !cut) {
		snprintf(ret->text, sizeof ret->text,
			 "%s: good, %" PRIu64 " lines, closed and signed by key %s", who, n,
			 check->key);
		return;
	}
	ret->finding = ATOLL_FINDING_OPEN;
	if (unsigned_n)
		snprintf(tail, sizeof tail, "; %" PRIu64 " more are chained and not signed",
			 unsigned_n);
	if (cut)
		snprintf(tail + strlen(tail), sizeof tail - strlen(tail),
			 "; then %" PRIu64 " bytes of a half line", cut);
	snprintf(ret->text, sizeof ret->text, "%s: not closed, good up to line %" PRIu64 "%s; %s",
		 who, check->n_signed, tail,
		 is_live ? "it is being written" : "its writer was interrupted");
}

static bool is_locked(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return false;
}

static int add_hand_over(void *arg, const char *text, size_t size, struct atoll_error *err)
{
	struct audit_line line;
	char note[AUDIT_HAND_OVER_MAX];
	int got;

	(void)err;
	if (!audit_line_parse(text, size, &line) && streq(line.kind, "key") &&
	    audit_json_is_valid(text, size) &&
	    (got = audit_line_string(&line, "note", note, sizeof note)) > 0)
		audit_trust_hand_over(arg, note, (size_t)got);
	return 0;
}

/* A hand-over further down may connect an unknown key with a trusted one. So collect all hand-
 * overs and check again. */
static int check_fd(struct audit_check *check, int fd, uint64_t *ret_cut, struct atoll_error *err)
{
	const struct audit_check start = *check;

	for (;;) {
		size_t before;
		int r = audit_check_fd(check, fd, ret_cut, err);

		if (r != -EKEYREJECTED || lseek(fd, 0, SEEK_SET) < 0)
			return r;
		before = check->trust->n;
		if (audit_each_line(fd, add_hand_over, check->trust, ret_cut, NULL) < 0 ||
		    check->trust->n == before || lseek(fd, 0, SEEK_SET) < 0)
			return r;
		*check = start;
	}
}

/* `check` contains the expected run, store and entries. */
static int verify_fd(int fd, const char *who, struct audit_check *check, struct atoll_verified *ret,
		     struct atoll_error *err)
{
	struct atoll_error message = {0};
	bool is_live = is_locked(fd);
	uint64_t cut = 0;
	int r = check_fd(check, fd, &cut, &message);

	if (r < 0 && r != -EBADMSG && r != -EKEYREJECTED) {
		*err = message;
		return r;
	}
	ret->finding = ATOLL_FINDING_GOOD;
	ret->line = 0;
	ret->n_lines = check->place.edge.size;
	ret->n_signed = check->n_signed;
	memcpy(ret->store, check->store, sizeof ret->store);
	memcpy(ret->key, check->key, sizeof ret->key);
	memcpy(ret->run, check->run, sizeof ret->run);
	if (r < 0)
		describe_broken(ret, check, who, message.text);
	else
		describe_whole(ret, check, who, cut, is_live);
	return 0;
}

static void describe_unknown(struct atoll_verified *ret, const char *run, const char *text)
{
	*ret = (struct atoll_verified){.finding = ATOLL_FINDING_UNKNOWN};
	snprintf(ret->run, sizeof ret->run, "%s", run);
	snprintf(ret->text, sizeof ret->text, "run %s: %s", run, text);
}

/* A log that is in the tree but not in the store. */
static void describe_missing(struct atoll_verified *ret, const struct audit_entry *entry)
{
	*ret = (struct atoll_verified){.finding = ATOLL_FINDING_BROKEN};
	snprintf(ret->run, sizeof ret->run, "%s", entry->run);
	snprintf(ret->text, sizeof ret->text,
		 "run %s: BROKEN: its log is gone; the store's tree knows of it (line %" PRIu64 ")",
		 entry->run, entry->line);
}

/* Is a closed log in the tree? If it was written after the tree was read, reads the tree again. */
static int is_entered(int state_fd, int fd, const struct audit_check *check,
		      struct audit_runs *runs, const struct audit_trust *trust,
		      struct atoll_error *err)
{
	const struct audit_entry *entry = audit_runs_find(runs, check->run);
	struct audit_runs again;
	struct stat st;

	if (entry && !entry->is_removed && entry->size >= check->head_size)
		return 1;
	/* One second, for file systems with coarse times. */
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_mtim.tv_sec + 1 < runs->time_ns / 1000000000)
		return 0;
	if (audit_runs_read(state_fd, trust, &again, err) < 0)
		return -EIO;
	audit_runs_done(runs);
	*runs = again;
	entry = audit_runs_find(runs, check->run);
	return entry && !entry->is_removed && entry->size >= check->head_size;
}

/* A closed log that is missing in the tree: its writer was killed before it added the leaf, or
 * an old copy of the tree was restored. Only this check shows the latter. */
static int check_entered(int state_fd, int fd, const struct audit_check *check,
			 struct audit_runs *runs, const struct audit_trust *trust,
			 struct atoll_verified *ret, struct atoll_error *err)
{
	int r;

	if (ret->finding != ATOLL_FINDING_GOOD || is_locked(fd))
		return 0;
	r = is_entered(state_fd, fd, check, runs, trust, err);
	if (r != 0)
		return r < 0 ? r : 0;
	ret->finding = ATOLL_FINDING_OPEN;
	snprintf(ret->text, sizeof ret->text,
		 "run %s: all %" PRIu64
		 " lines are good, closed and signed by key %s, but the store's "
		 "tree does not know of that: its writer was interrupted, or the tree was put back",
		 ret->run, ret->n_lines, ret->key);
	return 0;
}

static int verify_run(int state_fd, const char *id, struct audit_runs *runs,
		      const struct audit_trust *trust, struct atoll_verified *ret,
		      struct atoll_error *err)
{
	const struct audit_entry *entry = audit_runs_find(runs, id);
	/* A copy of the list: a hand-over in one log does not count for others. */
	struct audit_trust own = *trust;
	struct audit_check check = {.trust = &own};
	cleanup_fd int fd = -1;
	char path[64], who[40];
	struct stat st;
	int r;

	snprintf(path, sizeof path, "log/%s.jsonl", id);
	fd = openat(state_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && entry && !entry->is_removed) {
		describe_missing(ret, entry);
		return 0;
	}
	if (fd < 0) {
		describe_unknown(ret, id,
				 errno == ENOENT
					 ? (entry ? "its log was removed, as the store's tree knows"
						  : "there is no such log")
					 : "its log cannot be opened");
		return 0;
	}
	snprintf(who, sizeof who, "run %s", id);
	memcpy(check.run, id, strlen(id) + 1);
	memcpy(check.store, runs->found.store, sizeof check.store);
	check.n_known = audit_runs_known(runs, id, &check.known);
	check.known_size = check.n_known ? entry->size : 0;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		describe_unknown(ret, id, "its log is no file");
		return 0;
	}
	r = verify_fd(fd, who, &check, ret, err);
	return r < 0 ? r : check_entered(state_fd, fd, &check, runs, trust, ret, err);
}

/* ---- what others see ---- */

static int open_store(struct atoll_error *err)
{
	char path[PATH_MAX];
	int fd = state_open(false, path, err);

	if (fd == -ENOENT)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "there is no record here: nothing has run");
	return fd;
}

int atoll_verify(const char *id, const struct atoll_verify_options *options,
		 struct atoll_verified *ret, struct atoll_error *err)
{
	cleanup_fd int state_fd = open_store(err);
	struct audit_trust trust = {0};
	struct audit_runs runs;
	char name[ATOLL_ID_SIZE];
	int r = state_fd < 0 ? state_fd : audit_trust_for(state_fd, options, &trust, err);

	if (r < 0)
		return r;
	r = audit_runs_read(state_fd, &trust, &runs, err);
	if (r < 0)
		return r;
	r = audit_find_log(state_fd, id, name, err);
	if (r == -ENOENT && id && audit_is_id(id)) {
		snprintf(name, sizeof name, "%s", id);
		r = 0;
	} else if (r == -ENOENT) {
		r = error_set(err, ATOLL_FAULT_REQUEST, 0, "there is no log of '%s'",
			      id ? id : "a run");
	}
	if (r == 0)
		r = verify_run(state_fd, name, &runs, &trust, ret, err);
	/* A good log proves little if the tree is broken. */
	if (r == 0 && runs.found.finding == ATOLL_FINDING_BROKEN &&
	    ret->finding != ATOLL_FINDING_BROKEN) {
		ret->finding = ATOLL_FINDING_BROKEN;
		snprintf(ret->text + strlen(ret->text), sizeof ret->text - strlen(ret->text),
			 "; but the %s", runs.found.text);
	}
	audit_runs_done(&runs);
	return r;
}

int atoll_verify_file(const char *path, const struct atoll_verify_options *options,
		      struct atoll_verified *ret, struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), state_fd = -1;
	struct audit_trust trust = {0};
	struct audit_check check = {.trust = &trust};
	char store[PATH_MAX], who[200];
	int r;

	if (fd < 0) {
		describe_unknown(ret, "", "");
		snprintf(ret->text, sizeof ret->text, "%s: cannot be opened: %s",
			 str_show(path, who, sizeof who), strerror(errno));
		return 0;
	}
	/* A file and a key are enough: ignore a missing or damaged store. */
	state_fd = state_open(false, store, NULL);
	r = audit_trust_for(state_fd, options, &trust, err);
	if (r < 0)
		return r;
	return verify_fd(fd, str_show(path, who, sizeof who), &check, ret, err);
}

/* ---- all ---- */

struct all {
	const struct atoll_verify_options *options;
	struct atoll_verified *worst;
};

/* From bad to worse: good, open, unknown, broken. */
static int badness(enum atoll_finding finding)
{
	return finding == ATOLL_FINDING_BROKEN	  ? 3
	       : finding == ATOLL_FINDING_UNKNOWN ? 2
						  : (int)finding;
}

static void report(struct all *all, const struct atoll_verified *found, bool is_first)
{
	if (is_first || badness(found->finding) > badness(all->worst->finding))
		*all->worst = *found;
	if (all->options->each)
		all->options->each(found, all->options->data);
}

static int verify_logs(int state_fd, struct audit_runs *runs, const struct audit_trust *trust,
		       struct all *all, struct atoll_error *err)
{
	DIR *dir = open_logs(state_fd, err);
	const struct dirent *entry;
	int r = 0;

	if (!dir)
		return -ENOENT;
	while (r == 0 && (entry = readdir(dir))) {
		struct atoll_verified found = {0};
		char id[ATOLL_ID_SIZE];

		if (!log_id(entry->d_name, id))
			continue;
		r = verify_run(state_fd, id, runs, trust, &found, err);
		if (r == 0)
			report(all, &found, false);
	}
	closedir(dir);
	return r;
}

static void verify_missing(int state_fd, const struct audit_runs *runs, struct all *all)
{
	for (size_t i = 0; i < runs->n; i++) {
		struct atoll_verified found;
		char path[64];

		snprintf(path, sizeof path, "log/%s.jsonl", runs->items[i].run);
		if (runs->items[i].is_removed ||
		    (i + 1 < runs->n && streq(runs->items[i].run, runs->items[i + 1].run)) ||
		    faccessat(state_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		describe_missing(&found, &runs->items[i]);
		report(all, &found, false);
	}
}

int atoll_verify_all(const struct atoll_verify_options *options, struct atoll_verified *ret,
		     struct atoll_error *err)
{
	cleanup_fd int state_fd = open_store(err);
	struct all all = {options, ret};
	struct audit_trust trust = {0};
	struct audit_runs runs;
	int r = state_fd < 0 ? state_fd : audit_trust_for(state_fd, options, &trust, err);

	if (r < 0)
		return r;
	r = audit_runs_read(state_fd, &trust, &runs, err);
	if (r < 0)
		return r;
	report(&all, &runs.found, true);
	r = verify_logs(state_fd, &runs, &trust, &all, err);
	if (r == 0)
		verify_missing(state_fd, &runs, &all);
	audit_runs_done(&runs);
	return r;
}
