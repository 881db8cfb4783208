/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/httpd.h"

/*
 * E2B's protocol
 *
 *   e2b-protocol.c        e2b_protocol: routes, state, which requests are for the data plane
 *
 * The control plane, by keys of tenants:
 *   e2b-control.c         the life of boxes; e2b-create.c, e2b-list.c, e2b-metrics.c, e2b-logs.c,
 *                         e2b-network.c, e2b-snapshots.c: parts of it
 *   e2b-templates.c       templates; e2b-template-files.c: the files for their COPY
 *   e2b-secrets.c         secrets
 *   e2b-volumes.c         volumes; e2b-volume-content.c: their files, by tokens of volumes
 *
 * The data plane of a box, by tokens of the box:
 *   e2b-dataplane.c       which service, which token; wakes the box. e2b-sign.c: signed URLs
 *   e2b-files.c           /files: downloads; e2b-upload.c: uploads
 *   connect.c, connect-call.c, connect-send.c, connect-message.c   the Connect protocol
 *   e2b-process.c         process.Process; e2b-process-stream.c: its methods Start and Connect
 *   e2b-filesystem.c      filesystem.Filesystem; e2b-watch.c: its watchers
 *   interpreter.c         the code interpreter, with interpreter-context.c and interpreter-run.c
 *
 *   e2b-objects.c, e2b-pairs.c, e2b-wait.c   used by all of these
 */

extern const struct api_protocol e2b_protocol;
