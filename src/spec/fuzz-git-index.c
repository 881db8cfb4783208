/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/git.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	git_index_vet(data, size, 20);
	git_index_vet(data, size, 32);
	return 0;
}
