/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The daemon's HTTP server
 *
 * Two layers in one component. The lower one is an HTTP/1.1 server that does not know tenants and
 * boxes:
 *
 *   server.h           connections of one event loop, their number, their end
 *   listen.h           listening: TCP, unix sockets, sockets of systemd; connection.c accepts
 *   request.c          reads heads; intake.h reads bodies
 *   server-exchange.h  one request and its answer: what a handler can ask about the request
 *   answer.h           what a handler can send
 *   secure.h, tunnel.h TLS by OpenSSL; connections that leave the server
 *   multipart.h, inflate.h, query.h   parsers of forms, gzip and request targets
 *
 * The upper one makes a call of a tenant out of an exchange:
 *
 *   route.h            calls, protocols, routes: which handler serves a request
 *   reply.h            answers and errors in JSON, bodies in JSON; parse.h for large ones
 *   stream.h, sse.h    answers that go on; their limits
 *   put.h, listing.h   files that a client writes; long lists of files
 *   port-proxy.h       requests for a program inside a box
 *   metrics.h, operations.h   counters, /healthz, /readyz, /metrics, the request log
 *
 * The protocols (e2b, v1) are components above this one. Each is a const struct api_protocol; the
 * daemon's main has the list.
 */

#include "httpd/answer.h"
#include "httpd/intake.h"
#include "httpd/listen.h"
#include "httpd/listing.h"
#include "httpd/metrics.h"
#include "httpd/multipart.h"
#include "httpd/parse.h"
#include "httpd/port-proxy.h"
#include "httpd/put.h"
#include "httpd/query.h"
#include "httpd/reply.h"
#include "httpd/route.h"
#include "httpd/server-exchange.h"
#include "httpd/server.h"
#include "httpd/sse.h"
#include "httpd/stream.h"
#include "httpd/time.h"
#include "httpd/tunnel.h"
