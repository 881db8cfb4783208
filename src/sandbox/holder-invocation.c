/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/holder-invocation.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "sandbox/holder-detached.h"
#include "sandbox/holder-protocol.h"
#include "sandbox/holder.h"
#include "spec/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static int set_invocation_error(struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_BUG, EBADMSG, "the step's words");
}

static int seal_invocation(const struct buf *invocation, struct atoll_error *err)
{
	cleanup_fd int fd = memfd_create("atoll-step", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : buf_error(invocation);

	if (r == 0)
		r = fd_write_all(fd, invocation->data, invocation->used);
	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		r = -errno;
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "keep the step's words") : take_fd(&fd);
}

/* The placeholder of a secret, if the variable is one's. */
static const char *placeholder(const struct holder *holder, const char *variable)
{
	const struct network *network = &holder->spec->network;

	for (size_t i = 0; i < network->n_secrets && i < holder->net.secrets.n; i++) {
		size_t length = strlen(network->secrets[i].name);

		if (!network->secrets[i].is_set &&
		    strncmp(variable, network->secrets[i].name, length) == 0 &&
		    variable[length] == '=')
			return holder->net.secrets.list[i].placeholder;
	}
	return NULL;
}

int invocation_copy(const struct holder *holder, int fd, struct atoll_error *err)
{
	cleanup_buf struct buf text = BUF_INIT(INIT_STEP_MAX),
			       invocation = BUF_INIT(2 * INIT_STEP_MAX);
	struct init_step_head head;
	size_t at = sizeof head, n_texts;

	if (lseek(fd, 0, SEEK_SET) < 0 || fd_read_all(fd, &text) < 0 || text.used <= sizeof head)
		return set_invocation_error(err);
	memcpy(&head, text.data, sizeof head);
	buf_add(&invocation, &head, sizeof head);
	n_texts = 1 + (size_t)head.n_argv + head.n_env;
	for (size_t i = 0; i < n_texts; i++) {
		const char *word = text.data + at, *other = NULL;
		const char *end = at < text.used ? memchr(word, '\0', text.used - at) : NULL;

		if (!end)
			return set_invocation_error(err);
		at += (size_t)(end - word) + 1;
		if (i > head.n_argv)
			other = placeholder(holder, word);
		if (other)
			buf_addf(&invocation, "%.*s=%s", (int)strcspn(word, "="), word, other);
		else
			buf_add_str(&invocation, word);
		buf_add_char(&invocation, '\0');
	}
	return seal_invocation(&invocation, err);
}

/* ---- from a few words ---- */

bool invocation_is_valid(const char *invocation, size_t size)
{
	struct init_step_head head;
	size_t at = sizeof head, n_texts;

	if (size <= sizeof head || size > INIT_STEP_MAX)
		return false;
	memcpy(&head, invocation, sizeof head);
	n_texts = 1 + (size_t)head.n_argv + head.n_env;
	if (head.n_argv == 0 || n_texts > size)
		return false;
	for (size_t i = 0; i < n_texts; i++) {
		const char *end = at < size ? memchr(invocation + at, '\0', size - at) : NULL;

		/* The first is a directory: what is longer is none, and would not fit into what
		 * others are told. */
		if (!end || (i == 0 && (size_t)(end - invocation) - at >= PATH_MAX))
			return false;
		at = (size_t)(end - invocation) + 1;
	}
	return at == size;
}

static bool is_of(const char *variable, const char *name, size_t length)
{
	return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

struct wanted {
	const struct holder *holder;
	const char *const *own; /* variables of ours that win over the contract's */
	size_t n_own;
	const char *given; /* and of the caller's, over both: texts, one after the other */
	uint32_t n_given;
	bool has_terminal;
};

/* Does one that comes later have this name, too? */
static bool is_given(const struct wanted *wanted, const char *variable, uint32_t from)
{
	const size_t length = strcspn(variable, "=");
	const char *at = wanted->given;

	for (uint32_t i = 0; i < wanted->n_given; i++, at += strlen(at) + 1) {
		if (i >= from && is_of(at, variable, length))
			return true;
	}
	return false;
}

static bool is_own(const struct wanted *wanted, const char *variable)
{
	const size_t length = strcspn(variable, "=");

	for (size_t i = 0; i < wanted->n_own; i++) {
		if (is_of(wanted->own[i], variable, length))
			return true;
	}
	return false;
}

/* What stands for a secret, and that this is a sandbox, is not the caller's to change. */
static bool is_fixed(const struct wanted *wanted, const char *variable)
{
	return placeholder(wanted->holder, variable) || is_of(variable, "ATOLL_SANDBOX", 13);
}

/* A terminal has its own size, and fixed ones would win over that. */
static bool is_dropped(const struct wanted *wanted, const char *variable)
{
	return wanted->has_terminal &&
	       (is_of(variable, "COLUMNS", 7) || is_of(variable, "LINES", 5));
}

static uint32_t add_environment(const struct wanted *wanted, struct buf *invocation)
{
	char *const *env = wanted->holder->env;
	const char *at = wanted->given;
	uint32_t n = 0;

	for (size_t i = 0; env[i]; i++) {
		if (!is_fixed(wanted, env[i]) &&
		    (is_given(wanted, env[i], 0) || is_own(wanted, env[i]) ||
		     is_dropped(wanted, env[i])))
			continue;
		buf_add(invocation, env[i], strlen(env[i]) + 1);
		n++;
	}
	for (size_t i = 0; i < wanted->n_own; i++) {
		if (is_given(wanted, wanted->own[i], 0))
			continue;
		buf_add(invocation, wanted->own[i], strlen(wanted->own[i]) + 1);
		n++;
	}
	for (uint32_t i = 0; i < wanted->n_given; i++, at += strlen(at) + 1) {
		if (!strchr(at, '=') || is_fixed(wanted, at) || is_given(wanted, at, i + 1))
			continue;
		buf_add(invocation, at, strlen(at) + 1);
		n++;
	}
	return n;
}

/* Who it runs as. The first is at home where the contract says that commands start. */
struct person {
	char *home, *name, *logname; /* variables; NULL: the contract's own */
	char *cwd;
};

static void person_done(struct person *person)
{
	free(person->home);
	free(person->name);
	free(person->logname);
	free(person->cwd);
}

static char *make_variable(const char *name, const char *value)
{
	char *text;

	return asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text;
}

/* A directory that is not said in full begins where he is at home. */
static char *find_cwd(const char *usual, const char *cwd)
{
	char *path = !cwd[0] ? strdup(usual) : cwd[0] == '/' ? strdup(cwd) : path_join(usual, cwd);

	if (path)
		path_normalize(path);
	return path;
}

static int choose_person(const struct holder *holder, struct detached_step *step, const char *cwd,
			 struct init_step_head *head, struct person *ret, struct atoll_error *err)
{
	const struct spec *spec = holder->spec;
	int user = spec_find_user(spec, step->user, err);

	if (user < 0)
		return user;
	head->has_ids = isolate_user_ids(spec, (size_t)user, &head->uid, &head->gid);
	ret->cwd = find_cwd(user ? spec_home_inside(spec, (size_t)user) : spec->cwd, cwd);
	if (!ret->cwd)
		return error_oom(err);
	if (spec->n_users == 0)
		return 0;
	snprintf(step->user, sizeof step->user, "%s", spec->users[user].name);
	ret->home = make_variable("HOME", spec->users[user].home);
	ret->name = make_variable("USER", spec->users[user].name);
	ret->logname = make_variable("LOGNAME", spec->users[user].name);
	return ret->home && ret->name && ret->logname ? 0 : error_oom(err);
}

int invocation_build(const struct holder *holder, struct detached_step *step,
		     const char *invocation, struct atoll_error *err)
{
	cleanup_buf struct buf out = BUF_INIT(INIT_STEP_MAX);
	cleanup_with(person_done) struct person person = {0};
	cleanup_free char *pwd = NULL;
	const char *argv = invocation + sizeof(struct init_step_head), *at;
	const char *own[5];
	struct wanted wanted = {.holder = holder, .own = own, .has_terminal = step->has_terminal};
	struct init_step_head head;
	int r;

	memcpy(&head, invocation, sizeof head);
	r = choose_person(holder, step, argv, &head, &person, err);
	if (r < 0)
		return r;
	pwd = make_variable("PWD", person.cwd);
	if (!pwd)
		return error_oom(err);
	own[wanted.n_own++] = pwd;
	if (person.home) {
		own[wanted.n_own++] = person.home;
		own[wanted.n_own++] = person.name;
		own[wanted.n_own++] = person.logname;
	}
	if (step->has_terminal)
		own[wanted.n_own++] = "TERM=xterm-256color";
	buf_add(&out, &head, sizeof head);
	buf_add(&out, person.cwd, strlen(person.cwd) + 1);
	argv += strlen(argv) + 1;
	at = argv;
	for (uint32_t i = 0; i < head.n_argv; i++)
		at += strlen(at) + 1;
	buf_add(&out, argv, (size_t)(at - argv));
	wanted.given = at;
	wanted.n_given = head.n_env;
	head.n_env = add_environment(&wanted, &out);
	if (buf_error(&out) == -E2BIG)
		return error_set(err, ATOLL_FAULT_REQUEST, E2BIG, "the command");
	if (buf_error(&out) == 0)
		memcpy(out.data, &head, sizeof head);
	return seal_invocation(&out, err);
}
