/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's runner says, and which file hears it. */
#include "sandbox/internal.h"

static void on_open(void *data, uint32_t stream, const struct msg_open *m)
{
    gateway_stream_open(data, stream, m);
}

static int on_data(void *data, uint32_t stream, const struct msg_data *m)
{
    return gateway_stream_data(data, stream, m);
}

static void on_data_ack(void *data, uint32_t stream, const struct msg_data_ack *m)
{
    gateway_stream_ack(data, stream, m);
}

static void on_close(void *data, uint32_t stream)
{
    gateway_stream_close(data, stream);
}

static void on_broken(void *data, const char *why)
{
    sandbox_break(data, why);
}

const struct runner_events exec_runner_events = {
    .on_state = exec_on_state,
    .on_resumed = exec_on_resumed,
    .on_started = exec_on_started,
    .on_spawn_failed = exec_on_spawn_failed,
    .on_output = exec_on_output,
    .on_draining = exec_on_draining,
    .on_exit = exec_on_exit,
    .on_stdin_ack = exec_on_stdin_ack,
    .on_open = on_open,
    .on_data = on_data,
    .on_data_ack = on_data_ack,
    .on_close = on_close,
    .on_broken = on_broken,
};
