/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "job/job.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>

/*
 * What arrives is on a list; everything else stays outside. Not on it are on purpose: LD_ and other
 * variables that load code, tokens, sockets (SSH_AUTH_SOCK, DBUS_SESSION_BUS_ADDRESS, DISPLAY) and
 * git's, which would point it elsewhere.
 */
static const char *const passed[] = {
	"TERM",	       "COLORTERM",  "NO_COLOR", "FORCE_COLOR", "LANG",	    "LANGUAGE",
	"TZ",	       "COLUMNS",    "LINES",	 "LC_ALL",	"LC_CTYPE", "LC_COLLATE",
	"LC_MESSAGES", "LC_NUMERIC", "LC_TIME",	 "LC_MONETARY", NULL,
};

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

struct env {
	char **list;
	size_t n;
	bool failed;
};

void env_free(char **env)
{
	for (size_t i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
}

/* A later value of the same name wins. */
static void set(struct env *env, const char *name, const char *value)
{
	size_t length = strlen(name), at = 0;
	char **grown;
	char *text;

	if (asprintf(&text, "%s=%s", name, value) < 0) {
		env->failed = true;
		return;
	}
	while (at < env->n &&
	       !(strncmp(env->list[at], name, length) == 0 && env->list[at][length] == '='))
		at++;
	if (at < env->n) {
		free(env->list[at]);
		env->list[at] = text;
		return;
	}
	grown = realloc(env->list, (env->n + 2) * sizeof *grown);
	if (!grown) {
		free(text);
		env->failed = true;
		return;
	}
	env->list = grown;
	grown[env->n++] = text;
	grown[env->n] = NULL;
}

/* The caller's PATH, as far as it leads somewhere inside. */
static void set_path(struct env *env, const struct spec *spec)
{
	cleanup_buf struct buf path = BUF_INIT(1 << 16);
	const char *caller = getenv("PATH");
	char dir[PATH_MAX];

	for (const char *at = caller, *end; at && *at; at = *end ? end + 1 : end) {
		const struct spec_rule *rule;

		end = strchrnul(at, ':');
		if (at[0] != '/' || (size_t)(end - at) >= sizeof dir)
			continue; /* relative: would follow whoever changes directory */
		snprintf(dir, sizeof dir, "%.*s", (int)(end - at), at);
		rule = spec_rule_for(spec, dir);
		if (!rule || rule->access == SPEC_HIDE || !str_is_printable(dir))
			continue;
		buf_addf(&path, "%s%s", path.used ? ":" : "", dir);
	}
	set(env, "PATH", path.used ? path.data : DEFAULT_PATH);
}

/* A terminal has a kind, which programs look up in a database of files by this name, and its size
 * may change: a fixed one in the environment would win over the true one. */
static void set_terminal(struct env *env)
{
	const char *term = getenv("TERM");
	bool is_plain = term && term[0] && strlen(term) < 64 &&
			strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789-+._") == strlen(term);

	set(env, "TERM", is_plain && term[0] != '.' ? term : "xterm");
}

char **env_build(const struct spec *spec, bool has_terminal, struct atoll_error *err)
{
	const char *user = getenv("USER");
	struct env env = {0};

	for (size_t i = 0; passed[i]; i++) {
		const char *value = getenv(passed[i]);

		if (has_terminal && (streq(passed[i], "COLUMNS") || streq(passed[i], "LINES")))
			continue;
		if (value && strlen(value) < 256 && str_is_printable(value))
			set(&env, passed[i], value);
	}
	if (has_terminal)
		set_terminal(&env);
	if (!getenv("LANG"))
		set(&env, "LANG", "C.UTF-8");
	set_path(&env, spec);
	set(&env, "HOME", streq(spec->home, "/") ? "/tmp" : spec->home);
	set(&env, "TMPDIR", "/tmp");
	set(&env, "SHELL", "/bin/sh");
	set(&env, "PWD", spec->cwd);
	if (user && strlen(user) < 64 && str_is_printable(user)) {
		set(&env, "USER", user);
		set(&env, "LOGNAME", user);
	}
	for (size_t i = 0; i < spec->n_variables; i++) {
		const struct spec_variable *variable = &spec->variables[i];
		const char *value = variable->value ? variable->value : getenv(variable->name);

		if (value)
			set(&env, variable->name, value);
	}
	set(&env, "ATOLL_SANDBOX", "1");
	if (env.failed) {
		env_free(env.list);
		error_oom(err);
		return NULL;
	}
	return env.list;
}
