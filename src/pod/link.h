/* SPDX-License-Identifier: Apache-2.0 */
/* mas-link: the only way into a sandbox that is a pod.
 *
 * Theory of operation. The pod has two containers with users of their own. One has the runner and
 * its commands; the other one has this program, which never runs a command. They share one
 * directory. The link listens there, the runner connects before it serves anything and so before
 * any command exists, and the link takes exactly that one peer: the name is removed and the socket
 * closed. From then on there is no door in the shared directory.
 *
 * A connection of the control plane comes by a process that the cluster starts in the link's
 * container (mas-link --attach). It connects to a second socket, in a directory that only the
 * link's container has, and the link hands that very connection to the runner over the channel. So
 * no byte of it passes through the link, and a runner that was taken over finds nothing in the link
 * that reads what it sends: whatever comes back over the channel ends the link.
 *
 * With --direct it starts a second program beside itself, mas-link-tls (pod/tls.h), which takes
 * connections from the network and connects to the same door. Its end is the link's end: the key
 * that the broker knows is gone with it.
 *
 * With --events it hands the runner a directory first, before any connection. The runner files the
 * output of commands there for another container; the sandbox's own container does not have that
 * directory, so that no command can change what was filed.
 *
 * Each connection replaces the one before, in the runner. When the link ends, the channel is
 * closed, and the runner ends with all of its commands; when the runner ends, so does the link. */
#pragma once

#define LINK_DOOR     "/mas-link-door/socket"
#define LINK_LIFELINE 3 /* of mas-link-tls: a socket that nothing is sent over */

struct link_options {
    const char *channel_path, *door_path;
    const char *port, *peer; /* of mas-link-tls; NULL: nothing comes from the network */
    const char *events_path; /* handed to the runner, which files output there; NULL: it does not */
};

/* Serves until the runner is gone. 0, or -errno with *ret_what naming the step that failed. */
int link_serve(const struct link_options *o, const char **ret_what);
/* A connection to the link at its door, which it hands to the runner; or -errno. */
int link_connect_door(const char *path);
/* Copies standard input to the runner and the runner to standard output, until either ends. */
int link_attach(const char *door_path, const char **ret_what);
