# bash completion for triton-launch: source <(triton-launch completion bash)

_triton_launch() {
    local cur=${COMP_WORDS[COMP_CWORD]} flag='' index=$((COMP_CWORD - 1)) i subcommand='' mode=''
    local signals='HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN
        TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS RTMIN RTMAX'
    local shared='--server-count --process-count --main-container-version --version-file --version-match --fdbserver-path
        --binary-path --shared-binary-dir --additional-env-file --export-env-file'
    local launch="$shared --mode --input-dir --input-monitor-conf --exit-on-bad-config --restart-delay
        --restart-max-delay --restart-factor --restart-jitter --restart-reset-after --restart-minimum-run --stop-signal
        --stop-timeout --stop-limit --rewrite --kill-group --orphan-signal --parent-death-signal --log-level --log-format
        --log-path --log-max-size --termination-log --wait-for-pod --listen-address --cgroup --control-socket --control-mode
        --control-group --output-dir --kubernetes --annotation-prefix --enable-node-watch --ui
        --ui-token-file"
    local agent='--listen --bind-address --probe-listen --tls --tls-certificate-file --tls-key-file
        --tls-ca-file --tls-verify-peers --certificate-path --certificate-key-path --agent-path --agent-user --agent-option'
    local stage='--mode --input-dir --output-dir --copy-file --copy-template --copy-binary --copy-library
        --copy-primary-library --require-not-empty --binary-dir --library-dir --binary-output-dir --version-file
        --main-container-version --input-monitor-conf --substitute-variable --public-ip-family --main-container-conf-dir
        --additional-env-file --watch --format --log-level --log-format --log-path --log-max-size --termination-log
        --control-socket --help --version'
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
    --mode) mapfile -t COMPREPLY < <(compgen -W 'launch launcher init sidecar' -- "$cur"); return ;;
    --version-match) mapfile -t COMPREPLY < <(compgen -W 'auto exact protocol' -- "$cur"); return ;;
    --log-level) mapfile -t COMPREPLY < <(compgen -W 'trace debug info warning error off' -- "$cur"); return ;;
    --log-format) mapfile -t COMPREPLY < <(compgen -W 'auto text json' -- "$cur"); return ;;
    --cgroup) mapfile -t COMPREPLY < <(compgen -W 'auto none required' -- "$cur"); return ;;
    --kubernetes) mapfile -t COMPREPLY < <(compgen -W 'auto on off' -- "$cur"); return ;;
    --agent-user) mapfile -t COMPREPLY < <(compgen -u -- "$cur"); return ;;
    --public-ip-family) mapfile -t COMPREPLY < <(compgen -W '4 6' -- "$cur"); return ;;
    --control-group) mapfile -t COMPREPLY < <(compgen -g -- "$cur"); return ;;
    --for) mapfile -t COMPREPLY < <(compgen -W 'ready up down done' -- "$cur"); return ;;
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
    --input-dir | --shared-binary-dir | --output-dir | --binary-dir | --library-dir)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --version-file | --fdbserver-path | --binary-path | --additional-env-file | --log-path | --termination-log | \
        --input-monitor-conf | --copy-file | --copy-template | --require-not-empty | --control-socket | --socket | \
        --tls-certificate-file | --ui-token-file | --tls-key-file | --tls-ca-file | --certificate-path | \
        --certificate-key-path | --agent-path)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --server-count | --process-count | --process-number | --main-container-version | --remap-exit | -e) return ;;
    --restart-delay | --restart-max-delay | --restart-factor | --restart-jitter | --restart-reset-after) return ;;
    --restart-minimum-run | --stop-timeout | --stop-limit | --control-mode) return ;;
    --timeout | --interval | --lines | -n) return ;;
    --copy-binary | --copy-library | --copy-primary-library | --binary-output-dir) return ;;
    --substitute-variable | --main-container-conf-dir) return ;;
    --listen | --bind-address | --listen-address | --probe-listen | --tls-verify-peers | --agent-option | --annotation-prefix) return ;;
    esac

    # Each mode has options of its own.
    for ((i = 1; i < COMP_CWORD - 1; ++i)); do
        [[ ${COMP_WORDS[i]} != --mode ]] || mode=${COMP_WORDS[i + 1]}
        [[ $mode != = ]] || mode=${COMP_WORDS[i + 2]}
    done

    ((COMP_CWORD < 2)) || subcommand=${COMP_WORDS[1]}
    case $subcommand in
    check)
        if [[ $cur == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$shared --process-number --strict --agent-path --format --merged" -- "$cur")
        else
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        ;;
    completion) mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- "$cur") ;;
    ctl)
        if ((COMP_CWORD > 1)); then _triton_launch_ctl "$cur" "$signals"; fi
        ;;
    schema) [[ $cur != -* ]] || mapfile -t COMPREPLY < <(compgen -W --markdown -- "$cur") ;;
    help) ;;
    *)
        if [[ $cur == -* && $mode == @(init|sidecar) ]]; then
            mapfile -t COMPREPLY < <(compgen -W "$stage $agent" -- "$cur")
        elif [[ $cur == -* ]]; then
            mapfile -t COMPREPLY < <(compgen -W "-- $short $launch $agent $wrap" -- "$cur")
        elif ((COMP_CWORD == 1)); then
            mapfile -t COMPREPLY < <(compgen -W 'ctl check schema completion help' -- "$cur")
        fi
        ;;
    esac
}

# What stands behind ctl. The binary knows its commands, and a running launcher is asked for the names of its programs.
_triton_launch_ctl() {  # the word, signals
    local cur=$1 verb='' words=0 i word names=() socket=() options='--socket --json --timeout --help'
    for ((i = 2; i < COMP_CWORD; ++i)); do
        word=${COMP_WORDS[i]}
        case $word in
        --socket | --timeout | --for | --lines | -n | --interval | --detach-keys)
            [[ ${COMP_WORDS[i + 1]} != = ]] || ((++i))
            ((++i))
            [[ $word != --socket ]] || socket=(--socket "${COMP_WORDS[i]}")
            ;;
        -*) ;;
        *) if [[ -z $verb ]]; then verb=$word; else ((++words)); fi ;;
        esac
    done
    case $verb in
    start | restart) options+=' --no-wait --no-deps' ;;
    stop) options+=' --no-wait --force --with-dependents' ;;
    logs) options+=' -f --follow -n --lines' ;;
    attach) options+=' -f --follow -n --lines --detach-keys --read-only' ;;
    wait) options+=' --for' ;;
    status) options+=' --all' ;;
    top) options+=' --interval --all' ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
        return
    fi
    case $verb:$words in
    :* | help:0)
        mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" ctl __commands 2>/dev/null | cut -f1)" -- "$cur")
        ;;
    signal:0) mapfile -t COMPREPLY < <(compgen -W "$2" -- "${cur#SIG}") ;;
    stage:0) mapfile -t COMPREPLY < <(compgen -W 'files binaries libraries monitor-conf' -- "$cur") ;;
    upgrade:0)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        ;;
    status:* | history:* | start:* | stop:* | restart:* | signal:* | describe:0 | logs:0 | attach:0 | wait:0)
        # compgen -W would run commands in its words, and what answers at the socket may be somebody else's.
        mapfile -t names < <("${COMP_WORDS[0]}" ctl "${socket[@]}" __names 2>/dev/null)
        for word in "${names[@]}"; do
            printf -v word %q "$word"
            [[ $word != "$cur"* ]] || COMPREPLY+=("$word")
        done
        ;;
    esac
}

complete -F _triton_launch triton-launch
