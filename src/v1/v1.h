/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/*
 * atoll's own protocol, under /v1
 *
 * openapi.json describes it; a test compares the document with the table of routes. One form of
 * errors, one form of lists ({"items": [...], "next": "..."}), times in RFC 3339, bytes in base64
 * inside JSON.
 *
 *   v1.c            v1_protocol: the table of routes, the state
 *   v1-error.c      errors
 *   v1-wait.c       requests that are answered later; work on threads
 *   v1-form.c       reads the body of a request; refuses unknown members
 *   v1-view.c       sandboxes and steps as JSON
 *   v1-sandbox.c    create, get, delete, pause, resume, time-out
 *   v1-list.c       lists of sandboxes, in pages and by label; create and delete many
 *   v1-step.c       start, get, list, signal, resize; v1-stdin.c: input
 *   v1-output.c     the output of a step as bytes; v1-follow.c: as events
 *   v1-file.c       files
 *   v1-checkpoint.c checkpoints, rollback, fork
 *   v1-change.c     diff, export; v1-apply.c: apply, undo
 *   v1-record.c     event log and receipt
 *   v1-results.c    stores the results of steps
 *   v1-job.c        a command and its contract in a sandbox of its own
 *   v1-watch.c      events of all sandboxes of a tenant
 *   v1-approval.c   questions about the network, and their answers
 *   v1-secret.c     values that contracts name
 */

extern const struct api_protocol v1_protocol;
