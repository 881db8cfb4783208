/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "e2b/connect-call.h"

extern const struct rpc_method e2b_watch_methods[];
