/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api.h"

/* Linked only as long as there is nothing else by this name; last in the list of files. */
const struct api_route e2b_template_routes[] = {{0}};
