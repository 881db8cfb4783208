/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/inner.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Standard input is the daemon's end of everything (see guest-wire.h). When it closes, so do we:
 * a daemon that was started again asks for a new guest. */
int main(void)
{
	static struct server server;
	int type = 0;
	socklen_t size = sizeof type;

	if (getsockopt(0, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_SEQPACKET) {
		fputs("atoll-guest: started by the daemon, not by hand\n", stderr);
		return 2;
	}
	/* Others who run as this user have no business in here. It stops nobody who may ptrace us
	 * anyway, and what we say is believed by nobody. */
	prctl(PR_SET_DUMPABLE, 0);
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (chdir("/") < 0 || fcntl(0, F_SETFL, O_NONBLOCK) < 0)
		return 1;
	return serve(&server, 0) < 0;
}
