/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-detached-end.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/holder-cell.h"
#include "sandbox/holder-client.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-eventlog.h"
#include "sandbox/holder-output.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

/*
 * Detached steps: messages of pid 1, and the end
 *
 * holder-attached.c calls these for steps that have a struct detached_step. A step is over when pid
 * 1 has reaped its command and its output is at its end. Output that a background process has open
 * is waited for, unless the step was killed. close_step() then stores the end, logs it, and lets
 * the watchers get it.
 */

/* ---- messages of pid 1 ---- */

static void open_terminal(struct holder *holder, struct holder_client *client, int fd)
{
	struct detached_step *step = client->detached;
	const struct winsize size = {.ws_row = step->rows ? step->rows : 24,
				     .ws_col = step->columns ? step->columns : 80};

	if (fd < 0 || !step->has_terminal || step->input_fd >= 0)
		return;
	ioctl(fd, TIOCSWINSZ, &size);
	fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	step->input_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	step->streams[0].from = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	/* pid 1 was ordered to stop all processes: a step that starts now would run. Send INIT_GO
	 * after the thaw. */
	step->is_go_pending = holder->is_stopped;
	if (!step->is_go_pending)
		holder_send_order(holder, INIT_GO, client->step_id, 0);
}

void detached_go_all(struct holder *holder)
{
	for (struct detached_step *step = holder->detached; step; step = step->next) {
		if (step->is_go_pending && step->client)
			holder_send_order(holder, INIT_GO, step->client->step_id, 0);
		step->is_go_pending = false;
	}
}

void detached_handle_message(struct holder *holder, struct holder_client *client,
			     const struct init_message *message, int fd)
{
	struct detached_step *step = client->detached;

	switch (message->type) {
	case INIT_STARTED:
		step->pid = message->code;
		step->state = ATOLL_STEP_RUNNING;
		step->has_changed = true;
		break;
	case INIT_TERMINAL:
		open_terminal(holder, client, fd);
		break;
	default:
		break;
	}
}

/* The same denial again raises the count of its entry. */
void detached_add_denial(struct detached_step *step, const struct atoll_denial *denial)
{
	struct atoll_denial *more;

	for (uint32_t i = step->n_stored_denials; i > 0; i--) {
		struct atoll_denial *at = &step->denials[i - 1];

		if (streq(at->path, denial->path) && streq(at->action, denial->action) &&
		    streq(at->rule, denial->rule)) {
			at->count += denial->count;
			return;
		}
	}
	step->n_denials++;
	if (step->n_stored_denials == STEP_DENIALS_MAX)
		return;
	more = realloc(step->denials, (step->n_stored_denials + 1) * sizeof *more);
	if (!more)
		return;
	more[step->n_stored_denials++] = *denial;
	step->denials = more;
}

/* ---- end ---- */

void detached_kill(struct holder *holder, struct holder_client *client)
{
	client->detached->is_forced = true;
	if (client->state == CLIENT_ENDED)
		return;
	holder_send_order(holder, INIT_SIGNAL_ALL, client->step_id, SIGKILL);
	client->kill_ns = clock_monotonic_ns() + INT64_C(1000000000); /* then SIGKILL again */
}

bool detached_is_drained(struct detached_step *step)
{
	if (step->is_forced || step->client->end.type == INIT_FAILED || step->client->is_cut)
		return true;
	for (int i = 0; i < STEP_STREAMS; i++) {
		/* A terminal has no readers left to wait for: its session ended with the command.
		 */
		if (step->streams[i].from >= 0 && !step->has_terminal)
			return false;
	}
	return true;
}

static void set_limit(struct step_end *end, enum atoll_end kind, const char *limit, uint64_t value,
		      uint64_t used)
{
	end->end = kind;
	snprintf(end->limit, sizeof end->limit, "%s", limit);
	end->limit_value = value;
	end->limit_used = used;
}

static void set_status(const struct holder *holder, const struct init_message *message,
		       struct step_end *end)
{
	const int status = message->wait_status;
	const uint64_t disk = holder->spec->limits[SPEC_DISK].value;

	end->end = WIFSIGNALED(status) ? ATOLL_SIGNALED : ATOLL_EXITED;
	end->code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	end->cpu_ns = message->cpu_us * 1000;
	end->peak_memory = message->peak_kib * 1024;
	/* SIGXFSZ: one file alone has reached the limit for all files. */
	if (end->end == ATOLL_SIGNALED && end->code == SIGXFSZ && disk != SPEC_UNLIMITED) {
		set_limit(end, ATOLL_OVER_LIMIT, "disk", disk, disk);
		snprintf(end->limit_note, sizeof end->limit_note, "by one file");
	}
}

/* The end as pid 1 reports it; a time-out or output limit of the holder wins. `message` NULL:
 * unknown. */
static void set_end(const struct holder *holder, const struct holder_client *client,
		    const struct init_message *message, struct step_end *end)
{
	const struct detached_step *step = client->detached;

	switch (message ? message->type : UINT32_MAX) {
	case INIT_FAILED:
		end->end = ATOLL_NOT_STARTED;
		end->code = message->code;
		end->error = message->error;
		end->error.text[sizeof end->error.text - 1] = '\0';
		return;
	case INIT_ENDED:
		set_status(holder, message, end);
		break;
	case INIT_LIMIT:
		set_limit(end,
			  streq(message->limit, "memory")	  ? ATOLL_OUT_OF_MEMORY
			  : streq(message->limit, EVENTLOG_STUCK) ? ATOLL_UNRECORDED
								  : ATOLL_OVER_LIMIT,
			  message->limit, message->limit_value, message->limit_used);
		memcpy(end->limit_note, message->limit_note, sizeof end->limit_note);
		end->limit_note[sizeof end->limit_note - 1] = '\0';
		return;
	default:
		end->end = ATOLL_SIGNALED;
		end->code = SIGKILL;
	}
	if (step->is_over_output)
		set_limit(end, ATOLL_OVER_LIMIT, "output", holder->spec->limits[SPEC_OUTPUT].value,
			  end->output_bytes);
	else if (step->is_timed_out)
		set_limit(end, ATOLL_TIMED_OUT, "wall", step->timeout_ms, end->wall_ns / 1000000);
}

static void fill_usage(const struct holder *holder, struct step_end *end)
{
	const struct spec_limit *limits = holder->spec->limits;

	for (int i = 0; i < ATOLL_RESOURCE_COUNT; i++)
		end->usage[i].limit = ATOLL_UNLIMITED;
	end->usage[ATOLL_WALL] =
		(struct atoll_usage){end->wall_ns / 1000000, limits[SPEC_WALL].value};
	end->usage[ATOLL_CPU] =
		(struct atoll_usage){end->cpu_ns / 1000000, limits[SPEC_CPU_TIME].value};
	end->usage[ATOLL_MEMORY] =
		(struct atoll_usage){end->peak_memory, limits[SPEC_MEMORY].value};
	end->usage[ATOLL_OUTPUT] =
		(struct atoll_usage){end->output_bytes, limits[SPEC_OUTPUT].value};
}

/* The event log expects a struct atoll_result. */
static void write_end_event(struct holder *holder, struct holder_client *client,
			    const struct step_end *end)
{
	struct atoll_result *result;

	if (!client->is_logged)
		return;
	result = calloc(1, sizeof *result);
	if (!result)
		return;
	result->end = (enum atoll_end)end->end;
	result->code = end->code;
	memcpy(result->limit, end->limit, sizeof result->limit);
	memcpy(result->limit_note, end->limit_note, sizeof result->limit_note);
	result->limit_value = end->limit_value;
	result->limit_used = end->limit_used;
	result->wall_ns = end->wall_ns;
	result->cpu_ns = end->cpu_ns;
	result->peak_memory = end->peak_memory;
	result->output_bytes = end->output_bytes;
	memcpy(result->usage, end->usage, sizeof result->usage);
	holder_eventlog_end_detached(holder, client, result);
	free(result);
}

/* The memory was allocated at the start: the end is reported even without memory for the denials.
 */
static struct step_end *make_end(struct detached_step *step)
{
	const size_t denials = step->n_stored_denials * sizeof(struct atoll_denial);
	struct step_end *end = step->room, *more;

	step->room = NULL;
	end->n_denials = step->n_denials;
	more = denials ? realloc(end, sizeof *end + denials) : NULL;
	if (more) {
		memcpy(more + 1, step->denials, denials);
		more->n_reported = step->n_stored_denials;
		end = more;
	}
	free(step->denials);
	step->denials = NULL;
	step->n_stored_denials = 0;
	return end;
}

/* `message` NULL: the reason is unknown. */
static void close_step(struct holder *holder, struct holder_client *client,
		       const struct init_message *message, enum atoll_step_state state)
{
	struct detached_step *step = client->detached;
	struct step_end *end;

	holder_output_finish(holder, step);
	end = step->end = make_end(step);
	step->over_ns = clock_monotonic_ns();
	step->end_ns = (int64_t)clock_real_ns();
	end->wall_ns = (uint64_t)(step->over_ns - step->begin_ns);
	end->output_bytes = step->streams[0].size + step->streams[1].size;
	set_end(holder, client, message, end);
	fill_usage(holder, end);
	if (holder->net_result)
		memcpy(end->network_note, holder->net_result->network_note,
		       sizeof end->network_note);
	snprintf(end->run, sizeof end->run, "%s", eventlog_id(holder->eventlog));
	write_end_event(holder, client, end);
	step->state = state;
	step->has_changed = true;
	step->client = NULL;
	client->detached = NULL;
	holder_free_client(holder, client);
}

void detached_finish(struct holder *holder, struct holder_client *client)
{
	close_step(holder, client, &client->end,
		   client->is_cut ? ATOLL_STEP_LOST : ATOLL_STEP_ENDED);
}

void detached_lose(struct holder *holder, struct holder_client *client,
		   const struct init_message *limit)
{
	close_step(holder, client, limit, limit ? ATOLL_STEP_ENDED : ATOLL_STEP_LOST);
}
