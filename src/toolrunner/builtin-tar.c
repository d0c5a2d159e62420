/* tar-create PATH and tar-extract PATH. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/tar-extract.h"
#include "toolrunner/tar.h"
#include "toolrunner/tree.h"

#define TRAILER_MAX (1 << 20) /* padding after the archive's end that is read to be polite */

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

int builtin_tar_create(int argc, char **argv)
{
    char why[4096];
    if (argc != 2)
        return builtin_failure_code("invalid_request", "usage: tar-create PATH");
    int r = tar_create(argv[1], 1, why, sizeof(why));
    return r < 0 ? builtin_failure(-r, "%s", why) : 0;
}
