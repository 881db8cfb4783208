/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "httpd/route.h"

/* Is the request's Host a name that this daemon serves? */
bool host_is_served(const struct api *api, struct exchange *exchange);
/* May it change something? Not if a browser says that a page elsewhere has sent it. */
bool host_may_change(const struct api *api, struct exchange *exchange);
