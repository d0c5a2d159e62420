/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and builtins that run another command. One that does nothing else is transparent; one
 * that also changes who runs it, or fetches what it runs, needs leave of its own. */
#include "base/alloc.h"
#include "shell/options.h"

#define PLAIN   PROGRAM_RUNS
#define SELF    (PROGRAM_RUNS | PROGRAM_SELF)
#define NAMED   (PROGRAM_RUNS | PROGRAM_NAMED)
#define ASSIGNS PROGRAM_ASSIGNS

static const struct shell_program rows[] = {
    {"env", PLAIN | ASSIGNS, 0,
     "-i0v -u: -C:/ -S:~ --ignore-environment --null --unset: --chdir:/ --split-string:~ --debug "
     "--block-signal? --default-signal? --ignore-signal? --list-signal-handling"},
    {"nice", PLAIN, 0, "-n: -0123456789 --adjustment:"},
    {"ionice", PLAIN, 0, "-cn: -t -pPu: --class: --classdata: --ignore --pid: --pgid: --uid:"},
    {"nohup noglob builtin", PLAIN, 0, ""},
    {"command", PLAIN, 0, "-p -vV."},
    {"exec", PLAIN, 0, "-a: -cl"},
    {"setsid", PLAIN, 0, "-cfw --ctty --fork --wait"},
    {"stdbuf", PLAIN, 0, "-ioe: --input: --output: --error:"},
    {"timeout", PLAIN, 1,
     "-sk: -fpv --signal: --kill-after: --foreground --preserve-status --verbose"},
    {"time", SELF, 0,
     "-f: -o:> -apqv --format: --output:> --append --portability --quiet --verbose"},
    {"linux32 linux64 x86_64 i386", PLAIN, 0,
     "-B3FILRSTXZv --32bit --3gb --4gb --addr-no-randomize --fdpic-funcptrs --short-inode "
     "--uname-2.6 --verbose --whole-seconds --sticky-timeouts"},
    {"setarch", PLAIN, 1,
     "-B3FILRSTXZv --32bit --3gb --4gb --addr-no-randomize --fdpic-funcptrs --short-inode "
     "--uname-2.6 --verbose --whole-seconds --sticky-timeouts"},
    {"taskset", PLAIN, 1, "-ac -p! --all-tasks --cpu-list --pid!"},
    {"chrt", PLAIN, 1, "-abdfimorRv -TPD: -p! --pid!"},
    {"numactl", PLAIN, 0,
     "-aHsl -CNimpw: --cpunodebind: --physcpubind: --interleave: --membind: --localalloc "
     "--preferred: --all --hardware --show"},
    {"flock", PLAIN, 1,
     "-ensux -Ew: -c:~ -Fo --command:~ --exclusive --shared --nonblock --unlock --close --timeout: "
     "--wait: --conflict-exit-code: --no-fork --verbose"},
    {"unbuffer", PLAIN, 0, "-p"},
    {"busybox toybox", PLAIN, 0, "--install! --list. --list-full."},
    {"sudo", SELF | ASSIGNS, 0,
     "-AbEHknPS -v. -ugpCcThrtURa: -D:/ -s! -i! -e! -l. --user: --group: --prompt: --host: "
     "--chdir:/ --chroot: --shell! --login! --edit! --non-interactive --preserve-env? --set-home "
     "--stdin --background --askpass --reset-timestamp --close-from: --role: --type: --list."},
    {"doas", SELF, 0, "-uC: -n -L -s!"},
    {"pkexec", SELF, 0, "--user: --disable-internal-agent --keep-cwd"},
    {"chroot", SELF, 1, "--userspec: --groups: --skip-chdir"},
    {"unshare", SELF, 0,
     "-cfimnpruTUCV -SGRwl: --fork --mount? --uts? --ipc? --net? --pid? --user? --cgroup? --time? "
     "--map-root-user --map-current-user --map-auto --map-user: --map-group: --mount-proc? "
     "--kill-child? --propagation: --setgroups: --root: --wd: --setuid: --setgid: --keep-caps"},
    /* Whether the word behind -S and -G is a value differs between its versions: not known. */
    {"nsenter", SELF, 0,
     "-aFe -t: -muinpCUTrw? --target: --all --mount? --uts? --ipc? --net? --pid? --cgroup? --user? "
     "--time? --root? --wd? --no-fork --preserve-credentials"},
    {"setpriv", SELF, 0,
     "--clear-groups --init-groups --keep-groups --groups: --ruid: --euid: --reuid: --rgid: "
     "--egid: "
     "--regid: --bounding-set: --inh-caps: --ambient-caps: --nnp --no-new-privs --pdeathsig: "
     "--securebits: --reset-env"},
    {"fakeroot fakeroot-ng fakechroot", SELF, 0, "-lib: -s:> -uhv --lib: --faked: -f:!"},
    {"rlwrap", SELF, 0, "-aAbcCdDefghHilmMnNopPqrRsStTvVwWz:!"},
    {"strace", SELF, 0,
     "-cCdDfFhiknqrtTvVwxyYzZ -aeEIOPsSuUXb: -o:> -p:! --output:> --trace: --attach:! "
     "--follow-forks"},
    {"ltrace", SELF, 0, "-bcCfhiLrStTV -aAeFlnsuwx: -o:> -p! --output:>"},
    {"valgrind", SELF, 0,
     "-qvhd --tool? --leak-check? --show-leak-kinds? --track-origins? --error-exitcode? "
     "--log-file?> --xml? --xml-file?> --suppressions?< --num-callers? --trace-children? --quiet "
     "--verbose --gen-suppressions? --track-fds? --child-silent-after-fork? --vgdb?"},
    {"catchsegv", SELF, 0, ""},
    {"systemd-run", SELF, 0,
     "-dGPqrStV -HMpuE: --unit: --property: --host: --machine: --user --system --scope --pty "
     "--pipe "
     "--quiet --wait --collect --setenv: --uid: --gid: --slice: --on-calendar: --shell!"},
    {"systemd-inhibit", SELF, 0, "--what: --who: --why: --mode: --list. --no-pager --no-legend"},
    {"prlimit", SELF, 0,
     "-p:! -o: -cdeflmnqrstuvxiy? --pid:! --output: --noheadings --raw --verbose"},
    {"dbus-run-session", SELF, 0, "--config-file:! --dbus-daemon:!"},
    {"dbus-launch", SELF, 0, "--exit-with-session --sh-syntax --csh-syntax --autolaunch:"},
    {"xvfb-run", SELF, 0,
     "-al -fnpsw: -e:> --auto-servernum --error-file:> --server-num: --server-args:! --wait:"},
    {"ld.so", SELF, 0,
     "--list. --verify. --inhibit-cache --library-path:! --inhibit-rpath: --preload:! --audit:! "
     "--argv0: --glibc-hwcaps-prepend: --glibc-hwcaps-mask: --list-tunables. --list-diagnostics."},
    {"tini tini-static", PLAIN, 0, "-sgvwl -pe:"},
    {"dumb-init", PLAIN, 0, "-cv -r: --single-child --rewrite: --verbose"},
    {"catatonit", PLAIN, 0, "-gP"},
    {"gosu su-exec setuidgid", SELF, 1, ""},
    {"proot", SELF, 0, "-0SqvRrbwk:! --rootfs:! --bind:! --cwd:/ --kill-on-exit -V. -h."},
    {"chpst softlimit", SELF, 0, "-uUb/endomtfcCr:! -vP012!"},
    {"envdir envuidgid", SELF, 1, ""},
    {"pgrphack ifne zrun gamemoderun prime-run mangohud lckdo", SELF, 0, "-n"},
    {"systemd-cat", SELF, 0,
     "-tp: -hV. --identifier: --priority: --stderr-priority: --level-prefix: --namespace:"},
    {"cgexec", SELF, 0, "-g: --sticky"},
    {"cpulimit", SELF, 0, "-lpe: -cibmvzfq --limit: --pid: --exe:"},
    {"faketime", SELF, 1, "-mf --exclude-monotonic --date-prog:!"},
    {"eatmydata torsocks torify proxychains proxychains4 tsocks", SELF, 0, "-f:! -q"},
    {"firejail bwrap systemd-nspawn runcon sandbox-exec minijail0", SELF | PROGRAM_OPAQUE, 0, ""},
    {"ccache sccache distcc icecc colorgcc", PLAIN, 0,
     "-CVhpsxz! --clear! --set-config:! --show-stats. --zero-stats!"},
    {"caffeinate", PLAIN, 0, "-disu -tw:"},
    {"chronic vipe ts mispipe", SELF, 0, "-ev"},
    {"nocache ltrace-ng bear intercept-build scan-build", SELF, 0,
     "-o:> --output:> --append --cdb:> --use-cc:! --use-c++:! -vk"},
    {"gtimeout", PLAIN, 1, "-sk: -fpv --signal: --kill-after: --foreground --preserve-status"},
    {"gnice gnohup gstdbuf", PLAIN, 0, "-nioe: --adjustment: --input: --output: --error:"},
    {"genv", PLAIN | ASSIGNS, 0, "-i0v -u: -C:/ -S:! --ignore-environment --unset: --chdir:/"},
    {"cross-env cross-env-shell env-cmd", NAMED | ASSIGNS, 0, "-f:< -r: -e: --file:<"},
    {"choom uclampset schedtool", PLAIN, 0, "-nmM: -a -R -e --adjust: --reset-on-fork"},
    {"logsave lockf", SELF, 1, "-asvkn -t:"},
    {"ssh-agent gpg-agent", SELF, 0, "-cDdsk -aEOPt: --daemon --sh --csh --homedir: --options:!"},
    {"aa-exec newns nsjail runsv execlineb wine qemu-user jchroot gksudo kdesudo distrobox toolbox "
     "lerna nx turbo supervisord daemonize daemon xinit startx setlock s6-setuidgid s6-envdir "
     "s6-applyuidgid s6-softlimit with-contenv",
     PROGRAM_OPAQUE | SELF, 0, ""},
    /* Those that have too many forms to say where the command starts. */
    {"pee retry pm2 pm2-runtime pwsh powershell powershell.exe schroot lxc-attach lxc-start "
     "lxc-unshare lxc-usernsexec flatpak-spawn apptainer singularity runc crun youki ctr "
     "crictl rootlesskit pasta passt arch-chroot cow-shell pbuilder cowbuilder sbuild mock "
     "pseudo run0 please pfexec ksu dzdo gksu kdesu lxqt-sudo calife super sudoedit userdbctl "
     "sshpass autossh mosh rsh rexec pdsh clush dsh parallel-ssh pssh mussh salt fab cap knife "
     "et asciinema termtosvg ttyrec scriptlive reptyr byobu nq tsp rush rust-parallel mpirun "
     "mpiexec mpiexec.hydra orterun srun sbatch salloc qsub bsub torchrun accelerate deepspeed "
     "horovodrun ray celery gunicorn uvicorn streamlit jupyter ipython3 papermill kernprof "
     "py-spy memray scalene viztracer mprof austin pyinstrument ddtrace-run "
     "opentelemetry-instrument newrelic-admin debugpy pudb watchmedo watchman-make "
     "when-changed chokidar onchange npm-run-all npm-run-all2 run-s run-p wsrun zx forever "
     "supervisor shadowenv sops berglas summon keychain scl rvm rvm-exec chruby-exec proto "
     "pkgx tea aqua hermit sdk spack gotestsum richgo ginkgo cargo-watch bacon cross wasmtime "
     "wasmer wasm-pack trunk appimage-run steam-run box64 box86 qemu-x86_64 qemu-i386 "
     "qemu-aarch64 qemu-arm qemu-x86_64-static qemu-aarch64-static qemu-arm-static xdg-open "
     "gio gtk-launch dex exo-open x-terminal-emulator alacritty kitty foot urxvt terminator "
     "tilix wezterm xfce4-terminal lxterminal mate-terminal cage gamescope primusrun optirun "
     "vglrun gtime multitime poop bpftrace sysdig stap trace-cmd operf vtune nsys ncu "
     "compute-sanitizer cuda-gdb truss dtruss ktrace dtrace xcrun xctrace launchctl "
     "systemd-socket-activate tcpserver tcpsvd udpsvd inetd xinetd stunnel supervise svscan "
     "s6-svscan s6-supervise s6-log s6-setsid s6-ioconnect s6-sudo foreground background "
     "backtick importas forx forstdin redirfd elgetopt emptyenv exportall multisubstitute "
     "pipeline withstdinas justc-envdir with-lock-ex solo detach nosh svc cronolog anacron "
     "crond cron incrond lockrun chrootuid uchroot unchroot heroku flyctl fly nomad gcloud "
     "railway vercel netlify wrangler serverless sam envwarden dotenv-cli aws-okta aws-runas "
     "saml2aws granted assume",
     PROGRAM_OPAQUE | SELF, 0, ""},
    {"run-one run-this-one keep-one-running", SELF, 0, ""},
    {"dtach abduco", SELF, 1, "-acAnNeErz! -c! -n!"},
    {"direnv", PROGRAM_SUBS, 0, ""},
    {"direnv.exec", NAMED, 1, ""},
    {"direnv.status direnv.version", 0, 0, ""},
    {"npx pnpx bunx", NAMED, 0,
     "-y -q -p: -c:~ --yes --no --quiet --package: --no-install --ignore-existing --call:~ "
     "--prefer-offline --offline --bun --shell-auto-fallback? --workspace: -w: --workspaces"},
    {"uvx", NAMED, 0, "-qn -p: --from: --with: --python: --quiet --offline --no-cache --isolated"},
    {"uv.run", NAMED, 0,
     "-qvn -p: -m% -s -w: --python: --with: --with-editable: --with-requirements:< --extra: "
     "--all-extras --group: --dev --no-dev --only-dev --frozen --locked --no-sync --isolated "
     "--no-project --project: --directory:/ --env-file:< --module% --script --quiet --verbose "
     "--offline --package: --all-packages --active --exact"},
    {"uv.tool", PROGRAM_SUBS, 0, ""},
    {"uv.tool.run", NAMED, 0, "-qn -p: --from: --with: --python: --quiet --offline --isolated"},
    {"uv.tool.list", 0, 0, ""},
    {"pipx", PROGRAM_SUBS, 0, "-q --quiet --verbose"},
    {"pipx.run", NAMED, 0,
     "--spec: --python: --no-cache --path --pypackages --pip-args:! --verbose"},
    {"pipx.list", 0, 0, "--short --json"},
    {"poetry", PROGRAM_SUBS, 0,
     "-qvn -C:/ -V. --quiet --verbose --no-interaction --directory:/ --ansi "
     "--no-ansi --no-plugins --no-cache --project:"},
    {"pdm rye hatch pixi pipenv", PROGRAM_SUBS, 0,
     "-vq -p: -e: --verbose --quiet --env: --project:"},
    {"poetry.run pdm.run rye.run hatch.run pixi.run pipenv.run", NAMED, 0,
     "-e: -sv --environment: --site-packages --manifest-path:"},
    {"poetry.env poetry.show poetry.check pdm.list pdm.info rye.show pixi.list pixi.info "
     "pipenv.graph hatch.version",
     0, 0, "--tree --outdated --latest --path --top-level --json"},
    {"conda mamba micromamba", PROGRAM_SUBS, 0, ""},
    {"conda.run mamba.run micromamba.run", NAMED, 0,
     "-np: -v --name: --prefix: --no-capture-output --live-stream --cwd:/ --verbose --dev"},
    {"conda.list conda.info mamba.list micromamba.list", 0, 0, "-np: --name: --prefix: --json"},
    {"pnpm.exec pnpm.dlx yarn.exec yarn.dlx npm.exec npm.x bun.x", NAMED, 0,
     "-rqy -p: -c:~ -w: --call:~ --package: --yes --workspace: --workspaces --recursive --parallel "
     "--shell-mode! --silent --filter:"},
    {"bundle bundler", PROGRAM_SUBS, 0, "-r: --no-color --verbose --retry:"},
    {"bundle.exec bundler.exec", NAMED, 0, "--keep-file-descriptors --gemfile:!"},
    {"bundle.list bundle.show bundle.check bundle.info bundle.outdated", 0, 0,
     "--path --name-only --paths --dry-run --gemfile:<"},
    {"mise rtx asdf rbenv pyenv nodenv goenv jenv volta fnm nvm", PROGRAM_SUBS, 0, "-C:/ -qvy"},
    {"mise.exec mise.x rtx.exec rtx.x", NAMED | PROGRAM_ASSIGNS, 0,
     "-c:~ -j: -C:/ --command:~ --jobs: --raw --cd:/"},
    {"asdf.exec rbenv.exec pyenv.exec nodenv.exec goenv.exec jenv.exec volta.run fnm.exec nvm.exec "
     "nvm.run",
     NAMED, 0, "--node: --npm: --yarn: --using:"},
    {"mise.ls mise.current mise.which rbenv.version rbenv.versions pyenv.version pyenv.versions "
     "asdf.current asdf.list volta.list fnm.list nodenv.version nodenv.versions",
     0, 0, "-cgiJ --current --json --bare"},
    {"nix", PROGRAM_SUBS, 0,
     "-Lv --extra-experimental-features: --experimental-features: --offline "
     "--print-build-logs --verbose"},
    {"nix.develop nix.shell", 0, 0,
     "-c& -Li --command& --ignore-environment --keep: -k: --impure --offline --profile: "
     "--override-input:: --inputs-from:"},
    {"nix.run nix.build nix.eval nix.repl nix-shell nix-build nix-env guix", PROGRAM_OPAQUE, 0,
     "--run:~ --command:~"},
    {"nix.flake", PROGRAM_SUBS, 0, ""},
    {"nix.flake.show nix.flake.metadata nix.flake.info", 0, 0, "--json --all-systems"},
    {"rustup dune devbox coverage", PROGRAM_SUBS, 0, "-qv --quiet --verbose --root:/"},
    {"rustup.run", NAMED, 1, "--install!"},
    {"dune.exec devbox.run", NAMED, 0,
     "-qc: -e: --no-build --profile: --root:/ --env: --env-file:< --config: --display: --pure"},
    {"dune.build dune.runtest dune.test dune.fmt dune.clean", PROGRAM_WRITES, 0,
     "-wj: --watch --profile: --root:/ --display: --auto-promote --preview"},
    {"rustup.show rustup.which rustup.check devbox.list coverage.report coverage.xml coverage.html "
     "coverage.json coverage.erase coverage.combine",
     PROGRAM_WRITES, 0,
     "-miqa --show-missing --omit: --include: --fail-under: --data-file:> --skip-covered "
     "--skip-empty --precision: --sort: --format: --quiet --append --keep --toolchain:"},
    {"coverage.run", PROGRAM_OPAQUE, 0, ""},
    {"doppler chamber aws-vault op infisical teller dotenv dotenvx with-env envchain envconsul "
     "foreman honcho overmind hivemind concurrently nodemon watchexec entr reflex modd gow air",
     PROGRAM_OPAQUE, 0, ""},
    {"hyperfine perf gdbserver rr uftrace heaptrack ddrescue pv-run criu", PROGRAM_OPAQUE, 0, ""},
};
const struct shell_table shell_table_wrap = {rows, ELEMENTS(rows)};
