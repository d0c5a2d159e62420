/* SPDX-License-Identifier: Apache-2.0 */
/* Options of build systems, test runners and linters. A build runs what the tree says, which leave
 * to run it covers; options that name other code, or tools in place of the usual ones, are more. */
#include "base/alloc.h"
#include "shell/options.h"

#define WRITES PROGRAM_WRITES
#define SUBS   PROGRAM_SUBS

static const struct shell_program rows[] = {
    {"make gmake", WRITES | PROGRAM_TARGETS, 0,
     "-bBdeikmLnpqrRsStw -vh. -C:/ -f:< -W: -Io: -E:! -jlO? --always-make --directory:/ --debug? "
     "--environment-overrides --eval:! --file:< --makefile:< --ignore-errors --include-dir: "
     "--jobs? "
     "--jobserver-style: --keep-going --load-average? --max-load? --check-symlink-times "
     "--just-print "
     "--dry-run --recon --old-file: --assume-old: --output-sync? --print-data-base --question "
     "--no-builtin-rules --no-builtin-variables --shuffle? --silent --quiet --no-silent --stop "
     "--no-keep-going --touch --trace --print-directory --no-print-directory --what-if: "
     "--new-file: "
     "--assume-new: --warn-undefined-variables"},
    {"ninja ninja-build samu", WRITES | PROGRAM_TARGETS, 0,
     "-nv -C:/ -f:< -dkljw: -t:! --quiet --verbose"},
    {"cmake", WRITES, 0,
     "-HN -L? -S: -B:> -D: -U: -C:! -G: -T:! -A: -W: -P:! -E! --build: --install:| --preset: "
     "--toolchain:! --fresh --config: --target:= -t:= -j? --parallel? --clean-first --verbose -v "
     "--prefix:> --component: --strip --graphviz:> --log-level: --trace --trace-expand "
     "--debug-output --warn-uninitialized --no-warn-unused-cli --list-presets? --workflow --open:! "
     "--find-package! --install-prefix:> --log-context --debug-find",
     "make ninja"},
    {"ctest", WRITES | PROGRAM_ENDLESS, 0,
     "-VQNF -j? -RELI: -C: -D:! -S:! -T:! -M:! --verbose --extra-verbose --output-on-failure "
     "--parallel? --tests-regex: --exclude-regex: --label-regex: --label-exclude: --build-config: "
     "--test-dir: --timeout: --rerun-failed --stop-on-failure --progress --quiet --output-log:> "
     "--output-junit:> --repeat: --show-only? --no-tests: --schedule-random --preset: "
     "--build-and-test! --build-makeprogram:! --overwrite:"},
    {"meson", SUBS, 0, "-v."},
    {"meson.setup meson.configure meson.introspect", WRITES, 0,
     "-D: --prefix: --buildtype: --backend: --default-library: --werror --warnlevel: --strip "
     "--unity: --optimization: --debug --native-file:! --cross-file:! --vsenv --reconfigure --wipe "
     "--wrap-mode: --auto-features: --errorlogs --clearcache --fatal-meson-warnings --libdir: "
     "--libexecdir: --localedir: --mandir: --infodir: --sbindir: --sharedstatedir: --layout: "
     "--install-umask: --unity-size: --force-fallback-for: --prefer-static --stdsplit "
     "--bindir: --sysconfdir: --datadir: --includedir: --localstatedir: --targets --tests "
     "--benchmarks --buildoptions --buildsystem-files --dependencies --installed --projectinfo "
     "--all -a -i --indent --no-pager --pkgconfig.relocatable"},
    {"meson.compile meson.dist", WRITES, 0,
     "-v -lj: -C:/ --clean --jobs: --load-average: --verbose --ninja-args:! --vs-args:! "
     "--xcode-args:! --no-rebuild --only-changed --quiet --destdir:> --dry-run --skip-subprojects? "
     "--tags: --strip --allow-dirty --formats: --include-subprojects --no-tests"},
    {"meson.install", WRITES | PROGRAM_INSTALLS, 0,
     "-n -C:/ --no-rebuild --only-changed --quiet --destdir:> --dry-run --skip-subprojects? --tags: "
     "--strip"},
    {"meson.subprojects", SUBS, 0, ""},
    {"meson.subprojects.update meson.subprojects.checkout meson.subprojects.download "
     "meson.subprojects.packagefiles meson.subprojects.purge",
     WRITES, 0,
     "-b --sourcedir:/ --types: --num-processes: --allow-insecure --rebase --reset --include-cache "
     "--confirm --apply --save"},
    {"meson.subprojects.foreach", PROGRAM_RUNS | PROGRAM_SELF, 0,
     "--sourcedir:/ --types: --num-processes: --allow-insecure"},
    {"meson.test", WRITES, 0,
     "-qv -C:/ -t: -j: --maxfail: --repeat: --no-rebuild --gdb! --gdb-path:! -i --interactive "
     "--list --wrapper:! --wrap:! --suite: --no-suite: --no-stdsplit --print-errorlogs --benchmark "
     "--logbase: --num-processes: --verbose --quiet --timeout-multiplier: --setup:! "
     "--test-args:! --max-lines: --slice:"},
    {"meson.devenv", PROGRAM_RUNS | PROGRAM_NAMED, 0, "-C:/ -w: --workdir:/ --dump?"},
    {"pytest py.test", WRITES | PROGRAM_FILES, 0,
     "-qvlxshV0123456789 -kmnW: -r? -c:! -p:! -o:! --co --collect-only --tb: --lf --last-failed "
     "--ff "
     "--failed-first --nf --new-first --sw --stepwise --maxfail: --exitfirst --verbose --quiet "
     "--durations: --durations-min: --no-header --no-summary --color: --strict-markers "
     "--strict-config --strict --markers --fixtures --fixtures-per-test --capture: --show-capture: "
     "--full-trace --import-mode: --ignore: --ignore-glob: --deselect: --runxfail --showlocals "
     "--disable-warnings --disable-pytest-warnings --pythonwarnings: --cache-clear --cache-show? "
     "--doctest-modules --doctest-glob: --doctest-continue-on-failure --junitxml:> --junit-xml:> "
     "--junit-prefix: --basetemp:> --rootdir:! --confcutdir:! --noconftest --pyargs "
     "--keep-duplicates --continue-on-collection-errors --setup-only --setup-show --setup-plan "
     "--log-level: --log-cli-level: --log-format: --log-file:> --log-file-level: --asyncio-mode: "
     "--numprocesses: --dist: --maxprocesses: --timeout: --timeout-method: --reruns: "
     "--reruns-delay: --cov? --cov-report: --cov-append --cov-branch --cov-fail-under: --no-cov "
     "--cov-config:! --randomly-seed: --benchmark-only --benchmark-skip --pdb! --pdbcls:! --trace! "
     "--debug? --override-ini:! --trace-config --snapshot-update --config-file:! --xfail-tb "
     "--assert: --code-highlight: --collect-in-virtualenv --disable-plugin-autoload "
     "--doctest-ignore-import-errors --doctest-report: --force-short-summary --lfnf: "
     "--last-failed-no-failures: --log-auto-indent: --log-cli-date-format: --log-cli-format: "
     "--log-date-format: --log-disable: --log-file-date-format: --log-file-format: "
     "--log-file-mode: --max-warnings: --no-fold-skipped --no-showlocals --sw-reset --sw-skip "
     "--stepwise-skip --verbosity:"},
    {"unittest", 0, 0,
     "-vqfcb -k: -s: -p: -t: --verbose --quiet --locals --failfast --catch --buffer "
     "--start-directory: --pattern: --top-level-directory: --durations:"},
    {"ruff", SUBS, 0, "-vqs --verbose --quiet --silent --config:! --isolated --color:"},
    {"ruff.check ruff.format ruff.rule ruff.version ruff.clean ruff.linter", WRITES | PROGRAM_FILES,
     0,
     "-ewnvqs --fix --no-fix --unsafe-fixes --diff --check --select: --ignore: --extend-select: "
     "--extend-ignore: --output-format: -o:> --output-file:> --watch --no-cache --preview "
     "--no-preview --target-version: --line-length: --exclude: --show-fixes --show-files "
     "--show-settings --statistics --exit-zero --exit-non-zero-on-fix --config:! --isolated "
     "--force-exclude --respect-gitignore --stdin-filename: --range: --add-noqa --all --quiet"},
    {"black isort flake8 pylint mypy pyright", WRITES | PROGRAM_FILES, 0,
     "-qvxSs -lpmjt: --check --diff --color --line-length: --target-version: "
     "--skip-string-normalization "
     "--quiet --verbose --profile: --max-line-length: --select: --ignore: --extend-ignore: "
     "--exclude: --strict --ignore-missing-imports --no-error-summary --show-error-codes --pretty "
     "--disable: --enable: --errors-only --score: --fast --safe --statistics --count "
     "--python-version: --no-incremental --install-types! --outputjson --watch "
     "--namespace-packages "
     "--explicit-package-bases --disallow-untyped-defs --check-untyped-defs --warn-unused-ignores"},
    {"eslint", WRITES, 0,
     "-hv -o:> -c:! -f:! --fix --fix-dry-run --fix-type: --ext: --cache --cache-location:> "
     "--cache-strategy: --quiet --max-warnings: --no-ignore --ignore-pattern: --ignore-path:< "
     "--color "
     "--no-color --rule: --env: --global: --report-unused-disable-directives "
     "--no-error-on-unmatched-pattern --no-warn-ignored --debug --config:! "
     "--resolve-plugins-relative-to:! "
     "--rulesdir:! --plugin:! --parser:! --parser-options: --output-file:> --format:! --stdin "
     "--stdin-filename: --no-inline-config --print-config: --no-config-lookup --no-eslintrc"},
    {"prettier", WRITES, 0,
     "-wclu --write --check --list-different --config:! --plugin:! --plugin-search-dir:! "
     "--ignore-path:< --log-level: --loglevel: --no-config --no-editorconfig --cache "
     "--cache-location:> --stdin-filepath: --parser: --tab-width: --use-tabs --no-semi "
     "--single-quote --jsx-single-quote --quote-props: --trailing-comma: --bracket-same-line "
     "--arrow-parens: --print-width: --prose-wrap: --end-of-line: --no-error-on-unmatched-pattern "
     "--no-color --color --ignore-unknown --no-bracket-spacing --object-wrap:"},
    {"tsc", WRITES | PROGRAM_SINGLE | PROGRAM_FILES, 0,
     "-p: -project: -b -build -w -watch -v. -h. -noEmit -noEmitOnError -pretty -strict "
     "-skipLibCheck -target: -t: -module: -m: -moduleResolution: -outDir:> -outFile:> -rootDir: "
     "-declaration -d -sourceMap -incremental -tsBuildInfoFile:> -lib: -jsx: -allowJs -checkJs "
     "-esModuleInterop -resolveJsonModule -isolatedModules -noImplicitAny -strictNullChecks "
     "-diagnostics -extendedDiagnostics -listFiles -listEmittedFiles -traceResolution -showConfig "
     "-init -force -clean -dry -verbose -types: -typeRoots: -baseUrl: -removeComments "
     "-emitDeclarationOnly -declarationDir:> -noUnusedLocals -noUnusedParameters "
     "-preserveWatchOutput -generateTrace:> -forceConsistentCasingInFileNames -locale:"},
    {"jest vitest mocha ava nyc c8 tox nox", PROGRAM_OPAQUE, 0, ""},
    {"gradle gradlew mvn ant bazel buck sbt rake invoke just task scons waf "
     "dotnet msbuild xcodebuild xbuild nant pants buck2 bazelisk earthly dagger",
     PROGRAM_OPAQUE, 0, ""},
};
const struct shell_table shell_table_build = {rows, ELEMENTS(rows)};
