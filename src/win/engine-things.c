/* SPDX-License-Identifier: Apache-2.0 */
/* Makes and removes placeholders and canaries. Called by the engine and by repair. */
#include "win/engine-things.h"

#include "base/error.h"
#include "base/scope.h"
#include "nt/nt.h"
#include "win/engine-tree.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int thing_make(const struct win_calls *calls, struct engine_ledger *ledger, const char *path,
	       struct atoll_error *err)
{
	int r = engine_ledger_add(ledger, "made", path, NULL, NULL, err);

	if (r == 0)
		r = calls->make_directory(calls->context, path, err);
	if (r == 0 && calls->kind(calls->context, path) != NT_IS_DIRECTORY)
		r = error_set(err, ATOLL_FAULT_HOST, EIO,
			      "directory.made: a directory was not made");
	return r;
}

/* Remove what is there at a path, and look again. */
static int remove_path(const struct win_calls *calls, const char *path, struct atoll_error *err)
{
	struct atoll_error failed = {0};
	int r = calls->remove(calls->context, path, &failed), kind;

	if (r < 0 && r != -ENOENT) {
		if (err)
			*err = failed;
		return r;
	}
	kind = calls->kind(calls->context, path);
	if (kind != NT_NOTHING)
		return error_set(err, ATOLL_FAULT_HOST, kind < 0 ? -kind : EIO,
				 "directory.removed: '%s' may still be there", path);
	return 0;
}

/* A canary's directory may hold what the canary child made. */
int thing_remove(const struct win_calls *calls, struct engine_ledger *ledger, const char *path,
		 struct atoll_error *err)
{
	static const char *const beneath[] = {"new", "newdir", "file", "file-renamed"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(beneath) && strstr(path, "\\atoll-canary-");
	     i++) {
		cleanup_free char *inner = NULL;

		if (asprintf(&inner, "%s\\%s", path, beneath[i]) < 0)
			return error_oom(err);
		r = remove_path(calls, inner, err);
	}
	if (r == 0)
		r = remove_path(calls, path, err);
	return r < 0 ? r : engine_ledger_add(ledger, "removed", path, NULL, NULL, err);
}

int thing_deny(const struct win_calls *calls, const char *path, const struct nt_sid *sid,
	       struct atoll_error *err)
{
	struct nt_operation operation = {.kind = NT_ADD_DENIAL,
					 .path = path,
					 .sid = *sid,
					 .flags = NT_ACE_OBJECT_INHERIT | NT_ACE_CONTAINER_INHERIT,
					 .mask = NT_PROTECTED_RIGHTS};
	int r = tree_apply(calls, &operation, err);

	operation.kind = NT_ADD_LABEL;
	operation.level = NT_LEVEL_MEDIUM;
	operation.mask = 0;
	if (r >= 0)
		r = tree_apply(calls, &operation, err);
	return r < 0 ? r : 0;
}

int thing_name(const struct win_calls *calls, const char *prefix, char *ret, size_t size,
	       struct atoll_error *err)
{
	uint8_t random[8] = {0};
	uint64_t number = 0;
	int r = calls->random(calls->context, random, sizeof random, err);

	for (size_t i = 0; i < sizeof random; i++)
		number = number << 8 | random[i];
	if (r == 0 && number == 0)
		r = error_set(err, ATOLL_FAULT_HOST, EIO, "random: only zeros");
	snprintf(ret, size, "%s%016llx", prefix, (unsigned long long)number);
	return r;
}
