/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-sandbox.h"

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "spec/spec.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <errno.h>
#include <stdio.h>

/*
 * Sandboxes: create, get, delete, pause, resume, time-out
 *
 * A request with an id ("requestId") makes one sandbox, however often it is sent: the id is a label
 * of the box, and v1->makings has the requests whose boxes do not exist yet.
 */

#define TIMEOUT_USUAL 300
#define TIMEOUT_MOST  (30U * 86400)

/* ---- create ---- */

static void add_label(struct form *form, struct box_pairs *labels, const char *name,
		      const char *value)
{
	struct box_pair *pair;

	if (!labels->items)
		labels->items = calloc(4, sizeof *labels->items);
	if (!labels->items) {
		form_bad(form, "out of memory");
		return;
	}
	pair = &labels->items[labels->n++];
	pair->name = strdup(name);
	pair->value = strdup(value);
	if (!pair->name || !pair->value)
		form_bad(form, "out of memory");
}

/* A job file as a string (YAML or JSON), or as an object. */
static void read_contract(struct form *form, struct v1_create *ret)
{
	json_t *contract = json_object_get(form->body, "contract");

	if (!contract || json_is_null(contract))
		return;
	if (json_is_string(contract))
		ret->contract = strdup(json_string_value(contract));
	else if (json_is_object(contract))
		ret->contract = json_dumps(contract, JSON_COMPACT);
	else
		form_bad(form, "'contract' has to be a job file: a text, or an object");
	if (!form->is_bad && !ret->contract)
		form_bad(form, "out of memory");
	ret->request.contract = ret->contract;
}

/* Does the contract have `ask`? Mistakes in it are reported later, when it is merged with the
 * template's contract. */
static bool contract_asks(const char *contract)
{
	struct atoll_error err = {0};
	struct spec *spec = spec_new("/", "/", &err);
	bool asks = spec &&
		    spec_load(spec, "contract", NULL, contract, strlen(contract), &err) == 0 &&
		    spec->network.asks;

	spec_free(spec);
	return asks;
}

static void read_timeout(struct form *form, struct box_request *request)
{
	json_t *timeout = json_object_get(form->body, "timeout");

	if (json_is_string(timeout) && streq(json_string_value(timeout), "never"))
		request->timeout_s = UINT64_MAX;
	else
		request->timeout_s = form_uint(form, "timeout", TIMEOUT_USUAL, 1, TIMEOUT_MOST);
}

void v1_read_create(struct form *form, struct v1_create *ret)
{
	struct box_request *request = &ret->request;
	const char *end, *key;

	*ret = (struct v1_create){.body = json_incref(form->body)};
	/* The contract is merged over the template's. */
	request->template_ref = form_str(form, "template", "base");
	read_contract(form, ret);
	read_timeout(form, request);
	form_pairs(form, "labels", &request->labels);
	form_pairs(form, "metadata", &request->metadata);
	form_pairs(form, "environment", &request->environment);
	for (size_t i = 0; i < request->labels.n; i++) {
		if (v1_label_is_reserved(request->labels.items[i].name))
			form_bad(form, "labels that begin with 'atoll.' are the daemon's own");
	}
	end = form_str(form, "onTimeout", "delete");
	if (end && !streq(end, "delete") && !streq(end, "pause"))
		form_bad(form, "'onTimeout' has to be 'delete' or 'pause'");
	request->pauses_at_end = end && streq(end, "pause");
	request->pauses_memory = true;
	request->has_internet = form_bool(form, "internet", true);
	if (ret->contract && !form->is_bad && contract_asks(ret->contract))
		add_label(form, &request->labels, V1_LABEL_ASKS, "yes");
	key = form_str(form, "requestId", NULL);
	if (key && (!key[0] || strlen(key) > 63))
		form_bad(form, "'requestId' has to have 1 to 63 bytes");
	if (key && !form->is_bad)
		add_label(form, &request->labels, V1_LABEL_REQUEST, key);
}

void v1_create_done(struct v1_create *create)
{
	form_free_pairs(&create->request.labels);
	form_free_pairs(&create->request.metadata);
	form_free_pairs(&create->request.environment);
	free(create->contract);
	json_decref(create->body);
}

struct box *v1_box_of_request(struct tenant *tenant, const char *request_id)
{
	const char *label;

	for (struct box *box = box_next(tenant, NULL, true); box;
	     box = box_next(tenant, box, true)) {
		label = v1_label(box, V1_LABEL_REQUEST);
		if (label && streq(label, request_id))
			return box;
	}
	return NULL;
}

/* ---- requests whose sandboxes are being made ---- */

bool v1_is_being_made(struct api_call *call, const char *request_id)
{
	const struct v1_making *at = v1_of(call)->makings;

	while (at && request_id &&
	       (at->tenant != call->tenant || !streq(at->request_id, request_id)))
		at = at->next;
	if (!at || !request_id)
		return false;
	exchange_add(call->exchange, "Retry-After", "1");
	v1_refuse(call, 409, "conflict", "the sandbox of this request is being made; ask again");
	return true;
}

void v1_making_begin(struct v1_making *making, const struct api_call *call, const char *request_id)
{
	struct v1 *v1 = v1_of(call);

	snprintf(making->request_id, sizeof making->request_id, "%s", request_id ? request_id : "");
	making->v1 = v1;
	making->tenant = call->tenant;
	making->next = v1->makings;
	v1->makings = making;
}

void v1_making_end(struct v1_making *making)
{
	struct v1_making **at = &making->v1->makings;

	while (*at && *at != making)
		at = &(*at)->next;
	if (*at)
		*at = making->next;
}

struct creation {
	struct v1_wait wait;
	struct v1_making making;
};

static void ignore_end(struct box *box, const struct atoll_error *err, void *data)
{
	(void)box;
	(void)err;
	(void)data;
}

static void on_created(struct box *box, const struct atoll_error *err, void *data)
{
	struct creation *creation = data;
	struct api_call *call = v1_wait_end(&creation->wait);

	v1_making_end(&creation->making);
	if (call && !box)
		v1_fail(call, err);
	else if (call)
		v1_answer_box(call, 201, box);
	else if (box && !creation->making.request_id[0])
		/* The client has gone and does not know the id: end the box. */
		box_kill(box, BOX_CAUSE_KILLED, ignore_end, NULL);
	free(creation);
}

static void create(struct api_call *call, struct v1_create *wanted, const char *request_id)
{
	struct creation *creation = v1_wait_new(call, sizeof *creation, NULL);

	if (!creation)
		return;
	v1_making_begin(&creation->making, call, request_id);
	box_create(call->tenant, &wanted->request, on_created, creation);
}

static void read_create(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"template",	"contract",    "timeout",   "labels",
					   "metadata",	"environment", "onTimeout", "internet",
					   "requestId", NULL};
	struct form form = {.call = call, .body = body};
	struct v1_create wanted;
	const char *request_id;
	struct box *box;

	form_known(&form, keys);
	v1_read_create(&form, &wanted);
	request_id = form_str(&form, "requestId", NULL);
	if (!form_fails(&form)) {
		box = request_id ? v1_box_of_request(call->tenant, request_id) : NULL;
		if (box)
			v1_answer_box(call, 200, box);
		else if (!v1_is_being_made(call, request_id))
			create(call, &wanted, request_id);
	}
	v1_create_done(&wanted);
}

void v1_sandbox_create(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_create);
}

/* ---- existing sandboxes ---- */

void v1_sandbox_get(struct api_call *call)
{
	struct box *box = v1_box(call);

	if (box)
		v1_answer_box(call, 200, box);
}

/* Answers after success, failure, or the end of the box. */
static void on_changed(struct box *box, const struct atoll_error *err, void *data)
{
	struct v1_wait *wait = data;
	struct api_call *call = v1_wait_end(wait);

	if (call && err && err->fault != ATOLL_FAULT_NONE)
		v1_fail(call, err);
	else if (call && box)
		v1_answer_box(call, 200, box);
	else if (call)
		v1_refuse(call, 404, "not-found", "sandbox '%s' has ended", wait->box);
	free(wait);
}

void v1_on_killed(struct box *box, const struct atoll_error *err, void *data)
{
	struct v1_wait *wait = data;
	struct api_call *call = v1_wait_end(wait);

	(void)box;
	if (call && err && err->fault != ATOLL_FAULT_NONE)
		v1_fail(call, err);
	else if (call)
		v1_done(call);
	free(wait);
}

void v1_sandbox_delete(struct api_call *call)
{
	struct box *box = v1_box(call);
	struct v1_wait *wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;

	if (wait)
		box_kill(box, BOX_CAUSE_KILLED, v1_on_killed, wait);
}

static void read_pause(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"memory", NULL};
	struct form form = {.call = call, .body = body};
	bool memory = form_bool(&form, "memory", true);
	struct box *box;
	struct v1_wait *wait;

	form_known(&form, keys);
	if (form_fails(&form))
		return;
	box = v1_box(call);
	/* A second pause does nothing. */
	if (box && box->state == BOX_PAUSED) {
		v1_answer_box(call, 200, box);
		return;
	}
	wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;
	if (wait)
		box_pause(box, memory, on_changed, wait);
}

void v1_sandbox_pause(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_pause);
}

static void read_resume(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"timeout", NULL};
	struct form form = {.call = call, .body = body};
	uint64_t timeout_s = form_uint(&form, "timeout", 0, 1, TIMEOUT_MOST);
	struct box *box;
	struct v1_wait *wait;

	form_known(&form, keys);
	if (form_fails(&form))
		return;
	box = v1_box(call);
	wait = box ? v1_wait_new(call, sizeof *wait, box) : NULL;
	if (wait)
		box_resume(box, timeout_s, on_changed, wait);
}

void v1_sandbox_resume(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, false, read_resume);
}

static void read_new_timeout(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"timeout", NULL};
	struct form form = {.call = call, .body = body};
	struct box_request request = {0};
	struct box *box;

	form_known(&form, keys);
	if (!json_object_get(body, "timeout"))
		form_bad(&form, "'timeout' is missing: seconds from now, or \"never\"");
	read_timeout(&form, &request);
	if (form_fails(&form))
		return;
	box = v1_box(call);
	if (!box)
		return;
	box_set_timeout(box, request.timeout_s, false);
	v1_answer_box(call, 200, box);
}

void v1_sandbox_timeout(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_new_timeout);
}
