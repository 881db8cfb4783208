/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/json.h"
#include "box/process.h"
#include "box/work.h"
#include "httpd/httpd.h"

#include <stdatomic.h>
#include <string.h>

/*
 * Our own API, under /v1
 *
 * openapi.json says what it looks like, and a test holds it against the table of routes. One shape
 * of failure, one of lists ({"items": [...], "next": "..."}), times in RFC 3339, bytes in base64
 * where they stand in JSON.
 *
 *   v1.c            the table of routes; failures; requests whose answer comes later
 *   v1-form.c       reading a request's body: what is not known is refused
 *   v1-view.c       how sandboxes and steps are shown
 *   v1-sandbox.c    create, get, delete, pause, resume, time-out
 *   v1-list.c       which there are, in pages; by label, also to create and to delete many
 *   v1-step.c       start, find, list; signals, size; v1-stdin.c  input
 *   v1-output.c     what a step printed, as bytes
 *   v1-follow.c     what a step prints, as events that one can come back to
 *   v1-file.c       files
 *   v1-checkpoint.c checkpoints, rollback, fork
 *   v1-change.c     diff, export; v1-apply.c  apply, undo
 *   v1-record.c     log and receipt
 *   v1-keep.c       results of steps are written down
 *   v1-job.c        a command and its contract in a sandbox of its own
 *   v1-watch.c      what happens to all sandboxes of a tenant
 *   v1-approval.c   questions about the network, and answers
 *   v1-secret.c     values that contracts name
 */

#define V1_BODY_MAX (1U << 20)

/* ---- v1.c ---- */

extern const struct api_protocol v1_protocol;

/* {"error": {"cause": ..., "message": ...}}. */
void v1_refuse(struct api_call *call, unsigned status, const char *cause, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The same with members of "details", which is the inside of an object: "\"first\":7". */
void v1_refuse_with(struct api_call *call, unsigned status, const char *cause, const char *details,
		    const char *format, ...) __attribute__((format(printf, 5, 6)));
void v1_fail(struct api_call *call, const struct atoll_error *err);
/* The error object alone, into something else. */
void v1_write_error(struct json *json, const char *key, const char *cause, const char *details,
		    const char *message);
/* The cause in a failure's name: "not-found", "quota", ... */
const char *v1_error_cause(const struct atoll_error *err);

/* A request whose answer comes later, when whoever asked may be gone. First in what is the
 * request's own, which v1_wait_done() frees. */
struct v1_wait {
	struct api_call *call; /* NULL: gone */
	atomic_bool is_gone;   /* the same, for threads */
	char box[BOX_ID_SIZE];
	struct daemon *daemon;
};
/* NULL, and 500 was answered. */
void *v1_wait_new(struct api_call *call, size_t size, const struct box *box);
/* Who is to be answered, now, or NULL. */
struct api_call *v1_wait_end(struct v1_wait *wait);
/* For box_kill(): answers whoever waits with nothing, or with why not. `data` is a struct v1_wait.
 */
void v1_on_killed(struct box *box, const struct atoll_error *err, void *data);
/* The box, if it is still there. */
struct box *v1_wait_box(const struct v1_wait *wait);

/* The tenant's box that the path names: any, or one that runs. NULL, and it was answered. */
struct box *v1_box(struct api_call *call);
struct box *v1_running_box(struct api_call *call);

/* Something on a thread, and then the answer. Embedded first. */
struct v1_work {
	struct v1_wait wait;
	struct work_item item;
	char sandbox[ATOLL_ID_SIZE];
	struct atoll_error error;
	int result; /* of `run` */
	int (*run)(struct v1_work *work, struct atoll_error *err);
	/* It went well, and somebody is there to be answered. */
	void (*answer)(struct v1_work *work, struct api_call *call);
	void (*free)(struct v1_work *work); /* what is inside; NULL */
	struct tenant *tenant;
	uint64_t reserved; /* of tenant->scratch: the file becomes no larger */
	bool compares;	   /* files, in memory: WORK_COMPARE */
};
void *v1_work_new(struct api_call *call, size_t size, const struct box *box);
void v1_work_submit(struct v1_work *work);
/* For struct atoll_export_limits: `work` is a struct v1_work, and its client is still there. */
bool v1_work_is_wanted(void *work);
/* The answer is made in a file and has at most so many bytes (work->reserved; less if the disk has
 * less): tenant_reserve_scratch(). False: it was answered by 429, and `work` is gone. */
bool v1_work_reserve(struct v1_work *work, uint64_t bytes);
/* A file without a name, for answers of any size: a descriptor or a negative errno. */
int v1_scratch(const struct v1_work *work, struct atoll_error *err);
/* All of it, as the answer. */
void v1_answer_file(struct api_call *call, const char *type, int fd);
/* The same for one of v1_scratch(): its bytes are counted until they are sent. */
void v1_answer_scratch(struct api_call *call, const char *type, int fd);

/* {"ok": true} would say nothing: 204. */
void v1_done(struct api_call *call);

/* ---- v1-form.c ---- */

/* A body that is read member by member. The first mistake counts, and form_fails() answers it. */
struct form {
	struct api_call *call;
	json_t *body;
	bool is_bad;
	char why[200];
};

void form_known(struct form *form, const char *const *keys);
const char *form_str(struct form *form, const char *key, const char *usual);
uint64_t form_uint(struct form *form, const char *key, uint64_t usual, uint64_t least,
		   uint64_t most);
bool form_bool(struct form *form, const char *key, bool usual);
/* {"name": "value"}; form_free_pairs() frees, also half of it. */
void form_pairs(struct form *form, const char *key, struct box_pairs *ret);
void form_free_pairs(struct box_pairs *pairs);
/* Words, NULL-terminated; NULL if there are none. One free() frees them all. */
char **form_words(struct form *form, const char *key);
void form_bad(struct form *form, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* True, and 400 was answered. */
bool form_fails(struct form *form);

/* A number of the query: `usual` if it is not there; false, and 400 was answered. */
bool v1_query_uint(struct api_call *call, const char *name, uint64_t usual, uint64_t most,
		   uint64_t *ret);
/* "true" or "1"; anything else but nothing, "false" and "0" is answered by 400. */
bool v1_query_bool(struct api_call *call, const char *name, bool *ret);

/* ---- v1-view.c ---- */

void v1_write_box(struct json *json, const char *key, struct box *box, bool with_usage);
void v1_write_pairs(struct json *json, const char *key, const struct box_pairs *pairs);
void v1_write_time(struct json *json, const char *key, int64_t ms);
/* `with_data`: also what it printed, as far as V1_INLINE goes. */
void v1_write_step(struct json *json, const char *key, struct process *process, bool with_data);
/* The same, ended in this way; NULL: it has not. */
void v1_write_step_as(struct json *json, const char *key, struct process *process,
		      const struct process_end *end, int64_t end_ms, bool with_data);
void v1_write_base64(struct json *json, const char *key, const void *data, size_t size);
void v1_answer_box(struct api_call *call, unsigned status, struct box *box);
/* The box's label by that name, or NULL. Names that begin with "atoll." are ours. */
const char *v1_label(const struct box *box, const char *name);
bool v1_label_is_ours(const char *name);

#define V1_INLINE 65536

/* ---- v1-sandbox.c ---- */

#define V1_LABEL_REQUEST "atoll.request"
#define V1_LABEL_JOB	 "atoll.job"
#define V1_LABEL_ASKS	 "atoll.asks"

/* What a body asks for; free with v1_create_done(). */
struct v1_create {
	struct box_request request;
	char *contract; /* as text */
	json_t *body;	/* whose strings are used */
};
/* Adds to `form`'s mistakes. */
void v1_read_create(struct form *form, struct v1_create *ret);
void v1_create_done(struct v1_create *create);
/* The box that an earlier request with the same id has made, or NULL. */
struct box *v1_box_of_request(struct tenant *tenant, const char *request_id);

/* Sandboxes and jobs that are being made: their requests must not be begun a second time.
 * `request_id` may be NULL. */
struct v1_making {
	char request_id[64];
	const struct tenant *tenant;
	struct v1_making *next;
};
/* True, and 409 was answered. */
bool v1_is_being_made(struct api_call *call, const char *request_id);
void v1_making_begin(struct v1_making *making, const struct tenant *tenant, const char *request_id);
void v1_making_end(struct v1_making *making);

/* ---- v1-step.c, v1-output.c, v1-follow.c ---- */

/* The step that the path names; NULL, and it was answered. One that is only in the records of
 * results is answered by `old`, if that is not NULL, with a struct result_step. */
struct result_step;
struct process *v1_step(struct api_call *call, struct box **ret_box,
			void (*old)(struct api_call *call, const struct result_step *step));
/* For jobs as well. */
void v1_follow(struct api_call *call, struct process *process);
void v1_follow_old(struct api_call *call, const struct result_step *step);
void v1_output(struct api_call *call, struct process *process);
void v1_output_old(struct api_call *call, const struct result_step *step);
/* 204, or why it could not be done to a step: -ESRCH, -EPIPE, -ENOTTY, -EAGAIN. */
void v1_answer_change(struct api_call *call, int r);
/* A step has ended: whoever waits for it is answered. */
void v1_step_ended(struct process *process);
/* Somebody reads along from now on. */
void v1_step_is_read(struct process *process);
/* A sandbox has ended, and with it its steps. */
void v1_steps_gone(struct box *box);
/* "SIGTERM", "TERM" or "15"; 0: none. And the other way: "SIGTERM", or NULL. */
int v1_signal_number(const char *name);
const char *v1_signal_name(int number);

/* The receipt of a sandbox that may be gone. */
void v1_record_receipt(struct api_call *call, const char *sandbox);

/* ---- v1-job.c ---- */

#define V1_JOB_KEY "atoll-job" /* of its step */

/* The command that the job is; NULL: it has not started. */
struct process *v1_job_step(const struct box *box);
static inline bool v1_is_job_step(const struct process *process)
{
	return process->key && strcmp(process->key, V1_JOB_KEY) == 0 &&
	       v1_label(process->box, V1_LABEL_JOB);
}
/* A job has ended: its sandbox does, too, after a while. */
void v1_job_ended(struct box *box);
/* Those that were to be started when the daemon went away. */
void v1_jobs_go_on(struct api *api);

/* ---- v1-keep.c ---- */

/* Results of steps and jobs (results.db in `dir`), and jobs that have to go on after the daemon was
 * gone. Called once the daemon has its boxes again. */
int v1_open(struct api *api, const char *dir, void **ret, struct atoll_error *err);
void v1_close(void *state);
struct results *v1_results(void);
/* May its end be told? A job's once its result survives a loss of power. */
bool v1_has_ended(const struct process *process);

/* ---- handlers, for the table ---- */

api_handler v1_openapi, v1_root;
api_handler v1_sandbox_create, v1_sandbox_get, v1_sandbox_delete, v1_sandbox_pause,
	v1_sandbox_resume, v1_sandbox_timeout;
api_handler v1_sandboxes_list, v1_sandboxes_create, v1_sandboxes_delete;
api_handler v1_step_start, v1_steps_list, v1_step_get, v1_step_stdin, v1_step_signal,
	v1_step_resize, v1_step_output, v1_step_events;
api_handler v1_file_get, v1_file_put, v1_file_delete, v1_file_stat, v1_file_list, v1_file_move,
	v1_file_mkdir;
api_handler v1_checkpoint_make, v1_checkpoints_list, v1_rollback, v1_fork;
api_handler v1_diff, v1_apply, v1_undo, v1_export;
api_handler v1_log, v1_receipt;
api_handler v1_job_start, v1_jobs_list, v1_job_get, v1_job_events, v1_job_output, v1_job_receipt,
	v1_job_cancel;
api_handler v1_secrets_list, v1_secret_get, v1_secret_put, v1_secret_delete;
api_handler v1_usage, v1_events, v1_approvals_list, v1_approval_answer;

extern const char v1_openapi_text[];
