#include "lib/files/confined_path.h"

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/pipe.h"
#include "lib/base/write_all.h"

namespace triton::files {

namespace {

/// Makes a directory whose entries lead to every kind of place: inside and outside, by links and by "..".
std::string make_places() {
    std::string path = std::filesystem::temp_directory_path() / "confined.XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    std::filesystem::create_directories(path + "/root/a/b");
    std::filesystem::create_directories(path + "/root/etc");
    std::ofstream(path + "/outside") << "outside";
    std::ofstream(path + "/root/a/b/file") << "inside";
    std::ofstream(path + "/root/etc/absolute") << "absolute";
    auto const link = [&path](char const* target, char const* name) {
        std::filesystem::create_symlink(target, path + "/root/" + name);
    };
    link("a/b/file", "to-file");
    link("b/../b", "a/up-and-down");
    link("../../outside", "a/out");
    link("/etc/absolute", "to-absolute");
    link("loop", "loop");
    link("nothing", "dangling");
    link("a", "to-directory");
    return path;
}

std::string name_of(UniqueFd const& fd, std::string const& root) {
    std::string const path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd.get()));
    return path.starts_with(root) ? path.substr(root.size()) : path;
}

/// Opens each path in both ways and with different flags; returns a line for each.
std::string open_all(std::string const& place) {
    std::string const root = place + "/root";
    UniqueFd const directory{::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
    std::string lines;
    for (std::string const path : {"",
                                   ".",
                                   "/",
                                   "a",
                                   "a/",
                                   "a//b/./file",
                                   "a/b/file/",
                                   "a/b/file/x",
                                   "a/b/file/..",
                                   "a/b/..",
                                   "a/b/../..",
                                   "..",
                                   "a/../../outside",
                                   "../root/a",
                                   "/a/b/file",
                                   "/../a",
                                   "a/b/nothing",
                                   "nothing/..",
                                   "to-file",
                                   "to-file/",
                                   "a/up-and-down/file",
                                   "a/out",
                                   "to-absolute",
                                   "loop",
                                   "dangling",
                                   "to-directory/b",
                                   "to-directory/../a",
                                   "to-directory"}) {
        for (int const flags : {O_RDONLY, O_PATH, O_PATH | O_NOFOLLOW, O_RDONLY | O_DIRECTORY, O_RDONLY | O_NOFOLLOW}) {
            auto const beneath = open_beneath(directory.get(), path, static_cast<unsigned>(flags));
            auto const confined = open_confined(root, path, flags | O_CLOEXEC);
            lines += path + " " + std::to_string(flags) + ": " +
                     (beneath ? name_of(*beneath, root) : std::to_string(beneath.error())) + ", " +
                     (confined ? name_of(*confined, root) : confined.error().reason) + "\n";
        }
    }
    return lines;
}

bool refuse_openat2(unsigned error) {
    sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog const program{std::size(steps), steps};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// The same in a process whose filter does not know openat2(2).
std::string open_all_without_openat2(std::string const& place, unsigned error) {
    auto pipe = make_pipe();
    EXPECT_TRUE(pipe);
    pid_t const child = ::fork();
    if (child == 0) {
        bool const is_done = refuse_openat2(error) && write_all(pipe->writer.get(), open_all(place));
        ::_exit(is_done ? 0 : 1);
    }
    pipe->writer = UniqueFd{};
    std::string lines(std::size_t{1} << 16, '\0');
    std::size_t size = 0;
    while (ssize_t const more = ::read(pipe->reader.get(), lines.data() + size, lines.size() - size)) {
        if (more < 0) break;
        size += static_cast<std::size_t>(more);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return lines.substr(0, size);
}

}  // namespace

TEST(ConfinedPath, LeadsToTheSameFilesWithoutOpenat2) {
    std::string const place = make_places();
    std::string const expected = open_all(place);
    EXPECT_NE(expected.find("a/up-and-down/file 0: /a/b/file, /a/b/file\n"), expected.npos) << expected;
    EXPECT_NE(expected.find("a/out 0: " + std::to_string(EXDEV) + ", "), expected.npos) << expected;
    for (unsigned const error : {ENOSYS, EPERM})
        EXPECT_EQ(open_all_without_openat2(place, error), expected);
    std::filesystem::remove_all(place);
}

}  // namespace triton::files
