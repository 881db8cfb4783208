/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

/* The program atoll-spawner (sandbox/spawner.c). It is linked like the command line's program, and
 * as small. */
int main(void)
{
	spawner_serve(3);
}
