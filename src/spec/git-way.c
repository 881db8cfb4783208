/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/git.h"

#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Places that git files name: URLs of remotes, paths in pointer files
 *
 * git_is_url() says whether a text has one of the plain forms; git_may_talk() whom it names;
 * git_pointer_vet() where a pointer leads to, git_is_way_to_worktree() where a submodule's files
 * are. Called from git-config.c, from the guard
 * (init/pointer.c) and from the marks (layer/mark-git.c).
 */

/* "user@host:port", of which no part may look like an option. */
static bool is_authority(const char *text, size_t size, bool may_be_encoded)
{
	const char *at = memrchr(text, '@', size);
	const char *host = at ? at + 1 : text;

	if (host == text + size || *text == '-')
		return false;
	if (!may_be_encoded && memchr(text, '%', size))
		return false;
	if (*host == '[')
		host++;
	return *host != '-';
}

/* Encoded ends of a line or a string have split requests and credentials before. */
static bool has_encoded_control(const char *url)
{
	for (; (url = strchr(url, '%')); url++)
		if ((url[1] == '0' || url[1] == '1' || url[1] == '7') && url[2] &&
		    (url[1] != '7' || (url[2] | 0x20) == 'f'))
			return true;
	return false;
}

/* "scheme://...": every other scheme would be the name of a program, git-remote-SCHEME. */
static bool is_plain_scheme(const char *url, size_t scheme_size)
{
	static const struct {
		const char *name;
		bool may_be_encoded; /* git decodes the others' host before it uses it */
	} schemes[] = {{"https", true}, {"http", true}, {"ssh", false}, {"git", false}};
	const char *rest = url + scheme_size + strlen("://");

	if (scheme_size == 4 && starts_with(url, "file"))
		return *rest && *rest != '-';
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
		if (strlen(schemes[i].name) == scheme_size && starts_with(url, schemes[i].name))
			return is_authority(rest, strcspn(rest, "/"), schemes[i].may_be_encoded);
	return false;
}

/* A URL with a plain scheme, "user@host:path", a path, or the name of a remote. */
bool git_is_url(const char *value)
{
	size_t head;

	if (!value || !*value || *value == '-' || !str_is_printable(value) ||
	    has_encoded_control(value))
		return false;
	/* "helper::address" */
	if (memmem(value, strcspn(value, "/"), "::", 2))
		return false;
	head = strcspn(value, ":/");
	if (value[head] != ':')
		return true;
	if (starts_with(value + head, "://"))
		return is_plain_scheme(value, head);
	return *value != '[' && value[head + 1] != '-' && is_authority(value, head, false);
}

/* Where the address of a plain URL is: its host without user, brackets and port. A path and
 * "file://" have none: false. */
static bool find_host(const char *url, const char **ret_host, size_t *ret_size, unsigned *ret_port)
{
	static const struct {
		const char *start;
		unsigned port;
	} schemes[] = {{"https://", 443}, {"http://", 80}, {"ssh://", 22}, {"git://", 9418}};
	const char *rest = url, *at, *colon;
	size_t size, head = strcspn(url, ":/");

	if (url[head] != ':' || starts_with(url, "file://"))
		return false;
	*ret_port = 22;
	size = head;
	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		if (!starts_with(url, schemes[i].start))
			continue;
		rest = url + strlen(schemes[i].start);
		size = strcspn(rest, "/");
		*ret_port = schemes[i].port;
	}
	at = memrchr(rest, '@', size);
	if (at) {
		size -= (size_t)(at + 1 - rest);
		rest = at + 1;
	}
	if (size && *rest == '[') {
		*ret_host = rest + 1;
		*ret_size = strcspn(rest + 1, "]/");
		return true;
	}
	colon = memchr(rest, ':', size);
	if (colon)
		*ret_port = (unsigned)strtoul(colon + 1, NULL, 10);
	*ret_host = rest;
	*ret_size = colon ? (size_t)(colon - rest) : size;
	return true;
}

static bool is_number_or(const char *component, size_t size, const char *name)
{
	return strspn(component, "0123456789") == size ||
	       (strlen(name) == size && memcmp(component, name, size) == 0);
}

/* /proc/PID/root and its like, also by "..": the tree of a sandbox that runs, which nobody has
 * vetted. /dev/fd leads there, too. */
static bool leads_to_process(const char *path)
{
	bool is_proc = false, is_dev = false;

	for (;;) {
		size_t size;

		path += strspn(path, "/");
		size = strcspn(path, "/");
		if (size == 0)
			return false;
		if (is_proc &&
		    (is_number_or(path, size, "self") || is_number_or(path, size, "thread-self")))
			return true;
		if (is_dev && size == 2 && memcmp(path, "fd", 2) == 0)
			return true;
		is_proc |= size == 4 && memcmp(path, "proc", 4) == 0;
		is_dev |= size == 3 && memcmp(path, "dev", 3) == 0;
		path += size;
	}
}

bool git_may_talk(const char *url, const struct git_vet *how)
{
	const char *host = NULL;
	unsigned port = 0;
	size_t size = 0;

	if (!git_is_url(url))
		return false;
	if (find_host(url, &host, &size, &port))
		return how->may_reach && how->may_reach(how->data, host, size, port);
	if (starts_with(url, "file://"))
		url += strlen("file://");
	return !git_leads_to_store(url, how->store) && !leads_to_process(url);
}

/* A component of a path, compared as names_same() does. */
static bool is_component(const char *component, size_t size, const char *name)
{
	char folded[NAMES_FOLD_SIZE];

	return names_fold(component, size, folded) && names_same(folded, name);
}

/* The directories with what runs wrote (layer/layer.h), beneath the store's own, "atoll". */
static bool is_store_part(const char *component, size_t size)
{
	static const char *const parts[] = {"records", "layers", "spare", "trash"};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (is_component(component, size, parts[i]))
			return true;
	return false;
}

bool git_leads_to_store(const char *path, const char *store)
{
	bool is_atoll = false;

	if (store && path[0] == '/' && path_is_within(path, store))
		return true;
	for (;;) {
		size_t size;

		path += strspn(path, "/");
		size = strcspn(path, "/");
		if (size == 0)
			return false;
		if (is_atoll && is_store_part(path, size))
			return true;
		/* The private directory of a run without mounts (isolate/bare/private.c). */
		if (size > 11 && memcmp(path, "atoll-bare-", 11) == 0)
			return true;
		is_atoll = is_component(path, size, "atoll") ||
			   (is_atoll && size == 1 && path[0] == '.');
		path += size;
	}
}

/* A path without "." and empty components, and with ".." only in front. Fills `*ret_up`. */
static bool is_straight(const char *path, unsigned *ret_up)
{
	*ret_up = 0;
	for (; starts_with(path, "../"); path += 3)
		++*ret_up;
	if (!*path)
		return false;
	for (;;) {
		size_t size = strcspn(path, "/");

		if (size == 0 || (size <= 2 && strncmp(path, "..", size) == 0))
			return false;
		path += size;
		if (!*path)
			return true;
		path++;
	}
}

bool git_is_beneath_git(const char *root, const char *path)
{
	if (!path_is_within(path, root))
		return false;
	for (path += strlen(root); *path;) {
		size_t size;

		path += strspn(path, "/");
		size = strcspn(path, "/");
		if (size == 4 && memcmp(path, ".git", 4) == 0)
			return true;
		path += size;
	}
	return false;
}

bool git_is_way_to_worktree(const char *value, const char *dir, const char *root)
{
	char place[PATH_MAX];
	unsigned up;

	if (!str_is_printable(value) || !is_straight(value, &up) || up == 0 ||
	    !git_is_beneath_git(root, dir) || up + path_depth(root) > path_depth(dir) ||
	    snprintf(place, sizeof place, "%s/%s", dir, value) >= PATH_MAX)
		return false;
	path_normalize(place);
	return !names_refuse(root, place, NAMES_WRITE) && !names_git_inside(root, place);
}

const char *git_pointer_vet(const char *text, size_t size, const char *key, const char *from,
			    const char *root, char ret_path[PATH_MAX])
{
	static const char what[] = "git pointer file", out[] = "git pointer out of the root",
			  store[] = "git pointer into atoll's own store",
			  other[] = "git pointer to a directory that is not beneath a .git";
	size_t skip = strlen(key);
	char way[PATH_MAX];
	unsigned up = 0;
	int length;

	while (size && (text[size - 1] == '\n' || text[size - 1] == '\r'))
		size--;
	if (size <= skip || memcmp(text, key, skip) != 0 || size - skip >= sizeof way)
		return what;
	memcpy(way, text + skip, size - skip);
	way[size - skip] = '\0';
	if (strlen(way) != size - skip || !str_is_printable(way))
		return what;
	if (git_leads_to_store(way, NULL))
		return store;
	if (!is_straight(way + (way[0] == '/'), &up) || (way[0] == '/' && up))
		return what;
	if (up > path_depth(from))
		return out;
	length = way[0] == '/' ? snprintf(ret_path, PATH_MAX, "%s", way)
			       : snprintf(ret_path, PATH_MAX, "%s/%s", from, way);
	if (length >= PATH_MAX)
		return what;
	path_normalize(ret_path);
	if (!path_is_within(ret_path, root))
		return out;
	if (!git_is_beneath_git(root, *key ? ret_path : from))
		return other;
	if (*key && !git_is_repository_place(names_git_inside(root, ret_path)))
		return other;
	return names_refuse(root, ret_path, NAMES_WRITE) ? what : NULL;
}
