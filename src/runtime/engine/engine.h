/* SPDX-License-Identifier: Apache-2.0 */
/* Runtimes that are containers of an engine: podman and docker, with the runtime that the engine
 * uses by itself, or with one that has a kernel of its own. */
#pragma once

#include "runtime/runtime.h"

extern const struct runtime_ops runtime_podman, runtime_podman_gvisor, runtime_podman_kata;
extern const struct runtime_ops runtime_docker, runtime_docker_gvisor, runtime_docker_kata;
