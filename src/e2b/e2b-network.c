/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PUT /sandboxes/{id}/network: the rules for connections of a box
 *
 * box/box-network.c makes them a contract; this file reads the request.
 */
#include "e2b/e2b-network.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "box/box.h"
#include "e2b/e2b-create.h"
#include "e2b/e2b-wait.h"

#include <stdlib.h>

#define BODY_MAX (256U << 10)

bool e2b_read_network(struct api_call *call, json_t *network, bool has_internet, char **ret)
{
	cleanup_free char *text = json_dumps(network, JSON_COMPACT), *section = NULL;
	struct atoll_error err = {0};

	if (!text) {
		api_refuse(call, 500, "no memory");
		return false;
	}
	if (box_network_section(call->tenant, text, has_internet, NULL, &section, &err) < 0) {
		api_refuse(call, err.fault == ATOLL_FAULT_REQUEST ? 400 : 500, "%s", err.text);
		return false;
	}
	*ret = take_ptr(text);
	return true;
}

bool e2b_sets_headers(struct api_call *call, const struct box *box)
{
	json_t *network = box->network ? json_loads(box->network, 0, NULL) : NULL;
	bool sets = box_has_secrets(box) || json_object_size(json_object_get(network, "rules")) > 0;

	json_decref(network);
	if (sets)
		api_refuse(call, 409,
			   "sandbox %s has rules that set headers, or secrets, whose values are "
			   "its own: it cannot be copied",
			   box->id);
	return sets;
}

static void on_set(struct box *box, const struct atoll_error *err, void *data)
{
	struct api_call *call = e2b_wait_end(data);

	(void)box;
	if (!call)
		return;
	if (err->fault != ATOLL_FAULT_NONE)
		api_fail(call, err);
	else
		api_answer_empty(call, 204);
}

/* Keeps the settings for connections into the box. Replaces those for connections out of it by the
 * ones of `body`. */
static json_t *merge_network(const struct box *box, json_t *body)
{
	static const char *const inbound_keys[] = {"allowPublicTraffic", "maskRequestHost",
						   "httpsPorts"};
	static const char *const outbound_keys[] = {"allowOut", "denyOut", "rules", "egressProxy"};
	json_t *old = box->network ? json_loads(box->network, 0, NULL) : NULL,
	       *network = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(inbound_keys); i++) {
		json_t *value = json_object_get(old, inbound_keys[i]);

		if (value)
			json_object_set(network, inbound_keys[i], value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(outbound_keys); i++) {
		json_t *value = json_object_get(body, outbound_keys[i]);

		if (value && !json_is_null(value))
			json_object_set(network, outbound_keys[i], value);
	}
	json_decref(old);
	return network;
}

static void read_rules(struct api_call *call, json_t *body)
{
	struct box *box = api_box(call);
	cleanup_free char *text = NULL;
	bool has_internet = true, is_fine;
	struct e2b_wait *wait;
	json_t *network;

	if (!box || !e2b_read_bool(call, body, "allow_internet_access", &has_internet))
		return;
	if (box->state != BOX_RUNNING) {
		api_refuse(call, 409, "sandbox %s is not running", box->id);
		return;
	}
	network = merge_network(box, body);
	is_fine = e2b_read_network(call, network, has_internet, &text);
	json_decref(network);
	wait = is_fine ? e2b_wait_new(call) : NULL;
	if (wait)
		box_set_network(box, text, has_internet, on_set, wait);
}

void e2b_put_network(struct api_call *call)
{
	api_read_json(call, BODY_MAX, false, read_rules);
}
