/* SPDX-License-Identifier: Apache-2.0 */
/* The output streams of a command, by the numbers that they have in messages, journals and answers:
 * those of their descriptors. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum output_stream { OUTPUT_STDOUT = 1, OUTPUT_STDERR = 2 };

#define OUTPUT_STREAMS 2

static inline bool output_is_stream(uint8_t stream)
{
    return stream == OUTPUT_STDOUT || stream == OUTPUT_STDERR;
}
/* Its place in an array of OUTPUT_STREAMS. */
static inline size_t output_index(uint8_t stream)
{
    return (size_t)stream - OUTPUT_STDOUT;
}
static inline const char *output_name(uint8_t stream)
{
    return stream == OUTPUT_STDOUT ? "stdout" : "stderr";
}
