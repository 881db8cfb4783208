/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/rest.h"
#include "init/guard.h"
#include "init/init.h"
#include "init/watch.h"

#include <sys/resource.h>

/*
 * The first process, for the files of its loop
 */
struct init {
	const struct init_config *config;
	pid_t command;
	int signal_fd;
	int start_fd;	 /* the command's side of its start; -1 once it runs */
	int terminal_fd; /* the command's terminal; -1 if it has none */
	bool is_held;	 /* everything was stopped by order: that the command stops is no news */
	bool has_listener;
	struct rest rest; /* of init_trim() */
	struct watch watch;
	struct guard guard; /* last, because it is large, and most of it is never touched */
};

/* ---- init.c ---- */

void init_tell(struct init *init, const struct init_message *message);
/* The same with a descriptor, which stays the caller's. */
int init_hand_over(struct init *init, const struct init_message *message, int fd);
/* The end: the kernel kills everything else in the namespace with us. */
_Noreturn void init_end(struct init *init, const struct init_message *message);
_Noreturn void init_end_broken(struct init *init, int errnum, const char *what);
/* The supervisor is gone. */
_Noreturn void init_end_left(void);
/* Lock ourselves in, right before the loop. */
void init_lock(struct init *init);
void init_make_sockets(struct init *init, const struct init_order *order);
void init_check_limits(struct init *init);
/* Until the next look at the limits, or until notices are to be sent. */
int init_wait_ms(const struct init *init);
/* Send notices if it is time. `can_send`: the socket, which was full, takes more. */
void init_tell_notices(struct init *init, int64_t now_ns, bool can_send);
/* In every round that a child was heard of, before others are waited for: ends the sandbox if the
 * keeper of hidden names has ended or was stopped. */
void init_check_keeper(struct init *init);
/* Everything inside but the keeper, with one call. */
void init_stop_all(const struct init *init);
void init_prefer_for_killing(void);
/* Memory that nobody needs while nothing happens goes back to the kernel. */
void init_trim(struct init *init);
/* In a fork that neither executes nor serves anybody: it has no part in what the first process
 * knows. */
void init_forget_in_child(void);

/* ---- service.c ---- */

/* Steps by order, instead of one command; the first template is there, and sealed. */
_Noreturn void service_main(struct init *init, const struct init_command *template);
/* In a fork that does not execute: what it held open of a step's would have no end. */
void service_close_in_child(void);
void service_forget_in_child(void);

static inline uint64_t init_cpu_us(const struct rusage *usage)
{
	return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* ---- template-process.c ---- */

/* What the first process asks it for: a copy of itself that executes. With the start's socket, the
 * step's descriptor, then those of 0, 1 and 2 that `stdio` has a bit for, and if it `has_terminal`
 * that one and the leader's socket. */
struct template_order {
	uint32_t stdio;
	bool has_terminal;
	bool waits; /* for a byte, before it executes: what it does is to be known as its own */
};

/* Or, as a message of so many bytes: nothing is wanted for a while, and what it does not need goes
 * back to the kernel. */
#define TEMPLATE_REST 1

/* What the step's process sends first, over its start's socket, while it is in the template's
 * session. With a terminal the session's leader sends its number before. */
struct template_news {
	pid_t pid;
	bool is_leader;
};

/* Sealed; forks what it is asked for until the socket ends. */
_Noreturn void template_main(const struct init_config *config, int socket_fd);

/* ---- processes-inside.c ---- */

struct inside_process {
	pid_t pid, session;
	char state; /* as in /proc/PID/stat */
};

/* For every process of the sandbox but the first one and those that have ended. */
void inside_each(const struct init *init,
		 void (*each)(const struct inside_process *process, void *data), void *data);
/* The state of one; 0 if it is gone. */
char inside_state(const struct init *init, pid_t pid);
/* It is in the kernel until its child executes something or ends, and that child may be stopped:
 * what waits so stands as still as what is stopped. */
bool inside_waits_for_vfork(const struct init *init, const struct inside_process *process);
/* Of the session with this number; `except` is left alone. Returns how many there were. */
int inside_signal_session(const struct init *init, pid_t number, pid_t except, int signal);
