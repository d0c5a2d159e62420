/* SPDX-License-Identifier: Apache-2.0 */
/* What an import is refused for before anything is stored: each fault by its own name. */
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "keeper/internal.h"
#include "tests/unit/tap.h"

static void test_refused(const char *request, int upload, const char *message)
{
    struct error err = {0};
    struct worker w = {.upload = upload};
    _cleanup_json_ json_t *o = json_parse_object(request, strlen(request), &err);
    ok(o && worker_import(&w, o, &err) < 0 && strstr(err.message, message), "%s: %s", request,
       err.message);
}

int main(void)
{
    int ends[2];
    if (pipe(ends) < 0)
        return EXIT_FAILURE;
    test_refused("{}", -1, "there is no upload");
    test_refused("{\"format\": \"oci-archive\"}", -1, "there is no upload");
    test_refused("{\"format\": \"floppy\"}", ends[0], "there is no image format 'floppy'");
    fd_close(&ends[0]);
    fd_close(&ends[1]);
    return tap_done();
}
