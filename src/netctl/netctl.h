/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/isolate.h"
#include "netctl/secrets.h"
#include "spec/network.h"

#include <atoll/atoll.h>
#include <limits.h>
#include <poll.h>

struct spec;

/*
 * The life of egress, beside a run's
 *
 *	netctl_init()     what it needs is read: secrets, earlier answers; nothing is started
 *	netctl_open()     once it is known whether there are namespaces: the listener where there
 *are none, and egress itself where something of it is needed before the command starts (its
 *certificate, ports of the host) netctl_attach()   the sandbox's sockets; from here on the first
 *sign of use starts egress netctl_want(), netctl_move()   in the supervisor's loop netctl_stop()
 *the sandbox has ended: the last events, then its end
 *
 * Egress has the sockets alone: when it dies they are closed, and who connects is refused at once.
 * It is not started anew; the run goes on without a network, and the result says so. A contract
 * without a network has all of this as no-ops. Where rules may change (netctl_replace()) the
 *sockets are kept for the next egress.
 */

enum netctl_state {
	NETCTL_OFF,
	NETCTL_IDLE,	 /* not needed so far */
	NETCTL_STARTING, /* EGRESS_READY is awaited */
	NETCTL_READY,	 /* the sockets are not there yet */
	NETCTL_SERVING,
	NETCTL_ENDED, /* and will not come back */
};

/* What was asked and not answered yet. */
struct netctl_question {
	uint64_t id;
	int64_t until_ns;
	uint16_t port;
	bool is_asked; /* the caller knows; else it waits for its turn */
	int32_t pid;
	char program[16];
	char name[256];
};

#define NETCTL_QUESTIONS_MAX 16
#define NETCTL_WATCHED	     4 /* entries that netctl_want() fills in */

struct netctl {
	const struct spec *spec;
	const struct atoll_run_options *options;
	struct atoll_result *result;
	enum netctl_state state;
	struct secrets secrets;
	struct network_rule *answers; /* allowed by earlier answers */
	size_t n_answers;
	char program[PATH_MAX]; /* atoll-egress */
	char trust[PATH_MAX];	/* authorities for checking servers; "" where none is checked */
	struct cell_extra extra;
	char *authority, *bundle, *keystore; /* of `extra` */
	bool wants_keystore;		     /* there is a Java that would read it */
	char token[40]; /* without namespaces, what clients have to know; else "" */

	int listener_fd, dns_fd; /* until they are handed over */
	int channel_fd, pid_fd;
	int announced_fd; /* tells every egress that the listener's port is ours: base/announce.h */
	int slot_fd;	  /* holds egress's id, where root gives it one */
	pid_t pid;
	int64_t ready_ns;	    /* when it has to be ready */
	struct atoll_error failure; /* told by egress */
	char limit[16];		    /* of the whole run, used up */
	uint64_t bytes;		    /* told of so far */
	uint64_t sent, received;    /* of these */

	/* In a sandbox that lives on: egress can be replaced, so its sockets stay here as well. */
	bool keeps;
	bool restarts; /* if it dies another one takes its place */
	int kept_listener_fd, kept_dns_fd;
	int heritage_fd; /* the authority, for its successor; -1 */
	unsigned n_deaths;
	int64_t death_ns;

	struct netctl_question questions[NETCTL_QUESTIONS_MAX];
	size_t n_questions;

	/* By the run. Who connected from a port of the sandbox's; and sockets of its namespace,
	 * which come back by netctl_receive_sockets(). */
	int32_t (*whose)(void *data, uint16_t local_port, char ret_program[16]);
	void (*order_sockets)(void *data, uint32_t count);
	/* For the record; may be NULL. Without a connection (NULL): egress ended, and may not have
	 * told of all of them. */
	void (*connected)(void *data, const struct atoll_connection *connection);
	void (*answered)(void *data, const struct netctl_question *question,
			 enum atoll_answer_type answer);
	void *data;
};

int netctl_init(struct netctl *net, const struct spec *spec,
		const struct atoll_run_options *options, struct atoll_result *result,
		struct atoll_error *err);
/* Does netctl_open() start egress? */
bool netctl_starts_first(const struct netctl *net);
int netctl_open(struct netctl *net, bool has_namespaces, struct atoll_error *err);
/* The sockets become ours; -1 for none. */
void netctl_attach(struct netctl *net, int listener_fd, int dns_fd);

/* Always NETCTL_WATCHED entries; some of them unused. */
void netctl_want(const struct netctl *net, struct pollfd *fds);
void netctl_move(struct netctl *net, const struct pollfd *fds);
/* When netctl_move() has something to do that no descriptor tells; INT64_MAX if never. */
int64_t netctl_deadline_ns(const struct netctl *net);
void netctl_receive_sockets(struct netctl *net, const int *fds, size_t n);

/* The next question that nobody has been asked yet, or NULL; and an answer. */
struct netctl_question *netctl_next_question(struct netctl *net);
void netctl_answer(struct netctl *net, uint64_t id, enum atoll_answer_type answer);

/* Other rules: net->spec->network has just become others. What is connected is cut; who connects
 * waits for the new egress. -EOPNOTSUPP: TLS is to be opened now, and nothing inside trusts us. */
int netctl_replace(struct netctl *net, const struct network *before, struct atoll_error *err);

void netctl_stop(struct netctl *net);
/* Also of one that was never opened, and without netctl_stop() if nothing ran. */
void netctl_done(struct netctl *net);

/* ---- for the files of it ----
 *
 *   netctl.c          what egress says, and its end
 *   netctl-open.c     before the command starts
 *   netctl-ask.c      questions
 *   netctl-process.c  the process itself
 *   netctl-config.c   what it has to know
 *   netctl-replace.c  other rules, another process, the same sandbox
 *   netctl-plan.c     what the plan says of all this
 */

struct egress_message;
struct egress_question;

/* Make the channel, send the configuration, start it: EGRESS_READY will come. */
int netctl_start(struct netctl *net, struct atoll_error *err);
/* One that has stopped reading is killed: it must not stop us, too. */
int netctl_send(struct netctl *net, const struct egress_message *message, const int *fds, size_t n);
/* Everything that it has said; false at the end. */
bool netctl_read_messages(struct netctl *net);
/* Wait until it is ready. */
int netctl_await_ready(struct netctl *net, struct atoll_error *err);
/* Its last events, and its end; false if that does not come in time. */
bool netctl_read_last(struct netctl *net);
/* It has died, or was ended, and the next sign of use starts another one. False: there cannot be
 * one. */
bool netctl_restart(struct netctl *net);
/* Read the secrets again: those that were there keep their placeholders. */
int netctl_read_secrets(struct netctl *net, const struct network *before, struct atoll_error *err);
/* It has closed the channel; or has to be ended: `why`. */
void netctl_handle_death(struct netctl *net, const char *why);
/* For the record, where egress has served: it ended without having told of everything. */
void netctl_note_lost(struct netctl *net);
/* For the result; the first one counts. */
void netctl_note(struct netctl *net, const char *text);
void netctl_receive_question(struct netctl *net, const struct egress_question *from);
/* From options->answer_fd. */
void netctl_read_answer(struct netctl *net);

/* ---- netctl-process.c ---- */

#define NETCTL_PROGRAM "atoll-egress"

/* Start net->program, with its end of the channel: net->pid, net->pid_fd. */
int netctl_spawn(struct netctl *net, int channel_fd, struct atoll_error *err);
/* Kill and reap it. Returns how it ended, as of waitpid(); -1 if nobody knows. */
int netctl_reap(struct netctl *net);

/* ---- netctl-config.c ---- */

/* A sealed memfd with what egress has to know. With `uid` 0 it runs as we do. */
int netctl_write_config(const struct netctl *net, uint32_t uid, struct atoll_error *err);
/* The file with authorities that servers are checked with. */
int netctl_find_trust(char *ret, size_t size, struct atoll_error *err);
/* What a "env" as upstream means here: NULL for no proxy, or -EINVAL for one that cannot be used.
 */
int netctl_find_upstream(const struct spec *spec, const char **ret, struct atoll_error *err);

/* ---- netctl-plan.c ---- */

struct plan;
int netctl_describe(const struct spec *spec, struct plan *plan, struct atoll_error *err);
