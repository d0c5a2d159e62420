/* SPDX-License-Identifier: Apache-2.0 */
/* Where checkpoints go besides the control plane. A sink that fails is logged, not fatal. */
#pragma once

#include "warden/sign.h"

void signer_publish(struct signer *s, const struct checkpoint *c);
