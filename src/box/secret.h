/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a tenant has stored and nobody reads back
 *
 * Values that his contracts (`network.secrets`, from: "secret:NAME") and E2B's header rules
 * ("${e2b.secrets.NAME}") name. A value is in the database, sealed with a key that is a file of its
 * own (DIR/secrets.key, 0600), and bound to its tenant and name: the database alone, a backup of
 * it, gives nothing away; who has both has everything. It is opened when a box is made, for which
 * it is written to a file of that box's (0600), which egress reads and which goes with the box. A
 * new value is for boxes that are made from then on.
 */

struct daemon;
struct tenant;

#define SECRET_FROM	 "secret:"
#define SECRET_NAME_SIZE 64
#define SECRET_VALUE_MAX 8191 /* printable ASCII: it has to stand in a header */
#define SECRETS_MAX	 256  /* of a tenant */

struct secret_info {
	char id[24];
	char name[SECRET_NAME_SIZE]; /* a-z, 0-9, "-", "_", "."; not "sec_..." */
	uint64_t version;	     /* from 1 */
	int64_t made_ms, changed_ms;
	const char *metadata; /* JSON, an object; good until the loop goes on */
};

bool secret_is_name(const char *name);
/* By name or id; false: there is none. */
bool secret_find(struct tenant *tenant, const char *name_or_id, struct secret_info *ret);
/* The n-th by name; false: no more. */
bool secret_get(struct tenant *tenant, size_t n, struct secret_info *ret);

enum secret_how {
	SECRET_ANY,
	SECRET_NEW, /* EEXIST if it is there */
	SECRET_OLD, /* ENOENT if it is not */
};

struct secret_wish {
	const char *name; /* capital letters become small ones */
	const char *value;
	const char *metadata; /* JSON, an object; NULL: as it was */
	enum secret_how how;
};

/* `secret` is NULL on failure, and once it is removed. */
typedef void secret_done(const struct secret_info *secret, const struct atoll_error *err,
			 void *data);

/* EDQUOT: too many. Calls back once it survives a loss of power. */
void secret_put(struct tenant *tenant, const struct secret_wish *wish, secret_done *done,
		void *data);
void secret_remove(struct tenant *tenant, const char *name_or_id, secret_done *done, void *data);
/* The value, and a NUL; wipe it. ENOENT: there is none. */
int secret_open(struct tenant *tenant, const char *name, char ret[SECRET_VALUE_MAX + 1],
		struct atoll_error *err);
int daemon_secrets_load(struct daemon *daemon, struct atoll_error *err);
void daemon_secrets_free(struct daemon *daemon);
