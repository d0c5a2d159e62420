/* SPDX-License-Identifier: Apache-2.0 */
/* Options of git, by subcommand. One that is not here may be an alias for anything. */
#include "base/alloc.h"
#include "shell/options.h"

#define GIT PROGRAM_NEGATES

#define COLUMNS " --column? --color? --abbrev?"
#define DIFF_FORMAT                                                                                \
    " -0123456789abDpRsuwWz -BMCUX? -GSIOl: --patch --no-patch --unified? "                        \
    "--function-context --raw --patch-with-raw --patch-with-stat --numstat --shortstat "           \
    "--dirstat? --cumulative --dirstat-by-file? --check --summary --name-only "                    \
    "--name-status --stat? --stat-width: --stat-name-width: --stat-graph-width: "                  \
    "--stat-count: --compact-summary --binary --full-index --ws-error-highlight: "                 \
    "--src-prefix: --dst-prefix: --line-prefix: --no-prefix --default-prefix "                     \
    "--inter-hunk-context: --output-indicator-new: --output-indicator-old: "                       \
    "--output-indicator-context: --break-rewrites? --find-renames? --irreversible-delete "         \
    "--find-copies? --find-copies-harder --no-renames --renames --rename-empty --follow "          \
    "--minimal --ignore-all-space --ignore-space-change --ignore-space-at-eol "                    \
    "--ignore-cr-at-eol --ignore-blank-lines --ignore-matching-lines: --indent-heuristic "         \
    "--patience --histogram --diff-algorithm: --anchored: --word-diff? --word-diff-regex: "        \
    "--color-words? --color-moved? --color-moved-ws: --relative? --text --exit-code "              \
    "--quiet --ext-diff! --textconv! --ignore-submodules? --submodule? "                           \
    "--ita-invisible-in-index --ita-visible-in-index --pickaxe-all --pickaxe-regex "               \
    "--rotate-to: --skip-to: --find-object: --diff-filter: --output:> --color? --abbrev?"
#define DIFF                                                                                       \
    DIFF_FORMAT                                                                                    \
    " --merge-base --cached --staged --no-index --base --ours --theirs --remerge-diff "            \
    "--combined-all-paths --diff-merges: --cc -c"
#define LOG                                                                                        \
    DIFF " -gitqvmFEP -Ln: --source --use-mailmap --mailmap --clear-decorations --decorate-refs: " \
         "--decorate-refs-exclude: --decorate? --oneline --graph --pretty? --format: "             \
         "--abbrev-commit --no-abbrev-commit --max-count: --skip: --since: --after: --until: "     \
         "--before: --author: --committer: --grep: --grep-reflog: --all-match --invert-grep "      \
         "--regexp-ignore-case --basic-regexp --extended-regexp --fixed-strings --perl-regexp "    \
         "--remove-empty --merges --no-merges --min-parents: --max-parents: --first-parent "       \
         "--not --all --branches? --tags? --remotes? --glob: --exclude: --reflog "                 \
         "--single-worktree --ignore-missing --stdin --cherry --cherry-mark --cherry-pick "        \
         "--left-only --right-only --left-right --walk-reflogs --boundary "                        \
         "--simplify-by-decoration "                                                               \
         "--show-pulls --full-history --dense --sparse --simplify-merges --ancestry-path? "        \
         "--date-order --author-date-order --topo-order --reverse --no-walk? --do-walk --parents " \
         "--children --date: --relative-date --show-signature --show-linear-break? --notes? "      \
         "--encoding: --expand-tabs? --log-size --full-diff --root --no-notes --since-as-filter:"
#define MERGE                                                                                      \
    " -nqv -Xm: -s:! -S? --stat --summary --log? --squash --commit --edit --cleanup: --ff "        \
    "--ff-only "                                                                                   \
    "--rerere-autoupdate --verify-signatures --strategy:! --strategy-option: --message: "          \
    "--verbose --quiet --abort --quit --continue --allow-unrelated-histories --progress "          \
    "--gpg-sign? --autostash --overwrite-ignore --signoff --verify -e"
#define FETCH                                                                                      \
    " -afkntpPuqv46 -o: --verbose --quiet --all --set-upstream --append --atomic "                 \
    "--upload-pack:! "                                                                             \
    "--force --multiple --tags --prefetch --prune --prune-tags --recurse-submodules? "             \
    "--dry-run --write-fetch-head --keep --update-head-ok --progress --depth: --shallow-since: "   \
    "--shallow-exclude: --deepen: --unshallow --refetch --submodule-prefix: "                      \
    "--recurse-submodules-default: --update-shallow --refmap: --server-option: --ipv4 --ipv6 "     \
    "--negotiation-tip: --negotiate-only --filter: --auto-maintenance --auto-gc "                  \
    "--show-forced-updates --write-commit-graph --stdin"
#define PATHSPECS " --pathspec-from-file:< --pathspec-file-nul"
#define CHECKOUT                                                                                   \
    PATHSPECS " -qfmp --guess --overlay --quiet --recurse-submodules? --progress --merge "         \
              "--conflict: --detach --track? --force --orphan: --overwrite-ignore "                \
              "--ignore-other-worktrees --ours --theirs --patch --ignore-skip-worktree-bits"

static const struct shell_program rows[] = {
    {"git", GIT | PROGRAM_SUBS, 0,
     "-pP -v. -h. -c:! -C:/ --exec-path?! --html-path. --man-path. --info-path. --paginate "
     "--no-pager --no-replace-objects --bare --git-dir:/ --work-tree:/ --namespace: "
     "--super-prefix: --config-env:! --literal-pathspecs --glob-pathspecs --noglob-pathspecs "
     "--icase-pathspecs --no-optional-locks --no-lazy-fetch --no-advice --list-cmds: "
     "--attr-source:"},
    {"git.status", GIT, 0,
     "-vsbzo -uM? --verbose --short --branch --show-stash --ahead-behind --porcelain? --long "
     "--null "
     "--untracked-files? --ignored? --ignore-submodules? --no-renames --find-renames? "
     "--renames" COLUMNS},
    {"git.log git.whatchanged git.show git.rev-list git.reflog", GIT, 0,
     LOG " -es --count --objects"},
    {"git.shortlog", GIT, 0,
     "-nsec -w? --numbered --summary --email --committer --group: --format: --all --branches? "
     "--tags? --remotes? --max-count: --since: --after: --until: --before: --author: --grep: "
     "--merges --no-merges --first-parent --date: --not --use-mailmap --mailmap"},
    {"git.diff git.diff-tree git.diff-index git.diff-files", GIT, 0, DIFF " -mrt --root --stdin"},
    {"git.range-diff", GIT, 0, DIFF " --creation-factor: --no-dual-color --left-only --right-only"},
    {"git.branch", GIT, 0,
     "-vqrafdDmMcCli -u: -t? --verbose --quiet --track? --set-upstream --set-upstream-to: "
     "--unset-upstream --remotes --contains: --no-contains: --with: --without: --all --delete "
     "--move "
     "--copy --list --show-current --create-reflog --edit-description --force --merged: "
     "--no-merged: --sort: --points-at: --ignore-case --recurse-submodules --format:" COLUMNS},
    {"git.tag", GIT, 0,
     "-ladvsfei -muF: -n? --list --delete --verify --annotate --message: --file:< --edit --sign "
     "--cleanup: --local-user: --force --create-reflog --contains: --no-contains: --merged: "
     "--no-merged: --sort: --points-at: --format: --ignore-case" COLUMNS},
    {"git.add git.stage", GIT, 0,
     "-nvipefuNA --dry-run --verbose --interactive --patch --edit --force --update --renormalize "
     "--intent-to-add --all --ignore-removal --refresh --ignore-errors --ignore-missing --sparse "
     "--chmod: --warn-embedded-repo" PATHSPECS},
    {"git.commit", GIT, 0,
     "-qvseaipozn -mcC: -Ft:< -uS? --quiet --verbose --file:< --author: --date: --message: "
     "--reedit-message: --reuse-message: --fixup: --squash: --reset-author --trailer: --signoff "
     "--template:< --edit --cleanup: --status --gpg-sign? --all --include --interactive --patch "
     "--only --dry-run --short --branch --ahead-behind --porcelain --long --null --amend "
     "--no-post-rewrite --untracked-files? --allow-empty --allow-empty-message --verify" PATHSPECS},
    {"git.checkout", GIT, 0, "-dl -t? -bB: -23" CHECKOUT},
    {"git.switch", GIT, 0, "-d -t? -cC: --create: --force-create: --discard-changes" CHECKOUT},
    {"git.restore", GIT, 0, "-SW23 -s: --source: --staged --worktree --ignore-unmerged" CHECKOUT},
    {"git.stash", GIT | PROGRAM_SUBS, 0,
     "-pkqauS -m: --patch --keep-index --quiet --all --include-untracked --message: "
     "--staged" PATHSPECS},
    {"git.stash.push git.stash.save", GIT, 0,
     "-pkqauS -m: --patch --keep-index --quiet --all --include-untracked --message: "
     "--staged" PATHSPECS},
    {"git.stash.list git.stash.show", GIT, 0, LOG " --include-untracked --only-untracked"},
    {"git.stash.apply git.stash.pop git.stash.drop git.stash.clear git.stash.branch", GIT, 0,
     "-q --index --quiet"},
    {"git.fetch", GIT, 0, "-m -j: --jobs:" FETCH},
    {"git.pull", GIT, 0, "-rj? --rebase? --jobs?" FETCH MERGE},
    {"git.merge", GIT, 0, "-F:< --file:< --into-name:" MERGE},
    {"git.rebase", GIT, 0,
     "-qvnfimkp -XC: -s:! -x:~ -rS? --onto: --keep-base --no-verify --quiet --verbose --stat "
     "--signoff "
     "--committer-date-is-author-date --reset-author-date --ignore-date --ignore-whitespace "
     "--whitespace: --force-rebase --no-ff --continue --skip --abort --quit --edit-todo "
     "--show-current-patch --apply --merge --interactive --preserve-merges --rerere-autoupdate "
     "--empty: --keep-empty --autosquash --update-refs --gpg-sign? --autostash --exec:~ "
     "--allow-empty-message --rebase-merges? --fork-point --strategy:! --strategy-option: --root "
     "--reschedule-failed-exec --reapply-cherry-picks"},
    {"git.cherry-pick git.revert", GIT, 0,
     "-nexs -mX: -S? --commit --quit --continue --abort --skip --cleanup: --no-commit --edit "
     "--signoff "
     "--mainline: --rerere-autoupdate --strategy:! --strategy-option: --gpg-sign? --ff "
     "--allow-empty --allow-empty-message --keep-redundant-commits --reference"},
    {"git.push", GIT, 0,
     "-vqdnfu46 -o: --verbose --quiet --repo: --all --branches --mirror --delete --tags --dry-run "
     "--porcelain --force --force-with-lease? --force-if-includes --recurse-submodules: --thin "
     "--receive-pack:! --exec:! --set-upstream --progress --prune --no-verify --verify "
     "--follow-tags "
     "--signed? --atomic --push-option: --ipv4 --ipv6"},
    {"git.clone", GIT, 0,
     "-vqnls46 -job: -u:! -c:! --verbose --quiet --progress --reject-shallow --no-checkout --bare "
     "--mirror --local --no-hardlinks --shared --recurse-submodules? --recursive? --naked "
     "--checkout --tags --jobs: --template:! "
     "--reference: --reference-if-able: --dissociate --origin: --branch: --upload-pack:! --depth: "
     "--shallow-since: --shallow-exclude: --single-branch --no-tags --shallow-submodules "
     "--separate-git-dir:> --config:! --server-option: --ipv4 --ipv6 --filter: "
     "--also-filter-submodules --remote-submodules --sparse --bundle-uri:"},
    {"git.reset", GIT, 0,
     "-qpN --quiet --mixed --soft --hard --merge --keep --recurse-submodules? --patch "
     "--intent-to-add --refresh" PATHSPECS},
    {"git.clean", GIT, 0, "-qnfidxX -e: --quiet --dry-run --force --interactive --exclude:"},
    {"git.rm git.mv", GIT, 0,
     "-nqfrvk --dry-run --quiet --cached --force --ignore-unmatch --sparse --verbose" PATHSPECS},
    {"git.init", GIT, 0,
     "-q -b: --quiet --bare --shared? --initial-branch: --object-format: --template:! "
     "--separate-git-dir:>"},
    {"git.rev-parse", GIT, 0,
     "-q -n: --verify --quiet --short? --abbrev-ref? --symbolic --symbolic-full-name --all "
     "--branches? --tags? --remotes? --show-toplevel --show-prefix --show-cdup --git-dir "
     "--git-common-dir --git-path: --is-inside-work-tree --is-inside-git-dir --is-bare-repository "
     "--is-shallow-repository --absolute-git-dir --show-superproject-working-tree --path-format: "
     "--show-object-format? --revs-only --no-revs --flags --no-flags --default: --since: --until: "
     "--disambiguate: --show-ref-format --not --sq --local-env-vars"},
    {"git.ls-files", GIT, 0,
     "-tvfzcdmoiskur -x: -X:< --cached --deleted --modified --others --ignored --stage --killed "
     "--directory --eol --empty-directory --unmerged --resolve-undo --exclude: --exclude-from:< "
     "--exclude-per-directory: --exclude-standard --full-name --recurse-submodules --error-unmatch "
     "--with-tree: --abbrev? --debug --deduplicate --sparse --format:"},
    {"git.ls-tree", GIT, 0,
     "-rtdlz --long --name-only --name-status --object-only --full-name --full-tree --format: "
     "--abbrev?"},
    {"git.ls-remote", GIT, 0,
     "-htqb -o: --heads --branches --tags --refs --quiet --exit-code --get-url --sort: --symref "
     "--upload-pack:! --server-option:"},
    {"git.cat-file", GIT, 0,
     "-tsepz --allow-unknown-type --use-mailmap --mailmap --batch? --batch-check? "
     "--batch-command? --batch-all-objects --buffer --follow-symlinks --unordered --textconv! "
     "--filters! --path:"},
    {"git.blame git.annotate", GIT, 0,
     "-bcdflnpstwe0123456789h -LS: -MC? --incremental --root --show-stats --progress --score-debug "
     "--show-name "
     "--show-number --porcelain --line-porcelain --show-email --ignore-rev: --ignore-revs-file:< "
     "--color-lines --color-by-age --minimal --contents:< --abbrev? --date: --since: --reverse "
     "--encoding:"},
    {"git.grep", GIT, 0,
     "-0123456789hviwaIrEGFPnlLzcopWqHN -ABCem: -f:< -O?! --cached --no-index --untracked "
     "--exclude-standard --recurse-submodules --invert-match --ignore-case --word-regexp --text "
     "--textconv! --recursive --max-depth: --extended-regexp --basic-regexp --fixed-strings "
     "--perl-regexp --line-number --column --full-name --files-with-matches --name-only "
     "--files-without-match --null --only-matching --count --color? --break --heading --context: "
     "--before-context: --after-context: --threads: --show-function --function-context --and --or "
     "--not --quiet --all-match --open-files-in-pager?! --ext-grep! --max-count:"},
    {"git.describe", GIT, 0,
     "--contains --debug --all --tags --long --first-parent --abbrev? --exact-match --candidates: "
     "--match: --exclude: --always --dirty? --broken?"},
    {"git.merge-base git.show-ref git.for-each-ref git.name-rev git.count-objects git.var "
     "git.check-ignore git.diff-pairs git.symbolic-ref git.version git.help git.cherry",
     GIT, 0,
     "-avqdHn --all --octopus --is-ancestor --independent --fork-point --verify --heads --tags "
     "--head --hash? --abbrev? --dereference --quiet --sort: --format: --count: --points-at: "
     "--merged: --no-merged: --contains: --no-contains: --verbose --human-readable --short --stdin "
     "--build-options "
     "--no-index --non-matching --name-only --refs: --always --delete"},
    {"git.remote", GIT | PROGRAM_SUBS, 0, "-v --verbose"},
    {"git.remote.show git.remote.get-url git.remote.prune git.remote.rename git.remote.remove "
     "git.remote.rm git.remote.set-url git.remote.add git.remote.set-head git.remote.update",
     GIT, 0,
     "-nfpad -tm: --all --push --fetch --tags --track: --master: --mirror? --prune --add --delete "
     "--auto --dry-run"},
    {"git.worktree", GIT | PROGRAM_SUBS, 0, ""},
    {"git.worktree.list git.worktree.add git.worktree.prune git.worktree.remove "
     "git.worktree.lock git.worktree.unlock git.worktree.move git.worktree.repair",
     GIT, 0,
     "-fqnvdz -bB: --force --detach --checkout --lock --orphan --quiet --track --guess-remote "
     "--reason: --porcelain --dry-run --verbose --expire:"},
    {"git.bisect", GIT | PROGRAM_SUBS, 0, ""},
    {"git.bisect.start git.bisect.good git.bisect.bad git.bisect.new git.bisect.old "
     "git.bisect.reset git.bisect.skip git.bisect.log git.bisect.terms git.bisect.next",
     GIT, 0, "--term-good: --term-bad: --term-old: --term-new: --no-checkout --first-parent"},
    {"git.bisect.run git.submodule.foreach", PROGRAM_RUNS | PROGRAM_SELF, 0,
     "-q --quiet --recursive"},
    {"git.submodule", GIT | PROGRAM_SUBS, 0, "-q --quiet --cached"},
    {"git.submodule.status git.submodule.init git.submodule.update git.submodule.sync "
     "git.submodule.summary git.submodule.deinit git.submodule.absorbgitdirs",
     GIT, 0,
     "-fqNn -j: --cached --recursive --init --remote --no-fetch --force --checkout --merge "
     "--rebase "
     "--depth: --jobs: --reference: --progress --files --for-status --summary-limit: --all "
     "--single-branch --recommend-shallow --filter:"},
    {"git.apply git.am", GIT, 0,
     "-vqRkiusc3zN -pC: --exclude: --include: --no-add --stat --allow-binary-replacement --binary "
     "--numstat --summary --check --index --intent-to-add --cached --apply --3way --whitespace: "
     "--ignore-space-change --ignore-whitespace --reverse --unidiff-zero --reject --allow-overlap "
     "--verbose --quiet --inaccurate-eof --recount --directory: --allow-empty --interactive "
     "--signoff --utf8 --keep --keep-non-patch --message-id --keep-cr --scissors --quoted-cr: "
     "--patch-format: --continue --resolved --skip --abort --quit --show-current-patch? "
     "--committer-date-is-author-date --ignore-date --rerere-autoupdate --gpg-sign? --empty:"},
    {"git.format-patch", GIT, 0,
     "-nqp -v: --base: --cc: --rfc? --signoff --quiet" DIFF_FORMAT
     " --max-count: --since: --until: --root -kN -o:> --numbered --stdout --cover-letter "
     "--numbered-files --suffix: --start-number: --reroll-count: --filename-max-length: "
     "--subject-prefix: --output-directory:> --keep-subject --zero-commit "
     "--ignore-if-in-upstream --add-header: --to: --from? --in-reply-to: --attach? "
     "--inline? --thread? --signature: --signature-file:< --progress --interdiff: "
     "--range-diff: --creation-factor:"},
    {"git.archive", GIT, 0,
     "-v0123456789l -o:> --output:> --format: --list --verbose --prefix: "
     "--add-file:< --remote:! --exec:! --worktree-attributes --mtime:"},
    {"git.gc git.prune git.fsck git.repack git.maintenance", GIT, 0,
     "-nvqadfl --aggressive --auto --prune? --quiet --force --full --strict --unreachable "
     "--dangling --no-dangling --connectivity-only --lost-found --verbose --progress --dry-run"},
};
const struct shell_table shell_table_git = {rows, ELEMENTS(rows)};
