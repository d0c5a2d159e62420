/* SPDX-License-Identifier: Apache-2.0 */
/* The prompt that tells a model what its sandbox is: where it may write, what limits it meets, what
 * there is not. */
#include "api/api.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "mcp/tools/catalog.h"
#include "mcp/tools/workspace.h"

#define GUIDE_MAX (64 * 1024)

static void put_limits(struct strbuf *b, const struct spec *s, const struct services *o,
                       const struct mcp_config *c)
{
    strbuf_printf(b, "- Runtime: %s.", s->runtime);
    if (s->limits.memory_bytes)
        strbuf_printf(b, " Memory: %llu MB.", (unsigned long long)(s->limits.memory_bytes >> 20));
    if (s->limits.disk_bytes)
        strbuf_printf(b, " Disk: %llu MB.", (unsigned long long)(s->limits.disk_bytes >> 20));
    if (s->limits.cpu_millicores)
        strbuf_printf(b, " CPU: %.2f cores.", (double)s->limits.cpu_millicores / 1000);
    if (s->limits.processes)
        strbuf_printf(b, " Processes: %u.", s->limits.processes);
    strbuf_printf(b,
                  "\n- A command of run_command or run_code is ended after %llu s unless "
                  "timeout_s says otherwise",
                  (unsigned long long)(c->command_timeout_ms / 1000));
    if (o->config.exec_max_timeout_ms)
        strbuf_printf(b, "; nothing runs longer than %llu s",
                      (unsigned long long)(o->config.exec_max_timeout_ms / 1000));
    strbuf_printf(b,
                  ".\n- At most %zu bytes of stdout and of stderr come back at once: head and "
                  "tail. read_output has the rest.\n",
                  c->output_bytes);
}

static void put_rules(struct strbuf *b)
{
    strbuf_puts(
        b,
        "- Commands run as an ordinary user, not root. /workspace (where they start), /tmp, "
        "/cache and /home/sandbox can be written; the rest of the system is read-only.\n"
        "- There is no network unless the operator opened it: package installs and downloads "
        "fail. Work with what is installed, or bring files with upload_file.\n"
        "- Files stay from call to call and are deleted with the session. Bring results out "
        "before it ends: read_file, download_file.\n"
        "- Each command is a new process: 'cd' and 'export' do not carry over. Use cwd and env.\n"
        "- Servers and long work: start_command, then read_output with wait_s, then "
        "stop_command.\n"
        "- A call may be refused by the operator's policy or wait for a person's approval. A "
        "refusal is final: do not look for a way around it, say what was refused.\n"
        "- Everything is recorded.\n");
}

static void handle_guide(struct mcp_call *call)
{
    struct mcp_session *s = mcp_call_session(call);
    const struct services *o = mcp_call_services(call);
    const char *task = json_string_value(json_object_get(mcp_call_arguments(call), "task"));
    struct sandbox *sb = workspace_current(s);
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(GUIDE_MAX);
    strbuf_puts(&b, "You work in a sandbox: a closed Linux environment of this session's own, made "
                    "at the first call. Use its tools (run_command, run_code, read_file, "
                    "write_file, edit_file, list_files, search_files) for everything that runs or "
                    "touches files.\n\n");
    put_limits(&b, sb ? sandbox_spec(sb) : o->default_spec, o, mcp_call_config(call));
    put_rules(&b);
    if (task && strbuf_printf(&b, "\nThe task:\n%s\n", task) < 0)
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS, "'task' is too long");
    else
        mcp_call_finish_prompt(call, "What the sandbox is and what limits it has", b.data);
}

static const struct mcp_prompt_argument guide_arguments[] = {
    {"task", "What is to be done there; put after the explanation.", false},
};

const struct mcp_prompt sandbox_prompts[] = {
    {"sandbox_guide", "How to use the sandbox",
     "Explains the sandbox's tools, limits and rules to a model.", guide_arguments,
     ELEMENTS(guide_arguments), handle_guide, NULL},
};
