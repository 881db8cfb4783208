/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the self-relative form of security descriptors: a header of 20 bytes with the
 * offsets of owner, group, SACL and DACL, and these parts behind it. Called by the Win32 code for
 * what it reads from files, and by tests.
 */
#include "nt/descriptor.h"

#include "base/scope.h"
#include "nt/bytes.h"

#include <errno.h>
#include <string.h>

#define HEADER_SIZE 20

void nt_descriptor_init(struct nt_descriptor *sd)
{
	*sd = (struct nt_descriptor){0};
	nt_acl_init(&sd->dacl);
	nt_acl_init(&sd->sacl);
}

void nt_descriptor_done(struct nt_descriptor *sd)
{
	nt_acl_done(&sd->dacl);
	nt_acl_done(&sd->sacl);
	nt_descriptor_init(sd);
}

/* ---- reading ---- */

struct input {
	const uint8_t *data;
	size_t size;
};

/* The bytes at an offset that the header names. Parts must lie behind the header. */
static bool part_at(const struct input *in, size_t field, struct input *ret)
{
	uint32_t offset = read_u32(in->data + field);

	if (offset < HEADER_SIZE || offset > in->size)
		return false;
	*ret = (struct input){in->data + offset, in->size - offset};
	return true;
}

static int read_sid(const struct input *in, size_t field, bool *ret_has, struct nt_sid *ret)
{
	struct input part;
	int r;

	if (read_u32(in->data + field) == 0)
		return 0;
	if (!part_at(in, field, &part))
		return -EINVAL;
	r = nt_sid_unpack(part.data, part.size, ret);
	*ret_has = r > 0;
	return r < 0 ? r : 0;
}

static int read_acl(const struct input *in, size_t field, bool *ret_is_null, struct nt_acl *ret)
{
	struct input part;
	int r;

	if (read_u32(in->data + field) == 0) {
		*ret_is_null = true;
		return 0;
	}
	if (!part_at(in, field, &part))
		return -EINVAL;
	r = nt_acl_unpack(part.data, part.size, ret);
	return r < 0 ? r : 0;
}

static int read_parts(const struct input *in, struct nt_descriptor *sd)
{
	int r = read_sid(in, 4, &sd->has_owner, &sd->owner);

	if (r == 0)
		r = read_sid(in, 8, &sd->has_group, &sd->group);
	if (r == 0 && (sd->control & NT_SE_SACL_PRESENT)) {
		sd->has_sacl = true;
		r = read_acl(in, 12, &sd->is_sacl_null, &sd->sacl);
	}
	if (r == 0 && (sd->control & NT_SE_DACL_PRESENT)) {
		sd->has_dacl = true;
		r = read_acl(in, 16, &sd->is_dacl_null, &sd->dacl);
	}
	return r;
}

int nt_descriptor_unpack(const uint8_t *data, size_t size, struct nt_descriptor *ret)
{
	const struct input in = {data, size};
	int r;

	nt_descriptor_init(ret);
	if (size < HEADER_SIZE || data[0] != 1)
		return -EINVAL;
	ret->control = read_u16(data + 2);
	if (!(ret->control & NT_SE_SELF_RELATIVE))
		return -EINVAL;
	r = read_parts(&in, ret);
	if (r < 0)
		nt_descriptor_done(ret);
	return r;
}

/* ---- writing ---- */

static size_t packed_size(const struct nt_descriptor *sd)
{
	size_t size = HEADER_SIZE;

	if (sd->has_owner)
		size += nt_sid_size(&sd->owner);
	if (sd->has_group)
		size += nt_sid_size(&sd->group);
	if (sd->has_sacl && !sd->is_sacl_null)
		size += nt_acl_size(&sd->sacl);
	if (sd->has_dacl && !sd->is_dacl_null)
		size += nt_acl_size(&sd->dacl);
	return size;
}

static size_t put_sid(uint8_t *data, size_t field, size_t at, const struct nt_sid *sid)
{
	write_u32(data + field, (uint32_t)at);
	return at + nt_sid_pack(sid, data + at);
}

static size_t put_acl(uint8_t *data, size_t field, size_t at, const struct nt_acl *acl)
{
	write_u32(data + field, (uint32_t)at);
	nt_acl_pack(acl, data + at);
	return at + nt_acl_size(acl);
}

static uint16_t packed_control(const struct nt_descriptor *sd)
{
	unsigned control = sd->control & ~(NT_SE_DACL_PRESENT | NT_SE_SACL_PRESENT);

	return (uint16_t)(control | NT_SE_SELF_RELATIVE | (sd->has_dacl ? NT_SE_DACL_PRESENT : 0) |
			  (sd->has_sacl ? NT_SE_SACL_PRESENT : 0));
}

int nt_descriptor_pack(const struct nt_descriptor *sd, uint8_t **ret)
{
	const uint16_t control = packed_control(sd);
	size_t size = packed_size(sd), at = HEADER_SIZE;
	uint8_t *data;

	if (nt_acl_size(&sd->dacl) > UINT16_MAX || nt_acl_size(&sd->sacl) > UINT16_MAX)
		return -E2BIG;
	data = calloc(1, size);
	if (!data)
		return -ENOMEM;
	data[0] = 1;
	write_u16(data + 2, control);
	if (sd->has_owner)
		at = put_sid(data, 4, at, &sd->owner);
	if (sd->has_group)
		at = put_sid(data, 8, at, &sd->group);
	if (sd->has_sacl && !sd->is_sacl_null)
		at = put_acl(data, 12, at, &sd->sacl);
	if (sd->has_dacl && !sd->is_dacl_null)
		put_acl(data, 16, at, &sd->dacl);
	*ret = data;
	return (int)size;
}
