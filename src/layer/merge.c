/* SPDX-License-Identifier: Apache-2.0 */
#include "layer/layer.h"
int layer_merge_text(const char *base, size_t n_base, const char *ours, size_t n_ours,
		     const char *theirs, size_t n_theirs, struct buf *out)
{
	(void)base, (void)n_base, (void)ours, (void)n_ours, (void)theirs, (void)n_theirs, (void)out;
	return 1;
}
