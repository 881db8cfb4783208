/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A client of the daemon whose own cost is small, for test/perf/serve.py and the load test
 *
 *	serve turns PORT KEY ROUNDS
 *		plain fork+exec, exec in a live sandbox, and create + exec + kill in turn; prints
 *		"plain NS exec NS first NS kill NS" each
 *	serve cycles PORT KEY SECONDS THREADS
 *		create, exec, kill; prints "count seconds"
 *	serve execs PORT KEY SECONDS THREADS
 *		exec in a live sandbox of each thread's own; the same
 *	serve hold PORT KEY COUNT
 *		so many sandboxes, or as many as there can be; prints "held N", kills them at the
 *		end of stdin
 *	serve creates PORT KEY ROUNDS [PAUSE_MS]
 *		create, the first command and its result, kill, and a pause (30 ms); prints
 *		"create NS first NS" each
 *	serve pace PORT KEY COUNT SECONDS
 *		so many sandboxes, "held N", and a step in each of them every second; prints
 *		"steps N seconds S median US p99 US", and kills them at the end of stdin
 *
 * Speaks E2B's protocol, as its clients do, over connections that are kept. "first" is create, the
 * first command and its result. The command is /bin/true throughout.
 */

#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct client {
	int fd;
	size_t used;
	char data[65536];
};

struct sandbox {
	char id[64], token[64];
};

static uint16_t port;
static const char *key;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- HTTP ---- */

static void client_open(struct client *client)
{
	const struct sockaddr_in where = {.sin_family = AF_INET,
					  .sin_port = htons(port),
					  .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const int on = 1;

	client->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (client->fd < 0 ||
	    connect(client->fd, (const struct sockaddr *)&where, sizeof where) < 0)
		err(1, "connect to port %u", port);
	setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void more(struct client *client)
{
	ssize_t got = read(client->fd, client->data + client->used,
			   sizeof client->data - 1 - client->used);

	if (got <= 0)
		errx(1, "the daemon hung up after %.200s", client->data);
	client->used += (size_t)got;
	client->data[client->used] = '\0';
}

/* Send, and read the whole answer: its status. What is in `data` then is the answer. */
static int ask(struct client *client, const char *request, size_t size)
{
	const char *end, *at;

	if (write(client->fd, request, size) != (ssize_t)size)
		err(1, "write");
	client->used = 0;
	client->data[0] = '\0';
	while (!(end = strstr(client->data, "\r\n\r\n")))
		more(client);
	if ((at = strcasestr(client->data, "\r\ncontent-length: ")) && at < end) {
		size_t all = (size_t)(end + 4 - client->data) + strtoul(at + 18, NULL, 10);

		while (client->used < all)
			more(client);
	} else if ((at = strcasestr(client->data, "\r\ntransfer-encoding: chunked")) && at < end) {
		while (client->used < 5 ||
		       memcmp(client->data + client->used - 5, "0\r\n\r\n", 5) != 0)
			more(client);
	}
	return atoi(client->data + 9);
}

static void take(const struct client *client, const char *name, char *ret, size_t size)
{
	char pattern[64];
	const char *at;

	snprintf(pattern, sizeof pattern, "\"%s\":", name);
	at = strstr(client->data, pattern);
	if (!at)
		errx(1, "no %s in %.300s", name, client->data);
	at += strlen(pattern);
	at += strspn(at, " \"");
	snprintf(ret, size, "%.*s", (int)strcspn(at, "\""), at);
}

/* ---- the protocol ---- */

static bool try_create(struct client *client, struct sandbox *ret)
{
	static const char body[] = "{\"templateID\":\"base\",\"timeout\":7200}";
	char text[1024];
	int n = snprintf(text, sizeof text,
			 "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n"
			 "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			 key, sizeof body - 1, body);

	if (ask(client, text, (size_t)n) != 201)
		return false;
	take(client, "sandboxID", ret->id, sizeof ret->id);
	take(client, "envdAccessToken", ret->token, sizeof ret->token);
	return true;
}

static void create(struct client *client, struct sandbox *ret)
{
	if (!try_create(client, ret))
		errx(1, "create: %.400s", client->data);
}

static void run(struct client *client, const struct sandbox *sandbox)
{
	static const char body[] = "{\"process\":{\"cmd\":\"/bin/true\"},\"stdin\":false}";
	const uint32_t size = htonl(sizeof body - 1);
	char text[1024];
	int n = snprintf(text, sizeof text,
			 "POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\n"
			 "E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n"
			 "Connect-Protocol-Version: 1\r\nContent-Type: application/connect+json\r\n"
			 "Content-Length: %zu\r\n\r\n",
			 sandbox->id, sandbox->token, sizeof body - 1 + 5);

	text[n++] = 0;
	memcpy(text + n, &size, 4);
	memcpy(text + n + 4, body, sizeof body - 1);
	if (ask(client, text, (size_t)n + 4 + sizeof body - 1) != 200 ||
	    !memmem(client->data, client->used, "exit status 0", 13))
		errx(1, "exec: %.400s", client->data);
}

static void end(struct client *client, const struct sandbox *sandbox)
{
	char text[512];
	int n = snprintf(
		text, sizeof text,
		"DELETE /sandboxes/%s HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: %s\r\n\r\n",
		sandbox->id, key);

	if (ask(client, text, (size_t)n) != 204)
		errx(1, "kill: %.400s", client->data);
}

static void plain(void)
{
	char *argv[] = {(char *)"true", NULL};
	int status;
	pid_t pid;

	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) != 0 ||
	    waitpid(pid, &status, 0) != pid || status != 0)
		errx(1, "plain");
}

/* ---- what is measured ---- */

static void turns(long rounds)
{
	static struct client client;
	struct sandbox live, fresh;

	client_open(&client);
	create(&client, &live);
	run(&client, &live);
	for (long i = 0; i < rounds; i++) {
		int64_t t0 = now_ns(), t1, t2, t3, t4;

		plain();
		t1 = now_ns();
		run(&client, &live);
		t2 = now_ns();
		create(&client, &fresh);
		run(&client, &fresh);
		t3 = now_ns();
		end(&client, &fresh);
		t4 = now_ns();
		printf("plain %ld exec %ld first %ld kill %ld\n", t1 - t0, t2 - t1, t3 - t2,
		       t4 - t3);
		fflush(stdout);
		/* A person's pace: the pool is refilled meanwhile. */
		usleep(30000);
	}
	end(&client, &live);
}

static void creates(long rounds, long pause_ms)
{
	static struct client client;
	struct sandbox fresh;

	client_open(&client);
	for (long i = 0; i < rounds; i++) {
		int64_t before = now_ns(), made;

		create(&client, &fresh);
		made = now_ns();
		run(&client, &fresh);
		printf("create %ld first %ld\n", made - before, now_ns() - before);
		fflush(stdout);
		end(&client, &fresh);
		usleep((useconds_t)pause_ms * 1000);
	}
}

/* As many as there can be: how many that is, and why there are no more. */
static struct sandbox *make_all(struct client *client, long *count)
{
	struct sandbox *all = calloc((size_t)*count, sizeof *all);
	long n = 0;

	if (!all)
		err(1, "memory");
	while (n < *count && try_create(client, &all[n]))
		n++;
	if (n < *count)
		warnx("create: %.400s", client->data);
	*count = n;
	printf("held %ld\n", n);
	fflush(stdout);
	return all;
}

static void end_all(struct client *client, struct sandbox *all, long count)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
	/* The other one was idle for too long, perhaps. */
	close(client->fd);
	client_open(client);
	for (long i = 0; i < count; i++)
		end(client, &all[i]);
	free(all);
}

static void hold(long count)
{
	static struct client client;
	struct sandbox *all;

	client_open(&client);
	all = make_all(&client, &count);
	end_all(&client, all, count);
}

static atomic_long done;
static int64_t until_ns;

static void *cycle(void *data)
{
	struct client *client = calloc(1, sizeof *client);
	struct sandbox fresh;

	(void)data;
	if (!client)
		err(1, "memory");
	client_open(client);
	while (now_ns() < until_ns) {
		create(client, &fresh);
		run(client, &fresh);
		end(client, &fresh);
		atomic_fetch_add(&done, 1);
	}
	free(client);
	return NULL;
}

static void *keep_running(void *data)
{
	struct client *client = calloc(1, sizeof *client);
	struct sandbox own;

	(void)data;
	if (!client)
		err(1, "memory");
	client_open(client);
	create(client, &own);
	while (now_ns() < until_ns) {
		run(client, &own);
		atomic_fetch_add(&done, 1);
	}
	end(client, &own);
	free(client);
	return NULL;
}

static void crowd(void *(*work)(void *), long seconds, long threads)
{
	pthread_t *all = calloc((size_t)threads, sizeof *all);
	int64_t start = now_ns();

	if (!all)
		err(1, "memory");
	until_ns = start + seconds * INT64_C(1000000000);
	for (long i = 0; i < threads; i++) {
		errno = pthread_create(&all[i], NULL, work, NULL);
		if (errno)
			err(1, "thread");
	}
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	printf("%ld %.3f\n", atomic_load(&done), (double)(now_ns() - start) / 1e9);
	free(all);
}

/* ---- a step a second ---- */

#define PACERS 32

struct pacer {
	pthread_t thread;
	const struct sandbox *all;
	long first, step, count, seconds;
	int64_t start_ns, *taken;
	size_t n;
};

static void *keep_pace(void *data)
{
	struct pacer *pacer = data;
	struct client *client = calloc(1, sizeof *client);

	if (!client)
		err(1, "memory");
	client_open(client);
	for (long second = 0; second < pacer->seconds; second++) {
		int64_t left_ns = pacer->start_ns + second * INT64_C(1000000000) - now_ns();

		if (left_ns > 0)
			usleep((useconds_t)(left_ns / 1000));
		for (long i = pacer->first; i < pacer->count; i += pacer->step) {
			int64_t before = now_ns();

			run(client, &pacer->all[i]);
			pacer->taken[pacer->n++] = now_ns() - before;
		}
	}
	close(client->fd);
	free(client);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void run_pacers(const struct sandbox *all, long count, long seconds)
{
	const long n = count < PACERS ? count : PACERS;
	int64_t *taken = calloc((size_t)(count * seconds), sizeof *taken), start_ns = now_ns();
	struct pacer pacers[PACERS];
	size_t total = 0;

	if (!taken)
		err(1, "memory");
	for (long i = 0; i < n; i++) {
		pacers[i] = (struct pacer){
			.all = all,
			.first = i,
			.step = n,
			.count = count,
			.seconds = seconds,
			.start_ns = start_ns,
			.taken = calloc((size_t)((count / n + 1) * seconds), sizeof *taken)};
		errno = pthread_create(&pacers[i].thread, NULL, keep_pace, &pacers[i]);
		if (errno || !pacers[i].taken)
			err(1, "thread");
	}
	for (long i = 0; i < n; i++) {
		pthread_join(pacers[i].thread, NULL);
		memcpy(taken + total, pacers[i].taken, pacers[i].n * sizeof *taken);
		total += pacers[i].n;
		free(pacers[i].taken);
	}
	qsort(taken, total, sizeof *taken, compare);
	printf("steps %zu seconds %.3f median %ld p99 %ld\n", total,
	       (double)(now_ns() - start_ns) / 1e9, taken[total / 2] / 1000,
	       taken[total * 99 / 100] / 1000);
	fflush(stdout);
	free(taken);
}

static void pace(long count, long seconds)
{
	static struct client client;
	struct sandbox *all;

	client_open(&client);
	all = make_all(&client, &count);
	if (count == 0)
		errx(1, "no sandbox could be made");
	run_pacers(all, count, seconds);
	end_all(&client, all, count);
}

int main(int argc, char **argv)
{
	long number = argc > 4 ? atol(argv[4]) : 0, threads = argc > 5 ? atol(argv[5]) : 1;

	if (argc < 5 || number <= 0 || threads <= 0)
		errx(2,
		     "usage: serve turns|cycles|execs|hold|creates|pace PORT KEY NUMBER [NUMBER]");
	port = (uint16_t)atoi(argv[2]);
	key = argv[3];
	if (strcmp(argv[1], "turns") == 0)
		turns(number);
	else if (strcmp(argv[1], "creates") == 0)
		creates(number, argc > 5 ? threads : 30);
	else if (strcmp(argv[1], "hold") == 0)
		hold(number);
	else if (strcmp(argv[1], "pace") == 0)
		pace(number, threads);
	else if (strcmp(argv[1], "cycles") == 0)
		crowd(cycle, number, threads);
	else if (strcmp(argv[1], "execs") == 0)
		crowd(keep_running, number, threads);
	else
		errx(2, "no such measurement: %s", argv[1]);
	return 0;
}
