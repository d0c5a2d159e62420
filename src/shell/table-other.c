/* SPDX-License-Identifier: Apache-2.0 */
/* Options of programs that talk to others or look at the system, and programs that can run others
 * whatever their options are. */
#include "base/alloc.h"
#include "shell/options.h"

#define FIRST PROGRAM_FIRST

static const struct shell_program rows[] = {
    {"watch", FIRST, 0,
     "-bcdegprtwx -nq: --beep --color --differences? --errexit --chgexit --interval: --precise "
     "--no-rerun --no-title --exec --no-wrap --equexit:"},
    {"ssh", FIRST, 0, "-46AaCfGgKkMNnqsTtVvXxYy -BbcDeIiJLlmOpQRWw: -E:> -S: -F:! -o:!"},
    {"scp", 0, 0, "-346ABCOpqRrsTv -ciJlPX: -S:! -o:! -F:! -D:!"},
    {"sftp", 0, 0, "-46AaCfNpqrv -BciJlPRX: -b:! -S:! -s:! -o:! -F:! -D:!"},
    {"rsync", 0, 0,
     "-0468abcdghHiklmnopqrstuvxyzACDEFIKLNOPRSUWX -BfMT: -e:! --rsh:! --rsync-path:! --archive "
     "--verbose --quiet --recursive --relative --update --links --copy-links --perms --times "
     "--group "
     "--owner --delete --delete-after --delete-before --delete-during --delete-excluded --exclude: "
     "--exclude-from:< --include: --include-from:< --files-from:< --dry-run --checksum --compress "
     "--progress --partial --partial-dir: --stats --human-readable --itemize-changes --size-only "
     "--ignore-existing --existing --inplace --append --mkpath --info: --bwlimit: --timeout: "
     "--backup --backup-dir: --suffix: --temp-dir: --link-dest: --copy-dest: --compare-dest: "
     "--max-size: --min-size: --chmod: --chown: --filter: --log-file:> --out-format: --port: "
     "--password-file:< --numeric-ids --one-file-system --sparse --hard-links --acls --xattrs"},
    {"curl", 0, 0,
     "-0123456789#aBfgGiIjklLMnNOpqRsSvVZJ -AbCdeEFHmPQrtTuUwxXYyz: -ocD:> -K:! --config:! "
     "--output:> "
     "--output-dir:> --remote-name --remote-name-all --remote-header-name --create-dirs --request: "
     "--header: --data: --data-raw: --data-binary: --data-urlencode: --data-ascii: --form: "
     "--form-string: --json: --get --head --include --location --location-trusted --silent "
     "--show-error --fail --fail-with-body --fail-early --insecure --verbose --user: --user-agent: "
     "--referer: --cookie: --cookie-jar:> --dump-header:> --max-time: --connect-timeout: --retry: "
     "--retry-delay: --retry-max-time: --retry-connrefused --retry-all-errors --compressed "
     "--write-out: --upload-file:< --range: --continue-at: --proxy: --noproxy: --cacert:< "
     "--cert:< --key:< --capath:< --resolve: --connect-to: --interface: --ipv4 --ipv6 --http1.0 "
     "--http1.1 --http2 --http3 --tlsv1.2 --tlsv1.3 --url: --globoff --parallel --progress-bar "
     "--no-progress-meter --trace:> --trace-ascii:> --stderr:> --netrc --netrc-file:< "
     "--unix-socket: "
     "--limit-rate: --max-redirs: --max-filesize: --engine:! --libcurl:> --etag-save:> "
     "--etag-compare:< --remote-time --oauth2-bearer: --no-buffer --path-as-is --disable"},
    {"wget", 0, 0,
     "-46bcdEFhHkKLmNnpqrSvx -ABDGIlQRTUtw: -e:! -Pa:> -Oo:> -i:< --execute:! --use-askpass:! "
     "--config:! --output-document:> --output-file:> --directory-prefix:> --quiet --verbose "
     "--no-verbose --continue --timestamping --tries: --timeout: --recursive --level: "
     "--no-parent --page-requisites --convert-links --mirror --header: --post-data: --post-file:< "
     "--method: --body-data: --body-file:< --user-agent: --no-check-certificate --show-progress "
     "--spider --server-response --input-file:< --wait: --limit-rate: --no-clobber "
     "--content-disposition --user: --password: --max-redirect: --no-proxy --no-directories "
     "--accept: --reject: --domains: --span-hosts --save-cookies:> --load-cookies:<"},
    {"openssl", PROGRAM_OPAQUE | PROGRAM_SINGLE, 0, "-engine:! -provider:! -provider-path:!"},
    {"man", 0, 0, "-kfwaK -s: -P:! -H?! -l --pager:! --html?! --all --where --path --locale:"},
    {"nc ncat netcat", 0, 0,
     "-46klnNuvzZUdhrtDC -iIOpPqsTVwXx: -e:! -c:! --exec:! --sh-exec:! --lua-exec:!"},
    {"nmap", PROGRAM_OPAQUE, 0, ""},
    {"tcpdump", 0, 0, "-ADeflLnNpqStuvxX -cBCiGWsyTFEm: -w:> -r:< -z:!"},
    {"vi vim nvim view vimdiff rvim ex ed emacs nano pico joe micro kak helix hx gdb lldb dc m4 "
     "crontab "
     "at batch tmux screen zellij socat start-stop-daemon run-parts capsh gnuplot octave psql "
     "mysql "
     "mariadb sqlite sqlite3 mongo mongosh redis-cli ip docker docker-compose podman buildah "
     "nerdctl "
     "kubectl helm oc lxc-execute lxc incus machinectl systemctl vagrant ansible "
     "ansible-playbook source . coproc sg newgrp less more most pg "
     "logrotate update-alternatives debugfs mtools fzf peco dialog whiptail zenity xterm "
     "gnome-terminal konsole openvt jshell code subl rpmbuild debuild "
     "dpkg-buildpackage check-jsonschema pre-commit husky lefthook act circleci latexmk pdflatex "
     "latex "
     "tex xelatex lualatex pandoc gs ghostscript convert magick ffmpeg",
     PROGRAM_OPAQUE, 0, ""},
};
const struct shell_table shell_table_other = {rows, ELEMENTS(rows)};
