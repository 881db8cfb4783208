/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names in Host that a foreign web page cannot have
 *
 * A web page can have its own name resolved to 127.0.0.1 after the page was loaded (DNS rebinding).
 * The browser then takes a server on the loopback for the page's own and lets the page read its
 * answers. The request's Host is still the page's name. So servers on the loopback serve names that
 * no stranger can own, and names that the person has listed. Used by the daemon
 * (httpd/host-check.c) and at published ports (egress/visit.c). Pure functions.
 */

#include "http/http.h"

#define HOST_NAME_SIZE 256

/* The name of "name", "name:port", "[v6]:port", in small letters and without a dot at its end.
 * False: the name is empty or too long. */
bool host_name_read(const char *text, size_t size, char ret[HOST_NAME_SIZE]);
/* Is `name` the same as `top`, or does it end in "." and `top`? Without regard to case. */
bool host_name_is_beneath(const char *name, const char *top);
/* Is `name` (of host_name_read()) an address, localhost or a name beneath it, a name without a dot,
 * or `own`, the name of this machine ("": unknown)? */
bool host_name_is_local(const char *name, const char *own);

/*
 * The value of Host in the head of a request. Lines and fields are parsed as strictly as by
 * http_read_request(); the request line is not: any text without control characters will do.
 * `ret->at` NULL: there is no Host. HTTP_BAD also for more than one, and for a head of more than
 * HTTP_HEAD_MAX bytes.
 */
enum http_result http_read_host(const char *text, size_t size, struct http_slice *ret,
				const char **ret_why);
