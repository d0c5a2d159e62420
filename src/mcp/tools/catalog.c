/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the sandbox's tools. Descriptions are written for models: what it does, when to use
 * another one, what comes back. */
#include "mcp/tools/catalog.h"

#include "base/alloc.h"
#include "mcp/tools/schema-words.h"
#include "mcp/tools/tools.h"

/* Schemas are written a member per line: the formatter takes the macros and the "," between them
 * for one expression. */
/* clang-format off */

/* --- what commands share */

#define COMMAND_OPTIONS \
    STRING("cwd", "Directory it starts in; the working directory is /workspace.") "," \
    STRINGS("env", "Environment variables.") "," \
    PLACE
#define TIMEOUT \
    NUMBER("timeout_s", "0.001", "86400", \
        "Ends it after so many seconds. Without it: the operator's default, mostly 120.")
#define MAX_OUTPUT \
    INTEGER("max_output_bytes", "256", "1048576", \
        "How much of stdout and of stderr comes back. Over it: head and tail; the rest can be read with read_output.")
#define STDIN STRING("stdin", "Text for its standard input.")

#define EXEC_STATE \
    STRING("exec_id", "Id for read_output, send_input and stop_command.") "," \
    STRING("sandbox_id", "Where it runs.") "," \
    CHOICE("status", "\"running\",\"canceling\",\"completed\",\"failed\",\"canceled\",\"timed_out\",\"oom_killed\"", \
        "completed means that it ended by itself, with any exit code.") "," \
    TYPED("exit_code", "integer", "", "Missing while it runs and where it was killed.") "," \
    COUNT("signal", "The signal that ended it.") "," \
    STRING("error", "Why it failed.")
#define EXEC_TIMES STRING("started_at", "RFC 3339.") "," STRING("finished_at", "RFC 3339.")

#define RESULT_SCHEMA \
    OBJECT( \
        EXEC_STATE "," \
        STRING("stdout", "What it printed; the middle is left out where it is long.") "," \
        STRING("stderr", "The same of its errors.") "," \
        BOOLEAN("truncated", "Output was left out.") "," \
        COUNT("stdout_omitted_bytes", "How much of stdout was left out.") "," \
        COUNT("stderr_omitted_bytes", "How much of stderr was left out.") "," \
        BOOLEAN("background_output_dropped", "A background process still had the output open.") "," \
        TYPED("duration_ms", "number", "", "How long it took.") "," \
        "\"usage\":" OBJECT( \
            COUNT("cpu_ms", "CPU time.") "," \
            COUNT("user_ms", "In user mode.") "," \
            COUNT("system_ms", "In the kernel.") "," \
            COUNT("max_rss_kb", "Peak memory."), \
            ""), \
        "\"exec_id\",\"sandbox_id\",\"status\",\"stdout\",\"stderr\"")

static const char state_schema[] = OBJECT(EXEC_STATE "," EXEC_TIMES, "\"exec_id\",\"status\"");

static const char written_schema[] = OBJECT(
    STRING("path", "The file.") "," COUNT("bytes", "Bytes written."),
    "\"path\",\"bytes\"");

#define SANDBOX_SHOWN \
    STRING("id", "Its id.") "," \
    STRING("image", "Its image, as asked for.") "," \
    STRING("image_digest", "What that was.") "," \
    STRING("state", "READY when it can be used.") "," \
    STRING("runtime", "What isolates it.") "," \
    STRING("created_at", "RFC 3339.") "," \
    STRING("workdir", "Where commands start.") "," \
    STRING("error", "Why it died.") "," \
    BOOLEAN("current", "Calls that name no sandbox work in it.")

#define NETWORK_HOST \
    OBJECT( \
        STRING("host", "A name, *.domain or address.") "," \
        LIST("ports", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535}", "Without them: every port."), \
        "\"host\"")
#define NETWORK \
    "\"network\":{\"type\":\"object\",\"properties\":{" \
    LIST("allow", NETWORK_HOST, "Hosts that its commands may reach.") "," \
    LIST("deny", NETWORK_HOST, "Hosts that they may not, although allow names them.") \
    "},\"additionalProperties\":false,\"description\":\"Without it there is no network. The policy decides on every host.\"}"

static const struct mcp_tool tools_table[] = {
    {
        .name = "run_command",
        .title = "Run a command",
        .description =
            "Runs a shell command line (/bin/sh -c) in the session's sandbox, waits until it "
            "ends, and returns exit code, stdout and stderr. Files stay from call to call; "
            "variables, the current directory and background processes of one call do not. A "
            "non-zero exit code is a normal result: read stderr. There is no network unless the "
            "operator gave it. For servers and for what takes minutes use start_command.",
        .input_schema = OBJECT(
            TYPED("command", "string", "\"minLength\":1,", "The shell command line.") ","
            STDIN ","
            TIMEOUT ","
            MAX_OUTPUT ","
            COMMAND_OPTIONS,
            "\"command\""),
        .output_schema = RESULT_SCHEMA,
        .flags = MCP_DESTRUCTIVE,
        .handle = tool_run_command,
    },
    {
        .name = "run_code",
        .title = "Run code",
        .description =
            "Runs a program given as text, in python, javascript (node), bash or sh, in the "
            "session's sandbox, and returns what run_command returns. Print what you want to "
            "see. Each call is a new process: keep results in files.",
        .input_schema = OBJECT(
            CHOICE("language", "\"python\",\"python3\",\"javascript\",\"node\",\"js\",\"bash\",\"sh\",\"shell\"",
                "The program's language.") ","
            TYPED("code", "string", "\"minLength\":1,", "The program.") ","
            STDIN ","
            TIMEOUT ","
            MAX_OUTPUT ","
            COMMAND_OPTIONS,
            "\"language\",\"code\""),
        .output_schema = RESULT_SCHEMA,
        .flags = MCP_DESTRUCTIVE,
        .handle = tool_run_code,
    },
    {
        .name = "start_command",
        .title = "Start a long command",
        .description =
            "Starts a shell command line and returns at once with an exec_id: for servers, "
            "builds, and programs that want input while they run. read_output follows it, "
            "send_input writes to it, stop_command ends it. It ends with the sandbox.",
        .input_schema = OBJECT(
            TYPED("command", "string", "\"minLength\":1,", "The shell command line.") ","
            TIMEOUT ","
            BOOLEAN("pty", "Gives it a terminal; stderr comes on stdout then.") ","
            COMMAND_OPTIONS,
            "\"command\""),
        .output_schema = state_schema,
        .flags = MCP_DESTRUCTIVE,
        .handle = tool_start_command,
    },
    {
        .name = "read_output",
        .title = "Read a command's output",
        .description =
            "Reads stdout or stderr of a command from a byte offset: what run_command left out, "
            "or what a started command has printed so far. Go on with next_offset until end is "
            "true. wait_s waits for something new, so there is no need to poll.",
        .input_schema = OBJECT(
            EXEC_ID ","
            CHOICE("stream", "\"stdout\",\"stderr\"", "Default stdout.") ","
            COUNT("offset", "First byte to read; default 0.") ","
            INTEGER("max_bytes", "1", "1048576", "Default 16384.") ","
            NUMBER("wait_s", "0", "60", "Waits this long for output after offset, or the end.") ","
            SANDBOX,
            "\"exec_id\""),
        .output_schema = OBJECT(
            EXEC_STATE ","
            STRING("stream", "stdout or stderr.") ","
            STRING("text", "The output.") ","
            COUNT("offset", "Of the first byte of text.") ","
            COUNT("next_offset", "Where to read on.") ","
            COUNT("total_bytes", "Printed so far.") ","
            COUNT("skipped_bytes", "No longer kept, before text.") ","
            BOOLEAN("end", "Nothing more will come."),
            "\"exec_id\",\"status\",\"text\",\"next_offset\",\"end\""),
        .flags = MCP_READ_ONLY | MCP_IDEMPOTENT,
        .handle = tool_read_output,
    },
    {
        .name = "send_input",
        .title = "Send input to a command",
        .description = "Writes text to the standard input of a command that start_command "
                       "started. End a line with a newline. close ends the input.",
        .input_schema = OBJECT(
            EXEC_ID ","
            STRING("text", "What it reads, as it is.") ","
            BOOLEAN("close", "There is no more input after this.") ","
            SANDBOX,
            "\"exec_id\",\"text\""),
        .output_schema = OBJECT(
            EXEC_STATE "," COUNT("unread_bytes", "What the command has not read yet."),
            "\"exec_id\",\"status\""),
        .handle = tool_send_input,
    },
    {
        .name = "stop_command",
        .title = "Stop a command",
        .description =
            "Ends a command with everything it started (SIGTERM, then SIGKILL) and waits until it "
            "has ended. With signal, only sends that signal and returns at once.",
        .input_schema = OBJECT(
            EXEC_ID ","
            STRING("signal", "A name such as INT, HUP or USR1.") ","
            SANDBOX,
            "\"exec_id\""),
        .output_schema = state_schema,
        .flags = MCP_DESTRUCTIVE | MCP_IDEMPOTENT,
        .handle = tool_stop_command,
    },
    {
        .name = "read_file",
        .title = "Read a text file",
        .description = "Returns lines of a text file of the sandbox. Long files come in parts: "
                       "go on with next_line. For binary files use download_file.",
        .input_schema = OBJECT(
            PATH("The file; relative to /workspace.") ","
            INTEGER("start_line", "1", "1000000000", "First line; default 1.") ","
            INTEGER("max_lines", "1", "100000", "Default 2000.") ","
            PLACE,
            "\"path\""),
        .output_schema = OBJECT(
            STRING("path", "The file.") ","
            STRING("text", "The lines.") ","
            COUNT("start_line", "Of text.") ","
            COUNT("end_line", "Last line of text.") ","
            "\"total_lines\":{\"type\":[\"integer\",\"null\"],"
                "\"description\":\"Of the file; null where it is too long to count.\"},"
            COUNT("size", "Of the file in bytes.") ","
            BOOLEAN("truncated", "There is more after text.") ","
            COUNT("next_line", "Where to read on.") ","
            BOOLEAN("lossy", "Bytes that are no UTF-8 were replaced."),
            "\"path\",\"text\",\"start_line\",\"end_line\",\"truncated\""),
        .flags = MCP_READ_ONLY | MCP_IDEMPOTENT,
        .handle = tool_read_file,
    },
    {
        .name = "write_file",
        .title = "Write a text file",
        .description = "Writes a whole text file, making directories as needed; an existing file "
                       "is replaced in one step. To change a part of a file use edit_file.",
        .input_schema = OBJECT(
            PATH("The file; relative to /workspace.") ","
            STRING("content", "All of its text.") ","
            BOOLEAN("append", "Adds to the end instead.") ","
            BOOLEAN("executable", "Makes it a program (mode 755).") ","
            PLACE,
            "\"path\",\"content\""),
        .output_schema = written_schema,
        .flags = MCP_DESTRUCTIVE | MCP_IDEMPOTENT,
        .handle = tool_write_file,
    },
    {
        .name = "edit_file",
        .title = "Edit a text file",
        .description =
            "Replaces old_text by new_text in a file. old_text must be there exactly once, with "
            "the same spaces and line breaks; take enough lines around it to make it unique, or "
            "set replace_all.",
        .input_schema = OBJECT(
            PATH("The file; relative to /workspace.") ","
            TYPED("old_text", "string", "\"minLength\":1,", "Text that is in the file.") ","
            STRING("new_text", "What stands there afterwards; may be empty.") ","
            BOOLEAN("replace_all", "Replaces every occurrence.") ","
            PLACE,
            "\"path\",\"old_text\",\"new_text\""),
        .output_schema = OBJECT(
            STRING("path", "The file.") ","
            COUNT("replacements", "How many were made.") ","
            COUNT("line", "Line of the first one.") ","
            COUNT("size", "Of the file in bytes, afterwards."),
            "\"path\",\"replacements\",\"line\""),
        .flags = MCP_DESTRUCTIVE,
        .handle = tool_edit_file,
    },
    {
        .name = "list_files",
        .title = "List files",
        .description = "Lists a directory of the sandbox: path, type and size of each entry.",
        .input_schema = OBJECT(
            PATH("The directory; default is /workspace.") ","
            BOOLEAN("recursive", "With everything below.") ","
            INTEGER("max_entries", "1", "10000", "Default 500.") ","
            PLACE,
            ""),
        .output_schema = OBJECT(
            STRING("path", "The directory.") ","
            LIST("entries", OBJECT(
                STRING("path", "Its path.") ","
                CHOICE("type", "\"file\",\"directory\",\"symlink\",\"fifo\",\"socket\",\"device\"",
                    "What it is.") ","
                COUNT("size", "In bytes.") ","
                STRING("mode", "Octal.") ","
                STRING("mod_time", "RFC 3339.") ","
                STRING("target", "Where a symlink points."),
                "\"path\",\"type\",\"size\""),
                "In the order of names.") ","
            BOOLEAN("truncated", "There are more."),
            "\"path\",\"entries\",\"truncated\""),
        .flags = MCP_READ_ONLY | MCP_IDEMPOTENT,
        .handle = tool_list_files,
    },
    {
        .name = "search_files",
        .title = "Search in files",
        .description =
            "Finds lines that match a pattern in a file or in all text files below a directory, "
            "like grep -rnE. Returns path, line number and line.",
        .input_schema = OBJECT(
            TYPED("pattern", "string", "\"minLength\":1,\"maxLength\":4096,",
                "POSIX extended regular expression, or plain text with literal.") ","
            PATH("File or directory; default is /workspace.") ","
            TYPED("glob", "string", "\"minLength\":1,\"maxLength\":1024,",
                "Only files with such names, as *.py; with a slash, such paths below path.") ","
            BOOLEAN("literal", "The pattern is plain text.") ","
            BOOLEAN("ignore_case", "Upper and lower case are the same.") ","
            INTEGER("max_matches", "1", "1000", "Default 100.") ","
            PLACE,
            "\"pattern\""),
        .output_schema = OBJECT(
            LIST("matches", OBJECT(
                STRING("path", "The file.") ","
                COUNT("line", "From 1.") ","
                STRING("text", "The line, at most 400 bytes of it."),
                "\"path\",\"line\",\"text\""),
                "In the order of paths.") ","
            COUNT("files_searched", "Files that were looked into.") ","
            BOOLEAN("truncated", "There are more."),
            "\"matches\",\"truncated\""),
        .flags = MCP_READ_ONLY | MCP_IDEMPOTENT,
        .handle = tool_search_files,
    },
    {
        .name = "upload_file",
        .title = "Upload a file",
        .description = "Writes a file of any bytes, given as base64. For text write_file is "
                       "better. Large files: in parts, the later ones with append.",
        .input_schema = OBJECT(
            PATH("The file; relative to /workspace.") ","
            STRING("content_base64", "Its bytes as base64.") ","
            BOOLEAN("append", "Adds to the end instead.") ","
            BOOLEAN("executable", "Makes it a program (mode 755).") ","
            PLACE,
            "\"path\",\"content_base64\""),
        .output_schema = written_schema,
        .flags = MCP_DESTRUCTIVE | MCP_IDEMPOTENT,
        .handle = tool_upload_file,
    },
    {
        .name = "download_file",
        .title = "Download a file",
        .description = "Returns bytes of a file as base64, from an offset. Go on with next_offset "
                       "until end is true. For text read_file is better.",
        .input_schema = OBJECT(
            PATH("The file; relative to /workspace.") ","
            COUNT("offset", "First byte; default 0.") ","
            INTEGER("max_bytes", "1", "1073741824", "At most and by default what the operator allows at once.") ","
            PLACE,
            "\"path\""),
        .output_schema = OBJECT(
            STRING("path", "The file.") ","
            STRING("content_base64", "The bytes.") ","
            COUNT("offset", "Of the first byte.") ","
            COUNT("bytes", "How many.") ","
            COUNT("next_offset", "Where to read on.") ","
            BOOLEAN("end", "That was the end of the file."),
            "\"path\",\"content_base64\",\"next_offset\",\"end\""),
        .flags = MCP_READ_ONLY | MCP_IDEMPOTENT,
        .handle = tool_download_file,
    },
    {
        .name = "create_sandbox",
        .title = "Create a sandbox",
        .description =
            "Makes another sandbox, with a runtime, image, limits or network of its own. Rarely needed: the "
            "session already has one. Calls that name no sandbox work in the new one from then "
            "on, unless make_current is false. It outlives the session until destroy_sandbox, or "
            "until it has been idle for long.",
        .input_schema = OBJECT(
            TYPED("name", "string", "\"minLength\":1,\"maxLength\":63,", "Part of its id: a-z, 0-9 and -.") ","
            STRING("runtime", "What isolates it; list_runtimes shows which there are.") ","
            STRING("image",
                "What its root is made of: a name, reference or digest. Without one, the host's programs.") ","
            NUMBER("cpu_cores", "0.01", "1024", "CPU limit.") ","
            NUMBER("memory_mb", "1", "16777216", "Memory limit.") ","
            NUMBER("disk_mb", "1", "16777216", "Disk limit.") ","
            INTEGER("max_processes", "1", "4194304", "Process limit.") ","
            STRINGS("env", "Environment of all its commands.") ","
            NETWORK ","
            BOOLEAN("make_current", "Default true."),
            ""),
        .output_schema = OBJECT(
            SANDBOX_SHOWN ","
            "\"effective\":{\"type\":\"object\",\"description\":\"Every limit and wall with what enforces it.\"}",
            "\"id\",\"state\",\"runtime\",\"current\""),
        .handle = tool_create_sandbox,
    },
    {
        .name = "list_sandboxes",
        .title = "List sandboxes",
        .description = "Lists the sandboxes of this key, and which one is current.",
        .input_schema = OBJECT("", ""),
        .output_schema = OBJECT(
            LIST("sandboxes", OBJECT(SANDBOX_SHOWN, "\"id\",\"state\",\"runtime\",\"current\""),
                "In the order of ids.") ","
            BOOLEAN("truncated", "There are more."),
            "\"sandboxes\",\"truncated\""),
        .flags = MCP_READ_ONLY | MCP_IDEMPOTENT,
        .handle = tool_list_sandboxes,
    },
    {
        .name = "destroy_sandbox",
        .title = "Destroy a sandbox",
        .description = "Deletes a sandbox with its files and commands, for good. \"current\" is "
                       "the session's; the next call makes a new one then.",
        .input_schema = OBJECT(
            TYPED("sandbox", "string", "\"minLength\":1,\"maxLength\":128,", "Its id, or current."),
            "\"sandbox\""),
        .output_schema = OBJECT(STRING("id", "Its id.") "," BOOLEAN("deleted", "It is gone."), "\"id\",\"deleted\""),
        .flags = MCP_DESTRUCTIVE | MCP_IDEMPOTENT,
        .handle = tool_destroy_sandbox,
    },
    {
        .name = "list_runtimes",
        .title = "List runtimes",
        .description = "Lists what can isolate a sandbox on this host, for create_sandbox.",
        .input_schema = OBJECT("", ""),
        .output_schema = OBJECT(
            STRING("default", "What a sandbox gets that asks for none.") ","
            LIST("runtimes", OBJECT(
                STRING("name", "For create_sandbox.") ","
                STRING("summary", "What it is.") ","
                BOOLEAN("available", "It works on this host.") ","
                STRING("why", "Why it does not, or what it lacks."),
                "\"name\",\"summary\",\"available\""),
                "All of this build."),
            "\"default\",\"runtimes\""),
        .flags = MCP_READ_ONLY | MCP_IDEMPOTENT,
        .handle = tool_list_runtimes,
    },
};
/* clang-format on */

const struct mcp_catalog mcp_sandbox_catalog = {
    .tools = tools_table,
    .n_tools = ELEMENTS(tools_table),
    .resources = sandbox_resources,
    .n_resources = 1,
    .prompts = sandbox_prompts,
    .n_prompts = 1,
    .instructions =
        "Tools that run in a sandbox of this session's own: a closed Linux environment with files "
        "in /workspace, made at the first call and deleted with the session. There is no network "
        "unless the operator opened it. Use run_command or run_code to run something, read_file, "
        "write_file and edit_file for files, start_command with read_output for what takes long. "
        "Results say what to do next when something fails. What the operator's policy refuses is "
        "refused for good; some calls wait for a person's approval.",
};
