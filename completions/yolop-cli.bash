# bash completion for yolop-cli

_yolop_cli() {
    local type value help width=0 i
    local -a values=() helps=()
    while IFS=$'\t' read -r type value help; do
        case $type in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            part | plain)
                [[ $type == part ]] && compopt -o nospace 2>/dev/null
                [[ ${COMP_WORDS[COMP_CWORD]} == [\"\']* ]] || printf -v value %q "$value"
                values+=("$value")
                helps+=("$help")
                ((${#value} > width)) && width=${#value}
                ;;
        esac
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _YOLOP_CLI_COMPLETE=bash_complete \
        "$1" 2>/dev/null)
    # A description is shown where the candidates are listed, and never where one of them is put in.
    if ((${#values[@]} > 1)) && [[ $COMP_TYPE == 63 ]]; then
        for i in "${!values[@]}"; do
            [[ -z ${helps[i]} ]] || printf -v "values[$i]" '%-*s  (%s)' "$width" "${values[i]}" "${helps[i]}"
        done
    fi
    COMPREPLY=("${values[@]}")
}

complete -o nosort -F _yolop_cli yolop-cli 2>/dev/null || complete -F _yolop_cli yolop-cli
