#include "cli/nearest.h"

#include <string.h>

#define NAME_MAX_BYTES 40
#define FAR            (2 * NAME_MAX_BYTES)

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Letters to insert, remove or replace (Levenshtein), one row of the matrix at a time. */
static size_t count_changes(const char *a, const char *b)
{
    size_t row[NAME_MAX_BYTES + 1], n_a = strlen(a), n_b = strlen(b);
    if (n_a > NAME_MAX_BYTES || n_b > NAME_MAX_BYTES)
        return FAR;
    for (size_t j = 0; j <= n_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[n_b];
}

void nearest_add(struct nearest *n, const char *name)
{
    size_t len = strlen(n->word);
    size_t changes = count_changes(n->word, name);
    /* The beginning of a name is an abbreviation of it, however much is missing. */
    if (len && strncmp(name, n->word, len) == 0)
        changes = 1;
    if (changes <= len / 3 + 1 && changes < strlen(name) && (!n->name || changes < n->distance)) {
        n->name = name;
        n->distance = changes;
    }
}
