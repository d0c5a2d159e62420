/* SPDX-License-Identifier: Apache-2.0 */
/* Options of compilers and of the go and cargo commands. A plugin, a wrapper, a file of further
 * options and a linker's own options can run anything. */
#include "base/alloc.h"
#include "shell/options.h"

#define WRITES PROGRAM_WRITES
#define GO     (PROGRAM_SINGLE | PROGRAM_WRITES)

#define GO_BUILD                                                                                   \
    "-C:/ -a -n -p: -race -msan -asan -cover -covermode: -coverpkg: -v -work -x -buildmode: "      \
    "-buildvcs? -compiler: -gccgoflags:! -gcflags:! -asmflags:! -ldflags:! -installsuffix: "       \
    "-linkshared -mod: -modcacherw -modfile:< -overlay:! -pgo: -pkgdir: -tags: -trimpath "         \
    "-toolexec:! -json"
#define CARGO                                                                                      \
    "-qvr -F: -j: -p? -Z:! --quiet --verbose --release --package? --workspace --all --exclude: "   \
    "--lib --bin? --bins --example? --examples --test? --tests --bench? --benches --all-targets "  \
    "--features: --all-features --no-default-features --profile: --jobs: --target: "               \
    "--target-dir:> --manifest-path: --message-format: --color: --frozen --locked --offline "      \
    "--keep-going --no-run --no-fail-fast --doc --future-incompat-report --timings? --config:! "   \
    "--ignore-rust-version --unit-graph --build-plan"

static const struct shell_program rows[] = {
    {"gcc g++ cc c++ clang clang++ gfortran gnat gdc tcc musl-gcc cpp",
     PROGRAM_PREFIX | PROGRAM_FILES | WRITES, 0,
     "@*! -### -C -CC -E -H -L: -M -MD -MF:> -MG -MM -MMD -MP -MQ: -MT: -O* -P -S -D: -I: -U: -W* "
     "-Wa,*! -Wl,*! -Wp,*! -Wl,-rpath,* -Wl,-rpath=* -Wl,--as-needed -Wl,--no-as-needed "
     "-Wl,--gc-sections -Wl,--no-undefined -Wl,-z,* -Wl,-O* -Wl,--start-group -Wl,--end-group "
     "-Wl,--whole-archive -Wl,--no-whole-archive -Wl,-soname,* -Wl,--build-id* -Wl,--strip-all "
     "-Wl,-s -ansi -c -dumpmachine -dumpversion -dM -dN -g* -idirafter: -include:< -imacros:< "
     "-iquote: -isystem: -isysroot: -iprefix: -l: -m32 -m64 -march* -mtune* -mcpu* -mfpu* -msse* "
     "-mavx* -mno-* -mfloat-abi* -mcmodel* -mthumb -marm -mpopcnt -mbmi* -mfma -mf16c -maes "
     "-nodefaultlibs -nostartfiles -nostdinc -nostdinc++ -nostdlib -no-pie -o:> -p -pg -pedantic "
     "-pedantic-errors -pie -pipe -pthread -print-* -rdynamic -s -save-temps* -shared "
     "-shared-libgcc -static -static-libgcc -static-libstdc++ -static-pie -std* -stdlib* -target: "
     "--target* --sysroot* -traditional -trigraphs -undef -u: -v -w -x: -Q* -time -arch: "
     "-fPIC -fpic -fPIE -fpie -fPIE -fno-* -fsanitize* -fstack-protector* -fvisibility* "
     "-ffast-math "
     "-fopenmp* -fdiagnostics-* -fsyntax-only -fcommon -funroll-loops -flto* -fomit-frame-pointer "
     "-fstrict-* -fwrapv -ftrapv -fexceptions -fpermissive -ftree-* -fdata-sections "
     "-ffunction-sections -fprofile-arcs -ftest-coverage -fprofile-instr-generate "
     "-fcoverage-mapping -fmax-errors* -ferror-limit* -fanalyzer -fcolor-diagnostics "
     "-fcf-protection* "
     "-fstack-clash-protection -fpack-struct* -fshort-enums -fsigned-char -funsigned-char -frtti "
     "-fcoroutines -fconcepts -fchar8_t -fconstexpr-* -ftemplate-* -finline-* -fipa-* -fipa-pta "
     "-fgnu89-inline -fms-extensions -fmacro-prefix-map* -ffile-prefix-map* -fdebug-prefix-map* "
     "-fmessage-length* -ffreestanding -fhosted -fbuiltin -fasynchronous-unwind-tables "
     "-funwind-tables -fshow-* -fsave-optimization-record -fstandalone-debug -gsplit-dwarf "
     "-fplugin*! -fpass-plugin*! -fuse-ld*! -fmodule-mapper*! -fprofile-use* -fprofile-generate* "
     "-specs*! --specs*! -wrapper:! -B:! -Xclang:! -Xlinker:! -Xpreprocessor:! -Xassembler:! -T:< "
     "--config*! -iplugindir*! -load:! -ccc*! --gcc-toolchain*! -no-canonical-prefixes -z: "
     "-fintegrated-as -coverage --coverage --verbose -Rpass* -fopt-info* -Oz"},
    {"nm", PROGRAM_FILES, 0,
     "-aABCDegjlnopPrSsuUW -fXt: -hV. --debug-syms --print-file-name --demangle? --no-demangle "
     "--recurse-limit --no-recurse-limit --dynamic --format: --extern-only --ifunc-chars: "
     "--just-symbols --line-numbers --numeric-sort --no-sort --portability --reverse-sort "
     "--plugin:! --print-size --print-armap --quiet --size-sort --special-syms --synthetic "
     "--radix: --target: --undefined-only --defined-only --unicode: --no-weak "
     "--with-symbol-versions"},
    {"objdump", PROGRAM_FILES, 0,
     "-afphxdDSsgeGLtTrRilFCwz -PbmjMIE: -WU? -vH. --archive-headers --file-headers "
     "--private-headers --private: --section-headers --headers --all-headers --disassemble? "
     "--disassemble-all --source --source-comment? --full-contents --debugging --debugging-tags "
     "--stabs --dwarf? --process-links --ctf? --sframe? --syms --dynamic-syms --reloc "
     "--dynamic-reloc --info --target: --architecture: --section: --disassembler-options: "
     "--endian: --file-start-context --include: --line-numbers --file-offsets --demangle? "
     "--recurse-limit --no-recurse-limit --wide --unicode: --disassemble-zeroes --start-address: "
     "--stop-address: --no-addresses --prefix-addresses --show-raw-insn --no-show-raw-insn "
     "--insn-width: --adjust-vma: --show-all-symbols --special-syms --inlines --prefix: "
     "--prefix-strip: --dwarf-depth: --dwarf-start: --dwarf-check --ctf-parent: "
     "--visualize-jumps? --disassembler-color: --plugin:!"},
    {"readelf", PROGRAM_FILES, 0,
     "-ahlSgtesCnrudVAcDLzPIWT -xpRj: -wU? -vH. --all --file-header --program-headers --segments "
     "--section-headers --sections --section-groups --section-details --headers --syms --symbols "
     "--dyn-syms --lto-syms --sym-base: --demangle? --no-demangle --recurse-limit "
     "--no-recurse-limit --unicode: --notes --relocs --unwind --dynamic --version-info "
     "--arch-specific --archive-index --use-dynamic --lint --enable-checks --hex-dump: "
     "--string-dump: --relocated-dump: --decompress --debug-dump? --process-links --dwarf-depth: "
     "--dwarf-start: --ctf: --ctf-parent: --ctf-symbols: --ctf-strings: --sframe? --histogram "
     "--wide --silent-truncation"},
    {"size", PROGRAM_FILES, 0,
     "-ABGodxtf -hHvV. --format: --radix: --totals --common --target: --plugin:!"},
    {"addr2line", PROGRAM_FILES, 0,
     "-aipsfCrR -be: -j: -hvH. --addresses --target: --exe: --inlines --section: --pretty-print "
     "--basenames --functions --demangle? --recurse-limit --no-recurse-limit"},
    {"strip objcopy ranlib gprof elfedit windres dlltool opt llc lli llvm-nm llvm-objdump "
     "llvm-objcopy llvm-strip llvm-ar llvm-link llvm-dis clang-check clang-query clang-apply-replacements "
     "clang-include-fixer clangd protoc javap jar jlink jpackage javadoc csc mcs "
     "swiftc ldc2",
     PROGRAM_OPAQUE, 0, ""},
    {"clang-tidy", WRITES | PROGRAM_SINGLE | PROGRAM_FILES, 0,
     "-p: -checks: -warnings-as-errors: -header-filter: -exclude-header-filter: -line-filter: -fix "
     "-fix-errors -fix-notes -format-style: -quiet -use-color -list-checks -explain-config "
     "-verify-config -dump-config -system-headers -export-fixes:> -store-check-profile:> "
     "-enable-check-profile -load:! -config:! -config-file:! -extra-arg:! -extra-arg-before:! "
     "-vfsoverlay:!"},
    {"clang-format", WRITES | PROGRAM_SINGLE | PROGRAM_FILES, 0,
     "-i -n -style: -fallback-style: -dry-run -Werror -Wno-error: -assume-filename: -cursor: "
     "-length: -lines: -offset: -output-replacements-xml -sort-includes -verbose -files:< "
     "-ferror-limit: -fno-color-diagnostics -fcolor-diagnostics -dump-config -fail-on-incomplete-format "
     "-qualifier-alignment: -ignore-list:<"},
    {"rustc", WRITES | PROGRAM_FILES, 0,
     "-gOvV -lL: -o:> -CZ:! --cfg: --check-cfg: --crate-type: --crate-name: --edition: --emit: "
     "--print: --out-dir:> "
     "--explain: --test --target: --warn: --allow: --deny: --forbid: --cap-lints: --extern: "
     "--sysroot: --error-format: --color: --verbose -AWDF: --codegen:!"},
    {"ld ld.bfd ld.gold ld.lld lld mold as nasm ar javac java kotlinc scalac ghc ocamlopt fpc dmd",
     PROGRAM_OPAQUE, 0, ""},
    {"cargo", PROGRAM_SUBS, 0,
     "-vq -V. -C:/ -Z:! --verbose --quiet --color: --frozen --locked --offline --config:! --list. "
     "--explain:"},
    {"cargo.build cargo.b cargo.check cargo.c cargo.test cargo.t cargo.bench cargo.run cargo.r "
     "cargo.doc",
     WRITES, 0, CARGO " --open! --no-deps --document-private-items"},
    {"cargo.clippy cargo.rustc cargo.fix", WRITES, 0,
     CARGO " --no-deps --fix --allow-dirty --allow-staged --broken-code", "rustc"},
    {"cargo.fmt", WRITES, 0,
     "-qv -p: --all --check --package: --manifest-path: --message-format: --quiet --verbose",
     "rustfmt"},
    {"rustfmt", WRITES | PROGRAM_FILES, 0,
     "-lqv -hV. --check --edition: --style-edition: --emit: --backup --color: --files-with-diff "
     "--quiet --verbose --print-config! --config:! --config-path:!"},
    {"cargo.tree cargo.metadata cargo.clean cargo.version cargo.update cargo.fetch cargo.search "
     "cargo.pkgid cargo.read-manifest cargo.locate-project cargo.add cargo.remove cargo.new "
     "cargo.init",
     WRITES, 0,
     CARGO
     " -d -e: -i? --depth: --edges: --invert? --prefix: --no-dedupe --duplicates --format: "
     "--charset: "
     "--format-version: --no-deps --filter-platform: --precise: --aggressive --recursive --dry-run "
     "--limit: --dev --build --optional --rename: --vcs: --name: --edition: --git: --branch: "
     "--path:"},
    {"cargo.install cargo.uninstall", WRITES | PROGRAM_INSTALLS, 0,
     CARGO " --force --git: --branch: --tag: --rev: --path: --root:> --list --debug --version: "
           "--registry: --index:"},
    {"cargo.publish cargo.login cargo.yank cargo.owner", WRITES, 0,
     CARGO " --force --git: --branch: --tag: --rev: --path: --root:> --list --debug --token: "
           "--dry-run --allow-dirty --no-verify --version: --registry: --index:"},
    {"go", PROGRAM_SUBS, 0, "-C:/"},
    {"go.install", GO | PROGRAM_INSTALLS, 0, GO_BUILD},
    {"go.build go.list go.get", GO, 0,
     GO_BUILD " -o:> -f: -m -u -t -d -deps -e -export -find -test -versions -retracted -reuse:< "
              "-compiled -insecure"},
    {"go.run", GO | PROGRAM_SCRIPT, 0, GO_BUILD " -exec:!"},
    {"go.test", GO, 0,
     GO_BUILD
     " -o:> -c -i -exec:! -run: -bench: -benchmem -benchtime: -count: -cpu: -failfast -fullpath "
     "-fuzz: -fuzztime: -fuzzminimizetime: -list: -parallel: -short -shuffle: -skip: "
     "-timeout: -vet: -coverprofile:> -cpuprofile:> -memprofile:> -memprofilerate: "
     "-blockprofile:> -blockprofilerate: -mutexprofile:> -mutexprofilefraction: "
     "-outputdir:> -trace:> -args"},
    {"go.vet", GO, 0,
     GO_BUILD " -vettool:! -c: -assign -atomic -bools -composites -copylocks "
              "-nilfunc -printf -shadow -structtag -unreachable -unusedresult"},
    {"go.fmt", GO, 0, "-n -x -mod:"},
    {"go.doc go.env go.version go.clean", GO, 0,
     "-all -c -cmd -short -src -u -json -w! -m -v -n -x -r -i -cache -testcache -modcache "
     "-fuzzcache "
     "-changed"},
    {"go.mod go.work", PROGRAM_SUBS, 0, ""},
    {"go.mod.tidy go.mod.download go.mod.verify go.mod.why go.mod.graph go.mod.init go.mod.vendor "
     "go.work.sync go.work.init go.work.use",
     GO, 0, "-v -e -x -json -m -vendor -go: -compat: -r -o:>"},
    {"gofmt goimports", WRITES | PROGRAM_SINGLE, 0, "-d -e -l -s -w -r: -local: -cpuprofile:>"},
};
const struct shell_table shell_table_compile = {rows, ELEMENTS(rows)};
