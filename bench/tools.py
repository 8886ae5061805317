"""The contenders of what is no supervision: copying, hashing, and serving over HTTP and TLS."""

from peers import Contender, Limit


class Tool(Contender):
    """A program of the system that does one of these."""

    def files(self):
        return []  # nobody ships it with his container for this

    def copy(self, source, names, target):
        """The command line, run in the source directory, that copies these files of it into a directory."""
        raise NotImplementedError

    def copy_durably(self, source, names, target):
        """The same, ending when all of it is on the disk. One sync(1) of the file system is the least that a shell has
        for many files: fsync of each takes ten times as long, and nobody else writes to it meanwhile."""
        return ["/bin/sh", "-c", '"$@" && sync --file-system "$0"', str(target), *self.copy(source, names, target)]


class Cp(Tool):
    """Mode and times are kept, because we keep them too."""

    name, package, programs = "cp", "coreutils", ("cp", "sync")
    copies = True

    def copy(self, source, names, target):
        return [self.program, "--reflink=auto", "--preserve=mode,timestamps", f"--target-directory={target}", *names]


class Install(Tool):
    name, package, programs = "install", "coreutils", ("install", "sync")
    copies = True

    def copy(self, source, names, target):
        return [self.program, "--preserve-timestamps", "--mode=644", f"--target-directory={target}", *names]


class CopyLimit(Limit):
    """A bare loop from copy.c."""

    wraps = launches = False
    captures = ()
    copies = True

    def version(self):
        return "bench/src/copy.c"

    def files(self):
        return []

    def copy(self, source, names, target):
        return [self.program, str(source), str(target)]

    def copy_durably(self, source, names, target):
        return [self.program, "-d", str(source), str(target)]


class Openssl(Tool):
    name, package, programs = "openssl", "openssl", ("openssl",)
    hashes = True

    def hash(self, source, name):
        """The command line, run in the source directory, that tells the SHA-256 of a file of it."""
        return [self.program, "dgst", "-sha256", name]


class Nginx(Tool):
    """One worker, no access log, and its answer is a file of the size of ours."""

    name, package, programs = "nginx", "nginx", ("nginx",)
    serves = True

    def serve(self, directory, files, port, certificate):
        """Writes what is needed to serve a directory on a port of the loopback address into an empty directory and
        returns the command line. The certificate (and key) as one file, or None for plain HTTP."""
        (directory / "digest").write_text("0" * 64)
        tls = ""
        if certificate:
            tls = (f"ssl_certificate {certificate}; ssl_certificate_key {certificate};\n"
                   "ssl_protocols TLSv1.2 TLSv1.3;\nssl_session_cache off; ssl_session_tickets off;\n")
        (directory / "nginx.conf").write_text(
            "daemon off;\nworker_processes 1;\nuser nobody nogroup;\npid nginx.pid;\nerror_log /dev/null;\n"
            "events { worker_connections 2048; }\n"
            "http {\naccess_log off;\nsendfile on;\ntcp_nopush on;\nkeepalive_requests 1000000000;\n"
            "default_type text/plain;\n"
            f"client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;\n"
            f"fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;\n"
            f"scgi_temp_path {directory}/scgi;\n"
            f"server {{\nlisten 127.0.0.1:{port}{' ssl' if certificate else ''} backlog=1024;\nroot {directory};\n"
            f"{tls}}}\n}}\n")
        return [self.program, "-p", str(directory), "-c", str(directory / "nginx.conf"), "-e", "/dev/null"]

    url = "/digest"


def contenders(built):
    return [CopyLimit(built, "limit-copy"), Cp(built), Install(built), Openssl(built), Nginx(built)]
