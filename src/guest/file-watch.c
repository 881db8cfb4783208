/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/file-watch.h"

#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

bool watch_join(char ret[PATH_SIZE], const char *directory, const char *name)
{
	const char *slash = directory[0] && name[0] && strcmp(directory, "/") != 0 ? "/" : "";
	int n = snprintf(ret, PATH_SIZE, "%s%s%s", directory, slash, name);

	return n >= 0 && n < PATH_SIZE;
}

/* ---- telling ---- */

/* The same write again and again, while the daemon does not read: once is enough. */
static bool is_repeated(struct watcher *watcher, struct watch *watch, enum guest_wire_event event,
			const char *name)
{
	uint64_t key = event == GUEST_TELL_WRITE ? told_key(watch, name, 0) : 0;
	bool is_same = key && key == watch->last_told && watcher->server->n_waiting > 0;

	watch->last_told = key;
	return is_same;
}

void watch_tell(struct watcher *watcher, struct watch *watch, enum guest_wire_event event,
		const char *name)
{
	cleanup_with(buf_done) struct buf body =
		BUF_INIT(GUEST_PACKET_MAX - sizeof(struct guest_head));
	struct guest_head head = {.id = watch->id, .kind = GUEST_SAYS_EVENT, .number = event};
	char path[PATH_SIZE];
	size_t before;

	if (is_repeated(watcher, watch, event, name))
		return;
	guest_put(&body, name);
	before = body.used;
	if (watch->has_entries &&
	    (event == GUEST_TELL_CREATE || event == GUEST_TELL_WRITE ||
	     event == GUEST_TELL_CHMOD) &&
	    watch_join(path, watch->root, name)) {
		/* It may be gone again. */
		head.n = put_entry(&body, path, path, NULL, NULL) == 0;
		if (!head.n)
			body.used = before;
	}
	say(watcher->server, &head, &body, -1);
}

/* ---- the kernel's events ---- */

static void see_new(struct watcher *watcher, struct watch *watch, const char *name, uint32_t mask)
{
	bool is_entered = (mask & IN_ISDIR) && watch->is_recursive;

	/* Then it has been entered, too. */
	if (told_remove(watcher, told_key(watch, name, TOLD_BY_SCAN)))
		return;
	if (watcher->n_scans)
		told_add(watcher, told_key(watch, name, TOLD_BY_EVENT));
	/* A directory is watched before anybody hears of it: who then writes into it is seen. */
	if (is_entered)
		place_add(watcher, watch, name);
	watch_tell(watcher, watch, GUEST_TELL_CREATE, name);
	if (is_entered)
		scan_start(watcher, watch, name, false, true);
}

static void see_gone(struct watcher *watcher, struct watch *watch, const char *name, uint32_t mask)
{
	told_remove(watcher, told_key(watch, name, TOLD_BY_SCAN));
	told_remove(watcher, told_key(watch, name, TOLD_BY_EVENT));
	watch_tell(watcher, watch, mask & IN_MOVED_FROM ? GUEST_TELL_RENAME : GUEST_TELL_REMOVE,
		   name);
	/* A directory that moved away is watched no more, or anew where it is now. */
	if ((mask & IN_ISDIR) && (mask & IN_MOVED_FROM) && watch->is_recursive)
		places_drop(watcher, watch, name);
}

static void see(struct watcher *watcher, struct watch *watch, const char *name, uint32_t mask)
{
	if (mask & (IN_CREATE | IN_MOVED_TO))
		see_new(watcher, watch, name, mask);
	else if (mask & (IN_DELETE | IN_MOVED_FROM))
		see_gone(watcher, watch, name, mask);
	else if ((mask & IN_MODIFY) && !(mask & IN_ISDIR))
		watch_tell(watcher, watch, GUEST_TELL_WRITE, name);
	else if (mask & IN_ATTRIB)
		watch_tell(watcher, watch, GUEST_TELL_CHMOD, name);
}

/* Seeing may change the node's list, or end a watch: so it is looked at first. */
static void see_node(struct watcher *watcher, const struct inotify_event *event)
{
	struct node *node = node_find(watcher, event->wd);
	struct place *place;
	struct {
		uint64_t id;
		char *relative;
	} seen[WATCHES_MAX];
	char name[PATH_SIZE];
	size_t n = 0;

	for (place = node ? node->places : NULL; place && n < WATCHES_MAX; place = place->next) {
		seen[n].id = place->watch->id;
		seen[n].relative = strdup(place->relative);
		n += seen[n].relative != NULL;
	}
	for (size_t i = 0; i < n; i++) {
		struct watch *watch = watch_find(watcher, seen[i].id);

		if (watch && event->len && watch_join(name, seen[i].relative, event->name))
			see(watcher, watch, name, event->mask);
		else if (watch && (event->mask & IN_DELETE_SELF) && !seen[i].relative[0])
			watch_tell(watcher, watch, GUEST_TELL_REMOVE, ".");
		free(seen[i].relative);
	}
	if (event->mask & IN_IGNORED)
		node_drop(watcher, event->wd);
}

/* The kernel dropped some. New directories may be among them: look once more. */
static void see_overflow(struct watcher *watcher)
{
	for (struct watch *watch = watcher->watches; watch; watch = watch->next) {
		watch_tell(watcher, watch, GUEST_TELL_LOST, "");
		if (watch->is_recursive)
			scan_start(watcher, watch, "", false, false);
	}
}

/* false: nothing more is there now. */
static bool read_events(struct watcher *watcher)
{
	static _Alignas(struct inotify_event) char events[16384];
	ssize_t size = read(watcher->inotify.fd, events, sizeof events);

	for (ssize_t at = 0; at < size;) {
		const struct inotify_event *event = (const void *)(events + at);

		at += (ssize_t)(sizeof *event + event->len);
		if (event->mask & IN_Q_OVERFLOW)
			see_overflow(watcher);
		else
			see_node(watcher, event);
	}
	return size > 0;
}

static void on_events(struct loop_watch *watch, uint32_t events)
{
	struct watcher *watcher =
		(struct watcher *)(void *)((char *)watch - offsetof(struct watcher, inotify));
	bool has_more = true;

	(void)events;
	for (int i = 0; has_more && i < 4; i++)
		has_more = watcher->server->n_waiting < WAITING_MAX && read_events(watcher);
	/* What was created while directories were read has been told now. */
	if (!has_more && watcher->n_scans == 0 && watcher->server->n_waiting < WAITING_MAX)
		told_forget(watcher);
	watcher_resume(watcher->server);
}

/* While the daemon does not read, the kernel keeps them, up to a number. */
void watcher_resume(struct server *server)
{
	if (server->watcher)
		loop_watch(&server->loop, &server->watcher->inotify,
			   server->n_waiting < WAITING_MAX ? EPOLLIN : 0);
}

/* ---- questions ---- */

static int watcher_new(struct server *server)
{
	struct watcher *watcher;

	if (server->watcher)
		return 0;
	watcher = calloc(1, sizeof *watcher);
	if (!watcher)
		return -ENOMEM;
	watcher->server = server;
	watcher->inotify = (struct loop_watch){.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
					       .ready = on_events};
	if (watcher->inotify.fd < 0 || loop_watch(&server->loop, &watcher->inotify, EPOLLIN) < 0) {
		int r = -errno;

		if (watcher->inotify.fd >= 0)
			close(watcher->inotify.fd);
		free(watcher);
		return r;
	}
	server->watcher = watcher;
	return 0;
}

void watch_end(struct watcher *watcher, struct watch *watch)
{
	struct watch **place = &watcher->watches;

	while (*place != watch)
		place = &(*place)->next;
	*place = watch->next;
	watcher->n_watches--;
	places_drop(watcher, watch, "");
	free(watch);
}

void ask_unwatch(struct question *question)
{
	struct watcher *watcher = question->server->watcher;
	struct watch *watch = watcher ? watch_find(watcher, question->id) : NULL;

	if (watch)
		watch_end(watcher, watch);
}

void ask_watch(struct question *question)
{
	struct watch *watch = calloc(1, sizeof *watch);
	struct watcher *watcher;
	int r = watch ? path_of(question, question->args[0], watch->root) : -ENOMEM;

	if (r == 0)
		r = location_check(question, watch->root, false);
	if (r == 0)
		r = watcher_new(question->server);
	watcher = question->server->watcher;
	if (r == 0 && watcher->n_watches >= WATCHES_MAX)
		r = -EMFILE;
	if (r < 0) {
		answer(question->server, question->id, -r, question->args[0], NULL, 0, -1);
		free(watch);
		return;
	}
	watch->id = question->id;
	watch->is_recursive = question->flags & GUEST_RECURSIVE;
	watch->has_entries = question->flags & GUEST_ENTRIES;
	watch->next = watcher->watches;
	watcher->watches = watch;
	watcher->n_watches++;
	scan_start(watcher, watch, "", true, false);
}
