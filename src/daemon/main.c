/* SPDX-License-Identifier: Apache-2.0 */
#include "api/server.h"
#include "box/box.h"

int main(void)
{
	return 1;
}
