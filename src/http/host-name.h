/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which names in a request's Host can be a web page's
 *
 * A web page can have its own name resolved to 127.0.0.1 after the page was loaded (DNS rebinding).
 * The browser then takes a server on the loopback for the page's own and lets the page read its
 * answers. The request's Host is still the page's name. So servers on the loopback serve names that
 * no stranger can own, and names that the person has listed. Used by the daemon
 * (httpd/host-check.c) and at published ports (egress/visit.c). Pure functions.
 */

#include "http/http.h"

#define HOST_NAME_SIZE 256

/* "name", "name:port", "[v6]:port" to the name in small letters, without a dot at its end. False:
 * empty, or too long. */
bool host_name_read(const char *text, size_t size, char ret[HOST_NAME_SIZE]);
/* Is it `top`, or a name that ends in "." and `top`? Case does not count. */
bool host_name_is_beneath(const char *name, const char *top);
/* An address, which nobody resolves; localhost and names beneath it; a name without a dot; `own`,
 * which is this machine's name ("": not known). `name` is of host_name_read(). */
bool host_name_is_local(const char *name, const char *own);

/*
 * The Host in the head of a request, lines and fields read as strictly as by http_read_request().
 * The request line is the caller's to judge: any text without control characters will do.
 * `ret->at` NULL: there is none. HTTP_BAD also for more than one, and for a head of more than
 * HTTP_HEAD_MAX bytes.
 */
enum http_result http_read_host(const char *text, size_t size, struct http_slice *ret,
				const char **ret_why);
