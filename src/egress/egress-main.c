/* SPDX-License-Identifier: Apache-2.0 */
#include "base/announce.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "egress/core.h"
#include "egress/relay-pipe.h"
#include "egress/swap.h"
#include "egress/tls.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/*
 * The process
 *
 *   begin      a clean environment, no descriptors but the channel
 *   configure  what the supervisor says; from here on with other ids
 *   prepare    everything that opens a file or a listening socket
 *   lock_in    see egress-confine.c
 *   serve      until the channel ends
 */

#define CHANNEL_FD   3
#define CONFIG_MAX   (16 * 1024 * 1024)
#define KEYSTORE_MAX (16 * 1024 * 1024)
#define HERITAGE_MAX (64 << 10)

/* A library must not be told by the caller's environment which files to read. */
static int begin(struct atoll_error *err)
{
	int r;

	clearenv();
	signal(SIGPIPE, SIG_IGN);
	/* Ctrl-C is meant for the command; the end of the channel is ours. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	r = fd_close_range(CHANNEL_FD + 1, ~0u, false);
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "close descriptors");
	if (fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC) < 0)
		return error_set(err, ATOLL_FAULT_REQUEST, 0,
				 "atoll-egress is started by atoll, not by hand");
	if (!OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) ||
	    !OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) || sodium_init() < 0)
		return error_set(err, ATOLL_FAULT_HOST, 0, "start OpenSSL and libsodium");
	return 0;
}

static int configure(struct egress *egress, struct config *config, struct atoll_error *err)
{
	struct buf text = BUF_INIT(CONFIG_MAX);
	struct egress_message message;
	int fd = -1, r;
	size_t n = 1;
	ssize_t size = fd_receive(CHANNEL_FD, &message, sizeof message, 0, &fd, &n);
	cleanup_fd int config_fd = n == 1 && size > 0 ? fd : -1;

	if (size != sizeof message || message.type != EGRESS_CONFIG || config_fd < 0)
		return error_set(err, ATOLL_FAULT_BUG, 0, "egress got no configuration");
	lseek(config_fd, 0, SEEK_SET);
	r = fd_read_all(config_fd, &text);
	if (r < 0)
		r = error_set(err, ATOLL_FAULT_HOST, -r, "read the configuration");
	else
		r = config_read(text.data ? text.data : "", text.used, &egress->network, config,
				err);
	if (text.data)
		sodium_memzero(text.data, text.room);
	buf_done(&text);
	if (r < 0)
		return r;
	memcpy(egress->token, config->token, sizeof egress->token);
	return lock_become(config->uid, config->gid, err);
}

static int prepare_inspection(struct egress *egress, const struct config *config,
			      struct atoll_error *err)
{
	int r;

	if (!network_inspects(&egress->network))
		return 0;
	if (!config->trust)
		return error_set(err, ATOLL_FAULT_HOST, 0,
				 "TLS is to be opened, and no file of authorities is known");
	r = authority_new(config->authority, &egress->authority, err);
	if (r == 0)
		r = authority_outside(config->trust, &egress->outside, err);
	if (r == 0 && config->n_secrets > 0)
		r = swap_new(&egress->network, (const char *const *)config->placeholders,
			     (const char *const *)config->values, &egress->swap, err);
	return r;
}

/* What has to be trusted inside, for the supervisor. */
struct gifts {
	int fds[3];
	size_t n;
};

/* One more, in a memfd. */
static int give(struct gifts *gifts, const void *data, size_t size, struct atoll_error *err)
{
	cleanup_fd int fd = memfd_create("atoll-authority", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : fd_write_all(fd, data, size);

	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	if (r < 0)
		return error_set(err, ATOLL_FAULT_HOST, -r, "write the authorities");
	gifts->fds[gifts->n++] = take_fd(&fd);
	return 0;
}

/* Where the supervisor may replace us, what is trusted inside stays as it is. */
static int give_heritage(const struct egress *egress, struct gifts *gifts, struct atoll_error *err)
{
	struct buf text = BUF_INIT(HERITAGE_MAX);
	int r = authority_write(egress->authority, &text);

	r = r < 0 ? error_set(err, ATOLL_FAULT_HOST, -r, "write the authority down")
		  : give(gifts, text.data, text.used, err);
	if (text.data)
		sodium_memzero(text.data, text.room);
	buf_done(&text);
	return r;
}

static int give_authorities(const struct egress *egress, const struct config *config,
			    struct gifts *gifts, struct atoll_error *err)
{
	cleanup_buf struct buf store = BUF_INIT(KEYSTORE_MAX);
	const char *pem;
	size_t size;
	int r;

	if (!egress->authority)
		return 0;
	pem = authority_pem(egress->authority, &size);
	r = give(gifts, pem, size, err);
	if (r == 0 && config->wants_keystore) {
		r = keystore_make(egress->authority, egress->outside, &store, err);
		if (r == 0)
			r = give(gifts, store.data, store.used, err);
	}
	return r == 0 && config->has_heir ? give_heritage(egress, gifts, err) : r;
}

static int prepare(struct egress *egress, const struct config *config, struct egress_message *ready,
		   struct gifts *gifts, struct atoll_error *err)
{
	int r = publish_open(egress, ready->ports, err);

	ready->count = (uint32_t)egress->network.n_listen;
	egress->announced_fd = announce_open();
	if (r == 0 && egress->announced_fd < 0)
		r = error_set(err, ATOLL_FAULT_HOST, -egress->announced_fd, "make a socket");
	if (r == 0)
		r = resolver_new(egress, config, &egress->resolver, err);
	if (r == 0)
		r = prepare_inspection(egress, config, err);
	if (r == 0)
		r = give_authorities(egress, config, gifts, err);
	if (r < 0)
		return r;
	relay_pipe_open();
	egress->names = names_new();
	egress->asker = asker_new(egress);
	egress->pace = pace_new(egress);
	if (!egress->names || !egress->asker || !egress->pace || dns_serve(egress, -1) < 0)
		return error_oom(err);
	return 0;
}

static void fail(const struct atoll_error *err)
{
	struct egress_message message = {.type = EGRESS_FAILED};

	message.error = *err;
	if (send(CHANNEL_FD, &message, sizeof message, MSG_NOSIGNAL) < 0)
		fprintf(stderr, "atoll-egress: %s\n", err->text);
}

/* False: not all that happened could be told. */
static bool serve(struct egress *egress)
{
	bool is_told;

	publish_serve(egress);
	loop_run(&egress->loop);
	/* Each connection is told of, also those that end with us. */
	flow_cut(egress, NULL, ATOLL_CONN_ALLOWED, "the run ended");
	dns_flush(egress);
	is_told = channel_flush(egress->channel);
	/* Wiped, not only freed. */
	swap_free(egress->swap);
	authority_free(egress->authority);
	return is_told;
}

int main(void)
{
	static struct egress egress;
	struct config config = {0};
	struct atoll_error err = {0};
	struct egress_message ready = {.type = EGRESS_READY};
	struct gifts gifts = {0};
	int r;

	r = begin(&err);
	if (r == 0)
		r = configure(&egress, &config, &err);
	if (r == 0 && loop_init(&egress.loop) < 0)
		r = error_set(&err, ATOLL_FAULT_HOST, errno, "epoll");
	if (r == 0)
		r = prepare(&egress, &config, &ready, &gifts, &err);
	config_done(&config);
	if (r == 0)
		r = lock_in(&err);
	if (r == 0) {
		egress.flows_max = lock_flows_max();
		egress.channel = channel_new(&egress, CHANNEL_FD);
		if (!egress.channel)
			r = error_oom(&err);
	}
	if (r == 0) {
		if (fd_send(CHANNEL_FD, &ready, sizeof ready, gifts.fds, gifts.n) < 0)
			return 1;
		while (gifts.n > 0)
			close(gifts.fds[--gifts.n]);
		return serve(&egress) ? 0 : 1;
	}
	fail(&err);
	return 1;
}
