/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's side of the wire, with somebody else in the place of the guest
 *
 * The input is a list of deeds: questions that the daemon asks, packets that come from inside (with
 * any id, kind, count and error, with entries that make sense or not, with descriptors of any
 * kind), ends of watches and of the guest. Every question has to be answered exactly once, and no
 * descriptor may be left.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "box/test-guest-link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop loop;
static struct tenant tenant;
static struct box box;
static int inside[4] = {-1, -1, -1, -1};
static size_t n_inside, n_asked, n_told;

/* ---- what the daemon has instead ---- */

struct loop *daemon_loop(struct daemon *daemon)
{
	(void)daemon;
	return &loop;
}

int guest_start(struct guest *guest, int channel_fd, struct atoll_error *err)
{
	(void)guest;
	(void)err;
	if (n_inside == 4)
		return -EMFILE;
	inside[n_inside] = fcntl(channel_fd, F_DUPFD_CLOEXEC, 0);
	fcntl(inside[n_inside++], F_SETFL, O_NONBLOCK);
	return 0;
}

void guest_leave_step(struct guest *guest)
{
	(void)guest;
}

void guest_kill(struct guest *guest)
{
	(void)guest;
}

/* ---- what is told ---- */

static void check_text(const char *text)
{
	if (!text || strlen(text) > GUEST_STRING_MAX)
		abort();
}

static void check_entry(const struct guest_entry *entry)
{
	check_text(entry->path);
	check_text(entry->name);
	check_text(entry->owner);
	check_text(entry->group);
	for (size_t i = 0; i < entry->metadata.n; i++) {
		check_text(entry->metadata.items[i].name);
		check_text(entry->metadata.items[i].value);
	}
}

static void done(const struct guest_entry *entries, size_t n, const struct atoll_error *err,
		 void *data)
{
	bool *is_told = data;

	if (*is_told || (err->fault != ATOLL_FAULT_NONE && !err->text[0]))
		abort();
	*is_told = true;
	n_told++;
	for (size_t i = 0; i < n; i++)
		check_entry(&entries[i]);
}

static void listed(struct guest_list *list, const struct atoll_error *err, void *data)
{
	const struct guest_entry *entries;
	size_t n;

	done(NULL, 0, err, data);
	while (list && (n = guest_list_next(list, &entries)))
		for (size_t i = 0; i < n; i++)
			check_entry(&entries[i]);
	guest_list_free(list);
}

static void opened(int fd, const struct guest_entry *entry, const struct atoll_error *err,
		   void *data)
{
	done(entry, entry != NULL, err, data);
	if (fd >= 0)
		close(fd);
}

static void watched(enum guest_event event, const char *name, const struct guest_entry *entry,
		    void *data)
{
	(void)event;
	(void)data;
	check_text(name);
	if (entry)
		check_entry(entry);
}

/* ---- deeds ---- */

struct input {
	const uint8_t *at, *end;
};

static uint8_t take(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

#define ASKED_MAX 64
static bool told[ASKED_MAX];
static struct guest_watch *watches[ASKED_MAX];
static size_t n_watches;

static void ask(struct input *input)
{
	uint8_t kind = take(input);
	bool *is_told;

	if (n_asked == ASKED_MAX)
		return;
	is_told = &told[n_asked++];
	*is_told = false;
	switch (kind % 9) {
	case 0:
		guest_stat(&box, NULL, "/a", done, is_told);
		break;
	case 1:
		guest_list(&box, NULL, "/a", 1, listed, is_told);
		break;
	case 2:
		guest_move(&box, NULL, "/a", "/b", done, is_told);
		break;
	case 3:
		guest_open(&box, NULL, "/a", opened, is_told);
		break;
	case 4:
		guest_write(&box, NULL, "/a", NULL, opened, is_told);
		break;
	case 5:
		guest_connect(&box, 80, opened, is_told);
		break;
	case 6:
		guest_remove(&box, NULL, "/a", done, is_told);
		break;
	case 7:
		guest_make_dir(&box, kind & 64 ? "root" : NULL, "/a", done, is_told);
		break;
	default:
		watches[n_watches++] =
			guest_watch(&box, NULL, "/a", true, true, done, watched, is_told);
	}
}

static void put_entry(struct input *input, struct buf *packet)
{
	struct guest_wire_entry entry = {.mode = 0100644, .permissions = 0644, .type = 'f'};
	uint8_t how = take(input);

	entry.n_metadata = how & 1 ? take(input) % 4 : 0;
	if (how & 2)
		entry = (struct guest_wire_entry){.mode = 0120777, .type = 'l', .is_link = 1};
	if (how & 4)
		entry.type = take(input);
	if (how & 8)
		entry.size = UINT64_MAX - take(input);
	buf_add(packet, &entry, sizeof entry);
	guest_put(packet, how & 16 ? "relative" : "/a/b");
	guest_put(packet, how & 2 ? "/target" : "");
	guest_put(packet, how & 32 ? "" : "user");
	guest_put(packet, "group");
	for (size_t i = 0; i < entry.n_metadata; i++) {
		guest_put(packet, "name");
		guest_put(packet, "value");
	}
}

/* A descriptor of the kind that the input says, or several. */
static size_t make_fds(struct input *input, int ret[4])
{
	int pair[2] = {-1, -1};
	size_t n = 0;

	switch (take(input) % 12) {
	case 0:
		ret[n++] = memfd_create("file", MFD_CLOEXEC);
		break;
	case 1:
		ret[n++] = open("/", O_PATH | O_CLOEXEC);
		break;
	case 2:
		ret[n++] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		break;
	case 3:
		if (pipe2(pair, O_CLOEXEC) == 0)
			ret[n++] = pair[0], ret[n++] = pair[1];
		break;
	case 4:
		ret[n++] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		break;
	case 5:
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0)
			ret[n++] = pair[0], ret[n++] = pair[1];
		break;
	case 6:
		ret[n++] = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
		break;
	case 7:
		ret[n++] = epoll_create1(EPOLL_CLOEXEC);
		break;
	}
	return n;
}

static void send_packet(struct input *input)
{
	cleanup_buf struct buf packet = BUF_INIT(GUEST_PACKET_MAX);
	uint8_t how = take(input), which = take(input) % 4, n = take(input) % 5;
	struct guest_head head = {.id = how & 1 ? take(input) % 16 : n_asked,
				  .kind = how & 2 ? take(input) % 5 : GUEST_SAYS_DONE,
				  .number = how & 4 ? take(input) : 0,
				  .flags = how & 8 ? take(input) : 0,
				  .n = how & 16 ? take(input) : n};
	int fds[4], fd = inside[which] >= 0 ? inside[which] : inside[0];
	size_t n_fds = make_fds(input, fds), raw = how & 32 ? take(input) : 0;

	buf_add(&packet, &head, sizeof head);
	if (head.kind != GUEST_SAYS_ENTRIES)
		guest_put(&packet, "/a");
	for (size_t i = 0; i < n; i++)
		put_entry(input, &packet);
	for (size_t i = 0; i < raw; i++)
		buf_add_char(&packet, (char)take(input));
	head.size = (uint32_t)packet.used + (how & 64 ? take(input) : 0);
	memcpy(packet.data, &head, sizeof head);
	if (fd >= 0)
		fd_send(fd, packet.data, how & 128 ? take(input) % packet.used + 1 : packet.used,
			fds, n_fds);
	for (size_t i = 0; i < n_fds; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* A turn is run in each round that is not the last. */
static int n_rounds;

static void stop(struct loop_timer *timer)
{
	if (--n_rounds > 0)
		loop_arm(&loop, timer, clock_monotonic_ns());
	else
		loop_stop(&loop);
}

static void run(void)
{
	struct loop_timer timer = {.fire = stop};

	n_rounds = 8;
	loop_arm(&loop, &timer, 0);
	loop_run(&loop);
}

static void act(struct input *input)
{
	uint8_t deed = take(input) % 8;

	if (deed < 2)
		ask(input);
	else if (deed < 5)
		send_packet(input);
	else if (deed < 7)
		run();
	else if (n_watches > 0 && take(input) & 1)
		guest_unwatch(watches[--n_watches]);
	else
		guest_end(&box);
}

static void finish(void)
{
	while (n_watches > 0)
		guest_unwatch(watches[--n_watches]);
	guest_end(&box);
	/* Failures are reported by timers. */
	for (int i = 0; i < 200 && loop.n_timers > 0; i++)
		run();
	while (n_inside > 0)
		close(inside[--n_inside]);
	for (int i = 0; i < 4; i++)
		inside[i] = -1;
	loop_done(&loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, data + size};
	int first = dup(0), last;

	close(first);
	n_asked = n_told = n_watches = 0;
	tenant = (struct tenant){0};
	box = (struct box){.state = BOX_RUNNING, .tenant = size % 2 ? &tenant : NULL};
	if (loop_init(&loop) < 0)
		abort();
	while (input.at < input.end)
		act(&input);
	finish();
	for (size_t i = 0; i < n_asked; i++)
		n_told -= told[i];
	/* A watch that was ended while it was armed is told nothing. */
	if (n_told != 0)
		abort();
	last = dup(0);
	close(last);
	if (last != first)
		abort();
	return 0;
}
