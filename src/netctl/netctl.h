/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/isolate.h"
#include "netctl/secrets.h"
#include "spec/network.h"

#include <atoll/atoll.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>

struct spec;

/*
 * Start, configure and replace egress, the process that makes the network connections of a sandbox
 *
 * The supervisor of a run and the holder of a sandbox call these functions, in this order:
 *	netctl_init()    reads secrets and earlier answers; starts nothing
 *	netctl_open()    once it is known whether there are namespaces: opens the listener where
 *there are none, and starts egress if something of it is needed before the command starts (its
 *certificate, published ports) netctl_attach()  stores the sockets of the sandbox; from here on
 *their first use starts egress netctl_want(), netctl_move()   in the caller's loop netctl_stop()
 *the sandbox has ended: reads the last events and ends egress netctl_done()    frees everything
 *
 * Egress alone has the sockets: when it dies the kernel closes them and refuses new connections. A
 * run goes on without a network then, and its result says so. A holder saves the sockets for the
 * next egress (`saves_sockets`), because its rules may change (netctl_replace()). If the contract
 * has no network, all functions do nothing.
 *
 *   netctl.c          messages of egress, and its end
 *   netctl-open.c     before the command starts
 *   netctl-ask.c      questions
 *   netctl-process.c  start and reap the process
 *   netctl-config.c   the configuration of egress
 *   netctl-replace.c  other rules or another egress for the same sandbox
 *   netctl-plan.c     lines of the plan
 *   connections.c     connections in a result; answers.c  answers for always; secrets.c  values
 */

enum netctl_state {
	NETCTL_OFF,
	NETCTL_IDLE,	 /* no connection yet: egress is not started */
	NETCTL_STARTING, /* waits for EGRESS_READY */
	NETCTL_READY,	 /* egress waits for the sockets */
	NETCTL_SERVING,
	NETCTL_ENDED, /* egress has ended and is not started again */
};

/* A question that is not answered yet. */
struct netctl_question {
	uint64_t id;
	int64_t until_ns;
	uint16_t port;
	bool is_asked; /* the caller was asked; else the question waits */
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
	char *authority, *bundle, *keystore; /* memory of `extra` */
	bool wants_keystore;		     /* the host has a Java */
	char token[40];			     /* without namespaces: the proxy's password; else "" */

	int listener_fd, dns_fd; /* until egress gets them */
	int channel_fd, pid_fd;
	int announced_fd; /* announces the listener's port as atoll's own: base/announce.h */
	int slot_fd;	  /* the lock on the id of egress, as root */
	pid_t pid;
	int64_t ready_ns;	    /* egress has to be ready by then */
	struct atoll_error failure; /* sent by egress */
	char limit[16];		    /* the network limit that was reached, or "" */
	uint64_t bytes;		    /* of all connections that egress has reported */
	uint64_t sent, received;    /* the parts of `bytes` */

	/* Of a holder: copies of the sockets, for the next egress. */
	bool saves_sockets;
	bool restarts; /* start another egress if one dies */
	int saved_listener_fd, saved_dns_fd;
	int authority_key_fd; /* certificate and key of the authority, for the next egress; -1 */
	unsigned n_deaths;
	int64_t death_ns;

	struct netctl_question questions[NETCTL_QUESTIONS_MAX];
	size_t n_questions;

	/* Set by the caller. Which process inside connected from this port; a request for sockets
	 * of the sandbox's network namespace, which netctl_receive_sockets() passes on. */
	int32_t (*find_process)(void *data, uint16_t local_port, char ret_program[16]);
	void (*order_sockets)(void *data, uint32_t count);
	/* For the event log; may be NULL. `connection` NULL: egress ended and may not have reported
	 * all connections. */
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
/* Takes ownership of the sockets; -1 for none. */
void netctl_attach(struct netctl *net, int listener_fd, int dns_fd);

/* Fills in NETCTL_WATCHED entries; unused ones have fd -1. */
void netctl_want(const struct netctl *net, struct pollfd *fds);
void netctl_move(struct netctl *net, const struct pollfd *fds);
/* The latest time for the next netctl_move(); INT64_MAX if there is none. */
int64_t netctl_deadline_ns(const struct netctl *net);
void netctl_receive_sockets(struct netctl *net, const int *fds, size_t n);

/* The next question that the caller was not asked yet, or NULL; and its answer. */
struct netctl_question *netctl_next_question(struct netctl *net);
void netctl_answer(struct netctl *net, uint64_t id, enum atoll_answer_type answer);

/* net->spec->network has changed: replace egress. Open connections are cut; new ones wait for the
 * new egress. -EOPNOTSUPP: the new rules open TLS, and no program inside trusts our certificate. */
int netctl_replace(struct netctl *net, const struct network *before, struct atoll_error *err);

void netctl_stop(struct netctl *net);
/* Valid after netctl_init(), also without netctl_open() and netctl_stop(). */
void netctl_done(struct netctl *net);

struct plan;
/* Lines of the plan: what egress needs and has, earlier answers. */
int netctl_describe(const struct spec *spec, struct plan *plan, struct atoll_error *err);

/* ---- for the other files of this component ---- */

/* Handle all messages of egress; false once it has closed the channel. */
bool netctl_read_messages(struct netctl *net);
/* Close the channel for writing and handle the last messages; false if egress does not end in
 * time. */
bool netctl_read_last(struct netctl *net);
/* Egress has closed the channel, or must be ended for the reason `why`. */
void netctl_handle_death(struct netctl *net, const char *why);
/* For the event log, if egress has served: it ended without having reported everything. */
void netctl_note_lost(struct netctl *net);
/* A note for the result; the first one stays. */
void netctl_note(struct netctl *net, const char *text);
