/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/program/checked.h"

#include "audit/inner.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "layer/store.h"

#include <stdio.h>

#define KEY_FILE_MAX 65536

int checked_store_path(char ret[PATH_MAX], struct atoll_error *err)
{
	return layer_store_path(ret, err);
}

static int read_key_file(const char *path, struct audit_trust *ret, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(KEY_FILE_MAX);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	unsigned char public[32];
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, -r, "read the key '%s'", path);
	if (!text.data || strlen(text.data) != text.used ||
	    !audit_key_parse_public(text.data, public))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' holds no Ed25519 public key as 'atoll key show' prints it",
				 path);
	audit_trust_add(ret, public);
	return 0;
}

static int read_store_keys(struct audit_trust *ret, struct atoll_error *err)
{
	cleanup_fd int fd = -1;
	char path[PATH_MAX];
	int r = layer_store_path(path, err);

	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno,
				 "no key was given, and there is none of one's own in '%s'", path);
	return audit_trust_load(fd, true, ret, err);
}

int checked_keys_load(const char *path, struct checked_keys *ret, struct atoll_error *err)
{
	struct audit_trust *trust = calloc(1, sizeof *trust);
	int r;

	if (!trust)
		return error_oom(err);
	r = path ? read_key_file(path, trust, err) : read_store_keys(trust, err);
	ret->n = 0;
	for (size_t i = 0; r == 0 && i < trust->n && i < CHECKED_KEYS_MAX; i++, ret->n++) {
		memcpy(ret->keys[i].public, trust->keys[i].public, 32);
		memcpy(ret->keys[i].id, trust->keys[i].id, sizeof ret->keys[i].id);
	}
	free(trust);
	return r;
}

static struct audit_trust *make_trust(const struct checked_keys *keys)
{
	struct audit_trust *trust = calloc(1, sizeof *trust);

	for (size_t i = 0; trust && i < keys->n; i++)
		audit_trust_add(trust, keys->keys[i].public);
	return trust;
}

int checked_log(const char *path, const struct checked_keys *keys, struct checked_log *ret,
		struct atoll_error *err)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	cleanup_free struct audit_trust *trust = make_trust(keys);
	struct audit_check check = {.trust = trust};
	uint64_t rest;
	int r;

	if (!trust)
		return error_oom(err);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "open the log '%s'", path);
	r = audit_check_fd(&check, fd, &rest, err);
	if (r < 0)
		return r;
	*ret = (struct checked_log){.head_size = check.head_size, .is_closed = check.is_closed};
	snprintf(ret->run, sizeof ret->run, "%s", check.run);
	snprintf(ret->store, sizeof ret->store, "%s", check.store);
	snprintf(ret->what, sizeof ret->what, "%s", check.what);
	snprintf(ret->key, sizeof ret->key, "%s", check.key);
	memcpy(ret->head_root, check.head_root, 32);
	return 0;
}

/* "atoll/STORE - RUN" */
static bool read_origin(const char *origin, struct checked_log *ret)
{
	return sscanf(origin, "atoll/%16[0-9a-f] - %15[a-z0-9]", ret->store, ret->run) == 2;
}

int checked_note(const char *note, const struct checked_keys *keys, struct checked_log *ret,
		 struct atoll_error *err)
{
	cleanup_free struct audit_trust *trust = make_trust(keys);
	struct checked_log found = {0};
	struct audit_head head;
	char name[32];
	int signer;

	if (!trust)
		return error_oom(err);
	if (!audit_head_parse(note, strlen(note), &head) || !read_origin(head.origin, &found))
		return error_set(err, ATOLL_FAULT_POLICY, EBADMSG,
				 "the log's head is no signed note");
	snprintf(name, sizeof name, "atoll/%s", found.store);
	signer = audit_note_signer(note, strlen(note), name, trust);
	if (signer < 0)
		return error_set(err, ATOLL_FAULT_POLICY, EKEYREJECTED,
				 "the log's head is not signed by a key that counts here");
	memcpy(found.key, trust->keys[signer].id, sizeof found.key);
	found.head_size = head.size;
	memcpy(found.head_root, head.root, 32);
	*ret = found;
	return 0;
}

void checked_leaf(const void *data, size_t size, unsigned char ret[32])
{
	audit_leaf(data, size, ret);
}

size_t checked_prove(const unsigned char (*leaves)[32], uint64_t n, uint64_t index,
		     unsigned char ret_root[32], unsigned char (*ret_proof)[32])
{
	audit_tree_root(leaves, n, ret_root);
	return audit_prove_inclusion(leaves, n, index, ret_proof);
}
