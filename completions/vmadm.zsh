#compdef vmadm
_vmadm_VM() { compadd -- ${(f)"$(vmadm -q list -p -o uuid,alias 2>/dev/null | tr : "\n")"} }
_vmadm() {
    local -a commands
    commands=(
        'clone:makes a VM with the content of another one'
        'completion:prints the completion of a shell'
        'console:a terminal in a VM; Ctrl-] leaves it'
        'cp:copies files into or out of a VM: VM:/PATH'
        'create:makes a VM of a JSON payload, and starts it'
        'create-snapshot:keeps what the VM'\''s tree holds now'
        'delete:stops VMs and removes all that they have'
        'destroy:stops VMs and removes all that they have'
        'delete-snapshot:removes a snapshot'
        'events:what changes, as it changes'
        'exec:runs a command in a VM, as its root'
        'get:all properties of a VM, as JSON'
        'json:all properties of a VM, as JSON'
        'history:what was done to VMs, as JSON lines'
        'info:is refused: for virtual hardware'
        'install:completes a VM made with create_only'
        'kill:sends a signal to the init of VMs'
        'list:a table of VMs'
        'logs:what the VM has written to its console'
        'lookup:uuids of VMs, or objects'
        'prepare:makes what systemd needs of all VMs: for the boot of the host'
        'reboot:reboots VMs'
        'receive:makes a VM of a stream'
        'recv:makes a VM of a stream'
        'recover:finishes or undoes what was interrupted'
        'rename:gives a VM another alias'
        'reprovision:replaces what the VM holds by another image'
        'rollback-snapshot:makes the VM'\''s tree what it was'
        'send:writes a VM as a stream'
        'start:starts VMs'
        'boot:starts VMs'
        'stats:what VMs use now'
        'stop:stops VMs'
        'halt:stops VMs'
        'sysrq:is refused: for virtual hardware'
        'update:changes properties of a VM'
        'upgrade-launcher:replaces the launcher of running VMs by that of this host'
        'validate:says what is wrong with a payload'
    )
    local line state
    _arguments -C \
        '--root[A directory in place of /.]:value:_files' \
        '--version[The version.]' \
        '-E[Errors as JSON.]' \
        '-q[No progress, no notes.]' \
        '--quiet[No progress, no notes.]' \
        '-v[Each step, also where standard error is not a terminal.]' \
        '--verbose[Each step, also where standard error is not a terminal.]' \
        '-d[The same with the time, and each question to vminfod.]' \
        '--debug[The same with the time, and each question to vminfod.]' \
        '1: :->command' '*:: :->words'
    case $state in
    command) _describe command commands ;;
    words)
        case $line[1] in
        clone) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails when a key would be ignored.]' \
            '--snapshot[What it was in this snapshot.]:value:_files' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- alias= hostname= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= ram= }' ;;
        completion) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:word:(bash zsh fish)' ;;
        console) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        cp) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:file:_files' ;;
        create) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails when a key would be ignored.]' \
            '*:file:_files' ;;
        create-snapshot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        delete|destroy) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        delete-snapshot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        events) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Whole uuids and dates.]' \
            '-j[Records as JSON, one a line.]' \
            '-r[Also the record that begins the stream, with all VMs.]' \
            '*:VM:_vmadm_VM' ;;
        exec) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        get|json) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        history) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        info) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        install) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        kill) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-s[The signal\: SIGTERM, TERM or 15.]:value:(SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGIOT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPOLL SIGPWR SIGSYS)' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        list) _arguments \
            '--help[The options of this command.]' \
            '-p[Values with "\:" between; "\" before a "\:" of a value.]' \
            '-H[No header line.]' \
            '-h[A header line in any case, also with -p.]' \
            '-o[Columns.]:value:_sequence compadd - uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_timestamp init_restarts create_timestamp last_modified server_uuid platform_buildstamp v' \
            '-s[Sort keys; with - descending.]:value:_sequence compadd - uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_timestamp init_restarts create_timestamp last_modified server_uuid platform_buildstamp v' \
            '*:word:(uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=)' ;;
        logs) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Goes on with what is written from now on.]' \
            '--follow[Goes on with what is written from now on.]' \
            '-n[How many of the last lines (10).]:value:_files' \
            '--lines[How many of the last lines (10).]:value:_files' \
            '*:VM:_vmadm_VM' ;;
        lookup) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[An array of objects.]' \
            '-1[Fails unless exactly one is found.]' \
            '-o[Only these properties.]:value:_sequence compadd - uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_timestamp init_restarts create_timestamp last_modified server_uuid platform_buildstamp v' \
            '*:word:(uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=)' ;;
        prepare) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:file:_files' ;;
        reboot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-F[Kills it and starts it.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        receive|recv) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the stream from a file (-\: standard input).]:value:_files' \
            '--file[Reads the stream from a file (-\: standard input).]:value:_files' \
            '--with-filesystems[Gives it the directories of this host that it wants.]' \
            '*:file:_files' ;;
        recover) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        rename) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        reprovision) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails when a key would be ignored.]' \
            '*:VM:_vmadm_VM' ;;
        rollback-snapshot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        send) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        start|boot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        stats) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[An array of objects; all in bytes.]' \
            '-H[No header line.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        stop|halt) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-F[Kills it at once.]' \
            '-t[Seconds until it is killed (60).]:value:_files' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        sysrq) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- nmi screenshot }' ;;
        update) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails when a key would be ignored.]' \
            '-n[Prints what would change, and changes nothing.]' \
            '--dry-run[Prints what would change, and changes nothing.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- alias= hostname= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= ram= }' ;;
        upgrade-launcher) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_timestamp= init_restarts= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        validate) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails when a key would be ignored.]' \
            '*:word:(create update)' ;;
        esac ;;
    esac
}
_vmadm "$@"
