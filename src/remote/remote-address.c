/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/remote-address.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/state.h"
#include "base/str.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

/* Reads the address and a key of the user's own daemon. The daemon writes them, one per line, to
 * STATE/daemon/local, which only this user can read. */
static int read_local(char *ret_host, size_t host_size, char *ret_key, size_t key_size,
		      struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	char path[PATH_MAX + 32], *key, *end;
	cleanup_fd int fd = -1;
	struct stat st;
	int r = state_path(path, err);

	if (r < 0)
		return r;
	strcat(path, "/daemon/local");
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_set(
			err, ATOLL_FAULT_REQUEST, errno == ENOENT ? 0 : errno,
			"no daemon of yours is known on this machine ('%s'): start one with "
			"'atoll serve', or name one with --host URL and --key",
			path);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))
		return error_set(err, ATOLL_FAULT_POLICY, 0,
				 "'%s' has to be yours, and nobody else's to read", path);
	r = fd_read_all(fd, &text);
	key = r == 0 && text.data ? strchr(text.data, '\n') : NULL;
	end = key ? strchr(key + 1, '\n') : NULL;
	if (!end)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read '%s'", path);
	*key++ = '\0';
	*end = '\0';
	snprintf(ret_host, host_size, "%s", text.data);
	snprintf(ret_key, key_size, "%s", key);
	return 0;
}

static int set_place(struct remote *at, const char *host, struct atoll_error *err)
{
	const char *path = NULL;
	size_t length;

	if (starts_with(host, "unix:"))
		path = host + strlen("unix:");
	else if (strstr(host, "://") && !starts_with(host, "http://") &&
		 !starts_with(host, "https://"))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "'%s' is no place of a daemon: http://HOST:PORT, https://HOST, or "
				 "unix:PATH",
				 host);
	if (path) {
		at->unix_path = strdup(path);
		at->base = strdup("http://localhost");
	} else if (asprintf(&at->base, "%s%s", strstr(host, "://") ? "" : "http://", host) < 0) {
		at->base = NULL;
	}
	if (!at->base || (path && !at->unix_path))
		return error_oom(err);
	length = strlen(at->base);
	while (length > 0 && at->base[length - 1] == '/')
		at->base[--length] = '\0';
	return 0;
}

static int add_fields(struct remote *at, struct atoll_error *err)
{
	cleanup_free char *field = NULL;

	for (const char *c = at->key; *c; c++) {
		if (*c <= ' ' || *c > '~')
			return error_set(err, ATOLL_FAULT_REQUEST, 0,
					 "the key has characters that no key has");
	}
	if (!at->key[0])
		return 0;
	if (asprintf(&field, "X-API-Key: %s", at->key) < 0)
		return error_oom(err);
	at->fields = curl_slist_append(NULL, field);
	return at->fields ? 0 : error_oom(err);
}

/* The user's own daemon needs no --key, even if --host names it. */
static void find_key(const char *host, char *ret, size_t size)
{
	char local_host[512], local_key[128];

	if (read_local(local_host, sizeof local_host, local_key, sizeof local_key, NULL) == 0 &&
	    streq(host, local_host))
		snprintf(ret, size, "%s", local_key);
}

int remote_open(const char *host, struct remote *ret, struct atoll_error *err)
{
	char local_host[512], local_key[128] = "";
	const char *key = getenv("ATOLL_KEY");
	int r = 0;

	*ret = (struct remote){0};
	if (!host || !host[0])
		host = getenv("ATOLL_HOST");
	if (!host || !host[0]) {
		r = read_local(local_host, sizeof local_host, local_key, sizeof local_key, err);
		host = local_host;
	} else if (!key || !key[0]) {
		find_key(host, local_key, sizeof local_key);
	}
	if (r < 0)
		return r;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	r = set_place(ret, host, err);
	ret->key = strdup(key && key[0] ? key : local_key);
	ret->easy = curl_easy_init();
	if (r == 0 && (!ret->key || !ret->easy))
		r = error_oom(err);
	return r < 0 ? r : add_fields(ret, err);
}

void remote_close(struct remote *at)
{
	curl_slist_free_all(at->fields);
	curl_easy_cleanup(at->easy);
	free(at->base);
	free(at->unix_path);
	free(at->key);
}
