/* SPDX-License-Identifier: Apache-2.0 */
/* Options of interpreters: which hold code, which load some, and which only have values that look
 * like options. */
#include "base/alloc.h"
#include "shell/options.h"

#define SCRIPT PROGRAM_SCRIPT

static const struct shell_program rows[] = {
    {"python pypy jython micropython", SCRIPT, 0,
     "-bBdEIOPqRsSuvxtJ -hV. -i! -c:! -m:% -W: -X: -Q: --check-hash-based-pycs:"},
    {"ipython bpython ptpython", SCRIPT, 0, "-i! -c:! -m:%"},
    {"perl", SCRIPT, 0,
     "-cstTuUwWXfSa -l? -v. -V?. -0? -e:! -E:! -M:! -m:! -I:! -d?! -D? -C? -F? -i? -n! -p! -x?"},
    {"ruby jruby", SCRIPT, 0,
     "-acdlswvyU -h. -e:! -r:! -I:! -n! -p! -S -T? -W? -x? -i? -C:/ -E: -K? -F? -0? --yjit --jit "
     "--disable: --enable: --encoding: --verbose --copyright."},
    {"irb pry", PROGRAM_OPAQUE, 0, ""},
    {"node nodejs", SCRIPT, 0,
     "-h. -v. -c -e:! -p?! -r:! -i! -C: --eval:! --print?! --require:! --import:! --loader:! "
     "--experimental-loader:! --interactive! --check --conditions: --inspect? --inspect-brk? "
     "--inspect-port: --test. --test-only --test-name-pattern: --test-reporter:! "
     "--test-reporter-destination:> --test-concurrency: --test-timeout: --watch --watch-path: "
     "--no-warnings --trace-warnings --trace-deprecation --throw-deprecation --no-deprecation "
     "--pending-deprecation --enable-source-maps --experimental-vm-modules "
     "--experimental-strip-types --experimental-transform-types --experimental-modules "
     "--experimental-json-modules --experimental-fetch --experimental-sqlite --max-old-space-size? "
     "--max-semi-space-size? --stack-size? --stack-trace-limit? --expose-gc "
     "--unhandled-rejections: "
     "--preserve-symlinks --preserve-symlinks-main --dns-result-order: --trace-exit "
     "--trace-uncaught "
     "--trace-gc --prof --cpu-prof --cpu-prof-dir:> --heap-prof --env-file:! --title: "
     "--icu-data-dir: "
     "--input-type: --run:! --snapshot-blob:! --build-snapshot --experimental-test-coverage"},
    {"tsx ts-node swc-node esno", SCRIPT, 0,
     "-h. -v. -e:! -p:! -r:! -P:! -T --eval:! --print:! --require:! --project:! --tsconfig:! "
     "--transpile-only --files --esm --watch --no-cache --swc --import:! --loader:!"},
    {"deno", PROGRAM_SUBS, 0, "-q -V. --quiet"},
    {"deno.check deno.fmt deno.lint deno.info deno.test deno.doc deno.cache", PROGRAM_WRITES, 0,
     "-qrA --check --quiet --allow-read? --allow-net? --allow-env? --allow-write? --no-check "
     "--filter: --json --fix --ignore: --parallel --fail-fast?"},
    {"bun", PROGRAM_SUBS, 0, "-v. -h. --silent --cwd:/"},
    {"bun.test bun.install bun.i bun.add bun.remove bun.update bun.outdated bun.pm", PROGRAM_WRITES,
     0,
     "-dgyDE -t: --timeout: --bail? --only --todo --coverage --rerun-each: --test-name-pattern: "
     "--watch --frozen-lockfile --production --no-save --dev --exact --global"},
    {"bun.run", PROGRAM_RUNS | PROGRAM_NAMED, 0,
     "-r:! -b --preload:! --watch --hot --silent --if-present --bun --shell:! --filter:"},
    {"bun.build", PROGRAM_WRITES, 0,
     "--outdir:> --outfile:> --target: --minify --sourcemap? --watch --splitting --format:"},
    {"php", SCRIPT, 0,
     "-Cnql -v. -i. -m. -r:! -B:! -R:! -E:! -F:! -S:! -a! -c:! -d:! -z:! -f:! -t: --run:! "
     "--process-code:! --process-begin:! --process-end:! --process-file:! --define:! "
     "--php-ini:! --interactive! --syntax-check --info. --modules."},
    {"lua luajit texlua", SCRIPT, 0, "-EWv -e:! -l:! -i! -j:! -b:"},
    {"Rscript R", SCRIPT, 0,
     "-e:! -f:! -g: -q -s --expression:! --file:! --args --vanilla --slave --quiet --silent "
     "--no-save "
     "--no-restore --no-echo --no-environ --no-site-file --no-init-file --default-packages? "
     "--verbose"},
    {"julia", SCRIPT, 0,
     "-qi! -v. -e:! -E:! -L:! -J:! -t: -p: -O? -g? -C: --eval:! --print:! --load:! --sysimage:! "
     "--project? --threads: --procs: --machine-file:! --startup-file: --color: --optimize? "
     "--quiet"},
    {"guile", SCRIPT, 0, "-ce:! -lL:! -s: -q"},
    {"elixir iex", SCRIPT, 0, "-er:! -pa:! -S: --eval:! --rpc-eval:! --no-halt --require:!"},
    {"groovy scala osascript swift kotlin", SCRIPT, 0, "-e:! -lJ:!"},
    {"tclsh wish expect", SCRIPT, 0, "-c:! -f: -d -n -b"},
    {"bc", SCRIPT, 0,
     "-lqsw -hv. -i! -e:! -f:! --mathlib --quiet --standard --warn --interactive! --expression:! "
     "--file:!"},
    {"qjs duk mujs racket sbcl clisp ghci runghc ocaml crystal nim zig raku gjs jjs nashorn "
     "erl escript gforth picolisp tcc-run",
     SCRIPT, 0, "-e:! -E:! --eval:! -i! -l:! -q"},
};
const struct shell_table shell_table_code = {rows, ELEMENTS(rows)};
