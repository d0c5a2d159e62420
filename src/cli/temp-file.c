/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/temp-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

int temp_create(int at, char ret_name[TEMP_NAME_SIZE])
{
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return -EIO;
    snprintf(ret_name, TEMP_NAME_SIZE, ".sbx-%016llx", (unsigned long long)random);
    int fd = openat(at, ret_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}
