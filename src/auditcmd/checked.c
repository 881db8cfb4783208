/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/checked.h"

#include "audit/audit.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"

#include <stdio.h>

int checked_store_path(char ret[PATH_MAX], struct atoll_error *err)
{
	return state_path(ret, err);
}

int checked_keys_load(const char *path, struct checked_keys *ret, struct atoll_error *err)
{
	const struct atoll_verify_options options = {.key_path = path};
	struct audit_trust *trust = calloc(1, sizeof *trust);
	char state[PATH_MAX];
	cleanup_fd int fd = -1;
	int r;

	if (!trust)
		return error_oom(err);
	/* Without a store only the named key is trusted. */
	fd = state_open(false, state, err);
	r = audit_trust_for(fd, &options, trust, err);
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
	uint64_t n_cut;
	int r;

	if (!trust)
		return error_oom(err);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "open the log '%s'", path);
	r = audit_check_fd(&check, fd, &n_cut, err);
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
		return audit_refuse(err, ATOLL_FAULT_POLICY, EBADMSG,
				    "the log's head is no signed note");
	snprintf(name, sizeof name, "atoll/%s", found.store);
	signer = audit_note_signer(note, strlen(note), name, trust);
	if (signer < 0)
		return audit_refuse(err, ATOLL_FAULT_POLICY, EKEYREJECTED,
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
