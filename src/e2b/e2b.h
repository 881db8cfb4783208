/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/hash.h"
#include "base/json.h"
#include "box/guest.h"
#include "box/process.h"
#include "e2b/connect.h"
#include "httpd/httpd.h"

/*
 * E2B's protocol, among its own files
 *
 *   e2b-protocol.c        e2b_protocol: routes, which requests are for the data plane
 *   e2b-dataplane.c       a request to a box: whose token, which service; waking it
 *   e2b-sign.c            signatures of URLs
 *   e2b-files.c           /files: downloads
 *   e2b-upload.c          /files: uploads
 *   e2b-process.c         process.Process, but for
 *   e2b-process-stream.c  Start and Connect
 *   e2b-filesystem.c      filesystem.Filesystem, but for
 *   e2b-watch.c           WatchDir and the watchers that are asked
 *   e2b-control.c         the life of boxes; e2b-create.c, e2b-list.c, e2b-numbers.c,
 * e2b-snapshots.c e2b-objects.c         the objects of all these as JSON
 */

#define E2B_ENVD_VERSION "0.6.13" /* whose behaviour clients may expect of us */

#define E2B_PORT_ENVD	     49983 /* files and processes */
#define E2B_PORT_INTERPRETER 49999

/* ---- e2b-protocol.c ---- */

extern const struct api_protocol e2b_protocol;
extern const struct api_route e2b_control_routes[], e2b_volume_routes[], e2b_template_routes[],
	e2b_secret_routes[];

/* ---- e2b-dataplane.c ---- */

/* For api_protocol: files and processes, the interpreter, any other port inside, and signed URLs. A
 * box that is paused and `wakes` is woken first; the requests for another box that does not run are
 * answered by 502. */
void e2b_serve_data_plane(struct api_call *call, const struct api_data_plane *plane);
/* 502: there is no such box. */

void e2b_refuse_unknown_box(struct api_call *call, const char *id);
/* interpreter.c: port 49999. */
void interpreter_exchange(struct exchange *exchange, struct box *box);

/* ---- e2b-sign.c ---- */

enum e2b_operation {
	E2B_READ,
	E2B_WRITE,
};
#define E2B_SIGNATURE_SIZE 47 /* "v1_", 43 of base64, and its end */
void e2b_sign(const char *path, enum e2b_operation operation, const char *user, const char *token,
	      const char *expiration, char ret[E2B_SIGNATURE_SIZE]);
bool e2b_is_same_token(const char *a, const char *b); /* takes as long for all of a length */
/* A request with a signature, for which many tokens may have to be tried: what comes before the
 * token is hashed once. */
#define E2B_PATH_MAX 4096
#define E2B_WORD_MAX 256 /* a user, a time */
struct e2b_signed {
	struct hash hash;
	const char *signature, *expiration; /* the exchange's */
};
/* False: it is longer than anything that is signed. */
bool e2b_signed_begin(struct exchange *exchange, struct e2b_signed *ret);
/* Did this token make the signature? */
bool e2b_signed_by(const struct e2b_signed *signed_request, const char *token);
/* Is this request for a file signed by this box's token? NULL: yes; else what is to be told. */
const char *e2b_check_signature(struct exchange *exchange, const struct box *box);

/* ---- e2b-files.c, e2b-upload.c ---- */

void e2b_files(struct api_call *call, struct box *box);
void e2b_upload(struct api_call *call, struct box *box);
/* POST /files/compose */
void e2b_compose(struct api_call *call, struct box *box);
/* 404, 400, 401, 403, 507 ... for a failure of the guest. */
void e2b_files_fail(struct api_call *call, const char *user, const struct atoll_error *err);
/* {path, name, type, metadata}, as it is told of what was uploaded. */
void e2b_write_uploaded(struct json *json, const struct guest_entry *entry);

/* ---- e2b-process-stream.c and e2b-process.c ---- */

void e2b_process_start(struct rpc *rpc);
void e2b_process_connect(struct rpc *rpc);
/* The process that the request's selector names; NULL, and it was answered. */
struct process *e2b_process(struct rpc *rpc, json_t *request);
bool e2b_terminal_size(struct rpc *rpc, json_t *pty, uint16_t *columns, uint16_t *rows);
/* Ours, such as the interpreter's: nobody else's business. */
bool e2b_process_is_hidden(const struct process *process);

/* ---- e2b-templates.c, e2b-template-files.c ---- */

void e2b_remove_tags(struct api_call *call);
void e2b_template_files_get(struct api_call *call);
void e2b_template_files_put(struct api_call *call);

/* ---- e2b-objects.c ---- */

void e2b_write_entry(struct json *json, const char *key, const struct guest_entry *entry);
void e2b_write_sandbox(struct json *json, const char *key, const struct box *box);
void e2b_write_listed(struct json *json, const struct box *box, bool is_detailed);
void e2b_write_pairs(struct json *json, const char *key, const struct box_pairs *pairs);
/* What json_t has already, within what is written. */
void e2b_write_json(struct json *json, const char *key, const json_t *value);
void e2b_write_raw(struct json *json, const char *key, const char *text);

/* ---- e2b-pairs.c ---- */

/* Pairs from an object of texts. False: something else is in it. */
bool e2b_read_pairs(const json_t *object, struct box_pairs *ret);
void e2b_free_pairs(struct box_pairs *pairs);
/* metadata=, which is encoded three times: "a=b%2520c", as it is when the query was decoded, has a
 * name "a" and a value "b c". False: too many. */
bool e2b_read_filter(const char *text, struct box_pairs *ret);

/* ---- e2b-logs.c ---- */

/* From now on; once is enough. */
void e2b_logs_listen(struct daemon *daemon);

/* ---- e2b-list.c ---- */

/* Query "limit", 1 to 100; false: it was answered. */
bool e2b_read_limit(struct api_call *call, size_t *ret);

/* ---- e2b-control.c: waiting for box/ ---- */

/* A call that waits for something which calls back even if the client has gone meanwhile. */
struct e2b_wait {
	struct api_call *call; /* NULL: has gone */
	char id[BOX_ID_SIZE];
	uint64_t timeout_s;
	int step;
	char *text; /* freed with it */
};
/* NULL: no memory, and it was answered. */
struct e2b_wait *e2b_wait(struct api_call *call);
/* It is over, and `wait` is freed. Returns who is to be answered, or NULL. */
struct api_call *e2b_wait_end(struct e2b_wait *wait);

/* ---- handlers that stand in files of their own ---- */

void e2b_create(struct api_call *call);
void e2b_create_v1(struct api_call *call);
void e2b_list(struct api_call *call);
void e2b_list_v1(struct api_call *call);
void e2b_metrics(struct api_call *call);
void e2b_metrics_of_many(struct api_call *call);
void e2b_logs(struct api_call *call);
void e2b_logs_v1(struct api_call *call);
void e2b_put_network(struct api_call *call);
void e2b_snapshot(struct api_call *call);
void e2b_list_snapshots(struct api_call *call);
void e2b_remove_template(struct api_call *call);
void e2b_alias(struct api_call *call);
/* Looks at the `network` and `allow_internet_access` of a request. The text, of what is kept, is
 * the caller's and may be NULL. False: it was answered. */
bool e2b_read_network(struct api_call *call, json_t *network, bool has_internet, char **ret);
/* Then it cannot be forked, and that was answered. */
bool e2b_sets_headers(struct api_call *call, const struct box *box);
/* A member that has to be of one kind if it is there; false: it was answered. */
bool e2b_read_seconds(struct api_call *call, json_t *body, const char *name, uint64_t *ret);
bool e2b_read_bool(struct api_call *call, json_t *body, const char *name, bool *ret);
