/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate/isolate.h"

#include "isolate/ns/probe.h"

/* In the order in which they are tried. */
const struct backend *const isolate_backends[] = {&ns_backend, &bare_backend, NULL};

const char *isolate_lack(void)
{
	return ns_lack();
}

const struct backend *isolate_choose(int *ret_errnum)
{
	int errnum = ns_try();

	if (ret_errnum)
		*ret_errnum = errnum;
	return errnum ? &bare_backend : &ns_backend;
}
