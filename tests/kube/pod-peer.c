/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's end of one connection to a runner in a pod: runs a shell command there and
 * prints what it printed. Usage: pod-peer FD GENERATION SCRIPT; ends with the command's exit code,
 * or 99 where the runner did not answer. */
#include <stdio.h>

#include "tests/unit/runner-peer.h"

#define NO_ANSWER 99

int main(int argc, char **argv)
{
    if (argc != 4)
        return NO_ANSWER;
    struct peer p = {.fd = atoi(argv[1]), .channel = -1};
    /* Streams and requests are never used twice, and each run of this program begins anew. */
    p.next_stream = 2 * (uint32_t)getpid() + 1;
    p.next_request = (uint64_t)clock_mono_ns();
    strbuf_init(&p.in, 1 << 20);
    strbuf_init(&p.out, 8 << 20);
    signal(SIGPIPE, SIG_IGN);
    peer_hello(&p, strtoull(argv[2], NULL, 10));
    if (!peer_wait(&p, p.hello_ok)) {
        fprintf(stderr, "no HELLO_OK: %s\n", p.goodbye_text);
        return NO_ANSWER;
    }
    struct peer_exec *e = peer_shell(&p, argv[3]);
    fwrite(e->out[0].data, 1, e->out[0].len, stdout);
    fwrite(e->out[1].data, 1, e->out[1].len, stderr);
    if (e->failed)
        fprintf(stderr, "%s: %s\n", e->stage, strerror(e->error));
    if (e->exited)
        peer_forget(&p, e);
    return e->exited && WIFEXITED(e->exit.wait_status) ? WEXITSTATUS(e->exit.wait_status)
                                                       : NO_ANSWER;
}
