/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that change what a command means, by name; beside them the rule for names that no table
 * has. A variable that programs take code, options or places of code from looks much the same
 * whichever program it is for: GRADLE_OPTS, QT_PLUGIN_PATH, DOTNET_STARTUP_HOOKS. */
#include "shell/table-env.h"

#include <string.h>

#include "base/alloc.h"
#include "shell/shell.h"

const char shell_env_harmless[] =
    "LANG LANGUAGE TZ TERM COLORTERM NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS LINES CI "
    "DEBUG VERBOSE NODE_ENV RUST_LOG RUST_BACKTRACE PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE "
    "PYTHONHASHSEED GOOS GOARCH CGO_ENABLED DEBIAN_FRONTEND SOURCE_DATE_EPOCH PORT";

const char *const shell_env_harmful[] = {
    /* shells, and what every program looks up */
    "PATH IFS ENV HOME CDPATH PWD OLDPWD PS4 PROMPT_COMMAND FPATH BASH* SHELL* ZDOTDIR ZSH* KSH* "
    "FCEDIT HIST* INPUTRC POSIXLY_CORRECT MAIL* XDG*",
    /* the loader and the C library */
    "LD_* DYLD_* GCONV_PATH LOCPATH NLSPATH MALLOC* GLIBC* TZDIR HOSTALIASES RES_OPTIONS "
    "LOCALDOMAIN NSS_* KRB5* SASL_* CHARSETALIASDIR",
    /* interpreters */
    "PYTHON* PYENV* VIRTUAL_ENV CONDA* MAMBA* PIP* UV_* POETRY* PDM_* HATCH* PIPENV* TOX* NOX* "
    "PYTEST_* COVERAGE_* IPYTHON* JUPYTER* NODE* NPM* npm_* YARN* PNPM* BUN_* DENO_* NVM_* VOLTA* "
    "TS_NODE_* BABEL_* ESLINT* PERL* RUBY* GEM* BUNDLE* RAKE* RBENV* IRBRC LUA* PHP* COMPOSER* "
    "TCL* EXPECT* R_HOME R_PROFILE* R_ENVIRON* R_LIBS* R_DEFAULT_PACKAGES RENV_* JULIA* ERL_* ERLANG* ELIXIR* MIX_HOME MIX_ARCHIVES MIX_EXS MIX_PATH REBAR* GUILE* SBCL* RACKET* "
    "PLT* OCAML* CAML* OPAM* STACK_ROOT STACK_YAML CABAL* GHC* NIM* CRYSTAL* AWK* GAWK* M4*",
    /* virtual machines of languages */
    "JAVA* JDK* _JAVA* JVM_* CLASSPATH GRADLE* MAVEN* MVN* ANT_OPTS ANT_ARGS ANT_HOME SBT* LEIN* KOTLIN* "
    "SCALA* GROOVY* DOTNET* CORECLR* COR_* COMPLUS_* MONO_* NUGET* MSBUILD*",
    /* compilers and builds */
    "CC CXX CPP LD AR AS FC CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS CPATH C_INCLUDE_PATH "
    "CPLUS_INCLUDE_PATH OBJC_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH GCC_* CCC_* CLANG* LLVM* "
    "COLLECT_* CCACHE* SCCACHE* DISTCC* ICECC* MAKE* GNUMAKE* MFLAGS CMAKE* CTEST* MESON* NINJA* "
    "SCONS* AUTOCONF AUTOMAKE AUTOM4TE ACLOCAL* PKG_CONFIG* LIBTOOL* CARGO* RUST* GO* CGO_* BAZEL* WAF*",
    /* programs that run others, or show what others wrote */
    "GIT* SSH* GPG* GNUPG* SVN_* HG HGRC* HGEDITOR CVS_RSH CVSEDITOR EDITOR VISUAL PAGER MANPAGER MANPATH MANOPT BROWSER "
    "LESS* MORE MOST_* BAT_* DELTA_* TAR* RSYNC* SUDO* DOAS* FAKEROOT* FAKECHROOT* FAKETIME* PROXYCHAINS* EX* VIM* NVIM* "
    "EMACS* NANO* TERMINFO* TERMCAP TMUX* SCREENRC SCREENDIR FZF* RIPGREP* GREP* SKIM_* DIRENV* ASDF* MISE*",
    /* packages, containers, machines */
    "APT* DPKG* DEB_* RPM* BREW* HOMEBREW* NIX* GUIX* FLATPAK* DOCKER* BUILDKIT* COMPOSE_* "
    "PODMAN* CONTAINERS_* BUILDAH* KUBE* HELM* KREW* ANSIBLE* TF_CLI_* TERRAFORM* TERRAGRUNT* PACKER* "
    "VAGRANT* PULUMI* QEMU* WINE*",
    /* networks and cryptography */
    "http_proxy https_proxy all_proxy ftp_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY FTP_PROXY CURL* "
    "WGET* SSL* OPENSSL* P11_* PKCS11* GNUTLS*",
    /* libraries with plugins */
    "GTK* GDK_* GIO_* GI_* GST_* GSETTINGS* GEGL_* PANGO* QT_* QML* KDE* SDL_* PULSE_* ALSA* "
    "PIPEWIRE* SPA_* LIBGL* MESA* VK_* VDPAU* LIBVA* EGL_* __EGL* __GLX* OCL_* OPENCL* "
    "OMPI_* PMIX_* MCA_* OMP_TOOL* CUDA_INJECTION* MAGICK* HDF5_PLUGIN* "
    "TEXINPUTS TEXMF* BIBINPUTS BSTINPUTS MFINPUTS GNUPLOT* OCTAVE* PSQL* PGSERVICEFILE PGSYSCONFDIR MYSQL_HOME ODBC*",
};
const size_t shell_env_harmful_count = ELEMENTS(shell_env_harmful);

/* Whole parts of a name, which '_' separates. */
static const char parts[] =
    "OPTIONS OPTS ADDOPTS FLAGS ARGS ARGV CMDLINE PRELOAD PRELOADS STARTUP HOOK HOOKS "
    "PLUGIN PLUGINS MODULE MODULES EXTENSION EXTENSIONS ADDON ADDONS PROFILER INJECT LOADER "
    "COMMAND COMMANDS CMD EXEC EXECUTABLE WRAPPER LAUNCHER INTERPRETER COMPILER LINKER SHELL "
    "EDITOR PAGER BROWSER ASKPASS INITRC RC RCFILE AUTOLOAD AUTORUN "
    "EVAL REQUIRE LIBRARY LIBRARIES LIB LIBS LIBEXEC LIBDIR BINDIR "
    "LOADPATH LIBPATH";
/* How a name ends that is written in one: MAKEFLAGS, JAVAOPTS. */
static const char *const ends[] = {"OPTIONS", "OPTS", "FLAGS", "PRELOAD", "STARTUP", "RCFILE"};
/* What says of a PATH that it is one of code: EMACSLOADPATH, GIO_MODULE_PATH. */
static const char *const path_of[] = {
    "LOAD",  "MODULE",  "PLUGIN",   "LIB",  "EXEC",      "BIN",    "SITE",    "SCRIPT", "HOOK",
    "CLASS", "INCLUDE", "COMPILER", "TOOL", "EXTENSION", "DRIVER", "PACKAGE", "IMPORT"};

static bool ends_with(const char *name, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(name + len - n, end, n) == 0;
}

static bool any_part_matches(const char *name, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && name[at + n] != '_')
            n++;
        if (n && shell_in_list(parts, name + at, n))
            return true;
        at += n + 1;
    }
    return false;
}

/* Programs differ in the case of their variables: it says nothing of what they do. */
bool shell_env_may_load(const char *name, size_t len)
{
    char upper[64];
    if (len > sizeof(upper))
        return true; /* no program needs such a name: what it is for is not known */
    for (size_t i = 0; i < len; i++)
        upper[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
    if (any_part_matches(upper, len))
        return true;
    for (size_t i = 0; i < ELEMENTS(ends); i++)
        if (ends_with(upper, len, ends[i]))
            return true;
    bool path = ends_with(upper, len, "PATH") || ends_with(upper, len, "PATHS") ||
                ends_with(upper, len, "DIR") || ends_with(upper, len, "DIRS");
    for (size_t i = 0; path && i < ELEMENTS(path_of); i++)
        if (memmem(upper, len, path_of[i], strlen(path_of[i])))
            return true;
    return false;
}
