/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of an engine's answers: versions, kinds, ids, processes, ends, and what a sweep
 * takes away. */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "engine/engine.h"
#include "tests/unit/engine-server.h"
#include "tests/unit/tap.h"

#define PATIENT_MS 20000
#define SET(...)                                                                                   \
    do {                                                                                           \
        static const char *const answers[] = {__VA_ARGS__, NULL};                                  \
        server_set(&server, answers, NULL);                                                        \
    } while (0)
#define PING(headers) ANSWER_HEAD("200 OK") headers "\r\nOK"
#define DOCKER_VERSION                                                                             \
    OK("{\"Version\":\"20.10.24\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\","             \
       "\"Components\":[{\"Name\":\"Engine\"}]}")
#define PODMAN_41                                                                                  \
    "\"ApiVersion\":\"1.41\",\"Components\":[{\"Name\":\"Podman Engine\",\"Details\":{"            \
    "\"APIVersion\":\"4.3.1\"}}]}"
#define INSTANCE "0123456789abcdef0123456789abcdef"
#define HEX      "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"

#define LABELS(i, d, s)                                                                            \
    "{\"" LABEL_INSTANCE "\":\"" i "\",\"" LABEL_ID "\":\"" d "\",\"" LABEL_STATE "\":\"" s "\"}"
/* A container of ours, with more members. */
#define OURS(more)                                                                                 \
    "{\"Id\":\"" HEX "f\",\"Config\":{\"Labels\":" LABELS(INSTANCE, "sbx-1", "/x") "}," more "}"

static struct engine_server server;

static struct engine engine_new(uint32_t backend)
{
    struct engine e = {.pidfd = -1, .api = "/v1.41", .libpod = "/v4.0.0/libpod"};
    e.order.backend = backend;
    e.order.runner_id = 100000;
    e.order.tool_id = 101000;
    e.order.nobody_id = 165534;
    snprintf(e.order.instance, sizeof(e.order.instance), INSTANCE);
    snprintf(e.order.dir, sizeof(e.order.dir), "%s", server.dir);
    snprintf(e.order.id, sizeof(e.order.id), "sbx-1");
    snprintf(e.name, sizeof(e.name), "mas-sandbox-01234567-sbx-1");
    rest_open(&e.rest, server.path, PATIENT_MS);
    return e;
}

static void engine_done(struct engine *e)
{
    fd_close(&e->pidfd);
}

/* --- versions */

static void test_version(void)
{
    static const struct {
        uint32_t backend;
        const char *body, *api, *why; /* why: a part of it, where api is NULL */
    } all[] = {
#define VERSION(api, least, component)                                                             \
    "{\"Version\":\"9\",\"ApiVersion\":\"" api "\",\"MinAPIVersion\":\"" least                     \
    "\",\"Components\":[" component "]}"
#define DOCKER    "{\"Name\":\"Engine\"}"
#define PODMAN(v) "{\"Name\":\"Podman Engine\",\"Details\":{\"APIVersion\":\"" v "\"}}"
        {OCI_DOCKER, VERSION("1.41", "1.12", DOCKER), "/v1.41", NULL},
        {OCI_DOCKER, VERSION("1.40", "1.12", DOCKER), "/v1.40", NULL},
        {OCI_DOCKER, VERSION("1.99", "1.24", DOCKER), "/v1.43", NULL},
        {OCI_DOCKER, VERSION("1.43", "", DOCKER), "/v1.43", NULL},
        {OCI_DOCKER, VERSION("1.39", "1.12", DOCKER), NULL, "too old"},
        {OCI_DOCKER, VERSION("2.0", "1.12", DOCKER), NULL, "API 2.0"},
        {OCI_DOCKER, VERSION("1.60", "1.44", DOCKER), NULL, "more than is known"},
        {OCI_DOCKER, VERSION("1.60", "2.0", DOCKER), NULL, "more than is known"},
        {OCI_DOCKER, VERSION("", "1.12", DOCKER), NULL, "names no API version"},
        {OCI_DOCKER, VERSION("1", "1.12", DOCKER), NULL, "names no API version"},
        {OCI_DOCKER, VERSION("1.", "1.12", DOCKER), NULL, "names no API version"},
        {OCI_DOCKER, VERSION("-1.41", "1.12", DOCKER), NULL, "names no API version"},
        {OCI_DOCKER, VERSION(" 1.41", "1.12", DOCKER), NULL, "names no API version"},
        {OCI_DOCKER, VERSION("1.4294967337", "1.12", DOCKER), NULL, "names no API version"},
        {OCI_DOCKER, VERSION("1.41", "1.12", ""), NULL, "not a container engine that is known"},
        {OCI_DOCKER, VERSION("1.41", "1.12", "7,null,[],{\"Name\":{}}"), NULL,
         "not a container engine"},
        {OCI_DOCKER, VERSION("1.41", "1.12", PODMAN("4.3.1")), NULL, "is podman"},
        {OCI_PODMAN, VERSION("1.41", "1.24", PODMAN("4.3.1")), "/v1.41", NULL},
        {OCI_PODMAN, VERSION("1.41", "1.24", PODMAN("5.0.0") "," DOCKER), "/v1.41", NULL},
        {OCI_PODMAN, VERSION("1.41", "1.24", DOCKER), NULL, "is docker"},
        {OCI_PODMAN, VERSION("1.41", "1.24", PODMAN("3.4.2")), NULL, "podman 3.4.2 is too old"},
        {OCI_PODMAN, VERSION("1.41", "1.24", PODMAN("what")), NULL, "too old"},
        {OCI_PODMAN, VERSION("1.41", "1.24", "{\"Name\":\"Podman Engine\"}"), NULL, "too old"},
        {OCI_DOCKER, "[]", NULL, "not a container engine"},
        {OCI_DOCKER, "{}", NULL, "not a container engine"},
        {OCI_DOCKER, "{\"Components\":\"none\",\"ApiVersion\":1.41}", NULL,
         "not a container engine"},
    };
    for (size_t i = 0; i < ELEMENTS(all); i++) {
        char bytes[512];
        const char *const answers[] = {bytes, NULL};
        struct engine e = engine_new(all[i].backend);
        snprintf(bytes, sizeof(bytes), OK("%s"), all[i].body);
        server_set(&server, answers, NULL);
        int r = api_ask_version(&e);
        if (all[i].api)
            ok(r == 0 && !strcmp(e.api, all[i].api), "%s: %s %s", all[i].body, e.api, e.rest.why);
        else
            ok(r == -EPROTO && strstr(e.rest.why, all[i].why), "%s: %s", all[i].body, e.rest.why);
        engine_done(&e);
    }
    struct engine e = engine_new(OCI_DOCKER);
    SET(OK(
        "{\"Version\":\"1\\\"\\n\\u001b 2\xc3\xa4\",\"ApiVersion\":\"1.41\",\"Components\":[" DOCKER
        "]}"));
    ok(api_ask_version(&e) == 0 && !strcmp(e.version, "1????2??"), "a version for a terminal: %s",
       e.version);
    engine_done(&e);
}

static void test_connect(void)
{
    struct engine e = engine_new(OCI_DOCKER);
    SET(PING("Api-Version: 1.41\r\n"));
    ok(api_connect(&e) == 0 && !strcmp(e.api, "/v1.41") && !*server_request(&server, 1),
       "the head of a ping is enough");
    SET(PING("Api-Version: 1.99\r\n"));
    ok(api_connect(&e) == 0 && !strcmp(e.api, "/v1.43"), "one that knows more");
    SET(PING("Api-Version: 1.2\r\n"), DOCKER_VERSION);
    ok(api_connect(&e) == 0 && server_was_asked(&server, 1, "GET /version"),
       "one that needs words");
    SET(PING("Api-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\n"), DOCKER_VERSION);
    ok(api_connect(&e) == 0 && server_was_asked(&server, 1, "GET /version"), "another kind");
    SET(ANSWER("500 Oops", "{\"message\":\"no\"}"), ANSWER("500 Oops", "{}"));
    ok(api_connect(&e) == -EPROTO && strstr(e.rest.why, "status 500"), "one that is ill");
    engine_done(&e);
    e = engine_new(OCI_PODMAN);
    SET(PING("Api-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\n"));
    ok(api_connect(&e) == 0 && !strcmp(e.libpod, "/v4.0.0/libpod"), "podman's own version");
    SET(PING("Api-Version: 1.41\r\nLibpod-Api-Version: 3.0.0\r\n"), DOCKER_VERSION);
    ok(api_connect(&e) == -EPROTO && strstr(e.rest.why, "is docker"), "that is too old");
    engine_done(&e);
}

/* --- containers */

static void test_container(void)
{
    struct engine e = engine_new(OCI_DOCKER);
    _cleanup_json_ json_t *body = json_pack("{s:s}", "Image", "x"), *c = NULL;
    SET(ANSWER("201 Created", "{\"Id\":\"" HEX "f\",\"Warnings\":[\"a\\nb\",7,null]}"));
    ok(api_create(&e, body) == 0 &&
           server_was_asked(&server, 0,
                            "POST /v1.41/containers/create?name=mas-sandbox-01234567-sbx-1"),
       "docker's create");
    ok(!strcmp(e.mark.container, HEX "f"), "its id is kept");
    SET(ANSWER("201 Created", "{\"Id\":\"../images\"}"));
    ok(api_create(&e, body) == -EPROTO, "an id that is none");
    SET(ANSWER("201 Created", "[]"));
    ok(api_create(&e, body) == -EPROTO, "no id");
    SET(ANSWER("409 Conflict", "{\"message\":\"name in use\"}"));
    ok(api_create(&e, body) == -EIO && !strcmp(e.rest.why, "name in use"), "a refusal");
    SET("HTTP/1.1 204 No Content\r\n\r\n");
    ok(api_start(&e) == 0 && api_pause(&e, true) == 0 && api_pause(&e, false) == 0,
       "answers of 204");
    ok(server_was_asked(&server, 1, "POST /v1.41/containers/" HEX "f/pause") &&
           server_was_asked(&server, 2, "POST /v1.41/containers/" HEX "f/unpause"),
       "by its id, not by its name");
    SET("HTTP/1.1 2");
    ok(api_start(&e) < 0 && api_pause(&e, true) < 0, "an answer that is cut is no start");
    SET(ANSWER("404 Not Found", "{\"message\":\"none\"}"));
    ok(api_inspect(&e, &c) == -ENOENT && api_remove(&e, e.name) == 0, "one that is not there");
    SET(ANSWER("500 Oops", ""));
    ok(api_remove(&e, e.name) == -EIO, "one that is not removed");
    engine_done(&e);
    e = engine_new(OCI_PODMAN);
    SET(ANSWER("201 Created", "{\"Id\":\"" HEX "f\",\"Warnings\":[]}"));
    ok(api_create(&e, body) == 0 &&
           server_was_asked(&server, 0, "POST /v4.0.0/libpod/containers/create"),
       "podman's create");
    engine_done(&e);
}

/* Another's container under our name, and another one than was made. */
static void test_whose(void)
{
    static const struct {
        const char *name, *held, *answer;
        int r;
    } all[] = {
        {"ours", "", OURS("\"a\":1"), 0},
        {"the one that is held", HEX "f", OURS("\"a\":1"), 0},
        {"another one than is held", HEX "0", OURS("\"a\":1"), -ENOENT},
        {"another sandbox's", "",
         "{\"Id\":\"" HEX "f\",\"Config\":{\"Labels\":" LABELS(INSTANCE, "sbx-2", "/x") "}}",
         -ENOENT},
        {"another daemon's", "",
         "{\"Id\":\"" HEX "f\",\"Config\":{\"Labels\":" LABELS("ff", "sbx-1", "/x") "}}", -ENOENT},
        {"somebody's", "", "{\"Id\":\"" HEX "f\",\"Config\":{\"Labels\":null}}", -ENOENT},
        {"one without a configuration", "", "{\"Id\":\"" HEX "f\"}", -ENOENT},
        {"one without an id", "", "{\"Config\":{\"Labels\":" LABELS(INSTANCE, "sbx-1", "/x") "}}",
         -ENOENT},
        {"no object", "", "[]", -ENOENT},
    };
    for (size_t i = 0; i < ELEMENTS(all); i++) {
        char bytes[1024];
        const char *const answers[] = {bytes, NULL};
        struct engine e = engine_new(OCI_DOCKER);
        json_t *c = NULL;
        snprintf(bytes, sizeof(bytes), OK("%s"), all[i].answer);
        snprintf(e.mark.container, sizeof(e.mark.container), "%s", all[i].held);
        server_set(&server, answers, NULL);
        int r = api_inspect(&e, &c);
        ok(r == all[i].r && !c == !!r && !strcmp(e.mark.container, r ? all[i].held : HEX "f"),
           "a container: %s: %d %s", all[i].name, r, e.rest.why);
        json_decref(c);
        engine_done(&e);
    }
}

static int find(uint32_t backend, const char *first, const char *second, struct engine *e)
{
    static char bytes[2][1024];
    static const char *const answers[] = {bytes[0], bytes[1], NULL};
    snprintf(bytes[0], sizeof(bytes[0]), OK(OURS("\"State\":%s")), first);
    snprintf(bytes[1], sizeof(bytes[1]), OK(OURS("\"State\":%s")), second ? second : first);
    *e = engine_new(backend);
    server_set(&server, answers, NULL);
    return process_find(e);
}

static void test_process(void)
{
    static const char *const none[] = {
        "{\"Running\":false,\"Pid\":%d}",
        "{\"Running\":\"true\",\"Pid\":%d}",
        "{\"Running\":1,\"Pid\":%d}",
        "{\"Pid\":%d}",
        "{\"Running\":true,\"Pid\":\"%d\"}",
        "{\"Running\":true,\"Pid\":-%d}",
        "{\"Running\":true,\"Pid\":%d.5}",
        "{\"Running\":true,\"Pid\":0}",
        "{\"Running\":true,\"Pid\":1}",
        "{\"Running\":true}",
        "{\"Running\":true,\"Pid\":4294967297}",
        "null",
        "[]",
        "7",
        "{\"Running\":true,\"Pid\":9223372036854775807}",
    };
    struct engine e;
    char text[256], other[256];
    pid_t child = fork(), second = child ? fork() : 1;
    if (!child || !second) {
        pause();
        _exit(0);
    }
    for (size_t i = 0; i < ELEMENTS(none); i++) {
        snprintf(text, sizeof(text), none[i], (int)child);
        ok(find(OCI_DOCKER, text, NULL, &e) == -ESRCH && e.pidfd < 0, "no process: %s", text);
        engine_done(&e);
    }
    snprintf(text, sizeof(text), "{\"Running\":true,\"Pid\":%d}", (int)child);
    snprintf(other, sizeof(other), "{\"Running\":true,\"Pid\":%d}", (int)second);
    ok(find(OCI_DOCKER, text, NULL, &e) == 0 && e.mark.pid == child && e.pidfd >= 0 &&
           e.mark.started == process_started(child),
       "one that is there");
    engine_done(&e);
    ok(find(OCI_DOCKER, text, other, &e) == 0 && e.mark.pid == second, "the last word counts");
    struct engine_mark mark = e.mark;
    engine_done(&e);
    mark.started++;
    ok(process_open(&mark) == -ESRCH, "another process of that number");
    kill(child, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    ok(find(OCI_DOCKER, text, NULL, &e) == -ESRCH, "one that has ended and is not reaped");
    engine_done(&e);
    kill(second, SIGKILL);
    waitpid(child, NULL, 0);
    waitpid(second, NULL, 0);
    ok(find(OCI_DOCKER, text, NULL, &e) == -ESRCH, "one that is gone");
    engine_done(&e);
}

static void test_end(void)
{
    static const struct {
        const char *answer;
        int wait_status;
        uint64_t oom_kills;
    } all[] = {
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":7}")), 7 << 8, 0},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":0}")), 0, 0},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":137,\"OOMKilled\":true}")), SIGKILL, 1},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":143}")), SIGTERM, 0},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":255}")), 255 << 8, 0},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":-1}")), SIGKILL, 0},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":256}")), SIGKILL, 0},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":4294967296}")), SIGKILL, 0},
        {OK(OURS("\"State\":{\"Running\":false,\"ExitCode\":\"0\"}")), SIGKILL, 0},
        {OK(OURS("\"State\":{\"Running\":true,\"ExitCode\":0}")), SIGKILL, 0},
        {OK(OURS("\"State\":{\"Running\":false}")), SIGKILL, 0},
        {OK(OURS("\"State\":[]")), SIGKILL, 0},
        {OK("[]"), SIGKILL, 0},
        {OK("{"), SIGKILL, 0},
        {"", SIGKILL, 0},
        {ANSWER("404 Not Found", "{}"), SIGKILL, 0},
    };
    for (size_t i = 0; i < ELEMENTS(all); i++) {
        const char *const answers[] = {all[i].answer, NULL};
        struct engine e = engine_new(OCI_DOCKER);
        struct engine_message m;
        server_set(&server, answers, NULL);
        task_ask_end(&e, 0, &m);
        ok(m.kind == ENGINE_ENDED && m.wait_status == all[i].wait_status &&
               m.oom_kills == all[i].oom_kills,
           "an end: %s: %d", strstr(all[i].answer, "\r\n\r\n") ?: "nothing", m.wait_status);
        engine_done(&e);
    }
}

/* --- ids */

static void test_users(void)
{
    static const struct {
        const char *info;
        int r;
        bool remapped;
        uint32_t runner, tool, inside;
    } all[] = {
#define REMAPPED(dir) "{\"SecurityOptions\":[7,\"name=userns\"],\"DockerRootDir\":\"" dir "\"}"
        {"{}", 0, false, 0, 101000, 101000},
        {"{\"SecurityOptions\":\"name=userns\"}", 0, false, 0, 101000, 101000},
        {"{\"SecurityOptions\":[\"name=seccomp,profile=default\"]}", 0, false, 0, 101000, 101000},
        {REMAPPED("/var/lib/docker/165536.165536"), 0, true, 165536, 166536, 1000},
        {REMAPPED("165536.165536"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/165536.165537"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/165536.165536x"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/165536"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/0.0"), -EPROTO, true, 0, 0, 0}, /* the host's root */
        {REMAPPED("/d/00.00"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/-1.-1"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/4294967295.4294967295"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/4294967296.4294967296"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/99999999999999999999.99999999999999999999"), -EPROTO, true, 0, 0, 0},
        {REMAPPED("/d/"), -EPROTO, true, 0, 0, 0},
        {REMAPPED(""), -EPROTO, true, 0, 0, 0},
        {"{\"SecurityOptions\":[\"name=userns\"]}", -EPROTO, true, 0, 0, 0},
    };
    for (size_t i = 0; i < ELEMENTS(all); i++) {
        char bytes[512];
        const char *const answers[] = {bytes, NULL};
        struct engine e = engine_new(OCI_DOCKER);
        snprintf(bytes, sizeof(bytes), OK("%s"), all[i].info);
        server_set(&server, answers, NULL);
        int r = engine_find_users(&e);
        ok(r == all[i].r && (e.users == MECHANISM_UID_ENGINE) == all[i].remapped &&
               (r < 0 || (e.runner_id == all[i].runner && e.tool_id == all[i].tool &&
                          e.tool_inside == all[i].inside)),
           "ids: %s: %d %u %u %u", all[i].info, r, e.runner_id, e.tool_id, e.tool_inside);
        engine_done(&e);
    }
    struct engine e = engine_new(OCI_PODMAN);
    ok(engine_find_users(&e) == 0 && e.runner_id == 100000 && e.tool_id == 101000 &&
           e.tool_inside == 1000,
       "podman's are ours");
    e.order.child.flags = PLAN_TOOL_NOBODY;
    ok(engine_find_users(&e) == 0 && e.tool_id == 165534 && e.tool_inside == 65534, "or nobody's");
    engine_done(&e);
    e = engine_new(OCI_DOCKER);
    SET(ANSWER("500 Oops", "{}"));
    ok(engine_find_users(&e) == -EIO, "one that does not say");
    engine_done(&e);
}

/* --- a probe, and what it sweeps */

static void test_probe(void)
{
    struct engine e = engine_new(OCI_DOCKER);
    struct engine_message m;
    SET(DOCKER_VERSION,
        OK("{\"CgroupVersion\":\"2\",\"MemoryLimit\":true,\"CpuCfsQuota\":true,"
           "\"PidsLimit\":\"yes\",\"Runtimes\":{\"runsc\":{},\"what\":{},"
           "\"runc\":null}}"),
        OK("{}"), OK("[]"));
    probe_ask(&e, &m);
    ok(m.kind == ENGINE_REPORT && !m.error && !strcmp(m.text, "20.10.24"), "a report: %s", m.text);
    ok(m.mechanism[WALL_MEMORY] == MECHANISM_CGROUP_V2 && m.mechanism[WALL_CPU] &&
           !m.mechanism[WALL_PROCESSES],
       "what it says that it can, and no more");
    ok((m.features & FEATURE_OCI(OCI_RUNSC)) && (m.features & FEATURE_OCI(OCI_RUNC)) &&
           !(m.features & FEATURE_OCI(OCI_CRUN)),
       "runtimes that it knows");
    struct engine p = engine_new(OCI_PODMAN);
    SET(OK("{\"Version\":\"4.3.1\"," PODMAN_41),
        OK("{\"DefaultRuntime\":\"crun\",\"Runtimes\":{\"runsc\":{},\"crun\":{}}}"), OK("[]"));
    probe_ask(&p, &m);
    ok(!m.error && (m.features & FEATURE_OCI(OCI_CRUN)) && !(m.features & FEATURE_OCI(OCI_RUNSC)),
       "podman's one runtime: %s", m.text);
    engine_done(&p);
    SET(DOCKER_VERSION, OK("[]"), OK("{\"SecurityOptions\":[\"name=userns\"]}"), OK("{}"));
    probe_ask(&e, &m);
    ok(!m.error && !m.mechanism[WALL_USERS] && !m.mechanism[WALL_MEMORY], "one that says little");
    SET(DOCKER_VERSION, ANSWER("500 Oops", "{\"message\":\"ill\"}"));
    probe_ask(&e, &m);
    ok(m.error == EPROTO && !strcmp(m.text, "ill"), "one that is ill: %s", m.text);
    SET("HTTP/1.1 200 OK\r\n\r\n");
    probe_ask(&e, &m);
    ok(m.error == EPROTO && m.text[0], "one that says nothing: %s", m.text);
    engine_done(&e);
}

static int count_removed(const char *list, char *removed, size_t size)
{
    char bytes[2048];
    const char *const answers[] = {
        DOCKER_VERSION, OK("{}"), OK("{}"), bytes, "HTTP/1.1 204 No Content\r\n\r\n", NULL};
    struct engine e = engine_new(OCI_DOCKER);
    struct engine_message m;
    int n = 0;
    snprintf(bytes, sizeof(bytes), OK("%s"), list);
    server_set(&server, answers, NULL);
    probe_ask(&e, &m);
    engine_done(&e);
    while (*server_request(&server, (size_t)n + 4))
        n++;
    snprintf(removed, size, "%.120s", n ? server_request(&server, 4) : "");
    return n;
}

#define ROW(id, labels) "{\"Id\":" id ",\"Labels\":" labels "}"

static void test_sweep(void)
{
    static const struct {
        const char *name, *row;
        int removed;
    } all[] = {
        {"of nobody's", ROW("\"" HEX "0\"", LABELS(INSTANCE, "sbx-gone", "%s")), 1},
        {"of an earlier instance's", ROW("\"" HEX "0\"", LABELS("ff", "sbx-here", "%s")), 1},
        {"of an id that is none", ROW("\"" HEX "0\"", LABELS(INSTANCE, "../../etc", "%s")), 1},
        {"of ours", ROW("\"" HEX "0\"", LABELS(INSTANCE, "sbx-here", "%s")), 0},
        {"of another daemon's", ROW("\"" HEX "0\"", LABELS(INSTANCE, "sbx-gone", "/other")), 0},
        {"without labels", ROW("\"" HEX "0\"", "null") "%.0s", 0},
        {"with a list of labels", ROW("\"" HEX "0\"", "[\"%s\"]"), 0},
        {"with an id for a path", ROW("\"../images/x\"", LABELS(INSTANCE, "sbx-gone", "%s")), 0},
        {"with a short id", ROW("\"" HEX "\"", LABELS(INSTANCE, "sbx-gone", "%s")), 0},
        {"with a long id", ROW("\"" HEX "01\"", LABELS(INSTANCE, "sbx-gone", "%s")), 0},
        {"with a number as id", ROW("7", LABELS(INSTANCE, "sbx-gone", "%s")), 0},
        {"that is none", "null,7,[],\"%s\"", 0},
    };
    char dir[128], row[512], list[600], removed[128];
    snprintf(dir, sizeof(dir), "%s/sbx-here", server.dir);
    mkdir(dir, 0700);
    for (size_t i = 0; i < ELEMENTS(all); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(row, sizeof(row), all[i].row, server.dir);
#pragma GCC diagnostic pop
        snprintf(list, sizeof(list), "[%s]", row);
        int n = count_removed(list, removed, sizeof(removed));
        ok(n == all[i].removed && (!n || strstr(removed, "DELETE /v1.41/containers/" HEX "0?")),
           "a container %s: %d %s", all[i].name, n, removed);
    }
    ok(count_removed("{\"a\":1}", removed, sizeof(removed)) == 0, "a list that is none");
    rmdir(dir);
}

/* --- what the kernel says of it */

static void test_mountinfo(void)
{
    static const char text[] = "22 1 0:20 / / rw,relatime - overlay o rw\n"
                               "23 22 0:21 / /a\\040b ro,nosuid - tmpfs t rw\n"
                               "24 22 0:22 / /c rw - tmpfs t rw\n"
                               "25 24 0:23 / /c ro,nodev - tmpfs t rw\n"
                               "26 22 0:24 /x\\011y /d\\134e ro - tmpfs t rw\n"
                               "not a line\n27 22 0:25 / /cut";
    ok(mountinfo_has(text, "/", 0, "rw") && !mountinfo_has(text, "/", 0, "ro"), "the root");
    ok(mountinfo_has(text, "/a b", 0, "ro,nosuid"), "a name with a blank");
    ok(!mountinfo_has(text, "/a", 0, NULL) && !mountinfo_has(text, "/a\\040b", 0, NULL),
       "and no other");
    ok(mountinfo_has(text, "/d\\e", 0, "ro"), "a name with a backslash");
    ok(mountinfo_has(text, "/c", 0x17, "ro") && !mountinfo_has(text, "/c", 0x16, NULL),
       "of two at one place the last");
    ok(!mountinfo_has(text, "/cut", 0, NULL) && !mountinfo_has("", "/", 0, NULL), "half a line");
    ok(mountinfo_has("1 1 0:1 / /\\0 rw\n", "/\\0", 0, NULL), "what is no escape stays");
}

static void test_io_max(void)
{
    static const char text[] = "8:0 rbps=1048576 wbps=1048576 riops=max wiops=max\n"
                               "8:16 rbps=max wbps=1048576 riops=max wiops=max\n"
                               "7:1 rbps=2000000 wbps=1 riops=max wiops=max\n7:2 wbps=5 rbps=5";
    ok(io_max_holds(text, makedev(8, 0), 1048576), "a disk with both limits");
    ok(!io_max_holds(text, makedev(8, 0), 1048575), "one with more than was asked for");
    ok(!io_max_holds(text, makedev(8, 16), 1048576), "one that is read as fast as can be");
    ok(!io_max_holds(text, makedev(7, 1), 1048576), "one that is read too fast");
    ok(!io_max_holds(text, makedev(8, 1), 1048576) && !io_max_holds("", makedev(8, 0), 1),
       "one that is not there");
    ok(io_max_holds(text, makedev(7, 2), 5), "the last line");
}

static void test_shim(void)
{
    static const struct {
        const char *text;
        size_t len;
        bool is;
    } all[] = {
#define LINE(text, is) {text, sizeof(text), is}
        LINE("/usr/bin/containerd-shim-runc-v2\0-namespace\0moby\0-id\0abc\0-address\0x", true),
        LINE("containerd-shim\0-id\0abc", true),
        LINE("containerd-shim\0-id\0abcd", false),
        LINE("containerd-shim\0-address\0abc", false),
        LINE("containerd-shim\0abc\0-id", false),
        LINE("/bin/sh\0-id\0abc", false),
        LINE("/containerd-shim/sh\0-id\0abc", false),
        LINE("", false),
#undef LINE
    };
    for (size_t i = 0; i < ELEMENTS(all); i++)
        ok(shim_is_of(all[i].text, all[i].len, "abc") == all[i].is, "a shim's command line %zu", i);
}

/* --- records */

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/%s/record", dir, name);
    fd_write_file_at(AT_FDCWD, path, text);
}

/* The records that a broker finds; the last one in ret. In a process of its own, where the number
 * of a broker's channel is free. */
static int count_records(const struct engine *e, struct engine_record *ret)
{
    int pair[2], fds[FD_PASS_MAX], n = 0;
    struct engine copy = *e;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        copy.records_fd = fcntl(e->records_fd, F_DUPFD_CLOEXEC, 20);
        _exit(dup2(pair[1], CHILD_CHANNEL_FD) < 0 || record_list(&copy) < 0);
    }
    close(pair[1]);
    while (fd_recv_msg(pair[0], ret, sizeof(*ret), fds) == sizeof(*ret))
        n++;
    close(pair[0]);
    waitpid(pid, NULL, 0);
    return n;
}

static void test_records(void)
{
    char dir[] = "/tmp/mas-engine-records-XXXXXX", path[256];
    struct engine e = {.pidfd = -1}, other = {.pidfd = -1};
    struct engine_record r = {0}, *own = &e.order.record;
    ok(mkdtemp(dir), "a directory");
    snprintf(other.order.dir, sizeof(other.order.dir), "%s", dir);
    snprintf(e.order.dir, sizeof(e.order.dir), "%s/sbx-1", dir);
    snprintf(e.order.id, sizeof(e.order.id), "sbx-1");
    e.order.runner_id = getuid();
    *own = (struct engine_record){.magic = ENGINE_RECORD_MAGIC, .size = sizeof(*own)};
    own->plan = (struct plan){.version = PLAN_VERSION, .op = PLAN_CREATE, .tag = 1};
    own->plan.backend = OCI_PODMAN;
    snprintf(own->plan.id, sizeof(own->plan.id), "sbx-1");
    ok(record_open(&e) == 0 && record_open(&other) == 0 && strlen(e.order.instance) == 32 &&
           !strcmp(e.order.instance, other.order.instance),
       "one instance for a state directory: %s", e.order.instance);
    ok(record_create(&e) == 0 && record_create(&e) == -EEXIST, "a record, once");
    ok(count_records(&other, &r) == 1 && r.state == ENGINE_RECORD_CREATING, "it is found");
    own->mark.pid = 7;
    ok(record_save(&e, ENGINE_RECORD_RUNNING) == 0 && count_records(&other, &r) == 1 &&
           r.state == ENGINE_RECORD_RUNNING && r.mark.pid == 7,
       "as it was saved last");
    put_file(dir, "sbx-cut", "amng");
    own->size--;
    ok(record_save(&e, ENGINE_RECORD_RUNNING) == 0 && count_records(&other, &r) == 0,
       "records of another make are none");
    snprintf(path, sizeof(path), "%s/sbx-cut", dir);
    ok(access(path, F_OK) < 0 && access(e.order.dir, F_OK) < 0, "and are removed");
    record_remove(&e);
    snprintf(path, sizeof(path), "%s/instance", dir);
    ok(unlink(path) == 0 && rmdir(dir) == 0, "nothing else is left");
    close(e.records_fd);
    close(other.records_fd);
}

int main(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    server_start(&server);
    test_version();
    test_connect();
    test_container();
    test_whose();
    test_process();
    test_end();
    test_users();
    test_probe();
    test_sweep();
    test_mountinfo();
    test_io_max();
    test_shim();
    test_records();
    server_stop(&server);
    curl_global_cleanup();
    return tap_done();
}
