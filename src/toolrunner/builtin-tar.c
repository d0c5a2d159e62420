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
#include "base/path.h"
#include "base/strbuf.h"
#include "toolrunner/builtin-io.h"
#include "toolrunner/builtin.h"
#include "toolrunner/tar-extract.h"
#include "toolrunner/tar.h"
#include "toolrunner/tree.h"

#define TAR_NAMES_MAX 10000 /* that are reported */
#define READ_SIZE     65536
#define BEGINNING_MAX (4 << 20) /* of an archive that is looked at before it is unpacked */
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

/* The beginning of the archive, which is looked at before something is unpacked. An archive that
 * fits is refused as a whole. Of a longer one the rest is unpacked as it comes: what stands before
 * an entry that is at fault there stays. */
struct beginning {
    struct strbuf bytes;
    size_t at;
    bool is_all;
};

static int beginning_read(struct beginning *b)
{
    while (!b->is_all && b->bytes.len < BEGINNING_MAX) {
        int r = strbuf_reserve(&b->bytes, READ_SIZE);
        if (r < 0)
            return r;
        ssize_t n = read_stdin(NULL, b->bytes.data + b->bytes.len, READ_SIZE);
        if (n < 0)
            return (int)n;
        strbuf_commit(&b->bytes, (size_t)n);
        b->is_all = n == 0;
    }
    return 0;
}

static ssize_t take_beginning(void *arg, void *data, size_t size)
{
    struct beginning *b = arg;
    size_t left = b->bytes.len - b->at;
    if (!left)
        return b->is_all ? 0 : -ENODATA;
    size = size < left ? size : left;
    memcpy(data, b->bytes.data + b->at, size);
    b->at += size;
    return (ssize_t)size;
}

static ssize_t take_all(void *arg, void *data, size_t size)
{
    struct beginning *b = arg;
    return b->at < b->bytes.len ? take_beginning(b, data, size) : read_stdin(NULL, data, size);
}

/* Opens the directory to unpack into; -ENOENT: it is not there yet. */
static int open_root(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int check_beginning(struct tar *t, struct beginning *b, const char *path)
{
    _cleanup_close_ int root = open_root(path);
    if (root < 0 && root != -ENOENT)
        return root;
    int r = beginning_read(b);
    if (r < 0)
        return r;
    tar_init(t, take_beginning, b);
    r = tar_check(t, root);
    b->at = 0;
    return r == -ENODATA ? 0 : r;
}

/* Unpacks into a directory that is made for it; 0 or -errno. */
static int extract_into(struct tar *t, struct beginning *b, const char *path)
{
    _cleanup_made_ struct tree_made made = {0};
    _cleanup_free_ char *inside = xasprintf("%s/", path);
    tar_init(t, take_all, b); /* what the look at the beginning said of its end is not an error */
    int r = tree_make_parents(inside, 0755, &made);
    if (r < 0)
        return r;
    _cleanup_close_ int root = open_root(path);
    r = root < 0 ? root : tar_extract(t, root);
    if (r < 0)
        tree_unmake(&made);
    return r;
}

int builtin_tar_extract(int argc, char **argv)
{
    if (argc != 2)
        return builtin_failure_code("invalid_request", "usage: tar-extract PATH");
    struct beginning b = {.bytes = STRBUF_INIT(BEGINNING_MAX + READ_SIZE)};
    _cleanup_free_ struct tar *t = new0(struct tar);
    int r = path_check_length(argv[1]);
    if (r >= 0)
        r = check_beginning(t, &b, argv[1]);
    if (r >= 0)
        r = extract_into(t, &b, argv[1]);
    strbuf_done(&b.bytes);
    if (r < 0 && t->why[0])
        return builtin_failure_code(code_of(r), "%s", t->why);
    if (r < 0)
        return builtin_failure(-r, "%s", argv[1]);
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
