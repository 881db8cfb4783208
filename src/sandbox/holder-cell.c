/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-cell.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "job/job.h"
#include "layer/layer.h"
#include "sandbox/holder-detached-end.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-life.h"
#include "sandbox/holder-root.h"
#include "sandbox/holder-steps.h"
#include "sandbox/holder.h"
#include "sandbox/record-lock.h"
#include "spec/spec.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * The cell of a holder: build, end, messages
 *
 * holder_open_cell() is called before each step. It prepares the network (netctl), locks the record
 * while it reads the layers, builds the cell with the back end, and starts pid 1 as a service that
 * waits for steps. holder_close_cell() ends everything inside in this order: kill and reap pid 1,
 * read its last messages and notices, stop the network, copy the private root, end the steps, copy
 * base files for a merge, release. It is called when pid 1 is gone, when a limit is reached, and at
 * the holder's end.
 */

/* How often the back end's counters are read. */
#define COUNT_NS (500 * INT64_C(1000000))

/* How long pid 1 may need for an order. */
#define DONE_MS 20000

/* ---- layers ---- */

static void free_layers(struct cell_layer *layer)
{
	for (size_t i = 0; i < layer->n_sealed; i++)
		free((char *)layer->sealed[i]);
	for (size_t i = 0; i < layer->n_roots; i++)
		free((char *)layer->roots[i]);
	free((void *)layer->roots);
	free((void *)layer->sealed);
	free((char *)layer->top);
	*layer = (struct cell_layer){0};
}

static int find_roots(struct holder *holder, const struct layer_roots *roots,
		      struct atoll_error *err)
{
	const char **paths = calloc(roots->n + 1, sizeof *paths);

	holder->layer.roots = paths;
	if (!paths)
		return error_oom(err);
	for (size_t i = 0; i < roots->n; i++) {
		paths[i] = layer_sealed_path(holder->record, roots->ids[i]);
		if (!paths[i])
			return error_oom(err);
		holder->layer.n_roots++;
	}
	return 0;
}

int holder_find_layers(struct holder *holder, struct atoll_error *err)
{
	const struct layer_record *record = holder->record;
	const char **sealed = calloc(record->n_layers + 1, sizeof *sealed);

	free_layers(&holder->layer);
	holder->layer.sealed = sealed;
	holder->layer.is_changed = true;
	if (!sealed)
		return error_oom(err);
	for (size_t i = 0; i < record->n_layers; i++) {
		sealed[i] = layer_sealed_path(record, record->layers[i]);
		if (!sealed[i])
			return error_oom(err);
		holder->layer.n_sealed++;
	}
	holder->layer.top = layer_top_path(record);
	return holder->layer.top ? find_roots(holder, &holder->root_below, err) : error_oom(err);
}

/* ---- callbacks of the network ---- */

static int32_t find_process(void *data, uint16_t local_port, char ret_program[16])
{
	const struct holder *holder = data;

	return holder->backend->find_process
		       ? holder->backend->find_process(holder->cell, local_port, ret_program)
		       : 0;
}

static void order_sockets(void *data, uint32_t count)
{
	const struct holder *holder = data;
	const struct init_order order = {.type = INIT_MAKE_SOCKETS,
					 .family = AF_INET6,
					 .count = count < INIT_SOCKETS_MAX ? count
									   : INIT_SOCKETS_MAX};

	send(holder->handle.control_fd, &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- build and end ---- */

static int open_net(struct holder *holder, struct atoll_error *err)
{
	int r;

	holder->net_result = calloc(1, sizeof *holder->net_result);
	if (!holder->net_result)
		return error_oom(err);
	/* Only a sandbox with HOLDER_STAY has a client that reads questions. Otherwise the answer
	 * is no. */
	holder->net_options.ask = holder->stays ? holder_ask_later : NULL;
	r = netctl_init(&holder->net, holder->spec, &holder->net_options, holder->net_result, err);
	holder->net.find_process = find_process;
	holder->net.order_sockets = order_sockets;
	holder->net.saves_sockets = true;
	holder->net.restarts = holder->stays;
	holder->net.connected = holder_eventlog_add_connection;
	holder->net.data = holder;
	return r < 0 ? r : netctl_open(&holder->net, true, err);
}

static void close_net(struct holder *holder)
{
	netctl_done(&holder->net);
	free(holder->net_result);
	holder->net_result = NULL;
}

/* Nothing was written yet, so the used disk space is 0 and is not measured: most started sandboxes
 * are new. A branch starts with one checkpoint and layers of its parent. */
static bool is_new(const struct layer_record *record)
{
	const bool is_branch = record->info.parent[0];

	return layer_top_is_empty(record) && record->info.n_checkpoints <= (is_branch ? 1 : 0) &&
	       (is_branch || !record->n_layers);
}

static int prepare(struct holder *holder, struct atoll_error *err)
{
	struct env_extra extra = {.secrets = &holder->net.secrets, .token = holder->net.token};
	bool has_layer = holder->spec->workspace_mode == SPEC_WORKSPACE_LAYER;
	int r = has_layer ? sandbox_lock_record(holder->record, DONE_MS, err) : 0;

	if (r < 0)
		return r;
	layer_roots_get(holder->record, &holder->root_below);
	if (has_layer)
		r = holder_find_layers(holder, err);
	holder->net.extra.layer = has_layer ? &holder->layer : NULL;
	holder->net.extra.is_service = true;
	holder->net.extra.disk_kept =
		has_layer && !is_new(holder->record) ? layer_record_kept(holder->record) : 0;
	if (r == 0) {
		holder->env = env_build(holder->spec, &extra, err);
		r = holder->env ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = holder->backend->prepare(holder->spec, holder->env, &holder->net.extra, NULL,
					     &holder->cell, err);
	isolate_forget(); /* the facts that the spawner remembered were for this cell */
	if (r == 0) {
		r = holder->backend->start(holder->cell, (const int[3]){-1, -1, -1},
					   &holder->handle, err);
		holder->is_live = r == 0;
	}
	if (r == 0)
		holder_root_begin(holder);
	sandbox_unlock_record(holder->record);
	return r;
}

int holder_open_cell(struct holder *holder, struct atoll_error *err)
{
	int r;

	if (holder->is_live)
		return 0;
	holder->backend = isolate_backends[0];
	holder->handle = (struct cell_handle){.layer_fd = -1, .storage_fd = -1, .notice_fd = -1};
	r = open_net(holder, err);
	if (r == 0)
		r = prepare(holder, err);
	if (r == 0) {
		notices_init(&holder->notices, &holder->handle, holder_handle_notice, holder);
		holder->notices.spec = holder->spec;
		netctl_attach(&holder->net, holder->handle.listener_fd, holder->handle.dns_fd);
		holder->counted_ns = clock_monotonic_ns();
		return 0;
	}
	holder->backend->release(holder->cell);
	holder->cell = NULL;
	env_free(holder->env);
	holder->env = NULL;
	close_net(holder);
	return r;
}

static bool is_out_of_memory(const struct holder *holder, struct init_message *ret)
{
	struct cell_usage usage;

	holder->backend->account(holder->cell, &usage);
	if (!usage.is_out_of_memory)
		return false;
	*ret = (struct init_message){.type = INIT_LIMIT,
				     .limit = "memory",
				     .limit_value = holder->spec->limits[SPEC_MEMORY].value,
				     .limit_used = usage.memory_peak};
	return true;
}

/* Copy the host's files that the layer changes, for a later merge. Skipped if another process has
 * locked the record. */
static void keep_base(const struct holder *holder)
{
	struct layer_record *record = holder->record;
	const bool was_locked = record->lock_fd >= 0;
	struct atoll_error err;
	uint64_t before;

	if (holder->is_removed || holder->spec->workspace_mode != SPEC_WORKSPACE_LAYER ||
	    layer_record_lock(record, false, &err) < 0)
		return;
	before = record->info.bytes;
	if (layer_keep_base(record, &err) == 0 && record->info.bytes != before)
		layer_record_save_soon(record, &err);
	if (!was_locked)
		sandbox_unlock_record(record);
}

void holder_close_cell(struct holder *holder, const struct init_message *limit)
{
	struct init_message memory;

	if (!holder->is_live)
		return;
	holder->is_live = holder->is_stopped = false;
	holder->backend->stop(holder->cell, &holder->handle);
	while (syscall(SYS_waitid, P_PIDFD, holder->handle.pid_fd, NULL, WEXITED, NULL) < 0 &&
	       errno == EINTR)
		;
	holder_read_messages(holder);
	notices_finish(&holder->notices);
	netctl_stop(&holder->net);
	if (!limit && holder->limit.type == INIT_LIMIT)
		limit = &holder->limit;
	if (!limit && is_out_of_memory(holder, &memory))
		limit = &memory;
	/* Before holder_lose_steps(): a step that has just ended makes its checkpoint there. */
	holder_root_end(holder);
	holder_lose_steps(holder, limit);
	holder->limit = (struct init_message){0};
	keep_base(holder);
	close(holder->handle.pid_fd);
	close(holder->handle.control_fd);
	if (holder->handle.notice_fd >= 0)
		close(holder->handle.notice_fd);
	holder->handle.notice_fd = -1;
	holder_eventlog_drop_plan(holder);
	holder->backend->release(holder->cell);
	holder->cell = NULL;
	env_free(holder->env);
	holder->env = NULL;
	close_net(holder);
	free_layers(&holder->layer);
}

void holder_check_counters(struct holder *holder, bool is_now)
{
	const struct spec_limit *limits = holder->spec->limits;
	const int64_t now_ns = clock_monotonic_ns();
	struct init_message message;
	struct cell_usage usage;

	if (!holder->is_live || (!is_now && now_ns - holder->counted_ns < COUNT_NS))
		return;
	holder->counted_ns = now_ns;
	holder->backend->account(holder->cell, &usage);
	if (is_out_of_memory(holder, &message)) {
		holder_close_cell(holder, &message);
	} else if (usage.cpu_ms > limits[SPEC_CPU_TIME].value) {
		message = (struct init_message){.type = INIT_LIMIT,
						.limit = "cpu",
						.limit_value = limits[SPEC_CPU_TIME].value,
						.limit_used = usage.cpu_ms};
		holder_close_cell(holder, &message);
	}
}

/* ---- pid 1 ---- */

void holder_send_order(struct holder *holder, enum init_order_type type, uint32_t step, int number)
{
	const struct init_order order = {.type = type, .step = step, .signal = number};

	if (holder->is_live)
		send(holder->handle.control_fd, &order, sizeof order, MSG_NOSIGNAL);
	if (type == INIT_THAW) {
		holder->is_stopped = false;
		detached_go_all(holder);
	}
}

void holder_handle_notice(void *data, const struct parsed_notice *notice)
{
	struct init_message message = {.type = INIT_DENIAL, .step = notice->notice->step};
	struct holder *holder = data;

	eventlog_notice(holder->eventlog, notice);
	if (notice->notice->type != NOTICE_DENIAL)
		return;
	notices_fill_denial(notice, &message.denial);
	holder_spread_denial(holder, &message);
}

bool holder_read_messages(struct holder *holder)
{
	struct init_message message;
	ssize_t got;

	do {
		int fds[INIT_SOCKETS_MAX];
		size_t n = INIT_SOCKETS_MAX;

		got = fd_receive(holder->handle.control_fd, &message, sizeof message, MSG_DONTWAIT,
				 fds, &n);
		if (got <= 0)
			break;
		if (message.type == INIT_LISTENER && n == 1) {
			holder->backend->keep_listener(holder->cell, fds[0]);
			continue;
		}
		if (message.type == INIT_SOCKETS && n == (size_t)message.code)
			netctl_receive_sockets(&holder->net, fds, n);
		/* Notices that pid 1 sent before the step's end belong to the step. */
		if (message.type == INIT_ENDED)
			notices_read_all(&holder->notices);
		if (got == sizeof message && message.type == INIT_DONE) {
			holder->is_done = true;
			holder->done_code = message.code;
			/* The template process may have ended: forget its listener. */
			holder->backend->keep_listener(holder->cell, -1);
		} else if (got == sizeof message) {
			holder_handle_message(holder, &message, n == 1 ? fds[0] : -1);
		}
		for (size_t i = 0; i < n; i++)
			close(fds[i]);
	} while (got > 0);
	return got == -EAGAIN;
}

int holder_ask_init(struct holder *holder, enum init_order_type type, struct atoll_error *err)
{
	const int64_t until_ns = clock_monotonic_ns() + DONE_MS * INT64_C(1000000);
	bool is_there = true;

	holder->is_done = false;
	holder->is_stopped |= type == INIT_FREEZE;
	holder_send_order(holder, type, 0, 0);
	while (!holder->is_done && is_there && clock_monotonic_ns() < until_ns) {
		struct pollfd fds[] = {{.fd = holder->handle.control_fd, .events = POLLIN},
				       {.fd = holder->handle.pid_fd, .events = POLLIN}};

		if (poll(fds, ARRAY_SIZE(fds), 100) < 0 && errno != EINTR)
			break;
		is_there = holder_read_messages(holder) && !fds[1].revents;
	}
	/* pid 1 did not stop all processes, and has let them go on. */
	if (type == INIT_FREEZE && (!holder->is_done || holder->done_code < 0)) {
		holder->is_stopped = false;
		detached_go_all(holder);
	}
	if (holder->is_done)
		return holder->done_code;
	return error_set(err, ATOLL_FAULT_HOST, is_there ? ETIMEDOUT : ESRCH,
			 "pid 1 of the sandbox does not answer");
}
