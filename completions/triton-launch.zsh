#compdef triton-launch
# zsh completion for triton-launch: source <(triton-launch completion zsh), or a file _triton-launch in $fpath

_triton_launch() {
    local curcontext=$curcontext state line
    local -a signals shared launch wrap
    local -A opt_args
    signals=(HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU
        URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS RTMIN RTMAX)
    shared=(
        '(--server-count --process-count)'{--server-count,--process-count}'[how many processes]:number'
        '--main-container-version[version of this container]:version'
        '--version-file[file with the version of this container]:file:_files'
        '--version-match[when the binary of this container fits]:rule:(exact protocol)'
        '(--fdbserver-path --binary-path)'{--fdbserver-path,--binary-path}'[binary of this container]:file:_files'
        '--shared-binary-dir[where binaries of other versions are]:directory:_files -/'
        '--additional-env-file[key=value lines for substitution]:file:_files'
        '--export-env-file[put these values into the environment too]'
    )
    launch=(
        '--mode[what to do]:mode:(launch launcher)'
        '--input-dir[directory of the configuration]:directory:_files -/'
        '--input-monitor-conf[name of the configuration file in it]:file:_files'
        '--exit-on-bad-config[exit when the first configuration is bad]'
        '--restart-delay[delay before the second restart]:duration'
        '--restart-max-delay[longest delay]:duration'
        '--restart-factor[growth of the delay]:factor'
        '--restart-jitter[random share of the delay]:share'
        '--restart-reset-after[run that makes failures forgotten]:duration'
        '--restart-minimum-run[shortest run that may end without delay]:duration'
        '--stop-signal[signal that stops a process]:signal:($signals)'
        '--stop-timeout[time until SIGKILL]:duration'
        '--stop-limit[time for the whole stop]:duration'
        '--orphan-signal[sent to processes when the launcher dies]:signal:(none $signals)'
        '--log-level[least level that is logged]:level:(trace debug info warning error off)'
        '--log-format[form of the log]:format:(auto text json)'
        '--log-path[log to this file, too]:file:_files'
    )
    wrap=(
        '(-g --kill-group)'{-g,--kill-group}'[signal the group of the process]'
        '(-c --single-child)'{-c,--single-child}'[signal the process only]'
        '(-s --subreaper)'{-s,--subreaper}'[fail when orphans cannot be adopted]'
        '(-p --parent-death-signal)'{-p,--parent-death-signal}'[signal for us when our parent dies]:signal:($signals)'
        '(-w --warn-on-reap)'{-w,--warn-on-reap}'[say which orphans are reaped]'
        '*'{-v,--verbose}'[say more]'
        '*'{-e,--remap-exit}'[make this exit code 0]:code'
        '*'{-r,--rewrite}'[send B for A]:A\:B:_triton_launch_rewrite'
        '--setsid[give the command a session]'
        '(-P --pause)'{-P,--pause}'[run no command, reap orphans]'
        '(- *)'{-h,--help}'[help]'
        '(- *)'{-V,--version}'[version]'
        '(- *)'{-l,--license}'[licence]'
    )

    # Behind -- stands a command with its own completion.
    local separator=${words[(i)--]}
    if ((separator < CURRENT)); then
        words=("${(@)words[separator + 1,-1]}")
        ((CURRENT -= separator))
        _normal
        return
    fi
    case $words[2] in
    check)
        if ((CURRENT > 2)); then
            shift words
            ((--CURRENT))
            _arguments $shared '--process-number[only this process]:number' \
                '--strict[check what depends on this machine, too]' '--format[form of the answer]:format:(text json)' \
                '1:configuration:_files'
            return
        fi
        ;;
    completion) ((CURRENT > 2)) && { _values shell bash zsh fish; return } ;;
    schema | help) ((CURRENT > 2)) && return ;;
    esac
    _arguments -s $shared $launch $wrap '1:command:((
        check\:"print the commands of a configuration, or its errors"
        schema\:"print the JSON Schema of the configuration"
        completion\:"print a completion script"
        help\:"print the help"))'
}

_triton_launch_rewrite() {
    if compset -P '*:'; then
        compadd 0 $signals
    else
        compadd -qS : -- $signals
    fi
}

if [[ $funcstack[1] == _triton[-_]launch ]]; then
    _triton_launch "$@"
else
    compdef _triton_launch triton-launch
fi
