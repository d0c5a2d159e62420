/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for the commands of one sandbox, as its runner knows them: odd, 32 bits, the upper 11
 * from the control plane's generation, so that those of one control plane do not meet those of
 * another. Both parts come round: after 2^20 commands, and after 2048 generations. From then on a
 * number that a command still has is passed over, because a runner takes a number twice for a
 * broken peer, and what it says of the one would be taken for the other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct stream_numbers {
    uint32_t first, next;
    bool meet; /* numbers may have been given before */
};

void stream_numbers_init(struct stream_numbers *s, uint64_t generation);
/* taken() says of a number whether a command has it; fewer have than there are numbers. */
uint32_t stream_numbers_take(struct stream_numbers *s, bool (*taken)(void *data, uint32_t number),
                             void *data);
