"""Directories of the host that a machine sees by `filesystems`: whose the files are, and what a machine's root can leave there."""

import json

from machine_place import new_uuid, payload, sleeping

BUSYBOX = "/usr/bin/busybox"
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "env")  # setpriv itself keeps root's capabilities
PLAIN = "note: filesystems[{}]: the files of {} belong to nobody in the VM, which can write only what everybody can write"
MAPPED = "note: filesystems[{}]: idmap: root of the VM writes there as root of the host, setuid programs too: let no user of the host reach {}"


def lofs(source, *options):
    return {"type": "lofs", "source": source, "target": f"/given{source}", "options": list(options)}


def test_directories_of_the_host_and_whose_files_they_have(host, vmadm, tiny):
    """Only with idmap is root of the machine root there; no way leads out of the directory."""
    host.run("sh", "-ec", "mkdir -p /srv/plain /srv/mapped /srv/fixed; echo secret >/srv/mapped/secret; chmod 600 /srv/mapped/secret; echo host >/srv/outside", check=True)
    given = [lofs("/srv/plain"), lofs("/srv/mapped", "idmap"), lofs("/srv/fixed", "readonly", "idmap")]
    uuid = new_uuid()
    code, text = vmadm.says("create", payload=payload(tiny, uuid=uuid, launch=sleeping(), tmpfs=0, filesystems=given))
    assert code == 0, text
    assert PLAIN.format(0, "/srv/plain") in text and MAPPED.format(1, "/srv/mapped") in text and "filesystems[2]" not in text

    def inside(script):
        return vmadm("exec", uuid, BUSYBOX, "sh", "-c", script)

    assert inside("echo x >/given/srv/plain/new").returncode != 0
    assert inside("echo x >/given/srv/fixed/new").returncode != 0
    assert inside("cd /given/srv/mapped; cat secret; echo x >new; ln -s /srv/outside link; echo y >link").stdout == "secret\n"
    assert host.run("stat", "-c", "%u %g", "/srv/mapped/new", check=True).stdout == "0 0\n"
    assert host.run("cat", "/srv/outside", check=True).stdout == "host\n", "a link leads out of the machine"
    assert " /tmp " not in inside("cat /proc/mounts").stdout
    vmadm.ok("delete", uuid)
    bad = [{**given[0], "options": ["nosuid"]}]
    assert vmadm.says("create", payload=payload(tiny, filesystems=bad)) == (
        1, 'cannot create VM: filesystems[0].options: unknown option "nosuid" (known: ro, readonly, rw, idmap)\n')
    host.run("rm", "-r", "/srv/plain", "/srv/mapped", "/srv/fixed", "/srv/outside", check=True)


def test_setuid_programs_that_a_machine_leaves_in_directories_of_the_host(host, vmadm, tiny):
    """With idmap they are root's of the host: for whoever can reach them, and where the host has not mounted them nosuid. Without it
    they are of the machine's own uids, wherever it can write at all."""
    host.run("sh", "-ec", """
        mkdir -p /srv/all
        mount -t tmpfs -o suid,mode=755 none /srv/all
        mkdir /srv/all/open /srv/all/shared /srv/all/nosuid
        mkdir -m 700 /srv/all/closed
        mkdir /srv/all/closed/inner
        chmod 1777 /srv/all/shared
        mount -t tmpfs -o nosuid,mode=755 none /srv/all/nosuid
        echo of-root >/srv/all/secret; chmod 600 /srv/all/secret""", check=True)
    mapped, shared = ("/srv/all/open", "/srv/all/closed/inner", "/srv/all/nosuid"), "/srv/all/shared"
    given = [*(lofs(source, "idmap") for source in mapped), lofs(shared)]
    uuid = new_uuid()
    code, text = vmadm.says("create", payload=payload(tiny, uuid=uuid, launch=sleeping(), filesystems=given))
    assert code == 0, text
    for number, source in enumerate(mapped):
        assert MAPPED.format(number, source) in text
    assert PLAIN.format(3, shared) in text
    first_uid = json.loads(host.run("cat", f"/var/triton/vmadm/machines/{uuid}.json", check=True).stdout)["first_uid"]

    for source in (*mapped, shared):
        host.run("cp", "/usr/bin/cat", f"{source}/tool", check=True)
        made = vmadm("exec", uuid, BUSYBOX, "sh", "-ec", f"cd /given{source}; cp tool evil; chmod 4755 evil; ! mknod null c 1 3 2>/dev/null")
        assert made.returncode == 0, f"{source}: {made.stdout}{made.stderr}"

    def owner(file):
        return host.run("stat", "-c", "%u %g %a", file, check=True).stdout.strip()

    def as_nobody(file):
        return host.run(*AS_NOBODY, file, "/srv/all/secret")

    for source in mapped:
        assert owner(f"{source}/evil") == "0 0 4755"
    assert owner(f"{shared}/evil") == f"{first_uid} {first_uid} 4755" and first_uid >= 1879048192
    assert as_nobody("/srv/all/open/evil").stdout == "of-root\n", "this is what create and the manual warn of"
    for source, why in (("/srv/all/closed/inner", "env: "), ("/srv/all/nosuid", "/srv/all/secret: Permission denied"),
                        (shared, "/srv/all/secret: Permission denied")):
        done = as_nobody(f"{source}/evil")
        assert (done.returncode != 0, done.stdout) == (True, "") and why in done.stderr and "Permission denied" in done.stderr, f"{source}: {done}"
    # What is below is not above: the machine can open its directory for all, not the closed one around it.
    vmadm.ok("exec", uuid, BUSYBOX, "chmod", "777", "/given/srv/all/closed/inner")
    assert owner("/srv/all/closed") == "0 0 700" and "Permission denied" in as_nobody("/srv/all/closed/inner/evil").stderr
    vmadm.ok("delete", uuid)
    host.run("sh", "-ec", "umount -R /srv/all; rmdir /srv/all", check=True)


def test_a_file_system_that_cannot_map_owners_is_named(host, vmadm, tiny):
    host.run("sh", "-ec", "mkdir -p /srv/ram; mount -t ramfs none /srv/ram", check=True)
    uuid = new_uuid()
    code, text = vmadm.says("create", payload=payload(tiny, uuid=uuid, launch=sleeping(), filesystems=[lofs("/srv/ram", "idmap")]))
    assert code == 1 and "filesystems: the option idmap needs a file system of /srv/ram that can map owners\n" in text, text
    vmadm.ok("delete", uuid)
    host.run("sh", "-ec", "umount /srv/ram; rmdir /srv/ram", check=True)
