/* SPDX-License-Identifier: Apache-2.0 */
/* Local directories as tar streams.
 *
 * What comes out of a sandbox is hostile: tree_unpack() writes below its directory only. It walks
 * every path one component at a time with O_NOFOLLOW, so a link made by an earlier entry (or found
 * there) is never followed; absolute names and ".." are refused; links are made only if they cannot
 * lead out, second names only of regular files; devices, sockets and set-id bits are left out.
 * Files are written under another name and then renamed. */
#pragma once

struct sbx_error;

/* What is in dir, with names relative to it, to a descriptor. *ret_skipped counts what a tar cannot
 * or should not carry; each is warned of. */
int tree_pack(const char *dir, int out_fd, int *ret_skipped, struct sbx_error *err);
/* Into dir, which is made if it does not exist. Files of the same name are replaced. */
int tree_unpack(int in_fd, const char *dir, int *ret_skipped, struct sbx_error *err);
