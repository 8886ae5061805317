#compdef imgadm
_imgadm_image() { compadd -- ${(f)"$(imgadm list -H -o uuid 2>/dev/null)"} }
_imgadm() {
    local -a commands
    commands=(
        'list:list the images that are installed'
        'get:print what is known of an installed image, as JSON'
        'avail:list the images that the sources have'
        'show:print the manifest of an image that a source has'
        'ancestry:list an image and all that it is an increment of'
        'import:bring an image in: from a source, a registry, a layout, a file or a directory'
        'install:bring an image in from its manifest and its file'
        'update:resolve tags again and import what they mean now'
        'create:make an image of a directory or a machine'
        'delete:delete images'
        'vacuum:delete images that nothing is made from'
        'gc:delete content that nothing refers to'
        'pin:keep images whatever is collected'
        'unpin:let images be collected again'
        'sources:list, add and remove the sources of images'
        'scrub:read all content again and replace what has been damaged'
        'why:tell who refers to a digest'
        'completion:print the completion of a shell'
        'help:print the options of a command, or all commands'
        'reference:print the reference page of manifests or sources'
    )
    local line state
    _arguments -C \
        '-h[print this text]' \
        '--help[print this text]' \
        '-E[print an error as a JSON object in one line]' \
        '--json-errors[print an error as a JSON object in one line]' \
        '--root[use the state and configuration below this directory; default\: $TRITON_ROOT]:value:_files' \
        '--progress[auto, line, json or none]:value:(auto line json none)' \
        '-v[tell each phase also where standard error is not a terminal]' \
        '--verbose[tell each phase also where standard error is not a terminal]' \
        '--version[print the version]' \
        '1: :->command' '*:: :->words'
    case $state in
    command) _describe command commands ;;
    words)
        case $line[1] in
        list) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '-p[print fields with a colon between them and no header, for programs]' \
            '--parsable[print fields with a colon between them and no header, for programs]' \
            '-H[print no header]' \
            '--no-header[print no header]' \
            '-o[columns\: names with commas between them]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--output[columns\: names with commas between them]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '-s[columns to sort by; -COLUMN\: falling]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--sort[columns to sort by; -COLUMN\: falling]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '*:word:(published= pub= source= size= clones= reference= digest= platform= tree= installed_at= pinned= v= uuid= owner= name= version= description= homepage= eula= icon= state= error= disabled= public= published_at= type= os= origin= files= acl= requirements= users= generate_passwords= inherited_directories= nic_driver= disk_driver= cpu_type= image_size= billing_tags= traits= tags= channels= urn= creator_name= creator_uuid= oci=)' ;;
        get) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-r[print an array of it and of all that it is an increment of]' \
            '--recursive[print an array of it and of all that it is an increment of]' \
            '*:image:_imgadm_image' ;;
        avail) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '-p[print fields with a colon between them and no header, for programs]' \
            '--parsable[print fields with a colon between them and no header, for programs]' \
            '-H[print no header]' \
            '--no-header[print no header]' \
            '-o[columns\: names with commas between them]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--output[columns\: names with commas between them]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '-s[columns to sort by; -COLUMN\: falling]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--sort[columns to sort by; -COLUMN\: falling]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '-S[ask only this source]:value:_files' \
            '--source[ask only this source]:value:_files' \
            '*:word:(published= pub= source= size= clones= reference= digest= platform= tree= installed_at= pinned= v= uuid= owner= name= version= description= homepage= eula= icon= state= error= disabled= public= published_at= type= os= origin= files= acl= requirements= users= generate_passwords= inherited_directories= nic_driver= disk_driver= cpu_type= image_size= billing_tags= traits= tags= channels= urn= creator_name= creator_uuid= oci=)' ;;
        show) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-S[ask only this source]:value:_files' \
            '--source[ask only this source]:value:_files' \
            '*:file:_files' ;;
        ancestry) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '-p[print fields with a colon between them and no header, for programs]' \
            '--parsable[print fields with a colon between them and no header, for programs]' \
            '-H[print no header]' \
            '--no-header[print no header]' \
            '-o[columns\: names with commas between them]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--output[columns\: names with commas between them]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '-s[columns to sort by; -COLUMN\: falling]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--sort[columns to sort by; -COLUMN\: falling]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '*:image:_imgadm_image' ;;
        import) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-S[ask only this source]:value:_files' \
            '--source[ask only this source]:value:_files' \
            '-m[manifest of the image in the file given with -f]:value:_files' \
            '--manifest[manifest of the image in the file given with -f]:value:_files' \
            '-f[tarball or ZFS stream of the image]:value:_files' \
            '--file[tarball or ZFS stream of the image]:value:_files' \
            '-q[tell nothing but what went wrong]' \
            '--quiet[tell nothing but what went wrong]' \
            '--uuid[UUID of a tarball or directory; default\: made from its content]:value:_files' \
            '--name[name of a tarball or directory; default\: the file'\''s]:value:_files' \
            '--image-version[version of a tarball or directory; default\: the beginning of its digest]:value:_files' \
            '--platform[take the image for OS/ARCHITECTURE\[/VARIANT\]; default\: this machine'\''s]:value:_files' \
            '--authfile[credentials for the registry, in the format of ~/.docker/config.json]:value:_files' \
            '-k[take plain HTTP from a registry that has no HTTPS]' \
            '--insecure[take plain HTTP from a registry that has no HTTPS]' \
            '*:file:_files' ;;
        install) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-m[manifest of the image in the file given with -f]:value:_files' \
            '--manifest[manifest of the image in the file given with -f]:value:_files' \
            '-f[tarball or ZFS stream of the image]:value:_files' \
            '--file[tarball or ZFS stream of the image]:value:_files' \
            '-q[tell nothing but what went wrong]' \
            '--quiet[tell nothing but what went wrong]' \
            '*:file:_files' ;;
        update) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-n[only tell what would change]' \
            '--dry-run[only tell what would change]' \
            '--authfile[credentials for the registry, in the format of ~/.docker/config.json]:value:_files' \
            '-k[take plain HTTP from a registry that has no HTTPS]' \
            '--insecure[take plain HTTP from a registry that has no HTTPS]' \
            '*:file:_files' ;;
        create) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-m[file with what the manifest is to say; - reads it from standard input]:value:_files' \
            '--manifest[file with what the manifest is to say; - reads it from standard input]:value:_files' \
            '-o[write the image and its manifest there; default\: install it here]:value:_files' \
            '--output-directory[write the image and its manifest there; default\: install it here]:value:_files' \
            '-c[none, gzip, bzip2, xz or zstd]:value:(none gzip bzip2 xz zstd)' \
            '--compression[none, gzip, bzip2, xz or zstd]:value:(none gzip bzip2 xz zstd)' \
            '--format[tar, or zfs\: a stream of a machine on ZFS, into files]:value:(tar zfs)' \
            '-i[a ZFS stream of what the machine has changed in its image]' \
            '--incremental[a ZFS stream of what the machine has changed in its image]' \
            '--max-origin-depth[of an increment\: refuse more images below it than that]:value:_files' \
            '-s[program that prepares a copy of the machine, inside of it, before the image is made]:value:_files' \
            '--script[program that prepares a copy of the machine, inside of it, before the image is made]:value:_files' \
            '-q[tell nothing but what went wrong]' \
            '--quiet[tell nothing but what went wrong]' \
            '*:file:_files' ;;
        delete) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '*:image:_imgadm_image' ;;
        vacuum) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-n[only list them]' \
            '--dry-run[only list them]' \
            '-f[do not ask]' \
            '--force[do not ask]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '*:file:_files' ;;
        gc) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-n[only list it]' \
            '--dry-run[only list it]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '*:file:_files' ;;
        pin) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '*:image:_imgadm_image' ;;
        unpin) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '*:image:_imgadm_image' ;;
        sources) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-a[add a source]:value:_files' \
            '--add[add a source]:value:_files' \
            '-d[remove a source]:value:_files' \
            '--delete[remove a source]:value:_files' \
            '-e[edit the sources with $EDITOR]' \
            '--edit[edit the sources with $EDITOR]' \
            '-c[ask each source whether it answers]' \
            '--check[ask each source whether it answers]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '-v[list type and signature policy of each, too]' \
            '--verbose[list type and signature policy of each, too]' \
            '-t[of what is added\: imgapi, directory or registry]:value:(imgapi directory registry)' \
            '--type[of what is added\: imgapi, directory or registry]:value:(imgapi directory registry)' \
            '-k[of what is added\: take plain HTTP from another machine]' \
            '--insecure[of what is added\: take plain HTTP from another machine]' \
            '-f[add it without asking whether it answers]' \
            '--force[add it without asking whether it answers]' \
            '--signature[of what is added\: required, if-present or none]:value:(required if-present none)' \
            '--key[of what is added\: file with a public key]:value:_files' \
            '--signatures[of what is added\: where SHA256SUMS and its signature are; default\: the source]:value:_files' \
            '--authfile[of what is added\: credentials, in the format of ~/.docker/config.json]:value:_files' \
            '--mirror[of what is added\: another URL with the same content]:value:_files' \
            '--cacert[of what is added\: file of certificates that vouch for it, in PEM]:value:_files' \
            '--channel[of what is added\: channel of an IMGAPI server]:value:_files' \
            '*:word:(add list remove)' ;;
        scrub) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '*:file:_files' ;;
        why) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '*:file:_files' ;;
        completion) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '*:word:(bash zsh fish)' ;;
        help) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '*:file:_files' ;;
        reference) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '*:word:(manifest sources)' ;;
        esac ;;
    esac
}
_imgadm "$@"
