/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/fd.h"
#include "base/scope.h"
#include "base/test.h"
#include "egress/egress-inner.h"
#include "egress/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Both ends are ours: the authority serves, and what checks servers trusts it, or another. */
struct pair {
	struct authority *authority;
	SSL_CTX *outside;
	struct stream server, client;
	struct tls_peer asked, wanted; /* what the server was asked for, whom the client wants */
	uint8_t early[4096];
};

static const struct network_address address = {
	{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1}};
static const struct network_address elsewhere = {
	{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

static void trust(struct authority *authority, SSL_CTX **ret)
{
	cleanup_fd int dir = test_tempdir(), fd = -1;
	char path[256];
	size_t size;
	const char *pem = authority_pem(authority, &size);
	struct atoll_error err = {0};

	fd = openat(dir, "ca.pem", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, pem, size) == (ssize_t)size);
	snprintf(path, sizeof path, "%s/ca.pem", test_tempdir_path());
	CHECK(authority_outside(path, ret, &err) == 0);
}

static void pair_init(struct pair *pair, const char *asked, const char *wanted)
{
	int fds[2];

	*pair = (struct pair){.server = STREAM_INIT, .client = STREAM_INIT};
	CHECK(authority_new(NULL, &pair->authority, NULL) == 0);
	trust(pair->authority, &pair->outside);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
	pair->server.watch.fd = fds[0];
	pair->client.watch.fd = fds[1];
	pair->asked = (struct tls_peer){.name = asked, .address = &address};
	pair->wanted = (struct tls_peer){.name = wanted, .address = &address};
}

static void pair_done(struct pair *pair)
{
	stream_done(&pair->client, false);
	stream_done(&pair->server, false);
	SSL_CTX_free(pair->outside);
	authority_free(pair->authority);
}

#define cleanup_pair cleanup_with(pair_done)

/* Until both are through, or one has failed and the other has heard of it. */
static void shake(struct pair *pair, int *ret_server, int *ret_client)
{
	ssize_t early;

	CHECK(stream_verify(&pair->client, pair->outside, &pair->wanted) == 0);
	*ret_client = stream_handshake(&pair->client, &pair->wanted);
	/* What has been read before the handshake is a part of it. */
	early = recv(pair->server.watch.fd, pair->early, 100, 0);
	CHECK_INT(early, 100);
	CHECK(stream_serve(&pair->server, pair->authority, &pair->asked, pair->early, 100) == 0);
	*ret_server = -EAGAIN;
	for (int i = 0; i < 20; i++) {
		if (*ret_server == -EAGAIN)
			*ret_server = stream_handshake(&pair->server, &pair->asked);
		if (*ret_client == -EAGAIN)
			*ret_client = stream_handshake(&pair->client, &pair->wanted);
	}
}

TEST(a_name_gets_a_certificate_that_is_good_for_it)
{
	cleanup_pair struct pair pair;
	int server, client;
	char data[16];

	pair_init(&pair, "good.test", "good.test");
	shake(&pair, &server, &client);
	CHECK_INT(server, 0);
	CHECK_INT(client, 0);
	CHECK_INT(stream_write(&pair.client, "hello", 5), 5);
	CHECK_INT(stream_read(&pair.server, data, sizeof data), 5);
	CHECK_INT(stream_read(&pair.server, data, sizeof data), -EAGAIN);
	stream_shut(&pair.client);
	CHECK_INT(stream_read(&pair.server, data, sizeof data), 0);
	CHECK_INT(stream_write(&pair.server, "bye", 3), 3);
	CHECK_INT(stream_read(&pair.client, data, sizeof data), 3);
}

TEST(an_end_without_a_word_is_a_failure)
{
	cleanup_pair struct pair pair;
	int server, client;
	char data[16];

	pair_init(&pair, "good.test", "good.test");
	shake(&pair, &server, &client);
	CHECK_INT(client, 0);
	shutdown(pair.client.watch.fd, SHUT_WR);
	CHECK_INT(stream_read(&pair.server, data, sizeof data), -EPROTO);
}

TEST(the_name_in_the_hello_must_be_the_one_looked_up)
{
	cleanup_pair struct pair pair;
	int server, client;

	pair_init(&pair, "good.test", "other.test");
	shake(&pair, &server, &client);
	CHECK_INT(server, -EPROTO);
	CHECK(pair.asked.is_refused);
	CHECK_STR(pair.asked.reason, "TLS is for another name: other.test");
	CHECK_INT(client, -EPROTO);
}

TEST(a_name_can_be_needed)
{
	cleanup_pair struct pair pair;
	int server, client;

	pair_init(&pair, "good.test", "");
	pair.asked.needs_name = true;
	shake(&pair, &server, &client);
	CHECK_INT(server, -EPROTO);
	CHECK(pair.asked.is_refused);
	CHECK_STR(pair.asked.reason, "TLS without a server name");
}

TEST(an_address_gets_a_certificate_as_well)
{
	cleanup_pair struct pair pair;
	int server, client;

	pair_init(&pair, "", "");
	shake(&pair, &server, &client);
	CHECK_INT(server, 0);
	CHECK_INT(client, 0);
}

TEST(a_certificate_for_another_address_is_not_good)
{
	cleanup_pair struct pair pair;
	int server, client;

	pair_init(&pair, "", "");
	pair.asked.address = &elsewhere;
	shake(&pair, &server, &client);
	CHECK_INT(client, -EPROTO);
	CHECK_STR(pair.wanted.reason, "the server's certificate is for another name");
}

TEST(who_trusts_another_authority_says_so)
{
	cleanup_pair struct pair pair;
	struct authority *other;
	int server, client;

	pair_init(&pair, "good.test", "good.test");
	SSL_CTX_free(pair.outside);
	CHECK(authority_new(NULL, &other, NULL) == 0);
	trust(other, &pair.outside);
	authority_free(other);
	shake(&pair, &server, &client);
	CHECK_INT(client, -EPROTO);
	CHECK_STR(pair.wanted.reason,
		  "the server's certificate is from an authority that is not trusted");
	CHECK_INT(server, -EPROTO);
	CHECK_STR(pair.asked.reason, "the program does not trust the authority of this sandbox");
	CHECK(!pair.asked.is_refused);
}

TEST(more_names_than_certificates_are_kept)
{
	cleanup_pair struct pair pair;
	int server, client;

	pair_init(&pair, "", "");
	for (int i = 0; i < 600; i++) {
		char name[64];
		int fds[2];

		snprintf(name, sizeof name, "n%d.%s.test", i % 300,
			 "long-long-long-long-long-long-long-long");
		stream_done(&pair.client, false);
		stream_done(&pair.server, false);
		pair.client = pair.server = (struct stream)STREAM_INIT;
		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
		pair.server.watch.fd = fds[0];
		pair.client.watch.fd = fds[1];
		pair.asked.name = pair.wanted.name = name;
		shake(&pair, &server, &client);
		CHECK_INT(server, 0);
		CHECK_INT(client, 0);
	}
}

TEST(a_file_without_authorities_is_told_of)
{
	struct atoll_error err = {0};
	SSL_CTX *context = NULL;

	CHECK(authority_outside("/nonexistent/ca.pem", &context, &err) < 0);
	CHECK(strstr(err.text, "read authorities from '/nonexistent/ca.pem': "));
	CHECK(authority_outside("/dev/null", &context, &err) < 0);
	CHECK(!context);
}
