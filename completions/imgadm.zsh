#compdef imgadm
_imgadm_image() { compadd -- ${(f)"$(imgadm list -H -o uuid 2>/dev/null)"} }
_imgadm() {
    local -a commands
    commands=(
        'list:list the installed images'
        'get:print what is known of an installed image, as JSON'
        'avail:list the images that the sources have'
        'show:print the manifest of an image that a source has'
        'ancestry:list an image and the images that it is an increment of'
        'import:bring an image in: from a source, a registry, a layout, a file or a directory'
        'install:bring an image in from its manifest and its file'
        'update:resolve tags again and import what they mean now'
        'create:make an image of a directory or a machine'
        'publish:is not supported: says how images are published'
        'delete:delete images'
        'vacuum:delete images that nothing is made from'
        'gc:delete content that nothing refers to'
        'pin:keep images from being collected'
        'unpin:let images be collected again'
        'sources:list, add and remove the sources of images'
        'scrub:read all content again and replace damaged content'
        'why:tell what refers to a digest'
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
        '-P[the pool of this host, which has one\: any other is an error]:value:_files' \
        '--pool[the pool of this host, which has one\: any other is an error]:value:_files' \
        '--progress[auto, line, json or none]:value:(auto line json none)' \
        '-v[tell each phase also where standard error is not a terminal]' \
        '--verbose[tell each phase also where standard error is not a terminal]' \
        '-V[print the version]' \
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
            '-p[separate fields with a colon and print no header, for programs]' \
            '--parsable[separate fields with a colon and print no header, for programs]' \
            '-H[print no header]' \
            '--no-header[print no header]' \
            '-o[columns, separated by commas]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--output[columns, separated by commas]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '-s[columns to sort by; -COLUMN\: descending]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--sort[columns to sort by; -COLUMN\: descending]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '*:word:(published= pub= source= size= clones= reference= digest= platform= tree= installed_at= pinned= v= uuid= owner= name= version= description= homepage= eula= icon= state= error= disabled= public= published_at= type= os= origin= files= acl= requirements= users= generate_passwords= inherited_directories= nic_driver= disk_driver= cpu_type= image_size= billing_tags= traits= tags= channels= urn= creator_name= creator_uuid= oci=)' ;;
        get) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-r[print an array of it and of the images that it is an increment of]' \
            '--recursive[print an array of it and of the images that it is an increment of]' \
            '*:image:_imgadm_image' ;;
        avail) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-j[print JSON]' \
            '--json[print JSON]' \
            '-p[separate fields with a colon and print no header, for programs]' \
            '--parsable[separate fields with a colon and print no header, for programs]' \
            '-H[print no header]' \
            '--no-header[print no header]' \
            '-o[columns, separated by commas]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--output[columns, separated by commas]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '-s[columns to sort by; -COLUMN\: descending]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--sort[columns to sort by; -COLUMN\: descending]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
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
            '-p[separate fields with a colon and print no header, for programs]' \
            '--parsable[separate fields with a colon and print no header, for programs]' \
            '-H[print no header]' \
            '--no-header[print no header]' \
            '-o[columns, separated by commas]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--output[columns, separated by commas]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '-s[columns to sort by; -COLUMN\: descending]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
            '--sort[columns to sort by; -COLUMN\: descending]:value:_sequence compadd - published pub source size clones reference digest platform tree installed_at pinned v uuid owner name version description homepage eula icon state error disabled public published_at type os origin files acl requirements users generate_passwords inherited_directories nic_driver disk_driver cpu_type image_size billing_tags traits tags channels urn creator_name creator_uuid oci' \
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
            '-q[print errors only]' \
            '--quiet[print errors only]' \
            '--uuid[UUID of a tarball or directory; default\: made from its content]:value:_files' \
            '--name[name of a tarball or directory; default\: the file'\''s]:value:_files' \
            '--image-version[version of a tarball or directory; default\: the beginning of its digest]:value:_files' \
            '--platform[take the image for OS/ARCHITECTURE\[/VARIANT\]; default\: this machine'\''s]:value:_files' \
            '--authfile[credentials for the registry, in the format of ~/.docker/config.json]:value:_files' \
            '-k[accept plain HTTP from a registry that has no HTTPS]' \
            '--insecure[accept plain HTTP from a registry that has no HTTPS]' \
            '*:file:_files' ;;
        install) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-m[manifest of the image in the file given with -f]:value:_files' \
            '--manifest[manifest of the image in the file given with -f]:value:_files' \
            '-f[tarball or ZFS stream of the image]:value:_files' \
            '--file[tarball or ZFS stream of the image]:value:_files' \
            '-q[print errors only]' \
            '--quiet[print errors only]' \
            '*:file:_files' ;;
        update) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-n[only tell what would change]' \
            '--dry-run[only tell what would change]' \
            '--authfile[credentials for the registry, in the format of ~/.docker/config.json]:value:_files' \
            '-k[accept plain HTTP from a registry that has no HTTPS]' \
            '--insecure[accept plain HTTP from a registry that has no HTTPS]' \
            '*:file:_files' ;;
        create) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
            '-m[file with given parts of the manifest; - reads it from standard input]:value:_files' \
            '--manifest[file with given parts of the manifest; - reads it from standard input]:value:_files' \
            '-o[write the image and its manifest there; default\: install it on this host]:value:_files' \
            '--output-directory[write the image and its manifest there; default\: install it on this host]:value:_files' \
            '-c[none, gzip, bzip2, xz or zstd]:value:(none gzip bzip2 xz zstd)' \
            '--compression[none, gzip, bzip2, xz or zstd]:value:(none gzip bzip2 xz zstd)' \
            '--format[tar, or zfs\: a stream of a machine on ZFS, into files]:value:(tar zfs)' \
            '-i[make a ZFS stream of the machine'\''s changes to its image]' \
            '--incremental[make a ZFS stream of the machine'\''s changes to its image]' \
            '--max-origin-depth[refuse an increment with more images below it than this]:value:_files' \
            '-s[program that prepares a copy of the machine, inside it, before the image is made]:value:_files' \
            '--script[program that prepares a copy of the machine, inside it, before the image is made]:value:_files' \
            '-p[is not supported\: see imgadm publish]:value:_files' \
            '--publish[is not supported\: see imgadm publish]:value:_files' \
            '-q[print errors only]' \
            '--quiet[print errors only]' \
            '*:file:_files' ;;
        publish) _arguments \
            '-h[print this text]' \
            '--help[print this text]' \
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
            '-v[also list the type and signature policy of each]' \
            '--verbose[also list the type and signature policy of each]' \
            '-t[type of the added source\: imgapi, directory or registry]:value:(imgapi directory registry)' \
            '--type[type of the added source\: imgapi, directory or registry]:value:(imgapi directory registry)' \
            '-k[accept plain HTTP from another machine for the added source]' \
            '--insecure[accept plain HTTP from another machine for the added source]' \
            '-f[add it without asking whether it answers]' \
            '--force[add it without asking whether it answers]' \
            '--signature[signature policy of the added source\: required, if-present or none]:value:(required if-present none)' \
            '--key[file with a public key for the added source]:value:_files' \
            '--signatures[where SHA256SUMS and its signature are; default\: the added source]:value:_files' \
            '--authfile[credentials for the added source, in the format of ~/.docker/config.json]:value:_files' \
            '--mirror[another URL with the same content as the added source]:value:_files' \
            '--cacert[file of certificates that vouch for the added source, in PEM]:value:_files' \
            '--channel[channel of the added IMGAPI server]:value:_files' \
            '--proxy[proxy that the added source is reached through, or none; default\: that of the environment]:value:_files' \
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
