/* SPDX-License-Identifier: Apache-2.0 */
#include "netctl/secrets.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "spec/network.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define VALUE_MAX  (64U << 10)
#define COMMAND_NS (30 * INT64_C(1000000000))

/* A placeholder keeps the prefix by which programs recognise a kind of key. A prefix that the
 * vendor documents is not secret. Of other values the first word ("acme_") is kept, if it is short
 * and much follows: else it may be a part of the secret. */
#define PREFIX_MAX    8
#define PREFIX_BEHIND 16

static const char *const known_prefixes[] = {
	"sk-ant-",			    /* Anthropic */
	"sk-proj-",    "sk-",		    /* OpenAI, and many who speak its protocol */
	"github_pat_", "ghp_",	   "gho_",  /* GitHub: tokens of people, of applications */
	"ghu_",	       "ghs_",	   "ghr_",  /* the same */
	"glpat-",      "glptt-",	    /* GitLab */
	"npm_",				    /* npm */
	"pypi-",			    /* PyPI */
	"hf_",				    /* Hugging Face */
	"xoxb-",       "xoxp-",	   "xapp-", /* Slack */
	"sk_live_",    "sk_test_",	    /* Stripe */
	"rk_live_",    "rk_test_",	    /* the same, restricted */
	"AKIA",	       "ASIA",		    /* AWS: access key ids */
	"AIza",				    /* Google */
	"e2b_",				    /* E2B */
};

/* With fewer random characters a placeholder could be guessed, or occur by chance. */
#define PLACES_MIN 6

extern char **environ;

void *secrets_alloc(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/* Before Linux 4.14 a forked child would have the values: refuse. */
	if (madvise(memory, size, MADV_WIPEONFORK) < 0) {
		munmap(memory, size);
		return NULL;
	}
	madvise(memory, size, MADV_DONTDUMP);
	return memory;
}

void secrets_free(void *memory, size_t used, size_t size)
{
	if (!memory)
		return;
	sodium_memzero(memory, used);
	munmap(memory, size);
}

/* ---- placeholders ---- */

static size_t known_prefix(const char *value, size_t size)
{
	size_t length = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known_prefixes); i++) {
		size_t n = strlen(known_prefixes[i]);

		if (n > length && n < size && memcmp(value, known_prefixes[i], n) == 0)
			length = n;
	}
	return length;
}

static size_t first_word(const char *value, size_t size)
{
	size_t length = 0;

	while (length < size && value[length] != '-' && value[length] != '_')
		length++;
	while (length < size && (value[length] == '-' || value[length] == '_'))
		length++;
	return length <= PREFIX_MAX && length + PREFIX_BEHIND <= size ? length : 0;
}

/* A random character of the same class, independent of the locale. */
static char random_of_same_class(char c)
{
	if (c >= 'a' && c <= 'z')
		return (char)('a' + randombytes_uniform(26));
	if (c >= 'A' && c <= 'Z')
		return (char)('A' + randombytes_uniform(26));
	if (c >= '0' && c <= '9')
		return (char)('0' + randombytes_uniform(10));
	return c;
}

static bool is_variable(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static size_t count_places(const char *value, size_t size, size_t from)
{
	size_t places = 0;

	for (size_t i = from; i < size; i++)
		places += is_variable(value[i]);
	return places;
}

/* Length of the visible prefix: the hidden rest stays long enough. */
static size_t prefix_length(const char *value, size_t size)
{
	size_t known = known_prefix(value, size);

	if (known > 0 && count_places(value, size, known) >= PLACES_MIN)
		return known;
	return first_word(value, size);
}

int secrets_placeholder(const char *value, size_t size, char *ret)
{
	size_t prefix = prefix_length(value, size);

	if (count_places(value, size, prefix) < PLACES_MIN)
		return -EINVAL;
	ret[size] = '\0';
	do {
		for (size_t i = 0; i < size; i++)
			ret[i] = i < prefix ? value[i] : random_of_same_class(value[i]);
	} while (memcmp(ret, value, size) == 0);
	return 0;
}

/* ---- reading values ---- */

static int fail(const struct network_secret *secret, struct atoll_error *err, int errnum,
		const char *what)
{
	return error_set(err, ATOLL_FAULT_REQUEST, errnum, "secret %s (%s): %s", secret->name,
			 secret->origin, what);
}

static int read_env(const struct network_secret *secret, char *ret, size_t *ret_size,
		    struct atoll_error *err)
{
	const char *value = getenv(secret->from);
	size_t size;

	if (!value)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "secret %s (%s): the variable %s is not set here; set it, or take "
				 "the value from a file or a command (from: file:PATH)",
				 secret->name, secret->origin, secret->from);
	size = strlen(value);
	if (size > VALUE_MAX)
		return fail(secret, err, 0, "its value is longer than 64 KiB");
	memcpy(ret, value, size);
	*ret_size = size;
	return 0;
}

/* Read to the end of the file, for a bounded time, straight into `ret`: no other copy is made. */
static int read_value(int fd, int64_t until_ns, char *ret, size_t *ret_size)
{
	size_t size = 0;

	for (;;) {
		struct pollfd more = {.fd = fd, .events = POLLIN};
		int64_t left_ms = (until_ns - clock_monotonic_ns()) / 1000000;
		ssize_t got;
		int ready;

		if (left_ms <= 0)
			return -ETIMEDOUT;
		ready = poll(&more, 1, (int)left_ms);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready <= 0)
			continue;
		/* Ask for one byte beyond the limit, to notice a value that is too long. */
		got = read(fd, ret + size, VALUE_MAX + 1 - size);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0) {
			*ret_size = size;
			return 0;
		}
		size += got > 0 ? (size_t)got : 0;
		if (size > VALUE_MAX)
			return -E2BIG;
	}
}

static int read_file(const struct network_secret *secret, char *ret, size_t *ret_size,
		     struct atoll_error *err)
{
	cleanup_fd int fd = open(secret->from, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, errno, "secret %s (%s): open '%s'",
				 secret->name, secret->origin, secret->from);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "secret %s (%s): '%s' is not a plain file", secret->name,
				 secret->origin, secret->from);
	r = read_value(fd, clock_monotonic_ns() + COMMAND_NS, ret, ret_size);
	if (r == -E2BIG)
		return fail(secret, err, 0, "its file is larger than 64 KiB");
	return r < 0 ? fail(secret, err, -r, "read its file") : 0;
}

/* The command has the caller's terminal (it may ask for a passphrase), standard error and
 * environment. */
static _Noreturn void execute(const char *line, int output, const sigset_t *mask)
{
	dup2(output, STDOUT_FILENO);
	fd_close_range(3, ~0U, true);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execle("/bin/sh", "sh", "-c", line, (char *)NULL, environ);
	_exit(127);
}

static pid_t spawn(const char *line, int output)
{
	sigset_t all, old;
	pid_t pid;

	/* After vfork() both processes share memory: no signal handler may run. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = vfork();
	if (pid == 0)
		execute(line, output, &old);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}

static int start_command(const struct network_secret *secret, int *ret_output, pid_t *ret_pid,
			 struct atoll_error *err)
{
	cleanup_fd int ours = -1, theirs = -1;
	int made[2];

	if (pipe2(made, O_CLOEXEC) < 0)
		return fail(secret, err, errno, "make a pipe");
	ours = fd_above_stdio(made[0]);
	theirs = fd_above_stdio(made[1]);
	/* Without the pipe the command would print the secret on the caller's standard output. */
	if (ours < 0 || theirs < 0)
		return fail(secret, err, ours < 0 ? -ours : -theirs, "make a pipe");
	*ret_pid = spawn(secret->from, theirs);
	if (*ret_pid < 0)
		return fail(secret, err, errno, "start its command");
	*ret_output = take_fd(&ours);
	return 0;
}

/* The exit status; -1 if the command was killed; 0 if unknown (SIGCHLD is ignored). */
static int end_command(pid_t pid, int64_t until_ns)
{
	cleanup_fd int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd end = {.fd = pid_fd, .events = POLLIN};
	int64_t left_ms = (until_ns - clock_monotonic_ns()) / 1000000;
	int status = 0;

	if (pid_fd >= 0 && (left_ms <= 0 || poll(&end, 1, (int)left_ms) == 0))
		syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, NULL, 0);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return 0;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int read_command(const struct network_secret *secret, char *ret, size_t *ret_size,
			struct atoll_error *err)
{
	int64_t until_ns = clock_monotonic_ns() + COMMAND_NS;
	cleanup_fd int output = -1;
	int r, status;
	pid_t pid = -1;

	r = start_command(secret, &output, &pid, err);
	if (r < 0)
		return r;
	r = read_value(output, until_ns, ret, ret_size);
	status = end_command(pid, r < 0 ? 0 : until_ns);
	if (r == -ETIMEDOUT || (r == 0 && status < 0))
		return fail(secret, err, 0, "its command took more than 30 s, or was killed");
	if (r == -E2BIG)
		return fail(secret, err, 0, "its command printed more than 64 KiB");
	if (r < 0)
		return fail(secret, err, -r, "read what its command prints");
	if (status != 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "secret %s (%s): its command failed with status %d", secret->name,
				 secret->origin, status);
	return 0;
}

/* ---- all secrets of a contract ---- */

static void drop_line_end(char *value, size_t *size)
{
	if (*size > 0 && value[*size - 1] == '\n')
		--*size;
	if (*size > 0 && value[*size - 1] == '\r')
		--*size;
	value[*size] = '\0';
}

/* Refuse now what no HTTP header can contain; else the first request would fail. */
static int check_value(const struct network_secret *secret, const char *value, size_t size,
		       struct atoll_error *err)
{
	static const char *const fixes[] = {
		[NETWORK_FROM_ENV] = "the variable is empty; set it",
		[NETWORK_FROM_FILE] = "the file is empty; put the value there",
		[NETWORK_FROM_COMMAND] = "the command printed nothing on standard output",
		[NETWORK_FROM_DAEMON] = "it is a daemon's",
	};

	if (size == 0)
		return fail(secret, err, 0, fixes[secret->source]);
	for (size_t i = 0; i < size; i++) {
		if ((unsigned char)value[i] < 0x20 || (unsigned char)value[i] >= 0x7f)
			return fail(secret, err, 0,
				    "its value holds a line end or another character that no "
				    "header can; it has to be the value alone");
	}
	return 0;
}

static const struct secret *find_same(const struct network *network, const struct secrets *secrets,
				      size_t n)
{
	const struct network_secret *one = &network->secrets[n];

	for (size_t i = 0; i < n; i++) {
		const struct network_secret *other = &network->secrets[i];

		if (streq(one->name, other->name) && one->source == other->source &&
		    streq(one->from, other->from))
			return &secrets->list[i];
	}
	return NULL;
}

static int read_one(const struct network_secret *secret, struct secrets *secrets,
		    struct secret *ret, struct atoll_error *err)
{
	char *value = secrets->memory + secrets->used;
	size_t size = 0;
	int r;

	if (secret->source == NETWORK_FROM_ENV)
		r = read_env(secret, value, &size, err);
	else if (secret->source == NETWORK_FROM_DAEMON)
		r = fail(secret, err, 0,
			 "'secret:NAME' is what a tenant of a daemon has stored there; here take "
			 "it from env, a file or a command");
	else if (secret->source == NETWORK_FROM_FILE)
		r = read_file(secret, value, &size, err);
	else
		r = read_command(secret, value, &size, err);
	if (r < 0)
		return r;
	if (secret->source != NETWORK_FROM_ENV)
		drop_line_end(value, &size);
	r = check_value(secret, value, size, err);
	if (r < 0)
		return r;
	ret->placeholder = malloc(size + 1);
	if (!ret->placeholder)
		return error_oom(err);
	ret->placeholder[0] = '\0';
	if (secrets_placeholder(value, size, ret->placeholder) < 0 && !secret->is_set)
		return fail(secret, err, 0,
			    "its value is too short to be kept apart from other text; six letters "
			    "or digits are the least");
	ret->value = value;
	ret->size = size;
	secrets->used += size + 1;
	return 0;
}

int secrets_read(const struct network *network, struct secrets *ret, struct atoll_error *err)
{
	int r = 0;

	*ret = (struct secrets){0};
	if (network->n_secrets == 0)
		return 0;
	ret->room = network->n_secrets * (VALUE_MAX + 2);
	ret->memory = secrets_alloc(ret->room);
	ret->list = calloc(network->n_secrets, sizeof *ret->list);
	if (!ret->memory || !ret->list)
		r = error_oom(err);
	for (; r == 0 && ret->n < network->n_secrets; ret->n++) {
		const struct secret *same = find_same(network, ret, ret->n);
		struct secret *secret = &ret->list[ret->n];

		/* A variable has one placeholder, also if several hosts get the secret. */
		if (!same) {
			r = read_one(&network->secrets[ret->n], ret, secret, err);
			continue;
		}
		*secret = *same;
		secret->placeholder = strdup(same->placeholder);
		r = secret->placeholder ? 0 : error_oom(err);
	}
	if (r < 0)
		secrets_done(ret);
	return r;
}

void secrets_forget(struct secrets *secrets)
{
	/* Wipe all of it: a value whose reading failed lies behind the used part. */
	secrets_free(secrets->memory, secrets->room, secrets->room);
	secrets->memory = NULL;
	for (size_t i = 0; secrets->list && i < secrets->n; i++)
		secrets->list[i].value = NULL;
}

void secrets_done(struct secrets *secrets)
{
	secrets_forget(secrets);
	for (size_t i = 0; secrets->list && i < secrets->n; i++)
		free(secrets->list[i].placeholder);
	free(secrets->list);
	*secrets = (struct secrets){0};
}
