/* SPDX-License-Identifier: Apache-2.0 */
#include "v1/v1-approval.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-error.h"
#include "v1/v1-form.h"
#include "v1/v1-sandbox.h"
#include "v1/v1-state.h"
#include "v1/v1-view.h"
#include "v1/v1-wait.h"

#include <atoll/step.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/*
 * Questions about the network, and their answers
 *
 * With `network: {ask: true}` the holder keeps a connection to an unlisted name waiting until a
 * person decides. A label marks the sandboxes that may have questions. A thread asks their holders.
 * The id of a question is "SANDBOX-NUMBER".
 */

#define BOXES_MOST 1000

struct asked_box {
	char id[BOX_ID_SIZE], sandbox[ATOLL_ID_SIZE];
	struct atoll_pending questions[ATOLL_PENDING_MAX];
	int n;
};

struct questions_work {
	struct v1_work work;
	struct asked_box *boxes;
	size_t n;
	int64_t now_ms;
};

static int ask_holders(struct v1_work *work, struct atoll_error *err)
{
	struct questions_work *own = (struct questions_work *)work;

	/* A sandbox that does not run, or ends now, has no questions. */
	for (size_t i = 0; i < own->n; i++)
		own->boxes[i].n = atoll_sandbox_questions(own->boxes[i].sandbox,
							  own->boxes[i].questions, err);
	*err = (struct atoll_error){0};
	own->now_ms = (int64_t)(clock_real_ns() / 1000000);
	return 0;
}

static void write_question(struct json *json, const struct asked_box *box,
			   const struct atoll_pending *question, int64_t now_ms)
{
	char id[64];

	snprintf(id, sizeof id, "%s-%" PRIu64, box->id, question->id);
	json_open(json, NULL, '{');
	json_str(json, "id", id);
	json_str(json, "sandbox", box->id);
	json_strn(json, "name", question->name, strnlen(question->name, sizeof question->name));
	json_uint(json, "port", question->port);
	json_strn(json, "program", question->program,
		  strnlen(question->program, sizeof question->program));
	json_int(json, "pid", question->pid);
	v1_write_time(json, "until", now_ms + question->left_ms);
	json_close(json, '}');
}

static void answer_list(struct v1_work *work, struct api_call *call)
{
	struct questions_work *own = (struct questions_work *)work;
	cleanup_buf struct buf out = BUF_INIT(64 << 20);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_open(&json, "items", '[');
	for (size_t i = 0; i < own->n; i++) {
		for (int k = 0; k < own->boxes[i].n; k++)
			write_question(&json, &own->boxes[i], &own->boxes[i].questions[k],
				       own->now_ms);
	}
	json_close(&json, ']');
	json_none(&json, "next");
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

static void free_list(struct v1_work *work)
{
	free(((struct questions_work *)work)->boxes);
}

/* Returns the number of boxes; `ret` may be NULL. */
static size_t collect(struct tenant *tenant, struct asked_box *ret, size_t room)
{
	size_t n = 0;

	for (struct box *box = box_next(tenant, NULL, true); box && n < room;
	     box = box_next(tenant, box, true)) {
		if (box->state != BOX_RUNNING || !v1_label(box, V1_LABEL_ASKS))
			continue;
		if (ret) {
			memcpy(ret[n].id, box->id, sizeof ret[n].id);
			memcpy(ret[n].sandbox, box->sandbox, sizeof ret[n].sandbox);
		}
		n++;
	}
	return n;
}

void v1_approvals_list(struct api_call *call)
{
	struct questions_work *own = v1_work_new(call, sizeof *own, NULL);

	if (!own)
		return;
	own->n = collect(call->tenant, NULL, BOXES_MOST);
	own->boxes = calloc(own->n + 1, sizeof *own->boxes);
	own->n = own->boxes ? collect(call->tenant, own->boxes, own->n) : 0;
	own->work.run = ask_holders;
	own->work.answer = answer_list;
	own->work.free = free_list;
	v1_work_submit(&own->work);
}

/* ---- answering ---- */

struct answer_work {
	struct v1_work work;
	uint64_t question;
	enum atoll_answer_type answer;
};

static int run_answer(struct v1_work *work, struct atoll_error *err)
{
	struct answer_work *own = (struct answer_work *)work;

	return atoll_sandbox_answer(work->sandbox, own->question, own->answer, err);
}

static void answer_done(struct v1_work *work, struct api_call *call)
{
	(void)work;
	v1_done(call);
}

static bool read_word(const char *word, enum atoll_answer_type *ret)
{
	static const struct {
		const char *word;
		enum atoll_answer_type answer;
	} words[] = {{"deny", ATOLL_ASK_NO}, {"once", ATOLL_ASK_ONCE}, {"run", ATOLL_ASK_RUN}};

	for (size_t i = 0; word && i < ARRAY_SIZE(words); i++) {
		if (streq(words[i].word, word)) {
			*ret = words[i].answer;
			return true;
		}
	}
	return false;
}

/* The box of "SANDBOX-NUMBER" in the path. NULL: the call was answered. */
static struct box *read_id(struct api_call *call, uint64_t *ret_question)
{
	const char *text = api_parameter(call, 0), *dash = strrchr(text, '-');
	char id[BOX_ID_SIZE] = "", *end = NULL;
	struct box *box;

	if (dash && (size_t)(dash - text) < sizeof id && dash[1] >= '0' && dash[1] <= '9') {
		memcpy(id, text, (size_t)(dash - text));
		*ret_question = strtoull(dash + 1, &end, 10);
	}
	box = end && !*end ? box_find(call->tenant, id) : NULL;
	if (!box)
		v1_refuse(call, 404, "not-found", "there is no open question '%.64s'", text);
	return box;
}

static void read_answer(struct api_call *call, json_t *body)
{
	static const char *const keys[] = {"answer", NULL};
	struct form form = {.call = call, .body = body};
	enum atoll_answer_type answer = ATOLL_ASK_NO;
	struct answer_work *own;
	uint64_t question = 0;
	struct box *box;

	form_known(&form, keys);
	if (!read_word(form_str(&form, "answer", NULL), &answer))
		form_bad(&form, "'answer' has to be 'deny', 'once' or 'run'");
	if (form_fails(&form))
		return;
	box = read_id(call, &question);
	own = box ? v1_work_new(call, sizeof *own, box) : NULL;
	if (!own)
		return;
	own->question = question;
	own->answer = answer;
	own->work.run = run_answer;
	own->work.answer = answer_done;
	v1_work_submit(&own->work);
}

void v1_approval_answer(struct api_call *call)
{
	api_read_json(call, V1_BODY_MAX, true, read_answer);
}
