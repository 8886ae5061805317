#include "programs/criadm/log_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "lib/base/next_entry.h"
#include "programs/criadm/log_reader.h"

namespace triton::program {

namespace {

constexpr std::size_t most_entries = 10'000;  // of the directory, which is kubelet's
constexpr std::size_t first_bytes = 64;       // time, stream and tag have less

/// The time of the last whole line; empty: there is none.
std::string last_time(LogFile const& file) {
    std::array<char, first_bytes> head{};
    ssize_t const size = ::pread(file.fd(), head.data(), head.size(), begin_of_last_lines(file.fd(), 1));
    std::string_view const text(head.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    auto const line = parse_log_line(text.substr(0, text.find('\n')));
    return line ? std::string(line->time) : "";
}

/// The names of a directory that begin with `prefix`. Sorted: a file is before its compressed form.
std::vector<std::string> names_with(std::string const& directory, std::string_view prefix) {
    std::vector<std::string> names;
    std::unique_ptr<DIR, int (*)(DIR*)> const opened(::opendir(directory.c_str()), ::closedir);
    for (std::size_t seen = 0; opened && seen < most_entries; ++seen) {
        auto const entry = next_entry(opened.get(), directory);
        if (!entry || !*entry) break;
        std::string_view const name((*entry)->d_name);
        // kubelet compresses into a file of that name, which is not whole before it has another one.
        if (name.starts_with(prefix) && !name.ends_with(".tmp")) names.emplace_back(name);
    }
    std::ranges::sort(names);
    return names;
}

}  // namespace

Result<LogFile> LogFile::open(std::string path) {
    UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return fail(errno, "open " + path);
    return LogFile(std::move(path), std::move(file), status);
}

Result<LogFile> LogFile::open_rotated(std::string path) {
    LogFile file = TRY(open(std::move(path)));
    file.rotated_.reset(::gzdopen(file.file_.get(), "rb"));
    if (!file.rotated_) return fail(ErrorKind::unavailable, "read " + file.path_, "out of memory");
    (void)file.file_.release();  // gzclose(3) closes it
    return file;
}

Result<std::size_t> LogFile::read(std::span<char> block) {
    if (rotated_) {
        int const size = ::gzread(rotated_.get(), block.data(), static_cast<unsigned>(block.size()));
        if (size > 0) return static_cast<std::size_t>(size);
        int code = 0;
        char const* const text = ::gzerror(rotated_.get(), &code);
        if (code == Z_OK || code == Z_STREAM_END) return std::size_t{0};
        if (code == Z_ERRNO) return fail(errno, "read " + path_);
        return fail(ErrorKind::corrupt, "read " + path_, text);
    }
    for (;;) {
        ssize_t const size = ::read(file_.get(), block.data(), block.size());
        if (size >= 0) return static_cast<std::size_t>(size);
        if (errno != EINTR) return fail(errno, "read " + path_);
    }
}

std::string LogFile::first_time() {
    std::array<char, first_bytes> head{};
    auto const size = rotated_ ? ::gzread(rotated_.get(), head.data(), head.size())
                               : ::pread(file_.get(), head.data(), head.size(), 0);
    if (rotated_) (void)::gzrewind(rotated_.get());  // what cannot be read again is reported by read()
    std::string_view const text(head.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    auto const line = parse_log_line(text.substr(0, text.find('\n')));
    return line ? std::string(line->time) : "";
}

std::vector<LogFile> rotated_between(std::string const& path, LogFile const& old, LogFile const& now) {
    std::string const after = last_time(old);
    if (after.empty()) return {};
    std::size_t const slash = path.rfind('/') + 1;
    std::string const directory = path.substr(0, slash);
    std::vector<std::pair<std::string, LogFile>> found;
    for (std::string const& name : names_with(directory.empty() ? "." : directory, path.substr(slash) + ".")) {
        auto file = LogFile::open_rotated(directory + name);
        if (!file || file->is_same(old) || file->is_same(now)) continue;
        std::string time = file->first_time();
        // Both forms of one file are there for a moment.
        bool const is_there = std::ranges::any_of(found, [&](auto const& one) { return one.first == time; });
        if (time >= after && !is_there) found.emplace_back(std::move(time), *std::move(file));
    }
    std::ranges::stable_sort(found, {}, [](auto const& one) -> std::string const& { return one.first; });
    std::vector<LogFile> files;
    for (auto& [time, file] : found)
        files.push_back(std::move(file));
    return files;
}

}  // namespace triton::program
