/* SPDX-License-Identifier: Apache-2.0 */
#include "box/secret-place.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where stored values go: into headers, and into files that a contract names. */

#define MARK	   "${e2b.secrets."
#define MARK_OTHER "${e2b."

/* ---- in a text ---- */

static int expand_one(struct tenant *tenant, const char **text, char *ret, size_t room,
		      struct atoll_error *err)
{
	const char *start = *text + strlen(MARK), *end = strchr(start, '}');
	char name[SECRET_NAME_SIZE], value[SECRET_VALUE_MAX + 1];
	size_t size;
	int r;

	if (!end || (size_t)(end - start) >= sizeof name)
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "'" MARK "NAME}' is not closed, or its name is no secret's");
	memcpy(name, start, (size_t)(end - start));
	name[end - start] = '\0';
	r = secret_open(tenant, name, value, err);
	if (r < 0)
		return r;
	size = strlen(value);
	if (size >= room)
		r = error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
			      "with secret '%s' in it the value is longer than %d bytes", name,
			      SECRET_VALUE_MAX);
	else
		memcpy(ret, value, size);
	sodium_memzero(value, sizeof value);
	*text = end + 1;
	return r < 0 ? r : (int)size;
}

int secret_expand(struct tenant *tenant, const char *text, char ret[SECRET_VALUE_MAX + 1],
		  struct atoll_error *err)
{
	size_t used = 0;
	int r = 0;

	while (*text && r >= 0) {
		if (starts_with(text, MARK)) {
			r = expand_one(tenant, &text, ret + used, SECRET_VALUE_MAX + 1 - used, err);
			used += r > 0 ? (size_t)r : 0;
		} else if (starts_with(text, MARK_OTHER)) {
			r = error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				      "of '" MARK_OTHER "...}' only '" MARK "NAME}' is to be had");
		} else if (used == SECRET_VALUE_MAX) {
			r = error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				      "the value is longer than %d bytes", SECRET_VALUE_MAX);
		} else {
			ret[used++] = *text++;
		}
	}
	ret[used] = '\0';
	return r < 0 ? r : 0;
}

/* ---- in a contract ---- */

static int write_value(struct tenant *tenant, const char *dir, const char *name,
		       struct atoll_error *err)
{
	char value[SECRET_VALUE_MAX + 1], path[PATH_MAX];
	cleanup_fd int fd = -EBADF;
	int r = secret_open(tenant, name, value, err);

	if (r < 0)
		return r;
	snprintf(path, sizeof path, "%.*s/%s", PATH_MAX - SECRET_NAME_SIZE - 2, dir, name);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, value, strlen(value)) != (ssize_t)strlen(value))
		r = error_set(err, ATOLL_FAULT_HOST, errno, "write a secret for the sandbox");
	sodium_memzero(value, sizeof value);
	return r;
}

static int place_one(struct tenant *tenant, const char *dir, json_t *secret,
		     struct atoll_error *err)
{
	const char *from = json_string_value(json_object_get(secret, "from"));
	char place[PATH_MAX + 16];
	int r = 0;

	/* Nothing else can stand there: contract_merge() has seen to it. */
	if (!from || !starts_with(from, SECRET_FROM))
		return error_set(err, ATOLL_FAULT_BUG, 0, "contract: a secret from elsewhere");
	from += strlen(SECRET_FROM);
	r = write_value(tenant, dir, from, err);
	snprintf(place, sizeof place, "file:%s/%s", dir, from);
	if (r == 0 && json_object_set_new(secret, "from", json_string(place)) < 0)
		r = error_oom(err);
	return r;
}

int contract_place_secrets(struct tenant *tenant, const char *dir, char **contract,
			   struct atoll_error *err)
{
	json_t *all = json_loads(*contract, 0, NULL), *secret, *list;
	size_t i;
	int r = 0;

	list = json_object_get(json_object_get(all, "network"), "secrets");
	/* What has none stays to the letter. */
	if (json_array_size(list) == 0) {
		json_decref(all);
		return 0;
	}
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		r = error_set(err, ATOLL_FAULT_HOST, errno, "create '%s'", dir);
	json_array_foreach(list, i, secret)
	{
		if (r == 0)
			r = place_one(tenant, dir, secret, err);
	}
	if (r == 0) {
		free(*contract);
		*contract = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(12));
		r = *contract ? 0 : error_oom(err);
	}
	json_decref(all);
	return r;
}
