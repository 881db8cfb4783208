/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"
#include "isolate/isolate.h"
#include "job/hold.h"
#include "job/network.h"
#include "job/notices.h"
#include "job/record.h"
#include "job/watching.h"

#include <atoll/layer.h>

/*
 * The holder, for its files
 *
 *   hold.c        the process: its start, its loop, its end
 *   hold-cell.c   the cell and its network
 *   hold-step.c   one client's step: requests, orders, what is told of it
 *   hold-words.c  what a step executes
 *   hold-record.c what is written down of it
 *   hold-work.c   checkpoints and going back, live
 */

#define HOLD_CLIENTS_MAX 128
#define HOLD_DRAINS_MAX	 256

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

struct hold_client {
	bool is_used;
	int fd;	       /* -1: the caller is gone */
	uint32_t step; /* 0: nothing was asked yet */
	int result_fd, life_fd;
	int drains[2];
	int64_t kill_ns; /* what is left of the step is killed then; INT64_MAX */
	uint64_t cpu_ms; /* used before it */
	bool has_end;	 /* it has ended, as `end` tells, and nobody knows yet */
	bool is_over;	 /* it is known */
	bool is_cut;	 /* by a rollback: what it did is gone */
	struct init_message end;
	bool is_recorded; /* its start is, and its end not yet */
	int64_t start_ns;
	char command[512];
};

struct holder {
	struct layer_record *record;
	struct atoll_job *job;
	const struct spec *spec;
	int held_fd, listen_fd, signal_fd;
	bool is_ending;
	int64_t idle_ns; /* since when no step runs */
	int64_t idle_max_ns;

	/* The cell, while there is one. */
	bool is_live;
	const struct backend *backend;
	struct cell *cell;
	struct cell_handle handle;
	struct notices notices;
	struct cell_layer layer;
	char **env; /* which nobody gets */
	struct net net;
	struct atoll_run_options net_options;
	struct atoll_result *net_result;
	int64_t counted_ns;
	int32_t done_code; /* of the latest INIT_DONE */
	bool is_done;

	struct recorder *recorder; /* NULL until the first step, or always */
	struct watching *watch;	   /* likewise */
	bool is_stuck;		   /* it cannot be written: everything inside stands still */
	uint64_t *told;		   /* changes that were told, as sorted hashes */
	size_t n_told;

	uint32_t n_steps; /* so far */
	struct hold_client clients[HOLD_CLIENTS_MAX];
	int drains[HOLD_DRAINS_MAX];
	size_t n_drains;
};

/* ---- hold-record.c ---- */

int hold_record_open(struct holder *holder, struct atoll_error *err);
/* `client->step` is known; `words_fd` is as the first process gets it. */
int hold_record_start(struct holder *holder, struct hold_client *client, int words_fd,
		      struct atoll_error *err);
void hold_record_connection(void *data, const struct atoll_connection *connection);
void hold_record_report(struct holder *holder, struct hold_client *client,
			const struct hold_report *report);
/* Its caller is gone without a report. */
void hold_record_end(struct holder *holder, struct hold_client *client);
void hold_record_changes(struct holder *holder, uint32_t step, struct atoll_result *result);
int hold_record_note(struct holder *holder, const struct hold_request *request,
		     struct atoll_error *err);
/* "checkpoint" or "rollback"; what was done is done, whether it can be written down or not. */
void hold_record_turn(struct holder *holder, const char *kind, const char *name, uint64_t ended);
void hold_record_check(struct holder *holder);
void hold_record_close(struct holder *holder);

/* ---- hold-cell.c ---- */

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

/* ---- hold-step.c ---- */

void hold_accept(struct holder *holder);
/* A request, an order, or its end. */
void hold_serve_client(struct holder *holder, struct hold_client *client);
/* From the first process; `fd` is a terminal's or -1, and stays the caller's. */
void hold_take_message(struct holder *holder, const struct init_message *message, int fd);
/* Tell of the steps that have ended. */
void hold_finish_steps(struct holder *holder);
/* The cell is gone. */
void hold_lose_steps(struct holder *holder, const struct init_message *limit);
/* What a caller that is gone has left running, after its grace. */
void hold_end_orphans(struct holder *holder);
size_t hold_running(const struct holder *holder);
/* To all whose step runs. */
void hold_spread_denial(struct holder *holder, const struct init_message *message);
/* Read what nobody reads any more. */
void hold_drain(struct holder *holder, size_t i);

/* ---- hold-words.c ---- */

/* What a step executes: a copy that nobody else has, with the placeholders that were made for this
 * cell. */
int hold_take_words(const struct holder *holder, int fd, struct atoll_error *err);

/* ---- hold-watch.c ---- */

int hold_watch_open(struct holder *holder, struct atoll_error *err);
/* What rules and monitor have said, and what follows. */
void hold_watch_check(struct holder *holder);
void hold_watch_close(struct holder *holder);

/* ---- hold-work.c ---- */

struct steps_note;
/* The record gets locked meanwhile. */
int hold_checkpoint(struct holder *holder, const char *name, const struct steps_note *note,
		    char ret_name[64], struct atoll_error *err);
int hold_rollback(struct holder *holder, const char *name, uint64_t *ret_ended,
		  struct atoll_error *err);
/* For whoever asks again and again: it may take a while until another command is done with it. */
int hold_lock(struct layer_record *record, int patience_ms, struct atoll_error *err);
void hold_unlock(struct layer_record *record);
