# What makes an OCI image layout of trees; images/build and images/machines read it. They set launch, epoch and output, and die().
# The layouts come into being in $work/output, and replace those of $output at the end: publish NAME...
# shellcheck shell=bash disable=SC2154 # those variables

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
line=$("$launch" --version)  # triton-launch 0.1.0 (1a2b3c4)
[[ $line =~ ^triton-launch\ ([^ ]+)\ \((.*)\)$ ]] || die "$launch is no triton-launch: $line"
launch_version=${BASH_REMATCH[1]} revision=${BASH_REMATCH[2]}
case $(uname -m) in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(uname -m) ;;
esac

# Puts a file into the layout under its own hash; then $digest and $size are those of the file.
add_blob() {  # file, layout
    read -r digest _ < <(sha256sum "$1")
    size=$(stat -c %s "$1")
    mkdir -p "$2/blobs/sha256"
    cp "$1" "$2/blobs/sha256/$digest"
    digest=sha256:$digest
}

# The tree $work/NAME as a layer: NAME.tar and its compressed form.
pack_layer() {  # name
    (cd "$work/$1" && tar --create --file="../$1.tar" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
        --mtime="@$epoch" --mode=u=rwX,go=rX -- *)
    gzip -9 --no-name --keep "$work/$1.tar"
}

# Who runs it, and what. A user without rights, where nobody chooses another: the image runs as any, and nothing in it has
# to be written.
user=65532:65532 entrypoint='["/usr/bin/triton-launch"]'

add_image() {  # name, tag, description, environment (a JSON array beside PATH), layers...
    local layout=$work/output/$1 tag=$2 description=$3 environment=$4 layer diff layers='[]' diffs='[]' history='[]' digest size
    local labels config manifest unpacked=0 packed=0
    shift 4
    for layer in "$@"; do
        read -r diff _ < <(sha256sum "$work/$layer.tar")
        add_blob "$work/$layer.tar.gz" "$layout"
        unpacked=$((unpacked + $(stat -c %s "$work/$layer.tar"))) packed=$((packed + size))
        diffs=$(jq -c --arg diff "sha256:$diff" '. + [$diff]' <<<"$diffs")
        history=$(jq -c --arg created "$created" --arg by "images/${0##*/}: $layer" \
            '. + [{$created, created_by: $by}]' <<<"$history")
        layers=$(jq -c --arg digest "$digest" --argjson size "$size" \
            '. + [{mediaType: "application/vnd.oci.image.layer.v1.tar+gzip", $digest, $size}]' <<<"$layers")
    done
    labels=$(jq -nc --arg title "${layout##*/}" --arg version "$tag" --arg description "$description" \
        --arg created "$created" --arg revision "$revision" \
        '{$title, $version, $description, $created, $revision, licenses: "Apache-2.0"}
            | with_entries(.key |= "org.opencontainers.image." + .)')
    jq -njSc --arg created "$created" --arg architecture "$architecture" --argjson labels "$labels" \
        --argjson environment "$environment" --arg user "$user" --argjson entrypoint "$entrypoint" \
        --argjson diffs "$diffs" --argjson history "$history" \
        '{$created, $architecture, os: "linux", $history, rootfs: {type: "layers", diff_ids: $diffs},
          config: {User: $user, Entrypoint: $entrypoint, Env: (["PATH=/usr/bin"] + $environment), WorkingDir: "/", Labels: $labels}}' \
        >"$work/config.json"
    add_blob "$work/config.json" "$layout"
    config=$(jq -nc --arg digest "$digest" --argjson size "$size" \
        '{mediaType: "application/vnd.oci.image.config.v1+json", $digest, $size}')
    jq -njSc --argjson config "$config" --argjson layers "$layers" --argjson annotations "$labels" \
        '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", $config, $layers, $annotations}' \
        >"$work/manifest.json"
    add_blob "$work/manifest.json" "$layout"
    manifest=$(jq -nc --arg digest "$digest" --argjson size "$size" --arg arch "$architecture" --arg tag "$tag" \
        '{mediaType: "application/vnd.oci.image.manifest.v1+json", $digest, $size,
          platform: {architecture: $arch, os: "linux"}, annotations: {"org.opencontainers.image.ref.name": $tag}}')
    [[ -e $layout/index.json ]] || echo '{"schemaVersion": 2, "manifests": []}' >"$layout/index.json"
    jq -Sc --argjson manifest "$manifest" '.manifests += [$manifest]' "$layout/index.json" >"$work/index.json"
    mv "$work/index.json" "$layout/index.json"
    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    printf '%-40s %8d bytes compressed %8d unpacked  %s\n' "${layout##*/}:$tag" "$packed" "$unpacked" "$digest"
}

publish() {  # names
    local image
    mkdir -p "$output"
    for image in "$@"; do
        rm -rf -- "${output:?}/$image"
        mv "$work/output/$image" "$output/$image"
    done
}
