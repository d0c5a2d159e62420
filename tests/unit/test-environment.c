/* SPDX-License-Identifier: Apache-2.0 */
/* Whose variables win in the environment of a command. */
#include <string.h>

#include "base/alloc.h"
#include "sandbox/environment.h"
#include "tests/unit/tap.h"

static const char *value(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return "";
}

static void test_order(void)
{
    char *image[] = {"PATH=/image", "SSL_CERT_FILE=/image.crt", "PIP_CERT=/image.crt",
                     "CURL_CA_BUNDLE=/image.crt", NULL};
    char *sandbox[] = {"PIP_CERT=/sandbox.crt", NULL};
    char *call[] = {"CURL_CA_BUNDLE=/call.crt", NULL};
    struct environment from = {.box = "",
                               .image = image,
                               .sandbox = sandbox,
                               .call = call,
                               .authorities = "/etc/mas-authorities.crt"};
    _cleanup_strv_ char **env = environment_build(&from);
    ok(strcmp(value(env, "PATH"), "/image") == 0, "an image's variables win over the defaults");
    ok(strcmp(value(env, "SSL_CERT_FILE"), from.authorities) == 0,
       "but not over where the sandbox's authorities are: %s", value(env, "SSL_CERT_FILE"));
    ok(strcmp(value(env, "PIP_CERT"), "/sandbox.crt") == 0, "the sandbox's do");
    ok(strcmp(value(env, "CURL_CA_BUNDLE"), "/call.crt") == 0, "and the call's");
    from.authorities = NULL;
    _cleanup_strv_ char **plain = environment_build(&from);
    ok(strcmp(value(plain, "SSL_CERT_FILE"), "/image.crt") == 0,
       "without an interceptor the image's stay");
}

int main(void)
{
    test_order();
    return tap_done();
}
