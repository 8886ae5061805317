#!/usr/bin/env python3
"""Promises of the tree that no compiler checks:

1. includes and CMake's link lists follow the table FOLDERS, which has no circle; every folder has a library of its own, and
   headers declare into the namespace of their folder; only lib/net includes <boost/...>,
   and foreign libraries of the host are seen by the one folder that SEEN_BY names;
2. every *_test.cpp and *_fuzz.cpp below tests/ is built by a target: its folder is in a call of tests_of(), or a CMakeLists.txt
   names it; every directory with Python tests is run by CTest or by ./dev;
3. .clang-tidy looks at the headers of every folder, and ARCHITECTURE.md names nothing that is not there;
4. what a file has for itself (an unnamed namespace) has a name that nothing else in its folder has, nor what is declared
   where it would hide that: a library is compiled as one unit, where the one would quietly take the other's place;
5. no TRY between the braces of an aggregate, where GCC 12 leaks;
6. the objects of the CMake library `wrap`, which run before libc has started, need nothing that they do not bring.

usage: structure_test.py SOURCE_DIR [--nm NM OBJECT...]
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# folder -> its namespace, and the folders that it may include besides itself
FOLDERS = {
    "lib/base": ("triton", ""),
    "lib/text": ("triton::text", "lib/base"),
    "lib/command": ("triton::command", "lib/base"),
    "lib/json": ("triton::json", "lib/base lib/text"),
    "lib/flags": ("triton::flags", "lib/base lib/json"),
    "lib/log": ("triton::log", "lib/base lib/text lib/json"),
    "lib/files": ("triton::files", "lib/base lib/json"),
    "lib/varlink": ("triton::varlink", "lib/base lib/json"),
    "lib/process": ("triton::process", "lib/base lib/json lib/files"),
    "lib/netlink": ("triton::netlink", "lib/base"),
    "lib/net": ("triton::net", "lib/base lib/json lib/log lib/files"),
    "lib/daemon": ("triton::daemon", "lib/base lib/files"),
    "lib/http/spdy": ("triton::http::spdy", "lib/base"),
    "lib/http/websocket": ("triton::http::websocket", "lib/base lib/text"),
    "lib/http/grpc": ("triton::http::grpc", "lib/base lib/log lib/net"),
    "config": ("triton::config", "lib/base lib/json lib/process"),
    "launcher/wrap": ("triton::launcher", "lib/base lib/process"),
    "launcher/supervisor": ("triton::launcher", "lib/base lib/process config"),
    "launcher/terminal": ("triton::launcher", "lib/base lib/process"),
    "launcher/output": ("triton::launcher", "lib/base lib/text lib/json lib/log lib/files config launcher/terminal"),
    "launcher/plan": ("triton::launcher", "lib/base lib/json lib/log lib/files lib/process config launcher/supervisor launcher/services"),
    "launcher/services": ("triton::launcher", "lib/base lib/json lib/process config launcher/supervisor"),
    "launcher/control": ("triton::launcher", "lib/base lib/json lib/varlink lib/process config launcher/supervisor launcher/services launcher/terminal"),
    "launcher/upgrade": ("triton::launcher", "lib/base lib/json lib/varlink lib/process config launcher/supervisor launcher/output launcher/plan launcher/services launcher/control"),
    "launcher/children": ("triton::launcher", "lib/base lib/log lib/process config launcher/wrap launcher/supervisor"),
    "launcher/rooms": (
        "triton::launcher",
        "lib/base lib/json lib/log lib/files lib/varlink lib/process config launcher/supervisor launcher/terminal launcher/output launcher/plan launcher/services"
        " launcher/control launcher/upgrade launcher/children",
    ),
    "launcher/shell": (
        "triton::launcher",
        "lib/base lib/log lib/process launcher/supervisor launcher/output launcher/plan launcher/upgrade launcher/children launcher/rooms",
    ),
    "sidecar": ("triton::sidecar", "lib/base lib/json lib/files config"),
    "sidecar/control": ("triton::sidecar::control", "lib/base lib/json lib/log lib/varlink lib/net"),
    "sidecar/kubernetes": ("triton::kubernetes", "lib/base lib/text lib/json lib/flags lib/log lib/net sidecar/control"),
    "sidecar/agent": (
        "triton::agent",
        "lib/base lib/text lib/json lib/log lib/files lib/net config sidecar sidecar/control sidecar/kubernetes",
    ),
    "host/storage": ("triton::storage", "lib/base lib/json lib/files lib/process"),
    "host/disk": ("triton::disk", "lib/base"),
    "host/role": ("triton::role", "lib/base lib/text lib/json lib/process host/disk"),
    "host/verify": ("triton::verify", "lib/base lib/text lib/json lib/files lib/process host/disk host/role"),
    "host/unpack": ("triton::unpack", "lib/base lib/json lib/files lib/process host/disk host/role"),
    "host/download": ("triton::download", "lib/base lib/text lib/json host/role"),
    "host/content": ("triton::content", "lib/base lib/json lib/files lib/process host/disk host/role"),
    "host/volume": ("triton::volume", "lib/base"),
    "host/volume/keep": ("triton::volume", "lib/base lib/json host/content host/volume"),
    "host/volume/work": ("triton::volume", "lib/base lib/json lib/process host/disk host/storage host/content host/image host/volume host/volume/keep"),
    "host/image": ("triton::image", "lib/base lib/text lib/json lib/log lib/files lib/process host/storage host/content"),
    "host/network": ("triton::network", "lib/base lib/json lib/netlink lib/process"),
    "host/machine": ("triton::machine", "lib/base lib/text lib/json lib/log lib/files lib/process lib/netlink lib/varlink host/storage host/network"),
    "host/metadata": ("triton::metadata", "lib/base lib/text lib/json host/machine"),
    "host/systemd": ("triton::systemd", "lib/base lib/text lib/json"),
    "host/parts": ("triton::parts", "lib/base lib/json lib/files lib/varlink host/storage host/content host/image host/network host/machine host/systemd host/volume host/volume/keep host/volume/work"),
    "host/info": ("triton::info", "lib/base lib/json host/machine"),
    "host/info/client": ("triton::info", "lib/base lib/text lib/json host/machine"),
    "programs/completion": ("triton::program", "lib/base lib/json"),
    "programs/frame": ("triton::program", "lib/base lib/text lib/command lib/json programs/completion"),
    "host/observe": ("triton::observe", "lib/base lib/json lib/log lib/files lib/net lib/varlink host/storage host/machine host/systemd host/parts host/info"),
    "host/cri/wire": ("triton::cri", "lib/base lib/json lib/http/grpc"),
    "host/cri/images": ("triton::cri", "lib/base lib/json lib/http/grpc host/storage host/content host/image host/cri/wire"),
    "host/cri/cni": ("triton::cri", "lib/base lib/text lib/json lib/process lib/netlink"),
    "host/cri/core": ("triton::cri", "lib/base"),
    "host/cri/monitor": ("triton::cri", "lib/base"),
    "host/cri/stream": ("triton::cri", "lib/base lib/text lib/json lib/http/spdy lib/http/websocket host/cri/monitor"),
    "host/cri/tickets": ("triton::cri", "lib/base lib/net host/role host/cri/monitor"),
    "host/cri/container": ("triton::cri", "lib/base lib/json lib/files lib/process lib/http/grpc host/cri/wire"),
    "host/cri/sandbox": (
        "triton::cri",
        "lib/base lib/json lib/files lib/process lib/net lib/http/grpc host/storage host/image host/cri/wire host/cri/images host/cri/cni host/cri/core host/cri/monitor"
        " host/cri/tickets host/cri/container",
    ),
    "programs/tritoncrid": (
        "triton::program",
        "lib/base lib/json lib/flags lib/log lib/daemon lib/net lib/http/grpc host/image host/systemd host/cri/wire host/cri/images host/cri/cni host/cri/tickets host/cri/sandbox",
    ),
    "programs/criadm": ("triton::program", "lib/base lib/text lib/json lib/http/grpc host/cri/wire programs/completion programs/frame"),
    "programs/triton-cri-stream": ("triton::program", "lib/base host/role host/cri/stream"),
    "programs/triton-pod": ("triton::program", "lib/base host/cri/monitor"),
    "programs/vminfod": ("triton::program", "lib/base lib/text lib/json lib/flags lib/log lib/daemon lib/net host/machine host/systemd host/info host/observe"),
    "programs/volumemgr": (
        "triton::program",
        "lib/base lib/json lib/flags lib/log lib/daemon lib/varlink host/storage host/content host/image host/systemd host/volume host/volume/keep host/volume/work",
    ),
    "programs/volumeadm": (
        "triton::program", "lib/base lib/text lib/json lib/varlink host/storage host/content host/image host/volume host/volume/keep host/volume/work programs/completion programs/frame"
    ),
    "programs/vmadm": ("triton::program", "lib/base lib/text lib/command lib/json lib/files lib/varlink host/storage host/image host/network host/machine host/systemd host/parts host/info/client programs/completion"),
    "programs/vminfo": ("triton::program", "lib/base lib/text lib/json host/machine host/info/client programs/completion programs/frame"),
    "programs/triton-launch": (
        "triton::program",
        "lib/base lib/text lib/json lib/flags lib/log config launcher/wrap launcher/plan launcher/services launcher/control launcher/upgrade"
        " launcher/rooms launcher/shell sidecar",
    ),
    "programs/triton-launch-agent": ("triton::program", "lib/base lib/flags lib/log lib/net sidecar/agent sidecar/kubernetes"),
    "programs/triton-download": ("", "lib/base lib/json host/role host/download"),
    "programs/triton-verify": ("", "lib/base lib/json host/role host/verify"),
    "programs/triton-unpack": ("", "lib/base lib/json host/role host/unpack"),
    "programs/triton-machine-init": ("triton::program", "lib/base lib/json lib/netlink host/network"),
    "programs/triton-machine-volumes": (
        "triton::program",
        "lib/base lib/json lib/varlink host/storage host/image host/machine host/systemd host/parts host/volume host/volume/keep host/volume/work",
    ),
    "programs/triton-machine-metadata": (
        "triton::program", "lib/base lib/files lib/json host/storage host/machine host/systemd host/parts host/metadata",
    ),
    "programs/mdata": ("triton::program", "lib/base lib/text host/metadata"),
    "programs/triton-machine-network": ("triton::program", "lib/base lib/json lib/netlink host/network"),
    "programs/triton-machine-exit": ("triton::program", "lib/base host/machine"),
    "programs/imgadm": ("triton::program", "lib/base lib/text lib/command lib/json lib/log lib/files lib/process host/storage host/content host/image programs/completion"),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{", re.MULTILINE)
LEAKING = re.compile(r"(^\s*|[{,]\s*)\.\w+ = TRY\(")
ASIO = re.compile(r"^boost/")
# Foreign headers -> the folders that see them: what verifies and unpacks never meets what talks to a network.
SEEN_BY = {
    re.compile(r"^curl/"): "host/download",
    re.compile(r"^sqlite3"): "host/content",
    re.compile(r"^(archive|archive_entry|zstd|lzma|isa-l)\.h$|^isa-l/"): "host/unpack",
    re.compile(r"^CLI/"): "lib/command programs/completion programs/frame programs/imgadm programs/vmadm programs/vminfo programs/volumeadm programs/criadm",
    re.compile(r"^systemd/sd-"): "host/systemd",
    re.compile(r"^re2/"): "host/machine sidecar/agent",
    re.compile(r"^google/protobuf/"): "host/cri/wire",
    re.compile(r"^toml\+\+/"): "host/cri/images",
    re.compile(r"^zlib\.h$"): "lib/http/spdy host/metadata programs/criadm",
    re.compile(r"^nghttp2/"): "lib/http/grpc sidecar/agent",
}
# Declarations begin in the first column; each pattern's group is the name.
DECLARATIONS = (
    re.compile(r"^using (\w+) ="),
    re.compile(r"^(?:template <[^>]*>\s*)?(?:struct|class|enum class|enum|union|concept)\s+(\w+)"),
    re.compile(r"^(?!using |namespace |template|#|//|static_assert|\}|return|TRY)[\w:<>,&*\s\[\]().'\"-]*?[\s&*](\w+)\((?!\s*\*)"),
    re.compile(r"^(?!using )(?:inline |constexpr |const |static |constinit |thread_local |extern )*[\w:<>,&*\s]+?[\s&*>](\w+)(?:\{|\s=\s|;|\[)"),
)
OPENING = re.compile(r"^(?:inline )?namespace ([\w:]*) ?\{")
# Overloads that are told apart by the type of a tag.
OVERLOADED = {"table"}
TESTS_OF = re.compile(r"^tests_of\(\s*\w+\s+([^)]*)\)", re.MULTILINE)
LIBRARY = re.compile(r"add_(?:library|executable)\(\s*([\w-]+)")
LINKS = re.compile(r"target_link_libraries\(\s*([\w-]+)([^)]*)\)")
OBJECTS = re.compile(r"\$<TARGET_OBJECTS:([\w-]+)>")
COMMENT = re.compile(r"#[^\n]*")
# The entry point of early.cpp jumps there, into libc, when the command line is not the wrap mode's.
PROVIDED_BY_LIBC_START = {"_start"}


def folder_of(path: str) -> str:
    return path.rsplit("/", 1)[0] if "/" in path else ""


def wrong_includes(root: Path) -> list[str]:
    ours = {folder.split("/")[0] for folder in FOLDERS} | {"tests", "bench"}
    found = []
    for source in sorted(source for top in ours - {"tests", "bench"} for source in (root / top).rglob("*")):
        if source.suffix not in {".h", ".hpp", ".cpp", ".cc", ".c", ".inc"}:
            continue
        folder = folder_of(str(source.relative_to(root)))
        if folder not in FOLDERS:
            found.append(f"{source.relative_to(root)} is in a folder that FOLDERS does not have")
            continue
        allowed = {folder, *FOLDERS[folder][1].split()}
        for name in INCLUDE.findall(source.read_text()):
            where = f"{source.relative_to(root)} includes {name}"
            if name.startswith("."):
                found.append(f"{where}: ours are named from the root")
            elif name.split("/")[0] in ours and folder_of(name) not in allowed:
                found.append(f"{where}: {folder} may include {', '.join(sorted(allowed))} only")
    return found


def wrong_asio(root: Path) -> list[str]:
    """Only lib/net sees Asio and Beast."""
    users = set()
    for top in sorted({folder.split("/")[0] for folder in FOLDERS}):
        for source in (root / top).rglob("*"):
            if source.suffix in {".h", ".cpp"} and any(ASIO.match(name) for name in INCLUDE.findall(source.read_text())):
                users.add(str(source.relative_to(root)))
    foreign = {user for user in users if folder_of(user) != "lib/net"}
    return [f"{user} includes <boost/...>, which is for lib/net" for user in sorted(foreign)]


def wrong_libraries(root: Path) -> list[str]:
    found = []
    for folder in FOLDERS:
        for source in sorted(source for kind in ("*.h", "*.cpp") for source in (root / folder).glob(kind)):
            for name in INCLUDE.findall(source.read_text()):
                found += [
                    f"{source.relative_to(root)} includes {name}, which is for {owner}"
                    for pattern, owner in SEEN_BY.items()
                    if pattern.match(name) and folder not in owner.split()
                ]
    return found


def leaking_braces(root: Path) -> list[str]:
    """GCC 12 does not destroy what an aggregate has already when TRY returns from between its braces: it leaks, descriptors too."""
    found = []
    for folder in FOLDERS:
        for source in sorted((root / folder).glob("*.cpp")):
            lines = source.read_text().split("\n")
            found += [f"{source.relative_to(root)}:{number}: TRY between the braces of an aggregate" for number, line in enumerate(lines, 1) if LEAKING.search(line)]
    return found


def wrong_links(root: Path) -> list[str]:
    """A library belongs to the folder whose CMakeLists.txt adds it, and links only libraries of allowed folders."""
    lists = {folder: root / folder / "CMakeLists.txt" for folder in FOLDERS if (root / folder).is_dir()}
    texts = {folder: COMMENT.sub("", file.read_text()) if file.exists() else "" for folder, file in lists.items()}
    folder_of_library = {library: folder for folder, text in texts.items() for library in LIBRARY.findall(text)}
    found = [f"{folder} has no library of its own" for folder in texts if folder not in folder_of_library.values()]
    for folder, text in texts.items():
        allowed = {folder, *FOLDERS[folder][1].split()}
        linked = [word for _, words in LINKS.findall(text) for word in words.split()] + OBJECTS.findall(text)
        for library in linked:
            other = folder_of_library.get(library, folder)  # not ours: a system library
            if other not in allowed:
                found.append(f"{folder}/CMakeLists.txt links {library}: {folder} may use {', '.join(sorted(allowed))} only")
        for target, _ in LINKS.findall(text):
            if folder_of_library.get(target) != folder:
                found.append(f"{folder}/CMakeLists.txt links something into {target}, which is not a library of its own")
    return found


def wrong_namespaces(root: Path) -> list[str]:
    found = []
    for folder, (namespace, _) in FOLDERS.items():
        for source in sorted((root / folder).glob("*.h")):
            named = NAMESPACE.findall(source.read_text())
            if not any(name == namespace or name.startswith(namespace + "::") for name in named):
                found.append(f"{source.relative_to(root)} declares nothing in {namespace}, the namespace of its folder")
    return found


def declared(text: str) -> Iterator[tuple[str, bool, str]]:
    """The names at namespace level: (named namespace, whether it is within an unnamed one, name)."""
    open_namespaces: list[str] = []
    is_in_braces = False
    for line in text.splitlines():
        opening = OPENING.match(line)
        if opening and not line.endswith("}"):
            open_namespaces.append(opening[1])
        elif line.startswith("}"):
            if open_namespaces and (line.startswith("}  // namespace") or (line == "}" and not is_in_braces)):
                open_namespaces.pop()
            is_in_braces = False
            continue
        is_in_braces = is_in_braces or (not opening and line.endswith(("{", 'R"(')))
        if not opening and open_namespaces and line and line[0] not in " /#":
            found = next((match for match in (pattern.match(line) for pattern in DECLARATIONS) if match), None)
            name = found[1] if found else ""
            if name and f"::{name}(" not in line:  # else it is a member's definition
                yield "::".join(one for one in open_namespaces if one), "" in open_namespaces, name


def shared_names(root: Path) -> list[str]:
    public: dict[str, set[tuple[str, str, str]]] = {}  # name -> namespace, folder, header
    private: dict[tuple[str, str], set[tuple[str, str]]] = {}  # folder, name -> namespace, file
    for top in {folder.split("/")[0] for folder in FOLDERS}:
        for source in (root / top).rglob("*.[hc]*"):
            if source.suffix not in {".h", ".cpp"}:
                continue
            path = str(source.relative_to(root))
            for namespace, is_private, name in declared(source.read_text()):
                if source.suffix == ".h" and not is_private:
                    public.setdefault(name, set()).add((namespace, folder_of(path), path))
                elif source.suffix == ".cpp" and is_private:
                    private.setdefault((folder_of(path), name), set()).add((namespace, path))
    found = []
    for (folder, name), places in sorted(private.items()):
        files = sorted(path for _, path in places)
        if len(files) > 1 and name not in OVERLOADED:
            found.append(f"{name} is a name of {' and of '.join(files)}")
        visible = {folder, *FOLDERS[folder][1].split()}
        for where, other, header in sorted(public.get(name, ())):
            if other in visible and any((namespace + "::").startswith(where + "::") for namespace, _ in places):
                found.append(f"{name} is a name of {files[0]} and of {header}")
    return found


def circles() -> list[str]:
    done: set[str] = set()

    def walk(folder: str, path: list[str]) -> list[str]:
        if folder in path:
            return [" -> ".join([*path[path.index(folder) :], folder]) + " is a circle"]
        if folder in done:
            return []
        found = [circle for other in FOLDERS[folder][1].split() for circle in walk(other, [*path, folder])]
        done.add(folder)
        return found

    return [circle for folder in FOLDERS for circle in walk(folder, [])]


def unlisted_tests(root: Path) -> list[str]:
    tests = root / "tests"
    listed = set()
    found = []
    for lists in tests.rglob("CMakeLists.txt"):
        text = COMMENT.sub("", lists.read_text())
        listed |= {(lists.parent / word).resolve() for word in re.split(r'[\s()"]+', text) if word.endswith(".cpp")}
        for call in TESTS_OF.findall(text):
            found += [f"{lists.relative_to(root)}: tests_of names {folder}, which FOLDERS does not have" for folder in call.split() if folder not in FOLDERS]
            listed |= {source.resolve() for folder in call.split() for source in (tests / "unit" / folder).glob("*.cpp")}
    sources = {source for kind in ("*_test.cpp", "*_fuzz.cpp") for source in tests.rglob(kind)}
    hint = "tests of a folder of the source are tests/unit/<folder>/*_test.cpp"
    return found + [f"{source.relative_to(root)} is built by no target; {hint}" for source in sorted(sources) if source.resolve() not in listed]


def unrun_suites(root: Path) -> list[str]:
    tests = root / "tests"
    runners = (root / "dev").read_text() + "".join(lists.read_text() for lists in tests.rglob("CMakeLists.txt"))
    suites = sorted({source.parent.relative_to(tests) for source in tests.rglob("test_*.py")})

    def is_run(suite: Path) -> bool:
        """pytest runs what is below a directory, too."""
        return any(re.search(rf"[/ ]{folder}\b", runners) for folder in [suite, *suite.parents][:-1])

    return [f"nothing runs tests/{suite}" for suite in suites if not is_run(suite)]


def unlooked_folders(root: Path) -> list[str]:
    looked = re.search(r"^HeaderFilterRegex: '(.*)'$", (root / ".clang-tidy").read_text(), re.MULTILINE)
    pattern = re.compile(looked[1]) if looked else re.compile("$.")
    return [f".clang-tidy does not look at {folder}" for folder in [*FOLDERS, "tests", "bench"] if not pattern.search(f"/source/{folder}/x.h")]


def stale_names(root: Path) -> list[str]:
    """Functions, `Types` and `paths` of ARCHITECTURE.md that are gone."""
    text = (root / "ARCHITECTURE.md").read_text()
    sources = [source for folder in FOLDERS for kind in ("*.h", "*.cpp") for source in (root / folder).glob(kind)]
    words = {word for source in sources for word in re.findall(r"\w+", source.read_text())}
    named = set(re.findall(r"(\w+)\(\)", text)) | set(re.findall(r"`([A-Z][a-z]\w+)`", text))
    paths = {path for path in re.findall(r"`([\w.*-]+/[\w./*-]+)`", text) if not any(root.glob(path))}
    return [f"ARCHITECTURE.md names {name}, which is not there" for name in sorted({name for name in named if name not in words} | paths)]


def foreign_symbols(nm: str, objects: list[str]) -> list[str]:
    def symbols(kind: str) -> dict[str, str]:
        of_object = {}
        for file in objects:
            output = subprocess.run([nm, "--format=posix", kind, file], check=True, capture_output=True, text=True).stdout
            of_object |= {line.split()[0]: Path(file).name for line in output.splitlines() if line}
        return of_object

    defined = symbols("--defined-only")
    if not defined:
        return ["the objects of the wrap library define nothing at all"]
    known = defined.keys() | PROVIDED_BY_LIBC_START
    undefined = symbols("--undefined-only")
    return [f"{file} needs {name}, and libc has not started there" for name, file in sorted(undefined.items()) if name not in known]


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]).resolve()
    found = circles() + wrong_includes(root) + wrong_asio(root) + wrong_libraries(root) + wrong_links(root) + wrong_namespaces(root)
    found += shared_names(root) + leaking_braces(root) + unlisted_tests(root) + unrun_suites(root) + unlooked_folders(root) + stale_names(root)
    if arguments[1:2] == ["--nm"]:
        found += foreign_symbols(arguments[2], arguments[3:])
    for problem in found:
        print(problem, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
