#compdef vminfo
_vminfo_VM() { compadd -- ${(f)"$(vminfo vms -o uuid,alias 2>/dev/null | grep : | cut -d\" -f4)"} }
_vminfo() {
    local -a commands
    commands=(
        'completion:prints the completion of a shell'
        'events:prints changes as they happen'
        'ping:prints pong when vminfod answers'
        'status:prints what vminfod does, and for whom'
        'top:prints what VMs use, and refreshes it'
        'vm:prints all properties of a VM as JSON'
        'vms:prints all VMs as JSON'
    )
    local line state
    _arguments -C \
        '--root[A directory to use instead of /.]:value:_files' \
        '--socket[The socket of vminfod.]:value:_files' \
        '-V[The version.]' \
        '--version[The version.]' \
        '-E[Errors as JSON.]' \
        '1: :->command' '*:: :->words'
    case $state in
    command) _describe command commands ;;
    words)
        case $line[1] in
        completion) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:word:(bash zsh fish)' ;;
        events) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Whole uuids and dates.]' \
            '-j[Records as JSON, one a line.]' \
            '-r[Adds the first record of the stream, with all VMs.]' \
            '--since[Begins after the event with this sequence number.]:value:_files' \
            '--filter[Only VMs that fulfil this condition, before or after an event.]:value:(uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=)' \
            '--type[Only events of this type\: create, modify or delete.]:value:(create modify delete)' \
            '--field[Only changes of this property.]:value:(uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_reason exit_timestamp init_restarts waits_for create_timestamp last_modified server_uuid platform_buildstamp v)' \
            '--until[Ends when a VM fulfils this condition, at once if one does.]:value:(uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=)' \
            '--timeout[Ends after this many seconds; with --until that is a failure.]:value:_files' \
            '*:VM:_vminfo_VM' ;;
        ping) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:file:_files' ;;
        status) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[Prints JSON.]' \
            '-f[Adds the log of full refreshes, and the figures of the HTTP servers.]' \
            '*:file:_files' ;;
        top) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-s[Sorts by cpu, memory, tasks or alias.]:value:_files' \
            '-d[Seconds between two tables (2).]:value:_files' \
            '-n[Ends after this many tables.]:value:_files' \
            '*:file:_files' ;;
        vm) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--fresh[Makes vminfod look again first.]' \
            '*:VM:_vminfo_VM' ;;
        vms) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-o[Only these properties.]:value:_sequence compadd - uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_reason exit_timestamp init_restarts waits_for create_timestamp last_modified server_uuid platform_buildstamp v' \
            '*:word:(uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=)' ;;
        esac ;;
    esac
}
_vminfo "$@"
