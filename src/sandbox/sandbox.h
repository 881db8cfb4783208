/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/layer.h>
#include <atoll/step.h>
#include <stdbool.h>
#include <stddef.h>

struct atoll_job;
struct layer_record;

/*
 * Sandboxes that live across steps
 *
 * The processes
 *
 *   client    `atoll exec`, `atoll checkpoint`, the daemon: a program that calls <atoll/step.h> or
 *             <atoll/layer.h>. It has no rights inside; it connects to the holder.
 *   holder    One process per sandbox in use (holder.h). It builds the cell (pid 1, mounts, network
 *             namespace), writes the event log, and executes requests. Everything inside ends with
 *             the holder, also by kill -9.
 *   spawner   The daemon's child that forks holders (spawner.c). Without one, the client forks the
 *             holder itself.
 *   pid 1     The first process inside (init/init.h). The holder sends orders (struct init_order)
 *             over its control socket and gets struct init_message.
 *
 * The order of things
 *
 *   1. sandbox.c creates the record: a contract, and no process.
 *   2. The first step connects to records/ID/socket (holder-protocol.c). Nothing listens, so a
 *      holder is started. The holder locks records/ID/held for its whole life, and records/ID/lock
 *      only while it changes the record. It listens, and then reports that over a pipe.
 *   3. One connection is one request: struct holder_request, answered by struct holder_reply.
 *      HOLDER_EXEC starts an attached step. The connection then carries the messages and orders of
 *      pid 1 for this step, and the step ends with the connection (exec.c, holder-attached.c).
 *      HOLDER_STEP starts a detached step. The connection becomes a watcher, which gets struct
 *      step_report and sends struct step_call. The step goes on without watchers (step-client.c,
 *      holder-detached.c).
 *   4. The first step builds the cell (holder-cell.c). A checkpoint seals the top layer, a rollback
 *      mounts other layers (holder-checkpoint.c, checkpoints.h).
 *   5. The holder ends by HOLDER_END, by SIGTERM, or after ten minutes without a step. The record
 *      stays. The next step starts another holder on the same layers.
 *
 * A client that can lock `held` is alone with the record. It makes checkpoints, rollbacks and forks
 * itself. Otherwise it sends the request to the holder (sandbox-reach.c).
 */

/* ---- sandbox.c, sandbox-grants.c, sandbox-live.c ---- */

/* atoll_sandbox_create() for a sandbox that the caller starts at once: the start finds out whether
 * this host can enforce the contract, nothing is flushed to the disk, and the holder begins the
 * event log. */
int sandbox_create_quickly(struct atoll_job *job, char ret_id[ATOLL_ID_SIZE],
			   struct atoll_error *err);
/* atoll_sandbox_start() for a sandbox that was just created and that no other process knows. */
int sandbox_start_new(const char *id, struct atoll_error *err);

/* Open the record of a sandbox; `id` NULL: the latest whose workspace contains the current
 * directory. The caller closes `*ret` with layer_record_close(). */
int sandbox_open(const char *id, struct layer_record **ret, struct atoll_error *err);
/* Make the job again from the record's recipe. `is_held`: the sandbox's holder has checked it
 * already (struct recipe). The caller frees `*ret` with atoll_job_free(). */
int sandbox_job(const struct layer_record *record, bool is_held, struct atoll_job **ret,
		struct atoll_error *err);
/* Replace all --write-at grants of a sandbox without a holder by `grants` ("INSIDE=PATH").
 * -EBUSY: the sandbox has a holder. */
int sandbox_set_grants(const char *id, char *const *grants, size_t n, struct atoll_error *err);

/* ---- spawner.c ---- */

/* Start `program`, which calls spawner_serve(3), and let it fork all holders of this process from
 * now on. Call before the process has threads, or again if spawner_is_gone(). */
int spawner_open(const char *program, struct atoll_error *err);
bool spawner_is_gone(void);
void spawner_close(void);
/* The main loop of the spawner; `fd` is its socket to the daemon. */
_Noreturn void spawner_serve(int fd);

/* ---- step-client.c ---- */

/* Close the connection of a step that has ended. Its output stays readable. A daemon with a
 * thousand steps a second would otherwise run out of descriptors. */
void step_hang_up(struct atoll_step *step);
/* Free the result of an ended step once the caller has copied it: struct atoll_result is large. */
void step_drop_result(struct atoll_step *step);
