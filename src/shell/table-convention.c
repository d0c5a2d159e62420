/* SPDX-License-Identifier: Apache-2.0 */
/* Files that programs read by their names. What a program writes itself while it works (lock files,
 * caches) is not among the names: it belongs to what the program loads. */
#include "base/alloc.h"
#include "shell/convention.h"

#define HOOKS                                                                                      \
    " ^.git/hooks/pre-commit ^.git/hooks/pre-merge-commit ^.git/hooks/prepare-commit-msg "         \
    "^.git/hooks/commit-msg ^.git/hooks/post-commit ^.git/hooks/pre-rebase "                       \
    "^.git/hooks/post-checkout ^.git/hooks/post-merge ^.git/hooks/pre-push "                       \
    "^.git/hooks/pre-auto-gc ^.git/hooks/post-rewrite ^.git/hooks/applypatch-msg "                 \
    "^.git/hooks/pre-applypatch ^.git/hooks/post-applypatch ^.git/hooks/post-index-change "        \
    "^.git/hooks/reference-transaction ^.git/hooks/fsmonitor-watchman "                            \
    "^.git/hooks/push-to-checkout ^.git/hooks/update ^.git/hooks/pre-receive "                     \
    "^.git/hooks/post-receive ^.git/hooks/post-update ^.git/hooks/proc-receive"
#define PYTHON_PROJECT "^pyproject.toml ^setup.cfg setup.py ^tox.ini"
#define NODE_PROJECT   "^package.json"
#define INTERPRETER    "its libraries, and what it reads at its start"
#define EDITOR         "its own configuration, plugins, and what files that it opens make it run"
#define PACKAGES       "packages, and the code in them that is run to build or install them"
#define CONTAINERS                                                                                 \
    "Dockerfile Containerfile .dockerignore .containerignore compose.yaml compose.yml "            \
    "docker-compose.yaml docker-compose.yml compose.override.yaml compose.override.yml "           \
    "docker-compose.override.yaml docker-compose.override.yml docker-bake.hcl docker-bake.json "   \
    ".env ~.docker/config.json ~.config/containers/containers.conf"

const struct shell_convention shell_convention_rows[] = {
    /* builds */
    {"make gmake bmake remake", "GNUmakefile BSDmakefile makefile Makefile",
     "-C/ --directory/ -f< --file< --makefile<",
     "makefiles that others include, and all that recipes run"},
    {"ninja ninja-build samu", "build.ninja", "-C/ -f<",
     "files that it includes, and all that its rules run"},
    {"cmake ccmake",
     "CMakeLists.txt CMakePresets.json CMakeUserPresets.json CMakeCache.txt build.ninja Makefile",
     "-S/ -B/ -C< -P< --build/ --install/ --toolchain< *",
     "lists of subdirectories, modules and toolchains, and all that the build runs"},
    {"ctest cpack",
     "CTestTestfile.cmake CTestConfig.cmake DartConfiguration.tcl CPackConfig.cmake "
     "CMakePresets.json CMakeUserPresets.json",
     "--test-dir/ --config< -S<", "tests, and the scripts that describe them"},
    {"meson muon", "meson.build meson.options meson_options.txt build.ninja",
     "-C/ --native-file< --cross-file< *",
     "subdirectories and subprojects, and all that the build runs"},
    {"scons", "SConstruct Sconstruct sconstruct SConstruct.py", "-C/ -f< -D/ --directory/ --file<",
     "scripts of subdirectories, and all that the build runs"},
    {"waf", "waf wscript", "--top/", "scripts of subdirectories, and all that the build runs"},
    {"autoconf automake autoreconf aclocal autoheader libtoolize",
     "configure.ac configure.in Makefile.am acinclude.m4", "-I/ *", "macros, and what they run"},
    {"bazel bazelisk",
     "^MODULE.bazel ^WORKSPACE ^WORKSPACE.bazel BUILD BUILD.bazel ^.bazelrc ^.bazelversion "
     "^tools/bazel ~.bazelrc",
     "--bazelrc<", "packages and rules, and all that the build runs"},
    {"buck buck2", "^.buckconfig ^.buckconfig.local BUCK TARGETS", "",
     "packages and rules, and all that the build runs"},
    {"xmake premake5 tup gn gyp please pants",
     "^xmake.lua ^premake5.lua ^Tupfile ^.gn BUILD.gn binding.gyp ^pants.toml", "-C/ --file<",
     "files that it includes, and all that the build runs"},
    {"just", "^justfile ^Justfile ^JUSTFILE ^.justfile", "-f< --justfile< -d/ --working-directory/",
     "files that it imports, and all that recipes run"},
    {"task go-task",
     "^Taskfile.yml ^Taskfile.yaml ^taskfile.yml ^taskfile.yaml ^Taskfile.dist.yml "
     "^Taskfile.dist.yaml",
     "-t< --taskfile< -d/ --dir/", "files that it includes, and all that tasks run"},
    {"rake thor guard", "^rakefile ^Rakefile ^rakefile.rb ^Rakefile.rb ^Thorfile ^Guardfile",
     "-f< --rakefile< -C/", "libraries and task files, and all that tasks run"},
    {"invoke inv fab", "^tasks.py ^tasks/__init__.py ^invoke.yaml ^invoke.py ^fabfile.py",
     "-r/ --search-root/ -f<", "modules that tasks import, and all that tasks run"},
    {"ant", "build.xml", "-f< -file< -buildfile<",
     "files that it imports, and all that targets run"},
    {"mvn mvnw mvnd",
     "pom.xml ^.mvn/extensions.xml ^.mvn/maven.config ^.mvn/jvm.config "
     "^.mvn/wrapper/maven-wrapper.properties ^.mvn/wrapper/maven-wrapper.jar ~.m2/settings.xml "
     "~.mavenrc",
     "-f< --file< -s< --settings<", "parent projects, modules and plugins, and tests"},
    {"gradle gradlew",
     "build.gradle build.gradle.kts ^settings.gradle ^settings.gradle.kts ^gradle.properties "
     "^gradle/wrapper/gradle-wrapper.properties ^gradle/wrapper/gradle-wrapper.jar "
     "^buildSrc/build.gradle ^buildSrc/build.gradle.kts ~.gradle/gradle.properties "
     "~.gradle/init.gradle ~.gradle/init.gradle.kts",
     "-p/ --project-dir/ -b< --build-file< -I< --init-script< -c< --settings-file<",
     "scripts of projects and plugins, and tests"},
    {"sbt", "build.sbt project/build.properties project/plugins.sbt .sbtopts .jvmopts ~.sbtrc", "",
     "sources of the build, plugins, and tests"},
    {"lein boot clj clojure bb",
     "project.clj profiles.clj build.boot boot.properties deps.edn bb.edn user.clj "
     "~.lein/profiles.clj ~.boot/profile.boot ~.clojure/deps.edn",
     "", "dependencies and plugins, and what the project runs"},
    {"dotnet msbuild nuget",
     "^Directory.Build.props ^Directory.Build.targets ^Directory.Packages.props ^global.json "
     "^nuget.config ^NuGet.Config",
     "*", "projects, targets and packages, and tests"},
    {"cargo cross",
     "^Cargo.toml build.rs ^.cargo/config.toml ^.cargo/config ^rust-toolchain "
     "^rust-toolchain.toml ~.cargo/config.toml ~.cargo/config ^Cross.toml",
     "--manifest-path< -C/ --config<",
     "sources, dependencies, build scripts and macros, and what it builds and runs"},
    {"rustc rustdoc rustup rustfmt clippy-driver",
     "^rust-toolchain ^rust-toolchain.toml ^rustfmt.toml ^clippy.toml", "",
     "sources, macros of crates, and the toolchain that the project asks for"},
    {"go", "^go.mod ^go.work ~.config/go/env", "-C/ -modfile<",
     "packages and modules, generators and tests, and what they run"},
    {"golangci-lint goreleaser mage",
     "^.golangci.yml ^.golangci.yaml ^.golangci.toml ^.goreleaser.yml ^.goreleaser.yaml "
     "magefile.go ^go.mod",
     "-c< --config<", "packages and plugins, and what they run"},
    {"dune opam", "dune ^dune-project ^dune-workspace opam", "--root/",
     "rules of subdirectories, and what they run"},
    {"stack cabal",
     "^stack.yaml package.yaml Setup.hs Setup.lhs ^cabal.project ^cabal.project.local "
     "~.cabal/config ~.stack/config.yaml",
     "--stack-yaml< --project-file<", "packages, their set-up programs, and tests"},
    {"mix rebar3 elixir iex erl escript",
     "mix.exs .formatter.exs config/config.exs rebar.config rebar.config.script .iex.exs ~.iex.exs "
     "~.erlang",
     "", INTERPRETER},
    {"composer", "composer.json auth.json ~.composer/composer.json ~.config/composer/composer.json",
     "-d/ --working-dir/", PACKAGES},
    {"zig nim nimble crystal shards",
     "build.zig build.zig.zon ^config.nims ^nim.cfg shard.yml ~.config/nim/config.nims",
     "--build-file<", "sources that are run while they are built, and packages"},
    {"swift", "Package.swift", "--package-path/", PACKAGES},
    {"earthly dagger", "Earthfile dagger.json ^.env", "-f< *", "files and images that it names"},

    /* tests and linters */
    {"pytest py.test",
     "^conftest.py ^pytest.ini ^.pytest.ini ^pytest.toml ^.pytest.toml " PYTHON_PROJECT,
     "-c< --config-file< --rootdir/ --confcutdir/ *",
     "tests, conftest.py of every directory, plugins, and what they import"},
    {"unittest nose2 nose doctest trial stestr behave robot",
     "^unittest.cfg ^nose2.cfg ^.stestr.conf ^behave.ini " PYTHON_PROJECT,
     "-s/ --start-directory/ -t/ --top-level-directory/ *", "tests, and what they import"},
    {"tox nox", "^tox.toml noxfile.py " PYTHON_PROJECT, "-c< --conf< -f< --noxfile< --root/",
     "tests and plugins, and what environments install and run"},
    {"coverage", "^.coveragerc " PYTHON_PROJECT, "--rcfile<", "the program that it measures"},
    {"black isort flake8 pylint mypy dmypy pyright ruff bandit pycodestyle pydocstyle pyflakes "
     "yapf autopep8 vulture pyre",
     "^.flake8 ^.pylintrc ^pylintrc ^mypy.ini ^.mypy.ini ^ruff.toml ^.ruff.toml ^.isort.cfg "
     "^pyrightconfig.json " PYTHON_PROJECT,
     "--config< --config-file< --rcfile<", "plugins that a configuration names"},
    {"jest",
     NODE_PROJECT " ^jest.config.js ^jest.config.ts ^jest.config.mjs ^jest.config.cjs "
                  "^jest.config.json ^babel.config.js ^.babelrc",
     "-c< --config< --rootDir/", "tests, set-up files and transforms, and what they load"},
    {"vitest vite webpack rollup esbuild parcel next nuxt astro ng vue-cli-service",
     NODE_PROJECT " ^vitest.config.ts ^vitest.config.js ^vitest.config.mts ^vite.config.ts "
                  "^vite.config.js ^vite.config.mjs ^webpack.config.js ^rollup.config.js "
                  "^rollup.config.mjs ^.parcelrc ^next.config.js ^next.config.mjs ^nuxt.config.ts "
                  "^astro.config.mjs ^angular.json ^vue.config.js ^tsconfig.json",
     "-c< --config< --root/", "sources, tests and plugins, and what they load"},
    {"mocha ava nyc c8 tap cypress playwright karma wdio",
     NODE_PROJECT " ^.mocharc.js ^.mocharc.cjs ^.mocharc.yaml ^.mocharc.yml ^.mocharc.json "
                  "^.mocharc.jsonc ^ava.config.js ^ava.config.cjs ^ava.config.mjs ^.nycrc "
                  "^.nycrc.json ^nyc.config.js ^.c8rc.json ^cypress.config.js ^cypress.config.ts "
                  "^playwright.config.js ^playwright.config.ts ^karma.conf.js ^wdio.conf.js",
     "-c< --config< *", "tests, and what they load"},
    {"eslint prettier stylelint biome standard xo tslint",
     NODE_PROJECT " ^.eslintrc ^.eslintrc.js ^.eslintrc.cjs ^.eslintrc.yaml ^.eslintrc.yml "
                  "^.eslintrc.json ^eslint.config.js ^eslint.config.mjs ^eslint.config.cjs "
                  "^eslint.config.ts ^.prettierrc ^.prettierrc.json ^.prettierrc.yml "
                  "^.prettierrc.yaml ^.prettierrc.js ^.prettierrc.cjs ^.prettierrc.mjs "
                  "^prettier.config.js ^prettier.config.cjs ^prettier.config.mjs ^.stylelintrc "
                  "^stylelint.config.js ^biome.json ^tslint.json",
     "-c< --config< *", "configurations of directories, plugins and parsers"},
    {"tsc tsx ts-node swc-node esno", "^tsconfig.json " NODE_PROJECT, "-p< --project< *",
     "modules, and plugins that a configuration names"},
    {"rspec cucumber minitest rubocop standardrb",
     "^.rspec ^.rspec-local ~.rspec ^.rubocop.yml ^cucumber.yml ^Gemfile spec/spec_helper.rb",
     "-O< -c< --config< *", "tests, libraries and plugins"},
    {"phpunit pest phpstan psalm php-cs-fixer phpcs",
     "phpunit.xml phpunit.xml.dist phpstan.neon phpstan.neon.dist psalm.xml .php-cs-fixer.php "
     ".php-cs-fixer.dist.php phpcs.xml composer.json",
     "-c< --configuration<", "tests and what they load"},
    {"prove bats shellspec", "^.proverc ^.shellspec", "*", "tests, and what they run"},

    /* packages */
    {"npm npx yarn yarnpkg pnpm pnpx bun bunx corepack lerna nx turbo rush",
     NODE_PROJECT " ^.npmrc ~.npmrc ^.yarnrc ^.yarnrc.yml ^.pnpmfile.cjs ^pnpm-workspace.yaml "
                  "^bunfig.toml ^lerna.json ^nx.json ^turbo.json ^rush.json",
     "-C/ --prefix/ --cwd/ --dir/ *",
     "scripts of the project, packages, and what they run when they are installed"},
    {"pip pipx easy_install",
     "^requirements.txt ~.config/pip/pip.conf ~.pip/pip.conf "
     "~.pydistutils.cfg :setup.py :setup.cfg :pyproject.toml",
     "-r< --requirement< -c< --constraint< -e/ --editable/ *", PACKAGES},
    {"uv uvx poetry pdm hatch rye pipenv pixi build flit twine setuptools",
     "^uv.toml ^poetry.toml ^pdm.toml ^hatch.toml ^Pipfile ^pixi.toml ^.python-version ^.env "
     "~.config/uv/uv.toml " PYTHON_PROJECT,
     "-C/ -p/ --directory/ --project/ --manifest-path< *", PACKAGES},
    {"conda mamba micromamba", "environment.yml environment.yaml ~.condarc ~.mambarc .condarc",
     "-f< --file<", PACKAGES},
    {"bundle bundler gem",
     "^Gemfile ^gems.rb ^.bundle/config ~.bundle/config ~.gemrc ~.config/gem/gemrc", "--gemfile<",
     PACKAGES},
    {"cpan cpanm cpm luarocks",
     "cpanfile Makefile.PL Build.PL ~.cpan/CPAN/MyConfig.pm "
     "~.luarocks/config.lua",
     "*", PACKAGES},
    {"apt apt-get apt-cache aptitude dpkg rpm yum dnf zypper pacman apk emerge brew snap flatpak "
     "choco winget update-alternatives",
     "~.config/apt.conf", "", "scripts of packages that are run when those are installed"},
    {"debuild dpkg-buildpackage rpmbuild makepkg",
     "debian/rules debian/control debian/changelog PKGBUILD ~.rpmmacros ~.devscripts", "*",
     "the rules of the package, and all that the build runs"},
    {"nix nix-build nix-shell nix-env guix",
     "^flake.nix ^shell.nix ^default.nix ^.envrc manifest.scm guix.scm channels.scm "
     "~.config/nix/nix.conf",
     "-f< --file< *", "expressions that it imports, and what they build and run"},
    {"direnv mise rtx asdf pyenv rbenv nodenv jenv goenv nvm fnm volta",
     "^.envrc ^mise.toml ^.mise.toml ^.tool-versions ^.python-version ^.ruby-version "
     "^.node-version ^.nvmrc ^.java-version ^.go-version ^package.json ~.config/mise/config.toml "
     "~.asdfrc ~.config/direnv/direnvrc ~.direnvrc",
     "", "versions and programs that it chooses, and their hooks"},

    /* versions of sources */
    {"git git-lfs tig lazygit gh hub glab jj",
     "^.git ^.git/config ^.git/config.worktree ^.git/info/attributes ^.gitattributes ^.gitmodules "
     "~.gitconfig ~.config/git/config ~.config/git/attributes ~.config/gh/config.yml" HOOKS,
     "-C/ --git-dir/ --work-tree/",
     "aliases, pagers, editors, filters, helpers and hooks that its configuration names, and files "
     "that the configuration includes"},
    {"hg svn bzr cvs fossil darcs",
     "^.hg/hgrc ~.hgrc ~.config/hg/hgrc ~.subversion/config ^_darcs/prefs/defaults", "-R/ --cwd/",
     "extensions, hooks, editors and helpers that its configuration names"},
    {"pre-commit husky lefthook overcommit lint-staged",
     "^.pre-commit-config.yaml ^.pre-commit-hooks.yaml ^lefthook.yml ^lefthook.yaml "
     "^.lefthook.yml ^.overcommit.yml ^.lintstagedrc ^lint-staged.config.js ^package.json",
     "-c< --config<", "hooks, and what they install and run"},

    /* containers, clusters, machines */
    {"docker docker-compose podman podman-compose buildah nerdctl buildx skopeo kaniko img",
     CONTAINERS, "-f< --file< *", "the build's files, images, and what they run"},
    {"kubectl oc helm kustomize skaffold tilt k9s helmfile",
     "kustomization.yaml kustomization.yml Chart.yaml values.yaml skaffold.yaml Tiltfile "
     "helmfile.yaml ~.kube/config",
     "-f< -k/ --kubeconfig< *", "plugins and helpers that hold credentials, charts and templates"},
    {"terraform tofu terragrunt packer pulumi cdk sam serverless sls",
     "main.tf terragrunt.hcl terraform.tfvars Pulumi.yaml cdk.json template.yaml serverless.yml "
     "~.terraformrc ~.tofurc",
     "-chdir/ --working-dir/ *", "all configuration of the directory, modules and providers"},
    {"ansible ansible-playbook ansible-galaxy ansible-pull ansible-inventory molecule salt-call "
     "salt-ssh puppet chef-client knife",
     "ansible.cfg ~.ansible.cfg hosts inventory Saltfile ^.chef/config.rb", "-i< --inventory< *",
     "roles, inventories, plugins and modules"},
    {"vagrant", "^Vagrantfile ~.vagrant.d/Vagrantfile", "", "plugins, and what machines run"},
    {"act circleci", ".actrc ~.actrc .circleci/config.yml", "-W< -C/",
     "workflows, and the actions that they name"},
    {"foreman honcho hivemind overmind goreman supervisord circusd",
     "Procfile .env .foreman .overmind.env supervisord.conf", "-f< -d/ -c<",
     "the commands that the file lists"},
    {"nodemon watchexec entr reflex modd air gow concurrently env-cmd dotenv dotenvx doppler",
     "^nodemon.json ^package.json modd.conf .air.toml .env .env-cmdrc", "-c< --config< -f<",
     "the commands that its configuration lists"},

    /* interpreters; of python, node and their like the runner says that there are libraries */
    {"python pypy", ":__main__.py", "*", NULL},
    {"node nodejs", "^package.json :index.js :index.mjs :index.cjs", "*", NULL},
    {"deno", "^deno.json ^deno.jsonc ^package.json", "-c< --config< *", NULL},
    {"ruby perl lua php", "", "", NULL},
    {"ipython bpython ptpython jython micropython jupyter flask django-admin gunicorn uvicorn "
     "celery streamlit",
     "^pyproject.toml wsgi.py app.py manage.py ~.ipython/profile_default/ipython_config.py "
     "gunicorn.conf.py .flaskenv .env",
     "*", INTERPRETER},
    {"irb pry jruby rails", ".irbrc ~.irbrc .pryrc ~.pryrc ^Gemfile config/application.rb", "",
     INTERPRETER},
    {"R Rscript", ".Rprofile ~.Rprofile .Renviron ~.Renviron", "", INTERPRETER},
    {"julia", "^Project.toml ^JuliaProject.toml ~.julia/config/startup.jl", "--project/",
     INTERPRETER},
    {"guile racket sbcl clisp ghci runghc ghc ocaml ocamlopt raku tclsh wish expect luajit texlua "
     "groovy scala scalac kotlin kotlinc osascript qjs duk mujs gjs jjs nashorn gforth picolisp "
     "tcc-run jshell bc dc octave gnuplot fish nu pwsh elvish xonsh csh tcsh rc es m4",
     "~.guile ~.sbclrc ~.clisprc ^.ghci ~.ghci .ocamlinit ~.ocamlinit ~.tclshrc ~.wishrc "
     "~.expect.rc .octaverc ~.octaverc .gnuplot ~.gnuplot ~.config/fish/config.fish ~.cshrc "
     "~.tcshrc ~.xonshrc ~.bcrc",
     "", INTERPRETER},
    {"java javac", "", "-cp/ -classpath/ --class-path/ -jar<",
     "classes, agents and processors of annotations"},
    {"wine qemu-user", "", "", "libraries, and what it reads at its start"},

    /* editors, debuggers, terminals */
    {"vi vim nvim view vimdiff rvim ex gvim",
     ".vimrc .exrc .nvimrc .nvim.lua ~.vimrc ~.exrc ~.vim/vimrc ~.config/nvim/init.vim "
     "~.config/nvim/init.lua",
     "-u< -S<", EDITOR},
    {"emacs emacsclient", "^.dir-locals.el ~.emacs ~.emacs.d/init.el ~.config/emacs/init.el",
     "-l< --load<", EDITOR},
    {"nano pico joe micro kak helix hx ed code subl",
     "~.nanorc ~.joerc ~.config/helix/config.toml .helix/config.toml .vscode/settings.json "
     ".vscode/tasks.json",
     "", EDITOR},
    {"gdb gdbserver lldb rr perf valgrind strace ltrace ltrace-ng uftrace heaptrack scan-build "
     "intercept-build bear",
     ".gdbinit ~.gdbinit ~.config/gdb/gdbinit .lldbinit ~.lldbinit ^.valgrindrc ~.valgrindrc "
     "~.perfconfig ~.ltrace.conf",
     "-x<", "scripts that it loads for the programs that it looks at"},
    {"tmux screen zellij xterm gnome-terminal konsole openvt startx xinit",
     "~.tmux.conf ~.config/tmux/tmux.conf ~.screenrc ~.xinitrc ~.Xresources", "-f< -c<",
     "its own configuration, and the shell that it runs"},
    {"less more most pg man fzf peco bat delta",
     "~.lesskey ~.config/lesskey ~.config/bat/config ~.manpath", "",
     "filters and previews that its configuration names"},

    /* databases, transfers, documents */
    {"psql mysql mariadb sqlite sqlite3 mongo mongosh redis-cli",
     "~.psqlrc ~.my.cnf ~.mylogin.cnf ~.sqliterc ~.config/sqlite3/sqliterc ~.mongorc.js "
     "~.mongoshrc.js ~.redisclirc .pg_service.conf ~.pg_service.conf",
     "", "its own configuration, and extensions"},
    {"ssh scp sftp rsync mosh sshfs autossh ssh-agent", "~.ssh/config ~.ssh/rc", "-F<",
     "commands that its configuration names"},
    {"curl wget", "~.curlrc ~.config/curlrc ~.wgetrc", "-K< --config<", "its own configuration"},
    {"latexmk pdflatex latex tex xelatex lualatex pandoc gs ghostscript convert magick ffmpeg "
     "asciidoctor sphinx-build mkdocs hugo jekyll",
     ".latexmkrc latexmkrc ~.latexmkrc texmf.cnf conf.py mkdocs.yml hugo.toml config.toml "
     "_config.yml ~.config/ImageMagick/policy.xml ~.config/ImageMagick/delegates.xml",
     "*", "styles, filters, delegates and plugins"},
    {"openssl gpg gpg-agent gpg2", "~.gnupg/gpg.conf ~.gnupg/gpg-agent.conf ~.rnd", "-config<",
     "engines, providers and helpers that its configuration names"},
    {"jq", "~.jq", "-L/ --from-file<", NULL},
    {"nmap check-jsonschema dialog whiptail zenity logrotate run-parts crontab at batch "
     "start-stop-daemon mtools debugfs fpc dmd gnat nasm",
     "~.nmaprc ~.fpc.cfg dmd.conf ~.mtoolsrc", "*", "its own configuration, and what that runs"},
    {"sudo doas su-exec pkexec gksudo kdesudo systemctl systemd-run machinectl systemd-nspawn lxc "
     "lxc-execute incus distrobox toolbox firejail bwrap nsjail minijail0 sandbox-exec",
     "~.config/firejail/firejail.config", "",
     "its own configuration, and what is in the place where it runs the command"},
    {"su runuser login newgrp",
     "/etc/profile /etc/bash.bashrc ~.profile ~.bash_profile ~.bash_login ~.bashrc ~.kshrc "
     "~.zshenv ~.zprofile ~.zshrc ~.zlogin",
     "", "the start files of the user's shell, and its own configuration"},
    {"op chamber aws-vault envchain envconsul infisical teller with-env dbus-launch "
     "dbus-run-session xvfb-run caffeinate rlwrap proxychains proxychains4 torify torsocks tsocks "
     "ccache sccache distcc icecc colorgcc criu execlineb runsv s6-envdir with-contenv hyperfine "
     "pv-run",
     "~.proxychains/proxychains.conf proxychains.conf ~.config/ccache/ccache.conf ~.ccache/"
     "ccache.conf ~.colorgccrc .env",
     "", "its own configuration"},
};
const size_t shell_convention_count = ELEMENTS(shell_convention_rows);

/* As the manuals of the shells have them, with the places that Debian compiles in. Which file a
 * variable names (ENV, BASH_ENV, ZDOTDIR) is listed with the variable. A login shell that ends
 * reads a file as well. */
const struct shell_start shell_start_rows[] = {
    {"bash rbash", "",
     "/etc/profile ~.bash_profile ~.bash_login ~.profile ~.bash_logout /etc/bash.bash_logout",
     "/etc/bash.bashrc ~.bashrc"},
    {"sh dash ash posh", "", "/etc/profile ~.profile", ""},
    {"ksh rksh mksh lksh oksh pdksh", "", "/etc/profile ~.profile",
     "/etc/ksh.kshrc /etc/mkshrc ~.kshrc ~.mkshrc"},
    {"yash", "", "/etc/yash_profile ~.yash_profile ~.config/yash/profile",
     "/etc/yashrc ~.yashrc ~.config/yash/rc"},
    {"zsh rzsh", "/etc/zshenv /etc/zsh/zshenv ~.zshenv",
     "/etc/zprofile /etc/zsh/zprofile ~.zprofile /etc/zlogin /etc/zsh/zlogin ~.zlogin "
     "/etc/zlogout /etc/zsh/zlogout ~.zlogout",
     "/etc/zshrc /etc/zsh/zshrc ~.zshrc"},
};
const size_t shell_start_count = ELEMENTS(shell_start_rows);

/* Besides the programs of table-basic.c and table-text.c: what does nothing but what its words say,
 * or only runs the command that its words name. Shells do so but for their start files. */
const char shell_convention_quiet[] =
    "sh bash dash ash ksh rbash rksh mksh lksh oksh pdksh posh yash zsh rzsh : . [ [[ alias bg bind break builtin caller cd command compgen "
    "complete compopt continue coproc declare dirs disown echo enable eval exec exit export false "
    "fc fg getopts hash help history jobs kill let local logout mapfile popd printf pushd read "
    "readarray readonly return set shift shopt source suspend test times trap true type typeset "
    "ulimit umask unalias unset wait "
    "gcc g++ cc c++ clang clang++ cpp gfortran gdc tcc musl-gcc ld lld mold as ar nm ranlib strip "
    "objdump objcopy readelf size ldd addr2line gofmt goimports ld.so "
    "aa-exec abduco busybox toybox catatonit catchsegv cgexec choom chpst chronic chroot chrt "
    "cpulimit cross-env cross-env-shell daemon daemonize ddrescue dtach dumb-init eatmydata env "
    "envdir envuidgid fakechroot fakeroot fakeroot-ng faketime flock genv gnice gnohup gosu "
    "gstdbuf gtimeout i386 ionice jchroot keep-one-running linux32 linux64 lockf logsave mispipe "
    "newns nice nocache noglob nohup nsenter numactl pgrphack prlimit proot run-one run-this-one "
    "runcon s6-applyuidgid s6-setuidgid s6-softlimit schedtool setarch setlock setpriv setsid "
    "setuidgid softlimit stdbuf systemd-inhibit taskset time timeout tini tini-static ts uclampset "
    "unbuffer unshare vipe watch x86_64 capsh sg parallel sem "
    "dpkg-query nc ncat netcat tcpdump ip socat ss netstat ping ps top free uptime uname hostname "
    "id whoami who groups users tty stty tset clear nproc arch lscpu lsblk mount umount dd sync "
    "mkfifo mknod mktemp shred cal yes expr factor numfmt pathchk printenv logname link nologin "
    "pgrep pkill killall fuser lsof vmstat iostat getent locale iconv tsort pr ptx "
    "look hexyl lsusb lspci getconf reset tput pidof pstree pwdx renice sysctl w";
