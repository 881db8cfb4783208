/* SPDX-License-Identifier: Apache-2.0 */
#include "api/proxy.h"
#include "api/api.h"

/* Linked only as long as there is nothing else by this name; last in the list of files. */
void proxy_exchange(struct exchange *exchange, struct box *box, uint16_t port)
{
	(void)box;
	(void)port;	api_refuse(api_call_of(exchange), 501, "not in this build");
}
