/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the rate of the clock that machines have, in kHz: the kernel's "tsc_early_khz". */
#include <stdio.h>

#include "vmm/clock-rate.h"

int main(void)
{
    unsigned long khz = clock_rate_khz();
    printf("%lu\n", khz);
    return khz ? 0 : 1;
}
