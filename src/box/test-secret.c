/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/scope.h"
#include "base/test.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/db.h"
#include "box/secret-place.h"
#include "box/secret-seal.h"
#include "box/secret.h"
#include "box/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Stored values; without a loop, so that what is written is read back at once. */

static struct daemon_config config;

static struct daemon *new_daemon(void)
{
	struct config_tenant tenant = config_free_tenant("a");
	struct daemon *daemon = calloc(1, sizeof *daemon);
	struct atoll_error err = {0};
	char path[PATH_MAX];

	close(test_tempdir());
	config_init(&config);
	daemon->config = &config;
	daemon->loop = calloc(1, sizeof *daemon->loop);
	loop_init(daemon->loop);
	snprintf(daemon->dir, sizeof daemon->dir, "%s", test_tempdir_path());
	snprintf(path, sizeof path, "%s/state.db", test_tempdir_path());
	CHECK(db_open(path, daemon->loop, &daemon->db, &err) == 0);
	CHECK(tenant_put(daemon->db, &tenant, &err) == 0);
	tenant = config_free_tenant("b");
	CHECK(tenant_put(daemon->db, &tenant, &err) == 0);
	CHECK(tenants_load(daemon, &err) == 0);
	CHECK(daemon_secrets_load(daemon, &err) == 0);
	return daemon;
}

static void free_daemon(struct daemon *daemon)
{
	db_close(daemon->db);
	daemon_secrets_free(daemon);
	tenants_free(daemon);
	loop_done(daemon->loop);
	free(daemon->loop);
	free(daemon);
}

struct told {
	struct daemon *daemon;
	struct secret_info info;
	struct atoll_error error;
	bool has_info;
};

static void report(const struct secret_info *secret, const struct atoll_error *err, void *data)
{
	struct told *told = data;

	told->has_info = secret;
	if (secret)
		told->info = *secret;
	told->error = *err;
	loop_stop(told->daemon->loop);
}

static struct told put(struct daemon *daemon, const char *tenant, const char *name,
		       const char *value, enum secret_how how)
{
	struct told told = {.daemon = daemon};
	struct secret_wish wish = {.name = name, .value = value, .how = how};

	secret_put(tenant_find(daemon, tenant), &wish, report, &told);
	loop_run(daemon->loop);
	return told;
}

TEST(a_value_is_opened_by_its_tenant_under_its_name_alone)
{
	struct daemon *daemon = new_daemon();
	struct tenant *a = tenant_find(daemon, "a"), *b = tenant_find(daemon, "b");
	char value[SECRET_VALUE_MAX + 1];
	struct atoll_error err = {0};
	struct told told = put(daemon, "a", "API-Key", "hunter2", SECRET_NEW);

	CHECK(told.has_info && told.info.version == 1);
	CHECK_STR(told.info.name, "api-key");
	CHECK_INT(secret_open(a, "api-key", value, &err), 0);
	CHECK_STR(value, "hunter2");
	CHECK(secret_open(b, "api-key", value, &err) == -ENOENT);
	CHECK(put(daemon, "a", "api-key", "x", SECRET_NEW).error.errnum == EEXIST);
	CHECK(put(daemon, "a", "other", "x", SECRET_OLD).error.errnum == ENOENT);
	told = put(daemon, "a", told.info.id, "hunter3", SECRET_OLD);
	CHECK(told.has_info && told.info.version == 2);
	CHECK_INT(secret_open(a, told.info.id, value, &err), 0);
	CHECK_STR(value, "hunter3");
	free_daemon(daemon);
}

TEST(what_cannot_stand_in_a_header_or_has_no_name_is_refused)
{
	static const char *const values[] = {"", " x", "x ", "a\nb", "\x7f", "\xc3\xa4"};
	static const char *const names[] = {"", "sec_x", "a/b", "..", "-x", "a b"};
	struct daemon *daemon = new_daemon();

	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		CHECK_INT(put(daemon, "a", "n", values[i], SECRET_ANY).error.fault,
			  ATOLL_FAULT_REQUEST);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		CHECK_INT(put(daemon, "a", names[i], "v", SECRET_ANY).error.fault,
			  ATOLL_FAULT_REQUEST);
	free_daemon(daemon);
}

TEST(neither_database_nor_memory_has_the_value_in_clear_and_it_survives)
{
	struct daemon *daemon = new_daemon();
	char path[PATH_MAX], value[SECRET_VALUE_MAX + 1];
	struct atoll_error err = {0};
	struct stat st;

	put(daemon, "a", "k", "findme-findme-findme", SECRET_ANY);
	snprintf(path, sizeof path, "%s/secrets.key", daemon->dir);
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == SEAL_KEY);
	daemon_secrets_free(daemon);
	CHECK_INT(daemon_secrets_load(daemon, &err), 0);
	CHECK_INT(secret_open(tenant_find(daemon, "a"), "k", value, &err), 0);
	CHECK_STR(value, "findme-findme-findme");
	/* Another key opens nothing, and says so. */
	unlink(path);
	CHECK(secret_open(tenant_find(daemon, "a"), "k", value, &err) < 0);
	CHECK(strstr(err.text, "secrets.key"));
	put(daemon, "a", "l", "another", SECRET_ANY);
	CHECK(secret_open(tenant_find(daemon, "a"), "k", value, &err) == -EIO);
	CHECK(strstr(err.text, "another key"));
	free_daemon(daemon);
}

TEST(sealed_for_one_it_opens_for_nobody_else)
{
	struct daemon *daemon = new_daemon();
	cleanup_buf struct buf sealed = BUF_INIT(4096);
	struct atoll_error err = {0};
	char value[64];

	CHECK_INT(seal_value(daemon, "t1", "k", "value", &sealed, &err), 0);
	CHECK_INT(seal_open(daemon, "t1", "k", sealed.data, sealed.used, value, 64, &err), 0);
	CHECK_STR(value, "value");
	CHECK(seal_open(daemon, "t2", "k", sealed.data, sealed.used, value, 64, &err) < 0);
	CHECK(seal_open(daemon, "t1", "l", sealed.data, sealed.used, value, 64, &err) < 0);
	CHECK(seal_open(daemon, "t1", "k", sealed.data, sealed.used - 1, value, 64, &err) < 0);
	CHECK(seal_open(daemon, "t1", "k", sealed.data, 10, value, 64, &err) < 0);
	CHECK(seal_open(daemon, "t1", "k", sealed.data, sealed.used, value, 5, &err) < 0);
	sealed.data[sealed.used - 1] ^= 1;
	CHECK(seal_open(daemon, "t1", "k", sealed.data, sealed.used, value, 64, &err) < 0);
	free_daemon(daemon);
}

TEST(names_in_a_text_become_values)
{
	struct daemon *daemon = new_daemon();
	struct tenant *a = tenant_find(daemon, "a");
	char text[SECRET_VALUE_MAX + 1];
	struct atoll_error err = {0};

	put(daemon, "a", "one", "1", SECRET_ANY);
	CHECK_INT(secret_expand(a, "Bearer ${e2b.secrets.one}-${e2b.secrets.ONE}!", text, &err), 0);
	CHECK_STR(text, "Bearer 1-1!");
	CHECK_INT(secret_expand(a, "plain $ {x} ${other}", text, &err), 0);
	CHECK_STR(text, "plain $ {x} ${other}");
	CHECK(secret_expand(a, "${e2b.secrets.two}", text, &err) == -ENOENT);
	CHECK(secret_expand(NULL, "${e2b.secrets.one}", text, &err) == -ENOENT);
	CHECK(secret_expand(a, "${e2b.secrets.one", text, &err) == -EINVAL);
	CHECK(secret_expand(a, "${e2b.identity.tokens.x}", text, &err) == -EINVAL);
	free_daemon(daemon);
}
