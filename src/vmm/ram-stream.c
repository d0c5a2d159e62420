/* SPDX-License-Identifier: Apache-2.0 */
/* See ram-stream.h. The format is QEMU's migration stream, version 3: a head, the configuration,
 * then sections. Memory is the first of them and comes in several parts, each a list of pages that
 * name their block; it is the only one that is looked into. All behind its last part is passed on
 * as it is. Numbers are big-endian. */
#include "vmm/ram-stream.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "vmm/vmm.h"

#define STREAM_MAGIC   0x5145564du /* "QEVM" */
#define STREAM_VERSION 3

/* Types of what follows. */
#define SECTION_START  0x01
#define SECTION_PART   0x02
#define SECTION_END    0x03
#define SUBSECTION     0x05
#define CONFIGURATION  0x07
#define SECTION_FOOTER 0x7e

/* In the lowest bits of a page's address. */
#define FLAG_ZERO     0x02
#define FLAG_SIZES    0x04
#define FLAG_PAGE     0x08
#define FLAG_END      0x10
#define FLAG_CONTINUE 0x20
#define FLAGS_KNOWN   (FLAG_ZERO | FLAG_SIZES | FLAG_PAGE | FLAG_END | FLAG_CONTINUE)

#define PAGE_BYTES    4096
#define NAME_MAX_     255
#define TEXT_MAX      4096
#define BLOCKS_MAX    256
#define MAIN_BLOCK    "memory" /* as qemu.c calls it */
#define MAIN_PATH     "/objects/" MAIN_BLOCK
#define STREAM_MAX_MS 120000

struct splitter {
    int from_fd, emulator_pidfd, memory_fd, state_fd;
    uint64_t memory_bytes;
    int64_t until_ms;
    uint64_t state_bytes; /* written */
    bool is_main;         /* the block that pages are of is the guest's memory */
    size_t have, used;    /* of in */
    size_t gathered;      /* of out */
    uint8_t in[256 * 1024];
    uint8_t out[64 * 1024];
};

/* --- bytes */

/* 1, 0 at the end, or -errno. */
static int refill(struct splitter *s)
{
    for (;;) {
        int r = vm_wait_for_bytes(s->emulator_pidfd, s->from_fd, s->until_ms);
        if (r < 0)
            return r;
        ssize_t n = read(s->from_fd, s->in, sizeof(s->in));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        s->used = 0;
        s->have = n > 0 ? (size_t)n : 0;
        return n < 0 ? -errno : n > 0;
    }
}

static int read_bytes(struct splitter *s, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        if (s->used == s->have) {
            int r = refill(s);
            if (r <= 0)
                return r < 0 ? r : -EPROTO;
        }
        size_t n = s->have - s->used < size - done ? s->have - s->used : size - done;
        memcpy((uint8_t *)data + done, s->in + s->used, n);
        s->used += n;
        done += n;
    }
    return 0;
}

static int flush_state(struct splitter *s)
{
    int r = fd_write_all(s->state_fd, s->out, s->gathered);
    s->gathered = 0;
    return r < 0 ? r : 0;
}

static int write_state(struct splitter *s, const void *data, size_t size)
{
    s->state_bytes += size;
    if (s->state_bytes > RAM_STREAM_STATE_MAX)
        return -EFBIG;
    if (s->gathered + size > sizeof(s->out)) {
        int r = flush_state(s);
        if (r < 0)
            return r;
    }
    if (size > sizeof(s->out))
        return fd_write_all(s->state_fd, data, size);
    memcpy(s->out + s->gathered, data, size);
    s->gathered += size;
    return 0;
}

/* Reads what also belongs to the state. */
static int pass(struct splitter *s, void *data, size_t size)
{
    int r = read_bytes(s, data, size);
    return r < 0 ? r : write_state(s, data, size);
}

static int pass_u8(struct splitter *s, uint8_t *ret)
{
    return pass(s, ret, 1);
}

static int pass_u32(struct splitter *s, uint32_t *ret)
{
    int r = pass(s, ret, sizeof(*ret));
    *ret = be32toh(*ret);
    return r;
}

static int pass_u64(struct splitter *s, uint64_t *ret)
{
    int r = pass(s, ret, sizeof(*ret));
    *ret = be64toh(*ret);
    return r;
}

/* A byte with the length, and so many. */
static int pass_name(struct splitter *s, char ret[NAME_MAX_ + 1])
{
    uint8_t len;
    int r = pass_u8(s, &len);
    r = r < 0 ? r : pass(s, ret, len);
    if (r >= 0)
        ret[len] = 0;
    return r;
}

/* --- head and configuration */

static int split_head(struct splitter *s)
{
    uint32_t magic, version;
    int r = pass_u32(s, &magic);
    r = r < 0 ? r : pass_u32(s, &version);
    return r < 0 ? r : magic == STREAM_MAGIC && version == STREAM_VERSION ? 0 : -EPROTO;
}

/* The only one that a machine of ours has: the capabilities that the other side must have, too. */
static int split_subsection(struct splitter *s)
{
    char name[NAME_MAX_ + 1];
    uint32_t version, n;
    int r = pass_name(s, name);
    r = r < 0 ? r : pass_u32(s, &version);
    if (r >= 0 && strcmp(name, "configuration/capabilities") != 0)
        return -EPROTO;
    r = r < 0 ? r : pass_u32(s, &n);
    for (uint32_t i = 0; r >= 0 && i < n; i++)
        r = i < NAME_MAX_ ? pass_name(s, name) : -EPROTO;
    return r;
}

static int split_configuration(struct splitter *s)
{
    char text[TEXT_MAX];
    uint32_t len;
    int r = pass_u32(s, &len);
    return r < 0 ? r : len > sizeof(text) ? -EPROTO : pass(s, text, len);
}

/* --- memory */

static bool is_main_block(const char *name)
{
    return strcmp(name, MAIN_BLOCK) == 0 || strcmp(name, MAIN_PATH) == 0;
}

/* The list of blocks: name, length, and address, because of x-ignore-shared. */
static int split_sizes(struct splitter *s, uint64_t total)
{
    bool found = false;
    for (int i = 0; total > 0; i++) {
        char name[NAME_MAX_ + 1];
        uint64_t bytes, address;
        int r = i < BLOCKS_MAX ? pass_name(s, name) : -EPROTO;
        r = r < 0 ? r : pass_u64(s, &bytes);
        r = r < 0 ? r : pass_u64(s, &address);
        if (r < 0)
            return r;
        if (bytes > total || (is_main_block(name) && bytes != s->memory_bytes))
            return -EPROTO;
        found = found || is_main_block(name);
        total -= bytes;
    }
    return found ? 0 : -EPROTO;
}

/* One that was never written is a hole, as the file has it already. */
static int keep_page(struct splitter *s, uint64_t at, const uint8_t page[PAGE_BYTES])
{
    if (at > s->memory_bytes || s->memory_bytes - at < PAGE_BYTES)
        return -EPROTO;
    ssize_t n = pwrite(s->memory_fd, page, PAGE_BYTES, (off_t)at);
    return n == PAGE_BYTES ? 0 : n < 0 ? -errno : -ENOSPC;
}

static int split_page(struct splitter *s, uint64_t head)
{
    uint8_t page[PAGE_BYTES], len = 0;
    char name[NAME_MAX_ + 1];
    uint64_t flags = head & (PAGE_BYTES - 1), at = head - flags, wire = htobe64(head);
    size_t size = flags & FLAG_PAGE ? PAGE_BYTES : 1;
    int r = flags & FLAG_CONTINUE ? 0 : read_bytes(s, &len, 1);
    r = r < 0 ? r : read_bytes(s, name, len);
    if (r >= 0 && !(flags & FLAG_CONTINUE)) {
        name[len] = 0;
        s->is_main = is_main_block(name);
    }
    r = r < 0 ? r : read_bytes(s, page, size);
    if (r < 0)
        return r;
    if (s->is_main && flags & FLAG_PAGE)
        return keep_page(s, at, page);
    if (s->is_main)
        return page[0] ? -EPROTO : 0;
    r = write_state(s, &wire, sizeof(wire));
    r = r < 0 || flags & FLAG_CONTINUE ? r : write_state(s, &len, 1);
    r = r < 0 ? r : write_state(s, name, len);
    return r < 0 ? r : write_state(s, page, size);
}

/* One part of the memory's section, up to its end. */
static int split_part(struct splitter *s)
{
    for (;;) {
        uint64_t head, wire;
        int r = read_bytes(s, &wire, sizeof(wire));
        if (r < 0)
            return r;
        head = be64toh(wire);
        uint64_t flags = head & (PAGE_BYTES - 1);
        if (flags & ~(uint64_t)FLAGS_KNOWN)
            return -EPROTO;
        if (flags & (FLAG_PAGE | FLAG_ZERO)) {
            r = split_page(s, head);
            if (r < 0)
                return r;
            continue;
        }
        r = write_state(s, &wire, sizeof(wire));
        if (r >= 0 && flags == FLAG_SIZES)
            r = split_sizes(s, head - flags);
        else if (r >= 0 && flags != FLAG_END)
            r = -EPROTO;
        if (r < 0 || flags == FLAG_END)
            return r;
    }
}

static int split_section(struct splitter *s, uint8_t type)
{
    char name[NAME_MAX_ + 1];
    uint32_t id, number;
    uint8_t footer;
    int r = pass_u32(s, &id);
    if (type == SECTION_START) {
        r = r < 0 ? r : pass_name(s, name);
        r = r < 0 ? r : pass_u32(s, &number); /* the instance, */
        r = r < 0 ? r : pass_u32(s, &number); /* and the version */
        if (r >= 0 && strcmp(name, "ram") != 0)
            return -EPROTO;
    }
    r = r < 0 ? r : split_part(s);
    r = r < 0 ? r : pass_u8(s, &footer);
    r = r < 0 ? r : pass_u32(s, &number);
    return r < 0 ? r : footer == SECTION_FOOTER && number == id ? 0 : -EPROTO;
}

/* Up to the end of the memory. */
static int split_memory(struct splitter *s)
{
    for (;;) {
        uint8_t type;
        int r = pass_u8(s, &type);
        if (r >= 0 && type == CONFIGURATION)
            r = split_configuration(s);
        else if (r >= 0 && type == SUBSECTION)
            r = split_subsection(s);
        else if (r >= 0 && type >= SECTION_START && type <= SECTION_END)
            r = split_section(s, type);
        else if (r >= 0)
            r = -EPROTO;
        if (r < 0 || type == SECTION_END)
            return r;
    }
}

static int pass_rest(struct splitter *s)
{
    int r;
    do {
        r = write_state(s, s->in + s->used, s->have - s->used);
        r = r < 0 ? r : refill(s);
    } while (r > 0);
    return r < 0 ? r : flush_state(s);
}

int ram_stream_split(int from_fd, int emulator_pidfd, int memory_fd, uint64_t memory_bytes,
                     int state_fd)
{
    static struct splitter s; /* too large for a stack */
    s = (struct splitter){.from_fd = from_fd,
                          .emulator_pidfd = emulator_pidfd,
                          .memory_fd = memory_fd,
                          .state_fd = state_fd,
                          .memory_bytes = memory_bytes,
                          .until_ms = clock_mono_ms() + STREAM_MAX_MS};
    int r = split_head(&s);
    r = r < 0 ? r : split_memory(&s);
    return r < 0 ? r : pass_rest(&s);
}
