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

/*
 * The invocation of a step: directory, argument vector, environment
 *
 * pid 1 gets it as a sealed memory file: a struct init_step_head and its texts, one after the other
 * with their NULs: directory, arguments, variables. The client of an attached step sends all of it
 * (invocation_copy()). The client of a detached step sends only what differs from the contract
 * (invocation_build()). In both, variables of secrets get the placeholders of this cell.
 */

static int set_invocation_error(struct atoll_error *err)
{
	return error_set(err, ATOLL_FAULT_BUG, EBADMSG, "the step's invocation");
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
	return r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "store the step's invocation")
		     : take_fd(&fd);
}

/* The placeholder, if `variable` belongs to a secret; else NULL. */
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

/* ---- detached steps ---- */

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

		/* The first text is the directory. One of PATH_MAX or more cannot exist, and would
		 * not fit into a report. */
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

struct variables {
	const struct holder *holder;
	const char *const *own; /* variables that the holder sets; they replace the contract's */
	size_t n_own;
	const char *
		given; /* variables of the client, which replace both; texts, one after the other */
	uint32_t n_given;
	bool has_terminal;
};

/* Does a variable of the client from index `from` on have the same name? */
static bool is_given(const struct variables *variables, const char *variable, uint32_t from)
{
	const size_t length = strcspn(variable, "=");
	const char *at = variables->given;

	for (uint32_t i = 0; i < variables->n_given; i++, at += strlen(at) + 1) {
		if (i >= from && is_of(at, variable, length))
			return true;
	}
	return false;
}

static bool is_own(const struct variables *variables, const char *variable)
{
	const size_t length = strcspn(variable, "=");

	for (size_t i = 0; i < variables->n_own; i++) {
		if (is_of(variables->own[i], variable, length))
			return true;
	}
	return false;
}

/* A client cannot change a secret's placeholder or ATOLL_SANDBOX. */
static bool is_fixed(const struct variables *variables, const char *variable)
{
	return placeholder(variables->holder, variable) || is_of(variable, "ATOLL_SANDBOX", 13);
}

/* COLUMNS and LINES would override the terminal's own size. */
static bool is_dropped(const struct variables *variables, const char *variable)
{
	return variables->has_terminal &&
	       (is_of(variable, "COLUMNS", 7) || is_of(variable, "LINES", 5));
}

static uint32_t add_environment(const struct variables *variables, struct buf *invocation)
{
	char *const *env = variables->holder->env;
	const char *at = variables->given;
	uint32_t n = 0;

	for (size_t i = 0; env[i]; i++) {
		if (!is_fixed(variables, env[i]) &&
		    (is_given(variables, env[i], 0) || is_own(variables, env[i]) ||
		     is_dropped(variables, env[i])))
			continue;
		buf_add(invocation, env[i], strlen(env[i]) + 1);
		n++;
	}
	for (size_t i = 0; i < variables->n_own; i++) {
		if (is_given(variables, variables->own[i], 0))
			continue;
		buf_add(invocation, variables->own[i], strlen(variables->own[i]) + 1);
		n++;
	}
	for (uint32_t i = 0; i < variables->n_given; i++, at += strlen(at) + 1) {
		if (!strchr(at, '=') || is_fixed(variables, at) || is_given(variables, at, i + 1))
			continue;
		buf_add(invocation, at, strlen(at) + 1);
		n++;
	}
	return n;
}

/* The user that the step runs as. The directory of the contract's first user is the contract's
 * `cwd`. */
struct step_user {
	char *home, *name, *logname; /* variables; NULL: the contract's own */
	char *cwd;
};

static void step_user_done(struct step_user *user)
{
	free(user->home);
	free(user->name);
	free(user->logname);
	free(user->cwd);
}

static char *make_variable(const char *name, const char *value)
{
	char *text;

	return asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text;
}

/* A relative directory starts at the user's home. */
static char *find_cwd(const char *default_cwd, const char *cwd)
{
	char *path = !cwd[0]	     ? strdup(default_cwd)
		     : cwd[0] == '/' ? strdup(cwd)
				     : path_join(default_cwd, cwd);

	if (path)
		path_normalize(path);
	return path;
}

static int choose_user(const struct holder *holder, struct detached_step *step, const char *cwd,
		       struct init_step_head *head, struct step_user *ret, struct atoll_error *err)
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
	cleanup_with(step_user_done) struct step_user user = {0};
	cleanup_free char *pwd = NULL;
	const char *argv = invocation + sizeof(struct init_step_head), *at;
	const char *own[5];
	struct variables variables = {
		.holder = holder, .own = own, .has_terminal = step->has_terminal};
	struct init_step_head head;
	int r;

	memcpy(&head, invocation, sizeof head);
	r = choose_user(holder, step, argv, &head, &user, err);
	if (r < 0)
		return r;
	pwd = make_variable("PWD", user.cwd);
	if (!pwd)
		return error_oom(err);
	own[variables.n_own++] = pwd;
	if (user.home) {
		own[variables.n_own++] = user.home;
		own[variables.n_own++] = user.name;
		own[variables.n_own++] = user.logname;
	}
	if (step->has_terminal)
		own[variables.n_own++] = "TERM=xterm-256color";
	buf_add(&out, &head, sizeof head);
	buf_add(&out, user.cwd, strlen(user.cwd) + 1);
	argv += strlen(argv) + 1;
	at = argv;
	for (uint32_t i = 0; i < head.n_argv; i++)
		at += strlen(at) + 1;
	buf_add(&out, argv, (size_t)(at - argv));
	variables.given = at;
	variables.n_given = head.n_env;
	head.n_env = add_environment(&variables, &out);
	if (buf_error(&out) == -E2BIG)
		return error_set(err, ATOLL_FAULT_REQUEST, E2BIG, "the command");
	if (buf_error(&out) == 0)
		memcpy(out.data, &head, sizeof head);
	return seal_invocation(&out, err);
}
