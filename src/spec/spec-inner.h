/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of this room share, and nobody else needs
 *
 * Every error begins with the origin of the line that it is about ("job.yaml:12: ..." or
 * "--write: ..."), and quotes strangers' text only through shown() and shown_path().
 */

#include "base/error.h"
#include "base/scope.h"
#include "base/str.h"
#include "spec/spec.h"

/* A word of at most 60 characters, and a path that a person may want to copy. */
#define shown(text)	 str_show((text), (char[64]){0}, 64)
#define shown_path(text) str_show((text), (char[160]){0}, 160)

/* The same path means different things in a file and on the command line: see place_resolve(). */
enum spec_source {
	SPEC_FROM_FLAG,
	SPEC_FROM_FILE,
	SPEC_FROM_FILE_BY_CALLER, /* workspace.path: what others count from must count from outside
				   */
};

/* How the workspace is written if nobody says. */
#define SPEC_WORKSPACE_PRESET SPEC_WORKSPACE_LAYER

static inline bool origin_is_default(const char *origin)
{
	return streq(origin, SPEC_ORIGIN_DEFAULT);
}

/* Files never begin so: spec_load() puts "./" in front of such a name. */
static inline bool origin_is_flag(const char *origin)
{
	return starts_with(origin, "--");
}

/* Who said that this is the workspace, for errors: "default" would help nobody. */
static inline const char *spec_workspace_said(const struct spec *spec)
{
	return origin_is_default(spec->workspace_origin) ? "current directory"
							 : spec->workspace_origin;
}

/* spec.c: the setters behind flags and files alike */
int spec_put_workspace(struct spec *spec, const char *path, enum spec_source source,
		       const char *origin, struct atoll_error *err);
int spec_put_cwd(struct spec *spec, const char *path, enum spec_source source, const char *origin,
		 struct atoll_error *err);
/* `at` NULL: at its own place. */
int spec_put_rule(struct spec *spec, enum spec_access access, const char *path, const char *at,
		  enum spec_source source, const char *origin, struct atoll_error *err);
int spec_put_socket(struct spec *spec, const char *path, enum spec_source source,
		    const char *origin, struct atoll_error *err);
int spec_put_broad(struct spec *spec, const char *path, enum spec_source source, const char *origin,
		   struct atoll_error *err);
/* `value` NULL passes the caller's. */
int spec_put_variable(struct spec *spec, const char *name, const char *value, const char *origin,
		      struct atoll_error *err);

void spec_rule_done(struct spec_rule *rule);

/* Room for one more: the array doubles whenever its length is a power of two. NULL without memory.
 */
void *spec_grow(void *items, size_t n, size_t size);

/* Put a copy of `text` in the place of what was there. */
int spec_set_text(char **slot, const char *text, struct atoll_error *err);

/*
 * place.c: what a path as written means. A relative one counts from `caller` on the command line
 * and becomes absolute at once; in a file it counts from the workspace, which a flag may still
 * change, so it stays relative until place_anchor().
 */
int place_resolve(const struct spec *spec, const char *text, enum spec_source source,
		  const char *origin, char **ret_path, struct atoll_error *err);

/* The same for a line that may be a pattern. A relative pattern always counts from the workspace.
 */
int place_resolve_pattern(const struct spec *spec, const char *text, enum spec_source source,
			  const char *origin, char **ret_path, bool *ret_is_pattern,
			  struct atoll_error *err);

/* Make `*path` absolute and plain, now that the workspace is known. */
int place_anchor(const struct spec *spec, char **path, bool is_pattern, const char *origin,
		 struct atoll_error *err);

/* The number of leading components of `path` that make the longest exact match of `pattern`; 0 if
 * none does. */
size_t place_match_depth(const char *pattern, const char *path);

#define PLACE_PATTERN_COMPONENTS 62 /* place_match_depth() keeps its state in 64 bits */

/* defaults.c: append the default rules for this home and workspace. */
int defaults_add(struct spec *spec, struct atoll_error *err);

/* spec-finish.c: anchor the paths, add the defaults, and merge; no checks. */
int spec_fill(struct spec *spec, struct atoll_error *err);

/* canon.c: pointers to the `n` items of an array in order; the caller frees them. NULL without
 * memory. */
const void **spec_sorted(const void *items, size_t n, size_t size,
			 int (*compare)(const void *, const void *));

/* inside.c */
struct json;
void spec_user_done(struct spec_user *user);
/* A place inside as it was written, into `*slot`; `what` it is for. */
int inside_put_path(char **slot, const char *path, const char *what, const char *origin,
		    struct atoll_error *err);
/* Why a place inside belongs to the system or to the sandbox, in words that follow its name; NULL
 * if it does not. */
const char *inside_why_taken(const char *path);
int inside_place_cwd(struct spec *spec, struct atoll_error *err);
int inside_check(const struct spec *spec, struct atoll_error *err);
int inside_put_image(struct spec *spec, const char *path, const char *origin,
		     struct atoll_error *err);
void inside_canonical_image(const struct spec *spec, struct json *json);
void inside_canonical_guest(const struct spec *spec, struct json *json);
void inside_canonical_users(const struct spec *spec, struct json *json);
void inside_canonical_at(const struct spec *spec, struct json *json);
/* A line's path by its name inside; `ret` has INSIDE_PATH_MAX bytes, and may be what is returned.
 */
#define INSIDE_PATH_MAX 8192
const char *inside_shown(const struct spec *spec, const char *path, char *ret);
void inside_explain_json(const struct spec *spec, struct json *json);
void inside_explain_text(const struct spec *spec, struct buf *out);

/* elsewhere.c: grants at another place. The first drops what says nothing, and counts. */
void elsewhere_settle(struct spec *spec);
int elsewhere_check(const struct spec *spec, struct atoll_error *err);
/* Where a grant is seen. */
static inline const char *elsewhere_place(const struct spec_rule *rule)
{
	return rule->at ? rule->at : rule->path;
}
static inline bool rule_is_grant(const struct spec_rule *rule)
{
	return rule->access == SPEC_READ || rule->access == SPEC_WRITE;
}

/* values.c: of limits that stand elsewhere. */
int values_parse(const struct spec_limit_info *info, bool may_be_lifted, const char *text,
		 uint64_t *ret_value, struct atoll_error *err);
void values_format(const struct spec_limit_info *info, uint64_t value, char *ret, size_t size);

/* broad.c: refuse what is too wide, or never given. */
int broad_check(const struct spec *spec, struct atoll_error *err);

/* words.c: a list of words for an error text: "a, b or c". Returns `ret`. */
const char *words_join(const char *const *words, char *ret, size_t size);

/* May a variable be called so? `value` NULL: and have the caller's value. */
int words_check_variable(const char *name, const char *value, const char *origin,
			 struct atoll_error *err);

/* What to write instead: "did you mean 'b'?", or all that there are. Returns `ret`. */
const char *words_hint(const char *typed, const char *const *words, char *ret, size_t size);
