# bash completion for criadm
_criadm() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command= words= things= keys= list= begun= name= names=() i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --root|--socket) i=$((i + 1)) ;;
        -*) ;;
        *) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    [[ $previous != = && $word != = ]] || return 0
    case $command in
        check) words='-h --help -j --json' things= keys= ;;
        completion) words='-h --help' things= keys='bash zsh fish' ;;
        events) words='-h --help -j --json --timeout' things= keys= ;;
        list) words='-h --help -c --containers -j --json -H -o' things= keys= ;;
        logs) words='-h --help -f --follow -t --timestamps -r --raw -n --tail' things=yes keys= ;;
        recover) words='-h --help -j --json' things= keys= ;;
        remove) words='-h --help --grace' things=yes keys= ;;
        show) words='-h --help' things=yes keys= ;;
        status) words='-h --help -j --json' things= keys= ;;
        stop) words='-h --help --grace' things=yes keys= ;;
        why) words='-h --help' things=yes keys= ;;
        '') words='--root --socket -V --version -E check completion events list logs recover remove show status stop why' ;;
    esac
    case $command:$previous in
        events:--timeout) things= keys= words= ;;
        list:-o) things= keys= words= ;;
        logs:-n|logs:--tail) things= keys= words= ;;
        remove:--grace) things= keys= words= ;;
        stop:--grace) things= keys= words= ;;
        *:--root) things= keys= words= ;;
        *:--socket) things= keys= words= ;;
    esac
    if [[ -n $list ]]; then
        begun=${word%"${word##*,}"}
        mapfile -t COMPREPLY < <(compgen -P "$begun" -W "$words" -- "${word##*,}")
        return 0
    fi
    if [[ $word != -* && -n $things$keys ]]; then
        words=$keys
        [[ -z $things ]] || mapfile -t names < <({ criadm list -H -o object; criadm list -c -H -o object; } 2>/dev/null)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    for name in "${names[@]}"; do
        printf -v name %q "$name"
        [[ $name != "$word"* || $name == "''" ]] || COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
    ((${#COMPREPLY[@]})) || compopt -o default
}
complete -F _criadm criadm
