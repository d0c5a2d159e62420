/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over files and directories: the corpus as an ordinary test, in builds that
 * have no fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t inputs;

static int run_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = f ? malloc(size ? size : 1) : NULL;
    if (!data) {
        perror(path);
        if (f)
            fclose(f);
        return 1;
    }
    size_t n = fread(data, 1, size, f);
    fclose(f);
    /* Exactly as long as the input, so that a sanitizer sees a read beyond it. */
    uint8_t *exact = realloc(data, n ? n : 1);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    inputs++;
    return 0;
}

static int run_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(st.st_mode))
        return run_file(path, (size_t)st.st_size);
    DIR *dir = opendir(path);
    int r = dir ? 0 : 1;
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        char below[4096];
        if (e->d_name[0] == '.')
            continue;
        snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
        r = run_path(below);
    }
    if (dir)
        closedir(dir);
    return r;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (run_path(argv[i]) != 0)
            return 1;
    printf("%zu inputs\n", inputs);
    return inputs ? 0 : 1;
}
