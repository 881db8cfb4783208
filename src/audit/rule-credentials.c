/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/event-rules-shared.h"

#include <stdio.h>

/*
 * Paths of keys and tokens
 *
 * A refused read of one, whoever tries; and one among the arguments of a program, which may well
 * have been allowed to read it. Each tool may look at its own: npm reads ~/.npmrc at every start.
 * The record does not tell of what a program opens without being refused or told so, hence a
 * library that reads a key it is allowed to read is not seen.
 */

struct credential {
	const char *pattern; /* below a home directory, or absolute */
	const char *owners;  /* programs that use this file */
};

static const struct credential credentials[] = {
	{".ssh/id_*", " ssh ssh-add ssh-agent ssh-keygen scp sftp git rsync "},
	{".ssh/identity", " ssh ssh-add ssh-agent ssh-keygen scp sftp git rsync "},
	{".ssh/*.pem", " ssh ssh-add ssh-agent ssh-keygen scp sftp git rsync "},
	{".aws/credentials", " aws terraform "},
	{".aws/sso/cache*", " aws terraform "},
	{".config/gcloud/*", " gcloud gsutil bq terraform "},
	{".azure/*", " az terraform "},
	{".kube/config", " kubectl helm k9s "},
	{".docker/config.json", " docker podman buildah skopeo docker-compose docker-buildx "},
	{".netrc", " curl wget git ftp pip pip3 python python3 git-remote-http "},
	{".pgpass", " psql pg_dump pg_restore pg_basebackup "},
	{".my.cnf", " mysql mysqldump mariadb "},
	{".npmrc", " npm node npx yarn pnpm bun corepack "},
	{".yarnrc.yml", " npm node npx yarn pnpm bun corepack "},
	{".pypirc", " twine flit poetry uv pip pip3 python python3 "},
	{".git-credentials", " git git-credential-store "},
	{".config/git/credentials", " git git-credential-store "},
	{".config/gh/hosts.yml", " gh "},
	{".config/hub", " hub "},
	{".config/op/*", " op "},
	{".gnupg/private-keys-v1.d*", " gpg gpg2 gpg-agent gpgsm keyboxd "},
	{".gnupg/secring.gpg", " gpg gpg2 gpg-agent "},
	{".password-store/*", " pass gpg "},
	{".vault-token", " vault "},
	{".terraform.d/credentials.tfrc.json", " terraform "},
	{".cargo/credentials*", " cargo "},
	{".gem/credentials", " gem bundle ruby "},
	{".claude/.credentials.json", " claude node "},
	{".codex/auth.json", " codex node "},
	{".mozilla/firefox/*/logins.json", " firefox "},
	{".mozilla/firefox/*/key4.db", " firefox "},
	{".config/*/Login Data", " chrome chromium "},
	{"/etc/shadow", " sudo su passwd login unix_chkpwd useradd usermod chpasswd "},
	{"/etc/gshadow", " groupadd useradd usermod "},
	{"/etc/ssh/ssh_host_*_key", " sshd ssh-keygen "},
	{"/proc/[0-9]*/environ", " ps pgrep pkill top htop systemd "},
};

/* Directories of credentials, as arguments. */
static const char *const places[] = {".ssh",   ".aws",	".gnupg",	   ".config/gcloud",
				     ".azure", ".kube", ".password-store", NULL};

/* Programs that do not read the content of files. */
static const char *const harmless[] = {
	"ls",	    "stat",	"test",	   "[",	     "mkdir", "rmdir", "chmod",	  "chown",
	"rm",	    "touch",	"echo",	   "printf", "find",  "du",    "dirname", "basename",
	"realpath", "readlink", "install", "true",   "cd",    NULL};

/* The part of `path` after a home directory; NULL if there is none. */
static const char *inside_home(const char *path)
{
	const char *inside;

	if (starts_with(path, "~/"))
		return path + 2;
	if (starts_with(path, "$HOME/"))
		return path + 6;
	if (starts_with(path, "/root/"))
		return path + 6;
	if (!starts_with(path, "/home/") && !starts_with(path, "/Users/"))
		return NULL;
	inside = strchr(path + 6 + (path[1] == 'U'), '/');
	return inside ? inside + 1 : NULL;
}

static bool is_owner(const struct credential *credential, const char *program)
{
	char word[40];

	snprintf(word, sizeof word, " %.32s ", program);
	return strstr(credential->owners, word) != NULL;
}

static const struct credential *find(const char *path)
{
	const char *inside = inside_home(path);

	if (ends_with(path, ".pub") || starts_with(path, "/proc/self/"))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(credentials); i++) {
		const struct credential *credential = &credentials[i];

		if (credential->pattern[0] == '/' ? str_glob(credential->pattern, path)
						  : inside && str_glob(credential->pattern, inside))
			return credential;
	}
	return NULL;
}

/* Characters that end a path within a longer text: blanks, quotes, and separators of flags and
 * values. */
static bool is_edge(char c)
{
	return c == '\0' || strchr(" \t\n\"'`=@,;:<>|&()[]{}", c) != NULL;
}

/* Copies the path around `at`, which points to a "/". */
static const char *path_around(const char *text, const char *at, char *ret, size_t size)
{
	const char *start = at, *end = at;

	while (start > text && !is_edge(start[-1]) && at - start < 200)
		start--;
	while (!is_edge(*end) && end - start < (ptrdiff_t)size - 1)
		end++;
	while (end > start + 1 && end[-1] == '/')
		end--;
	memcpy(ret, start, (size_t)(end - start));
	ret[end - start] = '\0';
	/* file:///root/... */
	return starts_with(ret, "///") ? ret + 2 : ret;
}

static bool is_named(const char *text, const char *program, char *ret, size_t size)
{
	const char *at = text;
	char path[300];
	int tries = 0;

	while ((at = strchr(at, '/')) && tries++ < 64) {
		const struct credential *credential = NULL;
		const char *whole;
		size_t step = 1;

		if (at[1] == '.' || starts_with(at, "/etc/") || starts_with(at, "/proc/")) {
			whole = path_around(text, at, path, sizeof path);
			credential = find(whole);
			if (credential && !is_owner(credential, program)) {
				snprintf(ret, size, "%s", whole);
				return true;
			}
			if (!credential && inside_home(whole) &&
			    rules_is_among(inside_home(whole), places) &&
			    !starts_with(program, "ssh")) {
				snprintf(ret, size, "%s", whole);
				return true;
			}
		}
		at += step;
	}
	return false;
}

static bool look_at_denial(const struct line *line, char *why, size_t size)
{
	static const char *const reads[] = {"read", "open", "list", "stat", NULL};
	const struct credential *credential;

	if (!rules_is_among(line->action, reads))
		return false;
	credential = find(line->object);
	/* Reported only if it was refused: a file that a pattern hides may be anywhere. */
	if (!credential && !streq(line_base(line->object), ".env"))
		return false;
	if (credential && is_owner(credential, line->program))
		return false;
	snprintf(why, size, "%s tried to read %s, and was refused",
		 str_show(line->program, (char[24]){0}, 24), shown(line->object));
	return true;
}

static bool look(struct rules *rules, const struct line *line, char *why, size_t size)
{
	const char *base;
	char path[300];
	bool is_shell;

	(void)rules;
	if (line->kind == LINE_DENIAL)
		return look_at_denial(line, why, size);
	if (line->kind != LINE_EXEC || line->argc < 2)
		return false;
	base = line_base(line->path);
	if (rules_is_among(base, harmless))
		return false;
	is_shell = rules_is_shell(base);
	for (size_t i = 1; i < line->argc; i++) {
		/* Skip shells: their commands are executions of their own. */
		if (is_shell && line->argv[i - 1][0] == '-' && strchr(line->argv[i - 1], 'c'))
			break;
		if (is_named(line->argv[i], base, path, sizeof path)) {
			snprintf(why, size, "%s is given %s", str_show(base, (char[40]){0}, 40),
				 shown(path));
			return true;
		}
	}
	return false;
}

const struct rule rule_credentials = {look};
