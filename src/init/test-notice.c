/* SPDX-License-Identifier: Apache-2.0 */
#include "base/test.h"
#include "init/tell.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Notices from one end to the other. */

static struct notice_packet packet;
static struct tell tell;
static int reader;

static void begin(void)
{
	int pair[2];

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	reader = pair[0];
	memset(&packet, 0, sizeof packet);
	tell_init(&tell, pair[1], &packet);
}

static void tell_one(const char *first, const char *second)
{
	tell_begin(&tell, NOTICE_DENIAL)->pid = 7;
	tell_text(&tell, first);
	tell_text(&tell, second);
	tell_end(&tell);
}

static void end(void)
{
	close(reader);
	close(tell.fd);
}

TEST(what_is_told_is_read)
{
	static _Alignas(8) char data[NOTICE_PACKET_MAX];
	const struct notice *notice;
	const char *texts[4];
	size_t offset = 0;
	ssize_t got;

	begin();
	tell_one("write", "");
	tell_one("read", "/a");
	CHECK(packet.number == 1 && packet.size > 0);
	CHECK(tell_send(&tell));
	CHECK(packet.number == 2 && packet.size == 0);
	got = recv(reader, data, sizeof data, 0);
	CHECK(got > 0);
	notice = notice_next(data, (size_t)got, &offset, texts, 4);
	CHECK(notice && notice->type == NOTICE_DENIAL && notice->pid == 7 && notice->n_texts == 2);
	CHECK_STR(texts[0], "write");
	CHECK_STR(texts[1], "");
	notice = notice_next(data, (size_t)got, &offset, texts, 1);
	CHECK(notice && notice->n_texts == 2);
	CHECK_STR(texts[0], "read");
	CHECK(!notice_next(data, (size_t)got, &offset, texts, 4));
	end();
}

TEST(what_does_not_fit_is_cut_and_says_so)
{
	static char text[2 * NOTICE_MAX];

	begin();
	memset(text, 'x', sizeof text - 1);
	tell_one(text, "behind");
	CHECK(((struct notice *)packet.data)->flags & NOTICE_IS_CUT);
	CHECK(packet.size <= NOTICE_MAX);
	CHECK(tell_has_room(&tell));
	end();
}

TEST(a_reader_that_does_not_read_is_not_waited_for)
{
	static char text[NOTICE_MAX / 2];
	int n = 0;

	begin();
	memset(text, 'x', sizeof text - 1);
	while (tell_has_room(&tell) && n++ < 10000)
		tell_one(text, "");
	CHECK(n < 10000 && tell.is_stuck && packet.size > 0);
	/* There is room again when somebody has read, and nothing was lost. */
	while (recv(reader, text, sizeof text, MSG_DONTWAIT) > 0)
		;
	CHECK(tell_send(&tell) && !tell.is_stuck && packet.size == 0);
	end();
}

TEST(nonsense_is_no_notice)
{
	static _Alignas(8) char data[4 * sizeof(struct notice)];
	struct notice *notice = (struct notice *)data;
	const char *texts[4];
	size_t offset = 0;

	notice->size = sizeof *notice - 8;
	CHECK(!notice_next(data, sizeof data, &offset, texts, 4));
	notice->size = sizeof *notice + 4;
	CHECK(!notice_next(data, sizeof data, &offset, texts, 4));
	notice->size = sizeof data + 8;
	CHECK(!notice_next(data, sizeof data, &offset, texts, 4));
	/* A text that has no end, and more texts than there are. */
	notice->size = sizeof *notice + 8;
	notice->n_texts = 1;
	memset(notice->texts, 'x', 8);
	CHECK(!notice_next(data, sizeof data, &offset, texts, 4));
	memset(notice->texts, 0, 8);
	notice->n_texts = 9;
	CHECK(!notice_next(data, sizeof data, &offset, texts, 4));
	notice->n_texts = 8;
	CHECK(notice_next(data, sizeof data, &offset, texts, 4) == notice);
	CHECK(offset == sizeof *notice + 8);
}
