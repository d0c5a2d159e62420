/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the image library that scripts do not reach one by one: names, the set of places,
 * what is known of an image, progress, and the store through its own interface. tests/image has the
 * archives. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "image/below.h"
#include "image/hash.h"
#include "image/info.h"
#include "image/layer-stream.h"
#include "image/name.h"
#include "image/place-set.h"
#include "image/rootfs.h"
#include "image/store.h"
#include "tests/unit/tap.h"

static char base_path[] = "/tmp/test-image-XXXXXX";
static int base_fd;

static void test_names(void)
{
    static const struct {
        const char *name, *want; /* NULL: refused */
    } cases[] = {
        {"a", "a"},     {"./a//b/./c/", "a/b/c"}, {".", ""},        {"./", ""},
        {"...", "..."}, {"..a/b", "..a/b"},       {"/a", NULL},     {"..", NULL},
        {"a/..", NULL}, {"../a", NULL},           {"a/../b", NULL}, {"", NULL},
        {"//", NULL},   {"./..", NULL},
    };
    const struct image_limits l = IMAGE_LIMITS_DEFAULT;
    char out[NAME_PATH_MAX];
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct error err = {0};
        int r = name_clean(cases[i].name, &l, "entry", out, &err);
        ok(cases[i].want ? r == 0 && !strcmp(out, cases[i].want) : r < 0 && error_is_set(&err),
           "name '%s'", cases[i].name);
    }
    char deep[2 * 130 + 1] = "";
    for (int i = 0; i < 129; i++)
        strcat(deep, "d/");
    ok(name_clean(deep, &l, "entry", out, NULL) == 0, "128 directories above are allowed");
    ok(name_clean(strcat(deep, "d"), &l, "entry", out, NULL) < 0, "129 are not");
    const struct image_limits tight = {.path_bytes = 4, .depth = 9};
    ok(name_clean("abc", &tight, "entry", out, NULL) == 0 &&
           name_clean("abcd", &tight, "entry", out, NULL) < 0,
       "a path has room for its end");
}

static void test_quotes(void)
{
    char out[NAME_QUOTED_SIZE], all[256], longer[5000];
    for (int i = 1; i < 256; i++)
        all[i - 1] = (char)i;
    all[255] = 0;
    name_quote(all, out);
    bool clean = true;
    for (char *c = out; *c; c++)
        clean = clean && *c >= ' ' && *c < 0x7f && *c != '\'';
    ok(clean && strlen(out) < sizeof(out), "nothing but printable ASCII comes out");
    memset(longer, '\n', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    ok(strlen(name_quote(longer, out)) < sizeof(out), "however long it is");
    ok(!strcmp(name_quote("a'b", out), "a\\x27b"), "a quote does not end the quotes");
}

static void test_places(void)
{
    struct place_set s = {0};
    char name[32];
    bool good = !place_set_has(&s, 1, "x");
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        place_set_add(&s, i % 7, name);
        place_set_add(&s, i % 7, name);
    }
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "n%u", i);
        good = good && place_set_has(&s, i % 7, name) && !place_set_has(&s, i % 7 + 1, name);
    }
    ok(good && s.count == 20000, "20000 places, each once, none in another directory");
    place_set_done(&s);
    ok(rootfs_squash_id(0) == 0 && rootfs_squash_id(1000) == 1000 &&
           rootfs_squash_id(65534) == 65534 && rootfs_squash_id(1) == 0 &&
           rootfs_squash_id(UINT64_MAX) == 0,
       "owners that a sandbox has stay, others become its root");
}

static void test_hash(void)
{
    char hex[IMAGE_DIGEST_SIZE];
    hash_bytes("abc", 3, hex);
    ok(!strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), "SHA-256");
    ok(image_digest_is_valid(hex) && !image_digest_is_valid("") && !image_digest_is_valid("ba78"),
       "a digest is 64 hex digits");
    hex[5] = 'A';
    ok(!image_digest_is_valid(hex), "in lower case");
}

static void test_info(void)
{
    struct error err = {0};
    _cleanup_json_ json_t *config =
        json_pack("{s:{s:[s,s], s:s, s:[s], s:n}}", "config", "Env", "A=1", "B=", "WorkingDir",
                  "x/../y/", "Entrypoint", "/init", "Cmd");
    _cleanup_image_info_ struct image_info info = {.size_bytes = 5, .files = 6}, again = {0};
    ok(image_info_from_config(config, &info, &err) == 0 && !strcmp(info.workdir, "/y") &&
           strv_length(info.env) == 2 && strv_length(info.cmd) == 1 && !*info.user,
       "a configuration: %s", err.message);
    memset(info.digest, 'b', IMAGE_DIGEST_SIZE - 1);
    _cleanup_json_ json_t *text = image_info_format(&info);
    ok(image_info_parse(text, &again, &err) == 0 && again.size_bytes == 5 && again.files == 6 &&
           !strcmp(again.env[1], "B="),
       "comes back from JSON as it was: %s", err.message);
    json_object_set_new(text, "files", json_integer(-1));
    struct image_info bad;
    ok(image_info_parse(text, &bad, NULL) < 0 && !bad.env && !bad.name,
       "a negative count does not");
    image_info_done(&bad);
}

/* --- the store */

struct count {
    unsigned calls, end_at;
    uint64_t last_files;
};

static int on_progress(void *arg, const struct image_progress *p)
{
    struct count *c = arg;
    c->last_files = p->files;
    return ++c->calls == c->end_at;
}

static int make_source(void)
{
    _cleanup_close_ int src = fd_enter_dir_at(base_fd, "src", 0755);
    mkdirat(src, "etc", 0755);
    _cleanup_close_ int f = openat(src, "etc/file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ok(f >= 0 && fd_write_all(f, "hello", 5) == 0, "a directory to copy");
    return fd_steal(&src);
}

static int add_image(struct image_store *s, int src, struct count *c, struct image_info *info,
                     struct error *err)
{
    const struct image_options o = {
        .limits = IMAGE_LIMITS_DEFAULT, .on_progress = on_progress, .arg = c};
    _cleanup_image_work_ struct image_work *w = NULL;
    int r = image_work_begin(s, &w, err);
    if (r == 0)
        r = image_from_dir(src, image_work_fd(w), &o, info, err);
    return r < 0 ? r : image_store_commit(s, w, info, err);
}

static bool tmp_is_empty(void)
{
    struct stat st;
    return fstatat(base_fd, "store/tmp", &st, 0) == 0 && st.st_nlink == 2;
}

static bool always(void *arg, const char *digest)
{
    (void)arg;
    (void)digest;
    return true;
}

static void test_store(void)
{
    struct error err = {0};
    struct count c = {0};
    struct image_store *s = NULL;
    _cleanup_image_info_ struct image_info info = {0}, found = {0}, second = {0};
    _cleanup_close_ int dir = fd_enter_dir_at(base_fd, "store", 0700), src = make_source();
    ok(image_store_open(dir, &s, &err) == 0, "a store is made: %s", err.message);
    ok(add_image(s, src, &c, &info, &err) == 0 && info.files == 2 && c.calls > 0,
       "an image is committed: %s", err.message);
    ok(image_store_find(s, info.digest, &found, &err) == 0 && found.files == 2 &&
           found.last_use_ns > 0 && found.created_ns == info.created_ns,
       "and found: %s", err.message);
    ok(add_image(s, src, &c, &second, &err) == 0 && second.created_ns == info.created_ns,
       "the same again is the one that is there: %s", err.message);
    ok(tmp_is_empty(), "nothing stays in tmp");
    char digest[IMAGE_DIGEST_SIZE], **v = NULL;
    ok(image_store_name(s, "a/b:c", info.digest, &err) == 0 &&
           image_store_resolve(s, "a/b:c", digest, &err) == 0 && !strcmp(digest, info.digest),
       "a name leads to it: %s", err.message);
    ok(image_store_victims(s, 0, always, NULL, &v, &err) == 0 && v && !*v,
       "what is in use is no victim");
    strv_free(v);
    ok(image_store_remove(s, info.digest, &err) == 0 &&
           image_store_resolve(s, "a/b:c", digest, NULL) < 0 &&
           image_store_find(s, info.digest, NULL, &err) < 0 && err.code == ERROR_NOT_FOUND,
       "removed with its name: %s", err.message);
    ok(image_store_remove(s, info.digest, NULL) < 0 && image_store_touch(s, "..", NULL) < 0,
       "a second time there is nothing, and errors need no listener");
    image_store_close(s);
}

static void test_end(void)
{
    struct error err = {0};
    struct image_store *s = NULL;
    _cleanup_image_info_ struct image_info info = {0};
    _cleanup_close_ int dir = fd_enter_dir_at(base_fd, "store", 0700), src = make_source();
    struct count c = {.end_at = 1};
    ok(image_store_open(dir, &s, &err) == 0 && add_image(s, src, &c, &info, &err) < 0 &&
           !info.name && strstr(err.message, "was ended"),
       "a caller who wants no more gets no more: %s", err.message);
    image_store_close(s);
    ok(tmp_is_empty(), "and nothing stays");
}

static void test_below(void)
{
    _cleanup_close_ int dir = fd_enter_dir_at(base_fd, "below", 0755);
    mkdirat(dir, "d", 0755);
    ok(symlinkat("/etc", dir, "abs") == 0 && symlinkat("../..", dir, "up") == 0 &&
           symlinkat("d", dir, "in") == 0 && symlinkat("../../below/d", dir, "d/back") == 0,
       "links in all directions");
    ok(below_open(dir, "abs", O_PATH) == -EXDEV && below_open(dir, "abs/passwd", O_PATH) == -EXDEV,
       "an absolute one is not followed");
    ok(below_open(dir, "up/tmp", O_PATH) == -EXDEV && below_open(dir, "d/back", O_PATH) == -EXDEV &&
           below_open(dir, "..", O_PATH) == -EXDEV,
       "nor one that climbs out, even if it came back");
    _cleanup_close_ int in = below_open(dir, "in", O_PATH | O_DIRECTORY);
    ok(in >= 0 && below_open_plain(dir, "in", O_PATH | O_DIRECTORY) == -ELOOP,
       "one that stays is, where links are allowed");
    ok(below_remove(base_fd, "below") == 0 && access("/etc/passwd", F_OK) == 0,
       "a removal follows none");
}

int main(void)
{
    if (!mkdtemp(base_path) || (base_fd = open(base_path, O_RDONLY | O_DIRECTORY)) < 0)
        return 1;
    test_names();
    test_quotes();
    test_places();
    test_hash();
    test_info();
    test_store();
    test_end();
    test_below();
    below_clear(base_fd);
    rmdir(base_path);
    return tap_done();
}
