/* SPDX-License-Identifier: Apache-2.0 */
#include "base/key-memory.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* MADV_WIPEONFORK is of Linux 4.14. It is of whole pages, which therefore hold nothing else. */
void *key_memory_new(size_t size)
{
    void *key = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (key == MAP_FAILED)
        return NULL;
    if (madvise(key, size, MADV_WIPEONFORK) == 0 && madvise(key, size, MADV_DONTDUMP) == 0)
        return key;
    int saved = errno;
    munmap(key, size);
    errno = saved;
    return NULL;
}

void key_memory_free(void *key, size_t size)
{
    if (!key)
        return;
    explicit_bzero(key, size);
    munmap(key, size);
}
