# bash completion for vminfo
_vminfo() {
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
    local list1='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v='
    local list2='uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_reason exit_timestamp init_restarts waits_for create_timestamp last_modified server_uuid platform_buildstamp v'
    case $command in
        completion) words='-h --help' things= keys='bash zsh fish' ;;
        events) words='-h --help -f -j -r --since --filter --type --field --until --timeout' things=yes keys= ;;
        ping) words='-h --help' things= keys= ;;
        status) words='-h --help -j -f' things= keys= ;;
        top) words='-h --help -s -d -n' things= keys= ;;
        vm) words='-h --help --fresh' things=yes keys= ;;
        vms) words='-h --help -o' things= keys=$list1 ;;
        '') words='--root --socket -V --version -E completion events ping status top vm vms' ;;
    esac
    case $command:$previous in
        events:--since) things= keys= words= ;;
        events:--filter) things= keys= words=$list1 ;;
        events:--type) things= keys= words='create modify delete' ;;
        events:--field) things= keys= words=$list2 ;;
        events:--until) things= keys= words=$list1 ;;
        events:--timeout) things= keys= words= ;;
        top:-s) things= keys= words= ;;
        top:-d) things= keys= words= ;;
        top:-n) things= keys= words= ;;
        vms:-o) things= keys= words=$list2 list=yes ;;
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
        [[ -z $things ]] || mapfile -t names < <(vminfo vms -o uuid,alias 2>/dev/null | grep : | cut -d\" -f4)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    for name in "${names[@]}"; do
        printf -v name %q "$name"
        [[ $name != "$word"* || $name == "''" ]] || COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
    ((${#COMPREPLY[@]})) || compopt -o default
}
complete -F _vminfo vminfo
