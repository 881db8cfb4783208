/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/box.h"
#include "daemon/daemon-options.h"
#include "e2b/e2b.h"
#include "httpd/httpd.h"
#include "v1/v1.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

/*
 * The daemon: started by `atoll serve`, or by systemd
 *
 *	prepare()	signals, descriptors
 *	daemon_open()	what is kept, and what lives already
 *	open_api()	the server and what it answers
 *	announce()	where, and with which key
 *	loop_run()	until SIGTERM; then streams get a while, and sandboxes live on
 */

#define USUAL_PLACE "127.0.0.1:8642"
#define STOP_NS	    (10 * INT64_C(1000000000))

/* The protocols that the daemon speaks, in the order in which the router asks them. */
static const struct api_protocol *const protocols[] = {&e2b_protocol, &v1_protocol, NULL};

struct serve {
	struct serve_options options;
	struct loop loop;
	struct loop_watch signals;
	struct loop_timer watchdog;
	int64_t watchdog_ns;
	struct daemon *daemon;
	struct api api;
	bool is_stopping;
	size_t n_places;
	char places[CONFIG_LISTEN_MAX][128];
	bool is_secure;
};

/* ---- its end ---- */

static void stopped(void *data)
{
	struct serve *serve = data;

	loop_stop(&serve->loop);
}

static void stop(struct serve *serve)
{
	/* Asked twice: now. */
	if (serve->is_stopping) {
		loop_stop(&serve->loop);
		return;
	}
	serve->is_stopping = serve->api.is_stopping = true;
	notify_send("STOPPING=1");
	server_stop(serve->api.server, clock_monotonic_ns() + STOP_NS, stopped, serve);
}

static void signal_came(struct loop_watch *watch, uint32_t events)
{
	struct serve *serve = (struct serve *)((char *)watch - offsetof(struct serve, signals));
	struct signalfd_siginfo info;

	(void)events;
	while (read(watch->fd, &info, sizeof info) == sizeof info)
		stop(serve);
}

/* The loop turns: that is what there is to tell. */
static void send_watchdog(struct loop_timer *timer)
{
	struct serve *serve = (struct serve *)((char *)timer - offsetof(struct serve, watchdog));

	notify_send("WATCHDOG=1");
	loop_arm(&serve->loop, timer, clock_monotonic_ns() + serve->watchdog_ns);
}

/* ---- its start ---- */

/* A sandbox takes some descriptors, and a connection one. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static int prepare(struct serve *serve, struct atoll_error *err)
{
	sigset_t set;
	int r;

	raise_descriptors();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	serve->signals = (struct loop_watch){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
					     .ready = signal_came};
	r = serve->signals.fd < 0 ? -errno : loop_init(&serve->loop);
	if (r == 0)
		r = loop_watch(&serve->loop, &serve->signals, EPOLLIN);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "prepare the daemon's loop") : 0;
}

static int listen_at(struct serve *serve, const char *where, struct atoll_error *err)
{
	const struct serve_options *options = &serve->options;
	const char *certificate =
		options->certificate ? options->certificate : options->config.certificate;
	const char *key = options->key ? options->key : options->config.key;
	bool is_unix = starts_with(where, "unix:");
	int r = server_listen(serve->api.server, where, is_unix ? NULL : certificate,
			      is_unix ? NULL : key, serve->places[serve->n_places], err);

	if (r < 0)
		return r;
	serve->is_secure = certificate;
	serve->n_places++;
	return 0;
}

/* What systemd hands over; else what the command line says; else the configuration. */
static int listen_everywhere(struct serve *serve, struct atoll_error *err)
{
	const struct serve_options *options = &serve->options;
	unsigned n_inherited = server_count_inherited();
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n_inherited && i < CONFIG_LISTEN_MAX; i++) {
		char where[16];

		snprintf(where, sizeof where, "fd:%u", 3 + i);
		r = listen_at(serve, where, err);
	}
	for (size_t i = 0; r == 0 && !n_inherited && i < options->n_listen; i++)
		r = listen_at(serve, options->listen[i], err);
	for (size_t i = 0;
	     r == 0 && !n_inherited && !options->n_listen && i < options->config.n_listen; i++)
		r = listen_at(serve, options->config.listen[i], err);
	if (r == 0 && !serve->n_places)
		r = listen_at(serve, USUAL_PLACE, err);
	return r;
}

static int open_api(struct serve *serve, struct atoll_error *err)
{
	struct api *api = &serve->api;
	const struct server_options options = {
		.loop = &serve->loop, .handle = api_handle, .data = api};
	int r;

	api->daemon = serve->daemon;
	api->loop = &serve->loop;
	api->logs_requests = serve->options.config.logs_requests;
	api->names = serve->options.config.names;
	api->n_names = serve->options.config.n_names;
	api->protocols = protocols;
	api->metrics = metrics_new();
	if (!api->metrics)
		return error_oom(err);
	r = server_new(&options, &api->server, err);
	if (r == 0)
		r = api_open_protocols(api, serve->options.dir, err);
	return r < 0 ? r : listen_everywhere(serve, err);
}

/* ---- what it says ---- */

static void write_url(const struct serve *serve, size_t i, char *ret, size_t size)
{
	const char *place = serve->places[i];

	if (starts_with(place, "unix:") || starts_with(place, "fd:"))
		snprintf(ret, size, "%s", place);
	else
		snprintf(ret, size, "http%s://%s", serve->is_secure ? "s" : "", place);
}

/* The first key, for the tenant of whoever starts it; none if there is one already. */
static int make_first_key(struct serve *serve, char ret[48], struct atoll_error *err)
{
	struct tenant *tenant = tenant_find(serve->daemon, "default");

	ret[0] = '\0';
	if (!tenant || tenant_has_keys(serve->daemon))
		return 0;
	return tenant_new_key(tenant, "first", ret, err);
}

/* For commands of whoever has started it: a line with the place, one with a key that is kept for
 * them from start to start. */
static int write_local(struct serve *serve, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	struct tenant *tenant = tenant_find(serve->daemon, "default");
	char path[PATH_MAX], key[48] = "", *line;
	cleanup_fd int fd = -1;
	int r;

	if (!tenant)
		return 0;
	snprintf(path, sizeof path, "%.*s/local", PATH_MAX - 8, serve->options.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && fd_read_all(fd, &text) == 0 && text.data && (line = strchr(text.data, '\n')))
		snprintf(key, sizeof key, "%.*s", (int)strcspn(line + 1, "\n"), line + 1);
	if (tenant_find_key(serve->daemon, key, strlen(key)) != tenant) {
		r = tenant_new_key(tenant, "local", key, err);
		if (r < 0)
			return r;
	}
	text.used = 0;
	buf_addf(&text, "%s\n%s\n", serve->api.where, key);
	r = buf_error(&text) < 0 ? -ENOMEM : fd_write_text(path, text.data);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write '%s'", path) : 0;
}

/* A shell can read all of it. */
static int announce(struct serve *serve, struct atoll_error *err)
{
	char key[48], url[160];
	int r = make_first_key(serve, key, err);

	if (r < 0)
		return r;
	write_url(serve, 0, serve->api.where, sizeof serve->api.where);
	r = write_local(serve, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < serve->n_places; i++) {
		write_url(serve, i, url, sizeof url);
		printf("# atoll serves at %s\n", url);
	}
	if (key[0])
		printf("# key of tenant default (shown once: only its hash is kept): %s\n", key);
	else
		printf("# keys are made by: atoll serve key new%s%s\n",
		       serve->options.has_dir ? " --state " : "",
		       serve->options.has_dir ? serve->options.dir : "");
	printf("export E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\n", serve->api.where,
	       serve->api.where);
	printf("%sexport E2B_API_KEY=%s\n", key[0] ? "" : "# ", key[0] ? key : "...");
	if (fflush(stdout) != 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "say where it listens");
	return 0;
}

static int run(struct serve *serve, struct atoll_error *err)
{
	const struct daemon_options daemon_options = {
		.dir = serve->options.dir, .config = &serve->options.config, .loop = &serve->loop};
	int r = prepare(serve, err);

	if (r == 0)
		r = daemon_open(&daemon_options, &serve->daemon, err);
	if (r == 0)
		daemon_wait_for_adoption(serve->daemon);
	if (r == 0)
		r = open_api(serve, err);
	if (r == 0)
		r = announce(serve, err);
	if (r < 0)
		return r;
	serve->watchdog_ns = notify_watchdog_ns();
	serve->watchdog.fire = send_watchdog;
	if (serve->watchdog_ns)
		send_watchdog(&serve->watchdog);
	notify_send("READY=1");
	r = loop_run(&serve->loop);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "wait for requests") : 0;
}

/* Boxes first: whoever talks to one hears that it is gone, and so does not take the end of his
 * exchange for a client that has left (for whom nothing need go on inside). Then the exchanges that
 * are still open: each has a tenant, and may have a timer of the daemon's. Then the daemon; of what
 * its threads still do nobody is left to be told. */
static void close_serve(struct serve *serve)
{
	daemon_disconnect(serve->daemon);
	server_free(serve->api.server);
	daemon_close(serve->daemon, serve->options.ends_sandboxes && serve->is_stopping);
	api_close_protocols(&serve->api);
	metrics_free(serve->api.metrics);
	if (serve->signals.fd >= 0)
		close(serve->signals.fd);
	loop_done(&serve->loop);
}

int main(int argc, char **argv)
{
	static struct serve serve = {.signals.fd = -1};
	struct atoll_error err = {0};
	int r = options_read(argv + (argc > 0), &serve.options, &err);

	serve.loop.epoll_fd = -1;
	if (r == 0 && serve.options.words[0]) {
		r = commands_run(&serve.options, &err);
	} else if (r == 0) {
		r = run(&serve, &err);
		close_serve(&serve);
	}
	options_done(&serve.options);
	if (r >= 0)
		return 0;
	fprintf(stderr, "atoll: %s\n", err.text);
	return err.fault == ATOLL_FAULT_REQUEST	 ? 240
	       : err.fault == ATOLL_FAULT_POLICY ? 241
	       : err.fault == ATOLL_FAULT_HOST	 ? 242
						 : 246;
}
