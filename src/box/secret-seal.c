/* SPDX-License-Identifier: Apache-2.0 */
#include "box/secret-seal.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "box/daemon-state.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The key that values are sealed with: read when it is needed, made when it is first. */

static int key_path(const struct daemon *daemon, char ret[PATH_MAX])
{
	return snprintf(ret, PATH_MAX, "%s/secrets.key", daemon->dir) < PATH_MAX ? 0
										 : -ENAMETOOLONG;
}

/* Whole on the disk under another name first: half a key would lose what it has sealed. */
static int make_key(const char *path, unsigned char key[SEAL_KEY], struct atoll_error *err)
{
	cleanup_fd int fd = -EBADF;
	char draft[PATH_MAX + 8];

	daemon_random_bytes(key, SEAL_KEY);
	snprintf(draft, sizeof draft, "%s.new", path);
	unlink(draft);
	fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, key, SEAL_KEY) != SEAL_KEY || fsync(fd) < 0 ||
	    rename(draft, path) < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "write the key of secrets '%s'",
				 path);
	return 0;
}

static int parse_key(const struct daemon *daemon, bool makes, unsigned char key[SEAL_KEY],
		     struct atoll_error *err)
{
	cleanup_fd int fd = -EBADF;
	char path[PATH_MAX];

	if (sodium_init() < 0 || key_path(daemon, path) < 0)
		return error_set(err, ATOLL_FAULT_HOST, 0, "find the key of secrets");
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && makes)
		return make_key(path, key, err);
	if (fd < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno,
				 "the key of secrets '%s' (without it they have to be set anew)",
				 path);
	if (read(fd, key, SEAL_KEY) != SEAL_KEY)
		return error_set(err, ATOLL_FAULT_HOST, EIO, "read the key of secrets '%s'", path);
	return 0;
}

/* A sealed value is one tenant's under one name, and opens as nothing else. */
static size_t write_bond(char *ret, size_t size, const char *tenant, const char *name)
{
	return (size_t)snprintf(ret, size, "%s/%s", tenant, name);
}

int seal_value(const struct daemon *daemon, const char *tenant, const char *name, const char *value,
	       struct buf *ret, struct atoll_error *err)
{
	unsigned char key[SEAL_KEY], nonce[SEAL_NONCE];
	const size_t size = strlen(value);
	unsigned long long sealed = 0;
	char bond[128];
	size_t bond_size = write_bond(bond, sizeof bond, tenant, name);
	int r = parse_key(daemon, true, key, err);
	unsigned char *text = r < 0 ? NULL : malloc(size + SEAL_EXTRA);

	if (r == 0 && !text)
		r = error_oom(err);
	if (r == 0) {
		daemon_random_bytes(nonce, sizeof nonce);
		crypto_aead_xchacha20poly1305_ietf_encrypt(
			text, &sealed, (const unsigned char *)value, size,
			(const unsigned char *)bond, bond_size, NULL, nonce, key);
		buf_add(ret, (const char *)nonce, sizeof nonce);
		buf_add(ret, (const char *)text, (size_t)sealed);
		r = buf_error(ret) < 0 ? error_oom(err) : 0;
	}
	free(text);
	sodium_memzero(key, sizeof key);
	return r;
}

int seal_open(const struct daemon *daemon, const char *tenant, const char *name, const void *data,
	      size_t size, char *ret, size_t room, struct atoll_error *err)
{
	const unsigned char *bytes = data;
	unsigned char key[SEAL_KEY];
	unsigned long long got = 0;
	char bond[128];
	size_t bond_size = write_bond(bond, sizeof bond, tenant, name);
	int r;

	if (size < SEAL_NONCE + SEAL_EXTRA || size - SEAL_NONCE - SEAL_EXTRA >= room)
		return error_set(err, ATOLL_FAULT_HOST, EIO, "secret '%s' is damaged", name);
	r = parse_key(daemon, false, key, err);
	if (r < 0)
		return r;
	if (crypto_aead_xchacha20poly1305_ietf_decrypt(
		    (unsigned char *)ret, &got, NULL, bytes + SEAL_NONCE, size - SEAL_NONCE,
		    (const unsigned char *)bond, bond_size, bytes, key) < 0)
		r = error_set(err, ATOLL_FAULT_HOST, EIO,
			      "secret '%s' was sealed with another key, or is damaged: set it anew",
			      name);
	else
		ret[got] = '\0';
	sodium_memzero(key, sizeof key);
	return r;
}
