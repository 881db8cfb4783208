/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "box/box.h"
#include "daemon/daemon-options.h"
#include "httpd/api.h"
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
 *	house_open()	what is kept, and what lives already
 *	open_api()	the server and what it answers
 *	announce()	where, and with which key
 *	loop_run()	until SIGTERM; then streams get a while, and sandboxes live on
 */

#define USUAL_PLACE "127.0.0.1:8642"
#define STOP_NS	    (10 * INT64_C(1000000000))

struct daemon {
	struct daemon_options options;
	struct loop loop;
	struct loop_watch signals;
	struct loop_timer watchdog;
	int64_t watchdog_ns;
	struct house *house;
	struct api api;
	bool is_stopping;
	size_t n_places;
	char places[CONFIG_LISTEN_MAX][128];
	bool is_secure;
};

/* ---- its end ---- */

static void stopped(void *data)
{
	struct daemon *daemon = data;

	loop_stop(&daemon->loop);
}

static void stop(struct daemon *daemon)
{
	/* Asked twice: now. */
	if (daemon->is_stopping) {
		loop_stop(&daemon->loop);
		return;
	}
	daemon->is_stopping = daemon->api.is_stopping = true;
	notify_tell("STOPPING=1");
	server_stop(daemon->api.server, clock_monotonic_ns() + STOP_NS, stopped, daemon);
}

static void signal_came(struct loop_watch *watch, uint32_t events)
{
	struct daemon *daemon = (struct daemon *)((char *)watch - offsetof(struct daemon, signals));
	struct signalfd_siginfo info;

	(void)events;
	while (read(watch->fd, &info, sizeof info) == sizeof info)
		stop(daemon);
}

/* The loop turns: that is what there is to tell. */
static void tell_watchdog(struct loop_timer *timer)
{
	struct daemon *daemon =
		(struct daemon *)((char *)timer - offsetof(struct daemon, watchdog));

	notify_tell("WATCHDOG=1");
	loop_arm(&daemon->loop, timer, clock_monotonic_ns() + daemon->watchdog_ns);
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

static int prepare(struct daemon *daemon, struct atoll_error *err)
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
	daemon->signals = (struct loop_watch){.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
					      .ready = signal_came};
	r = daemon->signals.fd < 0 ? -errno : loop_init(&daemon->loop);
	if (r == 0)
		r = loop_watch(&daemon->loop, &daemon->signals, EPOLLIN);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "prepare the daemon's loop") : 0;
}

static int listen_at(struct daemon *daemon, const char *where, struct atoll_error *err)
{
	const struct daemon_options *options = &daemon->options;
	const char *certificate =
		options->certificate ? options->certificate : options->config.certificate;
	const char *key = options->key ? options->key : options->config.key;
	bool is_unix = starts_with(where, "unix:");
	int r = server_listen(daemon->api.server, where, is_unix ? NULL : certificate,
			      is_unix ? NULL : key, daemon->places[daemon->n_places], err);

	if (r < 0)
		return r;
	daemon->is_secure = certificate;
	daemon->n_places++;
	return 0;
}

/* What systemd hands over; else what the command line says; else the configuration. */
static int listen_everywhere(struct daemon *daemon, struct atoll_error *err)
{
	const struct daemon_options *options = &daemon->options;
	unsigned n_inherited = server_inherited();
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n_inherited && i < CONFIG_LISTEN_MAX; i++) {
		char where[16];

		snprintf(where, sizeof where, "fd:%u", 3 + i);
		r = listen_at(daemon, where, err);
	}
	for (size_t i = 0; r == 0 && !n_inherited && i < options->n_listen; i++)
		r = listen_at(daemon, options->listen[i], err);
	for (size_t i = 0;
	     r == 0 && !n_inherited && !options->n_listen && i < options->config.n_listen; i++)
		r = listen_at(daemon, options->config.listen[i], err);
	if (r == 0 && !daemon->n_places)
		r = listen_at(daemon, USUAL_PLACE, err);
	return r;
}

static int open_api(struct daemon *daemon, struct atoll_error *err)
{
	struct api *api = &daemon->api;
	const struct server_options options = {
		.loop = &daemon->loop, .handle = api_handle, .data = api};
	int r;

	api->house = daemon->house;
	api->loop = &daemon->loop;
	api->logs_requests = daemon->options.config.logs_requests;
	api->names = daemon->options.config.names;
	api->n_names = daemon->options.config.n_names;
	api->metrics = metrics_new();
	if (!api->metrics)
		return error_oom(err);
	r = server_new(&options, &api->server, err);
	if (r == 0)
		r = v1_open(api, daemon->options.dir, err);
	return r < 0 ? r : listen_everywhere(daemon, err);
}

/* ---- what it says ---- */

static void write_url(const struct daemon *daemon, size_t i, char *ret, size_t size)
{
	const char *place = daemon->places[i];

	if (starts_with(place, "unix:") || starts_with(place, "fd:"))
		snprintf(ret, size, "%s", place);
	else
		snprintf(ret, size, "http%s://%s", daemon->is_secure ? "s" : "", place);
}

/* The first key, for the tenant of whoever starts it; none if there is one already. */
static int make_first_key(struct daemon *daemon, char ret[48], struct atoll_error *err)
{
	struct tenant *tenant = tenant_find(daemon->house, "default");

	ret[0] = '\0';
	if (!tenant || tenant_has_keys(daemon->house))
		return 0;
	return tenant_new_key(tenant, "first", ret, err);
}

/* For commands of whoever has started it: a line with the place, one with a key that is kept for
 * them from start to start. */
static int write_local(struct daemon *daemon, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(4096);
	struct tenant *tenant = tenant_find(daemon->house, "default");
	char path[PATH_MAX], key[48] = "", *line;
	cleanup_fd int fd = -1;
	int r;

	if (!tenant)
		return 0;
	snprintf(path, sizeof path, "%.*s/local", PATH_MAX - 8, daemon->options.dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && fd_read_all(fd, &text) == 0 && text.data && (line = strchr(text.data, '\n')))
		snprintf(key, sizeof key, "%.*s", (int)strcspn(line + 1, "\n"), line + 1);
	if (tenant_find_key(daemon->house, key, strlen(key)) != tenant) {
		r = tenant_new_key(tenant, "local", key, err);
		if (r < 0)
			return r;
	}
	text.used = 0;
	buf_addf(&text, "%s\n%s\n", daemon->api.where, key);
	r = buf_error(&text) < 0 ? -ENOMEM : fd_write_text(path, text.data);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write '%s'", path) : 0;
}

/* A shell can read all of it. */
static int announce(struct daemon *daemon, struct atoll_error *err)
{
	char key[48], url[160];
	int r = make_first_key(daemon, key, err);

	if (r < 0)
		return r;
	write_url(daemon, 0, daemon->api.where, sizeof daemon->api.where);
	r = write_local(daemon, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < daemon->n_places; i++) {
		write_url(daemon, i, url, sizeof url);
		printf("# atoll serves at %s\n", url);
	}
	if (key[0])
		printf("# key of tenant default (shown once: only its hash is kept): %s\n", key);
	else
		printf("# keys are made by: atoll serve key new%s%s\n",
		       daemon->options.has_dir ? " --state " : "",
		       daemon->options.has_dir ? daemon->options.dir : "");
	printf("export E2B_API_URL=%s\nexport E2B_SANDBOX_URL=%s\n", daemon->api.where,
	       daemon->api.where);
	printf("%sexport E2B_API_KEY=%s\n", key[0] ? "" : "# ", key[0] ? key : "...");
	if (fflush(stdout) != 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "say where it listens");
	return 0;
}

static int serve(struct daemon *daemon, struct atoll_error *err)
{
	const struct house_options house = {.dir = daemon->options.dir,
					    .config = &daemon->options.config,
					    .loop = &daemon->loop};
	int r = prepare(daemon, err);

	if (r == 0)
		r = house_open(&house, &daemon->house, err);
	if (r == 0)
		house_settle(daemon->house);
	if (r == 0)
		r = open_api(daemon, err);
	if (r == 0)
		r = announce(daemon, err);
	if (r < 0)
		return r;
	daemon->watchdog_ns = notify_watchdog_ns();
	daemon->watchdog.fire = tell_watchdog;
	if (daemon->watchdog_ns)
		tell_watchdog(&daemon->watchdog);
	notify_tell("READY=1");
	r = loop_run(&daemon->loop);
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "wait for requests") : 0;
}

/* Boxes first: whoever talks to one hears that it is gone, and so does not take the end of his
 * exchange for a client that has left (for whom nothing need go on inside). Then the exchanges that
 * are still open: each has a tenant, and may have a timer of the house's. Then the house; of what
 * its threads still do nobody is left to be told. */
static void close_daemon(struct daemon *daemon)
{
	house_let_go(daemon->house);
	server_free(daemon->api.server);
	house_close(daemon->house, daemon->options.ends_sandboxes && daemon->is_stopping);
	v1_close(&daemon->api);
	metrics_free(daemon->api.metrics);
	if (daemon->signals.fd >= 0)
		close(daemon->signals.fd);
	loop_done(&daemon->loop);
}

int main(int argc, char **argv)
{
	static struct daemon daemon = {.signals.fd = -1};
	struct atoll_error err = {0};
	int r = options_read(argv + (argc > 0), &daemon.options, &err);

	daemon.loop.epoll_fd = -1;
	if (r == 0 && daemon.options.words[0]) {
		r = commands_run(&daemon.options, &err);
	} else if (r == 0) {
		r = serve(&daemon, &err);
		close_daemon(&daemon);
	}
	options_done(&daemon.options);
	if (r >= 0)
		return 0;
	fprintf(stderr, "atoll: %s\n", err.text);
	return err.fault == ATOLL_FAULT_REQUEST	 ? 240
	       : err.fault == ATOLL_FAULT_POLICY ? 241
	       : err.fault == ATOLL_FAULT_HOST	 ? 242
						 : 246;
}
