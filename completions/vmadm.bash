# bash completion for vmadm
_vmadm() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command= words= things= keys= list= begun= name= names=() i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --root) i=$((i + 1)) ;;
        -*) ;;
        *) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    [[ $previous != = && $word != = ]] || return 0
    local list1='alias= hostname= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= ram='
    local list2='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v='
    local list3='SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGIOT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPOLL SIGPWR SIGSYS'
    local list4='uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_reason exit_timestamp init_restarts waits_for create_timestamp last_modified server_uuid platform_buildstamp v'
    case $command in
        clone) words='-h --help -f --file --strict --same-alias --snapshot' things=yes keys=$list1 ;;
        completion) words='-h --help' things= keys='bash zsh fish' ;;
        console) words='-h --help' things=yes keys= ;;
        cp) words='-h --help' things= keys= ;;
        create) words='-h --help -f --file --strict --same-alias' things= keys=$list1 ;;
        create-snapshot) words='-h --help --volumes' things=yes keys= ;;
        delete|destroy) words='-h --help -n --dry-run -y --yes' things=yes keys=$list2 ;;
        delete-snapshot) words='-h --help' things=yes keys= ;;
        events) words='-h --help -f -j -r' things=yes keys= ;;
        exec) words='-h --help' things=yes keys= ;;
        get|json) words='-h --help' things=yes keys= ;;
        history) words='-h --help -t --table -H' things=yes keys= ;;
        info) words='-h --help' things=yes keys= ;;
        install) words='-h --help' things=yes keys= ;;
        kill) words='-h --help -s' things=yes keys=$list2 ;;
        list) words='--help -j --json -p -H -h -o -s' things= keys=$list2 ;;
        list-snapshots) words='-h --help -j --json -p -H' things=yes keys= ;;
        logs) words='-h --help -f --follow -n --lines' things=yes keys= ;;
        lookup) words='-h --help -j -1 -o' things= keys=$list2 ;;
        prepare) words='-h --help' things= keys= ;;
        reboot) words='-h --help -F' things=yes keys=$list2 ;;
        receive|recv) words='-h --help -f --file --with-filesystems' things= keys= ;;
        recover) words='-h --help' things=yes keys= ;;
        reference) words='-h --help --man' things= keys= ;;
        rename) words='-h --help --same-alias' things=yes keys= ;;
        reprovision) words='-h --help -f --file --strict' things=yes keys= ;;
        rollback-snapshot) words='-h --help' things=yes keys= ;;
        send) words='-h --help' things=yes keys= ;;
        start|boot) words='-h --help' things=yes keys=$list2 ;;
        stats) words='-h --help -j -H' things=yes keys=$list2 ;;
        stop|halt) words='-h --help -F -t' things=yes keys=$list2 ;;
        sysrq) words='-h --help' things=yes keys='nmi screenshot' ;;
        update) words='-h --help -f --file --strict --same-alias -n --dry-run' things=yes keys=$list1 ;;
        upgrade-launcher) words='-h --help' things=yes keys=$list2 ;;
        validate) words='-h --help -f --file --strict' things= keys='create update' ;;
        '') words='--root -V --version -E -q --quiet -v --verbose -d --debug clone completion console cp create create-snapshot delete destroy delete-snapshot events exec get json history info install kill list list-snapshots logs lookup prepare reboot receive recv recover reference rename reprovision rollback-snapshot send start boot stats stop halt sysrq update upgrade-launcher validate' ;;
    esac
    case $command:$previous in
        clone:-f|clone:--file) things= keys= words= ;;
        clone:--snapshot) things= keys= words= ;;
        create:-f|create:--file) things= keys= words= ;;
        kill:-s) things= keys= words=$list3 ;;
        list:-o) things= keys= words=$list4 list=yes ;;
        list:-s) things= keys= words=$list4 list=yes ;;
        logs:-n|logs:--lines) things= keys= words= ;;
        lookup:-o) things= keys= words=$list4 list=yes ;;
        receive:-f|receive:--file|recv:-f|recv:--file) things= keys= words= ;;
        reprovision:-f|reprovision:--file) things= keys= words= ;;
        stop:-t|halt:-t) things= keys= words= ;;
        update:-f|update:--file) things= keys= words= ;;
        validate:-f|validate:--file) things= keys= words= ;;
        *:--root) things= keys= words= ;;
    esac
    if [[ -n $list ]]; then
        begun=${word%"${word##*,}"}
        mapfile -t COMPREPLY < <(compgen -P "$begun" -W "$words" -- "${word##*,}")
        return 0
    fi
    if [[ $word != -* && -n $things$keys ]]; then
        words=$keys
        [[ -z $things ]] || mapfile -t names < <(vmadm -q list -p -o uuid,alias 2>/dev/null | tr : "\n")
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    for name in "${names[@]}"; do
        printf -v name %q "$name"
        [[ $name != "$word"* || $name == "''" ]] || COMPREPLY+=("$name")
    done
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
    ((${#COMPREPLY[@]})) || compopt -o default
}
complete -F _vmadm vmadm
