/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled at configure time: can musl-gcc make the runner, with the kernel's headers and the
 * static jansson of this system? */
#include <jansson.h>
#include <linux/openat2.h>
#include <linux/vm_sockets.h>
#include <sys/syscall.h>

int main(void)
{
    json_t *o = json_loads("{\"a\": 1.5}", 0, NULL);
    char *text = json_dumps(o, JSON_COMPACT);
    return !text || SYS_close_range == 0;
}
