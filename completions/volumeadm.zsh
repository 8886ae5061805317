#compdef volumeadm
_volumeadm_VOLUME() { compadd -- ${(f)"$(volumeadm list -H -o key 2>/dev/null)"} }
_volumeadm() {
    local -a commands
    commands=(
        'attach:notes that somebody uses it; it then stays'
        'clone:makes a volume with the content of another one'
        'completion:prints the completion of a shell'
        'create:makes a volume'
        'delete:removes a volume, or gives up a content tree'
        'delete-snapshot:removes a snapshot'
        'detach:takes that back'
        'gc:removes what nobody claims'
        'get:prints the status of a volume or content tree as JSON'
        'grow:makes a volume larger'
        'import:fetches content for volumes'
        'list:lists volumes, content trees, blobs, ..'
        'maintenance:while it is on, nothing is collected'
        'metrics:prints counts and bytes in OpenMetrics'
        'receive:makes a volume from the output of send'
        'retry:tries everything again that waits'
        'rollback:gives a volume the content of its snapshot'
        'scrub:reads all content, and fetches again what is bad'
        'send:writes a volume to standard output'
        'show:prints all that is known of a volume or content tree'
        'snapshot:keeps what it has now under a name'
        'snapshots:lists its snapshots, oldest first'
        'watch:prints what is, and then each change'
        'why:says why it is as it is, and what would help'
    )
    local line state
    _arguments -C \
        '--root[A directory to use instead of /.]:value:_files' \
        '--socket[The socket of volumemgr.]:value:_files' \
        '-V[The version.]' \
        '--version[The version.]' \
        '-E[Errors as JSON.]' \
        '1: :->command' '*:: :->words'
    case $state in
    command) _describe command commands ;;
    words)
        case $line[1] in
        attach) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--verify-only[Its content is fetched and verified; it is not made yet.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        clone) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--uuid[Its UUID; default\: a new one.]:value:_files' \
            '--size[The most that it holds; default\: that of its source.]:value:_files' \
            '--no-wait[Ends when it is noted, not when it is done.]' \
            '--timeout[Ends with exit code 4 after so many seconds; it goes on all the same.]:value:_files' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        completion) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:word:(bash zsh fish)' ;;
        create) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--uuid[Its UUID; default\: a new one.]:value:_files' \
            '--generation[Its generation; default\: 0.]:value:_files' \
            '--size[The most that it holds\: 4Gi. A file needs one.]:value:_files' \
            '--layout[directory (default) or file.]:value:(directory file)' \
            '--content[The content tree that it begins with.]:value:_files' \
            '--format[raw\: content of another format is converted.]:value:_files' \
            '--user-data[A seed image for cloud-init with this user data, a file that only root can read.]:value:_files' \
            '--network-config[Likewise, its network configuration.]:value:_files' \
            '--read-only[Nobody writes it; several may use one file.]' \
            '--encrypted[Only in the vault.]' \
            '--no-wait[Ends when it is noted, not when it is done.]' \
            '--timeout[Ends with exit code 4 after so many seconds; it goes on all the same.]:value:_files' \
            '*:file:_files' ;;
        delete) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-c[A content tree instead of a volume.]' \
            '--content[A content tree instead of a volume.]' \
            '--no-wait[Ends when it is noted, not when it is done.]' \
            '--timeout[Ends with exit code 4 after so many seconds; it goes on all the same.]:value:_files' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        delete-snapshot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        detach) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        gc) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-n[Only says what it would do.]' \
            '--dry-run[Only says what it would do.]' \
            '*:file:_files' ;;
        get) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        grow) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--no-wait[Ends when it is noted, not when it is done.]' \
            '--timeout[Ends with exit code 4 after so many seconds; it goes on all the same.]:value:_files' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        import) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--sha256[Its digest; everything but containers needs one.]:value:_files' \
            '--size[The most that is downloaded\: 2Gi. Everything but containers needs one.]:value:_files' \
            '--format[raw (default for files), iso, qcow2, .., or container.]:value:(raw iso qcow qcow2 vmdk vhd vhdx container)' \
            '--credentials[A file that only root can read\: USER\:PASSWORD, or a token.]:value:_files' \
            '--insecure[A registry may be asked over plain HTTP.]' \
            '--signature[It must be signed\: minisign, openpgp, openpgp-sums, cms or x509.]:value:(minisign openpgp openpgp-sums cms x509)' \
            '--keys[A file of public keys, for minisign and OpenPGP.]:value:_files' \
            '--certificates[The UUID of a CertObjConfig, for cms and x509.]:value:_files' \
            '--no-wait[Ends when it is noted, not when it is done.]' \
            '--timeout[Ends with exit code 4 after so many seconds; it goes on all the same.]:value:_files' \
            '*:file:_files' ;;
        list) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-c[Content trees instead of volumes.]' \
            '--content[Content trees instead of volumes.]' \
            '-k[volumes (default), content, blobs, downloads, verifications, ..]:value:(volumes content blobs downloads verifications certificates users snapshots disks)' \
            '--kind[volumes (default), content, blobs, downloads, verifications, ..]:value:(volumes content blobs downloads verifications certificates users snapshots disks)' \
            '-j[JSON instead of a table.]' \
            '--json[JSON instead of a table.]' \
            '-H[Without the header.]' \
            '-o[Columns, with commas between them.]:value:_files' \
            '*:file:_files' ;;
        maintenance) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:word:(on off)' ;;
        metrics) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:file:_files' ;;
        receive) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-f[Reads the stream from a file (-\: standard input).]:value:_files' \
            '--file[Reads the stream from a file (-\: standard input).]:value:_files' \
            '--new[It gets a UUID of its own.]' \
            '--no-wait[Ends when it is noted, not when it is done.]' \
            '--timeout[Ends with exit code 4 after so many seconds; it goes on all the same.]:value:_files' \
            '*:file:_files' ;;
        retry) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:file:_files' ;;
        rollback) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        scrub) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[JSON instead of lines.]' \
            '--json[JSON instead of lines.]' \
            '*:file:_files' ;;
        send) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '--snapshot[Its content as it was then.]:value:_files' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        show) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        snapshot) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        snapshots) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[JSON instead of names.]' \
            '--json[JSON instead of names.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        watch) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '-j[Each change as a JSON object in one line.]' \
            '--json[Each change as a JSON object in one line.]' \
            '--until[Ends when the volume has this state; gone\: when it does not exist.]:value:_files' \
            '--timeout[Ends with exit code 4 after so many seconds.]:value:_files' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        why) _arguments \
            '-h[The options of this command.]' \
            '--help[The options of this command.]' \
            '*:VOLUME:_volumeadm_VOLUME' ;;
        esac ;;
    esac
}
_volumeadm "$@"
