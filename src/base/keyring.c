/* SPDX-License-Identifier: Apache-2.0 */
#include "base/keyring.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From <linux/key.h>, which is the kernel's own. */
#define POSSESSOR_ALL 0x3f000000
#define USER_VIEW     0x00010000
#define USER_SEARCH   0x00080000

static bool is_shared;

/* Somebody else may have made one of this name that everybody may join. */
static bool is_own(void)
{
	char text[128];
	unsigned int owner;
	long size = syscall(SYS_keyctl, KEYCTL_DESCRIBE, KEY_SPEC_SESSION_KEYRING, text,
			    sizeof text - 1);

	if (size <= 0 || size > (long)sizeof text)
		return false;
	text[sizeof text - 1] = '\0';
	return sscanf(text, "keyring;%u;", &owner) == 1 && owner == geteuid();
}

void keyring_share(void)
{
	char name[32];
	long id;

	if (geteuid() == 0)
		return;
	snprintf(name, sizeof name, "atoll-%u", geteuid());
	id = syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, name);
	/* So that the next one finds it; it is gone with the last. */
	is_shared = id >= 0 && is_own() &&
		    syscall(SYS_keyctl, KEYCTL_SETPERM, id,
			    POSSESSOR_ALL | USER_VIEW | USER_SEARCH) == 0;
}

int keyring_leave(void)
{
	if (is_shared || syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
		return 0;
	/* EPERM: a container's filter refuses the call, and so it does to the command. */
	return errno == ENOSYS || errno == EPERM ? 0 : -errno;
}
