/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "init/init.h"
#include "isolate/isolate.h"
#include "spec/spec.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * The process tier, from the inside
 *
 *   prepare.c   contract → list of mounts, zones, limits; the last that reads host paths by name
 *   ids.c       under which id it runs
 *   ns-describe.c, describe-network.c, describe-layer.c  the same data → lines of the plan
 *   start.c, start-child.c, start-setup.c, start-ids.c  clone; ids and trees for the child; both
 *               sides of it (start.h)
 *   root.c, masks.c  the child builds its root from the list; names that disappear in it
 *   ns-layer.c     a workspace in mode `layer`: an overlay with what is hidden taken out
 *   relayer.c   other layers for a live one
 *   system.c    `root: layer`: system directories likewise, gone at the end
 *   beneath.c   what is mounted in trees that such a layer lies over
 *   aliases.c   other names of what is hidden, by mounts of the host's
 *   public.c    of these only what others may read on the host
 *   shared.c    one layer for several of them
 *   saved-root.c      or kept, of a sandbox that lives on
 *   ns-net.c       in a network namespace of its own, the one way out
 *   certificates.c certificates that programs inside trust besides the host's
 *   seal.c      the command's process takes its own rights away and executes
 *   landlock.c, filter.c, bpf.c  what seal.c applies
 *   cgroup.c    memory, pids and CPUs where a hierarchy is writable
 *   disk-quota.c     what the kernel counts for each user, and free space
 *   hidden-keeper.c      names that are hidden inside a writable root
 *   probe.c     trying it all out for `atoll doctor`
 */

/* Mount points and masks in the private storage, while the root is built: then the limit is set. */
#define NS_OWN_INODES 16384

enum ns_mount_kind {
	NS_BIND,    /* a host directory or file at its own place */
	NS_DEVICE,  /* a harmless device node of the host */
	NS_PRIVATE, /* a writable directory of the private storage */
	NS_LINK,    /* a symbolic link of the host's own ("/bin") */
	NS_HIDE,    /* something empty over a hidden path inside a bind */
	NS_STAGE, /* a directory of the store that a layer is made of; no path inside leads there */
};

struct ns_mount {
	enum ns_mount_kind kind;
	char *path;   /* inside */
	char *source; /* on the host, if that is another; else NULL */
	char *link;
	const struct spec_rule *rule; /* NULL for what every sandbox has */
	bool is_writable;
	bool is_dir;
	bool is_nested;	  /* beneath a bind: the mount point is there already */
	bool is_explicit; /* asked for, not a default */
	bool is_beneath;  /* a mount of the host's beneath a tree that is copied alone */
	bool is_moved;	  /* a grant that is seen at another place: lines are about its source */
	dev_t dev;
	ino_t ino;
	uid_t uid; /* of a moved one: whose it is on the host */
	gid_t gid;
	int map_fd;   /* how its owner is mapped, if that is not as everybody else's; -1 */
	char **masks; /* relative paths that a layer on top makes disappear */
	size_t n_masks;
	bool keeps_hidden; /* no layer: what is to be hidden here is kept by its own mode */
	bool is_layer;	   /* the workspace, not written itself: changes go to a layer over it */
	bool is_ephemeral; /* of the system: what is written goes to a layer that vanishes */
	bool is_public;	   /* of the host's tree only what others may read is shown (public.c) */
	bool is_shared; /* the layer is one that several have, over the tree that has `is_base` */
	bool is_base;	/* of NS_STAGE: what the shared layer lies over, the system's top */
	size_t kept;	/* of NS_STAGE: which of cell_layer.roots it is, from 1 on; 0: none */
	int tree_fd;	/* a detached copy of the host's tree, once there is one */
};

struct ns_ids {
	uid_t inside_uid, host_uid;
	gid_t inside_gid, host_gid;
	bool is_shifted;  /* we are root: an id of the sandbox's own, mounts are id-mapped */
	bool is_unmapped; /* accepted as weaker: the owner's own id, no mapping */
	bool has_many;	  /* `root: layer` or `users`: root inside, and those that a system has */
	/* Of a contract with users, those of their ids that lie beyond the range; the second for
	 * groups. And who owns the workspace inside. */
	uint32_t beyond[2][SPEC_USERS_MAX];
	size_t n_beyond[2];
	bool has_users;
	uint32_t first_id[2];
	uid_t owner_uid; /* of the workspace, who what is written there will belong to */
	gid_t owner_gid;
	int slot_fd; /* holds the id, here and in the first process; -1 where none is held */
};

/* A control group of the run's own. The descriptor holds a lock on it for as long as we live, by
 * which others know that it is in use. */
struct ns_group_dir {
	char path[512]; /* "" where there is none */
	int fd;
};

struct ns_group {
	bool has_memory, has_pids, has_cpus;
	bool has_swap; /* what is swapped out counts, too */
	bool is_v2;
	bool is_of_many;	  /* there may be a thousand: it lives on */
	struct ns_group_dir main; /* v2: all; v1: memory */
	struct ns_group_dir cpu;  /* v1 only */
	int v2_fd;		  /* for CLONE_INTO_CGROUP, part of `main`; -1 on v1 */
};

/* What there is instead where no namespace can be had; see bare/bare.h. */
struct cell_bare {
	int ruleset_fd;	   /* all that Landlock allows, made while everything can still fail */
	int lock_fd;	   /* the private directory, locked as long as the run lives */
	char dir[64];	   /* its path; "" before the start */
	char *own[2];	   /* its home and tmp */
	char **env;	   /* the command's, with the private places in it */
	bool *is_guarded;  /* by number of the mount: reading there goes to the guard */
	char *masks[32];   /* paths of zones */
	uint64_t n_others; /* processes that the user had at the start */
};
struct listing;

#define CELL_BUNDLES_MAX   4
#define CELL_KEYSTORES_MAX 32

struct cell {
	const struct spec *spec;
	char *const *env;
	struct ns_mount *mounts;
	size_t n_mounts;
	struct init_zone *zones;
	size_t n_zones;
	struct ns_alias *aliases;
	size_t n_aliases;
	const struct listing *listing; /* while preparing */
	struct ns_ids ids;
	struct ns_group group;
	int landlock_abi;
	char *contract_json, *contract_text; /* after cell_explain() */
	char *passwd, *group_file; /* /etc/passwd and /etc/group with the contract's users in them;
				      NULL without any */
	char *gitconfig;	   /* name and address of the user for commits; may be NULL */
	char *bundles[CELL_BUNDLES_MAX]; /* the host's files of authorities, where TLS is opened */
	size_t n_bundles;
	char *keystores[CELL_KEYSTORES_MAX]; /* likewise, those of Java */
	size_t n_keystores;
	bool needs_keeper;
	bool guards_files; /* something of the host's can be written, or come in from outside */
	bool has_open_top; /* new directories can be made in "/" */
	bool keeps_affinity;
	bool is_plan; /* it is not started: what would fail at the start is tried to be described */
	struct init_limits limits;
	struct init_usage *usage; /* shared with the first process, which counts; may be NULL */
	struct init_peer *peers;  /* likewise, with a network; else NULL */
	struct notice_packet *notices;	/* likewise, with a full record; else NULL */
	const struct cell_extra *extra; /* never NULL */
	struct cell_bare *bare;		/* NULL with namespaces */

	/* For the child of one start. */
	int stdio[3];
	int setup_fd;	/* trees and the go-ahead come in, "ready" or an error goes out */
	int control_fd; /* for life */
	int notice_fd;	/* likewise; -1 where nothing is told */
	mode_t umask;	/* the caller's, for the command */
	const struct init_step *step; /* of a service, in the process of one; else NULL */
	bool has_namespaces;	      /* made by the first process already, or there are none */
	int layer_fd;	/* the writable layer, with upper/ in it; -1 where there is none */
	int storage_fd; /* the private storage, for the parent; -1 where it is not asked for */

	/* After a start, for relayer(); -1 where nobody will ask. */
	int user_ns_fd, mount_ns_fd;
	int map_ns_fd;	   /* how the workspace's owner is mapped, where that is another map */
	int layer_ns_fd;   /* the same for layers, where several users write them */
	int kept_ns_fd;	   /* and for what was written beside the workspace */
	pid_t relayer_pid; /* who lets go of the layers before; 0: nobody */

	/* After a start, until the end: the guard's (listeners.c). */
	int listeners[INIT_LISTENERS_MAX];
	size_t n_listeners;
};

/* What a cell has with and without namespaces: everything but how it is described and started. The
 * second takes what the first has left. */
int cell_new(const struct spec *spec, char *const *env, const struct cell_extra *extra,
	     struct plan *plan, struct cell **ret, struct atoll_error *err);
void cell_free(struct cell *cell);
int32_t cell_find_process(const struct cell *cell, uint16_t local_port, char ret_program[16]);
/* The contract for the command to read. Apart, because it can be made while a child does more. */
int cell_explain(struct cell *cell, struct atoll_error *err);
void cell_account(const struct cell *cell, struct cell_usage *ret);
/* Takes it, and closes those that are of no use any more; -1: only that. */
void cell_keep_listener(struct cell *cell, int fd);
void cell_drop_listeners(struct cell *cell);

int ids_choose(struct cell *cell, struct atoll_error *err);

/* For a start, not for a plan: take a host id that no other run has, until ids_release() or the
 * death of everybody who has the descriptor. */
int ids_take(struct cell *cell, struct atoll_error *err);
/* The text of the sandbox's map; and a user namespace that maps one id to another. */
#define IDS_MAP_SIZE 1024
void ids_write_map(const struct ns_ids *ids, bool is_group, char *ret, size_t size);
int ids_make_userns(const char *uid_map, const char *gid_map);
/* Can a mount of this directory map ids? Tried on a copy that is never attached. */
bool ids_can_map(const char *path);
/* How the workspace is mapped, with more than one id inside, and grants that have an owner of their
 * own. 0 also where it is the same map. */
int ids_map_owner(struct cell *cell, struct atoll_error *err);
/* The user namespace by which a mount of this kind is mapped; `own` is the sandbox's. */
int ids_map_for(const struct cell *cell, const struct ns_mount *mount, int own);
/* With many: the last of those from 1 on. */
uint32_t ids_most(const struct ns_ids *ids);
/* The host id of one inside. */
uint32_t ids_host_id(const struct ns_ids *ids, bool is_group, uint32_t inside);
/* And back; an id that is none of the sandbox's is nobody's. */
uint32_t ids_inside_id(const struct ns_ids *ids, bool is_group, uint32_t host);
/* Capabilities that the command has within its user namespace; a mask. */
uint64_t ids_capabilities(const struct ns_ids *ids);
void ids_release(struct cell *cell);

int ns_prepare_mounts(struct cell *cell, struct plan *plan, struct atoll_error *err);
void ns_free_mounts(struct cell *cell);
bool ns_needs_keeper(const struct cell *cell, const struct spec_rule *rule);
/* Is it a pattern that hides, and could something in this tree match it? */
bool ns_pattern_reaches(const struct spec_rule *rule, const struct ns_mount *mount);

/* The default private places, in no order; NULL-terminated. Home comes on top. */
extern const char *const ns_private_dirs[];
struct ns_device {
	const char *name;
	unsigned major, minor;
};
extern const struct ns_device ns_devices[]; /* ends with a NULL name */
extern const char *const ns_proc_masks[], *const ns_proc_kept[];

void ns_describe(const struct cell *cell, struct plan *plan);
/* Parts of it that hold without namespaces, too. */
void describe_rules(const struct cell *cell, struct plan *plan);
void describe_descriptors(const struct cell *cell, struct plan *plan);
void describe_sockets(const struct cell *cell, struct plan *plan);
void describe_environment(const struct cell *cell, struct plan *plan);
void describe_record(const struct cell *cell, struct plan *plan);
void describe_core(struct plan *plan);
void describe_network(const struct cell *cell, struct plan *plan);
const char *describe_mode(const struct cell *cell); /* of the network, as in a contract */
void ns_describe_network(const struct cell *cell, struct plan *plan);
bool layer_is_memory(const struct cell *cell); /* or would be */
const char *describe_layer(const struct cell *cell);
void describe_root(const struct cell *cell, struct plan *plan);
void describe_protect(const struct cell *cell, const struct spec_rule *rule, struct plan *plan);
void describe_pattern(const struct cell *cell, const struct spec_rule *rule, struct plan *plan);
void describe_trusted(const struct cell *cell, struct plan *plan);
struct limit_way {
	const char *mechanism;
	const char *note;
	enum plan_strength strength;
};
struct limit_way describe_limit(const struct cell *cell, enum spec_limit_id id);
const char *describe_origin(const struct cell *cell, const struct ns_mount *mount);

int ns_start(struct cell *cell, const int stdio[3], struct cell_handle *ret,
	     struct atoll_error *err);

int ns_exec(struct cell *cell, const struct cell_handle *handle, uint32_t number, int words_fd,
	    const int stdio[3], struct atoll_error *err);

/* Steps of a start that need no namespace: a pair of sockets above 2; in the child, closing what
 * the caller had open and clearing its command line, environment and secrets; in the parent,
 * "ready" or the story. */
int start_make_pair(int pair[2], struct atoll_error *err);
/* The socket for notices, where there is to be one: the cell's end of it is cell->notice_fd. */
int start_make_notices(struct cell *cell, int *ret_fd, struct atoll_error *err);
/* Closes all but what the command gets and `also`, from 3 on. */
int start_close_others(const struct cell *cell, const int *also, size_t n_also,
		       struct atoll_error *err);
/* The same in the first child, which keeps what a start needs; 0, 1 and 2 are blank afterwards
 * (fd_blank_stdio()). Then the two below. */
int start_leave_caller(const struct cell *cell, struct atoll_error *err);
void start_wipe_arguments(void);
/* Ahead, in a process whose forks wipe them. */
void start_find_arguments(void);
void start_wipe_secrets(const struct spec *spec);
int start_wait_ready(int socket_fd, int *ret_fds, size_t *n_fds, struct atoll_error *err);
/* Take the sandbox's ids in its user namespace, with all capabilities there. */
int start_become_inside(const struct ns_ids *ids, struct atoll_error *err);
/* A child in these new namespaces, born in the cell's control group where that is possible. */
pid_t start_clone(const struct cell *cell, uint64_t namespaces, int *ret_pid_fd);
/* What the first process needs; the cell must outlive it. */
struct init_config start_config(struct cell *cell);

/* A detached, restricted copy of one bind's source. `userns_fd` shifts ids if it is >= 0. */
int ns_open_tree(const struct ns_mount *mount, int userns_fd, struct atoll_error *err);

static inline const char *ns_source(const struct ns_mount *mount)
{
	return mount->source ? mount->source : mount->path;
}

/* The name by which the contract's lines speak of it. */
static inline const char *ns_host_path(const struct ns_mount *mount)
{
	return mount->is_moved ? ns_source(mount) : mount->path;
}

static inline bool ns_has_tree(const struct ns_mount *mount)
{
	return (mount->kind == NS_BIND && !mount->is_shared) || mount->kind == NS_DEVICE ||
	       mount->kind == NS_STAGE;
}

/* The private storage from the root that is being built, and what mounts are made of in it. */
#define NS_STAGE_DIR "../stage"
int ns_attach(int tree_fd, const char *path, struct atoll_error *err);
/* The host's tree at NS_STAGE_DIR/host-N, and a directory at NS_STAGE_DIR/mask-N whose whiteouts
 * take the hidden names out of it. */
int ns_make_masks(const struct ns_mount *spot, int tree_fd, size_t number, struct atoll_error *err);

/* The same one after the other (masks.c): a new directory `mask` for the tree at `host`. Sorted
 * names are made faster. masks_end() also after a failure. */
struct ns_masking {
	int stage_fd, dir_fd, host_fd;
	char way[4096]; /* the last directory that was made, "" before */
};
int masks_begin(struct ns_masking *masking, const char *mask, const char *host,
		struct atoll_error *err);
int masks_add(struct ns_masking *masking, const char *relative, struct atoll_error *err);
void masks_end(struct ns_masking *masking);

/*
 * Of a host's tree what others may read there, and no more (public.c). public_mount() is for the
 * child: a read-only overlay at `target`, which is made, of the tree at `host` and the whiteouts at
 * `mask`, which may be NULL. public_can_mount(): not where `path` lies on an overlay itself, and
 * public_prepare() then fails for a start.
 */
bool public_can_mount(const char *path);
int public_prepare(const struct cell *cell, struct ns_mount *mount, struct atoll_error *err);
int public_mount(const struct cell *cell, const char *mask, const char *host, const char *target,
		 struct atoll_error *err);

/*
 * One layer for several of the system's trees (shared.c). shared_prepare() looks which can have it,
 * once all mounts are known; shared_build() is for the child, before the first shared_place().
 */
#define SHARED_UPPER                                                                               \
	"system-upper" /* in the stage; what is written in a tree is at its own path               \
			*/
int shared_prepare(struct cell *cell, struct atoll_error *err);
int shared_build(const struct cell *cell, struct atoll_error *err);
int shared_place(const struct ns_mount *spot, struct atoll_error *err);

/*
 * A workspace in mode `layer`
 *
 * layer_prepare() adds the store's directories to the list and takes hidden names out, once the
 * workspace has its mount; layer_spot() is that, or NULL in another mode. layer_mount() is for the
 * child, in the new root: it puts the overlay at `target`, made of detached trees.
 */
struct layer_trees {
	int base, top, sealed; /* -1: none */
};
int layer_prepare(struct cell *cell, struct atoll_error *err);
struct ns_mount *layer_spot(const struct cell *cell);
const struct cell_layer *layer_of(const struct cell *cell); /* never NULL */
/* A directory of the store as a tree to be copied; `path` must outlive it. */
int layer_stage(const char *path, bool is_writable, struct ns_mount *ret, struct atoll_error *err);
/* What all sealed layers lie in; "" without any. */
int layer_parent(const struct cell_layer *layer, char ret[4096], struct atoll_error *err);
int layer_check_way(const struct cell *cell, const struct ns_mount *mount, struct atoll_error *err);
int layer_place(struct cell *cell, const struct ns_mount *spot, size_t number,
		struct atoll_error *err);
int layer_mount(const struct ns_mount *spot, const struct cell_layer *layer,
		const struct layer_trees *trees, size_t number, const char *target,
		struct atoll_error *err);
/* A hidden path beneath a mount becomes a mask of it. */
int ns_add_mask(struct ns_mount *mount, const char *path, struct atoll_error *err);
struct ns_mount *ns_add_mount(struct cell *cell, enum ns_mount_kind kind, const char *path);
/* A writable directory of the sandbox's own, unless something of the host's is shown there. */
int ns_add_private(struct cell *cell, const char *path, struct atoll_error *err);
/* A plain file of the host's at another place inside, read-only. */
int ns_add_file(struct cell *cell, const char *source, const char *path, struct atoll_error *err);
/* Is something mounted beneath this directory? Its path, if `ret` is not NULL. */
bool ns_has_submounts(const char *path, char ret[4096]);
/* What is mounted, as /proc/self/mountinfo says; NULL if that cannot be read. The second gives the
 * mount points in it one after the other, and moves `*text` on; false behind the last. */
const char *ns_mounted(void);
void ns_forget_mounted(void);
bool ns_next_mounted(const char **text, char ret[4096]);

/*
 * Other names that mounts give to what is hidden (aliases.c), hidden as well once all grants are in
 * the list. aliases_find(): is a path one? ns_hide_name() hides a path because of a line about
 * another; 1 if it is shown at all, 0 if not.
 */
struct ns_alias {
	char *path;
	const struct spec_rule *rule; /* what it is another name of */
	bool is_shown;		      /* because somebody's grant names it */
};
int aliases_prepare(struct cell *cell, struct atoll_error *err);
const struct ns_alias *aliases_find(const struct cell *cell, const char *path);
void aliases_free(struct cell *cell);
int ns_hide_name(struct cell *cell, const char *path, const struct spec_rule *rule,
		 struct atoll_error *err);
/* Lines for what is mounted beneath trees that are copied alone, once their masks are known. */
int beneath_prepare(struct cell *cell, struct atoll_error *err);

/*
 * Who there is inside (users.c). users_prepare() reads the host's accounts and adds homes;
 * users_place() shows the two files, from within the root; users_become() is for the process of a
 * command that is no step.
 */
int users_prepare(struct cell *cell, struct atoll_error *err);
int users_place(const struct cell *cell, struct atoll_error *err);
int users_become(const struct cell *cell, struct atoll_error *err);
/* Where the one of the two belongs that `path` is ("/etc/passwd"); NULL: neither. */
const struct spec_user *users_of_home(const struct cell *cell, const char *path);
void describe_users(const struct cell *cell, struct plan *plan);

/* Our own program and what belongs to it, at /run/atoll (guest-files.c). */
#define NS_GUEST   "/run/atoll/guest"
#define NS_KERNELS "/run/atoll/kernels"
int guest_prepare(struct cell *cell, struct atoll_error *err);

/*
 * `image` (image.c): one of its directories, as the rule of the defaults about it says; and one of
 * its files, or the host's without an image.
 */
int image_add(struct cell *cell, const char *path, const struct spec_rule *rule,
	      struct atoll_error *err);
int image_open_file(const struct cell *cell, const char *path);

/* `root: layer`, once the other mounts are there. */
int system_prepare(struct cell *cell, struct atoll_error *err);
/* Does root's `root: layer` put a layer over this tree? */
bool system_is_layer(const struct cell *cell, const struct ns_mount *mount);
/* Those trees that are looked through; NULL behind the last. */
const char *system_tree(size_t i);
/* What others may not read of one, into its masks. `watch_fd`: an inotify descriptor that gets a
 * watch for each directory, or 0. */
int system_scan(struct ns_mount *mount, int watch_fd, struct atoll_error *err);

/*
 * What is written with it, of a sandbox that lives on (saved-root.c). kept_prepare() adds what an
 * earlier cell has written to the list, if there is something; the others of the first group are
 * for the child, the second group is struct backend's.
 */
bool kept_is_wanted(const struct cell *cell);
bool kept_is_there(const struct cell *cell);
int kept_prepare(struct cell *cell, struct atoll_error *err);
int kept_mount_root(const struct cell *cell, struct atoll_error *err);
int kept_add_lowers(const struct cell *cell, const char *path, char *options, size_t size,
		    struct atoll_error *err);
bool kept_speaks_of(const struct cell *cell, const char *path);

bool ns_written(const struct cell *cell, size_t number, struct cell_written *ret);
uint32_t ns_kept_id(const struct cell *cell, bool is_group, uint32_t id);

/* ---- mount-cache.c ---- */

/* False: it is not remembered. */
bool known_copy(struct ns_mount *mount, struct atoll_error *err);
bool known_watch(int watch_fd, int dir_fd);
/* What /proc/self/mountinfo says; NULL: it is not remembered. */
const char *known_mounts(void);

/* See struct backend. */
int ns_relayer(struct cell *cell, const struct cell_handle *handle, const struct cell_layer *layer,
	       struct atoll_error *err);
/* Wait for whoever still lets layers go. */
void ns_relayer_done(struct cell *cell);

/* How the two texts of the contract come to the child, over the socket of the set-up: their sizes,
 * then all of one and all of the other, in pieces. */
#define NS_PIECE 16384
struct ns_texts {
	uint64_t json_size, text_size;
};

/* In the child: from host root to sandbox root, whose top then still hides the host's. */
int ns_build_root(struct cell *cell, struct atoll_error *err);

/* A new file in it, by its path from there. */
int ns_write_file(const char *path, const char *data, size_t size, mode_t mode,
		  struct atoll_error *err);

/* And off with the host's. */
int ns_leave_host(struct atoll_error *err);

/* In the command's process; see init_config. */
int ns_make_namespaces(const struct cell *cell, struct atoll_error *err);
/* In the first process: its own filter. */
int ns_lock_first(void *cell, struct atoll_error *err);
int ns_begin(void *cell, struct atoll_error *err);
int ns_seal(void *cell, struct atoll_error *err);
int ns_execute(void *cell, struct atoll_error *err);
void ns_take_step(void *cell, const struct init_step *step);

/* Where TLS is opened: which files of the host's hold authorities; and while the root is built,
 * from within it, put what the run has in their place. */
void authority_find_bundles(struct cell *cell);
int authority_place(const struct cell *cell, struct atoll_error *err);

/* In a new network namespace, with its capabilities: raise the loopback, and with a network make
 * that and send its sockets over control_fd, where the second takes them. */
int net_set_up(const struct cell *cell, struct atoll_error *err);
int net_take(int control_fd, struct cell_handle *handle, struct atoll_error *err);
/* The first without a cell, to try it: the listener and the socket for DNS. `*ret_has_v6` is false
 * where the kernel has no IPv6. */
int net_make(int ret_fds[2], bool *ret_has_v6, struct atoll_error *err);
#define NET_FIX "sudo modprobe nft_tproxy; a kernel with CONFIG_NFT_TPROXY"

/* -1 where the kernel has none. */
int landlock_abi(void);

/* The first system call that is needed and that this kernel, or a filter above us, refuses; NULL if
 * none is. The second fails for it, with its name. Without namespaces some are not needed. */
const char *ns_missing_call(bool is_bare);
int ns_check_calls(bool is_bare, struct atoll_error *err);
int landlock_restrict(int ruleset_fd, struct atoll_error *err);
int landlock_seal(const struct cell *cell, struct atoll_error *err);

/* Nothing that is executed from here on gains a capability but those in `keep`. */
int ns_bound_capabilities(uint64_t keep, struct atoll_error *err);

/* Give up every capability except those in `keep` (a mask). */
int ns_drop_capabilities(uint64_t keep, struct atoll_error *err);

/* No group is no failure: `group` says what it holds. */
void cgroup_prepare(struct ns_group *group, const struct spec *spec);
int cgroup_enter(const struct ns_group *group, pid_t pid, struct atoll_error *err);
/* Fills in what the group has counted, and leaves the rest. */
void cgroup_account(const struct ns_group *group, struct cell_usage *usage);
void cgroup_release(struct ns_group *group);

/* Is there enough room where the contract lets it write, or at one place? */
int quota_check_space(const struct cell *cell, struct atoll_error *err);
int quota_check_place(const struct cell *cell, const char *path, struct atoll_error *err);
/* In the child, with the capabilities of its user namespace: leave the caller a share of what the
 * kernel counts for each user. */
void quota_limit_user(const struct cell *cell);
/* In the command's process. */
int quota_limit_process(struct atoll_error *err);

/* Fork the keeper in the sandbox's first process, and wait until what exists is hidden; returns its
 * pid. */
pid_t keep_start(const struct cell *cell, struct atoll_error *err);
