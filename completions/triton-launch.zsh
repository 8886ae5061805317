#compdef triton-launch
# zsh completion for triton-launch: source <(triton-launch completion zsh), or a file _triton-launch in $fpath

_triton_launch() {
    local curcontext=$curcontext state line
    local -a signals shared launch stage agent wrap typed
    local -A opt_args
    signals=(HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU
        URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS RTMIN RTMAX)
    shared=(
        '(--server-count --process-count)'{--server-count,--process-count}'[how many processes]:number'
        '--main-container-version[version of this container]:version'
        '--version-file[file with the version of this container]:file:_files'
        '--version-match[when the binary of this container fits]:rule:(auto exact protocol)'
        '(--fdbserver-path --binary-path)'{--fdbserver-path,--binary-path}'[binary of this container]:file:_files'
        '--shared-binary-dir[where binaries of other versions are]:directory:_files -/'
        '--additional-env-file[key=value lines for substitution]:file:_files'
        '--export-env-file[put these values into the environment too]'
    )
    launch=(
        '--mode[what to do]:mode:(launch launcher init sidecar)'
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
        '--log-max-size[when that file is renamed, or none]:size'
        '--wait-for-pod[for its annotations, at the start]:duration'
        '--listen-address[one more --listen, or none]:address'
        '--cgroup[a control group for each process]:when:(auto none required)'
        '--control-socket[where ctl reaches the launcher, or none]:socket:_files'
        '--control-mode[permissions of that socket, octal]:mode'
        '--control-group[its group]:group:_groups'
        '--output-dir[the files that may be asked for]:directory:_files -/'
        '--kubernetes[report to the Kubernetes API]:when:(auto on off)'
        "--annotation-prefix[of the pod's annotations]:prefix"
        '--ui[serve a page of what runs at /ui]'
        '--ui-token-file[holds the token for commands there]:file:_files'
        '--enable-node-watch[labels of the node as variables]'
    )
    stage=(
        '--mode[what to do]:mode:(launch launcher init sidecar)'
        '--input-dir[where files and templates are]:directory:_files -/'
        '--output-dir[where everything goes]:directory:_files -/'
        '*--copy-file[a file of the input directory]:file:_files'
        '*--copy-template[the same, substituted]:file:_files'
        '*--copy-binary[a program of the binary directory]:name'
        '*--copy-library[a client library]:version'
        '--copy-primary-library[the one that becomes libfdb_c.so]:version'
        '*--require-not-empty[a file that must not be empty]:file:_files'
        '--binary-dir[where binaries are]:directory:_files -/'
        '--library-dir[where libraries are]:directory:_files -/'
        '--binary-output-dir[for binaries, in the output directory]:directory'
        '--version-file[file with the version of this container]:file:_files'
        '--main-container-version[when it is ours, nothing is copied]:version'
        '--input-monitor-conf[an fdbmonitor.conf with $NAME]:file:_files'
        '*--substitute-variable[a further $NAME in it]:name'
        '--public-ip-family[which address of the lists]:family:(4 6)'
        '--main-container-conf-dir[the output directory as the main container sees it]:directory'
        '--additional-env-file[key=value lines for substitution]:file:_files'
        '--watch[copy again when a source changes]'
        '--format[form of the summary]:format:(text json)'
        '--log-level[least level that is logged]:level:(trace debug info warning error off)'
        '--log-format[form of the log]:format:(auto text json)'
        '--log-path[log to this file, too]:file:_files'
        '--log-max-size[when that file is renamed, or none]:size'
        '--control-socket[where ctl reaches the launcher, or none]:socket:_files'
    )
    agent=(
        '*'{--listen,--bind-address}'[serve HTTP on this address]:address'
        '*--probe-listen[serve probes alone on this address]:address'
        '--tls[over HTTPS]'
        '(--tls-certificate-file --certificate-path)--tls-certificate-file[its certificate]:file:_files'
        '(--tls-key-file --certificate-key-path)--tls-key-file[its key]:file:_files'
        '--tls-ca-file[who signs the certificates of peers]:file:_files'
        '--tls-verify-peers[which peers are let in]:rules:(none)'
        '(--tls-certificate-file --certificate-path)--certificate-path[its certificate, peers show none]:file:_files'
        '(--tls-key-file --certificate-key-path)--certificate-key-path[its key]:file:_files'
        '--agent-path[the program that serves]:file:_files'
        '--agent-user[its user]:user:_users'
        '*--agent-option[a further option of it]:option'
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
    ctl)
        if ((CURRENT > 2)); then
            typed=("$words[@]")
            shift words
            ((--CURRENT))
            _triton_launch_ctl
            return
        fi
        ;;
    check)
        if ((CURRENT > 2)); then
            shift words
            ((--CURRENT))
            _arguments $shared '--process-number[only this process]:number' \
                '--merged[print the document with all that it includes]' \
                '--strict[check what depends on this machine, too]' '--format[form of the answer]:format:(text json)' \
                '1:configuration:_files'
            return
        fi
        ;;
    completion) ((CURRENT > 2)) && { _values shell bash zsh fish; return } ;;
    schema)
        if ((CURRENT > 2)); then
            shift words
            ((--CURRENT))
            _arguments '--markdown[the reference page]'
            return
        fi
        ;;
    help) ((CURRENT > 2)) && return ;;
    esac
    if [[ "$words" == *--mode[=\ ](init|sidecar)* ]]; then
        _arguments $stage $agent
        return
    fi
    _arguments -s $shared $launch $agent $wrap '1:command:_triton_launch_ctl_commands'
}

# What stands behind ctl.
_triton_launch_ctl() {
    local verb word
    local -i is_value=0
    local -a further
    for word in $words[2,CURRENT-1]; do
        if ((is_value)); then
            is_value=0
        elif [[ $word == (--socket|--timeout|--for|--lines|-n|--interval) ]]; then
            is_value=1
        elif [[ $word != -* ]]; then
            verb=$word
            break
        fi
    done
    case $verb in
    status) further=('--all[the own programs of the launcher, too]' '*:program:_triton_launch_names') ;;
    describe) further=('2:program:_triton_launch_names') ;;
    start)
        further=('--no-wait[return as soon as it has begun]' '--no-deps[start nothing that it requires]'
            '*:program:_triton_launch_names')
        ;;
    stop)
        further=('--no-wait[return as soon as it has begun]' '(--with-dependents)--force[leave those running that require it]'
            '(--force)--with-dependents[first stop those that require it]' '*:program:_triton_launch_names')
        ;;
    restart)
        further=('--no-wait[return as soon as it has begun]' '*:program:_triton_launch_names')
        ;;
    signal) further=('2:signal:($signals)' '*:program:_triton_launch_names') ;;
    logs)
        further=('(-f --follow)'{-f,--follow}'[go on with what is written from now on]'
            '(-n --lines)'{-n,--lines=}'[how many of the last lines]:number' '2:program:_triton_launch_names')
        ;;
    wait) further=('--for=[which state]:state:(ready up down done)' '2:program:_triton_launch_names') ;;
    top)
        further=('--interval=[between two pictures]:duration' '--all[the own programs of the launcher, too]')
        ;;
    upgrade) further=('2:new launcher:_files') ;;
    stage) further=('2:kind:(files binaries libraries monitor-conf)') ;;
    esac
    _arguments $further '--socket=[where the launcher is reached]:socket:_files' \
        '--json[answers as JSON, for programs]' '--timeout=[wait no longer]:duration' '(- *)'{-h,--help}'[the commands and options]' '1:command:((
        status\:"what runs, as a table"
        describe\:"one program in full"
        start\:"start what does not run"
        stop\:"stop, and hold until it is started again"
        restart\:"stop and start again"
        signal\:"send a signal"
        reload\:"read the configuration again"
        logs\:"the last lines of captured output"
        events\:"what happens, as it happens"
        wait\:"wait for a state"
        top\:"what uses the machine"
        upgrade\:"replace the launcher while it runs"
        stage\:"copy again what the command line says"
        version\:"the version of the launcher that runs"
        help\:"the commands and options"))'
}

# The commands, and what each does: the binary knows them.
_triton_launch_ctl_commands() {
    local -a commands
    commands=(${(f)"$(${(Q)typed[1]} ctl __commands 2>/dev/null)"})
    commands=(${commands//$'\t'/:})
    _describe command commands
}

# The programs of a running launcher.
_triton_launch_names() {
    local -a socket
    local at=$typed[(I)--socket]
    if ((at > 0)); then
        socket=(--socket ${(Q)typed[at + 1]})
    else
        socket=(${(M)typed:#--socket=*})
    fi
    compadd -- ${(f)"$(${(Q)typed[1]} ctl $socket __names 2>/dev/null)"}
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
