/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the programs that show, make, move and remove files, and of the shell's own plain
 * builtins. */
#include "base/alloc.h"
#include "shell/options.h"

#define WRITES PROGRAM_WRITES

static const struct shell_program rows[] = {
    {"ls dir vdir", 0, 0,
     "-abcdfghiklmnopqrstuvx1ABCDFGHLNQRSUXZ -ITw: --all --almost-all --author --escape "
     "--block-size: --ignore-backups --color? --directory --dired --classify? --file-type "
     "--format: "
     "--full-time --no-group --group-directories-first --human-readable --si --dereference "
     "--dereference-command-line --dereference-command-line-symlink-to-dir --hide: --hyperlink? "
     "--indicator-style: --inode --ignore: --kibibytes --numeric-uid-gid --literal "
     "--hide-control-chars --show-control-chars --quote-name --quoting-style: --reverse "
     "--recursive --size --sort: --time: --time-style: --tabsize: --width: --context --zero"},
    {"tree", 0, 0,
     "-abcdfghilnpqrstuvxACDFJNQRSUX -ILPTH: -o:> --dirsfirst --filesfirst --gitignore "
     "--gitfile:< --infofile:< --info --prune --filelimit: --timefmt: --noreport --charset: "
     "--inodes "
     "--device --sort? --matchdirs --ignore-case --fromfile --fflinks --si --du --nolinks "
     "--metafirst --hintro:< --houtro:<"},
    {"stat", 0, 0, "-Lft -c: --cached: --dereference --file-system --format: --printf: --terse"},
    {"file", 0, 0,
     "-bcdDEhiIkKLlNnpqrsSvzZ0 -eFfP: -mM:< -C! --brief --checking-printout --debug --exclude: "
     "--exclude-quiet: --extension --separator: --files-from:< --no-dereference --mime --mime-type "
     "--mime-encoding --keep-going --list --dereference --magic-file:< --no-pad --no-buffer "
     "--preserve-date --parameter: --raw --special-files --no-sandbox --uncompress "
     "--uncompress-noreport --print0 --compile!"},
    {"du", 0, 0,
     "-0aAbcDhHklmLPsSx -Bdt: -X:< --null --all --apparent-size --block-size: --bytes --total "
     "--dereference-args --max-depth: --files0-from:< --human-readable --inodes --dereference "
     "--no-dereference --count-links --separate-dirs --si --summarize --threshold: --time? "
     "--time-style: --exclude-from:< --exclude: --one-file-system"},
    {"df", 0, 0,
     "-ahHiklPTv -Btx: --all --block-size: --human-readable --si --inodes --local --no-sync "
     "--output? --portability --sync --total --type: --print-type --exclude-type:"},
    {"realpath", 0, 0,
     "-emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet "
     "--relative-to: --relative-base: --strip --no-symlinks --zero"},
    {"readlink", 0, 0,
     "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --quiet "
     "--silent --verbose --zero"},
    {"basename", 0, 0, "-az -s: --multiple --suffix: --zero"},
    {"dirname", 0, 0, "-z --zero"},
    {"pwd", 0, 0, "-LP --logical --physical"},
    {"which", 0, 0,
     "-as --all --read-alias --skip-alias --read-functions --skip-functions --skip-dot "
     "--skip-tilde "
     "--show-dot --show-tilde --tty-only"},
    {"date", 0, 0,
     "-uR0 -d: -I? -f:< -r:< -s:! --date: --debug --file:< --iso-8601? --rfc-email --rfc-3339: "
     "--reference:< --set:! --utc --universal --resolution"},
    {"sleep true false", 0, 0, ""},
    {"seq", 0, 0, "-0123456789w -fs: --format: --separator: --equal-width"},
    {"mkdir", WRITES, 0, "-pvZ -m: --parents --verbose --mode: --context?"},
    {"rmdir", WRITES, 0, "-pv --parents --verbose --ignore-fail-on-non-empty"},
    {"touch", WRITES, 0,
     "-acfhm -dt: -r:< --no-create --date: --no-dereference --reference:< --time:"},
    {"cp", WRITES, 0,
     "-abdfHilLnPpRrsTuvxZ -S: -t:> --archive --attributes-only --backup? --copy-contents --debug "
     "--force --interactive --link --dereference --no-clobber --no-dereference --preserve? "
     "--no-preserve: --parents --recursive --reflink? --remove-destination --sparse: "
     "--strip-trailing-slashes --symbolic-link --suffix: --target-directory:> "
     "--no-target-directory --update? --verbose --one-file-system --context? "
     "--keep-directory-symlink"},
    {"mv", WRITES, 0,
     "-bfinTuvZ -S: -t:> --backup? --debug --exchange --force --interactive --no-clobber --no-copy "
     "--strip-trailing-slashes --suffix: --target-directory:> --no-target-directory --update? "
     "--verbose --context"},
    {"ln", WRITES, 0,
     "-bdfFiLnPrsTv -S: -t:> --backup? --directory --force --interactive --logical "
     "--no-dereference "
     "--physical --relative --symbolic --suffix: --target-directory:> --no-target-directory "
     "--verbose"},
    {"install", WRITES, 0,
     "-bcCdDpsTvZ -gmoS: -t:> --backup? --compare --directory --group: --mode: --owner: "
     "--preserve-timestamps --strip --strip-program:! --suffix: --target-directory:> "
     "--no-target-directory --verbose --preserve-context --context?"},
    {"rm", WRITES, 0,
     "-dfiIrRv --force --interactive? --one-file-system --no-preserve-root --preserve-root? "
     "--recursive --dir --verbose"},
    {"unlink", WRITES, 0, ""},
    {"truncate", WRITES, 0, "-co -s: -r:< --no-create --io-blocks --size: --reference:<"},
    {"chmod", WRITES, 0,
     "-cfvRrwxXst --changes --silent --quiet --verbose --no-preserve-root --preserve-root "
     "--recursive --reference:< --dereference --no-dereference"},
    {"chown chgrp", WRITES, 0,
     "-cfhvRHLP --changes --dereference --no-dereference --from: --no-preserve-root "
     "--preserve-root --silent --quiet --verbose --recursive --reference:<"},
    {"tee", WRITES, 0, "-aip --append --ignore-interrupts --output-error?"},
    {"patch", WRITES, 0,
     "-bcEfflNnRsTtuvZ -BDFpVYz: -d:/ -i:< -o:> -r:> -e! -g:! --ed! --strip: --fuzz: "
     "--ignore-whitespace "
     "--context --normal --unified --forward --reverse --input:< --output:> --reject-file:> "
     "--ifdef: "
     "--merge? --remove-empty-files --set-utc --set-time --quoting-style: --backup "
     "--backup-if-mismatch --no-backup-if-mismatch --version-control: --prefix: "
     "--basename-prefix: --suffix: --get:! --batch --force --silent --quiet --verbose --dry-run "
     "--posix --directory:/ --reject-format: --binary --read-only:"},
    {"tar bsdtar gtar", WRITES | PROGRAM_BUNDLE, 0,
     "-AaBcdGhijJklmMnoOpPrRsStuUvwWxzZ -bgHKLNV: -C:/ -f:> -I:! -F:! -T:< -X:< "
     "--absolute-names --acls --add-file:< --after-date: --anchored --append --atime-preserve? "
     "--auto-compress --backup? --block-number --blocking-factor: --bzip2 --catenate "
     "--check-device --check-links --checkpoint? --checkpoint-action:! --clamp-mtime --compare "
     "--compress --concatenate --confirmation --create --delay-directory-restore --delete "
     "--dereference --diff --directory:/ --exclude-backups --exclude-caches --exclude-caches-all "
     "--exclude-caches-under --exclude-from:< --exclude-ignore-recursive: --exclude-ignore: "
     "--exclude-tag-all: --exclude-tag-under: --exclude-tag: --exclude-vcs --exclude-vcs-ignores "
     "--exclude: --extract --file:> --files-from:< --force-local --format: --full-time --get "
     "--group-map:< --group: --gunzip --gzip --hard-dereference --hole-detection: --ignore-case "
     "--ignore-command-error --ignore-failed-read --ignore-zeros --incremental --index-file:> "
     "--info-script:! --interactive --keep-directory-symlink --keep-newer-files --keep-old-files "
     "--label: --level: --list --listed-incremental:> --lzip --lzma --lzop --mode: --mtime: "
     "--multi-volume --new-volume-script:! --newer-mtime: --newer: --no-acls --no-anchored "
     "--no-auto-compress --no-check-device --no-delay-directory-restore --no-ignore-case "
     "--no-ignore-command-error --no-null --no-overwrite-dir --no-quote-chars: --no-recursion "
     "--no-same-owner --no-same-permissions --no-seek --no-selinux --no-unquote "
     "--no-verbatim-files-from --no-wildcards --no-wildcards-match-slash --no-xattrs --null "
     "--numeric-owner --occurrence? --old-archive --one-file-system --one-top-level? --overwrite "
     "--overwrite-dir --owner-map:< --owner: --pax-option: --portability --posix "
     "--preserve-order --preserve-permissions --quote-chars: --quoting-style: "
     "--read-full-records --record-size: --recursion --recursive-unlink --remove-files --restrict "
     "--rmt-command:! --rsh-command:! --same-order --same-owner --same-permissions --seek "
     "--selinux --show-defaults --show-omitted-dirs --show-snapshot-field-ranges "
     "--show-stored-names --show-transformed-names --skip-old-files --sort: --sparse "
     "--sparse-version: --starting-file: --strip-components: --suffix: --tape-length: "
     "--test-label --to-command:! --to-stdout --totals? --touch --transform: --uncompress "
     "--ungzip --unlink-first --unquote --update --usage --use-compress-program:! --utc "
     "--verbatim-files-from --verbose --verify --volno-file:> --warning: --wildcards "
     "--wildcards-match-slash --xattrs --xattrs-exclude: --xattrs-include: --xform: --xz --zstd"},
    {"zip", WRITES, 0,
     "-@0123456789ABcdDeFfghjJklLmnopqrRsSuvVwWxXyz -bitP: -T! --unzip-command:! --recurse-paths "
     "--exclude: --include: --quiet --verbose --test!"},
    {"unzip", WRITES, 0, "-aAbBcCfjJKlLnopqtTuUvVWXzZ -P: -d:> -x:"},
    {"gzip gunzip zcat", WRITES, 0,
     "-123456789acdfklnNqrtvx -S: -hLV. --ascii --stdout --to-stdout --decompress --uncompress "
     "--force --keep --list --license. --no-name --name --quiet --recursive --rsyncable --suffix: "
     "--synchronous --test --verbose --fast --best"},
    {"bzip2 bunzip2 bzcat", WRITES, 0,
     "-123456789cdfkqstvz -hLV. --stdout --decompress --compress --force --keep --quiet --small "
     "--test --verbose --license. --fast --best"},
    {"xz unxz xzcat", WRITES, 0,
     "-0123456789acdefklqQtvz -CFMST: -hHV. --stdout --to-stdout --decompress --uncompress "
     "--compress --extreme --force --keep --list --no-sparse --no-warn --quiet --suffix: --test "
     "--threads: --verbose --format: --check: --memlimit: --memory: --block-size: --files?< "
     "--files0?<"},
    {"zstd unzstd zstdcat", WRITES, 0,
     "-0123456789cCdfklqrtvz -TM? -D:< -o:> -hHV. --stdout --decompress --uncompress --compress "
     "--force --keep --list --quiet --recursive --rm --test --threads? --ultra --fast? --long? "
     "--single-thread --verbose --no-progress --progress --format? --filelist:< "
     "--output-dir-flat:> --output-dir-mirror:>"},
    {"lz4 unlz4 lz4cat", WRITES, 0,
     "-0123456789cdfklmqrtvz -B? -D:< -hHV. --stdout --decompress --uncompress --compress --force "
     "--keep --list --quiet --rm --test --verbose --fast? --best"},
};
const struct shell_table shell_table_basic = {rows, ELEMENTS(rows)};
