# bash completion for volumeadm
_volumeadm() {
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
        attach) words='-h --help --verify-only' things=yes keys= ;;
        clone) words='-h --help --uuid --size --no-wait --timeout' things=yes keys= ;;
        completion) words='-h --help' things= keys='bash zsh fish' ;;
        create) words='-h --help --uuid --generation --size --layout --content --format --user-data --network-config --read-only --encrypted --no-wait --timeout' things= keys= ;;
        delete) words='-h --help -c --content --no-wait --timeout' things=yes keys= ;;
        delete-snapshot) words='-h --help' things=yes keys= ;;
        detach) words='-h --help' things=yes keys= ;;
        gc) words='-h --help -n --dry-run' things= keys= ;;
        get) words='-h --help' things=yes keys= ;;
        grow) words='-h --help --no-wait --timeout' things=yes keys= ;;
        import) words='-h --help --sha256 --size --format --credentials --insecure --signature --keys --certificates --no-wait --timeout' things= keys= ;;
        list) words='-h --help -c --content -k --kind -j --json -H -o' things= keys= ;;
        maintenance) words='-h --help' things= keys='on off' ;;
        metrics) words='-h --help' things= keys= ;;
        receive) words='-h --help -f --file --new --no-wait --timeout' things= keys= ;;
        retry) words='-h --help' things= keys= ;;
        rollback) words='-h --help' things=yes keys= ;;
        scrub) words='-h --help -j --json' things= keys= ;;
        send) words='-h --help --snapshot' things=yes keys= ;;
        show) words='-h --help' things=yes keys= ;;
        snapshot) words='-h --help' things=yes keys= ;;
        snapshots) words='-h --help -j --json' things=yes keys= ;;
        watch) words='-h --help -j --json --until --timeout' things=yes keys= ;;
        why) words='-h --help' things=yes keys= ;;
        '') words='--root --socket -V --version -E attach clone completion create delete delete-snapshot detach gc get grow import list maintenance metrics receive retry rollback scrub send show snapshot snapshots watch why' ;;
    esac
    case $command:$previous in
        clone:--uuid) things= keys= words= ;;
        clone:--size) things= keys= words= ;;
        clone:--timeout) things= keys= words= ;;
        create:--uuid) things= keys= words= ;;
        create:--generation) things= keys= words= ;;
        create:--size) things= keys= words= ;;
        create:--layout) things= keys= words='directory file' ;;
        create:--content) things= keys= words= ;;
        create:--format) things= keys= words= ;;
        create:--user-data) things= keys= words= ;;
        create:--network-config) things= keys= words= ;;
        create:--timeout) things= keys= words= ;;
        delete:--timeout) things= keys= words= ;;
        grow:--timeout) things= keys= words= ;;
        import:--sha256) things= keys= words= ;;
        import:--size) things= keys= words= ;;
        import:--format) things= keys= words='raw iso qcow qcow2 vmdk vhd vhdx container' ;;
        import:--credentials) things= keys= words= ;;
        import:--signature) things= keys= words='minisign openpgp openpgp-sums cms x509' ;;
        import:--keys) things= keys= words= ;;
        import:--certificates) things= keys= words= ;;
        import:--timeout) things= keys= words= ;;
        list:-k|list:--kind) things= keys= words='volumes content blobs downloads verifications certificates users snapshots disks' ;;
        list:-o) things= keys= words= ;;
        receive:-f|receive:--file) things= keys= words= ;;
        receive:--timeout) things= keys= words= ;;
        send:--snapshot) things= keys= words= ;;
        watch:--until) things= keys= words= ;;
        watch:--timeout) things= keys= words= ;;
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
        [[ -z $things ]] || mapfile -t names < <(volumeadm list -H -o key 2>/dev/null)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    for name in "${names[@]}"; do
        printf -v name %q "$name"
        [[ $name != "$word"* || $name == "''" ]] || COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
    ((${#COMPREPLY[@]})) || compopt -o default
}
complete -F _volumeadm volumeadm
