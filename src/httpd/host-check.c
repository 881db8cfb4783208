/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/host-check.h"

#include "base/str.h"
#include "http/http.h"

#include <string.h>
#include <unistd.h>

/*
 * Which names in Host and Origin are served
 *
 * A web page can have its own name resolved to 127.0.0.1 after the page was loaded (DNS
 * rebinding). The browser then lets the page read the answers of this daemon. The Host of such a
 * request is the name of the page. So over plain TCP the daemon serves: addresses, which are not
 * resolved; names that nobody else can own (localhost, names without a dot, the name of this
 * machine); the names of the configuration, and names beneath them. With TLS the certificate
 * decides. No browser reaches a unix socket.
 *
 * A foreign page can also send a request without reading the answer. The browser then sets Origin
 * to the name of the page: for a request that changes something this has to be one of the names
 * above, and not the name of a sandbox.
 */

static bool is_served(const struct api *api, const char *name)
{
	char own[HOST_NAME_SIZE] = "";

	if (host_name_is_local(name, "") ||
	    (gethostname(own, sizeof own - 1) == 0 && host_name_is_local(name, own)))
		return true;
	for (size_t i = 0; i < api->n_names; i++) {
		if (host_name_is_beneath(name, api->names[i]))
			return true;
	}
	return false;
}

bool host_is_served(const struct api *api, struct exchange *exchange)
{
	const char *host = exchange_field(exchange, "Host");
	char name[HOST_NAME_SIZE];

	if (exchange_is_secure(exchange) || streq(exchange_peer(exchange), "unix"))
		return true;
	/* HTTP/1.0 does not need a Host; a browser always sends one. */
	return !host || !host[0] ||
	       (host_name_read(host, strlen(host), name) && is_served(api, name));
}

/* "PORT-ID.anything": the page of a program in a sandbox. */
static bool is_of_sandbox(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	return digits > 0 && name[digits] == '-' && strchr(name, '.');
}

bool host_may_change(const struct api *api, struct exchange *exchange)
{
	const struct http_slice method = exchange_head(exchange)->method;
	const char *origin = exchange_field(exchange, "Origin"), *at;
	char name[HOST_NAME_SIZE], host[HOST_NAME_SIZE];
	const char *own = exchange_field(exchange, "Host");

	if (!origin || http_slice_is(method, "GET") || http_slice_is(method, "HEAD") ||
	    http_slice_is(method, "OPTIONS"))
		return true;
	/* chrome-extension://ID is refused: ID is not a name, and has no dot. */
	at = starts_with(origin, "http://") || starts_with(origin, "https://")
		     ? strstr(origin, "://")
		     : NULL;
	if (!at || strchr(at, '@') || !host_name_read(at + 3, strlen(at + 3), name) ||
	    is_of_sandbox(name))
		return false;
	return is_served(api, name) ||
	       (own && host_name_read(own, strlen(own), host) && streq(host, name));
}
