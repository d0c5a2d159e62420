/* SPDX-License-Identifier: Apache-2.0 */
/* A migration stream of QEMU's, taken apart: the guest's memory at its places, and all else as it
 * was; what makes no sense is refused, and written nowhere that it must not be. */
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/unit/tap.h"
#include "vmm/ram-stream.h"

#define PAGES  8
#define MEMORY (PAGES * 4096ull)
#define OTHER  4096ull

static uint8_t in[256 * 1024], want[256 * 1024];
static size_t in_len, want_len;

/* Into the stream, and into what is to be left of it. */
static void put(const void *data, size_t size, bool stays)
{
    memcpy(in + in_len, data, size);
    in_len += size;
    if (!stays)
        return;
    memcpy(want + want_len, data, size);
    want_len += size;
}

static void put_u8(uint8_t v)
{
    put(&v, 1, true);
}

static void put_u32(uint32_t v)
{
    v = htobe32(v);
    put(&v, sizeof(v), true);
}

static void put_u64(uint64_t v, bool stays)
{
    v = htobe64(v);
    put(&v, sizeof(v), stays);
}

static void put_name(const char *name, bool stays)
{
    uint8_t len = (uint8_t)strlen(name);
    put(&len, 1, stays);
    put(name, len, stays);
}

static void put_page(const char *block, uint64_t at, int fill, bool stays)
{
    uint8_t page[4096], zero = 0;
    put_u64(at | (fill ? 0x08 : 0x02) | (block ? 0 : 0x20), stays);
    if (block)
        put_name(block, stays);
    memset(page, fill, sizeof(page));
    put(fill ? page : &zero, fill ? sizeof(page) : 1, stays);
}

static void put_footer(void)
{
    put_u8(0x7e);
    put_u32(2);
}

static void put_begin(uint64_t memory_bytes)
{
    in_len = want_len = 0;
    put("QEVM", 4, true);
    put_u32(3);
    put_u8(0x07);
    put_u32(7);
    put("microvm", 7, true);
    put_u8(0x05);
    put_name("configuration/capabilities", true);
    put_u32(1);
    put_u32(1);
    put_name("x-ignore-shared", true);
    put_u8(0x01);
    put_u32(2);
    put_name("ram", true);
    put_u32(0);
    put_u32(4);
    put_u64((memory_bytes + OTHER) | 0x04, true);
    put_name("memory", true);
    put_u64(memory_bytes, true);
    put_u64(0, true);
    put_name("bios", true);
    put_u64(OTHER, true);
    put_u64(0xfffff000, true);
    put_u64(0x10, true);
    put_footer();
}

static void put_whole(void)
{
    put_begin(MEMORY);
    put_u8(0x02);
    put_u32(2);
    put_page("memory", 0, 'a', false);
    put_page(NULL, 4096, 0, false);
    put_page(NULL, 7 * 4096, 'b', false);
    put_page("bios", 0, 'r', true);
    put_u64(0x10, true);
    put_footer();
    put_u8(0x03);
    put_u32(2);
    put_page("memory", 3 * 4096, 'c', false);
    put_u64(0x10, true);
    put_footer();
    put("devices, whatever they say: \x01\x02\x03", 31, true);
}

struct result {
    int r, memory_fd, state_fd;
};

static struct result split(size_t len)
{
    int from = memfd_create("from", 0);
    struct result x = {.memory_fd = memfd_create("memory", 0),
                       .state_fd = memfd_create("state", 0)};
    if (fd_write_all(from, in, len) < 0 || lseek(from, 0, SEEK_SET) < 0 ||
        ftruncate(x.memory_fd, MEMORY) < 0)
        exit(1);
    x.r = ram_stream_split(from, -1, x.memory_fd, MEMORY, x.state_fd);
    close(from);
    return x;
}

static off_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? -1 : st.st_size;
}

static void result_done(struct result *x)
{
    close(x->memory_fd);
    close(x->state_fd);
}

static void test_whole(void)
{
    static uint8_t memory[MEMORY], state[sizeof(want)];
    static const char fills[PAGES] = {'a', 0, 0, 'c', 0, 0, 0, 'b'};
    bool right = true;
    struct stat st;
    put_whole();
    struct result x = split(in_len);
    ok(x.r == 0, "a stream is taken apart: %d", x.r);
    ok(pread(x.memory_fd, memory, MEMORY, 0) == (ssize_t)MEMORY, "all of the memory is there");
    for (size_t i = 0; i < MEMORY; i++)
        right = right && memory[i] == (uint8_t)fills[i / 4096];
    ok(right, "each page is at its place");
    ok(fstat(x.memory_fd, &st) == 0 && st.st_blocks * 512 == 3 * 4096,
       "what is zero takes no room");
    ok(size_of(x.state_fd) == (off_t)want_len &&
           pread(x.state_fd, state, sizeof(state), 0) == (ssize_t)want_len &&
           memcmp(state, want, want_len) == 0,
       "all else is as it was");
    result_done(&x);
}

/* Only behind the memory may it end anywhere: that is the emulator's to judge when it reads it. */
static void test_cut(void)
{
    bool refused = true;
    put_whole();
    for (size_t len = 0; len < in_len - 31; len += len < 400 ? 1 : 97) {
        struct result x = split(len);
        refused = refused && x.r < 0;
        result_done(&x);
    }
    ok(refused, "a stream that ends in its memory is refused, wherever it does");
}

static void test_refused(void)
{
    struct result x;
    put_begin(MEMORY);
    put_u8(0x02);
    put_u32(2);
    put_page("memory", MEMORY, 'x', false);
    x = split(in_len);
    ok(x.r == -EPROTO && size_of(x.memory_fd) == (off_t)MEMORY, "a page beyond the memory");
    result_done(&x);

    put_begin(2 * MEMORY);
    x = split(in_len);
    ok(x.r == -EPROTO, "a memory of another size");
    result_done(&x);

    put_begin(MEMORY);
    put_u8(0x02);
    put_u32(2);
    put_u64(0x40, true);
    x = split(in_len);
    ok(x.r == -EPROTO, "a page of an unknown kind");
    result_done(&x);

    put_whole();
    in[0] = 'X';
    x = split(in_len);
    ok(x.r == -EPROTO, "another format");
    result_done(&x);
}

int main(void)
{
    test_whole();
    test_cut();
    test_refused();
    return tap_done();
}
