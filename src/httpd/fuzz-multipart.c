/* SPDX-License-Identifier: Apache-2.0 */
/* Forms come from clients. The result must not depend on the cuts between pieces: the first byte
 * selects the cuts, and the whole form at once is read as well. */
#include "base/buf.h"
#include "httpd/multipart.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void note(struct buf *out, const struct multipart *form, enum multipart_kind kind,
		 const struct multipart_piece *piece)
{
	switch (kind) {
	case MULTIPART_PART:
		buf_addf(out, "[%s|%s|%s]", multipart_name(form), multipart_filename(form) ?: "-",
			 multipart_type(form) ?: "-");
		break;
	case MULTIPART_DATA:
		if (piece->content.size == 0)
			abort();
		buf_add(out, piece->content.at, piece->content.size);
		break;
	case MULTIPART_LAST:
		buf_add_char(out, ';');
		break;
	case MULTIPART_END:
		buf_add_char(out, '.');
		break;
	case MULTIPART_BAD:
		buf_add_char(out, '!');
		break;
	case MULTIPART_MORE:
		break;
	}
}

static bool feed(struct buf *out, struct multipart *form, const char *data, size_t size)
{
	struct multipart_piece piece;
	enum multipart_kind kind;

	while ((kind = multipart_step(form, data, size, &piece)) != MULTIPART_MORE) {
		if (piece.used > size)
			abort();
		data += piece.used;
		size -= piece.used;
		note(out, form, kind, &piece);
		if (kind == MULTIPART_BAD)
			return false;
	}
	if (piece.used != size)
		abort();
	return true;
}

static void read_all(struct buf *out, const char *data, size_t size, size_t step)
{
	struct multipart *form;

	if (multipart_new("multipart/form-data; boundary=xyz", &form) < 0)
		abort();
	for (size_t i = 0; i < size; i += step)
		if (!feed(out, form, data + i, size - i < step ? size - i : step))
			break;
	buf_add_char(out, multipart_is_complete(form) ? '+' : '-');
	multipart_free(form);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf one = BUF_INIT(1 << 24), two = BUF_INIT(1 << 24);

	if (size < 2)
		return 0;
	read_all(&one, (const char *)data + 1, size - 1, size);
	read_all(&two, (const char *)data + 1, size - 1, data[0] % 31 + 1U);
	if (one.used != two.used || memcmp(one.data, two.data, one.used) != 0)
		abort();
	buf_done(&one);
	buf_done(&two);
	return 0;
}
