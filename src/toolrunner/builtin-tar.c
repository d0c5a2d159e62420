/* SPDX-License-Identifier: Apache-2.0 */
/* tar-create PATH, tar-extract PATH, and tar-names: what extracting the archive on stdin would
 * write, told before anything is. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/tar-extract.h"
#include "toolrunner/tar.h"
#include "toolrunner/tree.h"

#define TAR_NAMES_MAX 10000     /* that are reported */
#define TRAILER_MAX   (1 << 20) /* padding after the archive's end that is read to be polite */

static ssize_t read_stdin(void *arg, void *data, size_t size)
{
    ssize_t n;
    (void)arg;
    do
        n = read(0, data, size);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static const char *code_of(int error)
{
    switch (-error) {
    case ENOSPC:
    case EDQUOT:
        return "no_space";
    case EFBIG:
        return "too_large";
    case EPERM:
    case EACCES:
    case EROFS:
    case ELOOP:
    case EXDEV:
        return "forbidden";
    case EEXIST:
    case EISDIR:
    case ENOTDIR:
        return "conflict";
    case EINVAL:
    case ENAMETOOLONG:
    case ENOENT:
        return "invalid_request";
    default:
        return "internal";
    }
}

static void read_trailer(void)
{
    char scrap[4096];
    for (size_t total = 0; total < TRAILER_MAX;) {
        ssize_t n = read_stdin(NULL, scrap, sizeof(scrap));
        if (n <= 0)
            return;
        total += (size_t)n;
    }
}

int builtin_tar_extract(int argc, char **argv)
{
    if (argc != 2)
        return builtin_failure_code("invalid_request", "usage: tar-extract PATH");
    _cleanup_free_ char *inside = xasprintf("%s/", argv[1]);
    int r = tree_make_parents(inside, 0755);
    if (r < 0)
        return builtin_failure(-r, "%s", argv[1]);
    _cleanup_close_ int root = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return builtin_failure(errno, "%s", argv[1]);
    _cleanup_free_ struct tar *t = new0(struct tar);
    tar_init(t, read_stdin, NULL);
    r = tar_extract(t, root);
    if (r < 0)
        return builtin_failure_code(code_of(r), "%s", t->why);
    read_trailer();
    return 0;
}

/* A hard link makes a second name of the file that it names: both are touched. */
static int add_name(json_t *list, const struct tar_entry *e)
{
    bool lossy[2] = {false, false};
    json_t *o = json_pack("{s:o}", "path", json_string_from_bytes(e->path, strlen(e->path), lossy));
    if (e->type == TAR_HARDLINK)
        json_object_set_new(o, "link", json_string_from_bytes(e->link, strlen(e->link), lossy + 1));
    json_array_append_new(list, o);
    return lossy[0] || lossy[1] ? -EILSEQ : 0;
}

int builtin_tar_names(int argc, char **argv)
{
    json_t *list = json_array();
    _cleanup_json_ json_t *o = json_pack("{s:o}", "names", list);
    _cleanup_free_ struct tar *t = new0(struct tar);
    _cleanup_free_ struct tar_entry *e = new0(struct tar_entry);
    (void)argv;
    if (argc != 1)
        return builtin_failure_code("invalid_request", "usage: tar-names");
    tar_init(t, read_stdin, NULL);
    for (;;) {
        int r = tar_next(t, e);
        if (r < 0)
            return builtin_failure_code(code_of(r), "%s", t->why);
        if (r == 0)
            break;
        if (add_name(list, e) < 0)
            return builtin_failure_code("invalid_request",
                                        "the archive has a name that is not UTF-8, which rules "
                                        "about paths cannot be compared with");
        if (json_array_size(list) > TAR_NAMES_MAX)
            return builtin_failure_code("too_large",
                                        "the archive has more than %d names, which are too many "
                                        "to compare with rules about paths",
                                        TAR_NAMES_MAX);
    }
    read_trailer();
    return builtin_print(o);
}

int builtin_tar_create(int argc, char **argv)
{
    char why[4096];
    if (argc != 2)
        return builtin_failure_code("invalid_request", "usage: tar-create PATH");
    int r = tar_create(argv[1], 1, why, sizeof(why));
    return r < 0 ? builtin_failure(-r, "%s", why) : 0;
}
