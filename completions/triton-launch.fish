# fish completion for triton-launch: triton-launch completion fish | source

set -g __triton_launch_signals HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT \
    STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS RTMIN RTMAX

function __triton_launch_rewrites
    for from in $__triton_launch_signals
        printf '%s\n' $from:0 $from:$__triton_launch_signals
    end
end

# True behind --, where a command of its own stands.
function __triton_launch_wraps
    contains -- -- (commandline -opc)
end

function __triton_launch_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    and complete -C (string join -- ' ' (string escape -- $words[(math $at + 1)..]) (commandline -ct))
end

function __triton_launch_first
    test (count (commandline -opc)) -eq 1
end

# The name of the subcommand is the first word and nothing else.
function __triton_launch_is
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv
end

function __triton_launch_runs
    not __triton_launch_wraps; and not __triton_launch_is ctl check schema completion help
end

# The mode is a word of its own or follows a =.
function __triton_launch_stages
    __triton_launch_runs; and string match -qr -- '--mode[ =](init|sidecar)( |$)' (string join ' ' -- (commandline -opc))
end

function __triton_launch_configures
    not __triton_launch_wraps; and not __triton_launch_is ctl schema completion help; and not __triton_launch_stages
end

# The command of ctl and its words so far, without options.
function __triton_launch_ctl_words
    set -l is_value 0
    for word in (commandline -opc)[3..]
        if test $is_value = 1
            set is_value 0
        else if contains -- $word --socket --timeout --for --lines --interval -n
            set is_value 1
        else if not string match -q -- '-*' $word
            echo -- $word
        end
    end
end

# True for one of these commands of ctl; without any, where it has yet to be typed.
function __triton_launch_ctl_is
    __triton_launch_is ctl; or return
    set -l words (__triton_launch_ctl_words)
    test (count $words) -eq 0 -a (count $argv) -eq 0; or contains -- "$words[1]" $argv
end

function __triton_launch_ctl_has
    test (count (__triton_launch_ctl_words)) -eq $argv[1]
end

# The programs of a running launcher.
function __triton_launch_names
    set -l words (commandline -opc)
    set -l socket (string match -- '--socket=*' $words)
    set -l at (contains -i -- --socket $words)
    and set socket --socket $words[(math $at + 1)]
    $words[1] ctl $socket __names 2>/dev/null
end

# The commands of ctl and what they do.
function __triton_launch_ctl_commands
    set -l words (commandline -opc)
    $words[1] ctl __commands 2>/dev/null
end

complete -c triton-launch -f
complete -c triton-launch -n __triton_launch_wraps -a '(__triton_launch_command)'
complete -c triton-launch -n __triton_launch_first -a ctl -d 'Query or control a running launcher'
complete -c triton-launch -n __triton_launch_first -a check -d 'Print the commands of a configuration, or its errors'
complete -c triton-launch -n __triton_launch_first -a schema -d 'Print the JSON Schema of the configuration'
complete -c triton-launch -n __triton_launch_first -a completion -d 'Print a completion script'
complete -c triton-launch -n __triton_launch_first -a help -d 'Print the help'
complete -c triton-launch -n '__triton_launch_is completion' -a 'bash zsh fish'
complete -c triton-launch -n '__triton_launch_is schema' -l markdown -d 'The reference page'

# for ctl
complete -c triton-launch -n '__triton_launch_ctl_is' -a '(__triton_launch_ctl_commands)'
complete -c triton-launch -n '__triton_launch_ctl_is status history start stop restart' -a '(__triton_launch_names)'
complete -c triton-launch -n '__triton_launch_ctl_is describe logs attach wait; and __triton_launch_ctl_has 1' \
    -a '(__triton_launch_names)'
complete -c triton-launch -n '__triton_launch_ctl_is signal; and __triton_launch_ctl_has 1' \
    -a '$__triton_launch_signals'
complete -c triton-launch -n '__triton_launch_ctl_is signal; and not __triton_launch_ctl_has 1' \
    -a '(__triton_launch_names)'
complete -c triton-launch -n '__triton_launch_ctl_is upgrade' -F
complete -c triton-launch -n '__triton_launch_ctl_is help; and __triton_launch_ctl_has 1' \
    -a '(__triton_launch_ctl_commands)'
complete -c triton-launch -n '__triton_launch_ctl_is stage; and __triton_launch_ctl_has 1' \
    -a 'files binaries libraries monitor-conf'
complete -c triton-launch -n '__triton_launch_ctl_is status top' -l all -d 'Include the launcher\'s own programs'
complete -c triton-launch -n '__triton_launch_is ctl' -l socket -rF -d 'Where the launcher is reached'
complete -c triton-launch -n '__triton_launch_is ctl' -l json -d 'Print answers as JSON, for programs'
complete -c triton-launch -n '__triton_launch_is ctl' -s h -l help -d 'Print the commands and options'
complete -c triton-launch -n '__triton_launch_ctl_is start stop restart' -l no-wait -d 'Return as soon as it has begun'
complete -c triton-launch -n '__triton_launch_ctl_is start restart' -l no-deps -d 'Do not start required programs'
complete -c triton-launch -n '__triton_launch_ctl_is stop' -l force -d 'Leave those running that require it'
complete -c triton-launch -n '__triton_launch_ctl_is stop' -l with-dependents -d 'First stop those that require it'
complete -c triton-launch -n '__triton_launch_is ctl' -l timeout -x -d 'Limit for waiting'
complete -c triton-launch -n '__triton_launch_ctl_is wait' -l for -xa 'ready up down done' -d 'Which state'
complete -c triton-launch -n '__triton_launch_ctl_is logs' -s f -l follow -d 'Continue with what is written from now on'
complete -c triton-launch -n '__triton_launch_ctl_is attach' -s f -l follow -d 'Stay for the next process'
complete -c triton-launch -n '__triton_launch_ctl_is logs attach' -s n -l lines -x -d 'Number of last lines'
complete -c triton-launch -n '__triton_launch_ctl_is attach' -l detach-keys -x -d 'Keys that leave the program'
complete -c triton-launch -n '__triton_launch_ctl_is attach' -l read-only -d 'Only watch'
complete -c triton-launch -n '__triton_launch_ctl_is top' -l interval -x -d 'Time between two refreshes'

# for launch and check
complete -c triton-launch -n __triton_launch_configures -l server-count -x -d 'How many processes'
complete -c triton-launch -n __triton_launch_configures -l process-count -x -d 'How many processes'
complete -c triton-launch -n __triton_launch_configures -l main-container-version -x -d 'Version of this container'
complete -c triton-launch -n __triton_launch_configures -l version-file -rF -d 'File with that version'
complete -c triton-launch -n __triton_launch_configures -l version-match -xa 'auto exact protocol' -d 'When this binary fits'
complete -c triton-launch -n __triton_launch_configures -l fdbserver-path -rF -d 'Binary of this container'
complete -c triton-launch -n __triton_launch_configures -l binary-path -rF -d 'Binary of this container'
complete -c triton-launch -n __triton_launch_configures -l shared-binary-dir -xa '(__fish_complete_directories)' \
    -d 'Where binaries of other versions are'
complete -c triton-launch -n __triton_launch_configures -l additional-env-file -rF -d 'key=value lines for substitution'
complete -c triton-launch -n __triton_launch_configures -l export-env-file -d 'Also put its values into the environment'

# for check
complete -c triton-launch -n '__triton_launch_is check' -F
complete -c triton-launch -n '__triton_launch_is check' -l process-number -x -d 'Check only this process'
complete -c triton-launch -n '__triton_launch_is check' -l merged -d 'Print the document merged with the files that it includes'
complete -c triton-launch -n '__triton_launch_is check' -l strict -d 'Also check what depends on this machine'
complete -c triton-launch -n '__triton_launch_is check' -l agent-path -rF -d 'The program that checks patterns'
complete -c triton-launch -n '__triton_launch_is check' -l format -xa 'text json' -d 'Format of the output'

# for launch
complete -c triton-launch -n __triton_launch_runs -l mode -xa 'launch launcher init sidecar' -d 'What to do'
complete -c triton-launch -n __triton_launch_runs -l input-dir -xa '(__fish_complete_directories)' \
    -d 'Directory of the configuration'
complete -c triton-launch -n __triton_launch_runs -l input-monitor-conf -rF -d 'Name of the configuration file in it'
complete -c triton-launch -n __triton_launch_runs -l exit-on-bad-config -d 'Exit when the first configuration is bad'
complete -c triton-launch -n __triton_launch_runs -l restart-delay -x -d 'Delay before the second restart'
complete -c triton-launch -n __triton_launch_runs -l restart-max-delay -x -d 'Longest delay'
complete -c triton-launch -n __triton_launch_runs -l restart-factor -x -d 'Growth of the delay'
complete -c triton-launch -n __triton_launch_runs -l restart-jitter -x -d 'Random share of the delay'
complete -c triton-launch -n __triton_launch_runs -l restart-reset-after -x -d 'Run after which failures are forgotten'
complete -c triton-launch -n __triton_launch_runs -l restart-minimum-run -x -d 'Shortest run that may end without delay'
complete -c triton-launch -n __triton_launch_runs -l stop-signal -xa '$__triton_launch_signals' -d 'Signal that stops'
complete -c triton-launch -n __triton_launch_runs -l stop-timeout -x -d 'Time until SIGKILL'
complete -c triton-launch -n __triton_launch_runs -l stop-limit -x -d 'Time for the whole stop'
complete -c triton-launch -n __triton_launch_runs -l orphan-signal -xa 'none $__triton_launch_signals' \
    -d 'Sent to processes when the launcher dies'
complete -c triton-launch -n __triton_launch_runs -l log-level -xa 'trace debug info warning error off' -d 'Lowest level'
complete -c triton-launch -n __triton_launch_runs -l log-format -xa 'auto text json' -d 'Format of the log'
complete -c triton-launch -n __triton_launch_runs -l log-path -rF -d 'Also log to this file'
complete -c triton-launch -n __triton_launch_runs -l log-max-size -x -d 'Size at which that file is renamed, or none'
complete -c triton-launch -n __triton_launch_runs -l termination-log -rF -d 'File for the last errors, or none'
complete -c triton-launch -n __triton_launch_runs -l wait-for-pod -x -d 'How long to wait for its annotations'
complete -c triton-launch -n __triton_launch_runs -l cgroup -xa 'auto none required' -d 'A control group for each process'
complete -c triton-launch -n __triton_launch_runs -l control-socket -rF -d 'Where ctl reaches the launcher, or none'
complete -c triton-launch -n __triton_launch_runs -l control-mode -x -d 'Permissions of that socket, octal'
complete -c triton-launch -n __triton_launch_runs -l control-group -xa '(__fish_complete_groups)' -d 'Group of that socket'
complete -c triton-launch -n __triton_launch_runs -l output-dir -xa '(__fish_complete_directories)' \
    -d 'Directory of copied or served files'
complete -c triton-launch -n '__triton_launch_runs; and not __triton_launch_stages' -l kubernetes -xa 'auto on off' \
    -d 'Report to the Kubernetes API'
complete -c triton-launch -n '__triton_launch_runs; and not __triton_launch_stages' -l annotation-prefix -x \
    -d 'Prefix of the pod\'s annotations'
complete -c triton-launch -n '__triton_launch_runs; and not __triton_launch_stages' -l enable-node-watch \
    -d 'Labels of the node as variables'
complete -c triton-launch -n '__triton_launch_runs; and not __triton_launch_stages' -l ui -d 'Serve a page of what runs at /ui'
complete -c triton-launch -n '__triton_launch_runs; and not __triton_launch_stages' -l ui-token-file -rF \
    -d 'Holds the token for commands there'

# of the agent, in each of these modes
complete -c triton-launch -n __triton_launch_runs -l listen -x -d 'Serve HTTP on HOST:PORT or :PORT'
complete -c triton-launch -n __triton_launch_runs -l bind-address -x -d 'The same'
complete -c triton-launch -n __triton_launch_runs -l listen-address -x -d 'The same'
complete -c triton-launch -n __triton_launch_runs -l probe-listen -x -d 'Serve only probes on this address'
complete -c triton-launch -n __triton_launch_runs -l tls -d 'Serve HTTPS'
complete -c triton-launch -n __triton_launch_runs -l tls-certificate-file -rF -d 'Its certificate'
complete -c triton-launch -n __triton_launch_runs -l tls-key-file -rF -d 'Its key'
complete -c triton-launch -n __triton_launch_runs -l tls-ca-file -rF -d 'CA that signs the certificates of peers'
complete -c triton-launch -n __triton_launch_runs -l tls-verify-peers -xa none -d 'Which peers are let in'
complete -c triton-launch -n __triton_launch_runs -l certificate-path -rF -d 'Its certificate, without asking peers for theirs'
complete -c triton-launch -n __triton_launch_runs -l certificate-key-path -rF -d 'Its key'
complete -c triton-launch -n __triton_launch_runs -l agent-path -rF -d 'The agent\'s program'
complete -c triton-launch -n __triton_launch_runs -l agent-user -xa '(__fish_complete_users)' -d 'The agent\'s user'
complete -c triton-launch -n __triton_launch_runs -l agent-option -x -d 'A further option of the agent'

# for the modes init and sidecar
complete -c triton-launch -n __triton_launch_stages -l copy-file -rF -d 'A file of the input directory'
complete -c triton-launch -n __triton_launch_stages -l copy-template -rF -d 'The same, with substitution'
complete -c triton-launch -n __triton_launch_stages -l copy-binary -x -d 'A program of the binary directory'
complete -c triton-launch -n __triton_launch_stages -l copy-library -x -d 'A client library, by version'
complete -c triton-launch -n __triton_launch_stages -l copy-primary-library -x -d 'The one that becomes libfdb_c.so'
complete -c triton-launch -n __triton_launch_stages -l require-not-empty -rF -d 'A file that must not be empty'
complete -c triton-launch -n __triton_launch_stages -l binary-dir -xa '(__fish_complete_directories)' -d 'Of binaries'
complete -c triton-launch -n __triton_launch_stages -l library-dir -xa '(__fish_complete_directories)' -d 'Of libraries'
complete -c triton-launch -n __triton_launch_stages -l binary-output-dir -x -d 'Where binaries go in the output directory'
complete -c triton-launch -n __triton_launch_stages -l version-file -rF -d 'File with the version of this container'
complete -c triton-launch -n __triton_launch_stages -l main-container-version -x -d 'If it is ours, nothing is copied'
complete -c triton-launch -n __triton_launch_stages -l substitute-variable -x -d 'A further $NAME of the monitor conf'
complete -c triton-launch -n __triton_launch_stages -l public-ip-family -xa '4 6' -d 'Which address of the lists'
complete -c triton-launch -n __triton_launch_stages -l main-container-conf-dir -x -d 'The output directory, seen from there'
complete -c triton-launch -n __triton_launch_stages -l additional-env-file -rF -d 'key=value lines for substitution'
complete -c triton-launch -n __triton_launch_stages -l watch -d 'Copy again when a source changes'
complete -c triton-launch -n __triton_launch_stages -l format -xa 'text json' -d 'Format of the summary'

# for a wrapped command
complete -c triton-launch -n __triton_launch_runs -s g -l kill-group -d 'Signal the group of the process'
complete -c triton-launch -n __triton_launch_runs -s c -l single-child -d 'Signal the process only'
complete -c triton-launch -n __triton_launch_runs -s s -l subreaper -d 'Fail when orphans cannot be adopted'
complete -c triton-launch -n __triton_launch_runs -s p -l parent-death-signal -xa '$__triton_launch_signals' \
    -d 'Signal to the launcher when its parent dies'
complete -c triton-launch -n __triton_launch_runs -s w -l warn-on-reap -d 'Say which orphans are reaped'
complete -c triton-launch -n __triton_launch_runs -s v -l verbose -d 'Say more'
complete -c triton-launch -n __triton_launch_runs -s e -l remap-exit -x -d 'Make this exit code 0'
complete -c triton-launch -n __triton_launch_runs -s r -l rewrite -xa '(__triton_launch_rewrites)' -d 'Send B for A'
complete -c triton-launch -n __triton_launch_runs -l setsid -d 'Give the command a session'
complete -c triton-launch -n __triton_launch_runs -s P -l pause -d 'Run no command, reap orphans'
complete -c triton-launch -n __triton_launch_runs -s h -l help -d 'Help'
complete -c triton-launch -n __triton_launch_runs -s V -l version -d 'Version'
complete -c triton-launch -n __triton_launch_runs -s l -l license -d 'Licence'
