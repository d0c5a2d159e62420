#include "cli/command.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/args.h"

#define FLAGS_SPEC                                                                                 \
    (FLAG_BIT(RUNTIME) | FLAG_BIT(IMAGE) | FLAG_BIT(LIMIT) | FLAG_BIT(ACCEPT_WEAKER) |             \
     FLAG_BIT(ENV) | FLAG_BIT(FILE) | FLAG_BIT(CWD) | FLAG_BIT(TIMEOUT) | FLAG_BIT(KEEP) |         \
     FLAG_BIT(APPROVAL))

const struct command commands[] = {
    {"run", GROUP_EVERYDAY, "[flags] [--] argv...", "run one command in a new sandbox",
     "Standard input goes to the command, its output comes as it is written, and sbx exits as\n"
     "the command did. Without -addr and $MAS_SANDBOX_URL, and with no daemon at the default\n"
     "address, sbx starts a private one for this command and stops it afterwards.",
     FLAGS_CONNECTION | FLAGS_SPEC, 1, -1, true, cmd_run},
    {"shell", GROUP_EVERYDAY, "[flags] [--] [argv...]", "open a terminal in a sandbox",
     "In a new sandbox, deleted at the end unless -keep is given; or in the one that -id names.",
     FLAGS_CONNECTION | FLAGS_SPEC | FLAG_BIT(ID), 0, -1, true, cmd_shell},
    {"cp", GROUP_EVERYDAY, "[flags] FROM TO", "copy files and directories in or out",
     "One side is local, the other is ID:PATH. A relative PATH is below /workspace. A directory\n"
     "is copied with what is in it; into TO if TO is a directory, else as TO. Local files are\n"
     "written below TO only, whatever links the sandbox's files contain.",
     FLAGS_CONNECTION | FLAG_BIT(APPROVAL), 2, 2, false, cmd_cp},
    {"ls", GROUP_EVERYDAY, "[flags] [ID[:PATH]]", "list sandboxes, or files of one", NULL,
     FLAGS_CONNECTION | FLAG_BIT(RECURSIVE) | FLAG_BIT(JSON) | FLAG_BIT(APPROVAL), 0, 1, false,
     cmd_ls},
    {"logs", GROUP_EVERYDAY, "[-f] -id ID [-exec-id E]", "print the output of an exec",
     "Without -exec-id, of the sandbox's newest.",
     FLAGS_CONNECTION | FLAG_BIT(ID) | FLAG_BIT(EXEC_ID) | FLAG_BIT(FOLLOW) | FLAG_BIT(STREAM_RAW),
     0, 0, false, cmd_logs},
    {"create", GROUP_SANDBOX, "[flags]", "create a sandbox; prints id=... namespace=... pod=...",
     NULL,
     FLAGS_CONNECTION | FLAG_BIT(ID) | FLAG_BIT(IMAGE) | FLAG_BIT(VOLUME) | FLAG_BIT(CACHE_MODE) |
         FLAG_BIT(CACHE_PVC_SIZE) | FLAG_BIT(CACHE_PVC_STORAGE_CLASS) |
         FLAG_BIT(CACHE_PVC_ACCESS_MODE) | FLAG_BIT(ENV) | FLAG_BIT(ALLOW_HOST) |
         FLAG_BIT(DENY_HOST) | FLAG_BIT(CMD),
     0, -1, true, cmd_create},
    {"exec", GROUP_SANDBOX, "-id ID [flags] [--] argv...", "run a command in a sandbox",
     "Starts it and prints exec_id=... status=running, or with -sync, -stream or -stream-raw "
     "waits\n"
     "for it and exits as it did.",
     FLAGS_CONNECTION | FLAG_BIT(ID) | FLAG_BIT(CMD) | FLAG_BIT(TIMEOUT) | FLAG_BIT(SYNC) |
         FLAG_BIT(STREAM) | FLAG_BIT(STREAM_RAW) | FLAG_BIT(APPROVAL),
     0, -1, true, cmd_exec},
    {"status", GROUP_SANDBOX, "[-id ID]", "show one sandbox, or a table of all", NULL,
     FLAGS_CONNECTION | FLAG_BIT(ID), 0, 0, false, cmd_status},
    {"pause", GROUP_SANDBOX, "-id ID", "stop all processes of a sandbox where they are", NULL,
     FLAGS_CONNECTION | FLAG_BIT(ID), 0, 0, false, cmd_pause},
    {"resume", GROUP_SANDBOX, "-id ID", "let a paused sandbox go on", NULL,
     FLAGS_CONNECTION | FLAG_BIT(ID), 0, 0, false, cmd_resume},
    {"delete", GROUP_SANDBOX, "-id ID", "delete a sandbox with all that is in it", NULL,
     FLAGS_CONNECTION | FLAG_BIT(ID), 0, 0, false, cmd_delete},
    {"exec-status", GROUP_SANDBOX, "-id ID -exec-id E", "show how an exec is doing", NULL,
     FLAGS_CONNECTION | FLAG_BIT(ID) | FLAG_BIT(EXEC_ID), 0, 0, false, cmd_exec_status},
    {"exec-cancel", GROUP_SANDBOX, "-id ID -exec-id E", "end an exec", NULL,
     FLAGS_CONNECTION | FLAG_BIT(ID) | FLAG_BIT(EXEC_ID), 0, 0, false, cmd_exec_cancel},
    {"validate", GROUP_HOST, "[flags] [FILE]", "say what a text from outside tries",
     "Of FILE or standard input: instructions to a model, hidden ones too, and characters that do "
     "not\n"
     "show. Exits with 1 when there is more than a little. Advice, not a wall. Needs no daemon.",
     FLAG_BIT(JSON) | FLAG_BIT(SHOW) | FLAG_BIT(STRIP), 0, 1, false, cmd_validate},
    {"image", GROUP_HOST, "pull IMAGE | ls | inspect IMAGE | rm IMAGE | build-from-tar NAME FILE",
     "fetch, make, list and remove images",
     "IMAGE is [registry/]name[:tag][@sha256:digest], 'default', a name that build-from-tar gave, "
     "a\n"
     "digest, or a path that the daemon's images_allow allows: oci:PATH, docker-archive:PATH,\n"
     "oci-archive:PATH, rootfs-tar:PATH, dir:PATH. build-from-tar makes one of a root file "
     "system's\n"
     "tar or of what docker, podman and skopeo save ('-': standard input). rm takes a name away, "
     "and\n"
     "with its last one the image.",
     FLAGS_CONNECTION | FLAG_BIT(FORMAT) | FLAG_BIT(JSON), 1, 3, false, cmd_image},
    {"keys", GROUP_HOST, "add NAME | ls | rm ID | rotate ID", "make, list and end keys",
     "A key's secret is printed once, by add and rotate; the daemon keeps only a hash of it. rm "
     "and\n"
     "rotate end the old secret at once, and what is open in its name. The first key must have "
     "the\n"
     "role admin; make it over the daemon's unix socket, with its token, or while it is stopped\n"
     "with -state-dir.",
     FLAGS_CONNECTION | FLAG_BIT(ROLES) | FLAG_BIT(EXPIRES) | FLAG_BIT(QUOTA) |
         FLAG_BIT(STATE_DIR) | FLAG_BIT(JSON),
     1, 2, false, cmd_keys},
    {"policy", GROUP_HOST,
     "check FILE | test FILE | explain FILE [flags] [-- argv...] | import FILE | status",
     "check, test and explain policy files",
     "Needs no daemon. check reads the file and says where it is wrong; test runs the cases in "
     "it;\n"
     "explain says what would be decided about a command, a shell line (-line), a file (-path,\n"
     "-write), a host or a tool, by which rule, and which other would have decided otherwise;\n"
     "import makes a policy of the permissions in a settings.json of Claude Code and says what it\n"
     "could not translate. status, of a running daemon: its policy, and why it did not take the "
     "file\n"
     "as it is now.",
     FLAGS_CONNECTION | FLAG_BIT(TOOL) | FLAG_BIT(LINE) | FLAG_BIT(PATH) | FLAG_BIT(WRITE) |
         FLAG_BIT(HOST) | FLAG_BIT(KEY) | FLAG_BIT(ROLES) | FLAG_BIT(CWD) | FLAG_BIT(RUNTIME) |
         FLAG_BIT(IMAGE) | FLAG_BIT(JSON),
     1, -1, false, cmd_policy},
    {"audit", GROUP_HOST,
     "verify [FILE] | export | query | tail [-f] | checkpoint | rotate [NAME=VALUE...]",
     "read the audit, and prove that nothing in it was changed",
     "verify proves what the daemon at -addr exports, an exported FILE ('-': standard input), or "
     "the\n"
     "state directory of a daemon that is not running. It says where a record was changed, "
     "removed\n"
     "or moved, and what it could not prove. With -checkpoint it also finds an end that was cut "
     "off.\n"
     "query and tail print records as JSON lines, filtered by NAME=VALUE: since, until, limit, "
     "from,\n"
     "to, kind, key, call, action, sandbox, exec, tool, outcome. export (since=N) prints what "
     "verify\n"
     "takes. checkpoint prints the newest checkpoint, to be kept elsewhere. rotate has another "
     "key\n"
     "sign from here on, which the old key names, and prints its public part.",
     FLAGS_CONNECTION | FLAG_BIT(STATE_DIR) | FLAG_BIT(CHECKPOINT) | FLAG_BIT(AUDIT_KEY) |
         FLAG_BIT(FOLLOW) | FLAG_BIT(JSON),
     1, -1, false, cmd_audit},
    {"mcp", GROUP_HOST, "install claude|cursor|vscode|codex", "make the sandbox known to an agent",
     "Adds the MCP server mas-sandbox to the client's configuration and keeps what else is there.\n"
     "With -addr or $MAS_SANDBOX_URL the client talks to that daemon, with the key in its\n"
     "$MAS_SANDBOX_TOKEN; else it starts a daemon of its own.",
     FLAGS_CONNECTION | FLAG_BIT(PRINT) | FLAG_BIT(OUT), 2, 2, false, cmd_mcp},
    {"hook", GROUP_HOST, "pre-tool-use [-policy FILE]",
     "decide about a tool call of an agent that runs its tools itself",
     "Reads the JSON of a PreToolUse hook of Claude Code and answers allow, ask or deny by the\n"
     "policy. Exits with 2, which blocks the call, when it is denied or anything is wrong.",
     FLAG_BIT(POLICY), 1, 1, false, cmd_hook},
    {"approvals", GROUP_HOST, "list | show ID | approve ID | reject ID | watch",
     "decide what waits for a person",
     "show prints all that would run. approve needs a key with the role approver that is not the\n"
     "one that asked; what is critical needs two of them. watch prints changes until it is ended.",
     FLAGS_CONNECTION | FLAG_BIT(REASON) | FLAG_BIT(STATUS) | FLAG_BIT(SESSION) | FLAG_BIT(JSON), 1,
     2, false, cmd_approvals},
    {"events", GROUP_HOST, "[-since N] [-f] [-type A,B] [-json]", "print what changes in the daemon",
     "Sandboxes, commands, approvals, images, pools, the policy and starts of the daemon, as far as\n"
     "the key may know: number, time, type, object, its owner, and what is known of the change. "
     "-f\n"
     "goes on, also over a restart of the daemon. Numbers only rise; where some are not kept any\n"
     "more, a line says so.",
     FLAGS_CONNECTION | FLAG_BIT(SINCE) | FLAG_BIT(FOLLOW) | FLAG_BIT(TYPE) | FLAG_BIT(JSON), 0, 0,
     false, cmd_events},
    {"doctor", GROUP_HOST, "[-clean] [-json]",
     "say what this host can enforce, and how to get more",
     "With -clean, removes cgroups and files of daemons that were killed.",
     FLAGS_CONNECTION | FLAG_BIT(CLEAN) | FLAG_BIT(JSON), 0, 0, false, cmd_doctor},
    {"upgrade", GROUP_HOST, "", "have the daemon go on with the program that is installed now",
     "Sandboxes and the commands in them go on. Needs the role admin. Where the installed\n"
     "mas-sandboxd cannot take over, nothing changes and sbx says why.",
     FLAGS_CONNECTION, 0, 0, false, cmd_upgrade},
    {"version", GROUP_HOST, "", "print versions of sbx and of the daemon", NULL, FLAGS_CONNECTION,
     0, 0, false, cmd_version},
    {"help", GROUP_HOST, "[COMMAND]", "say how a command is used", NULL, 0, 0, 1, false, cmd_help},
};
const size_t n_commands = ELEMENTS(commands);

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}
