/* SPDX-License-Identifier: Apache-2.0 */
/* The kube runtime: a sandbox is a pod of a Kubernetes cluster, made by the broker (src/kube) and
 * reached through it. Its connections may break: that is no end of the sandbox. */
#pragma once

struct runtime_ops;
extern const struct runtime_ops runtime_kube, runtime_kube_gvisor, runtime_kube_kata;
