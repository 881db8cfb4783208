/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/guest-parts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Others who run as this user have no business in here. It stops nobody who may ptrace us anyway,
 * and what we say is believed by nobody. So it is left where it would cost something: who is not
 * dumpable has files in /proc that are root's, and where there is no root inside (an ordinary
 * user's box) nobody could read how much we write. What the whole disk loses would stand for it
 * (init/watch.h), others' files included.
 */
static void close_to_others(void)
{
	struct stat st;

	prctl(PR_SET_DUMPABLE, 0);
	if (stat("/proc/self/io", &st) == 0 && st.st_uid != 0)
		prctl(PR_SET_DUMPABLE, 1);
}

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
	close_to_others();
	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (chdir("/") < 0 || fcntl(0, F_SETFL, O_NONBLOCK) < 0)
		return 1;
	return serve(&server, 0) < 0;
}
