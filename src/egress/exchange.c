/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/inner.h"

void exchange_take(struct flow *flow, bool is_tls)
{
	(void)is_tls;
	flow_end(flow, ATOLL_CONN_FAILED, "HTTP is not there yet");
}
