/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds, orders, inherits, reads and writes access control lists. Called by the reader of security
 * descriptors, by the SDDL reader, and by the planner that adds and removes entries.
 */
#include "nt/acl.h"

#include "base/scope.h"
#include "nt/bytes.h"

#include <errno.h>
#include <string.h>

#define ACL_HEADER_SIZE 8
#define ACE_HEADER_SIZE 4
#define INHERIT_FLAGS                                                                              \
	(NT_ACE_OBJECT_INHERIT | NT_ACE_CONTAINER_INHERIT | NT_ACE_NO_PROPAGATE |                  \
	 NT_ACE_INHERIT_ONLY)
#define GENERIC_RIGHTS (NT_GENERIC_ALL | NT_GENERIC_EXECUTE | NT_GENERIC_WRITE | NT_GENERIC_READ)

/* ---- the list in memory ---- */

void nt_acl_init(struct nt_acl *acl)
{
	*acl = (struct nt_acl){.revision = 2};
}

void nt_acl_done(struct nt_acl *acl)
{
	for (size_t i = 0; i < acl->n_aces; i++)
		free(acl->aces[i].raw);
	free(acl->aces);
	nt_acl_init(acl);
}

static int make_room(struct nt_acl *acl)
{
	size_t room = acl->room ? 2 * acl->room : 8;
	struct nt_ace *aces;

	if (acl->n_aces >= NT_ACL_ENTRIES_MAX)
		return -E2BIG;
	if (acl->n_aces < acl->room)
		return 0;
	aces = realloc(acl->aces, room * sizeof *aces);
	if (!aces)
		return -ENOMEM;
	acl->aces = aces;
	acl->room = room;
	return 0;
}

/* On success the list owns `ace->raw`. */
static int insert_ace(struct nt_acl *acl, size_t at, const struct nt_ace *ace)
{
	int r = make_room(acl);

	if (r < 0)
		return r;
	memmove(acl->aces + at + 1, acl->aces + at, (acl->n_aces - at) * sizeof *acl->aces);
	acl->aces[at] = *ace;
	acl->n_aces++;
	return 0;
}

static int append_copy(struct nt_acl *acl, const struct nt_ace *ace)
{
	struct nt_ace copy = *ace;
	int r;

	if (ace->raw) {
		copy.raw = malloc(ace->raw_size);
		if (!copy.raw)
			return -ENOMEM;
		memcpy(copy.raw, ace->raw, ace->raw_size);
	}
	r = insert_ace(acl, acl->n_aces, &copy);
	if (r < 0)
		free(copy.raw);
	return r;
}

int nt_acl_copy(const struct nt_acl *acl, struct nt_acl *ret)
{
	nt_acl_init(ret);
	ret->revision = acl->revision;
	for (size_t i = 0; i < acl->n_aces; i++) {
		int r = append_copy(ret, &acl->aces[i]);

		if (r < 0) {
			nt_acl_done(ret);
			return r;
		}
	}
	return 0;
}

int nt_acl_insert(struct nt_acl *acl, size_t at, enum nt_ace_type type, uint8_t flags,
		  uint32_t mask, const struct nt_sid *sid)
{
	const struct nt_ace ace = {
		.type = (uint8_t)type, .flags = flags, .mask = mask, .sid = *sid};

	return insert_ace(acl, at, &ace);
}

int nt_acl_insert_raw(struct nt_acl *acl, size_t at, const uint8_t *raw, uint16_t size)
{
	struct nt_ace ace = {.type = raw[0], .flags = raw[1], .raw_size = size};
	int r;

	ace.raw = malloc(size);
	if (!ace.raw)
		return -ENOMEM;
	memcpy(ace.raw, raw, size);
	r = insert_ace(acl, at, &ace);
	if (r < 0)
		free(ace.raw);
	return r;
}

void nt_acl_remove(struct nt_acl *acl, size_t at)
{
	free(acl->aces[at].raw);
	acl->n_aces--;
	memmove(acl->aces + at, acl->aces + at + 1, (acl->n_aces - at) * sizeof *acl->aces);
}

/* ---- canonical order ---- */

/* 0 explicit denial, 1 explicit other, 2 inherited. Inherited entries keep the order in which they
 * came: those of the parent come before those of its parent, denials and grants mixed. */
static int canonical_group(const struct nt_ace *ace)
{
	if (ace->flags & NT_ACE_INHERITED)
		return 2;
	return ace->type == NT_ACE_DENY ? 0 : 1;
}

bool nt_acl_is_canonical(const struct nt_acl *acl)
{
	int last = 0;

	for (size_t i = 0; i < acl->n_aces; i++) {
		int group = canonical_group(&acl->aces[i]);

		if (group < last)
			return false;
		last = group;
	}
	return true;
}

int nt_acl_add(struct nt_acl *acl, enum nt_ace_type type, uint8_t flags, uint32_t mask,
	       const struct nt_sid *sid)
{
	const struct nt_ace ace = {.type = (uint8_t)type,
				   .flags = flags & (uint8_t)~NT_ACE_INHERITED,
				   .mask = mask,
				   .sid = *sid};
	size_t at = 0;

	while (at < acl->n_aces && canonical_group(&acl->aces[at]) <= canonical_group(&ace))
		at++;
	return insert_ace(acl, at, &ace);
}

/* ---- inheritance ---- */

uint32_t nt_map_file_rights(uint32_t mask)
{
	static const struct {
		uint32_t generic, rights;
	} map[] = {
		{NT_GENERIC_ALL, NT_FILE_ALL_ACCESS},
		{NT_GENERIC_EXECUTE, NT_FILE_GENERIC_EXECUTE},
		{NT_GENERIC_WRITE, NT_FILE_GENERIC_WRITE},
		{NT_GENERIC_READ, NT_FILE_GENERIC_READ},
	};
	uint32_t mapped = mask & ~GENERIC_RIGHTS;

	for (size_t i = 0; i < ARRAY_SIZE(map); i++)
		if (mask & map[i].generic)
			mapped |= map[i].rights;
	return mapped;
}

/* Whether the entry means something else once it is inherited: a creator's SID, or generic
 * rights. */
static bool changes_when_inherited(const struct nt_ace *ace)
{
	return nt_sid_equal(&ace->sid, &nt_sid_creator_owner) ||
	       nt_sid_equal(&ace->sid, &nt_sid_creator_group) || (ace->mask & GENERIC_RIGHTS);
}

static int add_effective(struct nt_acl *acl, const struct nt_ace *ace, uint8_t flags,
			 const struct nt_sid *owner, const struct nt_sid *group)
{
	const struct nt_sid *sid = &ace->sid;

	if (nt_sid_equal(sid, &nt_sid_creator_owner))
		sid = owner;
	else if (nt_sid_equal(sid, &nt_sid_creator_group))
		sid = group;
	return nt_acl_insert(acl, acl->n_aces, ace->type, flags, nt_map_file_rights(ace->mask),
			     sid);
}

static int inherit_by_file(const struct nt_ace *ace, const struct nt_sid *owner,
			   const struct nt_sid *group, struct nt_acl *ret)
{
	uint8_t audit_flags = ace->flags & (uint8_t) ~(INHERIT_FLAGS | NT_ACE_INHERITED);

	if (!(ace->flags & NT_ACE_OBJECT_INHERIT))
		return 0;
	return add_effective(ret, ace, audit_flags | NT_ACE_INHERITED, owner, group);
}

/* A directory uses the entry itself (CONTAINER_INHERIT), hands it on to its own children, or
 * both. */
static int inherit_by_directory(const struct nt_ace *ace, const struct nt_sid *owner,
				const struct nt_sid *group, struct nt_acl *ret)
{
	const bool is_effective = ace->flags & NT_ACE_CONTAINER_INHERIT;
	const bool is_handed_on = !(ace->flags & NT_ACE_NO_PROPAGATE) &&
				  (ace->flags & (NT_ACE_CONTAINER_INHERIT | NT_ACE_OBJECT_INHERIT));
	const uint8_t audit_flags = ace->flags & (uint8_t) ~(INHERIT_FLAGS | NT_ACE_INHERITED);
	const uint8_t reach = ace->flags & (NT_ACE_CONTAINER_INHERIT | NT_ACE_OBJECT_INHERIT);
	uint8_t flags = audit_flags | NT_ACE_INHERITED;
	int r;

	if (is_effective && is_handed_on && !changes_when_inherited(ace))
		return nt_acl_insert(ret, ret->n_aces, ace->type, flags | reach, ace->mask,
				     &ace->sid);
	if (is_effective) {
		r = add_effective(ret, ace, flags, owner, group);
		if (r < 0)
			return r;
	}
	if (!is_handed_on)
		return 0;
	return nt_acl_insert(ret, ret->n_aces, ace->type, flags | reach | NT_ACE_INHERIT_ONLY,
			     ace->mask, &ace->sid);
}

int nt_acl_inherit(const struct nt_acl *parent, bool is_directory, const struct nt_sid *owner,
		   const struct nt_sid *group, struct nt_acl *ret)
{
	nt_acl_init(ret);
	for (size_t i = 0; i < parent->n_aces; i++) {
		const struct nt_ace *ace = &parent->aces[i];
		int r;

		if (ace->raw)
			continue;
		r = is_directory ? inherit_by_directory(ace, owner, group, ret)
				 : inherit_by_file(ace, owner, group, ret);
		if (r < 0) {
			nt_acl_done(ret);
			return r;
		}
	}
	return 0;
}

/* ---- the binary form ---- */

static bool is_understood(uint8_t type)
{
	return type == NT_ACE_ALLOW || type == NT_ACE_DENY || type == NT_ACE_AUDIT;
}

/* One entry of exactly `size` bytes. */
static int unpack_ace(const uint8_t *data, uint16_t size, struct nt_ace *ret)
{
	struct nt_ace ace = {.type = data[0], .flags = data[1]};
	int sid_size;

	if (is_understood(ace.type)) {
		if (size < ACE_HEADER_SIZE + 4)
			return -EINVAL;
		ace.mask = read_u32(data + ACE_HEADER_SIZE);
		sid_size = nt_sid_unpack(data + 8, size - 8U, &ace.sid);
		if (sid_size < 0)
			return sid_size;
		/* Bytes behind the SID belong to nothing; keep such an entry as it is. */
		if (sid_size + 8 == size) {
			*ret = ace;
			return 0;
		}
	}
	ace.raw = malloc(size);
	if (!ace.raw)
		return -ENOMEM;
	memcpy(ace.raw, data, size);
	ace.raw_size = size;
	*ret = ace;
	return 0;
}

static int unpack_aces(const uint8_t *data, size_t end, size_t n, struct nt_acl *acl)
{
	size_t at = ACL_HEADER_SIZE;

	for (size_t i = 0; i < n; i++) {
		struct nt_ace ace;
		uint16_t size;
		int r;

		if (end - at < ACE_HEADER_SIZE)
			return -EINVAL;
		size = read_u16(data + at + 2);
		if (size < ACE_HEADER_SIZE || size % 4 != 0 || size > end - at)
			return -EINVAL;
		r = unpack_ace(data + at, size, &ace);
		if (r < 0)
			return r;
		r = insert_ace(acl, acl->n_aces, &ace);
		if (r < 0) {
			free(ace.raw);
			return r == -E2BIG ? -EINVAL : r;
		}
		at += size;
	}
	return 0;
}

int nt_acl_unpack(const uint8_t *data, size_t size, struct nt_acl *ret)
{
	uint16_t claimed;
	int r;

	nt_acl_init(ret);
	if (size < ACL_HEADER_SIZE || (data[0] != 2 && data[0] != 4))
		return -EINVAL;
	claimed = read_u16(data + 2);
	if (claimed < ACL_HEADER_SIZE || claimed > size)
		return -EINVAL;
	ret->revision = data[0];
	r = unpack_aces(data, claimed, read_u16(data + 4), ret);
	if (r < 0)
		nt_acl_done(ret);
	return r < 0 ? r : claimed;
}

static size_t ace_size(const struct nt_ace *ace)
{
	return ace->raw ? ace->raw_size : ACE_HEADER_SIZE + 4 + nt_sid_size(&ace->sid);
}

size_t nt_acl_size(const struct nt_acl *acl)
{
	size_t size = ACL_HEADER_SIZE;

	for (size_t i = 0; i < acl->n_aces; i++)
		size += ace_size(&acl->aces[i]);
	return size;
}

void nt_acl_pack(const struct nt_acl *acl, uint8_t *ret)
{
	uint8_t *at = ret + ACL_HEADER_SIZE;

	memset(ret, 0, ACL_HEADER_SIZE);
	ret[0] = acl->revision;
	write_u16(ret + 2, (uint32_t)nt_acl_size(acl));
	write_u16(ret + 4, (uint32_t)acl->n_aces);
	for (size_t i = 0; i < acl->n_aces; i++) {
		const struct nt_ace *ace = &acl->aces[i];
		size_t size = ace_size(ace);

		if (ace->raw) {
			memcpy(at, ace->raw, size);
		} else {
			at[0] = ace->type;
			at[1] = ace->flags;
			write_u16(at + 2, (uint32_t)size);
			write_u32(at + 4, ace->mask);
			nt_sid_pack(&ace->sid, at + 8);
		}
		at += size;
	}
}
