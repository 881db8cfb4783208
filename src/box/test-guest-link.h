/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For the tests and the fuzzer of src/guest, which run the daemon's side of a guest without a
 * daemon: they define daemon_loop(), guest_start() and others themselves. */
#include "box/box.h"
#include "box/guest-call.h"
#include "box/guest-link.h"
#include "box/guest-start.h"
#include "box/guest-types.h"
