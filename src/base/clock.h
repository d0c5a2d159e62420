/* SPDX-License-Identifier: Apache-2.0 */
/* Time: monotonic for waits, real for what people read. Durations as Go writes them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int64_t clock_mono_ns(void);
int64_t clock_mono_ms(void);
int64_t clock_real_ns(void);
/* For what expires: the real clock, but never less than it was, and never slower than the monotonic
 * one, however the real one is set. Of the loop's thread only. */
int64_t clock_seen_ns(void);
void clock_seen_raise(int64_t real_ns); /* what an earlier process has seen */
/* For tests: "SECONDS:AFTER_MS". From then on the real clock of this process is that much ahead, as
 * if an operator had set it. NULL is fine. */
void clock_arm_jump(const char *text);

uint64_t clock_ms_up(int64_t ns); /* of a duration, rounded up; 0 for none */

#define CLOCK_RFC3339_SIZE 40
/* "2026-01-02T03:04:05.123456789Z"; trailing zeros of the fraction are dropped as Go does. */
void clock_format_rfc3339(int64_t real_ns, char out[CLOCK_RFC3339_SIZE]);

#define CLOCK_DURATION_SIZE 40
/* "0s", "850µs", "1.2ms", "3s", "1h30m0s". */
void clock_format_duration(int64_t ns, char out[CLOCK_DURATION_SIZE]);
/* Accepts "1h30m", "1.5s", "250ms", "0". -EINVAL on anything else, -ERANGE past 64 bits. */
int clock_parse_duration(const char *text, int64_t *ret_ns);
