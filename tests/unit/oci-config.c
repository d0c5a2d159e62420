/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the config.json of every OCI runtime, plain and with all that an order can say: one line
 * each, for a validator. */
#include <stdlib.h>

#include "tests/unit/oci-order.h"

static void print(const struct child_order *o)
{
    json_t *config = config_of(o);
    if (!config)
        exit(1);
    json_dumpf(config, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(config);
}

int main(void)
{
    for (int b = OCI_NONE + 1; b < _OCI_BACKEND_MAX; b++) {
        struct child_order plain = order_plain((enum oci_backend)b);
        struct child_order full = order_full((enum oci_backend)b);
        struct child_order image = order_image((enum oci_backend)b);
        print(&plain);
        print(&full);
        print(&image);
    }
    return 0;
}
