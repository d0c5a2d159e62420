/* SPDX-License-Identifier: Apache-2.0 */
/* What a place of a sandbox is kept on, in the words of the sbx API and of Kubernetes. Runtimes
 * other than a cluster's have empty directories alone (runtime_ops.has_volumes). */
#pragma once

#include <stdint.h>

#define VOLUME_CLASS_SIZE 64

enum volume_mode {
    VOLUME_EMPTY, /* a directory of its own, empty at the start */
    VOLUME_HOST,  /* a directory of the host that it runs on, which the operator has named */
    VOLUME_CLAIM, /* a claim of its own for a volume of the cluster */
    _VOLUME_MODE_MAX,
};

enum volume_access {
    VOLUME_READ_WRITE_ONCE,
    VOLUME_READ_WRITE_ONCE_POD,
    VOLUME_READ_WRITE_MANY,
    _VOLUME_ACCESS_MAX,
};

struct volume {
    enum volume_mode mode;
    enum volume_access access; /* of a claim, as are those below */
    uint64_t bytes;
    char storage_class[VOLUME_CLASS_SIZE]; /* "": the cluster's own */
};

/* "emptydir", "hostpath", "pvc"; -1 for any other word. */
int volume_mode_parse(const char *word);
const char *volume_mode_name(enum volume_mode mode);
/* As Kubernetes writes them: "ReadWriteOnce" and so on; -1 for any other word. */
int volume_access_parse(const char *word);
const char *volume_access_name(enum volume_access access);
/* A quantity of bytes as Kubernetes writes one: "5Gi", "500M", "1.5Gi". -EINVAL, or -ERANGE where
 * it is below one byte or above 1 PiB. */
int volume_size_parse(const char *text, uint64_t *ret_bytes);
