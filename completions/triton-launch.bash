# bash completion for triton-launch: source <(triton-launch completion bash)

_triton_launch() {
    local cur=${COMP_WORDS[COMP_CWORD]} flag='' index=$((COMP_CWORD - 1)) i subcommand=''
    local signals='HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN
        TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS RTMIN RTMAX'
    local shared='--server-count --process-count --main-container-version --version-file --version-match --fdbserver-path
        --binary-path --shared-binary-dir --additional-env-file --export-env-file'
    local launch="$shared --mode --input-dir --input-monitor-conf --exit-on-bad-config --restart-delay
        --restart-max-delay --restart-factor --restart-jitter --restart-reset-after --restart-minimum-run --stop-signal
        --stop-timeout --stop-limit --rewrite --kill-group --orphan-signal --parent-death-signal --log-level --log-format
        --log-path"
    local wrap='--single-child --subreaper --warn-on-reap --verbose --remap-exit --setsid --pause --help --version --license'
    local short='-g -c -s -p -w -v -e -r -P -h -V -l'
    COMPREPLY=()

    # Behind -- stands a command: its name first, then what it takes.
    for ((i = 1; i < COMP_CWORD; ++i)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if ((i == COMP_CWORD - 1)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            compopt -o default
        fi
        return
    done

    # Readline splits at = and at :, so an option, = and its value come as three words, A:B too.
    [[ $cur != [=:] ]] || { cur=''; ((++index)); }
    if [[ ${COMP_WORDS[index]} == : ]]; then
        ((index -= 2))
        [[ ${COMP_WORDS[index]} != = ]] || ((index -= 1))
        if [[ ${COMP_WORDS[index]} == --rewrite || ${COMP_WORDS[index]} == -r ]]; then
            mapfile -t COMPREPLY < <(compgen -W "0 $signals" -- "$cur")
        fi
        return
    fi
    [[ ${COMP_WORDS[index]} != = ]] || ((index -= 1))
    ((index < 1)) || flag=${COMP_WORDS[index]}

    case $flag in
    --mode) mapfile -t COMPREPLY < <(compgen -W 'launch launcher' -- "$cur"); return ;;
    --version-match) mapfile -t COMPREPLY < <(compgen -W 'exact protocol' -- "$cur"); return ;;
    --log-level) mapfile -t COMPREPLY < <(compgen -W 'trace debug info warning error off' -- "$cur"); return ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W 'auto text json' -- "$cur"); return ;;
    --format) mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$cur"); return ;;
    --stop-signal | --parent-death-signal | -p)
        mapfile -t COMPREPLY < <(compgen -W "$signals" -- "${cur#SIG}")
        return
        ;;
    --orphan-signal) mapfile -t COMPREPLY < <(compgen -W "none $signals" -- "${cur#SIG}"); return ;;
    --rewrite | -r)
        compopt -o nospace
        mapfile -t COMPREPLY < <(compgen -S : -W "$signals" -- "${cur#SIG}")
        return
        ;;
    --input-dir | --shared-binary-dir)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --version-file | --fdbserver-path | --binary-path | --additional-env-file | --log-path | --input-monitor-conf)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --server-count | --process-count | --process-number | --main-container-version | --remap-exit | -e) return ;;
    --restart-delay | --restart-max-delay | --restart-factor | --restart-jitter | --restart-reset-after) return ;;
    --restart-minimum-run | --stop-timeout | --stop-limit) return ;;
    esac

    ((COMP_CWORD < 2)) || subcommand=${COMP_WORDS[1]}
    case $subcommand in
    check)
        if [[ $cur == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$shared --process-number --strict --format" -- "$cur")
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        ;;
    completion) mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- "$cur") ;;
    schema | help) ;;
    *)
        if [[ $cur == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "-- $short $launch $wrap" -- "$cur")
        elif ((COMP_CWORD == 1)); then
            mapfile -t COMPREPLY < <(compgen -W 'check schema completion help' -- "$cur")
        fi
        ;;
    esac
}

complete -F _triton_launch triton-launch
