# shellcheck shell=bash
# What the example scripts share: namespaces of their own, a launcher as PID 1 in them, and waiting for its log events.
# A script calls `enter "$@"` first and may then mount and listen as it likes: the machine sees nothing of it.
#
# TRITON_LAUNCH  the program to show (build/release/triton-launch, or the installed one)

launch=${TRITON_LAUNCH:-$here/../../build/release/triton-launch}
[[ -n ${TRITON_LAUNCH-} || -e $launch ]] || launch=$(command -v triton-launch) || launch=/nonexistent
launch=$(realpath -m -- "$launch")
name=${here##*/}
readonly launch name patience=20

bold='' plain=''
if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; fi
chapter() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
tell() { printf '    %s\n' "$*"; }
show() { sed 's/^/    /'; }
die() {
    printf 'examples/%s/run: %s\n' "$name" "$*" >&2
    [[ ! -s ${work-}/output ]] || tail -n 40 "$work/output" >&2
    exit 1
}

# The script again, with mounts and a network of its own. /run and /srv are empty, but for /srv/NAME: the example.
enter() {
    if [[ ${entered-} != "$name" ]]; then
        ((EUID == 0)) || die "namespaces and users need root"
        [[ -x $launch ]] || die "there is no triton-launch; ./dev run builds it"
        entered=$name exec unshare --mount --net -- "$0" "$@"
    fi
    unset entered
    umask 022
    ip link set lo up
    mount -t tmpfs -o mode=755 tmpfs /run
    mount -t tmpfs -o mode=755 tmpfs /srv
    mkdir "/srv/$name"
    mount --bind "$here" "/srv/$name"
    work=/run/example
    mkdir "$work"
    # ./dev unpacks packages that it does not install; other users than root may not get to where they are.
    if [[ -d $here/../../build/packages/usr ]]; then
        mount --bind "$here/../../build/packages" /opt
        export LD_LIBRARY_PATH=/opt/usr/lib/$HOSTTYPE-linux-gnu:/opt/lib/$HOSTTYPE-linux-gnu
    fi
    local postgres=usr/lib/postgresql/15/bin  # before the scripts of the same names in /usr/bin
    export PATH=/$postgres:/opt/$postgres:/usr/sbin:/usr/bin:/sbin:/bin:/opt/usr/sbin:/opt/usr/bin
    export LC_ALL=C
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# The namespaces end with the last of their processes, and all mounts with them.
clean_up() {
    local status=$?
    trap - EXIT
    [[ -z ${namespace-} ]] || kill -KILL "$namespace" 2>/dev/null || true  # unshare --kill-child takes the rest along
    exit "$status"
}

need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || die "there is no $program; ./dev test brings everything"
    done
}

# A user that a Debian package would add, known in these namespaces only.
with_user() {  # name
    local id=970
    ! id "$1" >/dev/null 2>&1 || return 0
    cp /etc/passwd /etc/group "$work"
    echo "$1:x:$id:$id::/nonexistent:/usr/sbin/nologin" >>"$work/passwd"
    echo "$1:x:$id:" >>"$work/group"
    mount --bind "$work/passwd" /etc/passwd
    mount --bind "$work/group" /etc/group
}

# ---- the launcher: PID 1 of a namespace, as in a container

start_launcher() {  # options of triton-launch
    touch "$work/log" "$work/output"
    unshare --pid --fork --kill-child --mount-proc -- \
        "$launch" --log-format json --log-path "$work/log" "$@" >>"$work/output" 2>&1 </dev/null &
    namespace=$!
    exec {events}< <(exec tail -n +1 -f --pid="$namespace" "$work/log")
    await launcher-started
    launcher=$(tr -d " " <"/proc/$namespace/task/$namespace/children")
}

ctl() { "$launch" ctl "$@"; }
inside() { nsenter --target "$launcher" --pid --mount -- "$@"; }

# Kills a process and waits until its successor is ready.
await_restart_of() {  # program, [process]
    local pid
    pid=$(pid_of "$@")
    from_now_on
    inside kill -KILL "$pid"
    await process-exited "$@"
    await process-ready "$@"
    tell "killed $1${2:+:$2} (pid $pid); its successor is pid $(pid_of "$@")"
}

# SIGTERM, as a container runtime stops a container; then its exit code must be 0.
stop_launcher() {
    local status=0
    from_now_on
    kill -TERM "$launcher"
    await launcher-stopped
    wait "$namespace" || status=$?
    namespace=
    ((status == 0)) || die "the launcher ended with code $status"
    while next_event; do :; done
}

# ---- its events: each line is kept, and each wait looks at those from $since on

lines=() since=0 seen=0

next_event() {  # [deadline]
    local text left=$((${1:-SECONDS + patience} - SECONDS))
    ((left > 0)) && IFS= read -r -t "$left" -u "$events" text || return 1
    lines+=("$text")
}

is_event() {  # line, event, [program, [process]]
    [[ $1 == *"\"event\":\"$2\""* ]] || return 1
    [[ -z ${3-} || $1 == *"\"program\":\"$3\""* ]] || return 1
    [[ -z ${4-} || $1 =~ \"process\":$4[,}] ]]
}

# Waits for an event; the line is then in $event.
await() {  # event, [program, [process]]
    seen=$since
    await_next "$@"
}

# The same, for what has come after the last event waited for.
await_next() {
    local deadline=$((SECONDS + patience))
    while :; do
        while ((seen < ${#lines[@]})); do
            event=${lines[seen++]}
            ! is_event "$event" "$@" || return 0
        done
        next_event "$deadline" || die "waited $patience s in vain for: $*"
    done
}

# Forgets what has happened so far, so that the next wait is for something new.
from_now_on() {
    local written
    written=$(wc -l <"$work/log")
    while ((${#lines[@]} < written)); do
        next_event || die "the log ends after ${#lines[@]} lines of $written"
    done
    since=$written
}

field() {  # name: a number of the last event waited for
    [[ $event =~ \"$1\":(-?[0-9.]+) ]] || die "no $1 in $event"
    echo "${BASH_REMATCH[1]}"
}

# The pid of the latest start.
pid_of() {  # program, [process]
    local line pid=
    for line in "${lines[@]}"; do
        is_event "$line" process-started "$@" && [[ $line =~ \"pid\":([0-9]+) ]] && pid=${BASH_REMATCH[1]}
    done
    echo "$pid"
}

# The programs whose processes have ended since the last from_now_on, in this order.
exits() {
    local line
    for line in "${lines[@]:$since}"; do
        is_event "$line" process-exited && [[ $line =~ \"program\":\"([^\"]*)\" ]] && echo "${BASH_REMATCH[1]}"
    done
    true
}
