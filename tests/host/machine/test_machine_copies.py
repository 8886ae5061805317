"""What makes machines of machines, and what reaches into them: clone, send, receive, cp, console, rename."""

import hashlib
import itertools
import json
import os
import pty
import select
import signal
import struct
import termios
import time
from pathlib import Path

from test_machines import BUSYBOX, left_of, new_uuid, payload, sleeping

PATIENCE = 60


def root_of(vmadm, name):
    return json.loads(vmadm.ok("get", name))["zonepath"] + "/root"


def test_a_clone_has_the_content_and_nothing_in_common(host, vmadm, tiny):
    uuid, copy = new_uuid(), new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="first", tags={"a": 1}, launch=sleeping()))
    vmadm.ok("exec", "first", BUSYBOX, "touch", "/etc/mark")
    code, text = vmadm.says("clone", "first", "--file=/dev/null", "alias=second")
    assert code == 1 and text.startswith("/dev/null: Invalid JSON payload: ")
    assert vmadm.says("clone", "first", f"uuid={copy}", "alias=second", "ram=64") == (0, f"Successfully cloned VM {uuid} to VM {copy}\n")
    machine = json.loads(vmadm.ok("get", "second"))
    assert machine["state"] == "running" and machine["nics"] == [] and machine["tags"] == {"a": 1} and machine["ram"] == 64
    vmadm.ok("create-snapshot", "second", "marked")
    vmadm.ok("exec", "second", BUSYBOX, "rm", "/etc/mark")
    vmadm.ok("exec", "first", BUSYBOX, "test", "-e", "/etc/mark")
    assert vmadm.says("delete", "first") == (0, f"Successfully deleted VM {uuid}\n")
    vmadm.ok("clone", "second", "--snapshot", "marked", "alias=third", "autoboot=false")
    host.run("test", "-e", root_of(vmadm, "third") + "/etc/mark", check=True)
    assert vmadm.says("clone", "second", "--snapshot", "none", "alias=x") == (1, f'No snapshot named "none" for {copy}\n')
    assert vmadm.says("rename", "third", "fourth")[0] == 0
    assert vmadm.ok("lookup", "-1", "alias=fourth") == json.loads(vmadm.ok("get", "fourth"))["uuid"] + "\n"


def stream(head: bytes, content: bytes = b"", version: bytes = b"1") -> bytes:
    text = b"triton-machine " + version + b"\n" + struct.pack("<I", len(head)) + head
    if content:
        text += struct.pack("<I", len(content)) + content
    text += struct.pack("<I", 0)
    return text + hashlib.sha256(text).hexdigest().encode() + b"\n"


def test_a_machine_is_sent_and_received(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="sent", customer_metadata={"k": "v"}, launch=sleeping()))
    vmadm.ok("exec", "sent", BUSYBOX, "sh", "-c", "echo content >/etc/mark")
    host.run("sh", "-ec", "vmadm -q send sent >/var/tmp/stream", check=True)
    assert vmadm.says("receive", "-f", "/var/tmp/stream") == (1, f"VM with UUID {uuid} already exists\n")
    before = json.loads(vmadm.ok("get", "sent"))
    vmadm.ok("delete", "sent")
    whole = host.path("/var/tmp/stream").read_bytes()
    for broken, reason in [
        (whole[:-1], "the stream ends early"),
        (whole[:100000], "the stream ends early"),
        (whole[:-70] + b"x" + whole[-69:], "its digest is not that of its content"),
        (whole[:200000] + b"12345678" + whole[200008:], "its digest is not that of its content"),
        (b"", "this is not a stream of vmadm send"),
        (b"x" * 1000, "this is not a stream of vmadm send"),
        (stream(b"{}", version=b"9"), "the stream has a version that is not known here"),
        (stream(b"{}"), "its head is malformed"),
        (b"triton-machine 1\n\xff\xff\xff\xff", "its properties have more than 16 MiB"),
        (stream(json.dumps({"storage": "zfs", "machine": json.loads(payload(tiny))}).encode()),
         'its tree is a stream of the kind "zfs", and the pool here takes "tree"'),
    ]:
        host.path("/var/tmp/broken").write_bytes(broken)
        assert vmadm.says("receive", "-f", "/var/tmp/broken") == (1, f"cannot receive a VM: {reason}\n"), reason
        assert left_of(host, uuid) == []
    assert vmadm.says("recv", "-f", "/var/tmp/stream") == (0, f"Successfully received VM {uuid}\n")
    after = json.loads(vmadm.ok("get", "sent"))
    assert after["create_timestamp"] == before["create_timestamp"]
    assert after["state"] == "stopped" and after["customer_metadata"] == {"k": "v"} and after["launch"] == before["launch"]
    vmadm.ok("start", "sent")
    assert vmadm.ok("exec", "sent", BUSYBOX, "cat", "/etc/mark") == "content\n"


def test_a_stream_says_nothing_about_the_host(host, vmadm, tiny):
    """What is in a stream is judged as a payload is, and its tree is a tree only."""
    uuid = new_uuid()
    wanted = json.loads(payload(tiny, uuid=uuid, filesystems=[{"type": "lofs", "source": "/etc", "target": "/mnt"}]))
    host.path("/var/tmp/evil").write_bytes(stream(json.dumps({"storage": "tree", "machine": wanted}).encode()))
    code, text = vmadm.says("receive", "-f", "/var/tmp/evil")
    assert (code, text) == (1, "the VM wants directories or volumes of this host; --with-filesystems gives them\n  /etc\n")
    for members, reason in [({"uuid": "../../x"}, "uuid"), ({"alias": "a\nb"}, "alias"), ({"first_uid": 0}, None)]:
        host.path("/var/tmp/evil").write_bytes(stream(json.dumps({"storage": "tree", "machine": json.loads(payload(tiny)) | members}).encode()))
        code, text = vmadm.says("receive", "-f", "/var/tmp/evil")
        assert code == 1 and (reason is None or reason in text)
    # a tree whose config/ and root/ lead elsewhere
    tool = ["/build/tests/host/storage_tool", "directory", "/var/triton/pool", "-"]
    for links, reason in [(["config"], None), (["config", "root"], 'its tree has no directory "root"')]:
        host.run(*tool, "make", "evil/tree", check=True)
        path = host.run(*tool, "path", "evil/tree", check=True).stdout.strip()
        host.run("mkdir", "-p", "/var/tmp/victim", f"{path}/root", check=True)
        for link in links:
            host.run("sh", "-ec", f"rm -rf {path}/{link}; ln -s /var/tmp/victim {path}/{link}", check=True)
        host.run(*tool, "snapshot", "evil/tree", "s", check=True)
        host.run("sh", "-ec", " ".join([*tool, "send", "evil/tree", "s", "-", ">/var/tmp/tree"]), check=True)
        host.run(*tool, "destroy", "evil/tree", check=True)
        head = {"storage": "tree", "machine": json.loads(payload(tiny, uuid=uuid, tags={"a": 1}))}
        host.path("/var/tmp/evil").write_bytes(stream(json.dumps(head).encode(), host.path("/var/tmp/tree").read_bytes()))
        code, text = vmadm.says("receive", "-f", "/var/tmp/evil")
        made = f"note: the image of VM {uuid} has no /usr: an empty one was made, as systemd-nspawn needs it\nSuccessfully received VM {uuid}\n"
        assert (code, text) == ((1, f"cannot receive a VM: {reason}\n") if reason else (0, made))
        if not reason:
            assert json.loads(vmadm.ok("get", uuid))["tags"] == {"a": 1}
            vmadm.ok("delete", uuid)
        assert list(host.path("/var/tmp/victim").iterdir()) == []


def test_files_are_copied_in_and_out(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="files", launch=sleeping()))
    host.run("sh", "-ec", "mkdir -p /tmp/in/sub; cd /tmp/in; echo one >a; chmod 4755 a; ln -s /etc/passwd link; mkfifo fifo; echo x >sub/x", check=True)
    assert vmadm.says("cp", "/tmp/in", "files:/tmp/") == (0, "skipped: /tmp/in/fifo\nSuccessfully copied 3 files and 2 directories, 6 bytes\n")
    assert vmadm.ok("exec", "files", BUSYBOX, "stat", "-c", "%u %g %a", "/tmp/in/a", "/tmp/in/sub") == "0 0 755\n0 0 755\n"
    assert vmadm.says("cp", "files:/tmp/in", "/tmp/out")[0] == 0
    assert host.run("sh", "-ec", "cat /tmp/out/a /tmp/out/sub/x; readlink /tmp/out/link; stat -c %u:%a /tmp/out/a", check=True).stdout == "one\nx\n/etc/passwd\n0:755\n"
    vmadm.ok("stop", "-F", "files")
    assert vmadm.says("cp", "/tmp/in/a", "files:/etc/late")[0] == 0
    vmadm.ok("start", "files")
    assert vmadm.ok("exec", "files", BUSYBOX, "stat", "-c", "%u %g", "/etc/late") == "0 0\n"
    vmadm.ok("exec", "files", BUSYBOX, "sh", "-c", "mkdir -p /tmp/taken/a/x /tmp/blocked; echo >/tmp/blocked/in")
    for words, expected in [
        (["files:/nowhere", "/tmp/x"], (1, f"cannot open {uuid}:/nowhere: No such file or directory\n")),
        (["/tmp/nowhere", "files:/tmp"], (1, "cannot open /tmp/nowhere: No such file or directory\n")),
        (["/tmp/in/a", "files:/nowhere/a"], (1, f"cannot open {uuid}:/nowhere: No such file or directory\n")),
        (["/tmp/in/a", "files:/tmp/taken"], (1, f"cannot replace {uuid}:/tmp/taken/a: Is a directory\n")),
        (["/tmp/in", "files:/tmp/blocked"], (1, f"cannot open directory {uuid}:/tmp/blocked/in: Not a directory\n")),
        (["files:/", "/tmp/new/"], (1, "cannot open /tmp/new/: No such file or directory\n")),
        (["/tmp/in", "/tmp/x"], (2, 'neither "/tmp/in" nor "/tmp/x" is of a VM: expected VM:/PATH\n')),
        (["/tmp/in/a", "files:/proc/sysrq-trigger"], (1, f"cannot copy to {uuid}:/proc/sysrq-trigger: that is a file system of the kernel\n")),
        (["files:/dev/null", "/tmp/x"], (1, f"cannot copy {uuid}:/dev/null: it is neither a file nor a directory\n")),
        (["files:..", "/tmp"], (1, "cannot copy to /tmp: the name is missing\n")),
    ]:
        assert vmadm.says("cp", *words) == expected, words


def test_a_root_that_leads_elsewhere_is_not_followed(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="evil", launch=sleeping()))
    host.run("sh", "-ec", "mkdir -p /tmp/secret; echo secret >/tmp/secret/file; echo mine >/tmp/mine", check=True)
    vmadm.ok("exec", "evil", BUSYBOX, "sh", "-c", "ln -s ../../../../../tmp/secret /out; ln -s /proc/1/root/tmp/secret /magic; ln -s /proc /kernel; mkfifo /fifo")
    assert vmadm.says("cp", "evil:/out/file", "/tmp/x") == (1, f"cannot open {uuid}:/out/file: No such file or directory\n")
    assert vmadm.says("cp", "evil:/magic/file", "/tmp/x")[0] == 1
    assert vmadm.says("cp", "evil:/fifo", "/tmp/x") == (1, f"cannot copy {uuid}:/fifo: it is neither a file nor a directory\n")
    assert vmadm.says("cp", "/tmp/mine", "evil:/kernel/sysrq-trigger") == (1, f"cannot copy to {uuid}:/kernel/sysrq-trigger: that is a file system of the kernel\n")
    vmadm("cp", "/tmp/mine", "evil:/out/file")
    vmadm("cp", "/tmp/mine", "evil:/magic/file")
    assert host.run("cat", "/tmp/secret/file", check=True).stdout == "secret\n"
    # names that would move a terminal
    vmadm.ok("exec", "evil", BUSYBOX, "sh", "-c", r"mkdir /names; mkfifo $(printf '/names/\033[2J')")
    assert "\x1b" not in vmadm.says("cp", "evil:/names", "/tmp/names")[1]


class Terminal:
    """vmadm on a terminal of its own."""

    def __init__(self, host, *words):
        self.master, slave = pty.openpty()
        self.slave = slave
        self.before = termios.tcgetattr(slave)
        command = host._words(("/build/vmadm", *words))
        self.pid = os.posix_spawn(
            "/usr/bin/nsenter", command, {**host.ENVIRONMENT, "TERM": "xterm"}, setsid=True,
            file_actions=[(os.POSIX_SPAWN_DUP2, slave, fd) for fd in range(3)])
        self.shown = ""

    def expect(self, text):
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{text!r} did not come: {self.shown!r}"
            self.shown += os.read(self.master, 4096).decode(errors="replace")

    def type(self, text):
        os.write(self.master, text.encode())

    def kill(self, number):
        """Not nsenter, but what it has started."""
        os.kill(int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()), number)

    def end(self):
        """Its exit code; its terminal is as it was."""
        status = os.waitpid(self.pid, 0)[1]
        after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        assert after == self.before
        return os.waitstatus_to_exitcode(status)


def test_a_console_is_a_terminal_of_the_machine(host, vmadm, tiny, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="con", launch=sleeping()))
    assert vmadm.says("console", "con") == (1, "A console needs a terminal; exec runs a command without one.\n")
    terminal = Terminal(host, "console", "con")
    terminal.type("tty; echo =$((6*7))=; stty size >/dev/null\n")
    terminal.expect("/dev/pts/")
    terminal.expect("=42=")  # the uuid, which is shown, may have 42 in it
    terminal.type("\x1d")
    assert terminal.end() == 0
    # it is as it was also after a signal
    terminal = Terminal(host, "console", "con")
    terminal.type("echo =$((6*7))=\n")
    terminal.expect("=42=")  # the uuid, which is shown, may have 42 in it
    terminal.kill(signal.SIGTERM)
    assert terminal.end() == 128 + signal.SIGTERM
    # a machine that says that something else makes terminals
    vmadm.ok("exec", "con", BUSYBOX, "sh", "-c", "mount -t tmpfs none /dev/pts && mkfifo /dev/pts/ptmx")
    terminal = Terminal(host, "console", "con")
    terminal.expect(f"cannot enter VM {uuid}: make a terminal: ")
    assert terminal.end() == 1
    vmadm.ok("stop", "con")
    assert vmadm.says("console", "con") == (1, f'cannot connect to the console of VM {uuid}: its state is "stopped", not "running"\n')
    vmadm.ok("create", payload=payload(debian, alias="deb"))
    terminal = Terminal(host, "console", "deb")
    terminal.type("tty; id -un\n")
    terminal.expect("/dev/pts/")
    terminal.expect("root\r\n")
    terminal.type("exit\n")
    assert terminal.end() == 0


def test_a_newer_launcher_takes_over_without_an_exit(host, vmadm, tiny, debian):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="old", launch=sleeping()))
    before = json.loads(vmadm.ok("get", "old"))
    newer = "/var/tmp/newer-launch"
    host.run("cp", "/build/triton-launch", newer, check=True)

    def upgrade():
        return host.run("env", f"TRITON_LAUNCHER={newer}", "/build/vmadm", "upgrade-launcher", "old")

    for _ in range(2):
        done = upgrade()
        assert (done.returncode, done.stderr) == (0, f"Successfully upgraded the launcher of VM {uuid} from 0.1.0 to 0.1.0\n")
        inodes = host.run("stat", "-Lc", "%i", f"/proc/{before['pid']}/exe", newer, check=True).stdout.split()
        assert inodes[0] == inodes[1]
    after = json.loads(vmadm.ok("get", "old"))
    assert after["pid"] == before["pid"]
    processes = [machine["launch_status"]["programs"][0]["processes"][0]["pid"] for machine in (before, after)]
    assert processes[0] == processes[1]
    host.run("cp", "--remove-destination", "/bin/true", newer, check=True)
    assert upgrade().returncode == 1
    assert json.loads(vmadm.ok("get", "old"))["pid"] == before["pid"]
    other = new_uuid()
    vmadm.ok("create", payload=payload(debian, uuid=other, autoboot=False))
    assert vmadm.says("upgrade-launcher", other) == (1, f"cannot upgrade the launcher of VM {other}: it has no launch configuration\n")


def test_what_a_machine_uses(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="use", ram=100, max_lwps=80, launch=sleeping()))
    (stats,) = json.loads(vmadm.ok("stats", "-j", "use"))
    assert (stats["uuid"], stats["state"], stats["memory_limit_bytes"], stats["tasks_limit"]) == (uuid, "running", 100 << 20, 80)
    assert stats["cpu_nanoseconds"] > 0 and 0 < stats["memory_bytes"] < 100 << 20 and stats["tasks"] >= 2 and stats["disk_bytes"] > 0
    header, row = vmadm.ok("stats").splitlines()
    assert header.split()[:6] == ["UUID", "ALIAS", "STATE", "CPU_S", "MEM_MIB", "MEM_MAX"] and row.split()[:3] == [uuid, "use", "running"]
    vmadm.ok("stop", "-F", "use")
    (stats,) = json.loads(vmadm.ok("stats", "-j", "alias=use"))
    assert stats["state"] == "stopped" and "memory_bytes" not in stats


def test_systemd_loads_nothing_for_who_asks_what_a_machine_uses(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, autoboot=False))
    watch = host.popen("stdbuf", "-oL", "busctl", "monitor", "--match=type='signal',member='UnitNew'")
    try:
        told = iter(watch.stdout)
        while not select.select([watch.stdout], [], [], 0.1)[0]:  # until it watches
            host.run("systemctl", "show", "before.service", check=True)
        vmadm.ok("stats", "-j", uuid)
        host.run("systemctl", "show", "after.service", check=True)
        lines = list(itertools.takewhile(lambda line: "after.service" not in line, told))
        assert not [line for line in lines if f"systemd-nspawn@{uuid}" in line]
    finally:
        watch.kill()
    vmadm.ok("delete", uuid)


def test_names_and_payloads_of_enemies(host, vmadm, tiny):
    uuid = new_uuid()
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, alias="plain", autoboot=False))
    for name in ("../../etc", "a/b", "..", "pl\nain", "", "\x1b[2J", "*", uuid[:3], uuid + "/.."):
        for command in ("get", "start", "delete", "send", "console", "exec", "logs", "rename"):
            words = {"exec": (name, "/bin/true"), "rename": (name, "x")}.get(command, (name,))
            code, text = vmadm.says(command, *words)
            assert code in (1, 2) and "\x1b" not in text and text.count("\n") == 1, (command, name, text)
    for members in ({"uuid": "../../../etc/x"}, {"uuid": "a/b"}, {"alias": "a\nb"}, {"hostname": "a\nBoot=no"}, {"zonename": "../x"},
                    {"init_name": "/sbin/init\n[Files]"}, {"filesystems": [{"type": "lofs", "source": "/a\nBind=/", "target": "/x"}]},
                    {"nics": [{"nic_tag": "../x", "ips": ["dhcp"]}]}):
        code, text = vmadm.says("create", payload=payload(tiny, **members))
        assert code == 1 and "\x1b" not in text, (members, text)
    for snapshot in ("../x", "a/b", "", "a\nb", "x" * 65):
        assert vmadm.says("create-snapshot", "plain", snapshot) == (1, "Invalid snapshot name\n")
    assert vmadm.ok("list", "-p", "-o", "alias") == "plain\n"
    # metadata of megabytes goes in and comes out; more than a payload may have does not
    large = {"large": "x" * (4 << 20)}
    vmadm.ok("update", "plain", payload=json.dumps({"set_customer_metadata": large}))
    assert json.loads(vmadm.ok("get", "plain"))["customer_metadata"] == large
    code, text = vmadm.says("update", "plain", payload=json.dumps({"set_customer_metadata": {"x": "x" * (17 << 20)}}))
    assert code == 1 and text.count("\n") == 1
    assert vmadm.ok("list", "-p", "-o", "alias") == "plain\n"


def test_only_root_may(host, vmadm):
    done = host.run("setpriv", "--reuid", "65534", "--clear-groups", "vmadm", "list")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "vmadm can only be run as root.\n")
    assert host.run("setpriv", "--reuid", "65534", "--clear-groups", "vmadm", "help").returncode == 0


def test_stray_words_are_errors(vmadm):
    assert vmadm.says("create", "x", "y") == (2, '"y" is not a property with its value: expected KEY=VALUE\n')
    for command in ("receive", "prepare"):
        assert vmadm.says(command, "x") == (2, f'too many arguments for {command}: "x"\n')
    for command in ("get", "install", "logs", "send", "console", "history", "recover"):
        assert vmadm.says(command, "x", "y") == (2, f'too many arguments for {command}: "y"\n')


def test_nothing_is_recovered_of_what_was_never_there(host, vmadm, tiny):
    unknown, uuid = new_uuid(), new_uuid()
    assert vmadm.says("recover", unknown) == (1, f"VM {unknown} not found\n") == vmadm.says("get", unknown)
    assert left_of(host, unknown) == []
    vmadm.ok("create", payload=payload(tiny, uuid=uuid, cpu_cap=50, launch=sleeping()))
    assert vmadm.says("recover", uuid) == (0, "Successfully recovered\n")
    host.run("rm", f"/var/triton/vmadm/machines/{uuid}.json", check=True)
    code, text = vmadm.says("recover", uuid)
    assert code == 0 and "removed, it belongs to no VM" in text
    assert left_of(host, uuid) == []
    assert uuid not in host.run("imgadm", "get", tiny, check=True).stdout, "it must hold no image any more"
    assert host.run("find", "/etc/systemd", "/run/systemd/transient", "-name", f"*{uuid}*").stdout == ""
    assert vmadm.says("recover", uuid) == (1, f"VM {uuid} not found\n")
