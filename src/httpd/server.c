/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/server.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "httpd/connection.h"
#include "httpd/listen.h"
#include "httpd/tunnel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/*
 * The server: all its connections together
 *
 * Each callback of the event loop runs between server_enter() and server_leave(), which settles the
 * connections that were touched. server_stop() closes the listeners and waits for the exchanges.
 */

#define SETTLED_MAX 1024 /* connections that are settled in one round of the event loop */

/* ---- rounds ---- */

static void settle(struct server *server)
{
	for (int i = 0; i < SETTLED_MAX && server->touched; i++) {
		struct connection *connection = server->touched;

		server->touched = connection->next_touched;
		if (!server->touched)
			server->touched_end = &server->touched;
		connection->is_touched = false;
		connection_settle(connection);
	}
	/* Not 0: a timer of the present round would run again at once. */
	if (server->touched)
		loop_arm(server->loop, &server->settle_timer, clock_monotonic_ns());
}

void server_enter(struct server *server)
{
	server->is_inside = true;
	server->now_ns = clock_monotonic_ns();
}

void server_leave(struct server *server)
{
	settle(server);
	server->is_inside = false;
}

static void on_settle_timer(struct loop_timer *timer)
{
	struct server *server =
		(struct server *)((char *)timer - offsetof(struct server, settle_timer));

	server_enter(server);
	server_leave(server);
}

const char *server_date(struct server *server)
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (now.tv_sec != server->date_s && gmtime_r(&now.tv_sec, &tm)) {
		server->date_s = now.tv_sec;
		strftime(server->date, sizeof server->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
	}
	return server->date;
}

/* ---- number of connections ---- */

/* At most 3/4 of the descriptors: boxes need some, too. */
static size_t limit_connections(size_t wanted)
{
	struct rlimit limit;

	if (wanted == 0)
		wanted = SERVER_CONNECTIONS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    wanted > limit.rlim_cur / 4 * 3)
		wanted = limit.rlim_cur / 4 * 3;
	return wanted;
}

size_t server_max_connections(const struct server *server)
{
	return server->options.max_connections;
}

size_t server_connections(const struct server *server)
{
	return server->n_connections;
}

/* The number of connections above the limit that may be there to be answered by 503. */
static size_t max_refused(const struct server *server)
{
	size_t n = server->options.max_connections / 64 + 1;

	return n < SERVER_REFUSED_MAX ? n : SERVER_REFUSED_MAX;
}

void server_update_accepting(struct server *server)
{
	bool accepts =
		!server->is_stopping && !server->accept_timer.place &&
		server->n_connections < server->options.max_connections + max_refused(server);

	if (accepts == server->is_paused)
		server_accept(server, accepts);
}

static void on_accept_timer(struct loop_timer *timer)
{
	server_update_accepting(
		(struct server *)((char *)timer - offsetof(struct server, accept_timer)));
}

/* ---- new, stop, free ---- */

static void ignore(int number)
{
	(void)number;
}

/* sendfile() has no MSG_NOSIGNAL. A handler instead of SIG_IGN, because started programs inherit
 * SIG_IGN. */
static void catch_sigpipe(void)
{
	struct sigaction now, wanted = {.sa_handler = ignore, .sa_flags = SA_RESTART};

	if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		sigaction(SIGPIPE, &wanted, NULL);
}

static void on_stop_timer(struct loop_timer *timer);

int server_new(const struct server_options *options, struct server **ret, struct atoll_error *err)
{
	struct server *server = calloc(1, sizeof *server);
	struct server_options *own;

	/* Page-aligned: copies are faster. */
	if (!server || !(server->scratch = aligned_alloc(4096, SERVER_SCRATCH_SIZE))) {
		free(server);
		return error_oom(err);
	}
	server->options = *options;
	own = &server->options;
	own->max_connections = limit_connections(own->max_connections);
	own->head_timeout_s = own->head_timeout_s ?: SERVER_HEAD_TIMEOUT_S;
	own->idle_timeout_s = own->idle_timeout_s ?: SERVER_IDLE_TIMEOUT_S;
	server->announced_idle_s = own->idle_timeout_s > 10 ? own->idle_timeout_s - 5 : 1;
	server->loop = options->loop;
	server->touched_end = &server->touched;
	server->settle_timer.fire = on_settle_timer;
	server->accept_timer.fire = on_accept_timer;
	server->stop_timer.fire = on_stop_timer;
	server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	server->now_ns = clock_monotonic_ns();
	catch_sigpipe();
	*ret = server;
	return 0;
}

static void close_listeners(struct server *server)
{
	for (size_t i = 0; i < server->n_listeners; i++)
		listener_free(server->listeners[i]);
	server->n_listeners = 0;
}

static void call_stopped(struct server *server)
{
	void (*stopped)(void *data) = server->stopped;

	if (!stopped)
		return;
	server->stopped = NULL;
	loop_disarm(server->loop, &server->stop_timer);
	stopped(server->stopped_data);
}

static void on_stop_timer(struct loop_timer *timer)
{
	call_stopped((struct server *)((char *)timer - offsetof(struct server, stop_timer)));
}

/* The timer calls `stopped` from the event loop, not from the end of the exchange. */
void server_exchange_ended(struct server *server)
{
	if (server->is_stopping && server->n_exchanges == 0 && server->stopped)
		loop_arm(server->loop, &server->stop_timer, 0);
}

void server_stop(struct server *server, int64_t until_ns, void (*done)(void *data), void *data)
{
	server->is_stopping = true;
	server->stopped = done;
	server->stopped_data = data;
	close_listeners(server);
	for (struct connection *c = server->connections; c; c = c->next) {
		connection_close_after(c);
		if (!c->exchange)
			connection_break(c);
	}
	loop_arm(server->loop, &server->stop_timer, server->n_exchanges > 0 ? until_ns : 0);
}

void server_free(struct server *server)
{
	if (!server)
		return;
	server->is_stopping = true;
	server->is_inside = true;
	server->stopped = NULL;
	close_listeners(server);
	while (server->connections)
		connection_free(server->connections);
	tunnel_free_all(server);
	loop_drop_lane(server->loop, &server->strangers);
	loop_disarm(server->loop, &server->settle_timer);
	loop_disarm(server->loop, &server->accept_timer);
	loop_disarm(server->loop, &server->stop_timer);
	if (server->spare_fd >= 0)
		close(server->spare_fd);
	free(server->scratch);
	free(server->inflated);
	free(server);
}
