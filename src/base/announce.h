/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct atoll_error;

/*
 * Which TCP ports of this host are atoll's own
 *
 * No sandbox may reach a listener of atoll's: the daemon, published ports, the proxy of a sandbox
 * without namespaces. Each process that listens announces its port first; egress asks before it
 * connects to an address of this host, whatever the contract allows.
 *
 * An announcement is a socket with an abstract name that holds the port. The kernel keeps such
 * names for each network namespace, just like ports; every user sees them; and they end with the
 * process. Other users of the host can take such a name, too, which makes that port unreachable
 * from sandboxes. Whoever takes all eight names of a port keeps atoll from listening there, as by
 * listening at the port itself.
 */

/* Announce the port of a bound TCP socket, before listen(). Returns a descriptor to keep open for
 * as long as the socket. */
int announce_listener(int socket_fd, struct atoll_error *err);

/* A socket to ask with: it has to be made before seccomp forbids it. Descriptor or -errno. */
int announce_open(void);
/* Is the port announced? Also true where nobody can tell. */
bool announce_has(int fd, uint16_t port);
