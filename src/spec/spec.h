/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "spec/audit-section.h"
#include "spec/network.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct atoll_error;
struct buf;

/*
 * What was asked
 *
 * A job is a command and a contract. It comes from up to three places: the defaults (defaults.c),
 * a job file (load.c: YAML, of which JSON is a part) and flags (the spec_add_ and spec_set_
 * functions below, one per flag). Each adds to or overrides the one before it, and every clause
 * carries its origin, so that the plan can show where a line comes from.
 *
 *	spec_new()  →  spec_load()  →  spec_add_…(), spec_set_…()  →  spec_finish()
 *
 * spec_finish() fills in what nobody said, makes all paths absolute and checks the whole; after it
 * the job is constant, and has a canonical form and a digest (canon.c), a text for the command
 * inside (explain.c), and an answer for every path (rules.c).
 *
 * Everything here is a pure function over text: no kernel, no network, no file is opened. What only
 * Linux has (namespaces, system calls, mount flags) is not known here; the default lists of places
 * are data.
 */

enum spec_access {
	SPEC_READ,
	SPEC_WRITE,
	SPEC_HIDE,
	SPEC_PROTECT, /* may be read, and never written, inside a writable root */
};

enum spec_workspace_mode {
	SPEC_WORKSPACE_DIRECT, /* the host's files are written at once */
	SPEC_WORKSPACE_READ_ONLY,
	SPEC_WORKSPACE_LAYER, /* written to a layer; the host's files stay as they are */
};

enum spec_identity {
	SPEC_OFFLINE,
	SPEC_ONLINE, /* also what a job with a network gets if nobody said */
};

/* One line about files. `path` is plain and absolute after spec_finish(); as a pattern it is, too
 * ("/home/a/p/ * * /.env" without the blanks: "**" at any depth). */
struct spec_rule {
	enum spec_access access;
	bool is_pattern;
	bool is_optional; /* nothing there is fine: the defaults name places that may not exist */
	char *path;
	char *at;     /* of a grant: where it is seen inside, if that is another place; else NULL */
	char *origin; /* "default", "job.yaml:12" or "--write" */
	char *reason; /* of a `protect` line, after spec_finish(): "protect: /p/x" */
};

/* A number with its origin. What is not limited says so with UINT64_MAX ("unlimited"). */
struct spec_limit {
	uint64_t value;
	char *origin;
};

enum spec_limit_id {
	SPEC_WALL,	 /* milliseconds */
	SPEC_CPU_TIME,	 /* milliseconds, all processes together */
	SPEC_CPUS,	 /* thousandths of a CPU */
	SPEC_MEMORY,	 /* bytes, all processes together */
	SPEC_PIDS,	 /* processes and threads */
	SPEC_DISK,	 /* bytes */
	SPEC_FILES,	 /* files created */
	SPEC_OPEN_FILES, /* descriptors of one process */
	SPEC_OUTPUT,	 /* bytes on stdout and stderr together */
	SPEC_GRACE,	 /* milliseconds from being asked to end to being killed; always bounded */
	SPEC_LIMIT_COUNT,
};

#define SPEC_UNLIMITED UINT64_MAX

struct spec_limit_info {
	const char *key;  /* in a job file: "open-files" */
	const char *flag; /* "--open-files" */
	const char *unit; /* "ms", "bytes", "millicpus", "count": what `value` counts */
	uint64_t least;	  /* smaller is a range error */
	uint64_t most;
	uint64_t preset;
	const char *range;   /* least and most as a person writes them: "4M to 1024T" */
	const char *example; /* "512M" */
};
extern const struct spec_limit_info spec_limits[SPEC_LIMIT_COUNT];

/* A variable for the command: a value, or the caller's (value NULL: passed if the caller has it).
 */
struct spec_variable {
	char *name;
	char *value;
	char *origin;
};

/* How much is written down. */
enum spec_record {
	SPEC_RECORD_OFF,
	SPEC_RECORD_STEPS, /* what the supervisor knows by itself; nothing inside is watched */
	SPEC_RECORD_FULL,
};

/* Somebody inside. */
struct spec_user {
	char *name;
	uint32_t uid, gid;
	char *home; /* a place inside */
	char *origin;
};

#define SPEC_DESCRIPTORS_MAX 64 /* of the caller, that a contract may name */

#define SPEC_USERS_MAX 16
#define SPEC_ID_MOST   65533 /* the next is nobody's */

/* A word with its origin: an accepted weakness, a socket, a broad path. */
struct spec_word {
	char *text;
	char *origin;
};

struct spec {
	char **command; /* NULL-terminated */
	char *command_origin;

	char *workspace; /* absolute, plain */
	char *workspace_origin;
	enum spec_workspace_mode workspace_mode;
	char *workspace_mode_origin;
	char *image; /* where system directories come from, on the host; NULL: they are its own */
	char *image_origin;
	bool root_is_layer; /* system directories can be written, to a layer that vanishes */
	char *root_origin;
	bool checkpoints_every_step; /* of a sandbox: each step ends in one */
	char *checkpoints_origin;
	char *workspace_at; /* where it is seen inside; NULL: where it is on the host */
	char *workspace_at_origin;
	/* Where the command starts: the workspace or beneath it; after spec_finish() by its name
	 * inside. */
	char *cwd;
	char *cwd_origin;

	/* Who there is inside; the first is whom commands run as. None: one nameless id. */
	struct spec_user *users;
	size_t n_users;
	bool has_guest; /* our own program for files and ports is there (/run/atoll/guest) */
	char *guest_origin;

	struct spec_rule *rules;
	size_t n_rules;
	size_t n_moved;		   /* of them, those with an `at`; after spec_finish() */
	struct spec_word *sockets; /* unix sockets that may be connected to, by path */
	size_t n_sockets;
	struct spec_word *broad; /* grants as wide as a home that were asked for twice */
	size_t n_broad;

	struct network network;

	struct spec_limit limits[SPEC_LIMIT_COUNT];

	struct spec_variable *variables; /* in order; a later one of the same name wins */
	size_t n_variables;
	int *descriptors; /* passed besides 0, 1 and 2 */
	size_t n_descriptors;
	char *descriptors_origin;

	enum spec_identity identity;
	char *identity_origin;

	enum spec_record record;
	char *record_origin;
	bool keeps_output; /* its content, not only its hash */
	char *output_origin;
	struct spec_watch watch;
	struct spec_word *accepted; /* clauses for which a weaker mechanism is accepted */
	size_t n_accepted;

	char *home;   /* the caller's; "~" in paths, and HOME inside */
	char *caller; /* the directory from which relative paths on the command line count */
	char *file;   /* the job file, absolute; NULL if there was none */
	char *store;  /* atoll's own, for records and layers: spec_set_store(); may be NULL */
	bool is_finished;
	char digest[65]; /* once it has been asked for; "" before */
};

/* `home` and `caller` are absolute paths. NULL and an error if memory ran out. */
struct spec *spec_new(const char *home, const char *caller, struct atoll_error *err);
void spec_free(struct spec *spec);

/*
 * Take in a job file's text. `name` is what errors call it ("job.yaml", "-"); `path` its absolute
 * path, or NULL for standard input. One document of at most 1 MiB and 32 levels; unknown keys,
 * wrong types, duplicate keys, anchors, aliases and tags are errors of the form job.yaml:12:
 * unknown key 'wirte' in 'filesystem'; did you mean 'write'?
 */
int spec_load(struct spec *spec, const char *name, const char *path, const char *text, size_t size,
	      struct atoll_error *err);

/* Flags. `origin` is the flag as written ("--write"). Relative paths count from `caller`. */
int spec_set_command(struct spec *spec, char *const *argv, const char *origin,
		     struct atoll_error *err);
int spec_set_workspace(struct spec *spec, const char *path, const char *origin,
		       struct atoll_error *err);
int spec_set_workspace_mode(struct spec *spec, const char *mode, const char *origin,
			    struct atoll_error *err);
int spec_set_workspace_at(struct spec *spec, const char *path, const char *origin,
			  struct atoll_error *err);
/* `home` NULL: /root, or /home/NAME. */
int spec_add_user(struct spec *spec, const char *name, uint32_t uid, uint32_t gid, const char *home,
		  const char *origin, struct atoll_error *err);
int spec_set_guest(struct spec *spec, const char *word, const char *origin,
		   struct atoll_error *err); /* "on" or "off" */
int spec_set_root(struct spec *spec, const char *word, const char *origin,
		  struct atoll_error *err); /* "read-only" or "layer" */
int spec_set_checkpoints(struct spec *spec, const char *word, const char *origin,
			 struct atoll_error *err); /* "manual" or "every-step" */
int spec_set_cwd(struct spec *spec, const char *path, const char *origin, struct atoll_error *err);
int spec_set_record(struct spec *spec, const char *word, const char *origin,
		    struct atoll_error *err); /* "off", "steps" or "full" */
int spec_set_kept_output(struct spec *spec, const char *word, const char *origin,
			 struct atoll_error *err); /* "hash" or "keep" */
int spec_set_identity(struct spec *spec, const char *word, const char *origin,
		      struct atoll_error *err);
int spec_set_limit(struct spec *spec, enum spec_limit_id id, const char *text, const char *origin,
		   struct atoll_error *err);
int spec_add_rule(struct spec *spec, enum spec_access access, const char *path, const char *origin,
		  struct atoll_error *err);
/* "INSIDE=PATH": a grant that is seen at another place. */
int spec_add_read_at(struct spec *spec, const char *text, const char *origin,
		     struct atoll_error *err);
int spec_add_write_at(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err);
int spec_add_socket(struct spec *spec, const char *path, const char *origin,
		    struct atoll_error *err);
int spec_add_broad(struct spec *spec, const char *path, const char *origin,
		   struct atoll_error *err);
int spec_add_variable(struct spec *spec, const char *assignment, const char *origin,
		      struct atoll_error *err); /* "K=V", or "K" to pass the caller's */
int spec_add_descriptor(struct spec *spec, int fd, const char *origin, struct atoll_error *err);
int spec_add_accepted(struct spec *spec, const char *clause, const char *origin,
		      struct atoll_error *err);

/* Only the `network` section of a job file, as YAML or JSON, finished; with what another contract
 * has accepted as broad. `*ret` is the caller's. */
int spec_read_network(const struct spec *like, const char *text, size_t size, struct network *ret,
		      struct atoll_error *err);
/* Do they say the same, wherever it was said? */
bool spec_same_network(const struct network *a, const struct network *b);

/* The network. Hosts as "HOST[:PORT[,PORT...]]", a secret as "NAME=HOST[/HEADER]" (its value is the
 * caller's variable), a published port as "PORT[=HOSTPORT][/NAME,...]"; `ask` and `proxy` are on or
 * off. */
int spec_set_network_mode(struct spec *spec, const char *mode, const char *origin,
			  struct atoll_error *err);
int spec_add_allow(struct spec *spec, const char *line, const char *origin,
		   struct atoll_error *err);
int spec_add_deny(struct spec *spec, const char *line, const char *origin, struct atoll_error *err);
int spec_add_secret(struct spec *spec, const char *text, const char *origin,
		    struct atoll_error *err);
int spec_add_listen(struct spec *spec, const char *text, const char *origin,
		    struct atoll_error *err);
int spec_set_rate(struct spec *spec, const char *text, const char *origin, struct atoll_error *err);
int spec_set_net_bytes(struct spec *spec, const char *text, const char *origin,
		       struct atoll_error *err);
int spec_set_connections(struct spec *spec, const char *text, const char *origin,
			 struct atoll_error *err);
int spec_set_requests(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err);
int spec_set_ask(struct spec *spec, const char *text, const char *origin, struct atoll_error *err);
int spec_set_proxy(struct spec *spec, const char *text, const char *origin,
		   struct atoll_error *err);
int spec_set_upstream(struct spec *spec, const char *text, const char *origin,
		      struct atoll_error *err);

/*
 * Fill in the rest and check the whole: a command there is; paths absolute; no two lines of the
 * same specificity that contradict in a way that the tie rule does not settle; `/`, a home
 * directory or a system directory as workspace or writable root only where `broad` names it, and
 * "/" never for writing; the workspace not beneath a hidden path. What is said about the network
 * must fit together: see network-finish.c.
 */
int spec_finish(struct spec *spec, struct atoll_error *err);

/* Origins of lines that nobody wrote: atoll's own defaults, and what the host's settings or links
 * lead to. */
#define SPEC_ORIGIN_DEFAULT "default"
#define SPEC_ORIGIN_HOST    "host"

/* After spec_finish(): one more plain absolute path, or a pattern, that is protected. Only narrows.
 * It is not part of the canonical form, which is about what was asked. */
int spec_protect_late(struct spec *spec, const char *path, bool is_pattern, const char *origin,
		      struct atoll_error *err);

/* Add a rule as it is; `path` may be relative, and is resolved by spec_finish(). */
int spec_append_rule(struct spec *spec, const struct spec_rule *rule, struct atoll_error *err);

/* Where records and layers are kept, plain and absolute: nothing in a workspace may lead there. */
int spec_set_store(struct spec *spec, const char *path, struct atoll_error *err);

/*
 * Names inside. Lines of the contract are about the host's paths; the workspace and grants may have
 * another one inside (`at`), and then what their host path leads to inside is nothing.
 */
const char *spec_at(const struct spec *spec); /* the workspace's */
bool spec_is_moved(const struct spec *spec);  /* is that another than on the host? */
/* The host's name of a plain path inside; false where it has none. */
bool spec_host_path(const struct spec *spec, const char *path, char *ret, size_t size);
/* The name inside of what has this one on the host: `ret`, or `path` where it is the same. */
const char *spec_inside_path(const struct spec *spec, const char *path, char *ret, size_t size);
/* spec_rule_for() of a path inside. */
const struct spec_rule *spec_rule_inside(const struct spec *spec, const char *path);
/* HOME of a user, by number; the caller's without users. */
const char *spec_home_inside(const struct spec *spec, size_t user);
/* The number of a user; 0 for NULL and "", also where there are none. -ENOENT. */
int spec_find_user(const struct spec *spec, const char *name, struct atoll_error *err);

/*
 * What holds for a plain absolute path: the most specific rule wins, at a tie hide > read >
 * write. A literal rule is as specific as its path is deep; a pattern as its deepest literal match,
 * and a literal rule wins over a pattern that matches at the same depth. SPEC_PROTECT is not
 * answered here: see spec_is_protected(). NULL where no rule speaks (then there is nothing at that
 * path).
 *
 * A default gives way to a line that somebody wrote about exactly the same path: `read: [~/.npmrc]`
 * shows what the defaults hide. Only a hidden place does not become visible by being the workspace.
 */
const struct spec_rule *spec_rule_for(const struct spec *spec, const char *path);

/*
 * For walking a tree that no line hides from its top on: could a name in it be hidden? False:
 * surely not; true: spec_rule_for() knows. Good for as long as the rules are, without memory of its
 * own.
 */
#define SPEC_HIDDEN_BITS  4096
#define SPEC_HIDDEN_GLOBS 64
struct spec_hidden {
	uint64_t bits[SPEC_HIDDEN_BITS / 64];
	const char *globs[SPEC_HIDDEN_GLOBS];
	size_t n_globs;
	bool is_any;
};
void spec_hidden_prepare(const struct spec *spec, struct spec_hidden *ret);
bool spec_hidden_may(const struct spec_hidden *hidden, const char *name);

/* Is a path inside a writable root kept from being written by a `protect` line or by the defaults'
 * names (names.h)? Returns the reason for people ("protect: .vscode"), or NULL. */
const char *spec_is_protected(const struct spec *spec, const char *path);

/* Would this contract, compared with the defaults for the same workspace, allow anything more?
 * Returns the first such clause as text ("filesystem.read /etc/x (job.yaml:4)", owned by the
 * caller), or NULL if it only narrows. Decides whether a file from the workspace needs recorded
 * trust. */
char *spec_widens(const struct spec *spec);

/* The same, of the clauses that the job file says: what a person typed as a flag needs no trust. */
char *spec_file_widens(const struct spec *spec);

/* The canonical form: JSON, keys sorted, no blanks, defaults filled in, origins left out; and its
 * SHA-256. `spec` is finished. Command and workspace are part of it. */
int spec_canonical(const struct spec *spec, struct buf *out, struct atoll_error *err);
int spec_digest(const struct spec *spec, char ret_hex[65], struct atoll_error *err);

/* What the command inside may know: /run/atoll/contract.json and contract.md. No hidden name, no
 * variable's value. */
int spec_explain_json(const struct spec *spec, struct buf *out, struct atoll_error *err);
int spec_explain_text(const struct spec *spec, struct buf *out, struct atoll_error *err);

/* The JSON Schema (draft 2020-12) of a job file. */
extern const char spec_schema[];

/* Numbers with units, for files and flags alike: sizes "512M" "4G" "1.5GiB" (powers of 1024), times
 * "90s" "10m" "1h30m" "250ms", counts, CPUs "1.5"; and "unlimited". */
int spec_parse_limit(enum spec_limit_id id, const char *text, uint64_t *ret_value,
		     struct atoll_error *err);
/* The same notation for what is no limit of a job's: what is wrong is told of `of` instead. */
int spec_parse_amount(enum spec_limit_id id, const char *of, const char *text, uint64_t *ret_value,
		      struct atoll_error *err);
/* The other way, for people: "4 GiB", "10 min", "1.5". */
void spec_format_limit(enum spec_limit_id id, uint64_t value, char *ret, size_t size);

const char *spec_access_word(enum spec_access access);
const char *spec_mode_word(enum spec_workspace_mode mode);
const char *spec_record_word(enum spec_record record);
