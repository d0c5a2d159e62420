/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/nearest.h"

#include <string.h>

#include "base/nearest.h"

void nearest_add(struct nearest *n, const char *name)
{
    size_t len = strlen(n->word);
    size_t changes = nearest_distance(n->word, name);
    /* The beginning of a name is an abbreviation of it, however much is missing. */
    if (len && strncmp(name, n->word, len) == 0)
        changes = 1;
    if (changes <= nearest_patience(n->word) && changes < strlen(name) &&
        (!n->name || changes < n->distance)) {
        n->name = name;
        n->distance = changes;
    }
}
