/* The process runtime's cells: the runner as an ordinary process of an ordinary user, in nothing
 * but a pid namespace, which makes sure that it ends with all its children. */
#pragma once

#include <sys/types.h>

struct warden;

/* As root of a warden's user namespace: this user again, in one more. */
int plain_become_caller(uid_t uid, gid_t gid);
