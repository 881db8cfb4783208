/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/nt-attempt.h"

/*
 * A Windows file system in memory
 *
 * Files and directories with security descriptors, junctions, short names and contents. Processes
 * of the model change it under a token: every change is decided by the access check, and files that
 * they make inherit lists and labels. Tests play attacks against it; the fake of the Win32 calls
 * (src/win/fake.h) keeps its files here. Names are found as Windows finds them: without regard to
 * case, by short name, through junctions, without dots and blanks at the end of a component.
 *
 * Not modelled: shares and devices (a path to one is -ENXIO), privileges that bypass lists, sharing
 * modes.
 */

struct nt_file {
	char *path; /* in the form of nt_path_read() */
	char *name; /* the last component, within `path` */
	bool is_directory;
	char *link;	  /* where a junction leads, or NULL */
	char *short_name; /* another name of the last component, or NULL */
	char *content;	  /* of a file */
	char *stream;	  /* of its only named stream, or NULL */
	uint32_t attributes;
	struct nt_descriptor sd;
	struct nt_file *parent, *first_child, *next_sibling;
	struct nt_file *next_in_bucket;
};

#define NT_WORLD_BUCKETS 4096

struct nt_world {
	struct nt_file **buckets;
	struct nt_file *root; /* of drive C: */
	size_t n_files;
};

/* A drive C: with a list that the user USER owns. Returns 0 or -ENOMEM. */
int nt_world_init(struct nt_world *world, const char *sddl);
void nt_world_done(struct nt_world *world);

/* Add a file or directory as the system does, with a descriptor in SDDL, or NULL: what it inherits,
 * with its directory's owner. Its directory must exist. NULL if that fails. */
struct nt_file *nt_world_add(struct nt_world *world, const char *path, bool is_directory,
			     const char *sddl);
void nt_world_remove(struct nt_world *world, struct nt_file *file);

/* The file at exactly this path, without following anything; NULL if there is none. */
struct nt_file *nt_world_at(const struct nt_world *world, const char *path);

/* Find what a process names. `ret_file` is NULL if only its directory exists. Returns 0, -ENOENT,
 * -ENXIO for shares and devices, -ELOOP. `ret_name` has room for 256 bytes. */
int nt_world_find(const struct nt_world *world, const char *text, struct nt_file **ret_directory,
		  struct nt_file **ret_file, char *ret_name, bool *ret_is_stream);

/* Make an attempt, with its effect if it is granted. Returns 0, -EACCES, or why the path leads to
 * nothing. */
int nt_world_try(struct nt_world *world, const struct nt_token *token, enum nt_attempt attempt,
		 const char *text);

/* Move a file or directory, and give a file a second name (modelled as a copy that shares nothing:
 * only the rights matter). */
int nt_world_move(struct nt_world *world, const struct nt_token *token, const char *from,
		  const char *to);
int nt_world_link(struct nt_world *world, const struct nt_token *token, const char *from,
		  const char *to);

/* Every file with its descriptor and content as text, in the order of their paths: equal texts are
 * equal worlds. The caller frees it; NULL if memory ran out. */
char *nt_world_text(const struct nt_world *world);
