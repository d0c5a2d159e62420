/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for a key that one process alone may have: in a process that is forked from it the bytes
 * are zero, and no core dump has them. The kernel sees to both, so that no fork can be forgotten:
 * the warden forks processes that go on without an exec, and some of them outlive it or read what
 * sandboxes wrote. */
#pragma once

#include <stddef.h>

/* Zeros, or NULL with errno. */
void *key_memory_new(size_t size);
/* Wipes it; key may be NULL. */
void key_memory_free(void *key, size_t size);
