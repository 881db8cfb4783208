/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/state.h"
#include "base/str.h"
#include "isolate/isolate.h"
#include "job/job-layer.h"
#include "job/job.h"
#include "job/places.h"
#include "layer/layer.h"
#include "sandbox/apply-discard.h"
#include "sandbox/checkpoints.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>

/*
 * Create, open, checkpoint, roll back and fork a sandbox, in the client
 *
 * These work with and without a holder. A client that can lock `held` is alone with the record, and
 * does the work itself. Otherwise lock_or_ask() sends the request to the holder.
 */

#define RECIPE_MAX (4 << 20)

/* How long to wait for a holder that is starting or ending. */
#define PATIENCE_NS (20 * INT64_C(1000000000))

/* How long a holder may need to end, with everything inside, before --force kills it. */
#define KILL_S 5

static void scope_close_record(struct layer_record **record)
{
	layer_record_close(*record);
}
#define cleanup_record cleanup_with(scope_close_record)

/* ---- open ---- */

/* The latest sandbox whose workspace contains the current directory. */
static int find_latest(char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	const struct atoll_record *latest = NULL;
	struct atoll_record *records;
	char here[PATH_MAX];
	size_t n;
	int r = atoll_records_list(false, &records, &n, err);

	if (r < 0)
		return r;
	if (!getcwd(here, sizeof here))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		if (records[i].kind == ATOLL_RECORD_SANDBOX &&
		    path_is_within(here, records[i].workspace) &&
		    (!latest || records[i].start_ns > latest->start_ns))
			latest = &records[i];
	}
	if (latest)
		memcpy(ret_id, latest->id, ATOLL_ID_SIZE);
	else
		r = error_set(err, ATOLL_FAULT_REQUEST, ENOENT,
			      "there is no sandbox of this directory; atoll create makes one");
	atoll_records_free(records, n);
	return r;
}

int sandbox_open(const char *id, struct layer_record **ret, struct atoll_error *err)
{
	struct layer_record *record;
	char latest[ATOLL_ID_SIZE];
	int r = id ? 0 : find_latest(latest, err);

	if (r == 0)
		r = layer_record_open(id ? id : latest, &record, err);
	if (r != 0)
		return r;
	if (record->info.kind != ATOLL_RECORD_SANDBOX) {
		r = error_set(err, ATOLL_FAULT_REQUEST, 0,
			      "'%s' is the record of a run, not a sandbox (atoll create makes one)",
			      record->info.id);
		layer_record_close(record);
		return r;
	}
	*ret = record;
	return 0;
}

int sandbox_job(const struct layer_record *record, bool is_held, struct atoll_job **ret,
		struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(RECIPE_MAX);
	const struct recipe recipe = {&text, NULL, record->info.digest, is_held};
	cleanup_fd int fd = openat(record->fd, "job", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_read_all(fd, &text);

	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "read what sandbox '%s' is made of",
				 record->info.id);
	r = recipe_follow(&recipe, ret, err);
	return r < 0 ? error_context(err, r, "sandbox %s", record->info.id) : 0;
}

/* ---- create ---- */

/* Refuse at creation what would make every step fail. */
static int check_host(const struct atoll_job *job, struct atoll_error *err)
{
	cleanup_with(plan_done) struct plan plan = {0};
	struct cell_extra extra = {0};
	const struct plan_line *missing;
	struct cell *cell = NULL;
	char store[PATH_MAX];
	char **env;
	int r;

	if (isolate_choose(NULL) != isolate_backends[0])
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"a sandbox that lives on needs user namespaces with mounts, and this host "
			"%s (see `atoll doctor`); single commands run with `atoll run --direct`",
			isolate_lack());
	/* A run can have its layer in memory. The layers of a sandbox must outlive its processes,
	 * and the file system must support whiteouts. */
	if (job->spec->workspace_mode == SPEC_WORKSPACE_LAYER &&
	    layer_store_needs_memory(job->spec->workspace))
		return error_set(
			err, ATOLL_FAULT_HOST, 0,
			"layers of steps cannot be kept in %.200s: it lies in the workspace, or "
			"on a file system that cannot hold them (a container's root, NFS); set "
			"XDG_STATE_HOME to a place on ext4, XFS, btrfs or tmpfs",
			state_path(store, NULL) < 0 ? "~/.local/state/atoll" : store);
	if (job->spec->n_descriptors)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "a sandbox that lives on cannot have descriptors of the caller's "
				 "(%s)",
				 job->spec->descriptors_origin);
	env = env_build(job->spec, &(struct env_extra){0}, err);
	if (!env)
		return -ENOMEM;
	r = isolate_backends[0]->prepare(job->spec, env, &extra, &plan, &cell, err);
	missing = r == 0 ? plan_first_missing(&plan) : NULL;
	if (missing)
		r = error_set(err, ATOLL_FAULT_HOST, 0, "this host cannot enforce %s (%s)%s%s",
			      missing->clause, missing->mechanism, missing->note ? ": " : "",
			      missing->note ? missing->note : "");
	isolate_backends[0]->release(cell);
	env_free(env);
	return r;
}

/* A spare record may have an older file: write over it and truncate. */
static int write_job(const struct layer_record *record, const struct atoll_job *job,
		     struct atoll_error *err)
{
	cleanup_fd int fd =
		openat(record->fd, "job", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : buf_error(&job->recipe);

	if (r == 0)
		r = fd_write_all(fd, job->recipe.data, job->recipe.used);
	if (r == 0 && ftruncate(fd, (off_t)job->recipe.used) < 0)
		r = -errno;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "keep what the sandbox is made of") : 0;
}

static int fill_record(struct layer_record *record, const struct atoll_job *job, const char *name,
		       bool is_quick, struct atoll_error *err)
{
	int r = layer_store_keep_bounds(&record->store, err);
	char disk[24];

	if (r == 0)
		r = spec_digest(job->spec, record->info.digest, err);
	if (r == 0)
		r = write_job(record, job, err);
	if (r == 0)
		r = layer_note_rules(record, job->spec, err);
	if (r == 0 && job->spec->limits[SPEC_DISK].value != SPEC_UNLIMITED) {
		snprintf(disk, sizeof disk, "%" PRIu64, job->spec->limits[SPEC_DISK].value);
		r = layer_record_set(record, LAYER_DISK, disk, err);
	}
	if (r < 0)
		return r;
	if (is_quick)
		return layer_record_save_soon(record, err);
	return name ? layer_record_name(record, name, err) : layer_record_save(record, err);
}

/* The event log begins with the creation. */
static int begin_log(const char *of_id, const struct spec *spec, const char *parent,
		     struct atoll_error *err)
{
	struct eventlog *eventlog;
	char id[ATOLL_ID_SIZE];
	int r;

	memcpy(id, of_id, sizeof id);
	r = eventlog_open(spec, id, true, parent, &eventlog, err);
	if (r == 0)
		r = eventlog_seal(eventlog, false, false, err);
	eventlog_close(eventlog);
	return r;
}

static int create(struct atoll_job *job, const char *name, bool is_quick,
		  char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	char *const none[] = {(char *)"sh", NULL};
	cleanup_record struct layer_record *record = NULL;
	int r = spec_set_command(job->spec, none, "command line", err);

	if (r == 0)
		r = job_finish(job, err);
	if (r == 0 && !is_quick)
		r = check_host(job, err);
	/* The daemon's own places lie in its store. */
	if (r == 0 && !is_quick)
		r = places_note(job->spec, err);
	if (r == 0)
		r = layer_record_create(ATOLL_RECORD_SANDBOX, job->spec->workspace, &record, err);
	if (r != 0)
		return r;
	r = fill_record(record, job, name, is_quick, err);
	/* A sandbox that is started at once: its holder begins the log. */
	if (r == 0 && !is_quick)
		r = begin_log(record->info.id, job->spec, NULL, err);
	if (r == 0)
		memcpy(ret_id, record->info.id, ATOLL_ID_SIZE);
	else
		layer_record_remove(record, NULL);
	return r;
}

int atoll_sandbox_create(struct atoll_job *job, const char *name, char ret_id[ATOLL_ID_SIZE],
			 struct atoll_error *err)
{
	return create(job, name, false, ret_id, err);
}

int sandbox_create_quickly(struct atoll_job *job, char ret_id[ATOLL_ID_SIZE],
			   struct atoll_error *err)
{
	return create(job, NULL, true, ret_id, err);
}

/* ---- with a holder or without ---- */

/* Lock `held` (`*ret_held`), or connect to the holder that has it (`*ret_socket`). */
static int lock_or_connect(struct layer_record *record, int *ret_held, int *ret_socket,
			   struct atoll_error *err)
{
	const int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;

	*ret_held = *ret_socket = -1;
	do {
		int r = layer_record_hold(record);

		if (r >= 0) {
			*ret_held = r;
			return 0;
		}
		if (r == -ENOENT)
			return error_set(err, ATOLL_FAULT_REQUEST, ENOENT, "sandbox '%s' is gone",
					 record->info.id);
		if (r != -EBUSY)
			return error_set(err, ATOLL_FAULT_HOST, -r, "hold sandbox '%s'",
					 record->info.id);
		r = holder_connect(record, err);
		if (r >= 0)
			*ret_socket = r;
		if (r != -ENOENT)
			return r < 0 ? r : 0;
		/* A holder is starting or ending, or another command has the lock. */
		poll(NULL, 0, 2);
	} while (clock_monotonic_ns() < until_ns);
	return error_set(err, ATOLL_FAULT_POLICY, EBUSY,
			 "sandbox '%s' is in use by another command", record->info.id);
}

static int check_mode(const struct spec *spec, struct atoll_error *err)
{
	if (spec->workspace_mode == SPEC_WORKSPACE_LAYER)
		return 0;
	return error_set(err, ATOLL_FAULT_REQUEST, 0,
			 "the sandbox writes its workspace directly, so there is nothing to "
			 "return to");
}

static int check_layer(const struct layer_record *record, struct atoll_error *err)
{
	struct atoll_job *job = NULL;
	int r = sandbox_job(record, true, &job, err);

	if (r == 0)
		r = check_mode(job->spec, err);
	atoll_job_free(job);
	return r;
}

static int ask(int socket_fd, enum holder_request_type type, const char *name, bool is_forced,
	       struct holder_reply *ret, struct atoll_error *err)
{
	struct holder_request request = {
		.version = HOLDER_VERSION, .type = type, .is_forced = is_forced};
	int r = name ? checkpoints_check_name(name, err) : 0;

	if (r < 0)
		return r;
	snprintf(request.name, sizeof request.name, "%s", name ? name : "");
	return holder_ask(socket_fd, &request, NULL, 0, ret, err);
}

/* Lock `held`, or let the holder execute the request. -ECONNRESET: the holder was ending and has
 * not read it. */
static int lock_or_ask(struct layer_record *record, enum holder_request_type type, const char *name,
		       int *ret_held, struct holder_reply *ret, struct atoll_error *err)
{
	int r;

	do {
		cleanup_fd int socket_fd = -1;

		r = lock_or_connect(record, ret_held, &socket_fd, err);
		if (r == 0 && *ret_held < 0)
			r = ask(socket_fd, type, name, false, ret, err);
	} while (r == -ECONNRESET);
	return r;
}

/* Without a holder, `held` locks the sandbox meanwhile. */
static int checkpoint(struct layer_record *record, const char *name, char ret_name[64],
		      struct atoll_error *err)
{
	cleanup_fd int held = -1;
	struct holder_reply reply;
	int r = lock_or_ask(record, HOLDER_CHECKPOINT, name, &held, &reply, err);

	if (r < 0)
		return r;
	if (held < 0) {
		memcpy(ret_name, reply.name, sizeof reply.name);
		return 0;
	}
	r = check_layer(record, err);
	if (r == 0)
		r = layer_record_lock(record, false, err);
	if (r == 0)
		r = checkpoints_seal(record, name, NULL, ret_name, err);
	return r < 0 ? r : sandbox_log_change(record, "checkpoint", ret_name, UINT64_MAX, err);
}

int atoll_sandbox_checkpoint(const char *id, const char *name, char ret_name[64],
			     struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	char made[64];
	int r = sandbox_open(id, &record, err);

	if (r == 0)
		r = checkpoint(record, name, made, err);
	if (r == 0 && ret_name)
		memcpy(ret_name, made, sizeof made);
	return r;
}

int atoll_sandbox_rollback(const char *id, const char *name, uint64_t *ret_ended,
			   struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_fd int held = -1;
	struct holder_reply reply;
	int r = sandbox_open(id, &record, err);

	if (r == 0)
		r = lock_or_ask(record, HOLDER_ROLLBACK, name, &held, &reply, err);
	if (r < 0)
		return r;
	if (held < 0) {
		*ret_ended = reply.count;
		return 0;
	}
	*ret_ended = 0;
	r = check_layer(record, err);
	if (r == 0)
		r = layer_record_lock(record, false, err);
	if (r == 0)
		r = checkpoints_return(record, name, err);
	if (r == 0)
		r = sandbox_log_change(record, "rollback", name, 0, err);
	if (r == 0)
		layer_store_tidy(&record->store, CHECKPOINTS_TIDY_NS);
	return r;
}

/* In the event logs of both. */
static int note_fork(const struct layer_record *record, const struct spec *spec, const char *name,
		     const char *child, struct atoll_error *err)
{
	char parent[ATOLL_ID_SIZE + 66];
	int r = sandbox_log_decision(record, "fork", child, err);

	snprintf(parent, sizeof parent, "%s/%s", record->info.id, name);
	return r != 0 ? r : begin_log(child, spec, parent, err);
}

/* Lock the record so that its layers are not removed. Unlock before the fork is logged: the holder
 * logs it, and may be blocked on this lock. */
static int branch(struct layer_record *record, const char *name, bool is_first,
		  char ret_id[ATOLL_ID_SIZE], struct atoll_error *err)
{
	cleanup_with(checkpoints_done) struct checkpoints checkpoints = {0};
	const struct checkpoint *point;
	int r = sandbox_lock_record(record, SANDBOX_LOCK_MS, err);

	if (r == 0)
		r = checkpoints_read(record, &checkpoints, err);
	if (r == 0)
		r = checkpoints_find(&checkpoints, name, &point, err);
	if (r == 0 && is_first)
		r = layer_store_keep_bounds(&record->store, err);
	if (r == 0)
		r = checkpoints_branch(record, point, ret_id, err);
	sandbox_unlock_record(record);
	return r;
}

int atoll_sandbox_fork(const char *id, const char *name, size_t count,
		       char (*ret_ids)[ATOLL_ID_SIZE], struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	struct atoll_job *job = NULL;
	char made[64];
	int r = sandbox_open(id, &record, err);

	if (r == 0 && !name)
		r = checkpoint(record, NULL, made, err);
	if (r == 0)
		r = sandbox_job(record, false, &job, err);
	if (r == 0)
		r = check_mode(job->spec, err);
	name = name ? name : made;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = branch(record, name, i == 0, ret_ids[i], err);
		if (r == 0)
			r = note_fork(record, job->spec, name, ret_ids[i], err);
		if (r < 0 && i > 0)
			error_context(err, r, "after %zu forks", i);
	}
	atoll_job_free(job);
	return r;
}

int atoll_sandbox_history(const char *id, struct atoll_checkpoint **ret, size_t *ret_n,
			  struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_with(checkpoints_done) struct checkpoints checkpoints = {0};
	struct atoll_checkpoint *list;
	int r = sandbox_open(id, &record, err);

	if (r == 0)
		r = checkpoints_read(record, &checkpoints, err);
	if (r < 0)
		return r;
	list = calloc(checkpoints.n + 1, sizeof *list);
	if (!list)
		return error_oom(err);
	for (size_t i = 0; i < checkpoints.n; i++) {
		list[i] = checkpoints.points[i].info;
		checkpoints.points[i].info.command = NULL; /* the list owns it now */
	}
	*ret = list;
	*ret_n = checkpoints.n;
	return 0;
}

void atoll_history_free(struct atoll_checkpoint *list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i].command);
	free(list);
}

/* ---- end ---- */

/* Send HOLDER_END and wait for the end of the connection: then nothing is left inside. With
 * `is_forced`, a holder that does not answer, or has no free place, is killed, and everything
 * inside with it. `ret_is_noted` is set if the sandbox is to be removed: whether the event log has
 * the removal. */
static int end_holder(int socket_fd, bool is_forced, bool *ret_is_noted, struct atoll_error *err)
{
	const struct timeval patience = {.tv_sec = is_forced ? KILL_S : 0};
	struct holder_ack heard;
	struct holder_reply reply;
	struct ucred peer;
	socklen_t size = sizeof peer;
	ssize_t got = 0;
	int r;

	setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	r = ask(socket_fd, HOLDER_END, ret_is_noted ? HOLDER_REMOVE : NULL, is_forced, &reply, err);
	while (r == 0 && (got = recv(socket_fd, &heard, sizeof heard, 0)) > 0) {
		if (ret_is_noted && got == sizeof heard && heard.magic == HOLDER_ACK_MAGIC)
			*ret_is_noted = true;
	}
	if (is_forced && (r == -EAGAIN || r == -EBUSY || (r == 0 && got < 0 && errno == EAGAIN)) &&
	    getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 1) {
		kill(peer.pid, SIGKILL);
		return 0;
	}
	/* The holder has ended meanwhile. */
	return r == -ECONNRESET || r == -EPIPE ? 0 : r;
}

/* Files that cannot be copied are not lost by a stop: it fails. A holder of an older version copies
 * nothing (-EPROTO). */
static int save(int socket_fd, struct atoll_error *err)
{
	struct holder_reply reply;
	int r = ask(socket_fd, HOLDER_SAVE, NULL, false, &reply, err);

	return r == -EPROTO ? 0 : r;
}

int atoll_sandbox_stop(const char *id, struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_fd int held = -1;
	struct atoll_error ignored;
	bool is_saved = false;
	int r;

	err = err ? err : &ignored;
	*err = (struct atoll_error){0};
	r = sandbox_open(id, &record, err);
	while (r == 0 && held < 0) {
		cleanup_fd int socket_fd = -1;

		r = lock_or_connect(record, &held, &socket_fd, err);
		if (r < 0 || held >= 0)
			continue;
		/* Each request needs a connection of its own. */
		r = is_saved ? end_holder(socket_fd, true, NULL, err) : save(socket_fd, err);
		is_saved = is_saved || r == 0;
		if (!is_saved && (r == -ECONNRESET || r == -EPIPE))
			r = 0;
	}
	return r;
}

/* Another command may be writing a line of the event log. */
static int lock_to_remove(struct layer_record *record, struct atoll_error *err)
{
	const int64_t until_ns = clock_monotonic_ns() + SANDBOX_LOCK_MS * INT64_C(1000000);
	int r;

	while ((r = layer_record_lock_to_remove(record, err)) == -EBUSY &&
	       clock_monotonic_ns() < until_ns)
		poll(NULL, 0, 5);
	return r;
}

static int end_and_drop(const char *id, bool is_forced, struct layer_names *lost,
			struct atoll_error *err)
{
	cleanup_record struct layer_record *record = NULL;
	cleanup_fd int held = -1;
	bool is_noted = false, is_late;
	int r = sandbox_open(id, &record, err);

	while (r == 0 && held < 0) {
		cleanup_fd int socket_fd = -1;

		r = lock_or_connect(record, &held, &socket_fd, err);
		if (r == 0 && held < 0)
			r = end_holder(socket_fd, is_forced, &is_noted, err);
	}
	if (r == 0)
		r = lock_to_remove(record, err);
	if (r < 0)
		return r;
	if (!is_noted)
		r = sandbox_log_change(record, "remove", NULL, UINT64_MAX, err);
	/* A full disk: the removal can be logged only after the sandbox is gone. */
	is_late = r == -ENOSPC || r == -EDQUOT;
	if (r == 0 || is_late)
		r = layer_record_recycle_first(record, lost, err);
	if (r < 0 || !is_late)
		return r;
	layer_store_tidy(&record->store, INT64_MAX / 2);
	return sandbox_log_change(record, "remove", NULL, UINT64_MAX, err);
}

int atoll_sandboxes_remove(const char *const *ids, size_t n, bool is_forced,
			   void (*failed)(const struct atoll_error *err, void *data), void *data)
{
	cleanup_with(layer_names_done) struct layer_names lost = {0};
	struct layer_store store = {.fd = -1};
	struct atoll_error err;
	int first = 0, r;

	for (size_t i = 0; i < n; i++) {
		err = (struct atoll_error){0};
		r = end_and_drop(ids[i], is_forced, &lost, &err);
		if (r < 0 && failed)
			failed(&err, data);
		first = first ? first : r;
	}
	if (layer_store_open(false, &store, NULL) == 0) {
		layer_names_drop(&store, &lost);
		layer_store_tidy(&store, INT64_MAX / 2);
		layer_store_close(&store);
	}
	return first;
}

static void keep_error(const struct atoll_error *err, void *data)
{
	*(struct atoll_error *)data = *err;
}

int atoll_sandbox_remove(const char *id, bool is_forced, struct atoll_error *err)
{
	return atoll_sandboxes_remove(&id, 1, is_forced, err ? keep_error : NULL, err);
}
