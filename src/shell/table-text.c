/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the programs that read, search, cut, sort and compare text. */
#include "base/alloc.h"
#include "shell/options.h"

#define FIRST PROGRAM_FIRST

static const struct shell_program rows[] = {
    {"cat", 0, 0,
     "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs "
     "--show-nonprinting"},
    {"tac", 0, 0, "-br -s: --before --regex --separator:"},
    {"rev", 0, 0, "-0 --zero"},
    {"nl", 0, 0,
     "-p -bdfhilnsvw: --body-numbering: --section-delimiter: --footer-numbering: "
     "--header-numbering: --line-increment: --join-blank-lines: --number-format: --no-renumber "
     "--number-separator: --starting-line-number: --number-width:"},
    {"head", 0, 0,
     "-0123456789kbmqvz -cn: --bytes: --lines: --quiet --silent --verbose --zero-terminated"},
    {"tail", 0, 0,
     "-0123456789fFqrvz -cns: --bytes: --follow? --lines: --max-unchanged-stats: --pid: --quiet "
     "--silent --retry --sleep-interval: --verbose --zero-terminated --debug"},
    {"wc", 0, 0,
     "-cmlLw --bytes --chars --lines --files0-from:< --max-line-length --words --total:"},
    {"cut", 0, 0,
     "-nsz -bcdf: --bytes: --characters: --delimiter: --fields: --complement --only-delimited "
     "--output-delimiter: --zero-terminated"},
    {"tr", 0, 0, "-cCdst --complement --delete --squeeze-repeats --truncate-set1"},
    {"uniq", PROGRAM_SECOND, 0,
     "-cdDiuz -fsw: --count --repeated --all-repeated? --skip-fields: --group? --ignore-case "
     "--skip-chars: --unique --zero-terminated --check-chars:"},
    {"sort", 0, 0,
     "-bdfgiMhnRrVcCmsuz -kSt: -o:> -T:> --ignore-leading-blanks --dictionary-order --ignore-case "
     "--general-numeric-sort --ignore-nonprinting --month-sort --human-numeric-sort --numeric-sort "
     "--random-sort --random-source:< --reverse --sort: --version-sort --batch-size: --check? "
     "--compress-program:! --debug --files0-from:< --key: --merge --output:> --stable "
     "--buffer-size: --field-separator: --temporary-directory:> --parallel: --unique "
     "--zero-terminated"},
    {"shuf", 0, 0,
     "-erz -in: -o:> --echo --input-range: --head-count: --output:> --random-source:< --repeat "
     "--zero-terminated"},
    {"comm", 0, 0,
     "-123z --check-order --nocheck-order --output-delimiter: --total --zero-terminated"},
    {"join", 0, 0,
     "-iz -12aeojtv: --ignore-case --check-order --nocheck-order --header --zero-terminated"},
    {"paste", 0, 0, "-sz -d: --serial --delimiters: --zero-terminated"},
    {"fold", 0, 0, "-bs0123456789 -w: --bytes --spaces --width:"},
    {"fmt", 0, 0,
     "-cstu0123456789 -pwg: --crown-margin --prefix: --split-only --tagged-paragraph "
     "--uniform-spacing --width: --goal:"},
    {"expand unexpand", 0, 0, "-ai0123456789 -t: --all --initial --first-only --tabs:"},
    {"column", 0, 0,
     "-tdexJL -nONlEHRTWripcos: --table --table-name: --table-order: --table-columns: "
     "--table-columns-limit: --table-noextreme: --table-noheadings --table-header-repeat "
     "--table-hide: --table-right: --table-truncate: --table-wrap: --keep-empty-lines --json "
     "--tree: --tree-id: --tree-parent: --output-width: --output-separator: --separator: "
     "--fillrows"},
    {"split csplit", PROGRAM_WRITES, 0,
     "-dekqsuxz -abClnft: --bytes: --number: --lines: --line-bytes: --numeric-suffixes? "
     "--hex-suffixes? --suffix-length: --additional-suffix: --filter:! --elide-empty-files "
     "--separator: --unbuffered --verbose --prefix: --digits: --keep-files --quiet --silent "
     "--suffix-format: --suppress-matched"},
    {"grep egrep fgrep zgrep", 0, 0,
     "-0123456789abchHiIlLnoqrRsTUuVvwxyzZEFGP -ABCDdem: -f:< --after-context: --basic-regexp "
     "--before-context: --binary --binary-files: --byte-offset --color? --colour? --context: "
     "--count --dereference-recursive --devices: --directories: --exclude-dir: --exclude-from:< "
     "--exclude: --extended-regexp --file:< --files-with-matches --files-without-match "
     "--fixed-strings --group-separator: --no-group-separator --ignore-case --no-ignore-case "
     "--include: --initial-tab --invert-match --label: --line-buffered --line-number --line-regexp "
     "--max-count: --no-filename --no-messages --null --null-data --only-matching --perl-regexp "
     "--quiet --recursive --regexp: --silent --text --with-filename --word-regexp"},
    {"rg", 0, 0,
     "-abchHiIlLnNopPqsSuUvVwxz.0 -ABCdegEjmMrtT: -f:< --after-context: --before-context: "
     "--context: --color: --colors: --column --context-separator: --count --count-matches --crlf "
     "--debug --dfa-size-limit: --encoding: --engine: --field-context-separator: "
     "--field-match-separator: --file:< --files --files-with-matches --files-without-match "
     "--fixed-strings --follow --glob: --glob-case-insensitive --heading --no-heading --hidden "
     "--no-hidden --hostname-bin:! --hyperlink-format: --iglob: --ignore-case --ignore-file:< "
     "--include-zero --invert-match --json --line-buffered --line-number --no-line-number "
     "--line-regexp --max-columns: --max-columns-preview --max-count: --max-depth: --max-filesize: "
     "--mmap --multiline --multiline-dotall --no-config --no-ignore --no-ignore-dot "
     "--no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages "
     "--no-ignore-parent --no-ignore-vcs --no-messages --no-filename --no-require-git --null "
     "--null-data --one-file-system --only-matching --passthru --pcre2 --pre:! --pre-glob: "
     "--pretty "
     "--quiet --regex-size-limit: --regexp: --replace: --search-zip --smart-case --sort: --sortr: "
     "--stats --stop-on-nonmatch --text --threads: --trim --type: --type-add: --type-clear: "
     "--type-list --type-not: --unrestricted --vimgrep --with-filename --word-regexp"},
    {"diff", 0, 0,
     "-0123456789aBbcdefHinNpPqrsTtuwyZEv -CDFILSUWx: -X:< -l! --brief --report-identical-files --context? "
     "--unified? --ed --rcs --side-by-side --width: --left-column --suppress-common-lines "
     "--show-c-function --show-function-line: --label: --expand-tabs --initial-tab --tabsize: "
     "--suppress-blank-empty --paginate! --recursive --no-dereference --new-file "
     "--unidirectional-new-file --ignore-file-name-case --no-ignore-file-name-case --exclude: "
     "--exclude-from:< --starting-file: --from-file:< --to-file:< --ignore-case "
     "--ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space "
     "--ignore-blank-lines --ignore-matching-lines: --text --strip-trailing-cr --ifdef: "
     "--line-format: --old-line-format: --new-line-format: --unchanged-line-format: "
     "--old-group-format: --new-group-format: --changed-group-format: --unchanged-group-format: "
     "--minimal --horizon-lines: --speed-large-files --color? --palette: --normal"},
    {"cmp", 0, 0,
     "-bcls -in: -v. --print-bytes --print-chars --ignore-initial: --verbose --bytes: --quiet "
     "--silent"},
    {"sdiff", 0, 0,
     "-aBbdEHilstWZ -Iw: -v. -o:> --output:> --diff-program:! --ignore-case "
     "--ignore-tab-expansion --ignore-trailing-space --ignore-space-change --ignore-all-space "
     "--ignore-blank-lines --ignore-matching-lines: --strip-trailing-cr --text --width: "
     "--left-column --suppress-common-lines --expand-tabs --tabsize: --minimal "
     "--speed-large-files"},
    {"md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum", 0, 0,
     "-bctwzrs -al: --binary --check --tag --text --zero --ignore-missing --quiet --status "
     "--strict "
     "--warn --algorithm: --untagged --length: --raw --base64 --debug"},
    {"base64 base32 basenc", 0, 0,
     "-di -w: --decode --ignore-garbage --wrap: --base64 --base64url --base32 --base16"},
    {"od", 0, 0,
     "-abcdfilosvx -AjNSt: -w? --address-radix: --endian: --skip-bytes: --read-bytes: --strings? "
     "--format: --output-duplicates --width? --traditional"},
    {"hexdump hd", 0, 0,
     "-bcCdovx -ens: -L? -f:< -hV. --one-byte-octal --one-byte-char --canonical "
     "--two-bytes-decimal --two-bytes-octal --two-bytes-hex --color? --format: --format-file:< "
     "--length: --skip: --no-squeezing"},
    {"strings", PROGRAM_FILES, 0,
     "-adfwo -ntTesU: -hvV. --all --data --print-file-name --bytes: --radix: "
     "--include-all-whitespace --target: --encoding: --unicode: --output-separator:"},
    {"xxd", PROGRAM_PREFIX | PROGRAM_SECOND, 0,
     "-a -b -C -e -E -i -p -ps -r -u -v -d -c: -cols: -g: -l: -len: -n: -o: -R: -s: -seek: "
     "-autoskip "
     "-bits -capitalize -EBCDIC -include -plain -postscript -revert -uppercase -version"},
    {"jq", 0, 0,
     "-cCMnrRsSaejh -f:< -L:< --null-input --raw-input --slurp --compact-output --raw-output "
     "--raw-output0 --join-output --ascii-output --sort-keys --color-output --monochrome-output "
     "--tab --indent: --unbuffered --stream --stream-errors --seq --from-file:< --arg:: "
     "--argjson:: --slurpfile::< --rawfile::< --args --jsonargs --exit-status --binary "
     "--library-path:<"},
    {"sed gsed", PROGRAM_CODE | PROGRAM_WRITES, 0,
     "-nErsuzb -e:$ -f:! -i? -l: --quiet --silent --debug --expression:$ --file:! "
     "--follow-symlinks "
     "--in-place? --line-length: --posix --regexp-extended --separate --sandbox --unbuffered "
     "--null-data --zero-terminated --binary"},
    {"awk gawk mawk nawk original-awk", PROGRAM_CODE | FIRST, 0,
     "-F: -v: -f:! -i:! -e:! -E:! -l:! --field-separator: --assign: --posix --re-interval "
     "--sandbox "
     "--traditional -V. -c"},
    {"xargs", FIRST, 0,
     "-0oprtx -dEILnPs: -a:< -eil? --null --arg-file:< --delimiter: --eof? --replace? --max-lines? "
     "--max-args: --open-tty --max-procs: --interactive --process-slot-var: --no-run-if-empty "
     "--max-chars: --show-limits --verbose --exit"},
    {"find", PROGRAM_SINGLE, 0,
     "-H -L -P -D: -O0 -O1 -O2 -O3 -a -and -o -or -not -amin: -anewer: -atime: -cmin: -cnewer: "
     "-ctime: -context: -daystart -delete -depth -d -empty -exec& -execdir& -ok& -okdir& "
     "-executable -false -files0-from:< -follow -fls:> -fprint:> -fprint0:> -fprintf:> -fstype: "
     "-gid: -group: -help. -ignore_readdir_race -ilname: -iname: -inum: -ipath: -iregex: "
     "-iwholename: "
     "-links: -lname: -ls -maxdepth: -mindepth: -mmin: -mount -mtime: -name: -newer: -newerat: "
     "-newermt: -newerct: -newermm: -newerXY: -nogroup -noleaf -nouser -path: -perm: -print "
     "-print0 -printf: -prune -quit -readable -regex: -regextype: -samefile: -size: -true -type: "
     "-uid: -used: -user: -version. -warn -nowarn -wholename: -writable -xautofs -xdev -xtype:"},
    {"fd fdfind", 0, 0,
     "-HIusigFLap0l1q -dtEecjSo: -x& -X& -C:/ --hidden --no-ignore --no-ignore-vcs --unrestricted "
     "--case-sensitive --ignore-case --glob --regex --fixed-strings --absolute-path "
     "--list-details! "
     "--follow --full-path --print0 --max-depth: --min-depth: --exact-depth: --type: --extension: "
     "--size: --changed-within: --changed-before: --owner: --exec& --exec-batch& --exclude: "
     "--color: --threads: --max-results: --quiet --base-directory:/ --prune --strip-cwd-prefix?"},
};
const struct shell_table shell_table_text = {rows, ELEMENTS(rows)};
