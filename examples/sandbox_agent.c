/* SPDX-License-Identifier: Apache-2.0 */
/* An agent in its smallest form: it has one question, turns it into one tool call, and lets a
 * sandbox answer. MAS_SANDBOX_MODE, MAS_SANDBOX_URL, MAS_SANDBOX_TOKEN and MAS_SANDBOXD choose
 * where the call runs (sandbox_agent(1)). Exits 0 only if the answer is right. */
#include <sbx.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUESTION "Compute 15 * 8 + 7"
#define TOOL     "calculator"
#define ARGS     "{\"expression\":\"15 * 8 + 7\"}"
#define ANSWER   127

/* The number behind "result": in the tool's JSON result. */
static int read_number(const char *json, double *ret)
{
    const char *p = strstr(json, "\"result\":");
    if (!p)
        return -1;
    char *end;
    *ret = strtod(p + strlen("\"result\":"), &end);
    return end == p + strlen("\"result\":") ? -1 : 0;
}

static const char *where(void)
{
    const char *mode = getenv("MAS_SANDBOX_MODE"), *url = getenv("MAS_SANDBOX_URL");
    if (!mode || strcmp(mode, "http") != 0)
        return "a local daemon";
    return url && *url ? url : SBX_DEFAULT_ADDRESS;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        int help = strcmp(argv[1], "--help") == 0;
        fputs("usage: sandbox_agent [--help]   (see sandbox_agent(1))\n", help ? stdout : stderr);
        return help ? 0 : 2;
    }
    struct sbx_tool_call call = {.id = "call-1", .tool = TOOL, .args = ARGS};
    struct sbx_tool_result result;
    struct sbx_error err;

    printf("question:  %s\n", QUESTION);
    printf("tool call: %s %s (through %s)\n", TOOL, ARGS, where());
    fflush(stdout);
    if (sbx_tool_execute_env(&call, &result, &err) < 0) {
        fprintf(stderr, "sandbox_agent: %s (%s)\n", err.message, err.code);
        return 1;
    }
    double number = 0;
    int right =
        result.ok && result.result && read_number(result.result, &number) == 0 && number == ANSWER;
    if (result.ok)
        printf("result:    %s\n", result.result ? result.result : "none");
    else
        printf("result:    failed (exit code %d): %s\n", result.exit_code,
               result.error_message ? result.error_message : "no reason given");
    if (right)
        printf("answer:    %d\n", ANSWER);
    sbx_tool_result_done(&result);
    return right ? 0 : 1;
}
