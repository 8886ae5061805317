"""A PID, mount and cgroup namespace for the whole benchmark: whatever a supervisor leaves behind dies with it, and no
supervisor (systemd moves processes between cgroups) can see anything of the machine's."""

import ctypes
import os
import pathlib
import signal
import sys
import traceback
import uuid

CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWIPC = 0x20000, 0x2000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID = 0x10000000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


class SandboxError(Exception):
    """The kernel refuses a namespace; the text says which."""


def _check(result, what):
    if result != 0:
        code = ctypes.get_errno()
        raise SandboxError(f"cannot {what}: {os.strerror(code)}")


def _mount(source, target, kind, flags=0):
    os.makedirs(target, exist_ok=True)
    _check(libc.mount(source.encode(), str(target).encode(), kind.encode(), flags, None), f"mount {kind}")


def _unshare():
    """Namespaces as root, or else in a user namespace where the caller is root."""
    flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC
    if libc.unshare(flags) == 0:
        return
    user, group = os.getuid(), os.getgid()
    _check(libc.unshare(flags | CLONE_NEWUSER), "make namespaces, neither as this user nor in a user namespace")
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _make_cgroup(work):
    """An empty cgroup of our own in the version 2 tree. Returns its path, or the reason why there is none."""
    try:
        _mount("none", work / "cgroup", "cgroup2")
        leaf = work / "cgroup" / f"triton-bench-{uuid.uuid4()}"
        leaf.mkdir()
        return leaf, None
    except (OSError, SandboxError) as error:
        return None, f"no cgroup of its own: {error}"


def _enter_cgroup(leaf):
    """Moves this process alone into the cgroup and makes that one the root of all that is seen from here."""
    (leaf / "cgroup.procs").write_text("0")
    _check(libc.unshare(CLONE_NEWCGROUP), "make a cgroup namespace")
    _mount("tmpfs", "/sys/fs/cgroup", "tmpfs")
    _mount("none", "/sys/fs/cgroup", "cgroup2")


def _remove_cgroup(leaf):
    for directory, _, _ in os.walk(leaf, topdown=False):
        os.rmdir(directory)


def _inside(work, leaf):
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _mount("proc", "/proc", "proc")
    _mount("tmpfs", "/run", "tmpfs")
    _mount("tmpfs", work / "tmp", "tmpfs")
    if leaf is not None:
        _enter_cgroup(leaf)


def run(work, function):
    """Calls function(directory, reason) as PID 1 of new namespaces and returns its exit code. The directory is a tmpfs
    that ends with them; the reason says why there is no private cgroup, and is None when there is one."""
    work.mkdir(parents=True, exist_ok=True)
    _unshare()
    _check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "make mounts private")
    leaf, reason = _make_cgroup(work)
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # As PID 1 we get only the signals that we handle.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            signal.signal(signal.SIGINT, signal.default_int_handler)
            _inside(work, leaf)
            code = function(work / "tmp", reason)
        except KeyboardInterrupt:
            code = 130
        except SystemExit as end:
            code = end.code
        except SandboxError as error:
            print(f"bench: {error}", file=sys.stderr)
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for signo in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signo, lambda signo, _: os.kill(pid, signo))
    _, status = os.waitpid(pid, 0)
    if leaf is not None:
        _remove_cgroup(leaf)
    return os.waitstatus_to_exitcode(status)
