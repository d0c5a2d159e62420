/* SPDX-License-Identifier: Apache-2.0 */
/* The broker's own key, by which links know it. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "kube/direct.h"

#define KEY_FILE_MAX 8192

static EVP_PKEY *key_read(const char *path, struct error *err)
{
    struct stat st;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(KEY_FILE_MAX);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID, errno, "the key '%s'",
                  path);
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_mode & 077) {
        error_set(err, ERROR_INVALID, 0, "the key '%s': only its owner may read it", path);
        return NULL;
    }
    int r = fd_read_all(fd, &text);
    BIO *bio = r == 0 && text.len ? BIO_new_mem_buf(text.data, (int)text.len) : NULL;
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)(uintptr_t) "") : NULL;
    BIO_free(bio);
    if (text.data)
        explicit_bzero(text.data, text.len);
    char curve[32] = "";
    if (key && EVP_PKEY_get_group_name(key, curve, sizeof(curve), NULL) == 1 &&
        strcmp(curve, SN_X9_62_prime256v1) == 0)
        return key;
    EVP_PKEY_free(key);
    error_set(err, ERROR_INVALID, 0, "the key '%s' is not a key of the curve P-256 in PEM", path);
    return NULL;
}

static int sync_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    _cleanup_free_ char *dir = !slash          ? xstrdup(".")
                               : slash == path ? xstrdup("/")
                                               : xasprintf("%.*s", (int)(slash - path), path);
    _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

/* Written under another name first: a key that is half there would never be replaced. A file that
 * has that name already is of a broker that was killed, or is open elsewhere: it is not written to,
 * whatever its mode. */
static int key_write(const char *path, EVP_PKEY *key)
{
    _cleanup_free_ char *fresh = xasprintf("%s.new", path);
    unlink(fresh);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        int r = -errno;
        fd_close(&fd);
        return r;
    }
    bool good = PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1 && fflush(f) == 0 &&
                fsync(fd) == 0;
    good &= fclose(f) == 0;
    if (good && rename(fresh, path) == 0)
        return sync_dir_of(path);
    int r = -errno;
    unlink(fresh);
    return r < 0 ? r : -EIO;
}

static EVP_PKEY *key_make(const char *path, struct error *err)
{
    EVP_PKEY *key = pin_key_new();
    int r = key ? key_write(path, key) : -ENOTRECOVERABLE;
    if (r == 0)
        return key;
    EVP_PKEY_free(key);
    error_set(err, ERROR_INVALID, -r, "make the key '%s'", path);
    return NULL;
}

int kube_identity_load(struct kube_identity *ret, const char *path, struct error *err)
{
    uint8_t pin[PIN_SIZE];
    EVP_PKEY *key = key_read(path, err);
    if (!key && err->code == ERROR_NOT_FOUND) {
        *err = (struct error){0};
        key = key_make(path, err);
    }
    if (!key)
        return -1;
    ret->context = pin_context_new(key, false);
    bool good = ret->context && pin_of_key(key, pin);
    EVP_PKEY_free(key);
    if (!good) {
        kube_identity_done(ret);
        return error_set(err, ERROR_INVALID, 0, "the key '%s' cannot be used", path);
    }
    pin_format(pin, ret->pin_text);
    return 0;
}

void kube_identity_done(struct kube_identity *i)
{
    SSL_CTX_free(i->context);
    *i = (struct kube_identity){0};
}
