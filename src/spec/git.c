/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/git.h"

#include "base/path.h"
#include "base/scope.h"
#include "base/str.h"

/*
 * How a path in a git directory is judged
 *
 * By its first component, which names a kind; each kind has a function that judges the rest. What
 * no table names is refused. All comparison is on folded names (names_fold), so that HOOKS is hooks
 * where the file system thinks so; where it does not, a file that git never reads was refused.
 *
 * The free-form trees (refs, logs, rebase-merge, ...) take any name except those that a second git
 * directory would need: a pointer file could lead git to .git/refs/x, and its config would be a
 * branch's name to us.
 *
 * The lists were made by watching git 2.39 at work (init to gc, worktrees and submodules).
 */

enum kind {
	KIND_UNKNOWN,
	KIND_FILE,    /* git writes it; nothing runs because of it */
	KIND_TREE,    /* the same, with whatever is beneath it */
	KIND_PROBE,   /* git init tries out symbolic links with it */
	KIND_HEAD,    /* without it the directory is none of git's any more */
	KIND_REFS,    /* the same */
	KIND_OBJECTS, /* the same */
	KIND_INFO,
	KIND_HOOKS,
	KIND_CONFIG,
	KIND_CONFIG_LOCK,
	KIND_INDEX,
	KIND_PACKED_REFS,
	KIND_WORKTREE_CONFIG,
	KIND_COMMONDIR,
	KIND_GITDIR,	    /* worktrees/NAME/gitdir: where the worktree's pointer file is */
	KIND_WORKTREE_FILE, /* a file that git has in worktrees/NAME only */
	KIND_EMPTY,	    /* a directory that git makes and that stays empty */
	KIND_LFS,
	KIND_MODULES,
	KIND_WORKTREES,
};

static const struct {
	const char *name; /* folded; "*" and "?" as in a glob */
	enum kind kind;
} kinds[] = {
	{"head", KIND_HEAD},
	{"head.lock", KIND_FILE},
	{"refs", KIND_REFS},
	{"objects", KIND_OBJECTS},
	{"info", KIND_INFO},
	{"hooks", KIND_HOOKS},
	{"config", KIND_CONFIG},
	{"config.lock", KIND_CONFIG_LOCK},
	{"config.worktree", KIND_WORKTREE_CONFIG},
	{"config.worktree.lock", KIND_WORKTREE_CONFIG},
	{"commondir", KIND_COMMONDIR},
	{"gitdir", KIND_GITDIR},
	{"locked", KIND_WORKTREE_FILE},
	{"modules", KIND_MODULES},
	{"worktrees", KIND_WORKTREES},
	{"branches", KIND_EMPTY},
	{"lfs", KIND_LFS},
	{"logs", KIND_TREE},
	{"rebase-merge", KIND_TREE},
	{"rebase-apply", KIND_TREE},
	{"sequencer", KIND_TREE},
	{"rr-cache", KIND_TREE},
	{"notes_merge_worktree", KIND_TREE},
	{"subtree-cache", KIND_TREE},
	{"index", KIND_INDEX},
	{"index.lock", KIND_FILE},
	{"index.stash.*", KIND_FILE},
	{"next-index-*", KIND_FILE},
	{"packed-refs", KIND_PACKED_REFS},
	{"packed-refs.lock", KIND_FILE},
	{"packed-refs.new", KIND_FILE},
	{"shallow", KIND_FILE},
	{"shallow.lock", KIND_FILE},
	{"shallow_??????", KIND_FILE},
	{"gc.pid", KIND_FILE},
	{"gc.pid.lock", KIND_FILE},
	{"gc.log", KIND_FILE},
	{"gc.log.lock", KIND_FILE},
	{"description", KIND_FILE},
	{"rebased-patches", KIND_FILE},
	{"add_edit.patch", KIND_FILE},
	{"addp-hunk-edit.diff", KIND_FILE},
};

static const char what_unknown[] = "unknown file in the git directory";
static const char what_directory[] = "git directory";
static const char what_symlink[] = "symbolic link in the git directory";
static const char what_worktree[] = "git worktree";
static const char what_nested[] = "git directory within a git directory";

/* Where a git directory is: in which of git's own places. */
enum place {
	PLACE_TOP,
	PLACE_MODULE,	/* modules/NAME */
	PLACE_WORKTREE, /* worktrees/NAME */
};

struct question {
	enum names_action action;
	enum place place;
	bool is_own;	  /* this run has made the git directory, or the part of it */
	const char *what; /* the answer's words on GIT_REFUSE */
};

static enum git_verdict refuse(struct question *q, const char *what)
{
	q->what = what;
	return GIT_REFUSE;
}

/* One component of a path, folded, and what follows it ("" at the end). */
struct step {
	const char *raw;
	size_t size;
	const char *rest;
	char name[NAMES_FOLD_SIZE];
};

/* False at the end, and for a component that no file system has. */
static bool take_step(const char *path, struct step *step)
{
	step->raw = path;
	step->size = strchrnul(path, '/') - path;
	step->rest = path + step->size;
	if (*step->rest == '/')
		step->rest++;
	return step->size > 0 && names_fold(path, step->size, step->name) && *step->name;
}

static bool is_hex(const char *text, size_t at_least)
{
	size_t length = strspn(text, "0123456789abcdef");

	return text[length] == '\0' && length >= at_least;
}

static bool is_any_of(const char *name, const char *const *patterns)
{
	for (; *patterns; patterns++)
		if (str_glob(*patterns, name))
			return true;
	return false;
}

/* ORIG_HEAD, MERGE_MSG, BISECT_LOG and their like: upper case as written, not as folded. */
static bool is_pseudo_ref(const struct step *step)
{
	static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t length = strspn(step->raw, upper);

	if (length == 0 || step->raw[0] < 'A' || step->raw[0] > 'Z')
		return false;
	return length == step->size ||
	       (length + 5 == step->size && memcmp(step->raw + length, ".lock", 5) == 0);
}

/* As mkstemp() makes it of "tXXXXXX". */
static bool is_probe(const char *name)
{
	return name[0] == 't' && strlen(name) == 7 &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789") == 7;
}

static enum kind kind_of(const struct step *step)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (str_glob(kinds[i].name, step->name))
			return kinds[i].kind;
	/* Behind the table, so that CONFIG is config and no reference. */
	if (is_pseudo_ref(step))
		return KIND_FILE;
	return is_probe(step->name) ? KIND_PROBE : KIND_UNKNOWN;
}

static enum git_verdict judge_file(struct question *q, const char *rest)
{
	if (*rest || q->action == NAMES_MKDIR)
		return refuse(q, what_unknown);
	return GIT_ALLOW;
}

/* A directory itself. Writing is refused, since who knows that it is one. */
static enum git_verdict judge_directory(struct question *q, bool is_removable)
{
	switch (q->action) {
	case NAMES_MKDIR:
	case NAMES_CHMOD:
		return GIT_ALLOW;
	case NAMES_REMOVE:
		return is_removable ? GIT_ALLOW : refuse(q, what_directory);
	default:
		return refuse(q, what_unknown);
	}
}

/* Any names, without those that would make a git directory of one in the tree: commondir, and
 * `marker`, one of the two that it needs instead. */
static enum git_verdict judge_tree(struct question *q, const char *rest, const char *marker)
{
	struct step step;

	for (; *rest; rest = step.rest) {
		if (!take_step(rest, &step))
			return refuse(q, what_unknown);
		if (names_same(step.name, marker) || names_same(step.name, "commondir") ||
		    names_same(step.name, ".git"))
			return refuse(q, what_nested);
	}
	return GIT_ALLOW;
}

/* lfs/objects is its store, and lfs/cache/locks/refs its locks; so `refs` is what must not stand
 * beside the store, and `objects` what must not stand deeper. */
static enum git_verdict judge_lfs(struct question *q, const char *rest)
{
	struct step step;

	if (!take_step(rest, &step))
		return refuse(q, what_unknown);
	if (names_same(step.name, "refs") || names_same(step.name, "commondir") ||
	    names_same(step.name, ".git"))
		return refuse(q, what_nested);
	return judge_tree(q, step.rest, "objects");
}

static enum git_verdict judge_objects_info(struct question *q, const char *rest)
{
	static const char *const files[] = {"packs", "packs_??????", "commit-graph",
					    "commit-graph.lock", NULL};
	static const char *const graphs[] = {"graph-*", "tmp_graph_*", "commit-graph-chain*", NULL};
	static const char *const alternates[] = {"alternates*", "http-alternates*", "altern~*",
						 "http-a~*", NULL};
	struct step step;

	if (!take_step(rest, &step))
		return refuse(q, what_unknown);
	if (is_any_of(step.name, alternates))
		return refuse(q, "git alternates");
	if (is_any_of(step.name, files))
		return judge_file(q, step.rest);
	if (!streq(step.name, "commit-graphs"))
		return refuse(q, what_unknown);
	if (!*step.rest)
		return judge_directory(q, true);
	if (take_step(step.rest, &step) && is_any_of(step.name, graphs))
		return judge_file(q, step.rest);
	return refuse(q, what_unknown);
}

static enum git_verdict judge_pack(struct question *q, const char *rest)
{
	static const char *const files[] = {"pack-*", "tmp_*", ".tmp-*", "multi-pack-index*", NULL};
	struct step step;

	if (!take_step(rest, &step))
		return refuse(q, what_unknown);
	if (streq(step.name, "multi-pack-index.d")) {
		if (!*step.rest)
			return judge_directory(q, true);
		if (!take_step(step.rest, &step))
			return refuse(q, what_unknown);
	}
	return is_any_of(step.name, files) ? judge_file(q, step.rest) : refuse(q, what_unknown);
}

/* objects/ab/cdef..., and one level more, which is how lfs has its store. */
static enum git_verdict judge_loose(struct question *q, const char *rest)
{
	struct step step;

	for (unsigned depth = 0; depth < 2; depth++) {
		if (!*rest)
			return judge_directory(q, true);
		if (!take_step(rest, &step))
			break;
		if (is_hex(step.name, 38) || starts_with(step.name, "tmp_obj_"))
			return judge_file(q, step.rest);
		if (strlen(step.name) != 2 || !is_hex(step.name, 2))
			break;
		rest = step.rest;
	}
	return refuse(q, what_unknown);
}

static enum git_verdict judge_objects(struct question *q, const char *rest)
{
	/* What is being received waits in a directory of the same shape. */
	static const char *const quarantines[] = {"tmp_objdir-*", "incoming-*", NULL};
	static const char *const files[] = {"maintenance.lock", "tmp_obj_*", NULL};
	struct step step;

	if (!*rest)
		return judge_directory(q, false);
	if (!take_step(rest, &step))
		return refuse(q, what_unknown);
	if (is_any_of(step.name, quarantines)) {
		if (!*step.rest)
			return judge_directory(q, true);
		if (!take_step(step.rest, &step))
			return refuse(q, what_unknown);
	}
	if (strlen(step.name) == 2 && is_hex(step.name, 2))
		return judge_loose(q, step.rest);
	if (streq(step.name, "pack"))
		return *step.rest ? judge_pack(q, step.rest) : judge_directory(q, true);
	if (streq(step.name, "info"))
		return *step.rest ? judge_objects_info(q, step.rest) : judge_directory(q, true);
	return is_any_of(step.name, files) ? judge_file(q, step.rest) : refuse(q, what_unknown);
}

/* `exclude` is made by git init, and hides files from `git status` afterwards. The others that git
 * obeys name programs by way of the config (attributes), or make history another one (grafts). A
 * sparse checkout leaves out files of the index, and git status says so. */
static enum git_verdict judge_info(struct question *q, const char *rest)
{
	static const char *const files[] = {"refs", "refs_??????", "sparse-checkout",
					    "sparse-checkout.lock", NULL};
	struct step step;

	if (!*rest)
		return judge_directory(q, false);
	if (!take_step(rest, &step))
		return refuse(q, what_unknown);
	if (is_any_of(step.name, files))
		return judge_file(q, step.rest);
	if (names_same(step.name, "exclude"))
		return q->is_own ? judge_file(q, step.rest) : refuse(q, "git exclude list");
	if (names_same(step.name, "attributes"))
		return refuse(q, "git attributes");
	if (names_same(step.name, "grafts"))
		return refuse(q, "git grafts");
	return refuse(q, what_unknown);
}

/* git init copies samples there; only without their suffix would they be hooks. */
static enum git_verdict judge_hooks(struct question *q, const char *rest)
{
	struct step step;

	if (!*rest && q->action == NAMES_MKDIR)
		return GIT_ALLOW;
	if (q->action == NAMES_CREATE && take_step(rest, &step) && !*step.rest &&
	    ends_with(step.name, ".sample"))
		return GIT_ALLOW;
	return refuse(q, "git hooks");
}

/* What is checked out on the host is what it says. It comes by rename, and is read before. */
static enum git_verdict judge_index(struct question *q, const char *rest)
{
	static const char what[] = "git index";

	if (*rest)
		return refuse(q, what);
	switch (q->action) {
	case NAMES_RENAME_TO:
		return GIT_VET_INDEX;
	case NAMES_CHMOD:
	case NAMES_REMOVE:
		return GIT_ALLOW;
	default:
		return refuse(q, what);
	}
}

static const char what_replace[] = "git replace: other objects in the place of the host's";

/* References, which may hold anything; but those in `replace` make git show and check out one
 * object in the place of another, under the same commit. */
static enum git_verdict judge_refs(struct question *q, const char *rest)
{
	struct step step;

	if (!*rest)
		return judge_directory(q, false);
	if (!q->is_own && take_step(rest, &step) && names_same(step.name, "replace"))
		return refuse(q, what_replace);
	return judge_tree(q, rest, "objects");
}

/* The same references may stand in there. It comes by rename, and is read before. */
static enum git_verdict judge_packed_refs(struct question *q, const char *rest)
{
	if (*rest || q->action == NAMES_MKDIR)
		return refuse(q, what_unknown);
	if (q->is_own || q->action == NAMES_CHMOD || q->action == NAMES_REMOVE)
		return GIT_ALLOW;
	return q->action == NAMES_RENAME_TO ? GIT_VET_REFS : refuse(q, "git packed references");
}

static enum git_verdict judge_config(struct question *q, const char *rest)
{
	static const char what[] = "git config";

	if (*rest)
		return refuse(q, what);
	switch (q->action) {
	case NAMES_RENAME_TO:
		return q->place == PLACE_MODULE ? GIT_VET_SUBMODULE_CONFIG : GIT_VET_CONFIG;
	case NAMES_CHMOD:
		/* git init tries out the executable bit with it, and takes a refusal for a file
		 * system without. */
		return GIT_ALLOW;
	default:
		return refuse(q, what);
	}
}

/* `git worktree` on the host moves, repairs and removes what it names. */
static enum git_verdict judge_gitdir(struct question *q)
{
	switch (q->action) {
	case NAMES_CREATE:
	case NAMES_WRITE:
		return q->is_own ? GIT_VET_POINTER : refuse(q, what_worktree);
	case NAMES_REMOVE:
	case NAMES_CHMOD:
		return q->is_own ? GIT_ALLOW : refuse(q, what_worktree);
	default:
		return refuse(q, what_worktree);
	}
}

static enum git_verdict judge_modules(struct question *q, const char *rest);
static enum git_verdict judge_worktrees(struct question *q, const char *rest);

/* A path within any git directory. */
static enum git_verdict judge(struct question *q, const char *path)
{
	struct step step;
	bool is_worktree = q->place == PLACE_WORKTREE;

	if (!take_step(path, &step))
		return refuse(q, what_unknown);
	switch (kind_of(&step)) {
	case KIND_FILE:
	case KIND_CONFIG_LOCK:
		return judge_file(q, step.rest);
	case KIND_PROBE:
		if (q->action == NAMES_CREATE || q->action == NAMES_REMOVE)
			return judge_file(q, step.rest);
		break;
	case KIND_TREE:
		return *step.rest ? judge_tree(q, step.rest, "objects") : judge_directory(q, true);
	case KIND_LFS:
		return *step.rest ? judge_lfs(q, step.rest) : judge_directory(q, true);
	case KIND_REFS:
		return judge_refs(q, step.rest);
	case KIND_HEAD:
		if (q->action == NAMES_REMOVE)
			return refuse(q, what_directory);
		return judge_file(q, step.rest);
	case KIND_GITDIR:
		return is_worktree && !*step.rest ? judge_gitdir(q) : refuse(q, what_unknown);
	case KIND_WORKTREE_FILE:
		return is_worktree ? judge_file(q, step.rest) : refuse(q, what_unknown);
	case KIND_COMMONDIR:
		if (is_worktree && q->action == NAMES_CREATE && !*step.rest)
			return GIT_COMMONDIR;
		return refuse(q, "git commondir");
	case KIND_INDEX:
		return judge_index(q, step.rest);
	case KIND_PACKED_REFS:
		return judge_packed_refs(q, step.rest);
	case KIND_CONFIG:
		return is_worktree ? refuse(q, "git config") : judge_config(q, step.rest);
	case KIND_WORKTREE_CONFIG:
		return refuse(q, "git worktree config");
	case KIND_HOOKS:
		return is_worktree ? refuse(q, "git hooks") : judge_hooks(q, step.rest);
	case KIND_OBJECTS:
		return is_worktree ? refuse(q, what_nested) : judge_objects(q, step.rest);
	case KIND_INFO:
		return judge_info(q, step.rest);
	case KIND_EMPTY:
		return *step.rest ? refuse(q, what_unknown) : judge_directory(q, true);
	case KIND_MODULES:
		return judge_modules(q, step.rest);
	case KIND_WORKTREES:
		return is_worktree ? refuse(q, what_nested) : judge_worktrees(q, step.rest);
	case KIND_UNKNOWN:
		break;
	}
	return refuse(q, what_unknown);
}

/* Does the rule for this first component of `path` tell anything about the path, if it need not be
 * where a git directory begins? Names of files do not when they are used for a directory: a
 * submodule may be called lib/shallow. */
static bool has_opinion(const struct question *q, const char *path)
{
	struct step step;

	if (!take_step(path, &step))
		return true;
	switch (kind_of(&step)) {
	case KIND_UNKNOWN:
	/* Submodules and worktrees of the submodule: what is in them is asked about next. */
	case KIND_MODULES:
	case KIND_WORKTREES:
		return false;
	case KIND_FILE:
	case KIND_INDEX:
	case KIND_PACKED_REFS:
	case KIND_PROBE:
	case KIND_HEAD:
	case KIND_GITDIR:
	case KIND_WORKTREE_FILE:
	case KIND_EMPTY:
		return !*step.rest && q->action != NAMES_MKDIR;
	default:
		return true;
	}
}

/* Does the rule for this first component list all that may be beneath it? Then nothing in there can
 * be a git directory of its own. */
static bool is_closed(const char *path)
{
	struct step step;
	enum kind kind = take_step(path, &step) ? kind_of(&step) : KIND_UNKNOWN;

	return kind == KIND_OBJECTS || kind == KIND_INFO || kind == KIND_HOOKS;
}

/*
 * modules/NAME holds a submodule's git directory, and NAME may have slashes: where it ends cannot
 * be told from the path. So every place where it might end is tried, and the strictest answer of
 * those that have one counts. Levels that mean nothing anywhere may only be made.
 */
static enum git_verdict judge_modules(struct question *q, const char *rest)
{
	enum {
		DEPTH_MAX = 64
	};
	enum git_verdict strictest = GIT_ALLOW;
	const char *what = NULL;
	bool is_known = false;
	struct step step;

	q->place = PLACE_MODULE;
	for (unsigned depth = 0; *rest; depth++) {
		enum git_verdict verdict;

		if (depth == DEPTH_MAX || !take_step(rest, &step))
			return refuse(q, what_unknown);
		rest = step.rest;
		if (!*rest || !has_opinion(q, rest))
			continue;
		is_known = true;
		verdict = judge(q, rest);
		if (verdict > strictest) {
			strictest = verdict;
			what = q->what;
		}
		if (is_closed(rest))
			break;
	}
	if (!is_known)
		return judge_directory(q, false);
	q->what = what;
	return strictest;
}

static enum git_verdict judge_worktrees(struct question *q, const char *rest)
{
	struct step step;

	/* `git gc` inside takes every worktree that it does not see for one that is gone: only the
	 * own one may be removed. */
	if (!*rest)
		return judge_directory(q, q->is_own);
	if (!take_step(rest, &step))
		return refuse(q, what_unknown);
	if (!*step.rest)
		return judge_directory(q, q->is_own);
	q->place = PLACE_WORKTREE;
	return judge(q, step.rest);
}

/* The git directory itself, or the pointer file in its place. */
static enum git_verdict judge_self(struct question *q)
{
	switch (q->action) {
	case NAMES_MKDIR:
		return GIT_ALLOW;
	case NAMES_CREATE:
		return GIT_VET_POINTER;
	case NAMES_WRITE:
		return q->is_own ? GIT_VET_POINTER : refuse(q, what_directory);
	case NAMES_CHMOD:
	case NAMES_REMOVE:
		return q->is_own ? GIT_ALLOW : refuse(q, what_directory);
	case NAMES_SYMLINK:
	case NAMES_RENAME_TO:
	case NAMES_RENAME_DIR_TO:
		break;
	}
	return refuse(q, what_directory);
}

/* A link in a git directory makes a name mean another place: git would read its config and hooks
 * there. git init makes one link to test the file system, in a submodule as well, removes it, and
 * writes core.symlinks=false if that fails. The link's text decides (GIT_VET_LINK). */
static enum git_verdict judge_symlink(struct question *q, const char *inside)
{
	const char *name = path_name(inside);
	struct step step;

	if (name != inside && !starts_with(inside, "modules/") &&
	    !starts_with(inside, "worktrees/"))
		return refuse(q, what_symlink);
	if (!take_step(name, &step) || kind_of(&step) != KIND_PROBE)
		return refuse(q, what_symlink);
	q->action = NAMES_CREATE;
	return judge(q, inside) == GIT_ALLOW ? GIT_VET_LINK : refuse(q, what_symlink);
}

enum git_verdict git_guard(const char *inside, enum names_action action, bool is_own,
			   const char **ret_what)
{
	struct question q = {.action = action, .is_own = is_own};
	enum git_verdict verdict;

	if (!*inside)
		verdict = judge_self(&q);
	else if (action == NAMES_REMOVE && is_own)
		verdict = GIT_ALLOW;
	else if (action == NAMES_SYMLINK)
		verdict = judge_symlink(&q, inside);
	else if (action == NAMES_RENAME_DIR_TO)
		verdict = refuse(&q, "directory moved into the git directory");
	else
		verdict = judge(&q, inside);

	if (verdict == GIT_REFUSE)
		*ret_what = q.what;
	return verdict;
}

/* What git has in a git directory beside those of submodules and worktrees. */
static bool is_part(const struct step *step)
{
	switch (kind_of(step)) {
	case KIND_TREE:
	case KIND_REFS:
	case KIND_OBJECTS:
	case KIND_INFO:
	case KIND_HOOKS:
	case KIND_LFS:
	case KIND_EMPTY:
		return true;
	default:
		return false;
	}
}

/* "NAME", of which each part may be one of a name with slashes, or a submodule's submodule or
 * worktree. The first is always a name. */
static bool is_module_path(const char *rest)
{
	struct step step;

	if (!take_step(rest, &step))
		return false;
	while (*(rest = step.rest))
		if (!take_step(rest, &step) || is_part(&step))
			return false;
	return true;
}

bool git_is_repository_place(const char *inside)
{
	struct step step;

	if (!*inside)
		return true;
	if (!take_step(inside, &step))
		return false;
	if (names_same(step.name, "modules"))
		return is_module_path(step.rest);
	if (!names_same(step.name, "worktrees") || !take_step(step.rest, &step))
		return false;
	if (!*step.rest)
		return true;
	return take_step(step.rest, &step) && names_same(step.name, "modules") &&
	       is_module_path(step.rest);
}

const char *const git_markers[] = {
	"head",	     "objects",	     "refs",	  "commondir",	 "config",  "config.worktree",
	"hooks",     "index",	     "info",	  "branches",	 "remotes", "modules",
	"worktrees", "rebase-merge", "sequencer", "packed-refs", NULL,
};

static bool is_marker(const char *name, size_t size)
{
	char folded[NAMES_FOLD_SIZE];

	if (!names_fold(name, size, folded))
		return false;
	for (size_t i = 0; git_markers[i]; i++)
		if (names_same(folded, git_markers[i]))
			return true;
	return false;
}

bool git_is_marker(const char *name)
{
	return is_marker(name, strlen(name));
}

const char *git_next_marker(const char *root, const char *path, const char *after)
{
	const char *c = after ? strchrnul(after, '/') : path;

	if (!after && path_is_within(path, root))
		c += strlen(root);
	for (;;) {
		size_t size;

		c += strspn(c, "/");
		size = strchrnul(c, '/') - c;
		if (size == 0)
			return NULL;
		if (is_marker(c, size))
			return c;
		c += size;
	}
}

const char *const git_before[] = {
	"config",
	"config.worktree",
	"commondir",
	"index",
	"hooks",
	"objects/info/alternates",
	"objects/info/http-alternates",
	"info/attributes",
	"info/grafts",
	NULL,
};

static bool has_line(const char *text, size_t size, const char *line, size_t length)
{
	for (const char *at = text, *end = text + size; at < end;) {
		const char *next = memchr(at, '\n', (size_t)(end - at));
		size_t have = (size_t)((next ? next : end) - at);

		if (have == length && memcmp(at, line, length) == 0)
			return true;
		at += have + 1;
	}
	return false;
}

const char *git_refs_vet(const char *text, size_t size, const char *old, size_t old_size)
{
	static const char replace[] = "refs/replace/";
	unsigned left = 1024; /* each costs a walk through the old text */

	for (const char *at = text, *end = text + size; at < end;) {
		const char *found = memmem(at, (size_t)(end - at), replace, strlen(replace));
		const char *line, *next;

		if (!found)
			return NULL;
		line = memrchr(at, '\n', (size_t)(found - at));
		line = line ? line + 1 : at;
		next = memchr(found, '\n', (size_t)(end - found));
		next = next ? next : end;
		if (left-- == 0 || !has_line(old, old_size, line, (size_t)(next - line)))
			return what_replace;
		at = next + 1;
	}
	return NULL;
}
