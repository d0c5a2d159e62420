/* What the control plane consists of. */
#include "daemon/control.h"

#include <signal.h>

#include "base/log.h"
#include "loop/loop.h"

static void on_sigterm(void *data, int signo)
{
    (void)signo;
    uv_stop(data);
}

static void on_stdin(uv_poll_t *poll, int status, int events)
{
    char sink[4096];
    (void)status;
    (void)events;
    if (read(0, sink, sizeof(sink)) <= 0)
        uv_stop(poll->loop);
}

int control_main(struct control_context *ctx)
{
    struct loop_signal term;
    struct loop_timer hold;
    uv_poll_t input;
    loop_signal_init(&term, ctx->loop, SIGTERM, on_sigterm, ctx->loop);
    loop_timer_init(&hold, ctx->loop, NULL, NULL);
    loop_timer_start(&hold, UINT32_MAX);
    if (ctx->line_mode && uv_poll_init(ctx->loop, &input, 0) == 0)
        uv_poll_start(&input, UV_READABLE, on_stdin);
    log_info("control plane ready listeners=%zu state=%s", ctx->n_listeners, ctx->state_path);
    uv_run(ctx->loop, UV_RUN_DEFAULT);
    return 0;
}
