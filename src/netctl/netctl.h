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
 *	net_init()     what it needs is read: secrets, earlier answers; nothing is started
 *	net_open()     once it is known whether there are namespaces: the listener where there are
 *	               none, and egress itself where something of it is needed before the command
 *	               starts (its certificate, ports of the host)
 *	net_attach()   the sandbox's sockets; from here on the first sign of use starts egress
 *	net_want(), net_move()   in the supervisor's loop
 *	net_stop()     the sandbox has ended: the last events, then its end
 *
 * Egress has the sockets alone: when it dies they are closed, and who connects is refused at once.
 * It is not started anew; the run goes on without a network, and the result says so. A contract
 * without a network has all of this as no-ops. Where rules may change (net_replace()) the sockets
 * are kept for the next egress.
 */

enum net_state {
	NET_OFF,
	NET_IDLE,     /* not needed so far */
	NET_STARTING, /* EGRESS_READY is awaited */
	NET_READY,    /* the sockets are not there yet */
	NET_SERVING,
	NET_ENDED, /* and will not come back */
};

/* What was asked and not answered yet. */
struct net_question {
	uint64_t id;
	int64_t until_ns;
	uint16_t port;
	bool is_asked; /* the caller knows; else it waits for its turn */
	int32_t pid;
	char program[16];
	char name[256];
};

#define NET_QUESTIONS_MAX 16
#define NET_WATCHED	  4 /* entries that net_want() fills in */

struct net {
	const struct spec *spec;
	const struct atoll_run_options *options;
	struct atoll_result *result;
	enum net_state state;
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

	struct net_question questions[NET_QUESTIONS_MAX];
	size_t n_questions;

	/* By the run. Who connected from a port of the sandbox's; and sockets of its namespace,
	 * which come back by net_take_sockets(). */
	int32_t (*whose)(void *data, uint16_t local_port, char ret_program[16]);
	void (*order_sockets)(void *data, uint32_t count);
	/* For the record; may be NULL. Without a connection (NULL): egress ended, and may not have
	 * told of all of them. */
	void (*connected)(void *data, const struct atoll_connection *connection);
	void (*answered)(void *data, const struct net_question *question,
			 enum atoll_answer_type answer);
	void *data;
};

int net_init(struct net *net, const struct spec *spec, const struct atoll_run_options *options,
	     struct atoll_result *result, struct atoll_error *err);
/* Does net_open() start egress? */
bool net_starts_first(const struct net *net);
int net_open(struct net *net, bool has_namespaces, struct atoll_error *err);
/* The sockets become ours; -1 for none. */
void net_attach(struct net *net, int listener_fd, int dns_fd);

/* Always NET_WATCHED entries; some of them unused. */
void net_want(const struct net *net, struct pollfd *fds);
void net_move(struct net *net, const struct pollfd *fds);
/* When net_move() has something to do that no descriptor tells; INT64_MAX if never. */
int64_t net_deadline_ns(const struct net *net);
void net_take_sockets(struct net *net, const int *fds, size_t n);

/* The next question that nobody has been asked yet, or NULL; and an answer. */
struct net_question *net_next_question(struct net *net);
void net_answer(struct net *net, uint64_t id, enum atoll_answer_type answer);

/* Other rules: net->spec->network has just become others. What is connected is cut; who connects
 * waits for the new egress. -EOPNOTSUPP: TLS is to be opened now, and nothing inside trusts us. */
int net_replace(struct net *net, const struct network *before, struct atoll_error *err);

void net_stop(struct net *net);
/* Also of one that was never opened, and without net_stop() if nothing ran. */
void net_done(struct net *net);

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
int net_start(struct net *net, struct atoll_error *err);
/* One that has stopped reading is killed: it must not stop us, too. */
int net_send(struct net *net, const struct egress_message *message, const int *fds, size_t n);
/* Everything that it has said; false at the end. */
bool net_take_messages(struct net *net);
/* Wait until it is ready. */
int net_await_ready(struct net *net, struct atoll_error *err);
/* Its last events, and its end; false if that does not come in time. */
bool net_take_last(struct net *net);
/* It has died, or was ended, and the next sign of use starts another one. False: there cannot be
 * one. */
bool net_revive(struct net *net);
/* Read the secrets again: those that were there keep their placeholders. */
int net_read_secrets(struct net *net, const struct network *before, struct atoll_error *err);
/* It has closed the channel; or has to be ended: `why`. */
void net_take_death(struct net *net, const char *why);
/* For the record, where egress has served: it ended without having told of everything. */
void net_note_lost(struct net *net);
/* For the result; the first one counts. */
void net_note(struct net *net, const char *text);
void net_take_question(struct net *net, const struct egress_question *from);
/* From options->answer_fd. */
void net_take_answer(struct net *net);

/* ---- netctl-process.c ---- */

#define NET_PROGRAM "atoll-egress"

/* Start net->program, with its end of the channel: net->pid, net->pid_fd. */
int net_spawn(struct net *net, int channel_fd, struct atoll_error *err);
/* Kill and reap it. Returns how it ended, as of waitpid(); -1 if nobody knows. */
int net_reap(struct net *net);

/* ---- netctl-config.c ---- */

/* A sealed memfd with what egress has to know. With `uid` 0 it runs as we do. */
int net_write_config(const struct net *net, uint32_t uid, struct atoll_error *err);
/* The file with authorities that servers are checked with. */
int net_find_trust(char *ret, size_t size, struct atoll_error *err);
/* What a "env" as upstream means here: NULL for no proxy, or -EINVAL for one that cannot be used.
 */
int net_find_upstream(const struct spec *spec, const char **ret, struct atoll_error *err);

/* ---- netctl-plan.c ---- */

struct plan;
int net_describe(const struct spec *spec, struct plan *plan, struct atoll_error *err);
