/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "layer/draft.h"

int drafts_mark(struct drafts *drafts)
{
	(void)drafts;
	return 0;
}
