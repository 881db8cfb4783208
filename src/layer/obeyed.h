/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct atoll_error;
struct spec;

/*
 * Protect, in every writable root, the files that the host's git and tools obey because the host's
 * own settings or links name them (obeyed.c says which). Also notes where atoll's store is. Called
 * once, when a contract is finished; each result is one more `protect` line of it.
 */
int obeyed_protect(struct spec *spec, struct atoll_error *err);

/* Protect every link on the way to an absolute path, and the place where it ends, as far as these
 * lie in a writable root. Nothing if there is no link. */
int obeyed_protect_links(struct spec *spec, const char *path, struct atoll_error *err);

/* As obeyed_protect() for a workspace alone, as a contract with no other rules, to be freed with
 * spec_free(). The workspace need not exist yet. */
int obeyed_find(const char *workspace, struct spec **ret, struct atoll_error *err);
