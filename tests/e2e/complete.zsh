# SPDX-License-Identifier: Apache-2.0
# What an interactive zsh offers for a line that is typed, a word per line.
# usage: zsh -f complete.zsh DIRECTORY-OF-_sbx LINE
#
# zsh completes only in its line editor, so it runs on a terminal of its own. There compadd, through which all offers go,
# prints them in place of keeping them; with -O, -A or -D its caller fills
# arrays, and nothing is offered yet.
zmodload zsh/zpty
zpty shell zsh -f -i
say() { zpty -w shell "$1" }
say 'PS1=; stty -echo'
say "fpath=(${(q)1} \$fpath); autoload -U compinit; compinit -u -D"
say 'compadd() {
    [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd "$@"; return }
    local -a offers
    builtin compadd -O offers "$@"
    (( $#offers )) && print -rl -- "offer:"$^offers
    return 0
}'
say 'offer() { compstate[insert]=; compstate[list]=; _main_complete; print -r "all""-offered"; exit }'
say 'zle -C offer complete-word offer; bindkey "^I" offer; print -r "read""y-now"'
zpty -r shell text '*ready-now*'
zpty -n -w shell "$2"$'\t'
zpty -r shell text '*all-offered*'
print -r -- "$text" | grep -a -o 'offer:[^[:cntrl:]]*' | sed 's/^offer://' | sort -u
zpty -d shell
exit 0
