/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "isolate/isolate.h"

int ns_probe(struct backend_report *ret, struct atoll_error *err);

/* Can a user have all the namespaces that are needed, and mount in them? 0, or the errno of what
 * failed. Made in a child that then ends. */
int ns_try(void);
/* Where it fails: what this host does instead ("grants no user namespaces"), found out by trying
 * the parts; and what an administrator can do about it. */
const char *ns_lack(void);
const char *ns_fix(void);

/* The same for a network by rules: 0, the errno of what failed, or EAFNOSUPPORT where it works and
 * the kernel has no IPv6. */
int ns_try_network(void);
