/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's private key, in DIR/warden/secret.key, which the control plane does not see. Seals
 * are closed for it, and the keys of interceptors' certificates are derived from it. */
#pragma once

#include "secret/seal.h"

struct error;

/* Reads the key, or makes one where there is none; dir: DIR/warden. A file that others may read, or
 * that is no key, is an error: seals of the lost key would be lost silently. */
int seal_key_open(const char *dir, uint8_t ret[SEAL_KEY_SIZE], struct error *err);
