/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "egress/egress.h"
#include "isolate/isolate.h"
#include "job/job.h"
#include "netctl/secrets.h"
#include "spec/spec.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/*
 * The variables that a command gets from the caller. All others are left out, on purpose: LD_ and
 * other variables that load code, tokens, sockets (SSH_AUTH_SOCK, DBUS_SESSION_BUS_ADDRESS,
 * DISPLAY) and those of git, which name other repositories.
 */
static const char *const passed[] = {
	"TERM",	       "COLORTERM",  "NO_COLOR", "FORCE_COLOR", "LANG",	    "LANGUAGE",
	"TZ",	       "COLUMNS",    "LINES",	 "LC_ALL",	"LC_CTYPE", "LC_COLLATE",
	"LC_MESSAGES", "LC_NUMERIC", "LC_TIME",	 "LC_MONETARY", NULL,
};

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

/* PATH of a login, with sbin, so that programs that root installs are found. */
#define USERS_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

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

/* The directories of the caller's PATH that exist inside. */
static void set_path(struct env *env, const struct spec *spec)
{
	cleanup_buf struct buf path = BUF_INIT(1 << 16);
	const char *caller = getenv("PATH");
	char dir[PATH_MAX];

	for (const char *at = caller, *end; at && *at; at = *end ? end + 1 : end) {
		const struct spec_rule *rule;

		end = strchrnul(at, ':');
		if (at[0] != '/' || (size_t)(end - at) >= sizeof dir)
			continue; /* a relative one depends on the current directory */
		snprintf(dir, sizeof dir, "%.*s", (int)(end - at), at);
		rule = spec_rule_for(spec, dir);
		if (!rule || rule->access == SPEC_HIDE || !str_is_printable(dir))
			continue;
		buf_addf(&path, "%s%s", path.used ? ":" : "", dir);
	}
	set(env, "PATH", path.used ? path.data : DEFAULT_PATH);
}

/* Home, name and shell of the user that the contract names, or of the caller. */
static void set_user(struct env *env, const struct spec *spec, size_t number)
{
	const struct spec_user *user =
		spec->n_users ? &spec->users[number < spec->n_users ? number : 0] : NULL;
	const char *caller = getenv("USER");

	if (user) {
		set(env, "PATH", USERS_PATH);
		set(env, "HOME", user->home);
		set(env, "USER", user->name);
		set(env, "LOGNAME", user->name);
		set(env, "SHELL", access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh");
		return;
	}
	set_path(env, spec);
	set(env, "SHELL", "/bin/sh");
	set(env, "HOME", streq(spec->home, "/") ? "/tmp" : spec->home);
	if (caller && strlen(caller) < 64 && str_is_printable(caller)) {
		set(env, "USER", caller);
		set(env, "LOGNAME", caller);
	}
}

/* TERM names an entry of the terminfo database. LINES and COLUMNS are not passed on: they would win
 * over the terminal's real size. */
static void set_terminal(struct env *env)
{
	const char *term = getenv("TERM");
	bool is_plain = term && term[0] && strlen(term) < 64 &&
			strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "0123456789-+._") == strlen(term);

	set(env, "TERM", is_plain && term[0] != '.' ? term : "xterm");
}

/*
 * With namespaces every TCP connection reaches egress without these variables; they are for
 * programs that look for a proxy first. Without namespaces they are the only route to egress.
 * ALL_PROXY names the HTTP proxy and not SOCKS, which the port speaks as well: Python's httpx,
 * which the clients of several model providers use, does not start with a scheme for which it lacks
 * a package.
 */
static void set_proxy(struct env *env, const struct spec *spec, const struct env_extra *extra)
{
	static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
					    "http_proxy", "https_proxy", "all_proxy"};
	bool has_token = extra->token && extra->token[0];
	char url[128];

	/* With published ports alone there is no proxy. */
	if (!spec->network.has_proxy_variables || spec->network.mode == NETWORK_OFF ||
	    (spec->network.mode == NETWORK_RULES && spec->network.n_allow == 0 &&
	     !spec->network.asks && spec->network.n_secrets == 0))
		return;
	snprintf(url, sizeof url, "http://%s%s%s127.0.0.1:%u", has_token ? "atoll:" : "",
		 has_token ? extra->token : "", has_token ? "@" : "",
		 extra->proxy_port ? (unsigned)extra->proxy_port : EGRESS_PORT);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		set(env, names[i], url);
	set(env, "NO_PROXY", "localhost,127.0.0.1,::1");
	set(env, "no_proxy", "localhost,127.0.0.1,::1");
	/* Node reads proxy variables only with this one. With namespaces egress gets every
	 * connection without it. */
	if (extra->proxy_port)
		set(env, "NODE_USE_ENV_PROXY", "1");
}

/*
 * Where egress opens TLS, programs have to trust its authority. Most read a bundle of the host,
 * which has the authority added inside (Java's key store, too); these variables are for programs
 * with a list of their own.
 */
static void set_authority(struct env *env, const struct spec *spec)
{
	static const char *const bundles[] = {
		"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO",
		"PIP_CERT",	 "AWS_CA_BUNDLE",  "CARGO_HTTP_CAINFO"};

	if (!network_inspects(&spec->network))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(bundles); i++)
		set(env, bundles[i], CELL_BUNDLE);
	/* These add to a list that the program has. */
	set(env, "NODE_EXTRA_CA_CERTS", CELL_AUTHORITY);
	set(env, "DENO_CERT", CELL_AUTHORITY);
}

/* Set last: a line of the contract must not put the value itself inside. */
static void set_placeholders(struct env *env, const struct spec *spec,
			     const struct env_extra *extra)
{
	for (size_t i = 0; i < spec->network.n_secrets; i++) {
		if (!spec->network.secrets[i].is_set)
			set(env, spec->network.secrets[i].name,
			    extra->secrets ? extra->secrets->list[i].placeholder : "placeholder");
	}
}

char **env_build(const struct spec *spec, const struct env_extra *extra, struct atoll_error *err)
{
	bool has_terminal = extra->has_terminal;
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
	set_user(&env, spec, extra->user);
	set(&env, "TMPDIR", "/tmp");
	set(&env, "PWD", spec->cwd);
	set_proxy(&env, spec, extra);
	set_authority(&env, spec);
	for (size_t i = 0; i < spec->n_variables; i++) {
		const struct spec_variable *variable = &spec->variables[i];
		const char *value = variable->value ? variable->value : getenv(variable->name);

		if (value)
			set(&env, variable->name, value);
	}
	set_placeholders(&env, spec, extra);
	set(&env, "ATOLL_SANDBOX", "1");
	if (env.failed) {
		env_free(env.list);
		error_oom(err);
		return NULL;
	}
	return env.list;
}
