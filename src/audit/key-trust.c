/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/key-trust.h"

#include "audit/audit-base.h"
#include "audit/key-form.h"
#include "audit/key.h"
#include "audit/log-line.h"
#include "audit/note.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/file.h>

/*
 * Trusted keys and hand-overs
 *
 * When a key is replaced, the old and the new key both sign a hand-over note. So trust in one of
 *the two keys includes the other, and over several hand-overs all of them. Both signatures are
 *needed: with the old one alone anybody who has the old key could add a key to the trusted ones of
 *a verifier who trusts the old key.
 *
 *	atoll/STORE key
 *	from PUBLIC
 *	to PUBLIC
 *	time TIME
 */

void audit_trust_add(struct audit_trust *trust, const unsigned char public[32])
{
	char id[AUDIT_KEY_SIZE];

	audit_key_id(public, id);
	if (audit_trust_has(trust, id) || trust->n == AUDIT_TRUST_MAX)
		return;
	memcpy(trust->keys[trust->n].public, public, 32);
	memcpy(trust->keys[trust->n++].id, id, sizeof id);
}

bool audit_trust_has(const struct audit_trust *trust, const char *id)
{
	for (size_t i = 0; i < trust->n; i++) {
		if (streq(trust->keys[i].id, id))
			return true;
	}
	return false;
}

struct hand_over {
	char name[32]; /* atoll/STORE */
	unsigned char from[32], to[32];
};

static bool parse_hand_over(const char *note, size_t size, struct hand_over *ret)
{
	const char *first = memchr(note, '\n', size);
	size_t length = first ? (size_t)(first - note) : 0;

	if (length < 5 || length - 4 >= sizeof ret->name || memcmp(first - 4, " key", 4) != 0 ||
	    audit_note_text(note, size) < length + 1 + 5 + 64 + 1 + 3 + 64 + 1)
		return false;
	memcpy(ret->name, note, length - 4);
	ret->name[length - 4] = '\0';
	note = first + 1;
	return memcmp(note, "from ", 5) == 0 && hash_from_hex(note + 5, 32, ret->from) &&
	       memcmp(note + 69, "\nto ", 4) == 0 && hash_from_hex(note + 73, 32, ret->to) &&
	       note[137] == '\n';
}

bool audit_trust_hand_over(struct audit_trust *trust, const char *note, size_t size)
{
	char from[AUDIT_KEY_SIZE], to[AUDIT_KEY_SIZE];
	struct hand_over over;

	if (!parse_hand_over(note, size, &over))
		return false;
	audit_key_id(over.from, from);
	audit_key_id(over.to, to);
	if (audit_trust_has(trust, from) == audit_trust_has(trust, to) ||
	    trust->n == AUDIT_TRUST_MAX ||
	    !audit_note_is_signed(note, size, over.name, over.from) ||
	    !audit_note_is_signed(note, size, over.name, over.to))
		return false;
	audit_trust_add(trust, over.from);
	audit_trust_add(trust, over.to);
	return true;
}

int audit_hand_over_read(int state_fd, const char *id, char ret[AUDIT_HAND_OVER_MAX],
			 char ret_to[AUDIT_KEY_SIZE])
{
	struct hand_over over;
	cleanup_fd int fd = -1;
	char path[64];
	ssize_t got;

	snprintf(path, sizeof path, "keys/%s.handover", id);
	fd = openat(state_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = read(fd, ret, AUDIT_HAND_OVER_MAX - 1);
	if (got <= 0)
		return -EBADMSG;
	ret[got] = '\0';
	if (!parse_hand_over(ret, (size_t)got, &over))
		return -EBADMSG;
	audit_key_id(over.to, ret_to);
	return (int)got;
}

/* Reads all hand-overs once; true if a key was added. */
static bool load_hand_overs(int state_fd, DIR *dir, struct audit_trust *trust)
{
	const struct dirent *entry;
	bool is_news = false;

	rewinddir(dir);
	while ((entry = readdir(dir))) {
		char id[AUDIT_KEY_SIZE], to[AUDIT_KEY_SIZE], note[AUDIT_HAND_OVER_MAX];
		int size;

		if (strlen(entry->d_name) != 25 || !ends_with(entry->d_name, ".handover"))
			continue;
		snprintf(id, sizeof id, "%.16s", entry->d_name);
		size = audit_hand_over_read(state_fd, id, note, to);
		if (size > 0 && audit_trust_hand_over(trust, note, (size_t)size))
			is_news = true;
	}
	return is_news;
}

int audit_trust_load(int state_fd, bool with_current, struct audit_trust *ret,
		     struct atoll_error *err)
{
	struct audit_key key;
	DIR *dir;
	int fd, r = with_current ? audit_key_read(state_fd, &key, err) : 0;

	if (r < 0)
		return r;
	if (with_current) {
		audit_trust_add(ret, key.public);
		audit_key_done(&key);
	}
	fd = openat(state_fd, "keys", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0
				       : error_set(err, ATOLL_FAULT_HOST, errno,
						   "open 'keys' in the store");
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return error_oom(err);
	}
	while (load_hand_overs(state_fd, dir, ret))
		;
	closedir(dir);
	return 0;
}

/* ---- whose signatures count ---- */

#define KEY_FILE_MAX ((size_t)1 << 20)

/* Hand-over notes may follow the key in the file, in any order. */
static void read_hand_overs(const char *text, struct audit_trust *trust)
{
	bool is_news;

	do {
		is_news = false;
		for (const char *at = text, *next; (at = strstr(at, "atoll/")); at = next) {
			next = strstr(at, "\natoll/");
			next = next ? next + 1 : at + strlen(at);
			if ((at == text || at[-1] == '\n') &&
			    audit_trust_hand_over(trust, at, (size_t)(next - at)))
				is_news = true;
		}
	} while (is_news);
}

static int read_key_file(const char *path, struct audit_trust *ret, struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	cleanup_buf struct buf text = BUF_INIT(KEY_FILE_MAX);
	unsigned char public[32];
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read the key '%s'", path);
	if (!text.data || !audit_key_parse_public(text.data, public))
		return error_set(
			err, ATOLL_FAULT_REQUEST, 0,
			"'%s' has no public Ed25519 key: PEM, or what atoll key show prints", path);
	audit_trust_add(ret, public);
	read_hand_overs(text.data, ret);
	return 0;
}

int audit_trust_for(int state_fd, const struct atoll_verify_options *options,
		    struct audit_trust *ret, struct atoll_error *err)
{
	int r = options->key_path ? read_key_file(options->key_path, ret, err) : 0;

	if (r == 0 && (state_fd >= 0 || !options->key_path))
		r = state_fd < 0 ? -ENOENT
				 : audit_trust_load(state_fd, !options->key_path, ret, err);
	if (r == -ENOENT && !options->key_path)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "there is no key here to check with; name one: --key FILE");
	return r;
}

/* ---- handing over ---- */

static int write_hand_over(int state_fd, const struct audit_key *old, const struct audit_key *new,
			   struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(AUDIT_HAND_OVER_MAX - 1),
			       note = BUF_INIT(AUDIT_HAND_OVER_MAX - 1);
	char from[HASH_HEX_SIZE], to[HASH_HEX_SIZE], time[AUDIT_TIME_SIZE], path[64], temporary[64];
	int r;

	hash_to_hex(old->public, 32, from);
	hash_to_hex(new->public, 32, to);
	audit_time_format(clock_real_ns(), time);
	buf_addf(&text, "atoll/%s key\nfrom %s\nto %s\ntime %s\n", old->store, from, to, time);
	if (buf_error(&text) < 0)
		return error_oom(err);
	audit_note_sign(old, text.data, text.used, &note);
	audit_note_cosign(new, text.used, &note);
	snprintf(path, sizeof path, "keys/%s.handover", old->id);
	snprintf(temporary, sizeof temporary, "keys/.%s.handover", old->id);
	r = audit_key_write_file(state_fd, temporary, &note, err);
	if (r == 0 && renameat(state_fd, temporary, state_fd, path) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, errno, "name the hand-over of the key");
	return r;
}

/* Rename to key.pem last: until then the old key is in use. */
static int replace_key(int state_fd, const struct audit_key *old, const struct audit_key *new,
		       struct atoll_error *err)
{
	char path[64];
	int r = audit_key_write_private(state_fd, new, path, err);

	if (r == 0)
		r = audit_key_write_public(state_fd, new, err);
	if (r == 0)
		r = write_hand_over(state_fd, old, new, err);
	if (r == 0 && renameat(state_fd, path, state_fd, "keys/key.pem") < 0)
		r = error_set(err, ATOLL_FAULT_HOST, errno, "name the new signing key");
	if (r < 0)
		unlinkat(state_fd, path, 0);
	return r;
}

static int lock_keys(int state_fd, struct atoll_error *err)
{
	cleanup_fd int fd =
		openat(state_fd, "keys", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "open 'keys' in the store");
	while ((r = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
		;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, errno, "lock 'keys' in the store")
		     : take_fd(&fd);
}

/* Removes the files of a rotation that was killed: an unused private key and a partial hand-
 * over. Their names begin with a dot. */
static void remove_leftovers(int keys_fd)
{
	int fd = openat(keys_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir && fd >= 0)
		close(fd);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' &&
		    (ends_with(entry->d_name, ".pem") || ends_with(entry->d_name, ".handover")))
			unlinkat(keys_fd, entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

int atoll_key_rotate(struct atoll_key *ret_old, struct atoll_key *ret_new, struct atoll_error *err)
{
	char path[PATH_MAX];
	cleanup_fd int state_fd = state_open(true, path, err), lock = -1;
	struct audit_key old = {0}, new = {0};
	int r = state_fd < 0 ? state_fd : audit_key_load(state_fd, &old, err);

	if (r >= 0)
		r = lock = lock_keys(state_fd, err);
	/* Read the key again under the lock. */
	if (r >= 0)
		r = audit_key_load(state_fd, &old, err);
	if (r >= 0) {
		remove_leftovers(lock);
		audit_key_make(old.store, &new);
		r = replace_key(state_fd, &old, &new, err);
	}
	if (r >= 0 && fsync(lock) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, errno, "write 'keys' to the disk");
	if (r >= 0) {
		audit_key_forms(&old, ret_old);
		audit_key_forms(&new, ret_new);
	}
	audit_key_done(&old);
	audit_key_done(&new);
	return r < 0 ? r : 0;
}

int atoll_key_show(struct atoll_key *ret, struct atoll_error *err)
{
	char path[PATH_MAX];
	cleanup_fd int state_fd = state_open(true, path, err);
	struct audit_key key = {0};
	int r = state_fd < 0 ? state_fd : audit_key_load(state_fd, &key, err);

	if (r == 0)
		audit_key_forms(&key, ret);
	audit_key_done(&key);
	return r;
}
