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
    not __triton_launch_wraps; and not __triton_launch_is check schema completion help
end

function __triton_launch_configures
    not __triton_launch_wraps; and not __triton_launch_is schema completion help
end

complete -c triton-launch -f
complete -c triton-launch -n __triton_launch_wraps -a '(__triton_launch_command)'
complete -c triton-launch -n __triton_launch_first -a check -d 'Print the commands of a configuration, or its errors'
complete -c triton-launch -n __triton_launch_first -a schema -d 'Print the JSON Schema of the configuration'
complete -c triton-launch -n __triton_launch_first -a completion -d 'Print a completion script'
complete -c triton-launch -n __triton_launch_first -a help -d 'Print the help'
complete -c triton-launch -n '__triton_launch_is completion' -a 'bash zsh fish'

# for launch and check
complete -c triton-launch -n __triton_launch_configures -l server-count -x -d 'How many processes'
complete -c triton-launch -n __triton_launch_configures -l process-count -x -d 'How many processes'
complete -c triton-launch -n __triton_launch_configures -l main-container-version -x -d 'Version of this container'
complete -c triton-launch -n __triton_launch_configures -l version-file -rF -d 'File with that version'
complete -c triton-launch -n __triton_launch_configures -l version-match -xa 'exact protocol' -d 'When our binary fits'
complete -c triton-launch -n __triton_launch_configures -l fdbserver-path -rF -d 'Binary of this container'
complete -c triton-launch -n __triton_launch_configures -l binary-path -rF -d 'Binary of this container'
complete -c triton-launch -n __triton_launch_configures -l shared-binary-dir -xa '(__fish_complete_directories)' \
    -d 'Where binaries of other versions are'
complete -c triton-launch -n __triton_launch_configures -l additional-env-file -rF -d 'key=value lines for substitution'
complete -c triton-launch -n __triton_launch_configures -l export-env-file -d 'Put its values into the environment too'

# for check
complete -c triton-launch -n '__triton_launch_is check' -F
complete -c triton-launch -n '__triton_launch_is check' -l process-number -x -d 'Only this process'
complete -c triton-launch -n '__triton_launch_is check' -l strict -d 'Check what depends on this machine, too'
complete -c triton-launch -n '__triton_launch_is check' -l format -xa 'text json' -d 'Form of the answer'

# for launch
complete -c triton-launch -n __triton_launch_runs -l mode -xa 'launch launcher' -d 'What to do'
complete -c triton-launch -n __triton_launch_runs -l input-dir -xa '(__fish_complete_directories)' \
    -d 'Directory of the configuration'
complete -c triton-launch -n __triton_launch_runs -l input-monitor-conf -rF -d 'Name of the configuration file in it'
complete -c triton-launch -n __triton_launch_runs -l exit-on-bad-config -d 'Exit when the first configuration is bad'
complete -c triton-launch -n __triton_launch_runs -l restart-delay -x -d 'Delay before the second restart'
complete -c triton-launch -n __triton_launch_runs -l restart-max-delay -x -d 'Longest delay'
complete -c triton-launch -n __triton_launch_runs -l restart-factor -x -d 'Growth of the delay'
complete -c triton-launch -n __triton_launch_runs -l restart-jitter -x -d 'Random share of the delay'
complete -c triton-launch -n __triton_launch_runs -l restart-reset-after -x -d 'Run that makes failures forgotten'
complete -c triton-launch -n __triton_launch_runs -l restart-minimum-run -x -d 'Shortest run that may end without delay'
complete -c triton-launch -n __triton_launch_runs -l stop-signal -xa '$__triton_launch_signals' -d 'Signal that stops'
complete -c triton-launch -n __triton_launch_runs -l stop-timeout -x -d 'Time until SIGKILL'
complete -c triton-launch -n __triton_launch_runs -l stop-limit -x -d 'Time for the whole stop'
complete -c triton-launch -n __triton_launch_runs -l orphan-signal -xa 'none $__triton_launch_signals' \
    -d 'Sent to processes when the launcher dies'
complete -c triton-launch -n __triton_launch_runs -l log-level -xa 'trace debug info warning error off' -d 'Least level'
complete -c triton-launch -n __triton_launch_runs -l log-format -xa 'auto text json' -d 'Form of the log'
complete -c triton-launch -n __triton_launch_runs -l log-path -rF -d 'Log to this file, too'

# for a wrapped command
complete -c triton-launch -n __triton_launch_runs -s g -l kill-group -d 'Signal the group of the process'
complete -c triton-launch -n __triton_launch_runs -s c -l single-child -d 'Signal the process only'
complete -c triton-launch -n __triton_launch_runs -s s -l subreaper -d 'Fail when orphans cannot be adopted'
complete -c triton-launch -n __triton_launch_runs -s p -l parent-death-signal -xa '$__triton_launch_signals' \
    -d 'Signal for us when our parent dies'
complete -c triton-launch -n __triton_launch_runs -s w -l warn-on-reap -d 'Say which orphans are reaped'
complete -c triton-launch -n __triton_launch_runs -s v -l verbose -d 'Say more'
complete -c triton-launch -n __triton_launch_runs -s e -l remap-exit -x -d 'Make this exit code 0'
complete -c triton-launch -n __triton_launch_runs -s r -l rewrite -xa '(__triton_launch_rewrites)' -d 'Send B for A'
complete -c triton-launch -n __triton_launch_runs -l setsid -d 'Give the command a session'
complete -c triton-launch -n __triton_launch_runs -s P -l pause -d 'Run no command, reap orphans'
complete -c triton-launch -n __triton_launch_runs -s h -l help -d 'Help'
complete -c triton-launch -n __triton_launch_runs -s V -l version -d 'Version'
complete -c triton-launch -n __triton_launch_runs -s l -l license -d 'Licence'
