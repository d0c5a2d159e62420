/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as a tree of maps, lists and texts that remember their place in the file. No anchors,
 * aliases, tags, second documents or duplicate keys; limited in depth and number. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct error;

#define RULES_NODES_MAX 65536

enum node_type { NODE_TEXT, NODE_LIST, NODE_MAP };

struct node {
    enum node_type type;
    char *text;         /* NODE_TEXT */
    bool plain;         /* ... written without quotes */
    struct node *items; /* NODE_LIST; of a NODE_MAP key, value, key, value, ... */
    size_t n_items;
    size_t line, column; /* from 1 */
};

/* NULL with err set: "name:line:column: ...". */
struct node *node_parse(const char *text, size_t len, const char *name, size_t max_depth,
                        struct error *err);
void node_free(struct node *n);
/* The value of a key of a map, or NULL. */
const struct node *node_find(const struct node *map, const char *key);
/* Fails with the node's place before the message; returns negative. */
int node_error(const struct node *n, const char *name, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
