/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <atoll/error.h>
#include <stdbool.h>

struct listener;
struct server;

/* Listens at "127.0.0.1:PORT" (port 0: any free one), "[::1]:PORT", "unix:PATH", or "fd:N". With
 * `certificate` and `key` (PEM files) the connections use TLS. Without them, an address that is not
 * on the loopback is refused. `ret_where` gets the address with the port. */
int server_listen(struct server *server, const char *where, const char *certificate,
		  const char *key, char ret_where[128], struct atoll_error *err);
/* The number of listening sockets of systemd (LISTEN_FDS): "fd:3" and on. Removes the variables. */
unsigned server_count_inherited(void);

/* ---- for the server's files ---- */

void listener_free(struct listener *listener);
/* Starts or stops accepting on all listeners. */
void server_accept(struct server *server, bool accepts);
