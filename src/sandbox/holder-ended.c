/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "sandbox/holder-inner.h"
#include "spec/spec.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

/*
 * Steps that depend on nobody: what is heard of them, and their end
 *
 * One is over when its command has been reaped and its output is at its end: what a background
 * process holds open is waited for, unless it was told to end.
 */

/* ---- what the first process says ---- */

static void take_terminal(struct holder *holder, struct hold_client *client, int fd)
{
	struct hold_kept *kept = client->kept;
	const struct winsize size = {.ws_row = kept->rows ? kept->rows : 24,
				     .ws_col = kept->columns ? kept->columns : 80};

	if (fd < 0 || !kept->has_terminal || kept->input_fd >= 0)
		return;
	ioctl(fd, TIOCSWINSZ, &size);
	fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	kept->input_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	kept->streams[0].from = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	/* An order that everything stops is on its way, or done: it would run all the same. */
	kept->waits_to_go = holder->is_held;
	if (!kept->waits_to_go)
		hold_order(holder, INIT_GO, client->step, 0);
}

void hold_kept_let_go(struct holder *holder)
{
	for (struct hold_kept *kept = holder->kept; kept; kept = kept->next) {
		if (kept->waits_to_go && kept->client)
			hold_order(holder, INIT_GO, kept->client->step, 0);
		kept->waits_to_go = false;
	}
}

void hold_kept_take_message(struct holder *holder, struct hold_client *client,
			    const struct init_message *message, int fd)
{
	struct hold_kept *kept = client->kept;

	switch (message->type) {
	case INIT_STARTED:
		kept->pid = message->code;
		kept->state = ATOLL_STEP_RUNNING;
		kept->has_news = true;
		break;
	case INIT_TERMINAL:
		take_terminal(holder, client, fd);
		break;
	default:
		break;
	}
}

/* A program that insists is one line with a count. */
void hold_kept_add_denial(struct hold_kept *kept, const struct atoll_denial *denial)
{
	struct atoll_denial *more;

	for (uint32_t i = kept->n_kept_denials; i > 0; i--) {
		struct atoll_denial *at = &kept->denials[i - 1];

		if (streq(at->path, denial->path) && streq(at->action, denial->action) &&
		    streq(at->rule, denial->rule)) {
			at->count += denial->count;
			return;
		}
	}
	kept->n_denials++;
	if (kept->n_kept_denials == HOLD_DENIALS_MAX)
		return;
	more = realloc(kept->denials, (kept->n_kept_denials + 1) * sizeof *more);
	if (!more)
		return;
	more[kept->n_kept_denials++] = *denial;
	kept->denials = more;
}

/* ---- its end ---- */

void hold_kept_kill(struct holder *holder, struct hold_client *client)
{
	client->kept->is_forced = true;
	if (client->has_end)
		return;
	hold_order(holder, INIT_SIGNAL_ALL, client->step, SIGKILL);
	client->kill_ns = clock_monotonic_ns() + INT64_C(1000000000); /* and again */
}

bool hold_kept_is_drained(struct hold_kept *kept)
{
	if (kept->is_forced || kept->client->end.type == INIT_FAILED || kept->client->is_cut)
		return true;
	for (int i = 0; i < HOLD_STREAMS; i++) {
		/* Of a terminal everybody's end is that of its session, which has just come. */
		if (kept->streams[i].from >= 0 && !kept->has_terminal)
			return false;
	}
	return true;
}

static void take_limit(struct hold_end *end, enum atoll_end kind, const char *limit, uint64_t value,
		       uint64_t used)
{
	end->end = kind;
	snprintf(end->limit, sizeof end->limit, "%s", limit);
	end->limit_value = value;
	end->limit_used = used;
}

static void take_status(const struct holder *holder, const struct init_message *message,
			struct hold_end *end)
{
	const int status = message->wait_status;
	const uint64_t disk = holder->spec->limits[SPEC_DISK].value;

	end->end = WIFSIGNALED(status) ? ATOLL_SIGNALED : ATOLL_EXITED;
	end->code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
	end->cpu_ns = message->cpu_us * 1000;
	end->peak_memory = message->peak_kib * 1024;
	/* The kernel's way of saying that one file has reached the limit for all. */
	if (end->end == ATOLL_SIGNALED && end->code == SIGXFSZ && disk != SPEC_UNLIMITED) {
		take_limit(end, ATOLL_OVER_LIMIT, "disk", disk, disk);
		snprintf(end->limit_note, sizeof end->limit_note, "by one file");
	}
}

/* How it ended: by what the first process says, unless we have ended it. */
static void take_end(const struct holder *holder, const struct hold_client *client,
		     const struct init_message *message, struct hold_end *end)
{
	const struct hold_kept *kept = client->kept;

	switch (message ? message->type : UINT32_MAX) {
	case INIT_FAILED:
		end->end = ATOLL_NOT_STARTED;
		end->code = message->code;
		end->error = message->error;
		end->error.text[sizeof end->error.text - 1] = '\0';
		return;
	case INIT_ENDED:
		take_status(holder, message, end);
		break;
	case INIT_LIMIT:
		take_limit(end,
			   streq(message->limit, "memory")	   ? ATOLL_OUT_OF_MEMORY
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
	if (kept->is_over_output)
		take_limit(end, ATOLL_OVER_LIMIT, "output", holder->spec->limits[SPEC_OUTPUT].value,
			   end->output_bytes);
	else if (kept->is_timed_out)
		take_limit(end, ATOLL_TIMED_OUT, "wall", kept->timeout_ms, end->wall_ns / 1000000);
}

static void fill_usage(const struct holder *holder, struct hold_end *end)
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

/* For the record, in the form that it takes. */
static void write_down(struct holder *holder, struct hold_client *client,
		       const struct hold_end *end)
{
	struct atoll_result *result;

	if (!client->is_recorded)
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
	hold_record_kept(holder, client, result);
	free(result);
}

/* Room for it was made in the beginning: that it ended is told whatever happens. */
static struct hold_end *make_end(struct hold_kept *kept)
{
	const size_t denials = kept->n_kept_denials * sizeof(struct atoll_denial);
	struct hold_end *end = kept->room, *more;

	kept->room = NULL;
	end->n_denials = kept->n_denials;
	more = denials ? realloc(end, sizeof *end + denials) : NULL;
	if (more) {
		memcpy(more + 1, kept->denials, denials);
		more->n_told = kept->n_kept_denials;
		end = more;
	}
	free(kept->denials);
	kept->denials = NULL;
	kept->n_kept_denials = 0;
	return end;
}

/* `message` NULL: nobody knows how. */
static void close_step(struct holder *holder, struct hold_client *client,
		       const struct init_message *message, enum atoll_step_state state)
{
	struct hold_kept *kept = client->kept;
	struct hold_end *end;

	hold_output_finish(holder, kept);
	end = kept->end = make_end(kept);
	kept->over_ns = clock_monotonic_ns();
	kept->end_ns = (int64_t)clock_real_ns();
	end->wall_ns = (uint64_t)(kept->over_ns - kept->begin_ns);
	end->output_bytes = kept->streams[0].size + kept->streams[1].size;
	take_end(holder, client, message, end);
	fill_usage(holder, end);
	if (holder->net_result)
		memcpy(end->network_note, holder->net_result->network_note,
		       sizeof end->network_note);
	snprintf(end->run, sizeof end->run, "%s", eventlog_id(holder->recorder));
	write_down(holder, client, end);
	kept->state = state;
	kept->has_news = true;
	kept->client = NULL;
	client->kept = NULL;
	hold_forget(holder, client);
}

void hold_kept_finish(struct holder *holder, struct hold_client *client)
{
	close_step(holder, client, &client->end,
		   client->is_cut ? ATOLL_STEP_LOST : ATOLL_STEP_ENDED);
}

void hold_kept_lose(struct holder *holder, struct hold_client *client,
		    const struct init_message *limit)
{
	close_step(holder, client, limit, limit ? ATOLL_STEP_ENDED : ATOLL_STEP_LOST);
}
