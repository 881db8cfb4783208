/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "box/box-types.h"
#include "box/box.h"
#include "box/config.h"
#include "box/daemon-state.h"
#include "box/db.h"
#include "box/life.h"
#include "box/quota.h"
#include "box/table.h"
#include "box/template.h"
#include "box/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Tenants, keys and quotas; boxes in the table; without a sandbox anywhere. */

static struct daemon_config config;

static struct daemon *new_daemon(void)
{
	struct config_tenant tenant = config_free_tenant("a");
	struct daemon *daemon = calloc(1, sizeof *daemon);
	struct atoll_error err = {0};
	char path[PATH_MAX];

	close(test_tempdir());
	config_init(&config);
	config.least_memory_mib = config.least_disk_mib = 0;
	daemon->config = &config;
	daemon->loop = calloc(1, sizeof *daemon->loop);
	loop_init(daemon->loop);
	snprintf(daemon->dir, sizeof daemon->dir, "%s", test_tempdir_path());
	snprintf(path, sizeof path, "%s/state.db", test_tempdir_path());
	CHECK(db_open(path, NULL, &daemon->db, &err) == 0);
	CHECK(tenant_put(daemon->db, &tenant, &err) == 0);
	tenant = config_free_tenant("b");
	tenant.max_boxes = 2;
	tenant.max_memory_mib = 3000;
	CHECK(tenant_put(daemon->db, &tenant, &err) == 0);
	CHECK(tenants_load(daemon, &err) == 0);
	return daemon;
}

static void free_daemon(struct daemon *daemon)
{
	table_free(daemon);
	db_close(daemon->db);
	tenants_free(daemon);
	loop_done(daemon->loop);
	free(daemon->loop);
	free(daemon);
}

static struct daemon_box *add_box(struct daemon *daemon, const char *tenant, int64_t start_ms)
{
	struct daemon_box *box = box_new(inner_tenant(tenant_find(daemon, tenant)));

	CHECK(box);
	box->box.start_ms = start_ms;
	box->box.memory_mib = 1000;
	box->box.state = BOX_RUNNING;
	CHECK(table_put(daemon, box) == 0);
	tenant_charge(box);
	return box;
}

TEST(a_key_is_found_by_its_tenant_alone_and_only_its_hash_is_kept)
{
	struct daemon *daemon = new_daemon();
	struct tenant *a = tenant_find(daemon, "a");
	struct atoll_error err = {0};
	char key[48], other[48];

	CHECK(!tenant_has_keys(daemon));
	CHECK(tenant_new_key(a, "label", key, &err) == 0);
	CHECK(tenant_new_key(tenant_find(daemon, "b"), "", other, &err) == 0);
	CHECK_INT(strlen(key), 44);
	CHECK(strncmp(key, "e2b_", 4) == 0 && strspn(key + 4, "0123456789abcdef") == 40);
	CHECK(tenant_find_key(daemon, key, strlen(key)) == a);
	CHECK(tenant_find_key(daemon, other, strlen(other)) == tenant_find(daemon, "b"));
	CHECK(!tenant_find_key(daemon, key, strlen(key) - 1));
	CHECK(!tenant_find_key(daemon, "", 0));
	key[10] ^= 1;
	CHECK(!tenant_find_key(daemon, key, strlen(key)));
	free_daemon(daemon);
}

TEST(quotas_say_which_and_whose)
{
	struct daemon *daemon = new_daemon();
	struct daemon_tenant *b = inner_tenant(tenant_find(daemon, "b"));
	struct atoll_error err = {0};

	add_box(daemon, "b", 1);
	CHECK(tenant_check(b, 1000, 10, 1, &err) == 0);
	CHECK_INT(tenant_check(b, 2001, 10, 1, &err), -EDQUOT);
	CHECK(strstr(err.text, "memory: 1000 MiB are used"));
	add_box(daemon, "b", 2);
	CHECK_INT(tenant_check(b, 10, 10, 1, &err), -EDQUOT);
	CHECK(strstr(err.text, "sandboxes: 2 are used"));
	CHECK(tenant_check(inner_tenant(tenant_find(daemon, "a")), 10, 10, 1, &err) == 0);
	config.max_boxes = 2;
	CHECK_INT(tenant_check(inner_tenant(tenant_find(daemon, "a")), 10, 10, 1, &err), -EAGAIN);
	config.least_memory_mib = UINT64_MAX / 2;
	config.max_boxes = 100;
	CHECK_INT(tenant_check(inner_tenant(tenant_find(daemon, "a")), 10, 10, 1, &err), -EAGAIN);
	CHECK(strstr(err.text, "memory free"));
	free_daemon(daemon);
}

TEST(what_is_given_back_can_be_taken_again)
{
	struct daemon *daemon = new_daemon();
	struct daemon_box *box = add_box(daemon, "b", 1);

	tenant_charge(box); /* twice is once */
	CHECK_INT(box->box.tenant->n_boxes, 1);
	CHECK_INT(daemon->memory_mib, 1000);
	tenant_uncharge(box);
	tenant_uncharge(box);
	CHECK_INT(box->box.tenant->n_boxes, 0);
	CHECK_INT(daemon->n_taken, 0);
	free_daemon(daemon);
}

TEST(boxes_are_listed_by_their_start_and_found_by_their_id)
{
	struct daemon *daemon = new_daemon();
	struct tenant *a = tenant_find(daemon, "a");
	struct daemon_box *boxes[500];
	struct box *box = NULL;
	char longer[64];
	size_t n = 0;

	for (size_t i = 0; i < 500; i++)
		boxes[i] = add_box(daemon, i % 5 ? "a" : "b", (int64_t)(i * 7 % 50));
	for (int64_t last = -1; (box = box_next(a, box, false)); n++) {
		CHECK(box->start_ms >= last);
		last = box->start_ms;
	}
	CHECK_INT(n, 400);
	for (n = 0; (box = box_next(a, box, true));)
		n++;
	CHECK_INT(n, 400);
	for (n = 0; (box = box_next_any(daemon, box));)
		n++;
	CHECK_INT(n, 500);
	snprintf(longer, sizeof longer, "%s-client", boxes[3]->box.id);
	CHECK(box_find(a, longer) == &boxes[3]->box);
	CHECK(!box_find(tenant_find(daemon, "b"), boxes[3]->box.id));
	CHECK(box_find_any(daemon, boxes[3]->box.id) == &boxes[3]->box);
	CHECK(!box_find_any(daemon, ""));
	CHECK(!box_find_any(daemon, "-"));
	free_daemon(daemon);
}

TEST(a_page_goes_on_behind_one_that_is_gone)
{
	struct daemon *daemon = new_daemon();
	struct tenant *a = tenant_find(daemon, "a");
	struct daemon_box *gone = NULL;
	char id[BOX_ID_SIZE];

	for (int64_t i = 0; i < 10; i++) {
		struct daemon_box *box = add_box(daemon, "a", i);

		if (i == 5)
			gone = box;
	}
	memcpy(id, gone->box.id, sizeof id);
	CHECK_INT(box_next_from(a, 5, id, false)->start_ms, 6);
	CHECK_INT(box_next_from(a, 5, id, true)->start_ms, 4);
	table_remove(daemon, gone);
	box_free(gone);
	CHECK_INT(box_next_from(a, 5, id, false)->start_ms, 6);
	CHECK_INT(box_next_from(a, 5, id, true)->start_ms, 4);
	CHECK(!box_next_from(a, 9, "zzz", false));
	CHECK(!box_next_from(a, 0, "", true));
	free_daemon(daemon);
}

TEST(a_budget_counts_all_that_was_used)
{
	struct daemon *daemon = new_daemon();
	struct daemon_tenant *a = inner_tenant(tenant_find(daemon, "a"));
	struct daemon_box *box = add_box(daemon, "a", 1);
	char why[192];

	CHECK(!tenant_is_spent(&a->tenant, why, sizeof why));
	a->budget.steps = 2;
	box_count_step(&box->box);
	CHECK(!tenant_is_spent(&a->tenant, why, sizeof why));
	box_count_step(&box->box);
	CHECK(tenant_is_spent(&a->tenant, why, sizeof why));
	CHECK_STR(why, "the budget is used up: 2 of 2 steps");
	a->budget.steps = UINT64_MAX;
	a->budget.bytes = 1000;
	box_count_bytes(&box->box, 600, 400);
	CHECK(tenant_is_spent(&a->tenant, why, sizeof why));
	free_daemon(daemon);
}

TEST(names_of_templates_have_one_plain_form)
{
	char plain[160];

	kind_plain("local/x:default", plain);
	CHECK_STR(plain, "x");
	kind_plain("x", plain);
	CHECK_STR(plain, "x");
	kind_plain("x:v2", plain);
	CHECK_STR(plain, "x:v2");
	kind_plain(":default", plain);
	CHECK_STR(plain, ":default");
}
