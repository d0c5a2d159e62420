/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the template that tell who is who, see root.h: also what an image's root gets, so they
 * are where a child finds them. */
#include <string.h>

#include "base/alloc.h"
#include "builder/root.h"

const struct root_file root_files[] = {
    {"etc/passwd", "root:x:0:0:root:/:/usr/sbin/nologin\n"
                   "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/home/sandbox:/bin/sh\n"},
    {"etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\n"
                          "protocols: files\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n"},
    /* Places that container engines insist on covering. */
    {"etc/hostname", "sandbox\n"},
    {"etc/resolv.conf", ""},
};
const size_t n_root_files = ELEMENTS(root_files);

const char *root_file_text(const char *name)
{
    for (size_t i = 0; i < n_root_files; i++)
        if (strcmp(root_files[i].name, name) == 0)
            return root_files[i].text;
    return "";
}
