/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of the sandbox's own devpts. */
#pragma once

#include <stdint.h>

/* Opens a pair of the given size (0: 24 x 80); the master does not block. 0 or -errno. */
int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave);
int pty_resize(int master, uint16_t rows, uint16_t cols);
