# bash completion for imgadm
_imgadm() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command= words= things= keys= list= begun= name= names=() i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --root|-P|--pool|--progress) i=$((i + 1)) ;;
        -*) ;;
        *) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    [[ $previous != = && $word != = ]] || return 0
    local list1='published= pub= source= size= clones= reference= digest= platform= tree= installed_at= pinned= v= uuid= owner= name= version= description= homepage= eula= icon= state= error= disabled= public= published_at= type= os= origin= files= acl= requirements= users= generate_passwords= inherited_directories= nic_driver= disk_driver= cpu_type= image_size= billing_tags= traits= tags= channels= urn= creator_name= creator_uuid= oci='
    local list2='published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci'
    case $command in
        list) words='-h --help -j --json -p --parsable -H --no-header -o --output -s --sort' things= keys=$list1 ;;
        get) words='-h --help -r --recursive' things=yes keys= ;;
        avail) words='-h --help -j --json -p --parsable -H --no-header -o --output -s --sort -S --source' things= keys=$list1 ;;
        show) words='-h --help -S --source' things= keys= ;;
        ancestry) words='-h --help -j --json -p --parsable -H --no-header -o --output -s --sort' things=yes keys= ;;
        import) words='-h --help -S --source -m --manifest -f --file -q --quiet --uuid --name --image-version --platform --authfile -k --insecure' things= keys= ;;
        install) words='-h --help -m --manifest -f --file -q --quiet' things= keys= ;;
        update) words='-h --help -n --dry-run --authfile -k --insecure' things= keys= ;;
        create) words='-h --help -m --manifest -o --output-directory -c --compression --format -i --incremental --max-origin-depth -s --script -p --publish -q --quiet' things= keys= ;;
        publish) words='-h --help' things= keys= ;;
        delete) words='-h --help' things=yes keys= ;;
        vacuum) words='-h --help -n --dry-run -f --force -j --json' things= keys= ;;
        gc) words='-h --help -n --dry-run -j --json' things= keys= ;;
        pin) words='-h --help' things=yes keys= ;;
        unpin) words='-h --help' things=yes keys= ;;
        sources) words='-h --help -a --add -d --delete -e --edit -c --check -j --json -v --verbose -t --type -k --insecure -f --force --signature --key --signatures --authfile --mirror --cacert --channel --proxy' things= keys='add list remove' ;;
        scrub) words='-h --help -j --json' things= keys= ;;
        why) words='-h --help -j --json' things= keys= ;;
        completion) words='-h --help' things= keys='bash zsh fish' ;;
        help) words='-h --help' things= keys= ;;
        reference) words='-h --help' things= keys='manifest sources' ;;
        '') words='-h --help -E --json-errors --root -P --pool --progress -v --verbose -V --version list get avail show ancestry import install update create publish delete vacuum gc pin unpin sources scrub why completion help reference' ;;
    esac
    case $command:$previous in
        list:-o|list:--output) things= keys= words=$list2 list=yes ;;
        list:-s|list:--sort) things= keys= words=$list2 list=yes ;;
        avail:-o|avail:--output) things= keys= words=$list2 list=yes ;;
        avail:-s|avail:--sort) things= keys= words=$list2 list=yes ;;
        avail:-S|avail:--source) things= keys= words= ;;
        show:-S|show:--source) things= keys= words= ;;
        ancestry:-o|ancestry:--output) things= keys= words=$list2 list=yes ;;
        ancestry:-s|ancestry:--sort) things= keys= words=$list2 list=yes ;;
        import:-S|import:--source) things= keys= words= ;;
        import:-m|import:--manifest) things= keys= words= ;;
        import:-f|import:--file) things= keys= words= ;;
        import:--uuid) things= keys= words= ;;
        import:--name) things= keys= words= ;;
        import:--image-version) things= keys= words= ;;
        import:--platform) things= keys= words= ;;
        import:--authfile) things= keys= words= ;;
        install:-m|install:--manifest) things= keys= words= ;;
        install:-f|install:--file) things= keys= words= ;;
        update:--authfile) things= keys= words= ;;
        create:-m|create:--manifest) things= keys= words= ;;
        create:-o|create:--output-directory) things= keys= words= ;;
        create:-c|create:--compression) things= keys= words='none gzip bzip2 xz zstd' ;;
        create:--format) things= keys= words='tar zfs' ;;
        create:--max-origin-depth) things= keys= words= ;;
        create:-s|create:--script) things= keys= words= ;;
        create:-p|create:--publish) things= keys= words= ;;
        sources:-a|sources:--add) things= keys= words= ;;
        sources:-d|sources:--delete) things= keys= words= ;;
        sources:-t|sources:--type) things= keys= words='imgapi directory registry' ;;
        sources:--signature) things= keys= words='required if-present none' ;;
        sources:--key) things= keys= words= ;;
        sources:--signatures) things= keys= words= ;;
        sources:--authfile) things= keys= words= ;;
        sources:--mirror) things= keys= words= ;;
        sources:--cacert) things= keys= words= ;;
        sources:--channel) things= keys= words= ;;
        sources:--proxy) things= keys= words= ;;
        *:--root) things= keys= words= ;;
        *:-P|*:--pool) things= keys= words= ;;
        *:--progress) things= keys= words='auto line json none' ;;
    esac
    if [[ -n $list ]]; then
        begun=${word%"${word##*,}"}
        mapfile -t COMPREPLY < <(compgen -P "$begun" -W "$words" -- "${word##*,}")
        return 0
    fi
    if [[ $word != -* && -n $things$keys ]]; then
        words=$keys
        [[ -z $things ]] || mapfile -t names < <(imgadm list -H -o uuid 2>/dev/null)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    for name in "${names[@]}"; do
        printf -v name %q "$name"
        [[ $name != "$word"* || $name == "''" ]] || COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
    ((${#COMPREPLY[@]})) || compopt -o default
}
complete -F _imgadm imgadm
