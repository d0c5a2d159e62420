/* SPDX-License-Identifier: Apache-2.0 */
/* The broker of a cluster may run elsewhere: in a cluster, in a container of its own beside the
 * daemon's, the only one that has the credential. What the warden starts then is a relay, which
 * passes records and descriptors between the control plane's socket and the broker's, and reads
 * neither. */
#pragma once

struct error;

/* Connects to the socket of a mas-kube --listen, and waits as long as there is none. The
 * descriptor, or negative with err set. To be called with the rights that the socket wants. */
int kube_relay_connect(const char *path, struct error *err);
/* Until one side has ended; both stay open. What is on its way then is lost, which is no harm: each
 * connection has an epoch of its own, and a control plane sends again what another epoch has not
 * answered (proto/kube.h). */
void kube_relay_run(int control, int broker);
