/* SPDX-License-Identifier: Apache-2.0 */
#include "auditcmd/events.h"

#include "auditcmd/event-values.h"
#include "auditcmd/find-log.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"

#include <stdio.h>
#include <sys/stat.h>

#define PIECE ((size_t)256 << 10)

/* ---- open and close ---- */

int events_open_path(const char *id, const char *path, struct events **ret, struct atoll_error *err)
{
	/* O_NONBLOCK: do not wait for the writer of a fifo; a fifo is refused below. */
	cleanup_fd int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (id[0] ? O_NOFOLLOW : 0));
	struct events *events;
	struct stat st;

	if (fd < 0 && errno == ENOENT && id[0])
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "run %s has no log", id);
	if (fd < 0)
		return error_set(err, errno == ENOENT ? ATOLL_FAULT_REQUEST : ATOLL_FAULT_HOST,
				 errno, "open the log '%s'", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_set(err, ATOLL_FAULT_REQUEST, 0, "the log '%s' is no plain file",
				 path);
	events = calloc(1, sizeof *events);
	if (!events)
		return error_oom(err);
	snprintf(events->id, sizeof events->id, "%s", id);
	snprintf(events->path, sizeof events->path, "%s", path);
	events->fd = take_fd(&fd);
	*ret = events;
	return 0;
}

int events_open(const char *word, struct events **ret, struct atoll_error *err)
{
	char id[16], path[PATH_MAX];
	int r = events_find(word, id, path, err);

	return r < 0 ? r : events_open_path(id, path, ret, err);
}

void events_close(struct events *events)
{
	if (!events)
		return;
	close(events->fd);
	free(events->data);
	free(events->patched);
	free(events);
}

void event_done(struct event *event)
{
	json_decref(event->object);
	*event = (struct event){0};
}

/* ---- lines ---- */

/* Makes room for more bytes: moves the unread bytes to the front first. */
static int make_room(struct events *events, struct atoll_error *err)
{
	size_t room = events->room ? events->room : 2 * PIECE;
	char *data;

	if (events->at > 0) {
		memmove(events->data, events->data + events->at, events->used - events->at);
		events->used -= events->at;
		events->at = 0;
	}
	while (room - events->used < PIECE)
		room *= 2;
	if (room == events->room)
		return 0;
	data = realloc(events->data, room);
	if (!data)
		return error_oom(err);
	events->data = data;
	events->room = room;
	return 0;
}

/* Reads more of the file: the number of bytes, 0 at the end. */
static ssize_t read_more(struct events *events, struct atoll_error *err)
{
	int r = make_room(events, err);
	ssize_t got;

	if (r < 0)
		return r;
	do
		got = read(events->fd, events->data + events->used, events->room - events->used);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return error_set(err, ATOLL_FAULT_HOST, errno, "read '%s'", events->path);
	events->used += (size_t)got;
	return got;
}

static int refuse(const struct events *events, const char *why, struct atoll_error *err)
{
	error_set(err, ATOLL_FAULT_REQUEST, 0,
		  "line %llu of '%s' is no event: %s ('atoll verify' tells whether it was changed)",
		  (unsigned long long)events->n_lines, events->path, why);
	return -EBADMSG;
}

/* Finds the next complete line: 1, 0, or a negative errno. */
static int next_line(struct events *events, char **ret, size_t *ret_size, struct atoll_error *err)
{
	size_t searched = 0;

	for (;;) {
		size_t there = events->used - events->at;
		char *line = events->data ? events->data + events->at : NULL, *end = NULL;
		ssize_t got;

		if (there > searched)
			end = memchr(line + searched, '\n', there - searched);
		if (end) {
			bool was_too_long =
				events->is_skipping || end - line > (ssize_t)EVENTS_LINE_MAX;

			events->at += (size_t)(end - line) + 1;
			events->n_lines++;
			events->is_skipping = false;
			if (was_too_long)
				return refuse(events, "it is too long", err);
			*end = '\0';
			*ret = line;
			*ret_size = (size_t)(end - line);
			return 1;
		}
		searched = there;
		if (there > EVENTS_LINE_MAX) {
			events->is_skipping = true;
			events->at = events->used;
			searched = 0;
		}
		got = read_more(events, err);
		if (got <= 0) {
			events->is_cut =
				got == 0 && (events->used > events->at || events->is_skipping);
			return (int)got;
		}
	}
}

/* ---- bytes that are no UTF-8 ---- */

/* The byte that U+10DC00..U+10DCFF (UTF-8: f4 8d b0 80 to f4 8d b3 bf) stands for; -1 for
 * another character. */
static int private_byte(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	if (s[0] != 0xf4 || s[1] != 0x8d || (s[2] & 0xfc) != 0xb0 || (s[3] & 0xc0) != 0x80)
		return -1;
	return (s[2] & 3) << 6 | (s[3] & 0x3f);
}

/* "\udc80" to "\udcff", and "\u0000". */
static bool is_lone_byte(const char *escape)
{
	if (memcmp(escape, "\\u", 2) != 0)
		return false;
	return memcmp(escape + 2, "0000", 4) == 0 ||
	       ((escape[2] | 0x20) == 'd' && (escape[3] | 0x20) == 'c' &&
		str_hex_value(escape[4]) >= 8 && str_hex_value(escape[5]) >= 0);
}

static bool is_high_half(const char *escape)
{
	int digit = escape[1] == 'u' && (escape[2] | 0x20) == 'd' ? str_hex_value(escape[3]) : -1;

	return digit >= 8 && digit <= 0xb;
}

/* Does the line need patch_line()? Very few do. */
static bool has_bytes(const char *line, size_t size)
{
	return memmem(line, size, "\\u", 2) || memchr(line, 0xf4, size);
}

/* Inserts the high surrogate that makes a pair of each lone one. A real character of that range
 * becomes four such escapes. A line becomes at most twelve times as long. */
static size_t patch_line(const char *line, size_t size, char *out)
{
	char *begin = out;

	for (size_t i = 0; i < size;) {
		if (size - i >= 6 && is_lone_byte(line + i)) {
			out += sprintf(out, "\\udbf7\\udc%.2s", line + i + 4);
			i += 6;
		} else if (size - i >= 12 && line[i] == '\\' && is_high_half(line + i)) {
			memcpy(out, line + i, 12);
			out += 12;
			i += 12;
		} else if (size - i >= 2 && line[i] == '\\') {
			*out++ = line[i++];
			*out++ = line[i++];
		} else if (size - i >= 4 && private_byte(line + i) >= 0) {
			for (int j = 0; j < 4; j++)
				out += sprintf(out, "\\udbf7\\udc%02x", (unsigned char)line[i++]);
		} else {
			*out++ = line[i++];
		}
	}
	return (size_t)(out - begin);
}

void event_bytes(const char *text, size_t size, struct buf *out)
{
	size_t from = 0;

	for (size_t i = 0; i < size; i++) {
		int byte = size - i >= 4 ? private_byte(text + i) : -1;

		if (byte < 0)
			continue;
		buf_add(out, text + from, i - from);
		buf_add_char(out, (char)byte);
		i += 3;
		from = i + 1;
	}
	buf_add(out, text + from, size - from);
}

/* ---- events ---- */

static json_t *parse(struct events *events, const char *line, size_t size, json_error_t *error)
{
	if (has_bytes(line, size)) {
		free(events->patched);
		events->patched = malloc(12 * size + 1);
		if (!events->patched)
			return NULL;
		size = patch_line(line, size, events->patched);
		line = events->patched;
	}
	return json_loadb(line, size, JSON_REJECT_DUPLICATES, error);
}

static int fill(struct events *events, struct event *event, struct atoll_error *err)
{
	const char *time = event_text(event->object, "time");
	uint64_t step = event_number(event->object, "step", 0);

	event->kind = event_text(event->object, "kind");
	event->seq = event_number(event->object, "seq", UINT64_MAX);
	if (!event->kind || !event->kind[0] || event->seq == UINT64_MAX)
		return refuse(events, "it has no kind or no number", err);
	if (!time || !event_read_time(time, &event->time_ns))
		return refuse(events, "it has no time", err);
	event->step = step > UINT32_MAX ? 0 : (uint32_t)step;
	return 1;
}

int events_next(struct events *events, struct event *event, struct atoll_error *err)
{
	json_error_t error = {0};
	char *line;
	size_t size;
	int r;

	event_done(event);
	r = next_line(events, &line, &size, err);
	if (r <= 0)
		return r;
	event->object = parse(events, line, size, &error);
	if (!event->object)
		return refuse(events, error.text[0] ? error.text : "memory ran out", err);
	event->line = line;
	event->size = size;
	if (!json_is_object(event->object))
		return refuse(events, "it is no object", err);
	return fill(events, event, err);
}
