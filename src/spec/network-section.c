/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/error.h"
#include "base/scope.h"
#include "spec/network-inner.h"
#include "spec/spec.h"

/*
 * A `network` section by itself: other rules for a sandbox that is there already
 */

#define SECTION_MAX (2U << 20)

/* As it would stand in a job file: indented, which is good for YAML and JSON. */
static void write_file(const char *text, size_t size, struct buf *out)
{
	const char *end = text + size;

	buf_add_str(out, "network:\n");
	for (const char *at = text; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		const size_t length = (size_t)((stop ? stop + 1 : end) - at);

		buf_add_str(out, "  ");
		buf_add(out, at, length);
		at += length;
	}
	buf_add_char(out, '\n');
}

int spec_read_network(const struct spec *like, const char *text, size_t size, struct network *ret,
		      struct atoll_error *err)
{
	cleanup_buf struct buf file = BUF_INIT(SECTION_MAX);
	struct spec *spec = spec_new(like->home, like->workspace ? like->workspace : "/", err);
	int r = spec ? 0 : -ENOMEM;

	write_file(text, size, &file);
	if (r == 0 && buf_error(&file) < 0)
		r = error_set(err, ATOLL_FAULT_REQUEST, -buf_error(&file), "the network's rules");
	for (size_t i = 0; r == 0 && i < like->n_broad; i++)
		r = spec_add_broad(spec, like->broad[i].text, like->broad[i].origin, err);
	if (r == 0)
		r = spec_load(spec, "network rules", NULL, file.data, file.used, err);
	if (r == 0)
		r = network_finish(spec, err);
	if (r == 0) {
		*ret = spec->network;
		network_init(&spec->network);
	}
	spec_free(spec);
	return r;
}
