/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/oom-count.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"

#define FILE_MAX 4096
#define WORD     "\noom_kill " /* in no file the first line */

uint64_t oom_count(void)
{
    static const char *const paths[] = {"/sys/fs/cgroup/memory.events",
                                        "/sys/fs/cgroup/memory/memory.oom_control"};
    for (size_t i = 0; i < ELEMENTS(paths); i++) {
        _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(FILE_MAX);
        if (fd_read_file_at(AT_FDCWD, paths[i], &b) < 0 || strbuf_append(&b, "", 1) < 0)
            continue;
        const char *at = strstr(b.data, WORD);
        return at ? strtoull(at + strlen(WORD), NULL, 10) : 0;
    }
    return 0;
}
