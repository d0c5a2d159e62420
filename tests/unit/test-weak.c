/* SPDX-License-Identifier: Apache-2.0 */
/* base/weak.h: what a late callback finds. */
#include "base/weak.h"

#include "tests/unit/tap.h"

struct thing {
    struct weak *weak;
};

int main(void)
{
    struct thing t = {0};
    struct weak *first = weak_ref(&t.weak, &t);
    struct weak *second = weak_ref(&t.weak, &t);
    ok(first == second && first == t.weak, "all references of an object are one");
    ok(weak_get(first) == &t, "a reference leads to its object");
    ok(weak_unref(second) == &t, "a callback that comes in time finds the object");
    weak_clear(&t.weak);
    ok(!t.weak && !weak_get(first), "a reference that outlives its object leads nowhere");
    struct weak *next = weak_ref(&t.weak, &t);
    ok(weak_get(next) == &t && !weak_get(first), "references made anew do not wake older ones");
    ok(!weak_unref(first), "a callback that comes late finds nothing");
    weak_clear(&t.weak);
    ok(!weak_unref(next), "the last one given back frees all of it");
    weak_clear(&t.weak);
    ok(!weak_get(NULL) && !weak_unref(NULL),
       "an object without references and no reference are fine");
    return tap_done();
}
