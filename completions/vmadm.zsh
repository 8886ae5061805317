#compdef vmadm
_vmadm_VM() { compadd -- ${(f)"$(vmadm -q list -p -o uuid,alias 2>/dev/null | tr : "\n")"} }
_vmadm() {
    local -a commands
    commands=(
        'clone:makes a VM with the content of another one'
        'completion:prints the completion of a shell'
        'console:opens a terminal in a VM; Ctrl-] leaves it'
        'cp:copies files into or out of a VM: VM:/PATH'
        'create:makes a VM from a payload, and starts it'
        'create-snapshot:saves the VM'\''s tree as it is now'
        'delete:stops VMs and removes everything that they have'
        'destroy:stops VMs and removes everything that they have'
        'delete-snapshot:removes a snapshot'
        'events:prints changes as they happen'
        'exec:runs a command in a VM, as its root'
        'get:prints all properties of a VM as JSON'
        'json:prints all properties of a VM as JSON'
        'history:prints what was done to VMs, as JSON lines'
        'info:refused: it is for virtual hardware'
        'install:completes a VM made with create_only'
        'kill:sends a signal to the init of VMs'
        'list:prints a table of VMs'
        'list-snapshots:prints a table of snapshots'
        'logs:prints what the VM has written to its console'
        'lookup:prints uuids of VMs, or objects'
        'prepare:makes what systemd needs for all VMs, when the host boots'
        'reboot:reboots VMs'
        'receive:makes a VM from a stream'
        'recv:makes a VM from a stream'
        'recover:finishes or undoes interrupted work'
        'reference:prints what a VM'\''s properties are'
        'rename:gives a VM another alias'
        'reprovision:replaces the VM'\''s content with another image'
        'rollback-snapshot:restores the VM'\''s tree from a snapshot'
        'send:writes a VM as a stream'
        'start:starts VMs'
        'boot:starts VMs'
        'stats:prints what VMs use now'
        'stop:stops VMs'
        'halt:stops VMs'
        'sysrq:refused: it is for virtual hardware'
        'update:changes properties of a VM'
        'upgrade-launcher:replaces the launcher of running VMs with that of this host'
        'validate:prints what is wrong with a payload'
    )
    local line state
    _arguments -C \
        '--root[A directory to use instead of /.]:value:_files' \
        '-V[The version.]' \
        '--version[The version.]' \
        '-E[Errors as JSON.]' \
        '-q[No progress, no notes.]' \
        '--quiet[No progress, no notes.]' \
        '-v[Prints each step, also where standard error is not a terminal.]' \
        '--verbose[Prints each step, also where standard error is not a terminal.]' \
        '-d[The same with the time, and each request to vminfod.]' \
        '--debug[The same with the time, and each request to vminfod.]' \
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
            '--strict[Fails if a key would be ignored.]' \
            '--same-alias[Takes an alias that another VM has already.]' \
            '--snapshot[Clones the content of this snapshot.]:value:_files' \
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
            '--strict[Fails if a key would be ignored.]' \
            '--same-alias[Takes an alias that another VM has already.]' \
            '*:word:(alias= hostname= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= ram=)' ;;
        create-snapshot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--volumes[Saves the volumes that it writes, too.]' \
            '*:VM:_vmadm_VM' ;;
        delete|destroy) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-n[Names what would be deleted, and deletes nothing.]' \
            '--dry-run[Names what would be deleted, and deletes nothing.]' \
            '-y[Does not ask at a terminal before a delete by filters.]' \
            '--yes[Does not ask at a terminal before a delete by filters.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        delete-snapshot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        events) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Whole uuids and dates.]' \
            '-j[Records as JSON, one a line.]' \
            '-r[Adds the first record of the stream, with all VMs.]' \
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
            '-t[A table for people instead of JSON lines.]' \
            '--table[A table for people instead of JSON lines.]' \
            '-H[No header line of the table.]' \
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
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        list) _arguments \
            '--help[The options of this command.]' \
            '-j[An array of objects with the columns.]' \
            '--json[An array of objects with the columns.]' \
            '-p[Separates values with "\:"; a "\" precedes a "\:" in a value.]' \
            '-H[No header line.]' \
            '-h[Always prints a header line, also with -p.]' \
            '-o[The columns.]:value:_sequence compadd - uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_reason exit_timestamp init_restarts waits_for create_timestamp last_modified server_uuid platform_buildstamp v' \
            '-s[The sort keys; a - before one means descending.]:value:_sequence compadd - uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_reason exit_timestamp init_restarts waits_for create_timestamp last_modified server_uuid platform_buildstamp v' \
            '*:word:(uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=)' ;;
        list-snapshots) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[An array of objects; sizes are in bytes.]' \
            '--json[An array of objects; sizes are in bytes.]' \
            '-p[Separates values with "\:"; a "\" precedes a "\:" in a value.]' \
            '-H[No header line.]' \
            '*:VM:_vmadm_VM' ;;
        logs) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Continues with what is written from now on.]' \
            '--follow[Continues with what is written from now on.]' \
            '-n[The number of last lines (10).]:value:_files' \
            '--lines[The number of last lines (10).]:value:_files' \
            '*:VM:_vmadm_VM' ;;
        lookup) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[An array of objects.]' \
            '-1[Fails unless exactly one is found.]' \
            '-o[Only these properties.]:value:_sequence compadd - uuid alias brand type hvm state failure image_uuid hostname zonename zonepath zfs_filesystem zpool owner_uuid billing_id package_name package_version autoboot cpu_cap cpu_shares max_physical_memory ram max_swap max_locked_memory tmpfs max_lwps quota max_msg_ids max_sem_ids max_shm_ids max_shm_memory zfs_io_priority zfs_root_compression zfs_data_compression zfs_root_recsize zfs_data_recsize zfs_filesystem_limit zfs_snapshot_limit indestructible_zoneroot indestructible_delegated do_not_inventory archive_on_delete firewall_enabled delegate_dataset dns_domain resolvers maintain_resolvers init_name kernel_version fs_allowed limit_priv internal_metadata_namespaces mdata_exec_timeout filesystems nics routes tags customer_metadata internal_metadata launch launch_status snapshots pid boot_timestamp exit_status exit_reason exit_timestamp init_restarts waits_for create_timestamp last_modified server_uuid platform_buildstamp v' \
            '*:word:(uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v=)' ;;
        prepare) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:file:_files' ;;
        reboot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-F[Kills the VM and starts it.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        receive|recv) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the stream from a file (-\: standard input).]:value:_files' \
            '--file[Reads the stream from a file (-\: standard input).]:value:_files' \
            '--with-filesystems[Gives the VM the directories and volumes of this host that it asks for.]' \
            '*:file:_files' ;;
        recover) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:_vmadm_VM' ;;
        reference) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--man[Prints the source of vmadm-properties(5) instead.]' \
            '*:file:_files' ;;
        rename) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--same-alias[Takes an alias that another VM has already.]' \
            '*:VM:_vmadm_VM' ;;
        reprovision) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails if a key would be ignored.]' \
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
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        stats) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[Prints an array of objects; sizes are in bytes.]' \
            '-H[No header line.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        stop|halt) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-F[Kills the VM at once.]' \
            '-t[Seconds until the VM is killed (60).]:value:_files' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        sysrq) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- nmi screenshot }' ;;
        update) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails if a key would be ignored.]' \
            '--same-alias[Takes an alias that another VM has already.]' \
            '-n[Prints what would change, and changes nothing.]' \
            '--dry-run[Prints what would change, and changes nothing.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- alias= hostname= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= ram= }' ;;
        upgrade-launcher) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VM:{ _vmadm_VM; compadd -S "" -- uuid= alias= brand= type= hvm= state= failure= image_uuid= hostname= zonename= zonepath= zfs_filesystem= zpool= owner_uuid= billing_id= package_name= package_version= autoboot= cpu_cap= cpu_shares= max_physical_memory= ram= max_swap= max_locked_memory= tmpfs= max_lwps= quota= max_msg_ids= max_sem_ids= max_shm_ids= max_shm_memory= zfs_io_priority= zfs_root_compression= zfs_data_compression= zfs_root_recsize= zfs_data_recsize= zfs_filesystem_limit= zfs_snapshot_limit= indestructible_zoneroot= indestructible_delegated= do_not_inventory= archive_on_delete= firewall_enabled= delegate_dataset= dns_domain= resolvers= maintain_resolvers= init_name= kernel_version= fs_allowed= limit_priv= internal_metadata_namespaces= mdata_exec_timeout= filesystems= nics= routes= tags= customer_metadata= internal_metadata= launch= launch_status= snapshots= pid= boot_timestamp= exit_status= exit_reason= exit_timestamp= init_restarts= waits_for= create_timestamp= last_modified= server_uuid= platform_buildstamp= v= }' ;;
        validate) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--file[Reads the payload from a file (-\: standard input).]:value:_files' \
            '--strict[Fails if a key would be ignored.]' \
            '*:word:(create update)' ;;
        esac ;;
    esac
}
_vmadm "$@"
