/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/scope.h"
#include "eventlog/eventlog.h"
#include "eventlog/notices.h"
#include "eventlog/watching.h"
#include "init/init.h"
#include "isolate/isolate.h"
#include "layer/layer.h"
#include "netctl/netctl.h"
#include "sandbox/holder.h"

#include <time.h>
#include <unistd.h>

/*
 * The holder, for its files
 *
 *   holder.c        the process: its start, its loop, its end
 *   holder-cell.c   the cell and its network
 *   holder-client.c who connects, and what he asks for
 *   holder-step.c   one client's step: its beginning, what is told of it, its end
 *   holder-words.c  what a step executes
 *   holder-record.c what is written down of it
 *   holder-work.c   checkpoints and going back, live
 *   holder-root.c   what is written beside the workspace, kept
 *   holder-kept.c   steps that depend on nobody: their beginning, finding them again
 *   holder-ended.c  what is heard of them, and their end
 *   holder-keep.c   how long they are known
 *   holder-output.c what they print; holder-input.c  what they are given to read
 *   holder-tell.c   who is told of them
 *   holder-life.c   the whole of it: frozen, counted
 */

#define HOLD_CLIENTS_MAX  192
#define HOLD_STEPS_MAX	  160 /* kept ones: whoever has something else to say finds a place, too */
#define HOLD_DRAINS_MAX	  256
#define HOLD_WATCHERS_MAX 512

/* What is written into a step's file of results. */
struct hold_result {
	struct cell_usage usage;
	struct atoll_error checkpoint; /* why there is none after this step; "" mostly */
	uint32_t n_published;
	struct atoll_published published[ATOLL_PUBLISHED_MAX];
	char network_note[192];
	uint32_t n_connections;
	struct atoll_connection connections[ATOLL_CONNECTIONS_MAX];
};

/* Who is told of a step. */
struct hold_watcher {
	struct hold_watcher *next;
	int fd; /* -1: gone, and freed soon */
	bool knows_step, knows_input, knows_end;
	bool knows_file[HOLD_STREAMS];
	uint64_t told[HOLD_STREAMS]; /* bytes of a small stream */
	uint64_t need[HOLD_STREAMS]; /* UINT64_MAX: none */
	bool is_behind;		     /* there is more to tell */
	bool is_full;		     /* and his socket takes no more now */
};

struct hold_stream {
	int from; /* -1: at its end */
	int file; /* -1: it is small */
	uint64_t size, first;
	char *small;	 /* HOLD_SMALL bytes, or NULL */
	uint64_t need;	 /* of all who watch; UINT64_MAX: none */
	uint64_t left;	 /* of one who was killed */
	bool is_waiting; /* nothing is read now, because somebody needs what there is */
};

struct hold_kept {
	struct hold_kept *next;	    /* in order of their numbers */
	struct hold_client *client; /* NULL: it has ended */
	uint32_t number;
	int32_t pid;
	enum atoll_step_state state;
	int64_t start_ns, end_ns;  /* since 1970 */
	int64_t begin_ns, over_ns; /* of the monotonic clock */
	int64_t deadline_ns;	   /* INT64_MAX: none */
	int64_t left_until_ns;	   /* so long `left` counts */
	uint64_t timeout_ms;
	char key[ATOLL_STEP_KEY];
	char label[ATOLL_STEP_LABEL];
	char user[32];
	char *words; /* as they were given */
	size_t words_size;
	bool has_stdin, has_terminal, has_channel;
	uint16_t columns, rows;
	bool is_forced; /* it was told to end: what others hold open is not waited for */
	bool is_timed_out, is_over_output;
	bool waits_to_go; /* its terminal is ready, and everything stands still */
	bool has_news;
	bool was_heard;	  /* its end, by somebody */
	int64_t tell_ns;  /* when they are told at the latest */
	int input_fd;	  /* -1: closed, or none */
	struct buf input; /* that is taken, and from `input_at` on not written yet */
	size_t input_at;
	uint64_t input_taken, input_written; /* in all */
	bool closes_input;		     /* when all is written; and it is closed */
	struct hold_stream streams[HOLD_STREAMS];
	struct eventlog_output output;
	struct hold_end *end;  /* once it has ended, and its denials behind it */
	struct hold_end *room; /* for that, until then */
	struct atoll_denial *denials;
	uint32_t n_denials, n_kept_denials;
	struct hold_watcher *watchers;
};

struct hold_client {
	bool is_used;
	struct hold_kept *kept; /* a step that depends on nobody; then `fd` is -1 */
	int fd;			/* -1: the caller is gone */
	uint32_t step;		/* 0: nothing was asked yet */
	int result_fd, life_fd;
	int drains[2];
	int64_t kill_ns; /* what is left of the step is killed then; INT64_MAX */
	uint64_t cpu_ms; /* used before it */
	bool has_end;	 /* it has ended, as `end` tells, and nobody knows yet */
	bool is_over;	 /* it is known */
	bool is_ending;	 /* it is about to be: what happens to the cell meanwhile is not its end */
	bool is_remover; /* he has asked for the end, and removes what is left */
	bool is_cut;	 /* by a rollback: what it did is gone */
	struct init_message end;
	bool is_recorded; /* its start is, and its end not yet */
	int64_t start_ns;
	char command[512];
};

struct hold_moment {
	struct timespec time;
	int64_t offset_ns;
};

struct holder {
	struct layer_record *record;
	struct atoll_job *job;
	const struct spec *spec;
	int held_fd, listen_fd, signal_fd;
	bool is_ending;
	bool is_removed; /* with all that there is of it, when this process is gone */
	int64_t born_ns;
	int64_t idle_ns; /* since when no step runs */
	int64_t idle_max_ns;
	int64_t worked_ns; /* when a step ran last */
	int64_t rest_ns;   /* so long after that it is kept ready for the next */
	bool is_resting;   /* since then it was found that nothing has to be ready */

	/* The cell, while there is one. */
	bool is_live;
	/* Which limit it has reached, and ends of; if its type is INIT_LIMIT. */
	struct init_message limit;
	const struct backend *backend;
	struct cell *cell;
	struct cell_handle handle;
	struct notices notices;
	struct cell_layer layer;
	char **env; /* which nobody gets */
	struct netctl net;
	struct atoll_run_options net_options;
	struct atoll_result *net_result;
	int64_t counted_ns;
	int32_t done_code; /* of the latest INIT_DONE */
	bool is_done;
	/* What it was built on beside the workspace; and what held what was there at a moment. */
	struct layer_roots root_below, root_known;
	struct hold_moment root_since;
	bool drops_root; /* what it has written there is not to be kept at its end */

	struct eventlog *recorder; /* NULL until the first step, or always */
	struct watching *watch;	   /* likewise */
	bool is_stuck;		   /* it cannot be written: everything inside stands still */
	int64_t stuck_ns;	   /* since when */
	struct plan plan;	   /* of the cell, once a step was told of */
	bool has_plan;
	uint64_t *told; /* changes that were told, as sorted hashes */
	size_t n_told;
	bool is_told;	  /* all that the sealed layers hold is among them */
	bool is_told_old; /* the layers are others, and what they hold counts as told */

	uint32_t n_steps;	       /* so far */
	uint32_t n_before, n_reserved; /* by earlier holders; see holder-keep.c */
	char (*past)[ATOLL_STEP_KEY];  /* keys of steps that those began, once somebody asks */
	size_t n_past, n_keys;
	bool knows_past;
	struct hold_kept *kept;	 /* that live, or of which somebody is to be told */
	struct hold_kept *ended; /* the others, in the order of their ends */
	struct hold_kept **last_ended;
	size_t n_kept, n_ended, n_watchers;
	size_t n_files; /* streams that lie in memory of their own */
	uint64_t ended_bytes;
	int64_t note_ns; /* when the latest step is noted; INT64_MAX: it is */
	int32_t noted_status;
	char noted[512];
	bool is_frozen; /* by order */
	bool is_held;	/* the first process was asked to stop everything, for whatever reason */
	int64_t frozen_ns;
	bool stays; /* however long there is nothing to do */
	struct hold_client clients[HOLD_CLIENTS_MAX];
	size_t n_places; /* of these that may be in use */
	int drains[HOLD_DRAINS_MAX];
	size_t n_drains;
};

static inline void hold_close_fd(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

/* ---- holder-network.c ---- */

/* Other rules, from a descriptor with their text. */
int hold_set_network(struct holder *holder, int fd, struct atoll_error *err);
/* Those that an earlier holder was told. */
int hold_load_network(struct holder *holder, struct atoll_error *err);

/* ---- holder-record.c ---- */

int hold_record_open(struct holder *holder, struct atoll_error *err);
/* The same, and that there is a sandbox is written by then. */
int hold_record_begin(struct holder *holder, struct atoll_error *err);
/* `client->step` is known; `words_fd` is as the first process gets it. */
int hold_record_start(struct holder *holder, struct hold_client *client, int words_fd,
		      struct atoll_error *err);
/* It was not executed: if its beginning was told, or will be when there is room, so is that. */
void hold_record_refused(struct holder *holder, struct hold_client *client,
			 const struct atoll_error *why);
/* The cell is gone, or its contract another. */
void hold_record_forget(struct holder *holder);
void hold_record_connection(void *data, const struct atoll_connection *connection);
void hold_record_report(struct holder *holder, struct hold_client *client,
			const struct hold_report *report);
/* The holder knows all of it itself. */
void hold_record_kept(struct holder *holder, struct hold_client *client,
		      struct atoll_result *result);
/* Its caller is gone without a report. */
void hold_record_end(struct holder *holder, struct hold_client *client);
void hold_record_changes(struct holder *holder, uint32_t step, struct atoll_result *result);
/* Around what may join layers: their files are others then, and what was told of them still is,
 * what was not is not. NULL where nothing can be told. Closed by atoll_changes_close(). */
struct layer_changes;
struct layer_changes *hold_record_before_join(struct holder *holder);
void hold_record_after_join(struct holder *holder, struct layer_changes *before);
int hold_record_note(struct holder *holder, const struct hold_request *request,
		     struct atoll_error *err);
int hold_record_outcome(struct holder *holder, struct eventlog_outcome *outcome,
			struct atoll_error *err);
/* "checkpoint" or "rollback"; what was done is done, whether it can be written down or not. */
void hold_record_turn(struct holder *holder, const char *kind, const char *name, uint64_t ended);
/* After a turn, when it was answered: what it has left is looked at. */
void hold_record_renew(struct holder *holder);
void hold_record_check(struct holder *holder);
void hold_record_close(struct holder *holder);

/* ---- holder.c, spawner.c ---- */

/* The process itself; `status_fd` is where it tells whether it listens, and if it is to stay:
 * whether its cell is there. hold_leave_caller() has been called, and keyring_share(), perhaps in a
 * parent. */
_Noreturn void hold_main(const char *id, bool stays, int status_fd);
/* Nothing of the caller's streams, and nothing that is sent to it or its terminal. */
void hold_leave_caller(void);
bool hold_nursery_start(const char *id, bool stays, int status_fd);

/* ---- holder-cell.c ---- */

/* Build it, unless it is there. The record is not locked. */
int hold_open_cell(struct holder *holder, struct atoll_error *err);
/* End everything inside, and tell whoever waits for a step that it is gone; `limit`, if not NULL,
 * is why. Takes one that is not there. */
void hold_close_cell(struct holder *holder, const struct init_message *limit);
/* What the record's layers are now. */
int hold_find_layers(struct holder *holder, struct atoll_error *err);
/* A notice of the first process's: a refusal goes to whose step it was. */
void hold_take_notice(void *holder, const struct notices_told *told);
/* Everything that the first process has said; false once it is gone. */
bool hold_take_messages(struct holder *holder);
/* A limit that only counters tell: looked at now and then, or `is_now`. */
void hold_check_counters(struct holder *holder, bool is_now);
void hold_order(struct holder *holder, enum init_order_type type, uint32_t step, int number);
/* Ask the first process, and wait for INIT_DONE: its code. */
int hold_ask_init(struct holder *holder, enum init_order_type type, struct atoll_error *err);

/* ---- holder-client.c ---- */

void hold_accept(struct holder *holder);
/* A request, an order, or its end. */
void hold_serve_client(struct holder *holder, struct hold_client *client);
/* What a caller that is gone has left running, after its grace. */
void hold_end_orphans(struct holder *holder);
/* Read what nobody reads any more. */
void hold_drain(struct holder *holder, size_t i);
/* Forget a connection, or a step that is over. */
void hold_forget(struct holder *holder, struct hold_client *client);
struct hold_client *hold_free_client(struct holder *holder);

/* ---- holder-step.c ---- */

/* HOLD_EXEC; of the descriptors those that it keeps become -1. */
int hold_exec_step(struct holder *holder, struct hold_client *client,
		   const struct hold_request *request, int *fds, size_t n, struct atoll_error *err);
/* From the first process; `fd` is a terminal's or -1, and stays the caller's. */
void hold_take_message(struct holder *holder, const struct init_message *message, int fd);
/* Tell of the steps that have ended. */
void hold_finish_steps(struct holder *holder);
/* The cell is gone. */
void hold_lose_steps(struct holder *holder, const struct init_message *limit);
/* Which step was the latest: when it is time, or at once. */
void hold_note_step(struct holder *holder, bool is_now);
size_t hold_running(const struct holder *holder);
/* To all whose step runs. */
void hold_spread_denial(struct holder *holder, const struct init_message *message);

/* ---- holder-kept.c ---- */

/* A request that was read whole: struct hold_start and its words. The connection becomes a
 * watcher's. */
void hold_kept_start(struct holder *holder, struct hold_client *client, const char *data,
		     size_t size, int *fds, size_t n);
int hold_kept_attach(struct holder *holder, struct hold_client *client, uint32_t number,
		     struct atoll_error *err);
void hold_kept_list(struct holder *holder, int fd);

/* ---- holder-ended.c ---- */

/* From the first process. */
void hold_kept_take_message(struct holder *holder, struct hold_client *client,
			    const struct init_message *message, int fd);
/* Everything goes on: so do those whose terminal was ready meanwhile. */
void hold_kept_let_go(struct holder *holder);
void hold_kept_add_denial(struct hold_kept *kept, const struct atoll_denial *denial);
/* It has ended, as client->end tells: is it over, or does its output go on? */
bool hold_kept_is_drained(struct hold_kept *kept);
void hold_kept_finish(struct holder *holder, struct hold_client *client);
/* Its cell is gone; `limit` NULL: nobody knows why. */
void hold_kept_lose(struct holder *holder, struct hold_client *client,
		    const struct init_message *limit);
void hold_kept_kill(struct holder *holder, struct hold_client *client);

/* ---- holder-keep.c ---- */

/* The next number; not used twice in the life of a sandbox. */
uint32_t hold_number(struct holder *holder);

/* Before a step with a key is begun: written down, so that whoever holds the sandbox after us,
 * should we be killed, begins it not once more. `*ret` is for hold_key_forget(), if it is not begun
 * after all. */
int hold_key_note(struct holder *holder, const char *key, size_t *ret, struct atoll_error *err);
void hold_key_forget(const struct holder *holder, size_t slot);
struct hold_kept *hold_kept_find(struct holder *holder, uint32_t number, const char *key);
/* One that has ended gets a watcher. */
void hold_kept_recall(struct holder *holder, struct hold_kept *kept);
/* Time-outs. */
void hold_kept_check(struct holder *holder);
/* The next time at which one of these functions has something to do. */
int64_t hold_kept_deadline_ns(const struct holder *holder);
/* Put what has ended aside, and free what nobody needs. Nothing of a kept step is freed
 * elsewhere. */
void hold_kept_sweep(struct holder *holder);
void hold_kept_shift(struct holder *holder, int64_t by_ns);

/* ---- holder-output.c ---- */

/* Pipes for those of `stdio` that are -1: it gets the command's ends, which are the caller's to
 * close. */
int hold_output_open(struct hold_kept *kept, int stdio[3], struct atoll_error *err);
bool hold_stream_wants(const struct hold_stream *stream);
/* Read what there is. */
void hold_output_move(struct holder *holder, struct hold_kept *kept, int stream);
/* All that is there now, without waiting; and no more. */
void hold_output_finish(struct holder *holder, struct hold_kept *kept);
/* Who watches needs something else, or nothing. */
void hold_output_needs(struct hold_kept *kept);
void hold_output_free(struct holder *holder, struct hold_kept *kept);

/* ---- holder-input.c ---- */

/* Bytes from this offset on; what is known of them already is not taken twice. */
void hold_input_take(struct hold_kept *kept, uint64_t at, const char *data, size_t size);
/* No more comes. */
void hold_input_end(struct hold_kept *kept);
bool hold_input_waits(const struct hold_kept *kept);
/* Write what waits. */
void hold_input_move(struct hold_kept *kept);
void hold_input_drop(struct hold_kept *kept);

/* ---- holder-tell.c ---- */

int hold_watch_step(struct holder *holder, struct hold_kept *kept, int fd, struct atoll_error *err);
void hold_fill_told(const struct hold_kept *kept, struct hold_told *ret);
/* Whoever does not know it yet. */
void hold_tell_all(struct holder *holder);
/* What a watcher says, or his end; or his socket takes more. */
void hold_serve_watcher(struct holder *holder, struct hold_kept *kept, struct hold_watcher *watcher,
			bool can_send);
bool hold_watcher_is_last(const struct hold_kept *kept);

/* ---- holder-life.c ---- */

/* Everything inside stands still when it is 0, until an order INIT_THAW. */
int hold_stop_inside(struct holder *holder, struct atoll_error *err);
int hold_freeze(struct holder *holder, struct atoll_error *err);
int hold_thaw(struct holder *holder, struct atoll_error *err);
/* One that rests is made ready for the next step. */
void hold_wake(struct holder *holder);
/* HOLD_STAY. */
int hold_stay(struct holder *holder, struct atoll_error *err);
/* Questions wait until somebody comes for them, or a minute. */
enum atoll_answer_type hold_ask_later(const struct atoll_question *question, void *data);
/* How many; `ret` has room for NETCTL_QUESTIONS_MAX. */
size_t hold_questions(const struct holder *holder, struct atoll_pending *ret);
int hold_answer(struct holder *holder, const struct hold_request *request, struct atoll_error *err);
void hold_count(struct holder *holder, struct atoll_sandbox_usage *ret);

/* ---- holder-words.c ---- */

/* What a step executes: a copy that nobody else has, with the placeholders that were made for this
 * cell. */
int hold_take_words(const struct holder *holder, int fd, struct atoll_error *err);
/* The same from what somebody has asked for in a few words: the rest is the contract's. `words` is
 * a checked struct init_step_head and its texts. */
int hold_make_words(const struct holder *holder, struct hold_kept *kept, const char *words,
		    struct atoll_error *err);
/* Are all texts there that it says? */
bool hold_check_words(const char *words, size_t size);

/* ---- holder-watch.c ---- */

int hold_watch_open(struct holder *holder, struct atoll_error *err);
/* What rules and monitor have said, and what follows. */
void hold_watch_check(struct holder *holder);
void hold_watch_close(struct holder *holder);

/* ---- holder-root.c ---- */

bool hold_root_is_kept(const struct holder *holder);
/* The cell has just been built, on `root_below`. */
void hold_root_begin(struct holder *holder);
/* Is what is there what the record says? */
bool hold_root_stands(const struct holder *holder);
/* Copy it, if it is not known, and let the record say so; that is locked and not saved. Nothing may
 * run, or everything stands still. */
int hold_keep_root(struct holder *holder, bool is_at_rest, struct atoll_error *err);
/* The same as the cell ends. */
void hold_root_end(struct holder *holder);
/* Keep it and end the cell; or neither. */
int hold_save(struct holder *holder, struct atoll_error *err);

/* ---- holder-work.c ---- */

struct steps_note;
/* The record gets locked meanwhile. */
int hold_checkpoint(struct holder *holder, const char *name, const struct steps_note *note,
		    char ret_name[64], struct atoll_error *err);
int hold_rollback(struct holder *holder, const char *name, uint64_t *ret_ended,
		  struct atoll_error *err);
/* An apply in another terminal may have the record for as long as a person reads, and whoever holds
 * the sandbox takes his time for his own work on it, such as a checkpoint. */
#define HOLD_PATIENCE_MS 10000
/* For whoever asks again and again: it may take a while until another command is done with it. */
int hold_lock(struct layer_record *record, int patience_ms, struct atoll_error *err);
void hold_unlock(struct layer_record *record);
