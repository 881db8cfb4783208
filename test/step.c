/* SPDX-License-Identifier: Apache-2.0 */
#include <atoll/step.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * Steps from a program with a loop, for tests: one command a run, the library through its header
 *
 *	step run|attach ID ... [--out FILE] [--err FILE] [-- COMMAND...]
 *
 * Output is written to files at its own offsets, beginning where they end: whoever was killed goes
 * on there. What is told is printed, a line each, and standard input is passed on.
 */

struct wish {
	struct atoll_step_options options;
	const char *out, *err;
	const char *extra[64];
	size_t n_extra;
	bool needs, detaches, is_quiet;
	uint64_t limit;	   /* of bytes, after which it goes */
	int pause_ms;	   /* after each piece */
	int signal, every; /* once it runs */
	uint32_t number;
};

static void fail(const char *what, const struct atoll_error *err)
{
	printf("failed %s: %s (%d)\n", what, err->text, err->errnum);
	fflush(stdout);
	exit(1);
}

static const char *const states[] = {"starting", "running", "ended", "lost"};
static const char *const ends[] = {"exited",	    "signaled",	  "timed-out",
				   "out-of-memory", "over-limit", "not-started"};

static const char *end_name(enum atoll_end end)
{
	switch (end) {
	case ATOLL_EXITED:
		return ends[0];
	case ATOLL_SIGNALED:
		return ends[1];
	case ATOLL_TIMED_OUT:
		return ends[2];
	case ATOLL_OUT_OF_MEMORY:
		return ends[3];
	case ATOLL_OVER_LIMIT:
		return ends[4];
	default:
		return ends[5];
	}
}

static void print_info(const struct atoll_step_info *info)
{
	printf("step %u pid %d %s key '%s' user '%s' out %" PRIu64 " err %" PRIu64 "\n",
	       info->number, info->pid, states[info->state], info->key, info->user, info->size[0],
	       info->size[1]);
	fflush(stdout);
}

static void print_end(const struct atoll_step *step)
{
	const struct atoll_step_info *info = atoll_step_info(step);
	const struct atoll_result *result = info->result;

	print_info(info);
	if (result)
		printf("end %s %d limit '%s' cpu %" PRIu64 " ms denials %u %s\n",
		       end_name(result->end), result->code, result->limit, result->cpu_ns / 1000000,
		       result->n_denials, atoll_step_error(step)->text);
	else
		printf("end unknown\n");
	fflush(stdout);
}

static int open_file(const char *path, uint64_t *ret_at)
{
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
	off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;

	*ret_at = end > 0 ? (uint64_t)end : 0;
	return fd;
}

/* All that there is; false: enough. */
static bool copy(struct atoll_step *step, int stream, int fd, uint64_t *at, const struct wish *wish)
{
	static char data[65536];
	ssize_t n;

	while (fd >= 0 && (n = atoll_step_read(step, stream, *at, data, sizeof data)) != 0) {
		if (n < 0) {
			printf("gap at %" PRIu64 ": %s\n", *at, strerror((int)-n));
			exit(1);
		}
		if (pwrite(fd, data, (size_t)n, (off_t)*at) != n)
			exit(1);
		*at += (uint64_t)n;
		if (wish->needs)
			atoll_step_need(step, stream, *at);
		if (wish->limit && *at >= wish->limit)
			return false;
		if (wish->pause_ms)
			poll(NULL, 0, wish->pause_ms);
	}
	return true;
}

/* Standard input as it comes; at its end that of the step. */
static void pass_input(struct atoll_step *step, bool *is_open)
{
	char data[4096];
	ssize_t n = read(0, data, sizeof data);
	int fd = atoll_step_input_fd(step);

	if (n <= 0) {
		atoll_step_close_input(step);
		*is_open = false;
		return;
	}
	for (ssize_t done = 0; done < n;) {
		ssize_t w = write(fd, data + done, (size_t)(n - done));

		if (w < 0 && errno == EAGAIN)
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1000);
		else if (w < 0)
			break;
		else
			done += w;
	}
}

static int follow(struct atoll_step *step, const struct wish *wish)
{
	uint64_t at[2];
	int files[2] = {open_file(wish->out, &at[0]), open_file(wish->err, &at[1])};
	const struct atoll_step_info *info = atoll_step_info(step);
	bool has_input = true, was_told = false;
	struct atoll_error err;

	for (int i = 0; wish->needs && i < 2; i++)
		atoll_step_need(step, i + 1, at[i]);
	for (;;) {
		struct pollfd fds[2] = {{.fd = atoll_step_fd(step), .events = POLLIN},
					{.fd = has_input && atoll_step_input_fd(step) >= 0 ? 0 : -1,
					 .events = POLLIN}};

		poll(fds, 2, -1);
		if (fds[0].revents && atoll_step_move(step, &err) < 0) {
			print_info(info);
			fail("move", &err);
		}
		if (!was_told && info->state != ATOLL_STEP_STARTING) {
			was_told = true;
			print_info(info);
			if (wish->signal)
				printf("signal %d\n",
				       atoll_step_signal(step, wish->signal, wish->every));
			if (wish->detaches)
				break;
		}
		if (fds[1].revents && info->state == ATOLL_STEP_RUNNING)
			pass_input(step, &has_input);
		for (int i = 0; i < 2; i++) {
			if (!copy(step, i + 1, files[i], &at[i], wish)) {
				printf("enough\n");
				atoll_step_detach(step);
				return 0;
			}
		}
		if (info->state >= ATOLL_STEP_ENDED) {
			print_end(step);
			break;
		}
	}
	atoll_step_detach(step);
	return 0;
}

static const char *const usage_text =
	"usage: step run ID [OPTIONS] -- COMMAND... | attach ID NUMBER [OPTIONS] | list ID | words "
	"ID "
	"NUMBER | start|stop|freeze|thaw|usage ID | network ID RULES | bench ID COUNT COMMAND...\n";

static int parse(struct wish *wish, char **argv)
{
	int i = 0;

	for (; argv[i] && strcmp(argv[i], "--") != 0; i++) {
		const char *name = argv[i];

		if (strcmp(name, "--stdin") == 0)
			wish->options.has_stdin = true;
		else if (strcmp(name, "--tty") == 0)
			wish->options.has_terminal = true;
		else if (strcmp(name, "--need") == 0)
			wish->needs = true;
		else if (strcmp(name, "--detach") == 0)
			wish->detaches = true;
		else if (strcmp(name, "--all") == 0)
			wish->every = 1;
		else if (strcmp(name, "--live") == 0)
			wish->options.needs_holder = true;
		else if (!argv[i + 1])
			exit(2);
		else if (strcmp(name, "--key") == 0)
			wish->options.key = argv[++i];
		else if (strcmp(name, "--user") == 0)
			wish->options.user = argv[++i];
		else if (strcmp(name, "--cwd") == 0)
			wish->options.cwd = argv[++i];
		else if (strcmp(name, "--env") == 0 && wish->n_extra < 63)
			wish->extra[wish->n_extra++] = argv[++i];
		else if (strcmp(name, "--timeout") == 0)
			wish->options.timeout_ms = strtoull(argv[++i], NULL, 10);
		else if (strcmp(name, "--columns") == 0)
			wish->options.columns = (uint16_t)atoi(argv[++i]);
		else if (strcmp(name, "--rows") == 0)
			wish->options.rows = (uint16_t)atoi(argv[++i]);
		else if (strcmp(name, "--out") == 0)
			wish->out = argv[++i];
		else if (strcmp(name, "--err") == 0)
			wish->err = argv[++i];
		else if (strcmp(name, "--limit") == 0)
			wish->limit = strtoull(argv[++i], NULL, 10);
		else if (strcmp(name, "--pause") == 0)
			wish->pause_ms = atoi(argv[++i]);
		else if (strcmp(name, "--signal") == 0)
			wish->signal = atoi(argv[++i]);
		else
			exit(2);
	}
	wish->options.env = (char *const *)(void *)wish->extra;
	wish->options.argv = argv[i] ? argv + i + 1 : argv + i;
	return i;
}

/* One after the other, each waited for. */
static int bench(const char *id, int count, char **command)
{
	const struct atoll_step_options options = {.argv = command, .channel_fd = -1};
	struct timespec a, b;
	struct atoll_error err;
	int n_ok = 0;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < count; i++) {
		struct atoll_step *step;

		if (atoll_step_start(id, &options, &step, &err) < 0)
			fail("start", &err);
		while (atoll_step_info(step)->state < ATOLL_STEP_ENDED) {
			poll(&(struct pollfd){.fd = atoll_step_fd(step), .events = POLLIN}, 1, -1);
			if (atoll_step_move(step, &err) < 0)
				fail("move", &err);
		}
		n_ok += atoll_step_info(step)->result->end == ATOLL_EXITED;
		atoll_step_detach(step);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%d of %d, %.1f us each\n", n_ok, count,
	       ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) /
		       count);
	return 0;
}

static void print_words(const char *title, char *const *words)
{
	for (size_t i = 0; words && words[i]; i++)
		printf("%s %s\n", title, words[i]);
}

static int list(const char *id)
{
	struct atoll_step_info *infos;
	struct atoll_error err;
	size_t n;

	if (atoll_steps_list(id, &infos, &n, &err) < 0)
		fail("list", &err);
	for (size_t i = 0; i < n; i++)
		print_info(&infos[i]);
	free(infos);
	return 0;
}

static int show_words(const char *id, uint32_t number)
{
	struct atoll_step *step;
	struct atoll_error err;

	if (atoll_step_attach(id, number, &step, &err) < 0)
		fail("attach", &err);
	poll(&(struct pollfd){.fd = atoll_step_fd(step), .events = POLLIN}, 1, -1);
	if (atoll_step_move(step, &err) < 0)
		fail("move", &err);
	printf("cwd %s\n", atoll_step_cwd(step));
	print_words("argv", atoll_step_argv(step));
	print_words("env", atoll_step_env(step));
	atoll_step_detach(step);
	return 0;
}

static int whole(const char *what, const char *id, const char *rules)
{
	struct atoll_sandbox_usage usage;
	struct atoll_error err;
	int r;

	if (strcmp(what, "start") == 0)
		r = atoll_sandbox_start(id, &err);
	else if (strcmp(what, "stop") == 0)
		r = atoll_sandbox_stop(id, &err);
	else if (strcmp(what, "freeze") == 0)
		r = atoll_sandbox_freeze(id, &err);
	else if (strcmp(what, "thaw") == 0)
		r = atoll_sandbox_thaw(id, &err);
	else if (strcmp(what, "network") == 0)
		r = atoll_sandbox_set_network(id, rules, &err);
	else
		r = atoll_sandbox_usage(id, &usage, &err);
	if (r < 0)
		fail(what, &err);
	if (strcmp(what, "usage") == 0)
		printf("{\"cpu_ms\":%" PRIu64 ",\"memory\":%" PRIu64 ",\"memory_peak\":%" PRIu64
		       ",\"processes\":%" PRIu64 ",\"disk\":%" PRIu64 ",\"in\":%" PRIu64
		       ",\"out\":%" PRIu64 ",\"steps\":%u,\"frozen\":%d}\n",
		       usage.cpu_ms, usage.memory, usage.memory_peak, usage.processes, usage.disk,
		       usage.bytes_in, usage.bytes_out, usage.steps, usage.is_frozen);
	return 0;
}

int main(int argc, char **argv)
{
	struct wish wish = {.options.channel_fd = -1};
	struct atoll_error err;
	struct atoll_step *step;

	if (argc < 3) {
		fputs(usage_text, stderr);
		return 2;
	}
	if (strcmp(argv[1], "run") == 0) {
		parse(&wish, argv + 3);
		if (atoll_step_start(argv[2], &wish.options, &step, &err) < 0)
			fail("start", &err);
		return follow(step, &wish);
	}
	if (strcmp(argv[1], "list") == 0)
		return list(argv[2]);
	if (strcmp(argv[1], "bench") == 0 && argc > 4)
		return bench(argv[2], atoi(argv[3]), argv + 4);
	if (strcmp(argv[1], "words") == 0 && argc > 3)
		return show_words(argv[2], (uint32_t)atoi(argv[3]));
	if (strcmp(argv[1], "attach") == 0 && argc > 3) {
		parse(&wish, argv + 4);
		if (atoll_step_attach(argv[2], (uint32_t)atoi(argv[3]), &step, &err) < 0)
			fail("attach", &err);
		return follow(step, &wish);
	}
	return whole(argv[1], argv[2], argc > 3 ? argv[3] : "");
}
