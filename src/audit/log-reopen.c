/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/log-reopen.h"

#include "audit/audit-base.h"
#include "audit/audit.h"
#include "audit/key-trust.h"
#include "audit/key.h"
#include "audit/log-check.h"
#include "audit/log-line.h"
#include "audit/log.h"
#include "audit/merkle.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * Continues a log
 *
 * The log of a run is written once; the log of a sandbox grows with every step. A long log of a
 * sandbox has a file log/ID.edge with a position in it, so that it is not read from the beginning.
 * The lines after that position, or all lines if the file is missing, are checked before the log is
 * continued, because the next head signs them.
 */

#define EDGE_MAX      8192
#define EDGE_MAC_SIZE 32		/* crypto_auth_BYTES; its key is as long as a seed */
#define KEY_LINE_SIZE (4 + 16 + 1 + 10) /* "key ID STEP" */

/* ---- the place, beside the log ---- */

/* Below this size, reading the log again is cheaper than writing ID.edge; most sandboxes stay
 * below. */
#define EDGE_EVERY 16384

void audit_save_place(struct audit_log *log)
{
	AUDIT_STACK_BUF(text, EDGE_MAX);
	cleanup_fd int fd = -1;
	unsigned char mac[EDGE_MAC_SIZE];
	char path[64], check[2 * EDGE_MAC_SIZE + 1];

	if (log->place.bytes - log->saved_bytes < EDGE_EVERY)
		return;
	buf_addf(&text, "atoll edge %s\n", log->id);
	audit_place_format(&log->place, &text);
	buf_addf(&text, "\nkey %s %010" PRIu32 "\n", log->key.id, log->last_step);
	if (buf_error(&text) < 0)
		return;
	/* The process that continues the log has the private key anyway, so a MAC is enough. A
	 * signature takes 30 times as long, and checking one 90 times. */
	crypto_auth(mac, (const unsigned char *)text.data, text.used, log->key.secret);
	sodium_bin2hex(check, sizeof check, mac, sizeof mac);
	buf_addf(&text, "check %s\n", check);
	snprintf(path, sizeof path, "log/%s.edge", log->id);
	/* Overwrite the file and truncate it afterwards: O_TRUNC makes ext4 wait for the disk. */
	fd = openat(log->state_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && (buf_error(&text) < 0 || fd_write_all(fd, text.data, text.used) < 0 ||
			ftruncate(fd, (off_t)text.used) < 0))
		unlinkat(log->state_fd, path, 0);
	else
		log->saved_bytes = log->place.bytes;
}

/* Reads the private key, checks the MAC, and wipes the key again. */
static bool is_ours(const struct audit_log *log, const char *text, size_t size,
		    const unsigned char mac[EDGE_MAC_SIZE])
{
	struct audit_key key;
	bool is_good;

	if (audit_key_read(log->state_fd, &key, NULL) < 0)
		return false;
	is_good = crypto_auth_verify(mac, (const unsigned char *)text, size, key.secret) == 0;
	audit_key_done(&key);
	return is_good;
}

/* Reads the saved position, the key that had signed, and the last step. Accepts only a MAC by
 * the present key: after a hand-over the whole log is read again. */
static bool load_place(const struct audit_log *log, struct audit_check *ret)
{
	cleanup_fd int fd = -1;
	char path[64], text[EDGE_MAX], head[32];
	unsigned char mac[EDGE_MAC_SIZE];
	const char *first, *second, *third;
	ssize_t got;

	snprintf(path, sizeof path, "log/%s.edge", log->id);
	snprintf(head, sizeof head, "atoll edge %s\n", log->id);
	fd = openat(log->state_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (got <= 0)
		return false;
	text[got] = '\0';
	if (!starts_with(text, head))
		return false;
	first = text + strlen(head);
	second = strchr(first, '\n');
	third = second ? strchr(second + 1, '\n') : NULL;
	if (!third || third - second != 1 + KEY_LINE_SIZE ||
	    strlen(third) != 1 + 6 + 2 * EDGE_MAC_SIZE + 1 ||
	    !hash_from_hex(third + 7, EDGE_MAC_SIZE, mac) ||
	    !is_ours(log, text, (size_t)(third + 1 - text), mac) ||
	    !audit_place_parse(first, (size_t)(second - first), &ret->place))
		return false;
	snprintf(ret->key, sizeof ret->key, "%.16s", second + 5);
	ret->last_step = (uint32_t)strtoul(second + 5 + 17, NULL, 10);
	return true;
}

/* ---- going on ---- */

int audit_add_hand_overs(struct audit_log *log, const char *key, struct atoll_error *err)
{
	char id[AUDIT_KEY_SIZE], to[AUDIT_KEY_SIZE], note[AUDIT_HAND_OVER_MAX];
	int r = 0;

	snprintf(id, sizeof id, "%s", key);
	for (unsigned i = 0; r == 0 && i < AUDIT_TRUST_MAX && !streq(id, log->key.id); i++) {
		int size = audit_hand_over_read(log->state_fd, id, note, to);
		struct json *json;

		if (size < 0)
			break; /* the hand-overs in the store still say which keys are trusted */
		json = audit_begin(log, "key", 0, 0);
		json_str(json, "old", id);
		json_str(json, "new", to);
		json_strn(json, "note", note, (size_t)size);
		r = audit_commit(log, err);
		snprintf(id, sizeof id, "%s", to);
	}
	return r;
}

/* Checks the log from the saved position to its end. `check` has an empty list of keys. */
static int catch_up(struct audit_log *log, struct audit_check *check, uint64_t size,
		    uint64_t *ret_cut, struct atoll_error *err)
{
	int r;

	*ret_cut = 0;
	if (check->place.bytes == size)
		return 0;
	audit_trust_add(check->trust, log->key.public);
	r = audit_trust_load(log->state_fd, false, check->trust, err);
	if (r < 0)
		return r;
	if (lseek(log->fd, (off_t)check->place.bytes, SEEK_SET) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read the event log of run %s",
				 log->id);
	r = audit_check_fd(check, log->fd, ret_cut, err);
	if (r == -EBADMSG || r == -EKEYREJECTED)
		error_context(
			err, r,
			"the event log of run %s was changed and cannot be continued (see atoll "
			"verify)",
			log->id);
	return r;
}

static int add_cut(struct audit_log *log, uint64_t cut, struct atoll_error *err)
{
	struct json *json = audit_begin(log, "cut", 0, 0);

	json_uint(json, "bytes", cut);
	return audit_commit(log, err);
}

static int go_on(struct audit_log *log, struct atoll_error *err)
{
	struct audit_trust trust = {0};
	struct audit_check check = {.trust = &trust};
	struct stat st;
	uint64_t cut;
	int r;

	if (fstat(log->fd, &st) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "look at the event log of run %s",
				 log->id);
	if (st.st_nlink == 0)
		return error_set(err, ATOLL_FAULT_HOST, ENOENT, "the event log of run %s", log->id);
	memcpy(check.run, log->id, sizeof check.run);
	memcpy(check.store, log->key.store, sizeof check.store);
	if (!load_place(log, &check) || check.place.bytes > (uint64_t)st.st_size) {
		check.place = (struct audit_place){0};
		check.key[0] = '\0';
		check.last_step = 0;
	}
	log->saved_bytes = check.place.bytes;
	r = catch_up(log, &check, (uint64_t)st.st_size, &cut, err);
	if (r < 0)
		return r;
	log->place = check.place;
	log->last_step = check.last_step;
	if (cut && ftruncate(log->fd, (off_t)log->place.bytes) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "cut a half line off the event log of run %s", log->id);
	if (log->place.edge.size == 0)
		r = audit_add_open(log, "sandbox", NULL, err);
	if (r == 0 && cut)
		r = add_cut(log, cut, err);
	if (r == 0 && check.key[0])
		r = audit_add_hand_overs(log, check.key, err);
	return r;
}

/* Look for the file first: a removal on a full disk must not fail because no key can be created
 * for a log that does not exist. */
static bool is_missing(const char *id)
{
	char path[PATH_MAX], name[64];
	cleanup_fd int fd = audit_is_id(id) ? state_open(false, path, NULL) : -1;

	snprintf(name, sizeof name, "log/%s.jsonl", id);
	return fd >= 0 && faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

int audit_reopen(const char *id, struct audit_log **ret, struct atoll_error *err)
{
	struct audit_log *log;
	int r;

	if (is_missing(id))
		return error_set(err, ATOLL_FAULT_HOST, ENOENT, "open the event log of run %s", id);
	r = audit_new_log(id, &log, err);
	if (r < 0)
		return r;
	log->is_sandbox = true;
	r = audit_open_file(log, 0, err);
	if (r == 0)
		r = go_on(log, err);
	if (r < 0) {
		audit_close(log);
		return r;
	}
	*ret = log;
	return 0;
}
