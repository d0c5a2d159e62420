/* SPDX-License-Identifier: Apache-2.0 */
/* Images: from what a registry, a file or a directory holds to one root file system.
 *
 * Everything read here is hostile: archives, JSON, names, sizes. Nothing is written but below the
 * work directory that the caller opens, no link of an image is followed out of its root, and every
 * amount has a limit with a name. A failure names the entry or blob that it is about. All functions
 * block; they are for workers of the image keeper, for tests and for fuzzers.
 *
 * An image_from_*() call makes "rootfs" in the work directory and fills struct image_info; the
 * store (image/store.h) then makes both visible as a whole. Where the work directory is -1 it
 * unpacks nothing, but reads and hashes all that the digest stands for, and fills everything except
 * the counts: a caller that lets another process unpack asks so for what that process must not be
 * asked. Directories have no such form, nor docker-archives but by their parts. Owners are squashed
 * to the three ids that a sandbox has: 0, 1000 and 65534 stay, every other becomes 0. As root of a
 * user namespace that maps the three (with CAP_CHOWN, CAP_FOWNER, CAP_DAC_OVERRIDE) files get those
 * owners; any other process leaves all to itself, and its directories get u+rwx. setuid, setgid and
 * every extended attribute but user.* are dropped (user.overlay.* too: overlayfs would obey them).
 * Device nodes are left out below /dev and refused elsewhere; fifos and sockets are left out.
 *
 * A root file system may hold any symlink, also absolute and dangling ones: code that mounts or
 * opens something in it has to resolve with RESOLVE_IN_ROOT or refuse links. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define IMAGE_DIGEST_SIZE 65 /* 64 lower-case hex digits and a NUL */
#define IMAGE_DEPTH_MAX                                                                            \
    512 /* what limits.depth may be at most: walks hold a descriptor a level                       \
         */

/* One is refused with ERROR_TOO_LARGE, naming the limit by its configuration key. */
struct image_limits {
    uint64_t bytes;       /* images_max_unpacked_bytes: what the files take, in blocks of 4 KiB */
    uint64_t files;       /* images_max_files: entries of all layers, made parents included */
    uint64_t path_bytes;  /* images_max_path_bytes: one entry's name, or a link's target */
    uint64_t depth;       /* images_max_depth: directories above an entry */
    uint64_t layers;      /* images_max_layers */
    uint64_t layer_bytes; /* images_max_layer_bytes: one layer or archive as it comes, compressed */
    uint64_t ratio;       /* images_max_ratio: unpacked to compressed, past the first 64 MiB */
};

#define IMAGE_LIMITS_DEFAULT                                                                       \
    (struct image_limits)                                                                          \
    {                                                                                              \
        .bytes = 8ull << 30, .files = 500000, .path_bytes = 4095, .depth = 128, .layers = 128,     \
        .layer_bytes = 4ull << 30, .ratio = 200                                                    \
    }

struct image_progress {
    const char *step;     /* "verify", "unpack", "copy" */
    size_t layer, layers; /* from 1; 0 of 0 where there are none */
    uint64_t done_bytes;  /* of this step and layer, as they come (compressed) */
    uint64_t total_bytes; /* 0 if it is not known */
    uint64_t files;       /* entries so far, of all layers */
};

struct image_options {
    struct image_limits limits;
    /* Called now and then, at least once a second of work. Anything but 0 ends the work with
     * ECANCELED. May be NULL. */
    int (*on_progress)(void *arg, const struct image_progress *p);
    /* Called before so many bytes are written, when all of the call before are. Anything but 0 ends
     * the work with ERROR_NO_SPACE. May be NULL. */
    int (*on_claim)(void *arg, uint64_t bytes);
    void *arg;
};

/* What is known of an image. Strings are never NULL after success; vectors end with NULL. */
struct image_info {
    char digest[IMAGE_DIGEST_SIZE];
    char *name;          /* the reference it was first asked for as; "" until the caller sets it */
    uint64_t size_bytes; /* what its files take, in blocks of 4 KiB */
    uint64_t files;      /* entries unpacked */
    uint64_t skipped;    /* entries left out: device nodes below /dev, fifos, sockets */
    int64_t created_ns;  /* when it was put into the store, real clock */
    int64_t last_use_ns; /* from the store only */
    char **env;          /* NAME=VALUE */
    char *workdir;       /* absolute and clean, or "" */
    char *user;          /* as the image says; nothing obeys it */
    char **cmd;          /* entrypoint and command; nothing obeys it */
    char **layers;       /* diff ids, hex; a tar's own digest; empty for directories */
};

void image_info_done(struct image_info *info); /* frees the contents; a zeroed one is fine */
#define _cleanup_image_info_ __attribute__((cleanup(image_info_done)))

/* Whether text is 64 lower-case hex digits. */
bool image_digest_is_valid(const char *text);

/* Unpacks one layer (plain, gzip, zstd or xz tar) over what is in rootfs_fd, whiteouts and opaque
 * markers applied to what lower layers left. files and bytes of *info grow and count against the
 * limits, so that they hold over all layers. ret_diff_id (may be NULL): the hash of the tar. */
int image_unpack_layer(int rootfs_fd, int tar_fd, const struct image_options *o,
                       struct image_info *info, char ret_diff_id[IMAGE_DIGEST_SIZE],
                       struct error *err);

/* An OCI image layout. ref: the annotation org.opencontainers.image.ref.name or "sha256:HEX" of a
 * manifest; NULL where only one image for this machine is there. Every blob is verified, size and
 * sha256, before a byte of it is parsed or unpacked, and again while it is unpacked. */
int image_from_layout(int layout_fd, const char *ref, int work_fd, const struct image_options *o,
                      struct image_info *ret, struct error *err);
/* What `skopeo copy ... dir:PATH` writes: manifest.json and blobs by their digest beside it. It
 * leaves manifests as the registry has them, so that the digest is the registry's. */
int image_from_skopeo_dir(int dir_fd, int work_fd, const struct image_options *o,
                          struct image_info *ret, struct error *err);
/* `docker save` and `podman save`, also compressed. ref: one of its RepoTags, or NULL for the only
 * image. The digest is the configuration's; layers are verified by its diff ids. */
int image_from_docker_archive(int tar_fd, const char *ref, int work_fd,
                              const struct image_options *o, struct image_info *ret,
                              struct error *err);
/* The same in two steps. The first makes of the archive its parts: the configuration, and the
 * layers as plain tars "0", "1", ... The second makes the image of these; every byte of them is
 * verified. */
#define IMAGE_PARTS_CONFIG "config"
int image_take_apart(int tar_fd, const char *ref, int parts_fd, const struct image_options *o,
                     struct error *err);
int image_from_parts(int parts_fd, int work_fd, const struct image_options *o,
                     struct image_info *ret, struct error *err);
/* A root file system as a tar (plain, gzip, zstd, xz), from a file or a pipe. The digest is of the
 * bytes as they come. It is one layer: a name that starts with ".wh." is a whiteout here too. */
int image_from_rootfs_tar(int tar_fd, int work_fd, const struct image_options *o,
                          struct image_info *ret, struct error *err);
/* A copy of a directory. Links are copied, not followed; other file systems mounted in it are left
 * empty. The digest is that of the copy (image/tree.h). */
int image_from_dir(int dir_fd, int work_fd, const struct image_options *o, struct image_info *ret,
                   struct error *err);
