#compdef criadm
_criadm_OBJECT() { compadd -- ${(f)"$({ criadm list -H -o object; criadm list -c -H -o object; } 2>/dev/null)"} }
_criadm() {
    local -a commands
    commands=(
        'check:looks for what is left over or fails'
        'completion:prints the completion of a shell'
        'events:prints what happens to containers'
        'list:lists pods, or containers'
        'logs:prints what a container has written'
        'recover:tries again what fails, and removes what is left over'
        'remove:stops and removes a pod or container'
        'show:prints all that is known of a pod or container as JSON'
        'status:says whether the node can run pods'
        'stop:stops a pod or container, and waits for that'
        'why:says why it is as it is, and what would help'
    )
    local line state
    _arguments -C \
        '--root[A directory to use instead of /.]:value:_files' \
        '--socket[The socket of tritoncrid.]:value:_files' \
        '-V[The version.]' \
        '--version[The version.]' \
        '-E[Errors as JSON.]' \
        '1: :->command' '*:: :->words'
    case $state in
    command) _describe command commands ;;
    words)
        case $line[1] in
        check) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[JSON instead of text.]' \
            '--json[JSON instead of text.]' \
            '*:file:_files' ;;
        completion) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:word:(bash zsh fish)' ;;
        events) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[Each event as a JSON object in one line.]' \
            '--json[Each event as a JSON object in one line.]' \
            '--timeout[Ends after so many seconds.]:value:_files' \
            '*:file:_files' ;;
        list) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-c[Containers instead of pods.]' \
            '--containers[Containers instead of pods.]' \
            '-j[JSON instead of a table.]' \
            '--json[JSON instead of a table.]' \
            '-H[Without the header.]' \
            '-o[Columns, with commas between them.]:value:_files' \
            '*:file:_files' ;;
        logs) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Goes on until the container has ended.]' \
            '--follow[Goes on until the container has ended.]' \
            '-t[The time before each line.]' \
            '--timestamps[The time before each line.]' \
            '-r[Escapes nothing on a terminal.]' \
            '--raw[Escapes nothing on a terminal.]' \
            '-n[Only so many lines of what is there.]:value:_files' \
            '--tail[Only so many lines of what is there.]:value:_files' \
            '*:OBJECT:_criadm_OBJECT' ;;
        recover) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[JSON instead of text.]' \
            '--json[JSON instead of text.]' \
            '*:file:_files' ;;
        remove) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--grace[Seconds between the stop signal and SIGKILL (10).]:value:_files' \
            '*:OBJECT:_criadm_OBJECT' ;;
        show) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:OBJECT:_criadm_OBJECT' ;;
        status) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[JSON instead of text.]' \
            '--json[JSON instead of text.]' \
            '*:file:_files' ;;
        stop) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--grace[Seconds between the stop signal and SIGKILL (10).]:value:_files' \
            '*:OBJECT:_criadm_OBJECT' ;;
        why) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:OBJECT:_criadm_OBJECT' ;;
        esac ;;
    esac
}
_criadm "$@"
