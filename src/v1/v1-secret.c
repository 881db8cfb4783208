/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-secret.h"

#include "base/error.h"
#include "base/scope.h"
#include "box/box.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <errno.h>

/* Secrets, which contracts and header rules name: set, list without values, remove. No request
 * returns a value. */

static void write_secret(struct json *json, const struct secret_info *secret)
{
	json_open(json, NULL, '{');
	json_str(json, "name", secret->name);
	json_uint(json, "version", secret->version);
	v1_write_time(json, "createdAt", secret->made_ms);
	v1_write_time(json, "updatedAt", secret->changed_ms);
	json_close(json, '}');
}

static void answer_secret(struct api_call *call, unsigned status, const struct secret_info *secret)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	write_secret(&json, secret);
	api_answer(call, status, &out);
}

static void on_changed(const struct secret_info *secret, const struct atoll_error *err, void *data)
{
	struct v1_wait *wait = data;
	struct api_call *call = v1_wait_end(wait);

	free(wait);
	if (call && err->fault != ATOLL_FAULT_NONE)
		v1_fail(call, err);
	else if (call && secret)
		answer_secret(call, secret->version == 1 ? 201 : 200, secret);
	else if (call)
		v1_done(call);
}

static void read_put(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"value", NULL};
	struct form form = {.call = call, .body = body};
	struct secret_wish wish = {.name = api_parameter(call, 0),
				   .value = form_str(&form, "value", NULL)};
	struct v1_wait *wait;

	form_known(&form, keys);
	if (!wish.value)
		form_bad(&form, "'value' is missing: a text");
	if (!secret_is_name(wish.name))
		form_bad(&form, "a secret's name has 1 to 63 of a-z, 0-9, '-', '_' and '.', and "
				"does not begin with 'sec_'");
	if (form_fails(&form))
		return;
	wait = v1_wait_new(call, sizeof *wait, NULL);
	if (wait)
		secret_put(call->tenant, &wish, on_changed, wait);
}

void v1_secret_put(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_put);
}

void v1_secret_get(struct api_call *call)
{
	const char *name = api_parameter(call, 0);
	struct secret_info secret;

	if (secret_find(call->tenant, name, &secret))
		answer_secret(call, 200, &secret);
	else
		v1_refuse(call, 404, "not-found", "there is no secret '%.64s'", name);
}

void v1_secret_delete(struct api_call *call)
{
	struct v1_wait *wait = v1_wait_new(call, sizeof *wait, NULL);

	if (wait)
		secret_remove(call->tenant, api_parameter(call, 0), on_changed, wait);
}

void v1_secrets_list(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(1 << 20);
	struct json json = {.out = &out};
	struct secret_info secret;

	json_open(&json, NULL, '{');
	json_open(&json, "items", '[');
	for (size_t i = 0; secret_get(call->tenant, i, &secret); i++)
		write_secret(&json, &secret);
	json_close(&json, ']');
	json_none(&json, "next");
	json_close(&json, '}');
	api_answer(call, 200, &out);
}
