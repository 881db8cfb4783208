/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "box/template.h"

#include <jansson.h>
#include <stdbool.h>

struct box_pairs;
struct kind;
struct kind_shape;
struct tenant;

bool template_tag_next(struct tenant *tenant, const char *name, const struct kind **at,
		       struct template_tag *ret);
void template_add_tag(struct tenant *tenant, const char *target, const char *tag,
		      template_done *done, void *data);
/* As it stands in the database; the caller's to free, NULL: no memory. */
char *kind_shape_text(const struct kind_shape *shape, json_t *settings);
/* The kind's, and over it the request's. */
int kind_environment(const struct kind *kind, const struct box_pairs *request,
		     struct box_pairs *ret);
