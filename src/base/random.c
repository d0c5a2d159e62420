#include "base/random.h"

#include <stdlib.h>
#include <sys/random.h>

void random_id(char *out, size_t len)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t done = 0;
    while (done < len) {
        unsigned char bytes[64];
        if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
            abort();
        /* 252 = 7 * 36: bytes above it would favour the first letters. */
        for (size_t i = 0; i < sizeof(bytes) && done < len; i++)
            if (bytes[i] < 252)
                out[done++] = alphabet[bytes[i] % 36];
    }
    out[len] = 0;
}
