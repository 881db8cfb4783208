/* SPDX-License-Identifier: Apache-2.0 */
/* What clients of the proxy say. A target is a name in its one spelling or an address, with a port.
 */
#include "egress/core.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_target(const char *name, uint16_t port, size_t used, size_t size)
{
	char again[NETWORK_NAME_MAX];

	if (port == 0 || used == 0 || used > size)
		abort();
	if (name[0] && (network_name(name, strlen(name), again) < 0 || strcmp(again, name) != 0))
		abort();
}

static void try_socks(const uint8_t *data, size_t size, const char *token)
{
	struct socks socks = {0};

	for (;;) {
		enum socks_step step = socks.step;
		enum socks_result result = socks_read(&socks, data, size, token);

		if (socks.n_reply > sizeof socks.reply)
			abort();
		if (result == SOCKS_CONNECT) {
			check_target(socks.name, socks.port, socks.used, size);
			if (token[0] && step == SOCKS_GREETING && !socks.is_v4)
				abort();
		}
		if (result != SOCKS_CONTINUE)
			return;
		if (socks.used == 0 || socks.used > size || socks.step <= step)
			abort();
		data += socks.used;
		size -= socks.used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct proxy_request request;

	try_socks(data, size, "");
	try_socks(data, size, "token");
	for (int i = 0; i < 2; i++) {
		enum proxy_result result = proxy_read(data, size, i ? "token" : "", &request);

		if (result == PROXY_CONNECT || result == PROXY_FORWARD)
			check_target(request.name, request.port, request.used, size);
		if (result == PROXY_BAD && !request.problem[0])
			abort();
	}
	return 0;
}
