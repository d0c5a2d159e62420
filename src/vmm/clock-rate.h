/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the processor's counter runs that an emulated machine has for its clock. */
#pragma once

/* In kHz, measured against the kernel's own clock; takes 10 ms. 0: there is no such counter. */
unsigned long clock_rate_khz(void);
