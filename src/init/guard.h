/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"
#include "init/resolve.h"
#include "init/sense.h"
#include "init/tell.h"
#include "init/turns.h"
#include "spec/git.h"

#include <linux/seccomp.h>
#include <sys/stat.h>

#define GUARD_OWN_MAX	   1024
#define GUARD_HELPERS_MAX  64
#define GUARD_UNSURE_MAX   16
#define GUARD_ROOTS_MAX	   64
#define GUARD_POINTERS_MAX 32

/* An inode, as long as it lives: numbers are used again soon after a file is gone, so the time of
 * birth belongs to it. */
struct guard_id {
	uint64_t dev, ino;
	int64_t born_s, born_ns;
};

/* Inodes to remember. When it is full the oldest are forgotten, which only ever refuses more. */
struct guard_set {
	struct guard_id ids[GUARD_OWN_MAX];
	size_t n;
};

struct watch;

/* Who called last, as far as it was asked for: programs that call once mostly call again. What is
 * opened here belongs to that thread even when its number is another's. */
struct guard_caller {
	pid_t tid;
	int pid_fd;  /* -1: not open */
	int name_fd; /* its comm in /proc; likewise */
};

/* A pointer file of git's whose text is being written, to a pipe: see pointer.c. */
struct guard_pointer {
	bool is_open;
	int pipe_fd, file_fd, dir_fd;
	pid_t tid; /* who has opened it */
	char name[NAME_MAX + 1];
};

enum guard_root {
	GUARD_ROOT_UNSEEN,
	GUARD_ROOT_PLAIN,
	GUARD_ROOT_GIT, /* the root itself is a git directory */
};

struct guard {
	const struct init_config *config;
	struct watch *watch; /* which is told what only the guard sees */
	int listener_fd;
	struct turns turns;
	dev_t private_dev; /* of the private storage: sockets there are the sandbox's own */
	uint64_t n_created;
	mode_t umask;			  /* ours, as last set */
	pid_t helpers[GUARD_HELPERS_MAX]; /* forked to wait; 0: none */
	int null_fd;
	struct guard_caller caller;
	bool has_inner_rules;		/* somebody inside has restricted himself by Landlock */
	bool is_ticking, has_connected; /* see connect_for_a_moment() */
	struct tell tell;
	/* Of a service: the descriptor of struct init_step_head and what follows, if this is the
	 * process of a step that has not executed yet, and how many programs it has tried; -1: it
	 * is not. Else NULL. */
	int (*find_words)(void *data, pid_t pid, unsigned *ret_try);
	void *words_data;
	enum guard_root git_roots[GUARD_ROOTS_MAX]; /* by index of the zone */
	/* What is large stands behind what every call touches. */
	struct sense sense;
	int pointers_fd; /* an epoll with the pipes of those; -1 before the first */
	struct guard_pointer pointers[GUARD_POINTERS_MAX];
	struct guard_set own_git; /* git directories and pointer files made by this run */
	struct guard_set own_sockets;
	struct guard_set granted_sockets; /* by the contract, as they were at the start */
};

/* A directory that is no git directory yet and would become one by few more names, and what the
 * call at hand does there: to be looked at again afterwards (guard_confirm). */
struct guard_unsure {
	int dir_fd;
	enum names_action action;
	char inside[NAME_MAX + 1]; /* as git_guard() takes it */
};

/* One call that waits for an answer. */
struct call {
	struct guard *guard;
	uint64_t id;
	pid_t tid;
	int nr;
	const __u64 *args;
	mode_t umask; /* filled in on demand */
	pid_t tgid;   /* likewise; 0 if not yet */
	bool is_answered;
	bool is_roots; /* of several ids inside the caller has root's */
	bool acts_as_owner;
	const char *moves_from; /* for a rename's target: where it comes from; else NULL */
	bool makes_git_dir;	/* the call, if it succeeds, completes a git directory */
	struct guard_unsure unsure[GUARD_UNSURE_MAX];
	size_t n_unsure;
	/* For the report, should the answer be no. */
	const char *rule;
	const char *action;
	char path[PATH_MAX + NAME_MAX + 2];
};

int guard_init(struct guard *guard, const struct init_config *config, int listener_fd);

/* Take one call from the listener and answer it. 0, or a negative errno if the listener broke. */
int guard_serve(struct guard *guard);

/* A moment has passed: SIGALRM, which the guard asks for while there is something to wait for. */
void guard_tick(struct guard *guard);

/* Nobody has called for a while: what is only remembered to be quicker is given back. */
void guard_trim(struct guard *guard);

/* A child has ended, perhaps one that was forked to wait in the guard's stead. Everybody inside can
 * make orphans, so they must not make room for more of those. */
void guard_helper_ended(struct guard *guard, pid_t pid);
unsigned guard_count_helpers(const struct guard *guard);
bool guard_has_helper(const struct guard *guard, pid_t pid);

/* guard-answer.c */
void answer(struct call *call, int64_t value);		 /* a result, or a negative errno */
void answer_continue(struct call *call);		 /* let the kernel do it */
void answer_fd(struct call *call, int fd, bool cloexec); /* give the caller this descriptor */
bool answer_is_wanted(struct call *call);		 /* is the caller still there? */

/* guard.c: what follows is in a guarded root. -EPERM if it cannot be. */
int guard_act_as_owner(struct call *call);

/* guard.c: tell the supervisor of a refusal; `call` has the rule. */
void guard_report(struct call *call);

/* trusted.c */

/* -code, with the rule that says no. */
int guard_refuse(struct call *call, int code, const char *rule);

/* `name` "" means `dir_fd` itself; links are not followed. What cannot be looked at is not added,
 * and not found. */
void guard_set_add(struct guard_set *set, int dir_fd, const char *name);
bool guard_set_has(const struct guard_set *set, int dir_fd, const char *name);
/* A name is about to go, and perhaps the inode with it: forget what was known. */
void guard_forget(struct guard *guard, int dir_fd, const char *name);

const struct init_zone *guard_zone(const struct guard *guard, const char *path);

/*
 * May this be done? 0, or a negative errno with call->rule saying why not. `*ret_verdict` gets what
 * is to be done specially for git. `is_dir`, for NAMES_REMOVE and renames, says that a whole
 * directory is meant.
 */
int guard_permit(struct call *call, const struct target *target, enum names_action action,
		 bool is_dir, enum git_verdict *ret_verdict);

/* Does the name at hand lie in a git directory, a submodule's or a worktree's that this run has
 * made?
 */
bool guard_is_own_git(struct call *call, const struct target *target);

/* As names_refuse(), by the names that a path and its zone have inside, and by those on the host.
 */
const char *guard_refused_name(const struct guard *guard, const struct init_zone *zone,
			       const char *path, enum names_action action);

/* As names_git_inside(), and also where the writable root itself is a git directory. */
const char *guard_git_inside(struct guard *guard, const struct init_zone *zone, const char *path);

/* Is this plain path of a zone, as far as it exists, a git directory of any name, or in a part of
 * one? */
bool guard_is_in_git_dir(const struct init_zone *zone, const char *path);

/* Is the path protected by a line of the contract, or does it hold something that is? */
bool guard_is_near_protected(const struct call *call, const char *path);

/*
 * After it was done, and before the caller knows: does what was permitted still hold? Another run
 * in the same directory has a guard of its own, and two of them may each add the half of a git
 * directory. Whoever comes last sees it whole. A negative errno if it must be undone.
 */
int guard_confirm(struct call *call);

/* May something of this type, a FIFO or a socket, have that name? Asked besides guard_permit(); 0
 * for regular files, directories and links. */
int guard_permit_special(struct call *call, const struct target *target, mode_t mode);

/* After something was made: remember what must be remembered about it. */
void guard_made(struct call *call, const struct target *target, enum names_action action);

/* links.c: -EPERM for a symbolic link that would lead out of its writable root, or into a git
 * directory */

/* The zone of the target, if it is guarded; else NULL. */
const struct init_zone *guard_guarded_zone(const struct call *call, const struct target *target);
/* The link at `path`, a plain path in the zone, with this text: NULL, or why it must not be. */
const char *guard_judge_link(const struct call *call, const struct init_zone *zone,
			     const char *path, const char *text);

/* A new link at `target` with this text. */
int guard_permit_link(struct call *call, const struct target *target, const char *text);
/* The link at `from`, by another name. */
int guard_permit_same_link(struct call *call, const struct target *from, const struct target *to);
/* moved.c: all links in a directory that moves, the files by which git finds its directories, and
 * what patterns protect; -EXDEV if there are too many entries. */
int guard_permit_tree(struct call *call, const struct target *from, const struct target *to);

/*
 * After a link was made, or a directory moved: another run in the same directory has a guard of its
 * own, which may have moved the one while this one looked at the other. Both look again when they
 * have acted, so whoever comes last sees it. -EPERM if it must be undone.
 */
int guard_confirm_place(struct call *call, const struct target *target);
int guard_confirm_tree(struct call *call, const struct target *from, const struct target *to);

/* install.c */

/* The whole of a small regular file, or a negative errno: -EFBIG if it is none or a large one. */
ssize_t guard_read_small(int dir_fd, const char *name, char *ret, size_t size, struct stat *st);

/* Put `source`, a config.lock, in the place of a git config, by copy and only if it is harmless. */
int guard_install_config(struct call *call, const struct target *source,
			 const struct target *target, bool is_submodule);

/* The same for an index.lock. */
int guard_install_index(struct call *call, const struct target *source,
			const struct target *target);

/* The same for packed-refs. */
int guard_install_refs(struct call *call, const struct target *source, const struct target *target);

/* pointer.c: open a `.git` file, or worktrees/NAME/gitdir, to be written. The caller gets a pipe;
 * its text is put in place when the pipe is closed, if git_pointer_vet() lets it. */
int guard_open_pointer(struct call *call, const struct target *target, bool exists, mode_t mode,
		       bool cloexec);

/* Does this path, as far as it exists, pass through no link? */
bool guard_is_way_plain(const char *path);

/* When guard->pointers_fd can be read: vet and write what is complete. */
void guard_serve_pointers(struct guard *guard);

/* install.c: the config of a directory that becomes a git directory: none, or a harmless one, which
 * is then replaced by a copy that nobody has open. False if it is neither. */
bool guard_seal_config(struct call *call, int dir_fd);
/* May this name leave a git directory without an index in it being read by another length of
 * hashes afterwards? */
bool guard_keeps_format(int git_dir_fd, const char *goes);
