/* SPDX-License-Identifier: Apache-2.0 */
/* Gives up everything that the interceptor does not need, which is nearly all: see confine.c. */
#pragma once

#include <stdbool.h>

struct error;

/* keep_user: there is no other user to become. After this the process can only compute, and read
 * and write the descriptors that it has or is sent. */
int intercept_confine(bool keep_user, struct error *err);
