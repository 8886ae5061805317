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
        '--export-env-file[also put these values into the environment]'
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
        '--restart-reset-after[run after which failures are forgotten]:duration'
        '--restart-minimum-run[shortest run that may end without delay]:duration'
        '--stop-signal[signal that stops a process]:signal:($signals)'
        '--stop-timeout[time until SIGKILL]:duration'
        '--stop-limit[time for the whole stop]:duration'
        '--orphan-signal[sent to processes when the launcher dies]:signal:(none $signals)'
        '--log-level[lowest level that is logged]:level:(trace debug info warning error off)'
        '--log-format[format of the log]:format:(auto text json)'
        '--log-path[also log to this file]:file:_files'
        '--log-max-size[size at which that file is renamed, or none]:size'
        '--termination-log[file for the last errors, or none]:file:_files'
        '--wait-for-pod[how long to wait for its annotations]:duration'
        '--listen-address[one more --listen, or none]:address'
        '--cgroup[a control group for each process]:when:(auto none required)'
        '--control-socket[where ctl reaches the launcher, or none]:socket:_files'
        '--control-mode[permissions of that socket, octal]:mode'
        '--control-group[group of that socket]:group:_groups'
        '--output-dir[directory of the served files]:directory:_files -/'
        '--kubernetes[report to the Kubernetes API]:when:(auto on off)'
        "--annotation-prefix[prefix of the pod's annotations]:prefix"
        '--ui[serve a page of what runs at /ui]'
        '--ui-token-file[holds the token for commands there]:file:_files'
        '--enable-node-watch[labels of the node as variables]'
    )
    stage=(
        '--mode[what to do]:mode:(launch launcher init sidecar)'
        '--input-dir[where files and templates are]:directory:_files -/'
        '--output-dir[where everything goes]:directory:_files -/'
        '*--copy-file[a file of the input directory]:file:_files'
        '*--copy-template[the same, with substitution]:file:_files'
        '*--copy-binary[a program of the binary directory]:name'
        '*--copy-library[a client library]:version'
        '--copy-primary-library[the one that becomes libfdb_c.so]:version'
        '*--require-not-empty[a file that must not be empty]:file:_files'
        '--binary-dir[where binaries are]:directory:_files -/'
        '--library-dir[where libraries are]:directory:_files -/'
        '--binary-output-dir[where binaries go in the output directory]:directory'
        '--version-file[file with the version of this container]:file:_files'
        '--main-container-version[if equal to this container'\''s, copy nothing]:version'
        '--input-monitor-conf[an fdbmonitor.conf with $NAME]:file:_files'
        '*--substitute-variable[a further $NAME in it]:name'
        '--public-ip-family[which address of the lists]:family:(4 6)'
        '--main-container-conf-dir[the output directory as the main container sees it]:directory'
        '--additional-env-file[key=value lines for substitution]:file:_files'
        '--watch[copy again when a source changes]'
        '--format[format of the summary]:format:(text json)'
        '--log-level[lowest level that is logged]:level:(trace debug info warning error off)'
        '--log-format[format of the log]:format:(auto text json)'
        '--log-path[also log to this file]:file:_files'
        '--log-max-size[size at which that file is renamed, or none]:size'
        '--termination-log[file for the last errors, or none]:file:_files'
        '--control-socket[where ctl reaches the launcher, or none]:socket:_files'
    )
    agent=(
        '*'{--listen,--bind-address}'[serve HTTP on this address]:address'
        '*--probe-listen[serve only probes on this address]:address'
        '--tls[serve HTTPS]'
        '(--tls-certificate-file --certificate-path)--tls-certificate-file[its certificate]:file:_files'
        '(--tls-key-file --certificate-key-path)--tls-key-file[its key]:file:_files'
        '--tls-ca-file[CA that signs the certificates of peers]:file:_files'
        '--tls-verify-peers[which peers are let in]:rules:(none)'
        '(--tls-certificate-file --certificate-path)--certificate-path[its certificate, without asking peers for theirs]:file:_files'
        '(--tls-key-file --certificate-key-path)--certificate-key-path[its key]:file:_files'
        '--agent-path[the agent'\''s program]:file:_files'
        '--agent-user[the agent'\''s user]:user:_users'
        '*--agent-option[a further option of the agent]:option'
    )
    wrap=(
        '(-g --kill-group)'{-g,--kill-group}'[signal the group of the process]'
        '(-c --single-child)'{-c,--single-child}'[signal the process only]'
        '(-s --subreaper)'{-s,--subreaper}'[fail when orphans cannot be adopted]'
        '(-p --parent-death-signal)'{-p,--parent-death-signal}'[signal to the launcher when its parent dies]:signal:($signals)'
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
            _arguments $shared '--process-number[check only this process]:number' \
                '--merged[print the document merged with the files that it includes]' \
                '--strict[also check what depends on this machine]' '--format[format of the output]:format:(text json)' \
                '--agent-path[the program that checks patterns]:file:_files' '1:configuration:_files'
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
    _arguments -s $shared $launch $agent $wrap '1:command:((
        ctl\:"query or control a running launcher"
        check\:"print what a configuration would run, or all its errors"
        schema\:"print the JSON Schema of a configuration, or its reference"
        completion\:"print a completion script"
        help\:"print the help"))'
}

# What stands behind ctl.
_triton_launch_ctl() {
    local verb word
    local -i is_value=0
    local -a further
    for word in $words[2,CURRENT-1]; do
        if ((is_value)); then
            is_value=0
        elif [[ $word == (--socket|--timeout|--for|--lines|-n|--interval|--detach-keys) ]]; then
            is_value=1
        elif [[ $word != -* ]]; then
            verb=$word
            break
        fi
    done
    case $verb in
    status) further=('--all[include the launcher'\''s own programs]' '*:program:_triton_launch_names') ;;
    history) further=('*:program:_triton_launch_names') ;;
    describe) further=('2:program:_triton_launch_names') ;;
    start | restart)
        further=('--no-wait[return as soon as it has begun]' '--no-deps[do not start required programs]'
            '*:program:_triton_launch_names')
        ;;
    stop)
        further=('--no-wait[return as soon as it has begun]' '(--with-dependents)--force[leave those running that require it]'
            '(--force)--with-dependents[first stop those that require it]' '*:program:_triton_launch_names')
        ;;
    signal) further=('2:signal:($signals)' '*:program:_triton_launch_names') ;;
    logs)
        further=('(-f --follow)'{-f,--follow}'[continue with what is written from now on]'
            '(-n --lines)'{-n,--lines=}'[number of last lines]:number' '2:program:_triton_launch_names')
        ;;
    attach)
        further=('(-f --follow)'{-f,--follow}'[stay for the next process]'
            '(-n --lines)'{-n,--lines=}'[how many of the last lines]:number'
            '--detach-keys=[what to type to leave it]:keys' '--read-only[look on, and type nothing]'
            '2:program:_triton_launch_names')
        ;;
    wait) further=('--for=[which state]:state:(ready up down done)' '2:program:_triton_launch_names') ;;
    top)
        further=('--interval=[time between two refreshes]:duration' '--all[include the launcher'\''s own programs]')
        ;;
    upgrade) further=('2:new launcher:_files') ;;
    help) further=('2:command:_triton_launch_ctl_commands') ;;
    stage) further=('2:kind:(files binaries libraries monitor-conf)') ;;
    esac
    _arguments $further '--socket=[where the launcher is reached]:socket:_files' \
        '--json[print answers as JSON, for programs]' '--timeout=[limit for waiting]:duration' \
        '(- *)'{-h,--help}'[print the commands and options]' '1:command:_triton_launch_ctl_commands'
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
