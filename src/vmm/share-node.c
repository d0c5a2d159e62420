/* SPDX-License-Identifier: Apache-2.0 */
/* See share.h. Nodes are in an array that grows, and in buckets by directory and name. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "vmm/share.h"

#define ROOT_ID     1 /* FUSE's number for it */
#define NODES_FIRST 256
#define BUCKETS     16384 /* a power of two */

struct node {
    uint64_t lookups;    /* that the guest has not taken back */
    uint64_t generation; /* numbers are used again; this is not */
    uint32_t dir;        /* 0: the number is free */
    uint32_t children;   /* nodes in it, which need its path */
    uint32_t next;       /* in its bucket, or the next free one; 0: none */
    bool gone;           /* no path leads to it */
    char *name;
};

struct share_nodes {
    struct node *nodes; /* [0] is not used */
    uint32_t n, size;
    uint32_t free;
    uint64_t generation;
    uint32_t buckets[BUCKETS];
};

struct share_nodes *share_nodes_new(void)
{
    struct share_nodes *t = new0(struct share_nodes);
    t->size = NODES_FIRST;
    t->nodes = xcalloc(t->size, sizeof(*t->nodes));
    t->n = ROOT_ID + 1;
    t->nodes[ROOT_ID] = (struct node){.lookups = 1, .dir = ROOT_ID};
    return t;
}

void share_nodes_free(struct share_nodes *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        free(t->nodes[i].name);
    free(t->nodes);
    free(t);
}

static struct node *node_get(const struct share_nodes *t, uint64_t id)
{
    return id >= ROOT_ID && id < t->n && t->nodes[id].dir ? &t->nodes[id] : NULL;
}

static uint32_t *bucket_of(struct share_nodes *t, uint32_t dir, const char *name)
{
    uint32_t hash = 2166136261u ^ dir;
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    return &t->buckets[(hash ^ hash >> 15) & (BUCKETS - 1)];
}

static uint32_t node_find(struct share_nodes *t, uint32_t dir, const char *name)
{
    uint32_t id = *bucket_of(t, dir, name);
    while (id && (t->nodes[id].dir != dir || strcmp(t->nodes[id].name, name) != 0))
        id = t->nodes[id].next;
    return id;
}

static void bucket_add(struct share_nodes *t, uint32_t id)
{
    uint32_t *b = bucket_of(t, t->nodes[id].dir, t->nodes[id].name);
    t->nodes[id].next = *b;
    *b = id;
}

static void bucket_remove(struct share_nodes *t, uint32_t id)
{
    uint32_t *at = bucket_of(t, t->nodes[id].dir, t->nodes[id].name);
    while (*at != id)
        at = &t->nodes[*at].next;
    *at = t->nodes[id].next;
}

static uint32_t node_alloc(struct share_nodes *t)
{
    uint32_t id = t->free;
    if (id) {
        t->free = t->nodes[id].next;
        return id;
    }
    if (t->n == SHARE_NODES_MAX)
        return 0;
    if (t->n == t->size) {
        t->size *= 2;
        t->nodes = xrealloc(t->nodes, t->size * sizeof(*t->nodes));
    }
    return t->n++;
}

uint64_t share_nodes_find(struct share_nodes *t, uint64_t dir, const char *name)
{
    if (!node_get(t, dir))
        return 0;
    uint32_t id = node_find(t, (uint32_t)dir, name);
    if (!id) {
        id = node_alloc(t);
        if (!id)
            return 0;
        t->nodes[id] = (struct node){
            .dir = (uint32_t)dir, .generation = ++t->generation, .name = xstrdup(name)};
        t->nodes[dir].children++;
        bucket_add(t, id);
    }
    t->nodes[id].lookups++;
    return id;
}

uint64_t share_nodes_generation(const struct share_nodes *t, uint64_t id)
{
    const struct node *n = node_get(t, id);
    return n ? n->generation : 0;
}

/* Upwards: a directory may have been kept only by what was in it. */
static void node_release(struct share_nodes *t, uint32_t id)
{
    while (id != ROOT_ID && !t->nodes[id].lookups && !t->nodes[id].children) {
        struct node *n = &t->nodes[id];
        uint32_t dir = n->dir;
        if (!n->gone)
            bucket_remove(t, id);
        free(n->name);
        *n = (struct node){.next = t->free};
        t->free = id;
        t->nodes[dir].children--;
        id = dir;
    }
}

void share_nodes_forget(struct share_nodes *t, uint64_t id, uint64_t n)
{
    struct node *node = node_get(t, id);
    if (!node || id == ROOT_ID)
        return;
    node->lookups -= n < node->lookups ? n : node->lookups;
    node_release(t, (uint32_t)id);
}

void share_nodes_remove(struct share_nodes *t, uint64_t dir, const char *name)
{
    uint32_t id = node_get(t, dir) ? node_find(t, (uint32_t)dir, name) : 0;
    if (!id)
        return;
    bucket_remove(t, id);
    t->nodes[id].gone = true;
}

void share_nodes_rename(struct share_nodes *t, uint64_t dir, const char *name, uint64_t to_dir,
                        const char *to_name)
{
    uint32_t id = node_get(t, dir) ? node_find(t, (uint32_t)dir, name) : 0;
    if (!node_get(t, to_dir) || (dir == to_dir && strcmp(name, to_name) == 0))
        return;
    share_nodes_remove(t, to_dir, to_name);
    if (!id)
        return;
    bucket_remove(t, id);
    free(t->nodes[id].name);
    t->nodes[id].name = xstrdup(to_name);
    t->nodes[id].dir = (uint32_t)to_dir;
    t->nodes[to_dir].children++;
    bucket_add(t, id);
    t->nodes[dir].children--;
    node_release(t, (uint32_t)dir);
}

/* From the end of ret to its front. The host may have moved a directory into one that was below it,
 * and the guest have said so by two renames; the size of a path ends such a circle. */
int share_nodes_path(const struct share_nodes *t, uint64_t id, char *ret, size_t size)
{
    size_t at = size - 1;
    const struct node *n = node_get(t, id);
    if (!n)
        return -ESTALE;
    ret[at] = 0;
    for (; id != ROOT_ID; id = n->dir, n = &t->nodes[id]) {
        size_t len = strlen(n->name);
        if (n->gone)
            return -ESTALE;
        if (len + 1 > at)
            return -ENAMETOOLONG;
        if (ret[at])
            ret[--at] = '/';
        at -= len;
        memcpy(ret + at, n->name, len);
    }
    if (!ret[at])
        ret[--at] = '.';
    memmove(ret, ret + at, size - at);
    return 0;
}

int share_nodes_place(const struct share_nodes *t, uint64_t id, uint64_t *ret_dir,
                      const char **ret_name)
{
    const struct node *n = node_get(t, id);
    if (!n || n->gone)
        return -ESTALE;
    *ret_dir = id == ROOT_ID ? 0 : n->dir;
    *ret_name = id == ROOT_ID ? "." : n->name;
    return 0;
}
