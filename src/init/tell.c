/* SPDX-License-Identifier: Apache-2.0 */
#include "init/tell.h"

#include "base/clock.h"
#include "base/scope.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GATHER_NS (20 * INT64_C(1000000))

/* What one call may have to tell at most: that something was changed in two places, or that it was
 * refused, and what has been counted meanwhile. */
#define ROOM (2 * NOTICE_MAX)

void tell_init(struct tell *tell, int fd, struct notice_packet *packet)
{
	*tell = (struct tell){.fd = fd, .packet = fd >= 0 ? packet : NULL};
	if (tell->packet)
		packet->number = 1;
	tell->began_ns = (int64_t)clock_real_ns();
}

bool tell_has_room(struct tell *tell)
{
	if (!tell->packet ||
	    (tell->packet->size <= NOTICE_PACKET_MAX - ROOM && tell->n_fds + 1 < NOTICE_FDS_MAX))
		return true;
	return tell_send(tell);
}

/* ---- one notice ---- */

struct notice *tell_begin(struct tell *tell, enum notice_type type)
{
	struct timespec now;

	/* Whoever serves a call has asked for room before. Should one have not, everything ends
	 * rather than that something is written beside it, or goes on unrecorded. */
	if (tell->packet->size > NOTICE_PACKET_MAX - NOTICE_MAX && !tell_send(tell))
		_exit(1);
	tell->open = (struct notice *)(tell->packet->data + tell->packet->size);
	tell->used = sizeof *tell->open;
	memset(tell->open, 0, sizeof *tell->open);
	clock_gettime(CLOCK_REALTIME, &now);
	tell->open->type = (uint16_t)type;
	tell->open->time_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	return tell->open;
}

void tell_bytes(struct tell *tell, const char *text, size_t size)
{
	size_t room = NOTICE_PACKET_MAX - tell->packet->size;

	if (room > NOTICE_MAX)
		room = NOTICE_MAX;
	/* One byte for the end, and a few to fill up with. */
	room = room > tell->used + 16 ? room - tell->used - 16 : 0;
	if (size > room) {
		size = room;
		tell->open->flags |= NOTICE_IS_CUT;
	}
	memcpy((char *)tell->open + tell->used, text, size);
	((char *)tell->open)[tell->used + size] = '\0';
	tell->used += size + 1;
	tell->open->n_texts++;
}

void tell_text(struct tell *tell, const char *text)
{
	tell_bytes(tell, text, strlen(text));
}

void tell_fd(struct tell *tell, int fd)
{
	if (tell->n_fds == NOTICE_FDS_MAX) {
		close(fd);
		return;
	}
	tell->fds[tell->n_fds++] = fd;
	tell->open->flags |= NOTICE_HAS_FD;
}

void tell_end(struct tell *tell)
{
	size_t padded = (tell->used + 7) & ~(size_t)7;

	memset((char *)tell->open + tell->used, 0, padded - tell->used);
	tell->open->size = (uint32_t)padded;
	/* Last of all: who looks after our death sees whole ones. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	tell->packet->size += (uint32_t)padded;
	tell->open = NULL;
	if (!tell->since_ns)
		tell->since_ns = clock_monotonic_ns();
}

/* ---- all of them ---- */

static void forget_fds(struct tell *tell)
{
	while (tell->n_fds)
		close(tell->fds[--tell->n_fds]);
}

static ssize_t send_packet(struct tell *tell)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int) * NOTICE_FDS_MAX)];
	} control;
	struct iovec data = {.iov_base = tell->packet->data, .iov_len = tell->packet->size};
	struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

	if (tell->n_fds) {
		memset(&control, 0, sizeof control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int) * tell->n_fds);
		memcpy(CMSG_DATA(&control.head), tell->fds, sizeof(int) * tell->n_fds);
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * tell->n_fds);
	}
	return sendmsg(tell->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool tell_send(struct tell *tell)
{
	if (!tell->packet || !tell->packet->size)
		return true;
	while (send_packet(tell) < 0) {
		if (errno == EINTR)
			continue;
		/* The supervisor is gone, and with it all reason to go on. */
		if (errno == EPIPE || errno == ECONNRESET)
			_exit(0);
		/* Too many descriptors of the user's are on their way: hashes will be missing. */
		if (errno == ETOOMANYREFS && tell->n_fds) {
			forget_fds(tell);
			continue;
		}
		tell->is_stuck = true;
		return false;
	}
	tell->packet->size = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	tell->packet->number++;
	forget_fds(tell);
	tell->since_ns = 0;
	tell->is_stuck = false;
	return true;
}

void tell_send_if_due(struct tell *tell, int64_t now_ns)
{
	if (tell->since_ns && now_ns - tell->since_ns >= GATHER_NS)
		tell_send(tell);
}

int tell_wait_ms(const struct tell *tell, int64_t now_ns, int most_ms)
{
	int64_t left_ms;

	/* Then it is the socket that is waited for. */
	if (!tell->since_ns || tell->is_stuck)
		return most_ms;
	left_ms = (tell->since_ns + GATHER_NS - now_ns + 999999) / 1000000;
	if (left_ms < 0)
		left_ms = 0;
	return most_ms >= 0 && most_ms < left_ms ? most_ms : (int)left_ms;
}

void tell_finish(struct tell *tell, int control_fd)
{
	while (!tell_send(tell)) {
		struct pollfd fds[] = {{.fd = tell->fd, .events = POLLOUT},
				       {.fd = control_fd, .events = POLLRDHUP}};

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return;
		if (fds[1].revents)
			return;
	}
}
