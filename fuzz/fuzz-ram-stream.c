/* SPDX-License-Identifier: Apache-2.0 */
/* The stream that an emulator writes when its machine is kept, from an emulator that its guest has
 * taken over: whatever it says, nothing is written behind the end of the memory, and the state is
 * no longer than what was read. A second reading of what was accepted finds the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "vmm/ram-stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MEMORY_BYTES (8 * 4096ull) /* as in the seeds */

struct result {
    int status;
    int memory_fd, state_fd;
};

static void expect(bool good)
{
    if (!good)
        abort();
}

static uint64_t size_of(int fd)
{
    struct stat st;
    expect(fstat(fd, &st) == 0);
    return (uint64_t)st.st_size;
}

static struct result split(int stream_fd)
{
    struct result r = {.memory_fd = memfd_create("memory", MFD_CLOEXEC),
                       .state_fd = memfd_create("state", MFD_CLOEXEC)};
    expect(r.memory_fd >= 0 && r.state_fd >= 0);
    expect(ftruncate(r.memory_fd, MEMORY_BYTES) == 0 && lseek(stream_fd, 0, SEEK_SET) == 0);
    r.status = ram_stream_split(stream_fd, -1, r.memory_fd, MEMORY_BYTES, r.state_fd);
    return r;
}

static bool same_bytes(int a, int b)
{
    uint8_t x[4096], y[4096];
    for (off_t at = 0;; at += (off_t)sizeof(x)) {
        ssize_t n = pread(a, x, sizeof(x), at), m = pread(b, y, sizeof(y), at);
        if (n != m || n < 0 || memcmp(x, y, (size_t)n) != 0)
            return false;
        if (n == 0)
            return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int stream_fd = memfd_create("stream", MFD_CLOEXEC);
    expect(stream_fd >= 0 && fd_write_all(stream_fd, data, size) == 0);
    struct result first = split(stream_fd);
    expect(first.status <= 0);
    expect(size_of(first.memory_fd) == MEMORY_BYTES);
    expect(size_of(first.state_fd) <= size);
    if (first.status == 0) {
        struct result second = split(stream_fd);
        expect(second.status == 0 && same_bytes(first.memory_fd, second.memory_fd) &&
               same_bytes(first.state_fd, second.state_fd));
        close(second.memory_fd);
        close(second.state_fd);
    }
    close(first.memory_fd);
    close(first.state_fd);
    close(stream_fd);
    return 0;
}
