/* SPDX-License-Identifier: Apache-2.0 */
/* The tar reader on hostile archives: whatever it accepts must be what tar.h promises. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/checksums.h"
#include "toolrunner/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *data;
    size_t left, step;
};

static void expect(bool good)
{
    if (!good)
        abort();
}

static ssize_t read_input(void *arg, void *data, size_t size)
{
    struct input *in = arg;
    if (size > in->left)
        size = in->left;
    if (size > in->step)
        size = in->step;
    memcpy(data, in->data, size);
    in->data += size;
    in->left -= size;
    return (ssize_t)size;
}

static void check_path(const char *path)
{
    expect(*path != '/');
    while (*path) {
        size_t part = strcspn(path, "/");
        expect(part > 0 && !(part == 1 && *path == '.') && !(part == 2 && !strncmp(path, "..", 2)));
        path += part;
        if (*path)
            expect(*++path);
    }
}

static void check_entry(struct tar *t, const struct tar_entry *e)
{
    expect(memchr(e->path, 0, sizeof(e->path)) && memchr(e->link, 0, sizeof(e->link)));
    check_path(e->path);
    expect(*e->path || e->type == TAR_DIRECTORY);
    expect((e->mode & ~(mode_t)0777) == 0);
    expect(e->size <= TAR_ENTRY_SIZE_MAX);
    if (e->type == TAR_HARDLINK)
        check_path(e->link);
    if (e->type == TAR_HARDLINK || e->type == TAR_SYMLINK)
        expect(*e->link);
    if (e->type != TAR_FILE)
        return;
    char chunk[300];
    uint64_t total = 0;
    ssize_t n;
    while ((n = tar_read(t, chunk, sizeof(chunk))) > 0)
        total += (uint64_t)n;
    expect(n < 0 ? t->why[0] != 0 : total == e->size);
}

static void run(const uint8_t *data, size_t size, size_t step)
{
    static struct tar t;
    static struct tar_entry e;
    struct input in = {data, size, step};
    tar_init(&t, read_input, &in);
    int r;
    while ((r = tar_next(&t, &e)) > 0)
        check_entry(&t, &e);
    expect(r == 0 || t.why[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(data, size, SIZE_MAX);
    uint8_t *copy = malloc(size ? size : 1);
    memcpy(copy, data, size);
    tar_fix_checksums(copy, size);
    run(copy, size, 77);
    free(copy);
    return 0;
}
