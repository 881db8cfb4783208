/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/find-log.h"

#include "auditcmd/event-values.h"
#include "auditcmd/events.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "layer/store.h"

#include <atoll/layer.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

/* Finds the event log that a person means. The log itself has its workspace, because not every
 * run has a record. */

#define SUFFIX ".jsonl"

/* The number of bytes that are searched for the first step. */
#define START_WITHIN 16

static int log_dir(char ret[PATH_MAX], struct atoll_error *err)
{
	int r = layer_store_path(ret, err);

	if (r == 0 && strlen(ret) + sizeof "/log" > PATH_MAX - 64)
		return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "the store of records");
	if (r == 0)
		strcat(ret, "/log");
	return r;
}

/* The id of "k3v7q2ma.jsonl". */
static bool read_name(const char *name, char ret_id[16])
{
	char id[STORE_ID_LENGTH + 1];

	if (strlen(name) != STORE_ID_LENGTH + strlen(SUFFIX) || !ends_with(name, SUFFIX))
		return false;
	snprintf(id, sizeof id, "%s", name);
	if (!store_is_id(id))
		return false;
	strcpy(ret_id, id);
	return true;
}

/* ---- all of them ---- */

void events_list_free(struct events_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(entries[i].workspace);
		json_decref(entries[i].start);
	}
	free(entries);
}

static int by_time(const void *left, const void *right)
{
	const struct events_entry *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? 1 : -1;
	return strcmp(a->id, b->id);
}

static int add_entry(int dir_fd, const char *name, struct events_entry **entries, size_t *n)
{
	struct events_entry entry = {0};
	struct stat st;

	if (!read_name(name, entry.id) || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return 0;
	entry.time_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000U + (uint64_t)st.st_mtim.tv_nsec;
	entry.size = (uint64_t)st.st_size;
	/* Doubles the array when the number is a power of two. */
	if ((*n & (*n - 1)) == 0) {
		void *more = realloc(*entries, (*n ? 2 * *n : 1) * sizeof entry);

		if (!more)
			return -ENOMEM;
		*entries = more;
	}
	(*entries)[(*n)++] = entry;
	return 0;
}

/* Reads the workspace of the first step; nothing if the log cannot be read. */
static void read_start(const char *dir, struct events_entry *entry)
{
	cleanup_events struct events *events = NULL;
	cleanup_event struct event event = {0};
	char path[PATH_MAX + 32];
	const char *workspace;

	snprintf(path, sizeof path, "%s/%s" SUFFIX, dir, entry->id);
	if (events_open_path(entry->id, path, &events, NULL) < 0)
		return;
	for (int i = 0; i < START_WITHIN && events_next(events, &event, NULL) > 0; i++) {
		if (!streq(event.kind, "start"))
			continue;
		entry->start = json_incref(event.object);
		workspace = event_text(entry->start, "workspace");
		if (workspace) {
			struct buf bytes = BUF_INIT(PATH_MAX);

			event_bytes(workspace, strlen(workspace), &bytes);
			entry->workspace = buf_take(&bytes);
		}
		break;
	}
}

/* Lists the logs of the store by their names, the latest first. */
static int list_dir(const char *dir, struct events_entry **ret, size_t *ret_n,
		    struct atoll_error *err)
{
	struct events_entry *entries = NULL;
	DIR *stream = opendir(dir);
	struct dirent *each;
	size_t n = 0;
	int r = 0;

	if (!stream && errno != ENOENT)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read '%s'", dir);
	while (stream && r == 0 && (each = readdir(stream)))
		r = add_entry(dirfd(stream), each->d_name, &entries, &n);
	if (stream)
		closedir(stream);
	if (r < 0) {
		free(entries);
		return error_oom(err);
	}
	if (n)
		qsort(entries, n, sizeof *entries, by_time);
	*ret = entries;
	*ret_n = n;
	return 0;
}

int events_list(bool with_start, struct events_entry **ret, size_t *ret_n, struct atoll_error *err)
{
	char dir[PATH_MAX];
	int r = log_dir(dir, err);

	if (r == 0)
		r = list_dir(dir, ret, ret_n, err);
	for (size_t i = 0; r == 0 && with_start && i < *ret_n; i++)
		read_start(dir, &(*ret)[i]);
	return r;
}

/* ---- one of them ---- */

/* Finds a sandbox by its name; the id stays "" if there is none. */
static void find_sandbox(const char *name, char ret_id[16])
{
	struct atoll_record *records;
	size_t n;

	if (atoll_records_list(false, &records, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (records[i].kind == ATOLL_RECORD_SANDBOX && streq(records[i].name, name))
			snprintf(ret_id, 16, "%s", records[i].id);
	atoll_records_free(records, n);
}

bool events_has_sandbox(const char *id)
{
	struct atoll_record *records;
	bool is_there = false;
	size_t n;

	if (atoll_records_list(false, &records, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !is_there; i++)
		is_there = records[i].kind == ATOLL_RECORD_SANDBOX && streq(records[i].id, id);
	atoll_records_free(records, n);
	return is_there;
}

static int find_named(const struct events_entry *entries, size_t n, const char *word,
		      char ret_id[16], struct atoll_error *err)
{
	size_t n_found = 0, found = 0;

	for (size_t i = 0; i < n; i++)
		if (starts_with(entries[i].id, word)) {
			found = i;
			n_found++;
		}
	ret_id[0] = '\0';
	if (n_found != 1)
		find_sandbox(word, ret_id);
	if (ret_id[0])
		return 0;
	if (n_found > 1)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "%zu logs begin with '%s'; 'atoll log --list' shows them", n_found,
				 word);
	if (n_found == 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "there is no log of a run '%s'; 'atoll log --list' shows them all",
				 word);
	strcpy(ret_id, entries[found].id);
	return 0;
}

static int find_latest(const char *dir, struct events_entry *entries, size_t n, char ret_id[16],
		       struct atoll_error *err)
{
	char here[PATH_MAX];

	if (!getcwd(here, sizeof here))
		return error_set(err, ATOLL_FAULT_HOST, errno, "find the current directory");
	for (size_t i = 0; i < n; i++) {
		read_start(dir, &entries[i]);
		if (entries[i].workspace && path_is_within(here, entries[i].workspace)) {
			strcpy(ret_id, entries[i].id);
			return 0;
		}
	}
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "no log is of a run in this directory; 'atoll log --list' shows %zu of "
			 "others",
			 n);
}

int events_find(const char *word, char ret_id[16], char ret_path[PATH_MAX], struct atoll_error *err)
{
	struct events_entry *entries;
	char dir[PATH_MAX];
	size_t n;
	int r;

	ret_id[0] = '\0';
	if (word && (strchr(word, '/') || ends_with(word, SUFFIX))) {
		if (strlen(word) >= PATH_MAX)
			return error_set(err, ATOLL_FAULT_REQUEST, ENAMETOOLONG, "log '%.40s...'",
					 word);
		strcpy(ret_path, word);
		return 0;
	}
	if (word && !word[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "the run's id is empty");
	r = log_dir(dir, err);
	if (r == 0)
		r = list_dir(dir, &entries, &n, err);
	if (r < 0)
		return r;
	r = word ? find_named(entries, n, word, ret_id, err)
		 : find_latest(dir, entries, n, ret_id, err);
	events_list_free(entries, n);
	if (r == 0)
		snprintf(ret_path, PATH_MAX, "%.*s/%s" SUFFIX, PATH_MAX - 64, dir, ret_id);
	return r;
}
