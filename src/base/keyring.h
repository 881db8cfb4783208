/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's session keyring: what a login, or a file system, has left in the caller's must not
 * be at hand inside
 *
 * The kernel counts keyrings per user, and an ordinary one may have two hundred at once
 * (kernel.keys.maxkeys). So a process that is our own joins the one that all of this user's
 * sandboxes have, before it starts any (see sandbox/holder.c); nobody inside can put anything
 * there, or look. Root, whose sandboxes may be those of several, has enough for one each, and so
 * has a program that merely uses the library, whose own keyring is none of our business.
 */

/* In a process of our own: join that of the user's sandboxes. Where that fails keyring_leave() does
 * it. */
void keyring_share(void);

/* In what becomes the sandbox: be in no keyring of the caller's. Returns 0 or -errno; 0, too, where
 * the kernel has none, or refuses the call to everybody. */
int keyring_leave(void);
