/* SPDX-License-Identifier: Apache-2.0 */

#include "v1/v1.h"

#include "base/scope.h"
#include "base/str.h"
#include "v1/v1-apply.h"
#include "v1/v1-approval.h"
#include "v1/v1-change.h"
#include "v1/v1-checkpoint.h"
#include "v1/v1-error.h"
#include "v1/v1-file.h"
#include "v1/v1-follow.h"
#include "v1/v1-job.h"
#include "v1/v1-list.h"
#include "v1/v1-openapi.h"
#include "v1/v1-output.h"
#include "v1/v1-record.h"
#include "v1/v1-results.h"
#include "v1/v1-sandbox.h"
#include "v1/v1-secret.h"
#include "v1/v1-stdin.h"
#include "v1/v1-step.h"
#include "v1/v1-view.h"
#include "v1/v1-watch.h"

#include <string.h>

/* The protocol /v1 for the router: the table of routes, and the protocol's struct. */

static bool is_path(const struct api_call *call)
{
	const char *first = exchange_segment(call->exchange, 0);

	return first && streq(first, "v1");
}

static void openapi(struct api_call *call)
{
	call->status = 200;
	exchange_answer(call->exchange, 200, "application/json", v1_openapi_text,
			strlen(v1_openapi_text));
}

static void root(struct api_call *call)
{
	cleanup_buf struct buf out = BUF_INIT(4096);
	struct json json = {.out = &out};

	json_open(&json, NULL, '{');
	json_str(&json, "version", atoll_version());
	json_str(&json, "openapi", "/v1/openapi.json");
	json_str(&json, "tenant", call->tenant->name);
	json_close(&json, '}');
	api_answer(call, 200, &out);
}

/* clang-format off */
static const struct api_route routes[] = {
	{"GET", "/v1", root},
	{"GET", "/v1/openapi.json", openapi, API_OPEN},

	{"POST", "/v1/sandboxes", v1_sandbox_create},
	{"GET", "/v1/sandboxes", v1_sandboxes_list},
	{"DELETE", "/v1/sandboxes", v1_sandboxes_delete},
	{"POST", "/v1/sandboxes/bulk", v1_sandboxes_create},
	{"GET", "/v1/sandboxes/{id}", v1_sandbox_get},
	{"DELETE", "/v1/sandboxes/{id}", v1_sandbox_delete},
	{"POST", "/v1/sandboxes/{id}/pause", v1_sandbox_pause},
	{"POST", "/v1/sandboxes/{id}/resume", v1_sandbox_resume},
	{"POST", "/v1/sandboxes/{id}/timeout", v1_sandbox_timeout},
	{"POST", "/v1/sandboxes/{id}/fork", v1_fork},
	{"POST", "/v1/sandboxes/{id}/rollback", v1_rollback},
	{"GET", "/v1/sandboxes/{id}/checkpoints", v1_checkpoints_list},
	{"POST", "/v1/sandboxes/{id}/checkpoints", v1_checkpoint_make},
	{"GET", "/v1/sandboxes/{id}/diff", v1_diff},
	{"POST", "/v1/sandboxes/{id}/apply", v1_apply},
	{"POST", "/v1/sandboxes/{id}/undo", v1_undo},
	{"GET", "/v1/sandboxes/{id}/export", v1_export},
	{"GET", "/v1/sandboxes/{id}/log", v1_log},
	{"GET", "/v1/sandboxes/{id}/receipt", v1_receipt},

	{"POST", "/v1/sandboxes/{id}/steps", v1_step_start},
	{"GET", "/v1/sandboxes/{id}/steps", v1_steps_list},
	{"GET", "/v1/sandboxes/{id}/steps/{number}", v1_step_get},
	{"GET", "/v1/sandboxes/{id}/steps/{number}/output", v1_step_output},
	{"GET", "/v1/sandboxes/{id}/steps/{number}/events", v1_step_events},
	{"POST", "/v1/sandboxes/{id}/steps/{number}/stdin", v1_step_stdin},
	{"POST", "/v1/sandboxes/{id}/steps/{number}/signal", v1_step_signal},
	{"POST", "/v1/sandboxes/{id}/steps/{number}/resize", v1_step_resize},

	{"GET", "/v1/sandboxes/{id}/files", v1_file_get},
	{"PUT", "/v1/sandboxes/{id}/files", v1_file_put},
	{"DELETE", "/v1/sandboxes/{id}/files", v1_file_delete},
	{"GET", "/v1/sandboxes/{id}/files/stat", v1_file_stat},
	{"GET", "/v1/sandboxes/{id}/files/list", v1_file_list},
	{"POST", "/v1/sandboxes/{id}/files/move", v1_file_move},
	{"POST", "/v1/sandboxes/{id}/files/mkdir", v1_file_mkdir},

	{"POST", "/v1/jobs", v1_job_start},
	{"GET", "/v1/jobs", v1_jobs_list},
	{"GET", "/v1/jobs/{id}", v1_job_get},
	{"DELETE", "/v1/jobs/{id}", v1_job_cancel},
	{"GET", "/v1/jobs/{id}/events", v1_job_events},
	{"GET", "/v1/jobs/{id}/output", v1_job_output},
	{"GET", "/v1/jobs/{id}/receipt", v1_job_receipt},

	{"GET", "/v1/approvals", v1_approvals_list},
	{"POST", "/v1/approvals/{id}", v1_approval_answer},
	{"GET", "/v1/secrets", v1_secrets_list},
	{"GET", "/v1/secrets/{name}", v1_secret_get},
	{"PUT", "/v1/secrets/{name}", v1_secret_put},
	{"DELETE", "/v1/secrets/{name}", v1_secret_delete},
	{"GET", "/v1/usage", v1_usage},
	{"GET", "/v1/events", v1_events},
	{0},
};
/* clang-format on */

static const struct api_route *const tables[] = {routes, NULL};

const struct api_protocol v1_protocol = {
	.name = "v1",
	.routes = tables,
	.open = v1_open,
	.close = v1_close,
	.is_path = is_path,
	.refuse = v1_refuse_status,
};
