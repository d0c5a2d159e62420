/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for a mas-sandboxd that cannot take over, for test-upgrade.py: what it does, STUB says.
 * MUTE never answers the warden's question. The others answer as one that can take over; as a
 * control plane, LEAVES says at once that it made way, and SLOW never says anything. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/handover.h"

enum stub { MUTE, LEAVES, SLOW };

int main(int argc, char **argv)
{
    const char *stage = argc == 2 ? argv[1] : "";
    if (STUB != MUTE && strcmp(stage, HANDOVER_PROBE_FLAG) == 0)
        return dprintf(PROBE_ANSWER, PROBE_ANSWER_FORMAT, "0.9.9", PROTOCOL_MAJOR, PROTOCOL_MINOR) <
               0;
    if (STUB == LEAVES && strcmp(stage, HANDOVER_CONTROL_FLAG) == 0)
        return CONTROL_EXIT_LEFT;
    for (;;)
        pause();
}
