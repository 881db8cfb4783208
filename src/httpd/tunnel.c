/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/tunnel.h"

#include "base/scope.h"
#include "httpd/connection-read.h"
#include "httpd/connection.h"
#include "httpd/socket-relay.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Connections that leave the server
 *
 * exchange_detach_socket() gives the socket of an exchange to the handler. With TLS the server
 * keeps the socket and relays to a socket pair, so that the handler reads and writes plain bytes.
 */

struct tunnel {
	struct relay *relay;
	struct tunnel *next, **link;
};

static void tunnel_free(struct tunnel *tunnel)
{
	*tunnel->link = tunnel->next;
	if (tunnel->next)
		tunnel->next->link = tunnel->link;
	free(tunnel);
}

static void on_over(struct relay *relay, void *own)
{
	(void)relay;
	tunnel_free(own);
}

void tunnel_free_all(struct server *server)
{
	while (server->tunnels) {
		relay_free(server->tunnels->relay);
		tunnel_free(server->tunnels);
	}
}

/* Relays between the TLS connection and a socket pair, whose other end is returned. The connection
 * loses its descriptor and its TLS session. -1 on failure. */
static int tunnel_new(struct connection *connection)
{
	struct server *server = connection->server;
	struct tunnel *tunnel = calloc(1, sizeof *tunnel);
	int pair[2];

	if (!tunnel ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0) {
		free(tunnel);
		return -1;
	}
	loop_unwatch(server->loop, &connection->watch);
	tunnel->relay = relay_new(&(struct relay_request){
		.loop = server->loop,
		.lane = connection->lane,
		.outer_fd = connection->watch.fd,
		.inner_fd = pair[0],
		.ssl = connection->ssl,
		.over = on_over,
		.own = tunnel,
	});
	if (!tunnel->relay) {
		close(pair[0]);
		close(pair[1]);
		free(tunnel);
		connection_touch(connection); /* the socket is watched again */
		return -1;
	}
	connection->watch.fd = -1;
	connection->ssl = NULL;
	tunnel->next = server->tunnels;
	if (tunnel->next)
		tunnel->next->link = &tunnel->next;
	tunnel->link = &server->tunnels;
	server->tunnels = tunnel;
	return pair[1];
}

int exchange_detach_socket(struct exchange *exchange, char **ret_unread, size_t *ret_size)
{
	struct connection *connection = exchange->connection;
	struct http_slice behind;
	int fd;

	if (exchange->stage != STAGE_OPEN || !connection->body.is_done ||
	    connection_is_over(connection))
		return -1;
	/* While the handler runs, the bytes behind the head are still in server->scratch. */
	behind = connection->server->behind;
	if (connection->server->behind_of == connection)
		connection_keep_unread(connection, behind.at, behind.size);
	if (connection_is_over(connection))
		return -1;
	if (connection->ssl) {
		fd = tunnel_new(connection);
		if (fd < 0)
			return -1;
	} else {
		fd = connection->watch.fd;
		loop_unwatch(connection->server->loop, &connection->watch);
		connection->watch.fd = -1;
	}
	*ret_size = connection->n_unread;
	*ret_unread = take_ptr(connection->unread);
	connection->n_unread = 0;
	connection_cut(connection);
	return fd;
}
