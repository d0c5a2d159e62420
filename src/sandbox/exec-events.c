/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox's runner says, and which file hears it. */
#include "sandbox/internal.h"

static void on_open(void *data, uint32_t stream, const struct msg_open *m)
{
    gateway_stream_open(data, stream, m);
}

/* Streams of connections: those from the inside have even numbers, those to it odd ones. */
static int on_data(void *data, uint32_t stream, const struct msg_data *m)
{
    return stream & 1 ? port_stream_on_data(data, stream, m) : gateway_stream_data(data, stream, m);
}

static int on_data_ack(void *data, uint32_t stream, const struct msg_data_ack *m)
{
    if (stream & 1)
        return port_stream_on_ack(data, stream, m);
    gateway_stream_ack(data, stream, m);
    return 0;
}

static int on_data_end(void *data, uint32_t stream, const struct msg_data_end *m)
{
    return port_stream_on_end(data, stream, m);
}

static int on_connected(void *data, uint32_t stream, const struct msg_connected *m)
{
    return port_stream_on_connected(data, stream, m);
}

static void on_close(void *data, uint32_t stream, const struct msg_close *m)
{
    if (stream & 1)
        port_stream_on_close(data, stream);
    else
        gateway_stream_close(data, stream, m);
}

static void on_resumed(void *data)
{
    struct sandbox *sb = sandbox_ref(data); /* what its execs make of it may delete it */
    exec_on_resumed(sb);
    if (sb->runner)
        port_streams_resume(sb);
    sandbox_unref(sb);
}

static void on_lost(void *data, const char *why)
{
    sandbox_lose(data, why);
}

static void on_broken(void *data, const char *why)
{
    sandbox_break(data, why);
}

const struct runner_events exec_runner_events = {
    .on_state = exec_on_state,
    .on_resumed = on_resumed,
    .on_started = exec_on_started,
    .on_spawn_failed = exec_on_spawn_failed,
    .on_output = exec_on_output,
    .on_draining = exec_on_draining,
    .on_exit = exec_on_exit,
    .on_stdin_ack = exec_on_stdin_ack,
    .on_open = on_open,
    .on_data = on_data,
    .on_data_ack = on_data_ack,
    .on_data_end = on_data_end,
    .on_connected = on_connected,
    .on_close = on_close,
    .on_lost = on_lost,
    .on_broken = on_broken,
};
