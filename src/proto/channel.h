/* SPDX-License-Identifier: Apache-2.0 */
/* What a descriptor is that comes over the channel of a sandbox that runs: one byte says it. */
#pragma once

#define CHANNEL_CONNECTION "c" /* the control plane's newest connection */
#define CHANNEL_CLIENT     "l" /* that of another client, which its first byte tells apart */
/* The directory in which the output of commands is filed for the stream container of a pod. */
#define CHANNEL_EVENTS   "e"
#define CHANNEL_LISTENER "v" /* for mas-vmm: the machine's vsock socket */
#define CHANNEL_API      "a" /* for mas-vmm: a socket that leads to the emulator's control socket */
#define CHANNEL_LOG      "o" /* for mas-vmm: the operator's file for the guest's console */
#define CHANNEL_METRICS  "m" /* for mas-vmm: the operator's file for what Firecracker counts */
/* For mas-vmm, each with two or three files (proto/vm.h): where the machine is to be kept, and what
 * it is to go back to. It answers with a struct vm_answer. */
#define CHANNEL_SAVE   "k"
#define CHANNEL_RETURN "b"
