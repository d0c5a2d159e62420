/* SPDX-License-Identifier: Apache-2.0 */
/* Files whose content was approved: the program itself, and a script that an interpreter is to run.
 *
 * At the start each one is copied into a sealed memory file while it is hashed; if that is what was
 * approved, the command runs from the copy (/proc/self/fd/N), which nothing in the sandbox can
 * change any more. pin_seal() runs in a child that shares the runner's memory: system calls only.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"

#define PINS_MAX      4
#define PIN_BYTES_MAX (16 * 1024 * 1024) /* PID 1 waits while it is copied */
#define PIN_PATH_SIZE 32

struct pin {
    size_t arg; /* index in argv */
    uint8_t digest[SHA256_SIZE];
};

/* "ARG:HEX ARG:HEX"; how many, or -EINVAL. */
int pins_parse(const char *text, size_t argc, struct pin ret[PINS_MAX]);
/* The path of the sealed copy, or -errno: -EBADMSG when the content is another one. */
int pin_seal(const char *path, const struct pin *pin, char ret[PIN_PATH_SIZE]);
