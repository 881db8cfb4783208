/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Steps, for programs with a loop of their own
 *
 * atoll_sandbox_exec() waits until a step is over, and the step ends with its caller. Here a step
 *is started, goes on whoever comes and goes, and can be found again: by the program that started it
 * after that was restarted, or by another one.
 *
 *	atoll_step_start(id, &options, &step, &err);
 *	... wait until atoll_step_fd(step) is readable; then
 *	atoll_step_move(step);                   // what it tells is in atoll_step_info()
 *	n = atoll_step_read(step, 1, at, data, sizeof data);
 *
 * Output is kept by the sandbox's holder, which alone reads the command's pipes: the latest
 * ATOLL_STEP_WINDOW bytes of each stream, counted from the step's start. Whoever is attached shares
 * that memory and is told when there is more. So nothing that he does, and no way in which he ends,
 * can lose, repeat or reorder a byte; several may be attached at once.
 */

#include <atoll/atoll.h>
#include <atoll/layer.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATOLL_STEP_WINDOW (16U << 20)
#define ATOLL_STEP_KEY	  128
#define ATOLL_STEP_LABEL  128

struct atoll_step;

struct atoll_step_options {
	char *const *argv;
	char *const *env; /* "K=V": adds to the contract's; may be NULL */
	const char *cwd;  /* NULL: the contract's */
	const char *user; /* of those that the contract knows; NULL: its first */
	bool has_stdin;	  /* a pipe; else /dev/null */
	bool has_terminal;
	uint16_t columns, rows;
	uint64_t timeout_ms; /* killed then; 0: as the contract says, which is also the most */
	/* Chosen by the caller: a step with the same one in the same sandbox is not started again,
	 * but attached to. "" or NULL: none. */
	const char *key;
	/* The caller's own, kept with it: at most ATOLL_STEP_LABEL - 1 bytes. NULL: none. */
	const char *label;
	/* A socket or the like that becomes the command's standard input and output (stderr is
	 * dropped), instead of all that; -1 or 0: none. Nothing is kept of it. */
	int channel_fd;
	/* -ENOENT if nothing holds the sandbox yet, instead of starting that, which blocks; and
	 * -EAGAIN if so many ask it already that one would have to wait. */
	bool needs_holder;
};

enum atoll_step_state {
	ATOLL_STEP_STARTING,
	ATOLL_STEP_RUNNING,
	ATOLL_STEP_ENDED, /* and all its output is there */
	ATOLL_STEP_LOST,  /* its sandbox is gone, or was rolled back */
};

struct atoll_step_info {
	uint32_t number; /* in its sandbox, from 1 */
	int32_t pid;	 /* inside; 0: not yet */
	enum atoll_step_state state;
	int64_t start_ns, end_ns; /* since 1970 */
	char key[ATOLL_STEP_KEY];
	char label[ATOLL_STEP_LABEL];
	char user[32];
	bool has_stdin, has_terminal;
	/* Of what atoll_step_input() was given, by whomever: so far it was taken, and so far it was
	 * handed to the command. Closed: no more is taken. */
	uint64_t input_taken, input_written;
	bool is_input_closed;
	uint64_t size[2];	     /* of the output so far: 1 and 2 */
	uint64_t first[2];	     /* what is before is not kept any more */
	struct atoll_result *result; /* once it has ended; the step's own */
};

/* Starts the sandbox if need be, which takes some milliseconds; otherwise it does not wait: what
 * became of it is told by atoll_step_move(). */
ATOLL_PUBLIC int atoll_step_start(const char *id, const struct atoll_step_options *options,
				  struct atoll_step **ret, struct atoll_error *err);
/* To one that lives, or ended a while ago. -ENOENT; -EAGAIN as with `needs_holder`. */
ATOLL_PUBLIC int atoll_step_attach(const char *id, uint32_t number, struct atoll_step **ret,
				   struct atoll_error *err);
/* Which there are: those that live and the latest that ended, oldest first; free() it. */
ATOLL_PUBLIC int atoll_steps_list(const char *id, struct atoll_step_info **ret, size_t *ret_n,
				  struct atoll_error *err);
/* The step goes on. */
ATOLL_PUBLIC void atoll_step_detach(struct atoll_step *step);

/* Readable when atoll_step_move() has something to do. */
ATOLL_PUBLIC int atoll_step_fd(const struct atoll_step *step);
/* 0: see atoll_step_info(); or a negative errno: it was refused (-EBUSY: the sandbox is frozen, or
 * too many run; -ENOENT: no such user, no such step), or the holder is gone (ATOLL_STEP_LOST). Then
 * nothing more comes. */
ATOLL_PUBLIC int atoll_step_move(struct atoll_step *step, struct atoll_error *err);
ATOLL_PUBLIC const struct atoll_step_info *atoll_step_info(const struct atoll_step *step);
/* Why it was not started (ATOLL_NOT_STARTED): no such program, no such directory. */
ATOLL_PUBLIC const struct atoll_error *atoll_step_error(const struct atoll_step *step);
/* What it was started with; the step's own. NULL before the first message has come. */
ATOLL_PUBLIC char *const *atoll_step_argv(const struct atoll_step *step);
ATOLL_PUBLIC char *const *atoll_step_env(const struct atoll_step *step);
ATOLL_PUBLIC const char *atoll_step_cwd(const struct atoll_step *step);

/* `stream` 1 or 2. Bytes, 0 if there are none at `at` yet; -ESPIPE: not kept any more. */
ATOLL_PUBLIC ssize_t atoll_step_read(struct atoll_step *step, int stream, uint64_t at, void *data,
				     size_t size);
/* So far it was read: while somebody is attached who has said so, what follows is not dropped, and
 * the command waits if it is ahead by ATOLL_STEP_WINDOW; for a minute also after he was killed.
 * UINT64_MAX: nothing is needed, as in the beginning. */
ATOLL_PUBLIC void atoll_step_need(struct atoll_step *step, int stream, uint64_t at);
/* For standard input or the terminal: `at` is the offset of these bytes in all that the step is
 * ever given, and what was taken already is not taken twice, so they may be sent again whenever it
 * is not known whether they arrived; atoll_step_info() tells how far they were taken. How many were
 * sent, perhaps not all; 0: there is no room until atoll_step_move() tells that some was read;
 * -EAGAIN: nor in the socket just now; -EPIPE: closed, or none. */
ATOLL_PUBLIC ssize_t atoll_step_input(struct atoll_step *step, uint64_t at, const void *data,
				      size_t size);
/* The same by hand: non-blocking, the step's own; -1: closed, or none. What is written to it is not
 * counted, so use the one or the other. */
ATOLL_PUBLIC int atoll_step_input_fd(const struct atoll_step *step);
/* When all that was taken is written; not a terminal's. */
ATOLL_PUBLIC void atoll_step_close_input(struct atoll_step *step);
/* `is_all`: to every process of its session. */
ATOLL_PUBLIC int atoll_step_signal(struct atoll_step *step, int number, bool is_all);
ATOLL_PUBLIC int atoll_step_resize(struct atoll_step *step, uint16_t columns, uint16_t rows);

/* ---- the sandbox as a whole ---- */

/* Build it now, so that the first step finds it ready. It stays until it is ended: no idle time. */
ATOLL_PUBLIC int atoll_sandbox_start(const char *id, struct atoll_error *err);
/* Everything in it stands still, or goes on. */
ATOLL_PUBLIC int atoll_sandbox_freeze(const char *id, struct atoll_error *err);
ATOLL_PUBLIC int atoll_sandbox_thaw(const char *id, struct atoll_error *err);
/* End all processes; its layers stay. */
ATOLL_PUBLIC int atoll_sandbox_stop(const char *id, struct atoll_error *err);
/* Other network rules from now on: the `network` section of a job file, as YAML or JSON. */
ATOLL_PUBLIC int atoll_sandbox_set_network(const char *id, const char *rules,
					   struct atoll_error *err);

/* A question about the network that waits for somebody (see `ask` in doc/network.md): the
 * connection is held meanwhile. Asked only in a sandbox that atoll_sandbox_start() has started. */
struct atoll_pending {
	uint64_t id;
	int64_t left_ms; /* then it counts as no */
	int32_t pid;	 /* inside; 0 if it is not known */
	uint16_t port;
	char program[16]; /* printable ASCII, as all of it */
	char name[256];	  /* or address */
};

#define ATOLL_PENDING_MAX 16

/* How many there are; `ret` has room for ATOLL_PENDING_MAX. -ENOENT: nothing runs. */
ATOLL_PUBLIC int atoll_sandbox_questions(const char *id, struct atoll_pending *ret,
					 struct atoll_error *err);
/* ATOLL_ASK_NO, _ONCE or _RUN, which is for as long as the sandbox lives. -ENOENT: nobody waits for
 * it any more. */
ATOLL_PUBLIC int atoll_sandbox_answer(const char *id, uint64_t question,
				      enum atoll_answer_type answer, struct atoll_error *err);

struct atoll_sandbox_usage {
	uint64_t cpu_ms, memory, memory_peak, processes, disk;
	uint64_t bytes_in, bytes_out;
	uint32_t steps;
	bool is_frozen;
};
/* -ENOENT: nothing runs. */
ATOLL_PUBLIC int atoll_sandbox_usage(const char *id, struct atoll_sandbox_usage *ret,
				     struct atoll_error *err);

#ifdef __cplusplus
}
#endif
