/* SPDX-License-Identifier: Apache-2.0 */
/* kubeconfigs, the files of a pod, and credentials of programs: what is taken, what is refused by
 * name. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "kube/access.h"
#include "kube/plugin.h"
#include "tests/unit/tap.h"

#define CLUSTER(members) "clusters:\n- name: c\n  cluster:\n" members
#define USER(members)    "users:\n- name: u\n  user:\n" members
#define CONTEXT          "contexts:\n- name: x\n  context: {cluster: c, user: u, namespace: n}\n"
#define CURRENT          "current-context: x\n"
#define GOOD_CLUSTER                                                                               \
    CLUSTER("    server: https://10.0.0.1:6443/\n    certificate-authority-data: Q0E=\n")
#define GOOD_USER USER("    token: abc\n")

static char dir[] = "/tmp/test-kube-access-XXXXXX";

static int parse(struct kube_access *ret, const char *text, bool plugin, struct error *err)
{
    struct kube_access_options o = {.allow_plugin = plugin};
    *err = (struct error){0};
    return kube_access_parse_config(ret, text, strlen(text), "file", dir, &o, err);
}

static void write_file(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    fputs(text, f);
    fclose(f);
}

static void check_good(void)
{
    struct error err;
    _cleanup_kube_access_ struct kube_access a = {0}, b = {0};
    ok(parse(&a, CURRENT CONTEXT GOOD_CLUSTER GOOD_USER, false, &err) == 0, "a kubeconfig: %s",
       err.message);
    ok(strcmp(a.server, "https://10.0.0.1:6443") == 0 && strcmp(a.ca, "CA") == 0 &&
           strcmp(a.token, "abc") == 0 && strcmp(a.namespace_, "n") == 0,
       "server, authority, token, namespace");
    _cleanup_json_ json_t *o = kube_access_format(&a);
    ok(kube_access_parse(&b, o, &err) == 0 && strcmp(b.server, a.server) == 0 &&
           strcmp(b.token, "abc") == 0 && !b.plugin && !b.key,
       "and over to another process");
}

static void check_files(void)
{
    struct error err;
    _cleanup_kube_access_ struct kube_access a = {0};
    write_file("ca.pem", "AUTHORITY");
    write_file("cert.pem", "CERT");
    write_file("key.pem", "KEY");
    write_file("token", " secret\n");
    int r = parse(
        &a,
        CURRENT CONTEXT CLUSTER("    server: HTTPS://host\n    certificate-authority: ca.pem\n"
                                "    tls-server-name: name\n    proxy-url: http://p:3128\n")
            USER("    client-certificate: cert.pem\n    client-key: key.pem\n"
                 "    token: old\n    tokenFile: token\n"),
        false, &err);
    ok(r == 0 && strcmp(a.ca, "AUTHORITY") == 0 && strcmp(a.key, "KEY") == 0 &&
           strcmp(a.certificate, "CERT") == 0,
       "files beside it are read: %s", err.message);
    ok(r == 0 && strcmp(a.token, "secret") == 0 && strstr(a.token_file, "/token") &&
           strstr(a.ca_file, "/ca.pem"),
       "a token's file counts before the token, and is read again later");
    ok(r == 0 && strcmp(a.server, "https://host") == 0 && strcmp(a.proxy, "http://p:3128") == 0 &&
           strcmp(a.server_name, "name") == 0,
       "proxy and name");
}

static const struct {
    const char *text, *words;
} refused[] = {
    {CURRENT CONTEXT CLUSTER("    server: https://h\n    insecure-skip-tls-verify: true\n")
         GOOD_USER,
     "insecure-skip-tls-verify is refused"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    auth-provider: {name: gcp}\n"),
     "'auth-provider' is refused"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    username: a\n    password: b\n"),
     "'username' is refused"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    token: a\n    as: root\n"), "'as' is refused"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    exec: {command: x}\n"), "exec_plugins"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    tokn: a\n"), "'tokn' is not known"},
    {CURRENT CONTEXT CLUSTER("    server: http://h\n    certificate-authority-data: Q0E=\n")
         GOOD_USER,
     "without TLS"},
    {CURRENT CONTEXT CLUSTER("    server: https://h\n") GOOD_USER, "no certificate-authority"},
    {CURRENT CONTEXT CLUSTER("    certificate-authority-data: Q0E=\n") GOOD_USER, "server"},
    {CURRENT CONTEXT CLUSTER("    server: https://u:p@h\n    certificate-authority-data: Q0E=\n")
         GOOD_USER,
     "without a user"},
    {CURRENT CONTEXT CLUSTER("    server: https://h\n    certificate-authority-data: '%%'\n")
         GOOD_USER,
     "base64"},
    {CURRENT CONTEXT CLUSTER("    server: https://h\n    certificate-authority-data: Q5E=\n")
         GOOD_USER,
     "PEM text"},
    {CURRENT CONTEXT CLUSTER("    server: https://h\n    certificate-authority: nowhere\n")
         GOOD_USER,
     "nowhere"},
    {CURRENT CONTEXT CLUSTER("    server: https://h\n    certificate-authority-data: Q0E=\n"
                             "    proxy-url: https://p\n") GOOD_USER,
     "proxy-url"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    client-certificate-data: Q0E=\n"), "go together"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    extensions: []\n"), "no credential"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    token: \"a b\"\n"), "token"},
    {CURRENT CONTEXT GOOD_CLUSTER USER("    token: \"a\\r\\nX: y\"\n"), "token"},
    {CURRENT CONTEXT GOOD_CLUSTER, "no user 'u'"},
    {CURRENT GOOD_CLUSTER GOOD_USER, "no context 'x'"},
    {CONTEXT GOOD_CLUSTER GOOD_USER, "no current-context"},
    {"a: &b 1\nc: *b\n", "aliases"},
    {"", "empty"},
    {"[", "not YAML"},
};

static void check_refused(void)
{
    struct error err;
    struct kube_access a = {0};
    for (size_t i = 0; i < ELEMENTS(refused); i++)
        ok(parse(&a, refused[i].text, false, &err) < 0 && strstr(err.message, refused[i].words),
           "refused: %s (%s)", refused[i].words, err.message);
    struct kube_access_options o = {.context = "y"};
    const char *text = CURRENT CONTEXT GOOD_CLUSTER GOOD_USER;
    err = (struct error){0};
    ok(kube_access_parse_config(&a, text, strlen(text), "file", dir, &o, &err) < 0 &&
           strstr(err.message, "no context 'y'") && strstr(err.message, "there are: x"),
       "an unknown context: %s", err.message);
}

static void check_pod(void)
{
    struct error err = {0};
    _cleanup_kube_access_ struct kube_access a = {0};
    write_file("ca.crt", "CA");
    write_file("namespace", "here");
    ok(kube_access_load_pod(&a, dir, "::1", "443", &err) == 0 &&
           strcmp(a.server, "https://[::1]:443") == 0 && strcmp(a.token, "secret") == 0 &&
           strcmp(a.namespace_, "here") == 0,
       "the files of a pod: %s", err.message);
    struct kube_access b = {0};
    ok(kube_access_load_pod(&b, dir, NULL, NULL, &err) < 0 && strstr(err.message, "no pod"),
       "outside of a cluster: %s", err.message);
}

#define EXEC                                                                                       \
    "    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: ./give\n"        \
    "      args: [one]\n      env: [{name: A, value: b}]\n"

static void check_plugin(void)
{
    struct error err;
    _cleanup_kube_access_ struct kube_access a = {0};
    char path[200];
    int r = parse(&a, CURRENT CONTEXT GOOD_CLUSTER USER(EXEC), true, &err);
    ok(r == 0 && strcmp(a.plugin[1], "one") == 0 && strcmp(a.plugin_env[0], "A=b") == 0,
       "an allowed program: %s", err.message);
    write_file("give", "#!/bin/sh\nprintf '{\"apiVersion\":\"client.authentication.k8s.io/v1\","
                       "\"kind\":\"ExecCredential\",\"status\":{\"token\":\"t-%s-%s\"}}' $1 $A\n");
    snprintf(path, sizeof(path), "%s/give", dir);
    chmod(path, 0755);
    struct kube_plugin p = {.fd = -1};
    ok(kube_plugin_start(&p, &a) == 0 && kube_plugin_ask(&p) == 0, "it is started and asked");
    char text[4096];
    ssize_t n = read(p.fd, text, sizeof(text));
    _cleanup_kube_credential_ struct kube_credential c = {0};
    ok(n > 0 && kube_credential_parse(&c, text, (size_t)n, a.plugin_version, &err) == 0 &&
           strcmp(c.token, "t-one-b") == 0,
       "its credential: %s", c.token ? c.token : err.message);
    /* One that has left its group, closed its output and stays. */
    write_file("give",
               "#!/usr/bin/python3\nimport os, time\n"
               "os.setpgid(0, os.getpgid(os.getppid()))\nos.write(1, b'left')\nos.close(1)\n"
               "time.sleep(1000)\n");
    struct pollfd answer = {.fd = p.fd, .events = POLLIN};
    ok(kube_plugin_ask(&p) == 0 && poll(&answer, 1, 60000) == 1 &&
           read(p.fd, text, sizeof(text)) == 4,
       "a program that left its group is not waited for");
    kube_plugin_stop(&p);
    static const char *const bad[] = {
        "-",
        "{}",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"v0\"}",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\"}",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","
        "\"status\":{\"token\":\"a\\nb\"}}",
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","
        "\"status\":{\"clientKeyData\":\"k\"}}"};
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct kube_credential none = {0};
        err = (struct error){0};
        ok(kube_credential_parse(&none, bad[i], strlen(bad[i]), a.plugin_version, &err) < 0,
           "no credential: %s", err.message);
    }
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    check_good();
    check_files();
    check_refused();
    check_pod();
    check_plugin();
    static const char *const names[] = {"ca.pem", "cert.pem", "key.pem",  "token",
                                        "ca.crt", "give",     "namespace"};
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        char path[200];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
    return tap_done();
}
