# bash completion for vmadm
_vmadm() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command= words= things= keys= list= begun= i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --root|--version|-E|-q|--quiet|-v|--verbose|-d|--debug) i=$((i + 1)) ;;
        -*) ;;
        *) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    [[ $previous != = && $word != = ]] || return 0
    case $command in
        clone) words='-h --help -f --file --strict --snapshot' things=yes keys='alias= hostname= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces=' ;;
        completion) words='-h --help' things= keys='bash zsh fish' ;;
        console) words='-h --help' things=yes keys= ;;
        cp) words='-h --help' things= keys= ;;
        create) words='-h --help -f --file --strict' things= keys= ;;
        create-snapshot) words='-h --help' things=yes keys= ;;
        delete|destroy) words='-h --help' things=yes keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        delete-snapshot) words='-h --help' things=yes keys= ;;
        events) words='-h --help -f -j -r' things=yes keys= ;;
        exec) words='-h --help' things=yes keys= ;;
        get|json) words='-h --help' things=yes keys= ;;
        history) words='-h --help' things=yes keys= ;;
        info) words='-h --help' things=yes keys= ;;
        install) words='-h --help' things=yes keys= ;;
        kill) words='-h --help -s' things=yes keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        list) words='--help -p -H -h -o -s' things= keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        logs) words='-h --help -f --follow -n --lines' things=yes keys= ;;
        lookup) words='-h --help -j -1 -o' things= keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        prepare) words='-h --help' things= keys= ;;
        reboot) words='-h --help -F' things=yes keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        receive|recv) words='-h --help -f --file --with-filesystems' things= keys= ;;
        recover) words='-h --help' things=yes keys= ;;
        rename) words='-h --help' things=yes keys= ;;
        reprovision) words='-h --help -f --file --strict' things=yes keys= ;;
        rollback-snapshot) words='-h --help' things=yes keys= ;;
        send) words='-h --help' things=yes keys= ;;
        start|boot) words='-h --help' things=yes keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        stats) words='-h --help -j -H' things=yes keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        stop|halt) words='-h --help -F -t' things=yes keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        sysrq) words='-h --help' things=yes keys='nmi screenshot' ;;
        update) words='-h --help -f --file --strict -n --dry-run' things=yes keys='alias= hostname= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces=' ;;
        upgrade-launcher) words='-h --help' things=yes keys='uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=' ;;
        validate) words='-h --help -f --file --strict' things= keys='create update' ;;
        '') words='--root --version -E -q --quiet -v --verbose -d --debug clone completion console cp create create-snapshot delete destroy delete-snapshot events exec get json history info install kill list logs lookup prepare reboot receive recv recover rename reprovision rollback-snapshot send start boot stats stop halt sysrq update upgrade-launcher validate' ;;
    esac
    case $command:$previous in
        clone:-h|clone:--help) things= keys= words= ;;
        clone:-f|clone:--file) things= keys= words= ;;
        clone:--strict) things= keys= words= ;;
        clone:--snapshot) things= keys= words= ;;
        completion:-h|completion:--help) things= keys= words= ;;
        console:-h|console:--help) things= keys= words= ;;
        cp:-h|cp:--help) things= keys= words= ;;
        create:-h|create:--help) things= keys= words= ;;
        create:-f|create:--file) things= keys= words= ;;
        create:--strict) things= keys= words= ;;
        create-snapshot:-h|create-snapshot:--help) things= keys= words= ;;
        delete:-h|delete:--help|destroy:-h|destroy:--help) things= keys= words= ;;
        delete-snapshot:-h|delete-snapshot:--help) things= keys= words= ;;
        events:-h|events:--help) things= keys= words= ;;
        events:-f) things= keys= words= ;;
        events:-j) things= keys= words= ;;
        events:-r) things= keys= words= ;;
        exec:-h|exec:--help) things= keys= words= ;;
        get:-h|get:--help|json:-h|json:--help) things= keys= words= ;;
        history:-h|history:--help) things= keys= words= ;;
        info:-h|info:--help) things= keys= words= ;;
        install:-h|install:--help) things= keys= words= ;;
        kill:-h|kill:--help) things= keys= words= ;;
        kill:-s) things= keys= words='SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGIOT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPOLL SIGPWR SIGSYS' ;;
        list:--help) things= keys= words= ;;
        list:-p) things= keys= words= ;;
        list:-H) things= keys= words= ;;
        list:-h) things= keys= words= ;;
        list:-o) things= keys= words='uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_timestamp init_restarts create_timestamp last_modified server_uuid platform_buildstamp v' list=yes ;;
        list:-s) things= keys= words='uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_timestamp init_restarts create_timestamp last_modified server_uuid platform_buildstamp v' list=yes ;;
        logs:-h|logs:--help) things= keys= words= ;;
        logs:-f|logs:--follow) things= keys= words= ;;
        logs:-n|logs:--lines) things= keys= words= ;;
        lookup:-h|lookup:--help) things= keys= words= ;;
        lookup:-j) things= keys= words= ;;
        lookup:-1) things= keys= words= ;;
        lookup:-o) things= keys= words='uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_timestamp init_restarts create_timestamp last_modified server_uuid platform_buildstamp v' list=yes ;;
        prepare:-h|prepare:--help) things= keys= words= ;;
        reboot:-h|reboot:--help) things= keys= words= ;;
        reboot:-F) things= keys= words= ;;
        receive:-h|receive:--help|recv:-h|recv:--help) things= keys= words= ;;
        receive:-f|receive:--file|recv:-f|recv:--file) things= keys= words= ;;
        receive:--with-filesystems|recv:--with-filesystems) things= keys= words= ;;
        recover:-h|recover:--help) things= keys= words= ;;
        rename:-h|rename:--help) things= keys= words= ;;
        reprovision:-h|reprovision:--help) things= keys= words= ;;
        reprovision:-f|reprovision:--file) things= keys= words= ;;
        reprovision:--strict) things= keys= words= ;;
        rollback-snapshot:-h|rollback-snapshot:--help) things= keys= words= ;;
        send:-h|send:--help) things= keys= words= ;;
        start:-h|start:--help|boot:-h|boot:--help) things= keys= words= ;;
        stats:-h|stats:--help) things= keys= words= ;;
        stats:-j) things= keys= words= ;;
        stats:-H) things= keys= words= ;;
        stop:-h|stop:--help|halt:-h|halt:--help) things= keys= words= ;;
        stop:-F|halt:-F) things= keys= words= ;;
        stop:-t|halt:-t) things= keys= words= ;;
        sysrq:-h|sysrq:--help) things= keys= words= ;;
        update:-h|update:--help) things= keys= words= ;;
        update:-f|update:--file) things= keys= words= ;;
        update:--strict) things= keys= words= ;;
        update:-n|update:--dry-run) things= keys= words= ;;
        upgrade-launcher:-h|upgrade-launcher:--help) things= keys= words= ;;
        validate:-h|validate:--help) things= keys= words= ;;
        validate:-f|validate:--file) things= keys= words= ;;
        validate:--strict) things= keys= words= ;;
        *:--root) things= keys= words= ;;
        *:--version) things= keys= words= ;;
        *:-E) things= keys= words= ;;
        *:-q|*:--quiet) things= keys= words= ;;
        *:-v|*:--verbose) things= keys= words= ;;
        *:-d|*:--debug) things= keys= words= ;;
    esac
    if [[ -n $list ]]; then
        begun=${word%"${word##*,}"}
        mapfile -t COMPREPLY < <(compgen -P "$begun" -W "$words" -- "${word##*,}")
        return 0
    fi
    if [[ $word != -* && -n $things$keys ]]; then
        words=$keys
        [[ -z $things ]] || words+=" $(vmadm -q list -p -o uuid,alias 2>/dev/null | tr : "\n")"
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    [[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
    ((${#COMPREPLY[@]})) || compopt -o default
}
complete -F _vmadm vmadm
