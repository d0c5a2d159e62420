/* SPDX-License-Identifier: Apache-2.0 */
/* Options of package managers. Installing runs code of others, which is for rules to say; options
 * that name another shell, configuration or place are more than that. */
#include "base/alloc.h"
#include "shell/options.h"

#define SUBS PROGRAM_SUBS

#define NPM                                                                                          \
    "-sdqyDEOBPlaf -g| -w: -C:/ --silent --quiet --loglevel: --verbose --global| --save --save-dev " \
    "--save-exact --save-optional --save-peer --no-save --production --omit: --include: --only: "    \
    "--workspace: --workspaces --if-present --ignore-scripts --no-audit --no-fund --audit "          \
    "--fund --offline --prefer-offline --prefer-online --json --long --parseable --depth: --all "    \
    "--force --legacy-peer-deps --strict-peer-deps --dry-run --package-lock-only "                   \
    "--no-package-lock --tag: --access: --otp: --registry: --frozen-lockfile --recursive "           \
    "--filter: --parallel --stream --no-color --color --immutable --yes --prefix:/ --cwd:/ "         \
    "--dir:/ --script-shell:! --shell:! --node-options:! --userconfig:! --globalconfig:! "           \
    "--init-module:! --git:! --editor:! --call:! --scripts-prepend-node-path: --exact --dev "        \
    "--audit-level: --shell-emulator --use-stderr --sequential --resume-from: --watch"
#define PIP                                                                                        \
    "-qvyUIl -c:< -r:< -e: -i: -f: -t:> -d:> --quiet --verbose --yes --upgrade --user --pre "      \
    "--no-deps --requirement:< --constraint:< --editable: --index-url: --extra-index-url: "        \
    "--no-index --find-links: --target:> --prefix: --root: --dest:> --no-cache-dir "               \
    "--break-system-packages --dry-run --force-reinstall --ignore-installed --no-input "           \
    "--disable-pip-version-check --outdated --format: --local --path: --require-virtualenv "       \
    "--config-settings:! --global-option:! --install-option:! --build-option:! "                   \
    "--trusted-host: --proxy: --cert:< --upgrade-strategy: --only-binary: --no-binary: "           \
    "--no-build-isolation --use-pep517 --root-user-action: --log:> --progress-bar: --timeout: "    \
    "--retries: --exclude: --report:> --files --verbose"

#define APT                                                                                        \
    "-yqsdfmu -t: -o:! -c:! -a: --yes --assume-yes --quiet --simulate --dry-run --download-only "  \
    "--no-install-recommends --no-install-suggests --fix-broken --fix-missing --reinstall "        \
    "--purge "                                                                                     \
    "--allow-downgrades --target-release: --option:! --config-file:! --only-upgrade --upgradable " \
    "--installed --no-cache --names-only --full --autoremove --auto-remove --show-progress"

static const struct shell_program rows[] = {
    {"npm yarn pnpm", SUBS, 0, NPM " -v."},
    {"npm.test npm.t npm.tst npm.run npm.run-script npm.start npm.stop npm.restart npm.rum "
     "yarn.test yarn.start pnpm.run pnpm.test pnpm.start yarn.build yarn.lint pnpm.build "
     "pnpm.lint",
     PROGRAM_TARGETS, 0, NPM, "(script)"},
    /* A script of a package, which may be any test runner, linter or bundler: what none of them
     * takes for code, or for a file with code. Nothing is abbreviated or bundled. */
    {"(script)", PROGRAM_SINGLE | PROGRAM_FILES, 0,
     "-t: -u -v -q --fix --fix-dry-run --watch --watchAll --coverage --verbose --silent --quiet "
     "--ci --bail --run --runInBand --maxWorkers: --testNamePattern: --testPathPattern: --grep: "
     "--mode: --prod --production --passWithNoTests --updateSnapshot --update --json --color "
     "--no-color --host: --port: --check --write --noEmit --timeout: --retries: --max-warnings: "
     "--dry-run --minify --sourcemap --headed --forbidOnly --no-cache --list"},
    {"yarn.run", PROGRAM_RUNS | PROGRAM_NAMED, 0,
     "-BTv --inspect! --inspect-brk! --binaries-only --top-level --silent --verbose"},
    {"npm.install npm.i npm.add npm.ci npm.clean-install npm.uninstall npm.rm npm.remove "
     "npm.update "
     "npm.up npm.prune npm.dedupe npm.rebuild npm.link npm.publish npm.pack npm.version "
     "npm.ls npm.list npm.ll npm.outdated npm.view npm.info npm.show npm.audit npm.fund npm.search "
     "npm.explain npm.why npm.root npm.prefix npm.bin npm.ping npm.whoami npm.doctor npm.help "
     "yarn.add yarn.install yarn.remove yarn.upgrade yarn.list yarn.info yarn.why yarn.outdated "
     "yarn.publish yarn.audit yarn.version yarn.workspaces pnpm.add pnpm.install pnpm.i "
     "pnpm.remove "
     "pnpm.update pnpm.list pnpm.ls pnpm.why pnpm.outdated pnpm.publish pnpm.audit",
     PROGRAM_WRITES, 0, NPM},
    {"npm.config npm.init npm.create npm.explore npm.edit npm.pkg npm.set yarn.create pnpm.create "
     "yarn.config pnpm.config",
     PROGRAM_OPAQUE, 0, ""},
    {"pip pip3", SUBS, 0, PIP " -V. --isolated --python:!"},
    {"pip.install pip.uninstall pip3.install pip3.uninstall", PROGRAM_WRITES | PROGRAM_INSTALLS, 0,
     PIP},
    {"pip.download pip.list pip.show pip.freeze pip.check pip.wheel pip.index pip.search pip.cache "
     "pip.hash pip.inspect pip.debug pip3.download pip3.list pip3.show pip3.freeze pip3.check "
     "pip3.wheel",
     PROGRAM_WRITES, 0, PIP},
    {"uv", SUBS, 0,
     "-qvnV --quiet --verbose --no-cache --offline --directory:/ --project: --config-file:! "
     "--color: --no-progress --python-preference: --native-tls --no-config"},
    {"uv.pip", SUBS, 0, ""},
    {"uv.sync uv.lock uv.add uv.remove uv.tree uv.venv uv.version uv.init uv.build uv.export "
     "uv.pip.install uv.pip.list uv.pip.freeze uv.pip.show uv.pip.check uv.pip.compile uv.pip.sync "
     "uv.pip.uninstall uv.pip.tree",
     PROGRAM_WRITES, 0,
     PIP
     " -p: -o:> --dev --no-dev --frozen --locked --all-extras --extra: --group: --only-group: "
     "--package: --python: --system| --inexact --no-install-project --check --seed --output-file:> "
     "--universal --depth: --optional: --all-groups"},
    {"poetry.install poetry.add poetry.remove poetry.update poetry.lock poetry.build "
     "poetry.publish "
     "poetry.version pdm.install pdm.add pdm.sync rye.sync rye.add pixi.install pipenv.install "
     "pipenv.sync",
     PROGRAM_WRITES, 0,
     "-nqv -GE: --no-interaction --quiet --verbose --no-root --sync --with: --without: --only: "
     "--all-extras --extras: --group: --dev --dry-run --no-dev --lock --no-update"},
    {"apt apt-get aptitude apt-cache", SUBS, 0, APT},
    {"apt.install apt.remove apt.purge apt.update apt.upgrade apt.full-upgrade "
     "apt.dist-upgrade apt.autoremove apt.clean apt.autoclean apt.source apt.build-dep "
     "apt-get.install apt-get.remove apt-get.purge apt-get.update apt-get.upgrade "
     "apt-get.full-upgrade apt-get.dist-upgrade apt-get.autoremove apt-get.clean "
     "apt-get.autoclean apt-get.source apt-get.build-dep aptitude.install aptitude.remove "
     "aptitude.purge aptitude.update aptitude.upgrade aptitude.full-upgrade "
     "aptitude.dist-upgrade aptitude.autoremove aptitude.clean aptitude.autoclean "
     "aptitude.source aptitude.build-dep",
     PROGRAM_INSTALLS, 0, APT},
    {"apt.list apt.search apt.show apt.policy apt.depends apt.rdepends apt.download "
     "apt.madison apt.showpkg apt-get.list apt-get.search apt-get.show apt-get.policy "
     "apt-get.depends apt-get.rdepends apt-get.download apt-get.madison apt-get.showpkg "
     "aptitude.list aptitude.search aptitude.show aptitude.policy aptitude.depends "
     "aptitude.rdepends aptitude.download aptitude.madison aptitude.showpkg apt-cache.list "
     "apt-cache.search apt-cache.show apt-cache.policy apt-cache.depends apt-cache.rdepends "
     "apt-cache.download apt-cache.madison apt-cache.showpkg",
     0, 0, APT},
    {"dpkg", PROGRAM_OPAQUE, 0, ""},
    {"dpkg-query", 0, 0, "-lLWSsp -f: --list --listfiles --show --search --status --showformat:"},
    {"rpm", 0, 0,
     "-qaivhlcdeUFVf -E:! -p:< --query --all --info --list --changes --eval:! --pipe:! --define:! "
     "--install --upgrade --erase --nodeps --force --test --queryformat: --qf: --macros:! "
     "--rcfile:! "
     "--load:! --root: --dbpath:"},
    {"gem", SUBS, 0, ""},
    {"gem.install gem.uninstall gem.update", PROGRAM_WRITES | PROGRAM_INSTALLS, 0,
     "-NqaldrV -v: -i:> -n:> -s: -P: --no-document --user-install --version: --local --remote "
     "--both "
     "--source: --conservative --force --install-dir:> --bindir:> --quiet --all --pre"},
    {"gem.list gem.search gem.info gem.outdated gem.push gem.which", PROGRAM_WRITES, 0,
     "-NqaldrV -v: -i:> -n:> -s: -P: --no-document --user-install --version: --local --remote "
     "--both "
     "--source: --conservative --force --install-dir:> --bindir:> --quiet --all --exact --pre"},
    {"brew snap flatpak choco winget zypper yum dnf pacman apk emerge composer cpan cpanm luarocks "
     "opam "
     "stack cabal mix rebar3 lein boot corepack deno.install",
     PROGRAM_OPAQUE, 0, ""},
};
const struct shell_table shell_table_package = {rows, ELEMENTS(rows)};
