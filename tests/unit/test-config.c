/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: sources and their order, every value type, problems with places and suggestions,
 * cross-key checks, and both ways out. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "config/config.h"
#include "runtime/runtime.h"
#include "tests/unit/tap.h"

static struct config c;
static struct config_problems p;

static void begin(void)
{
    config_init(&c);
    config_problems_init(&p);
}

static void finish(void)
{
    config_done(&c);
    config_problems_done(&p);
}

static void yaml(const char *text)
{
    config_load_yaml(&c, "f.yaml", text, strlen(text), &p);
}

static const char *errors(void)
{
    return p.errors.data ? p.errors.data : "";
}

static bool said(const char *text)
{
    bool there = strstr(errors(), text) != NULL;
    if (!there)
        printf("# errors are: %s\n", errors());
    return there;
}

/* What main() gets is not const, though nothing here writes to it. */
static char *const *vector(const char *const *v)
{
    return (char *const *)(uintptr_t)v;
}

static const char *one_line(const char *text)
{
    static char line[128];
    snprintf(line, sizeof(line), "%s", text);
    for (char *s = line; *s; s++)
        *s = *s == '\n' ? ';' : *s;
    return line;
}

/* --- values */

static void test_defaults(void)
{
    begin();
    config_check(&c, &p);
    ok(p.n_errors == 0, "the defaults are a good configuration (%s)", errors());
    ok(!c.listen && strcmp(c.runtime, "local") == 0, "line mode on the local runtime");
    ok(c.default_limits.memory_bytes == 512 << 20 && c.default_limits.disk_bytes == 256 << 20 &&
           c.default_limits.processes == 256 && c.max_limits.open_files == 65536,
       "default limits");
    ok(c.manager.idle_ttl_ms == 15 * 60000 && c.api.exec_max_timeout_ms == 6 * 3600000 &&
           c.manager.retention_ms == 30 * 60000 && c.manager.create_timeout_ms == 60000 &&
           c.api.exec_timeout_ms == 0,
       "the sbx API's durations");
    ok(c.journal.min_events == 200 && c.api.async_exec && c.api.max_body_bytes == 1 << 20 &&
           c.max_line_bytes == 10 << 20,
       "contract defaults");
    finish();
}

static void test_types(void)
{
    begin();
    yaml("listen: [127.0.0.1:1, 'unix:/x']\nidle_ttl: 1h30m\nmax_upload_bytes: 64Mi\n"
         "default_cpu_cores: 1500m\ninsecure: yes\nlog_format: json\nmax_execs: 7\n"
         "env: {A: 'b=c, d', B_2: 5, EMPTY: }\nallowed_hosts: a.example, b.example\n");
    ok(p.n_errors == 0, "all types (%s)", errors());
    ok(strv_length(c.listen) == 2 && strcmp(c.listen[1], "unix:/x") == 0, "list");
    ok(c.manager.idle_ttl_ms == 90 * 60000, "duration");
    ok(c.api.max_upload_bytes == 64 << 20, "size");
    ok(c.default_limits.cpu_millicores == 1500, "cores in thousandths");
    ok(c.insecure && strcmp(c.log_format, "json") == 0 && c.manager.max_execs == 7,
       "bool, choice, int");
    ok(strv_length(c.env) == 3 && strcmp(c.env[0], "A=b=c, d") == 0 &&
           strcmp(c.env[1], "B_2=5") == 0 && strcmp(c.env[2], "EMPTY=") == 0,
       "map keeps commas and equals signs");
    ok(strv_length(c.gateway.allow_hosts) == 2 &&
           strcmp(c.gateway.allow_hosts[1], "b.example") == 0,
       "a list as text");
    finish();
}

static void test_bad_values(void)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"idle_ttl: 5", "idle_ttl: '5' is not a duration"},
        {"idle_ttl: -5s", "idle_ttl: '-5s' is not a duration"},
        {"ws_ping: 25h", "ws_ping: 25h is not within 0s and 24h0m0s"},
        {"idle_ttl: 10us", "below a millisecond"},
        {"idle_ttl: 9999999999999h", "f.yaml:1: idle_ttl"},
        {"max_execs: 0", "max_execs: 0 is not within 1 and 1000000"},
        {"max_execs: 1e3", "not a whole number"},
        {"max_execs: ' 5'", "not a number"},
        {"max_execs: 99999999999999999999", "too large"},
        {"max_execs: [1]", "max_execs: a plain value is expected"},
        {"max_body_bytes: 1Mb", "not a size"},
        {"max_body_bytes: 9000000T", "out of range"},
        {"default_cpu_cores: nan", "not a number of cores"},
        {"default_cpu_cores: -1", "not a number of cores"},
        {"default_cpu_cores: 2000000", "not within"},
        {"default_cpu_cores: 0.0004", "below a thousandth of a core"}, /* 0 is no limit */
        {"insecure: maybe", "'maybe' is not true or false"},
        {"log_level: loud", "'loud' is not one of debug|info|warn|error"},
        {"log_level: inf", "not one of"},
        {"cgroup_prefix: ''", "cgroup_prefix: the value is empty"},
        {"state_dir: \"a\\tb\"", "control character"},
        {"state_dir: \"a\\0b\"", "NUL byte"},
        {"env: {'A-B': 1}", "'A-B' is not a variable's name"},
        {"env: {'1A': 1}", "not a variable's name"},
        {"env: [A=1]", "env: a map is expected"},
        {"env: {A: [1]}", "env.A: not a plain value"},
        {"listen: ['']", "an item is empty"},
        {"listen: {a: b}", "listen: a list is expected"},
        {"listen: [[a]]", "an item is not a plain value"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        begin();
        yaml(cases[i].text);
        ok(p.n_errors >= 1 && said(cases[i].error), "refused: %s", one_line(cases[i].text));
        finish();
    }
}

/* --- YAML */

static void test_nesting(void)
{
    begin();
    yaml("mounts: {allow: [/tmp]}\nwarm: {pool: {size: 3, max: 4}}\nmem: {limit: 64Mi}\n"
         "default-open-files: 77\n");
    ok(p.n_errors == 0 && strv_length(c.mounts_allow) == 1 && c.pool.size == 3 && c.pool.max == 4 &&
           c.mem_limit == 64 << 20 && c.default_limits.open_files == 77,
       "maps flatten into names (%s)", errors());
    finish();
    begin();
    yaml("mounts.allow: [/tmp]\nmounts: {allow: [/usr]}\n");
    ok(said("f.yaml:2: mounts_allow is there twice"), "two spellings of one key are a duplicate");
    finish();
    begin();
    yaml("async_exec: false\n");
    ok(!c.api.async_exec, "the second name of a key");
    finish();
}

static void test_bad_yaml(void)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"idle_tll: 5m", "f.yaml:1: unknown key 'idle_tll'; did you mean 'idle_ttl'?"},
        {"insecure: true\nzzzzzzzzzz: 1", "f.yaml:2: unknown key 'zzzzzzzzzz'\n"},
        {"mounts: {alow: [/]}", "unknown key 'mounts_alow'; did you mean 'mounts_allow'?"},
        {"idle_ttl: 1m\nidle_ttl: 2m", "f.yaml:2: idle_ttl is there twice"},
        {"tls_key_pem: x", "unknown key 'tls_key_pem'"},
        {"user: &a x\nlibexec_dir: *a", "f.yaml:1: aliases, anchors and tags"},
        {"user: *a", "aliases, anchors"},
        {"user: !!str x", "aliases, anchors and tags"},
        {"<<: {user: x}", "unknown key '<<'"},
        {"user: x\n---\nuser: y", "a second document"},
        {"- user", "not a map"},
        {"just text", "not a map"},
        {"user: [", "not YAML"},
        {"user: \"\xff\"", "not YAML"},
        {"? [a]\n: b", "not a plain value"},
        {"zz: [[[[[[[[[[1]]]]]]]]]]", "nested deeper"},
        {"warm: {pool: {size: {warm: 1}}}", "warm_pool_size: a plain value is expected"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        begin();
        yaml(cases[i].text);
        ok(p.n_errors >= 1 && said(cases[i].error), "refused: %s", one_line(cases[i].text));
        finish();
    }
    begin();
    yaml("");
    yaml("# nothing\n");
    yaml("idle_ttl:\nlisten: ~\n");
    ok(p.n_errors == 0 && c.manager.idle_ttl_ms == 15 * 60000,
       "empty files and empty keys change nothing");
    finish();
    begin();
    yaml("idle_ttl: x\nmax_execs: y\nbogus_key: 1\nmax_sandboxes: 5\n");
    ok(p.n_errors == 3 && c.manager.max_sandboxes == 5,
       "all problems are reported, the rest is read");
    finish();
}

/* --- environment and flags */

static void test_order(void)
{
    const char *env[] = {"SANDBOX_IDLE_TTL=2m", "SANDBOX_LISTEN=127.0.0.1:2", "SANDBOX_ENV_A=env",
                         "SANDBOX_ENV_C=1,2=3", "SANDBOX_ASYNC_EXEC=0",       "SANDBOX_MAX_EXECS=",
                         "PATH=/bin",           "SANDBOX_CONFIG=/nowhere",    NULL};
    const char *argv[] = {"d",          "-listen", "127.0.0.1:3", "--listen=127.0.0.1:4,[::1]:5",
                          "-env",       "B=flag",  "--insecure",  "-debug_endpoints=false",
                          "--idle-ttl", "3m",      NULL};
    begin();
    yaml("idle_ttl: 1m\nlisten: [127.0.0.1:1]\nenv: {A: file, B: file}\nmax_execs: 9\n"
         "debug_endpoints: true\n");
    config_load_env(&c, vector(env), &p);
    ok(c.manager.idle_ttl_ms == 120000, "a variable wins over the file");
    ok(strv_length(c.listen) == 1 && strcmp(c.listen[0], "127.0.0.1:2") == 0,
       "a variable's list replaces the file's");
    ok(!c.api.async_exec && c.manager.max_execs == 9, "empty means unset");
    struct config_args args;
    config_args_scan(10, vector(argv), &args, &p);
    config_load_args(&c, 10, vector(argv), &p);
    ok(p.n_errors == 0, "no problems (%s)", errors());
    ok(c.manager.idle_ttl_ms == 180000 && c.insecure && !c.api.debug_endpoints,
       "a flag wins over both");
    ok(strv_length(c.listen) == 3 && strcmp(c.listen[2], "[::1]:5") == 0, "a repeated flag adds");
    ok(strv_length(c.env) == 3 && strcmp(c.env[0], "A=env") == 0 &&
           strcmp(c.env[1], "B=flag") == 0 && strcmp(c.env[2], "C=1,2=3") == 0,
       "maps merge by name");
    ok(config_origin(&c, "idle_ttl") == ORIGIN_FLAG &&
           config_origin(&c, "max_execs") == ORIGIN_FILE,
       "origins");
    finish();
}

static struct config_args scan(const char *a, const char *b)
{
    const char *argv[] = {"d", a, b, NULL};
    struct config_args args;
    config_args_scan(b ? 3 : 2, vector(argv), &args, &p);
    return args;
}

static void test_flags(void)
{
    static const struct {
        const char *a, *b, *error;
    } cases[] = {
        {"--lisen", ":80", "unknown flag --lisen; did you mean --listen?"},
        {"-check-confg", NULL, "did you mean --check-config?"},
        {"--listen", NULL, "--listen needs a value"},
        {"stray", NULL, "unexpected argument 'stray'"},
        {"--", "stray", "unexpected argument 'stray'"},
        {"-", NULL, "unexpected argument '-'"},
        {"--=x", NULL, "is not a flag"},
        {"--version=2", NULL, "takes no value"},
        {"--tls-key-pem", "x", "unknown flag"},
        {"--control-stage", NULL, "unknown flag"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        begin();
        scan(cases[i].a, cases[i].b);
        ok(p.n_errors == 1 && said(cases[i].error), "refused: %s", cases[i].a);
        finish();
    }
    begin();
    ok(scan("-h", NULL).mode == MODE_HELP && scan("--check-config", NULL).mode == MODE_CHECK &&
           strcmp(scan("-config", "x").config_path, "x") == 0 &&
           strcmp(scan("--config=y", NULL).config_path, "y") == 0,
       "what is not a setting");
    ok(p.n_errors == 0, "no problems (%s)", errors());
    finish();
}

static void test_hide(void)
{
    char token[] = "secret", attached[] = "-auth-token=other", plain[] = "5m";
    const char *argv[] = {"d", "--auth_token", token, attached, "-idle-ttl", plain, NULL};
    config_args_hide(6, vector(argv));
    ok(strcmp(token, "xxxxxx") == 0 && strcmp(attached, "-auth-token=xxxxx") == 0 &&
           strcmp(plain, "5m") == 0,
       "secrets in argv are overwritten");
}

static void test_variables(void)
{
    const char *env[] = {"SANDBOX_IDLE_TLL=5m",    "SANDBOX_SOMEBODY_ELSES_BUSINESS=1",
                         "SANDBOX_AUTH_TOKEN=",    "SANDBOX_ENV_BAD-NAME=1",
                         "SANDBOX_MAX_EXECS=many", "SANDBOX_TLS_KEY_PEM=x",
                         "SANDBOX_ENV=A=1",        NULL};
    begin();
    config_load_env(&c, vector(env), &p);
    ok(said("unknown variable SANDBOX_IDLE_TLL; did you mean SANDBOX_IDLE_TTL?"), "a slip");
    ok(!strstr(errors(), "SOMEBODY") && p.warnings.data && strstr(p.warnings.data, "SOMEBODY"),
       "another program's variable is only mentioned");
    ok(said("SANDBOX_AUTH_TOKEN is empty"), "a lost token does not open the door");
    ok(said("SANDBOX_ENV_BAD-NAME: 'BAD-NAME' is not"), "a bad name");
    ok(said("SANDBOX_MAX_EXECS: 'many' is not a number"), "a bad value");
    ok(!c.http.tls_key, "internal keys are not settable");
    finish();
}

/* --- checks */

/* What can be chosen is what there is: the names of the registry, and "oci" for one of them. */
static void test_runtimes(void)
{
    const char *choices = config_key_choices(config_key_find("runtime"));
    size_t chosen = 0, known = 0, missing = 0;
    for (const char *at = choices; *at; chosen++) {
        size_t len = strcspn(at, "|");
        _cleanup_free_ char *name = xstrndup(at, len);
        ok(runtime_find(name) != NULL, "there is a runtime %s", name);
        at += len + (at[len] == '|');
    }
    for (; runtimes[known]; known++) {
        _cleanup_free_ char *marked = xasprintf("|%s|", runtimes[known]->name);
        _cleanup_free_ char *all = xasprintf("|%s|", choices);
        missing += !strstr(all, marked);
    }
    ok(missing == 0 && chosen == known + 1, "and every runtime can be chosen");
}

static void test_checks(void)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"runtime: wasm", "runtime: 'wasm' is not one of local|"},
        {"runtime: kube", "runtime: kube needs kube_config, kube_in_cluster or kube_socket"},
        {"kube_in_cluster: true\nkube_socket: /x", "only one of them says how the cluster"},
        {"runtime_config: x.json", "runtime_config: runtime 'local' takes no"},
        {"image: x\nimages: false", "image: images are switched off"},
        {"runtime: kube\nkube_image: x\nimage: y", "image and kube_image are both set"},
        {"runtime: kube\ncache_mode: hostpath", "cache_mode: hostpath needs kube_hostpath: true"},
        {"cache_pvc_size: 5Q", "cache_pvc_size: '5Q' is not a size"},
        {"cache_pvc_access_mode: Once", "cache_pvc_access_mode: 'Once' is not one of"},
        {"cpu_limit: 1\ncpu_request: 2", "cpu_request: it is more than cpu_limit"},
        {"mem_limit: 1Mi\nmem_request: 2Mi", "mem_request: it is more than mem_limit"},
        {"volume_mode: pvc", "volume_mode: pvc needs the kube runtime"},
        {"cache_mode: pvc", "cache_mode: pvc"},
        {"cache_mode: hostpath", "not under mounts.allow"},
        {"cache_mode: hostpath\nmounts_allow: [/va]", "not under mounts.allow"},
        {"stream_mode: sidecar", "stream_mode: sidecar needs the kube runtime"},
        {"stream_mode: sidecar\nkube_in_cluster: true", "stream_sidecar_image: needed with"},
        {"stream_mode: sidecar\nkube_in_cluster: true", "stream_endpoint: needed with"},
        {"stream_mode: sidecar\nkube_in_cluster: true", "it needs auth_token"},
        {"stream_mode: sidecar\nws_max_message: 255Ki", "ws_max_message: stream_mode: sidecar"},
        {"warm_pool_min: 3\nwarm_pool_max: 2", "warm_pool_min: 3 is more than warm_pool_max"},
        {"default_memory_mb: 9\nmax_memory_mb: 8", "default_memory_mb (9) is over max_memory_mb"},
        {"default_disk_mb: 9\nmax_disk_mb: 8", "default_disk_mb (9) is over max_disk_mb (8)"},
        {"default_cpu_cores: 1.5\nmax_cpu_cores: 0.5",
         "default_cpu_cores (1.5) is over max_cpu_cores (0.5)"},
        {"default_max_processes: 9\nmax_processes: 8", "default_max_processes (9) is over max_pro"},
        {"max_open_files: 64", "default_open_files (4096) is over max_open_files (64)"},
        {"exec_timeout: 7h", "exec_timeout (2.52e+07) is over exec_max_timeout"},
        {"mem_limit: 1Gi\ndefault_memory_mb: 5", "mem_limit and default_memory_mb are both set"},
        {"cpu_limit: 1\ndefault_cpu_cores: 1", "cpu_limit and default_cpu_cores are both set"},
        {"tls_cert: /x\nlisten: :1", "tls_cert and tls_key go together"},
        {"tls_cert: /x\ntls_key: /y", "nothing is listened on"},
        {"allowed_origins: ['*']", "allowed_origins: '*' is not"},
        {"allowed_origins: ['http://h:99999']", "allowed_origins: 'http://h:99999' is not"},
        {"auth_token: 'a b'", "auth_token holds a space"},
        {"mounts: {allow: [/does/not/exist]}", "mounts.allow: /does/not/exist: No such file"},
        {"mounts: {allow: [/etc/passwd]}", "mounts.allow: /etc/passwd is not a directory"},
        {"cgroup_prefix: a/b", "cgroup_prefix: 'a/b' is not a name"},
        {"max_sandboxes: 100000\nuid_range_count: 65536", "is less than max_sandboxes"},
        {"uid_range_first: 4294900000\nuid_range_count: 100000", "beyond the last uid"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        begin();
        yaml(cases[i].text);
        config_check(&c, &p);
        ok(p.n_errors >= 1 && said(cases[i].error), "refused: %s", one_line(cases[i].text));
        finish();
    }
    begin();
    yaml("cpu_limit: 50m\n");
    config_check(&c, &p);
    ok(p.n_errors == 0 && c.kube.cpu_request_millicores == 100,
       "a limit below the usual request is no mistake (%s)", errors());
    finish();
    begin();
    yaml("mem_limit: 1Gi\ncpu_limit: 500m\ncpu_request: 100m\n");
    config_check(&c, &p);
    ok(p.n_errors == 0 && c.default_limits.memory_bytes == 1 << 30 &&
           c.default_limits.cpu_millicores == 500,
       "the sbx API's limits are our defaults (%s)", errors());
    ok(p.warnings.data && strstr(p.warnings.data, "cpu_request has no effect"),
       "what has no effect is said");
    finish();
    begin();
    yaml("runtime: kube\nkube_socket: /x\nkube_image: x\norphan_ttl: 2h\nkube_max_disk: 1Gi\n");
    config_check(&c, &p);
    ok(p.warnings.data && strstr(p.warnings.data, "orphan_ttl has no effect with kube_socket") &&
           strstr(p.warnings.data, "kube_max_disk has no effect with kube_socket"),
       "so is what the broker's own settings say (%s)", errors());
    finish();
}

static void test_relative(void)
{
    begin();
    yaml("state_dir: here/state\nmounts_allow: [.]\n");
    config_check(&c, &p);
    _cleanup_free_ char *cwd = getcwd(NULL, 0), *want = xasprintf("%s/here/state", cwd);
    ok(strcmp(c.state_dir, want) == 0 && c.mounts_allow[0][0] == '/', "paths are made absolute");
    finish();
}

static void write_text(const char *path, const char *text, mode_t mode)
{
    _cleanup_close_ int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    ok(fd >= 0 && fchmod(fd, mode) == 0 && fd_write_all(fd, text, strlen(text)) == 0, "write %s",
       path);
}

static void test_secrets(void)
{
    char dir[] = "/tmp/test-config-XXXXXX";
    ok(mkdtemp(dir) != NULL, "a directory");
    _cleanup_free_ char *token = xasprintf("%s/token", dir), *pem = xasprintf("%s/pem", dir);
    write_text(token, "s3cret\nsecond line\n", 0604);
    write_text(pem, "-----BEGIN\nx\n", 0600);
    begin();
    c.auth_token_file = xstrdup(token);
    c.tls_cert = xstrdup(pem);
    c.tls_key = xstrdup(pem);
    config_load_secrets(&c, &p);
    ok(p.n_errors == 0 && strcmp(c.api.token, "s3cret") == 0, "token: the first line");
    ok(strcmp(c.http.tls_key, "-----BEGIN\nx\n") == 0, "key: the whole text");
    ok(p.warnings.data && strstr(p.warnings.data, "every user can read"), "an open file is said");
    config_load_secrets(&c, &p);
    ok(said("auth_token and auth_token_file are both set"), "two tokens");
    finish();
    write_text(token, "\n", 0600);
    begin();
    c.auth_token_file = xstrdup(token);
    config_load_secrets(&c, &p);
    ok(said("the first line of"), "an empty token file is an error");
    finish();
    unlink(token);
    begin();
    c.auth_token_file = xstrdup(token);
    config_load_secrets(&c, &p);
    ok(said("auth_token_file: ") && said("No such file"), "a missing token file is an error");
    finish();
    unlink(pem);
    rmdir(dir);
}

/* --- out again */

static const char busy[] =
    "listen: ['127.0.0.1:1', 'unix:/a \"b\" \\c']\nauth_token: t0ken\nidle_ttl: 1h0m0.25s\n"
    "env: {A: 'x,y=z', B: ''}\ndefault_cpu_cores: 1.001\nmax_upload_bytes: 3Gi\n"
    "audit_fsync: always\nstate_reserve_mb: 7\n"
    "use_async_exec: false\nallowed_hosts: [a]\nuser: somebody\n";

/* An enum's values are the table's choices in their order. */
static void test_enums(void)
{
    static const char *const fsyncs[] = {"never", "batch", "always"};
    for (int i = 0; i < _ISOLATION_MAX; i++) {
        char text[64];
        begin();
        snprintf(text, sizeof(text), "min_isolation: %s\n", isolation_name((enum isolation)i));
        yaml(text);
        ok(p.n_errors == 0 && (int)c.min_isolation == i, "%s", one_line(text));
        finish();
    }
    for (unsigned i = AUDIT_FSYNC_NEVER; i <= AUDIT_FSYNC_ALWAYS; i++) {
        char text[64];
        begin();
        snprintf(text, sizeof(text), "audit_fsync: %s\n", fsyncs[i]);
        yaml(text);
        ok(p.n_errors == 0 && c.audit.fsync == i, "%s", one_line(text));
        finish();
    }
    begin();
    ok(c.manager.journal_full == JOURNAL_FULL_TRUNCATE, "journals are cut");
    yaml("journal_full: block\n");
    ok(c.manager.journal_full == JOURNAL_FULL_BLOCK, "or their commands wait");
    yaml("journal_full: bloc\n");
    ok(said("'bloc' is not one of truncate|block") && c.manager.journal_full == JOURNAL_FULL_BLOCK,
       "another word changes nothing");
    finish();
}

static void test_round_trip(void)
{
    begin();
    yaml(busy);
    c.http.tls_key = xstrdup("line\nline\n");
    _cleanup_strbuf_ struct strbuf wire = STRBUF_INIT(1 << 20), again = STRBUF_INIT(1 << 20);
    ok(p.n_errors == 0 && config_serialize(&c, &wire) == 0, "serialize");
    struct config copy;
    struct error err = {0};
    config_init(&copy);
    ok(config_deserialize(&copy, wire.data, wire.len, &err) == 0, "deserialize %s", err.message);
    ok(config_serialize(&copy, &again) == 0 && again.len == wire.len &&
           memcmp(again.data, wire.data, wire.len) == 0,
       "the same again");
    ok(strcmp(copy.api.token, "t0ken") == 0 && strcmp(copy.http.tls_key, "line\nline\n") == 0 &&
           copy.manager.idle_ttl_ms == 3600250 && strcmp(copy.listen[1], "unix:/a \"b\" \\c") == 0,
       "secrets and odd characters included");
    config_done(&copy);
    config_init(&copy);
    ok(config_deserialize(&copy, wire.data, wire.len - 1, &err) < 0, "cut short is an error");
    config_done(&copy);
    finish();
}

/* A process that does one part of the work is told that part, and nothing of the rest. */
static void test_part(void)
{
    _cleanup_config_ struct config other;
    _cleanup_strv_ char **list = NULL;
    struct error err = {0};
    begin();
    yaml("auth_token: t0ken\nallowed_hosts: ['a=b.example', 'c,d.example']\n"
         "gateway_idle_timeout: 1500ms\ngateway_max_connections: 7\nimages_jobs: 3\n");
    config_list_part(&c, offsetof(struct config, gateway), sizeof(c.gateway), &list);
    bool has_more = false;
    for (char **v = list; v && *v; v++)
        has_more |= strstr(*v, "t0ken") || strncmp(*v, "images", 6) == 0;
    ok(strv_length(list) == 8 && !has_more, "six numbers and two hosts");
    config_init(&other);
    ok(config_load_part(&other, list, &err) == 0, "read back %s", err.message);
    ok(other.gateway.idle_timeout_ms == 1500 && other.gateway.max_connections == 7 &&
           other.gateway.request_timeout_ms == c.gateway.request_timeout_ms &&
           strv_length(other.gateway.allow_hosts) == 2 &&
           strcmp(other.gateway.allow_hosts[0], "a=b.example") == 0 &&
           strcmp(other.gateway.allow_hosts[1], "c,d.example") == 0 && !other.gateway.deny_hosts,
       "as it was, commas and equals signs included");
    ok(config_load_part(&other, (char *[]){(char *)"blanks", NULL}, &err) < 0 &&
           config_load_part(&other, (char *[]){(char *)"blank=1", NULL}, &err) < 0 &&
           config_load_part(&other, (char *[]){(char *)"blanks=x", NULL}, &err) < 0,
       "what is no setting is refused");
    finish();
}

static void test_print(void)
{
    begin();
    yaml(busy);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(1 << 20), again = STRBUF_INIT(1 << 20);
    ok(config_print(&c, &text) == 0, "print");
    ok(!strstr(text.data, "t0ken") && strstr(text.data, "auth_token: \"(set)\""), "token masked");
    finish();
    begin();
    yaml(text.data);
    ok(p.n_errors == 0, "what is printed can be read (%s)", errors());
    ok(config_print(&c, &again) == 0 && strcmp(text.data, again.data) == 0, "and is the same");
    finish();
}

static void test_table(void)
{
    _cleanup_strbuf_ struct strbuf help = STRBUF_INIT(1 << 20);
    ok(config_print_help(&help) == 0, "help");
    bool all = true, unique = true;
    config_for_each_key(k) {
        char flag[80];
        snprintf(flag, sizeof(flag), "--%s", k->name);
        for (char *s = flag; *s; s++)
            *s = *s == '_' ? '-' : *s;
        all = all && (strstr(help.data, flag) || (k->flags & KEY_INTERNAL));
        unique = unique && config_key_find(k->name) == k;
    }
    ok(all, "every key is in the help");
    ok(unique, "names are unique");
    ok(strcmp(config_suggest("exec_timout"), "exec_timeout") == 0 && !config_suggest("qqqqqqqq"),
       "suggestions");
}

/* argv: the example file, which is made of the table (docs/reference.py). */
static void test_example(const char *example_path)
{
    _cleanup_strbuf_ struct strbuf example = STRBUF_INIT(1 << 20);
    ok(fd_read_file_at(AT_FDCWD, example_path, &example) == 0, "read %s", example_path);
    config_for_each_key(k) {
        if (k->flags & KEY_INTERNAL)
            continue;
        char line[80];
        snprintf(line, sizeof(line), "%s:", k->name);
        ok(example.data && strstr(example.data, line), "%s is in the example", k->name);
    }
    begin();
    config_load_yaml(&c, "example", example.data, example.len, &p);
    ok(p.n_errors == 0, "the example can be read (%s)", errors());
    finish();
}

/* A key that is set and does nothing is a mistake of the operator's, and must be seen. */
static void test_keys_without_effect(void)
{
    static const struct {
        const char *text, *key;
        bool used;
    } cases[] = {
        {"webhook_secret: x\n", "webhook_secret", false},
        {"webhook_queue: 9\n", "webhook_queue", false},
        {"webhook_timeout: 5s\n", "webhook_timeout", false},
        {"webhook_url: http://x.test/\nwebhook_tries: 2\n", "webhook_tries", true},
        {"warm_pool_min: 1\n", "warm_pool_min", false},
        {"warm_pool_max: 3\nwarm_pool_size: 2\n", "warm_pool_max", false},
        {"warm_pool_size: 3\nwarm_pool_autosize: true\n", "warm_pool_size", false},
        {"warm_pool_autosize: true\nwarm_pool_max: 3\n", "warm_pool_max", true},
        {"warm_pool_size: 3\n", "warm_pool_size", true},
        {"audit: false\naudit_fsync: always\n", "audit_fsync", false},
        {"audit: false\naudit_retention: 24h\n", "audit_retention", false},
        {"audit_retention: 24h\n", "audit_retention", true},
        {"images: false\nimages_registries: ['*']\n", "images_registries", false},
        {"images: false\nimages_jobs: 3\n", "images_jobs", false},
        {"images_jobs: 3\n", "images_jobs", true},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_free_ char *said = xasprintf("%s has no effect", cases[i].key);
        begin();
        yaml(cases[i].text);
        config_check(&c, &p);
        bool warned = p.warnings.data && strstr(p.warnings.data, said);
        ok(p.n_errors == 0 && warned != cases[i].used, "%s: %s %s", cases[i].key,
           cases[i].used ? "is used" : "has no effect, and that is said", errors());
        finish();
    }
    begin();
    yaml("audit: false\nimages: false\n");
    config_check(&c, &p);
    ok(!p.warnings.len, "what is not set is not warned about (%s)",
       p.warnings.data ? p.warnings.data : "");
    finish();
}

int main(int argc, char **argv)
{
    test_defaults();
    test_types();
    test_bad_values();
    test_nesting();
    test_bad_yaml();
    test_order();
    test_flags();
    test_hide();
    test_variables();
    test_runtimes();
    test_checks();
    test_keys_without_effect();
    test_relative();
    test_secrets();
    test_enums();
    test_round_trip();
    test_part();
    test_print();
    test_table();
    if (argc > 1)
        test_example(argv[1]);
    return tap_done();
}
