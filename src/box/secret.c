/* SPDX-License-Identifier: Apache-2.0 */
#include "box/secret.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box-types.h"
#include "box/daemon-state.h"
#include "box/db-file.h"
#include "box/db.h"
#include "box/secret-seal.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

/* In memory as in the database: sealed. */
struct daemon_secret {
	struct secret_info info;
	char tenant[40];
	char *metadata;
	void *sealed;
	size_t size;
	struct daemon_secret *next; /* by tenant, then by name */
};

/* ---- names and values ---- */

bool secret_is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

	return n > 0 && n < SECRET_NAME_SIZE && !name[n] && str_is_plain_name(name, n) &&
	       !starts_with(name, "sec_");
}

static bool is_value(const char *value)
{
	size_t n = 0;

	while (value[n] >= 0x20 && value[n] < 0x7f)
		n++;
	return n > 0 && n <= SECRET_VALUE_MAX && !value[n] && value[0] != ' ' &&
	       value[n - 1] != ' ';
}

static void lower(const char *name, char ret[SECRET_NAME_SIZE])
{
	size_t n = 0;

	for (; name[n] && n < SECRET_NAME_SIZE - 1; n++)
		ret[n] = name[n] >= 'A' && name[n] <= 'Z' ? (char)(name[n] - 'A' + 'a') : name[n];
	ret[name[n] ? 0 : n] = '\0';
}

/* ---- in memory ---- */

static void secret_free(struct daemon_secret *secret)
{
	if (!secret)
		return;
	free(secret->metadata);
	free(secret->sealed);
	free(secret);
}

void daemon_secrets_free(struct daemon *daemon)
{
	while (daemon->secrets) {
		struct daemon_secret *next = daemon->secrets->next;

		secret_free(daemon->secrets);
		daemon->secrets = next;
	}
}

static struct daemon_secret *find(const struct tenant *tenant, const char *name_or_id)
{
	struct daemon_secret *at = tenant->daemon->secrets;
	char name[SECRET_NAME_SIZE];

	lower(name_or_id, name);
	while (at && (!streq(at->tenant, tenant->id) ||
		      (!streq(at->info.name, name) && !streq(at->info.id, name))))
		at = at->next;
	return at;
}

static void report_info(const struct daemon_secret *secret, struct secret_info *ret)
{
	*ret = secret->info;
	ret->metadata = secret->metadata;
}

bool secret_find(struct tenant *tenant, const char *name_or_id, struct secret_info *ret)
{
	const struct daemon_secret *secret = find(tenant, name_or_id);

	if (secret)
		report_info(secret, ret);
	return secret;
}

bool secret_get(struct tenant *tenant, size_t n, struct secret_info *ret)
{
	const struct daemon_secret *at = tenant->daemon->secrets;

	while (at && (!streq(at->tenant, tenant->id) || n-- > 0))
		at = at->next;
	if (at)
		report_info(at, ret);
	return at;
}

static bool is_before(const struct daemon_secret *a, const struct daemon_secret *b)
{
	int order = strcmp(a->tenant, b->tenant);

	return order < 0 || (order == 0 && strcmp(a->info.name, b->info.name) < 0);
}

static void insert(struct daemon *daemon, struct daemon_secret *secret)
{
	struct daemon_secret **at = &daemon->secrets;

	while (*at && is_before(*at, secret))
		at = &(*at)->next;
	secret->next = *at;
	*at = secret;
}

static void drop(struct daemon *daemon, struct daemon_secret *secret)
{
	struct daemon_secret **at = &daemon->secrets;

	while (*at != secret)
		at = &(*at)->next;
	*at = secret->next;
	secret_free(secret);
}

int daemon_secrets_load(struct daemon *daemon, struct atoll_error *err)
{
	sqlite3_stmt *row = db_prepare(daemon->db,
				       "SELECT tenant, name, id, version, made_ms, changed_ms,"
				       " metadata, sealed FROM secrets",
				       err);
	int r = row ? 0 : -EIO;

	while (r == 0 && (r = db_step(daemon->db, &row, err)) == 1) {
		struct daemon_secret *secret = calloc(1, sizeof *secret);
		size_t size = (size_t)sqlite3_column_bytes(row, 7);

		r = 0;
		if (!secret)
			return error_oom(err);
		snprintf(secret->tenant, sizeof secret->tenant, "%s", db_text(row, 0));
		snprintf(secret->info.name, sizeof secret->info.name, "%s", db_text(row, 1));
		snprintf(secret->info.id, sizeof secret->info.id, "%s", db_text(row, 2));
		secret->info.version = (uint64_t)sqlite3_column_int64(row, 3);
		secret->info.made_ms = sqlite3_column_int64(row, 4);
		secret->info.changed_ms = sqlite3_column_int64(row, 5);
		secret->metadata = strdup(db_text(row, 6));
		secret->sealed = malloc(size + 1);
		if (secret->sealed && size > 0)
			memcpy(secret->sealed, sqlite3_column_blob(row, 7), size);
		secret->size = size;
		insert(daemon, secret);
		if (!secret->metadata || !secret->sealed)
			r = error_oom(err);
	}
	sqlite3_finalize(row);
	return r;
}

/* ---- changing ---- */

struct change {
	struct later later;
	struct tenant *tenant;
	struct daemon_secret *secret; /* to be put; NULL: removed, or it failed */
	secret_done *done;
	void *data;
	struct atoll_error error;
};

static void answer(struct change *change, const struct secret_info *info)
{
	change->done(info, &change->error, change->data);
	free(change);
}

static void fail_later(struct later *later)
{
	answer((struct change *)((char *)later - offsetof(struct change, later)), NULL);
}

/* It is written: from now on it is what counts. Of one that was there already its id stays. */
static void written(int code, void *data)
{
	struct change *change = data;
	struct daemon_secret *mine = change->secret, *old;
	struct secret_info info;

	if (code < 0) {
		secret_free(mine);
		error_set(&change->error, ATOLL_FAULT_HOST, -code, "write the daemon's database");
		answer(change, NULL);
		return;
	}
	if (!mine) {
		answer(change, NULL);
		return;
	}
	old = find(change->tenant, mine->info.name);
	if (old) {
		mine->info.version = old->info.version + 1;
		mine->info.made_ms = old->info.made_ms;
		memcpy(mine->info.id, old->info.id, sizeof mine->info.id);
		drop(change->tenant->daemon, old);
	}
	insert(change->tenant->daemon, mine);
	report_info(mine, &info);
	answer(change, &info);
}

static int check(struct change *change, const struct secret_wish *wish,
		 const struct daemon_secret *old, const char *name)
{
	struct atoll_error *err = &change->error;
	struct secret_info ignored;

	if (!secret_is_name(name))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "a secret's name has 1 to 63 of a-z, 0-9, '-', '_' and '.', and "
				 "does not begin with 'sec_'");
	if (!is_value(wish->value))
		return error_set(err, ATOLL_FAULT_REQUEST, EINVAL,
				 "secret '%s': a value has 1 to %d printable ASCII characters, and "
				 "no space at either end: it has to stand in a header",
				 name, SECRET_VALUE_MAX);
	if (wish->how == SECRET_NEW && old)
		return error_set(err, ATOLL_FAULT_REQUEST, EEXIST, "there is a secret '%s'", name);
	if (wish->how == SECRET_OLD && !old)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "secret '%s' not found", name);
	if (!old && secret_get(change->tenant, SECRETS_MAX - 1, &ignored))
		return error_set(err, ATOLL_FAULT_POLICY, EDQUOT,
				 "secrets: a tenant has at most %d", SECRETS_MAX);
	return 0;
}

static int draft(struct change *change, const struct secret_wish *wish,
		 const struct daemon_secret *old, const char *name)
{
	struct daemon_secret *mine = change->secret = calloc(1, sizeof *mine);
	struct buf sealed = BUF_INIT(SECRET_VALUE_MAX + SEAL_NONCE + SEAL_EXTRA + 1);
	int r;

	if (!mine)
		return error_oom(&change->error);
	snprintf(mine->tenant, sizeof mine->tenant, "%s", change->tenant->id);
	memcpy(mine->info.name, name, SECRET_NAME_SIZE);
	memcpy(mine->info.id, "sec_", 4);
	daemon_random_name(mine->info.id + 4, 16);
	mine->info.version = 1;
	mine->info.made_ms = mine->info.changed_ms = daemon_now_ms();
	mine->metadata = strdup(wish->metadata ? wish->metadata : old ? old->metadata : "{}");
	r = seal_value(change->tenant->daemon, mine->tenant, name, wish->value, &sealed,
		       &change->error);
	mine->size = sealed.used;
	mine->sealed = buf_take(&sealed);
	if (r == 0 && (!mine->metadata || !mine->sealed))
		r = error_oom(&change->error);
	return r;
}

static struct change *change_new(struct tenant *tenant, secret_done *done, void *data)
{
	struct change *change = calloc(1, sizeof *change);

	if (!change)
		abort();
	*change = (struct change){.tenant = tenant, .done = done, .data = data};
	return change;
}

void secret_put(struct tenant *tenant, const struct secret_wish *wish, secret_done *done,
		void *data)
{
	struct change *change = change_new(tenant, done, data);
	const struct daemon_secret *old, *mine;
	char name[SECRET_NAME_SIZE];

	old = find(tenant, wish->name);
	if (old)
		memcpy(name, old->info.name, sizeof name);
	else
		lower(wish->name, name);
	if (check(change, wish, old, name) < 0 || draft(change, wish, old, name) < 0) {
		secret_free(change->secret);
		daemon_call_later(tenant->daemon, &change->later, fail_later);
		return;
	}
	mine = change->secret;
	db_write(tenant->daemon->db, DB_FIRM, written, change,
		 "INSERT INTO secrets(tenant, name, id, version, made_ms, changed_ms, metadata,"
		 " sealed) VALUES(?1, ?2, ?3, 1, ?4, ?4, ?5, ?6) ON CONFLICT(tenant, name) DO"
		 " UPDATE SET version = version + 1, changed_ms = ?4, metadata = ?5, sealed = ?6",
		 "sssisb", mine->tenant, mine->info.name, mine->info.id, mine->info.changed_ms,
		 mine->metadata, mine->sealed, mine->size);
}

void secret_remove(struct tenant *tenant, const char *name_or_id, secret_done *done, void *data)
{
	struct change *change = change_new(tenant, done, data);
	struct daemon_secret *secret = find(tenant, name_or_id);

	if (!secret) {
		error_set(&change->error, ATOLL_FAULT_REQUEST, ENOENT, "secret '%.64s' not found",
			  name_or_id);
		daemon_call_later(tenant->daemon, &change->later, fail_later);
		return;
	}
	db_write(tenant->daemon->db, DB_FIRM, written, change,
		 "DELETE FROM secrets WHERE tenant = ? AND name = ?", "ss", tenant->id,
		 secret->info.name);
	drop(tenant->daemon, secret);
}

/* ---- using ---- */

int secret_open(struct tenant *tenant, const char *name, char ret[SECRET_VALUE_MAX + 1],
		struct atoll_error *err)
{
	const struct daemon_secret *secret = tenant ? find(tenant, name) : NULL;

	if (!secret)
		return error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
				 "secret '%.64s' not found: the tenant has not stored it", name);
	return seal_open(tenant->daemon, secret->tenant, secret->info.name, secret->sealed,
			 secret->size, ret, SECRET_VALUE_MAX + 1, err);
}
