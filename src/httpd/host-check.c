/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/host-check.h"

#include "base/str.h"
#include "http/http.h"

#include <string.h>
#include <unistd.h>

/*
 * Which names a request may be for
 *
 * A web page can have its own name resolved to 127.0.0.1 a moment after it was loaded (DNS
 * rebinding); the browser then lets it read what this daemon answers. What gives it away is the
 * Host, which is the page's name. So a plain TCP connection serves requests for: addresses, which
 * nobody resolves; names that no stranger can own (localhost, names without a dot, this machine's
 * own); names that the configuration has, and names beneath these. With TLS the certificate
 * decides, and no browser reaches a unix socket.
 *
 * A page elsewhere may also send requests without reading the answer. A browser says with Origin
 * where such a request comes from: where it changes something, that has to be one of the same
 * names, and not a sandbox's.
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
	/* HTTP/1.0 needs none; a browser always says one. */
	return !host || !host[0] ||
	       (host_name_read(host, strlen(host), name) && is_served(api, name));
}

/* "PORT-ID.anything": what is served there is a sandbox's. */
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
	/* The id of a browser's extension (chrome-extension://ID) is no name, and has no dot. */
	at = starts_with(origin, "http://") || starts_with(origin, "https://")
		     ? strstr(origin, "://")
		     : NULL;
	if (!at || strchr(at, '@') || !host_name_read(at + 3, strlen(at + 3), name) ||
	    is_of_sandbox(name))
		return false;
	return is_served(api, name) ||
	       (own && host_name_read(own, strlen(own), host) && streq(host, name));
}
