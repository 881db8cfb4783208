/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "nt/sid.h"

/*
 * Access control lists (ACLs)
 *
 * A list holds entries (ACEs). The model understands entries that allow, deny and audit; every
 * other kind (conditions, objects, labels) keeps its bytes, so that a list that belongs to somebody
 * else is written back unchanged. The access check refuses to judge a list with such an entry that
 * could grant or deny.
 */

/* Access rights of files and directories. Several bits mean one thing for a file and another for a
 * directory. */
#define NT_FILE_READ_DATA	  0x00000001U /* directory: list */
#define NT_FILE_WRITE_DATA	  0x00000002U /* directory: create a file */
#define NT_FILE_APPEND_DATA	  0x00000004U /* directory: create a directory */
#define NT_FILE_READ_EA		  0x00000008U
#define NT_FILE_WRITE_EA	  0x00000010U
#define NT_FILE_EXECUTE		  0x00000020U /* directory: traverse */
#define NT_FILE_DELETE_CHILD	  0x00000040U
#define NT_FILE_READ_ATTRIBUTES	  0x00000080U
#define NT_FILE_WRITE_ATTRIBUTES  0x00000100U
#define NT_DELETE		  0x00010000U
#define NT_READ_CONTROL		  0x00020000U
#define NT_WRITE_DAC		  0x00040000U
#define NT_WRITE_OWNER		  0x00080000U
#define NT_SYNCHRONIZE		  0x00100000U
#define NT_ACCESS_SYSTEM_SECURITY 0x01000000U
#define NT_MAXIMUM_ALLOWED	  0x02000000U
#define NT_GENERIC_ALL		  0x10000000U
#define NT_GENERIC_EXECUTE	  0x20000000U
#define NT_GENERIC_WRITE	  0x40000000U
#define NT_GENERIC_READ		  0x80000000U

#define NT_FILE_GENERIC_READ                                                                       \
	(NT_READ_CONTROL | NT_SYNCHRONIZE | NT_FILE_READ_DATA | NT_FILE_READ_EA |                  \
	 NT_FILE_READ_ATTRIBUTES)
#define NT_FILE_GENERIC_WRITE                                                                      \
	(NT_READ_CONTROL | NT_SYNCHRONIZE | NT_FILE_WRITE_DATA | NT_FILE_APPEND_DATA |             \
	 NT_FILE_WRITE_EA | NT_FILE_WRITE_ATTRIBUTES)
#define NT_FILE_GENERIC_EXECUTE                                                                    \
	(NT_READ_CONTROL | NT_SYNCHRONIZE | NT_FILE_EXECUTE | NT_FILE_READ_ATTRIBUTES)
#define NT_FILE_ALL_ACCESS 0x001f01ffU

enum nt_ace_type {
	NT_ACE_ALLOW = 0,
	NT_ACE_DENY = 1,
	NT_ACE_AUDIT = 2,
};

/* Flags of an entry. */
#define NT_ACE_OBJECT_INHERIT	 0x01U /* files in this directory get the entry */
#define NT_ACE_CONTAINER_INHERIT 0x02U /* directories in this directory get the entry */
#define NT_ACE_NO_PROPAGATE	 0x04U /* children get the entry, their children do not */
#define NT_ACE_INHERIT_ONLY	 0x08U /* the entry does not apply to this object itself */
#define NT_ACE_INHERITED	 0x10U /* the entry was copied from the parent */

struct nt_ace {
	uint8_t type; /* enum nt_ace_type, or another kind whose bytes are in `raw` */
	uint8_t flags;
	uint32_t mask;
	struct nt_sid sid;
	uint8_t *raw; /* all bytes of an entry of another kind, owned; NULL otherwise */
	uint16_t raw_size;
};

struct nt_acl {
	uint8_t revision; /* 2, or 4 if entries of the directory service are in the list */
	struct nt_ace *aces;
	size_t n_aces, room;
};

/* A list is at most 65,535 bytes, and the smallest entry has 12: no list has more entries. */
#define NT_ACL_ENTRIES_MAX 5461

void nt_acl_init(struct nt_acl *acl);
void nt_acl_done(struct nt_acl *acl);

/* Copy every entry. Returns 0 or -ENOMEM; `ret` is empty then. */
int nt_acl_copy(const struct nt_acl *acl, struct nt_acl *ret);

/* Add an entry of a kind that the model understands at position `at` (at most n_aces). Returns 0,
 * -ENOMEM, or -E2BIG if the list is full. */
int nt_acl_insert(struct nt_acl *acl, size_t at, enum nt_ace_type type, uint8_t flags,
		  uint32_t mask, const struct nt_sid *sid);

/* Add an entry of another kind by its bytes, which are copied. Returns 0, -ENOMEM or -E2BIG. */
int nt_acl_insert_raw(struct nt_acl *acl, size_t at, const uint8_t *raw, uint16_t size);

/* Take the entry at a position away. */
void nt_acl_remove(struct nt_acl *acl, size_t at);

/*
 * Add an explicit entry at the position that the canonical order gives it: explicit entries before
 * inherited ones, in each group denials before grants. Behind entries of its own kind, so the order
 * of additions is kept.
 */
int nt_acl_add(struct nt_acl *acl, enum nt_ace_type type, uint8_t flags, uint32_t mask,
	       const struct nt_sid *sid);

/* Whether denials come before grants among the explicit entries, and explicit entries before
 * inherited ones. Windows keeps other orders as they are, and they mean something else there. */
bool nt_acl_is_canonical(const struct nt_acl *acl);

/* The rights that generic rights mean for files; other bits stay. */
uint32_t nt_map_file_rights(uint32_t mask);

/*
 * The entries that a new file or directory gets from the directory that it is made in, marked as
 * inherited. CREATOR OWNER and CREATOR GROUP become `owner` and `group`; a directory keeps the
 * original entry as well, for its own children. Returns 0 or -ENOMEM; `ret` is empty then.
 */
int nt_acl_inherit(const struct nt_acl *parent, bool is_directory, const struct nt_sid *owner,
		   const struct nt_sid *group, struct nt_acl *ret);

/* Read the binary form. Returns the number of bytes that the list says it has, -EINVAL, or
 * -ENOMEM. */
int nt_acl_unpack(const uint8_t *data, size_t size, struct nt_acl *ret);

/* The size of the binary form, and the form itself. The size is over 65,535 where the list does not
 * fit into the form; nt_acl_pack() must not be called then. */
size_t nt_acl_size(const struct nt_acl *acl);
void nt_acl_pack(const struct nt_acl *acl, uint8_t *ret);
