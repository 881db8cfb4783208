/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/sandbox.h"

/* The program that holders are forks of: see sandbox/spawner.c. As small as the command line's own,
 * and linked like it. */
int main(void)
{
	spawner_serve(3);
}
