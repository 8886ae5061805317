#include "host/cri/monitor/container_log.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace triton::cri::monitor {

void LogStream::write(std::string_view text, char tag, std::string_view time, std::string& out) const {
    out.append(time).append(" ").append(name_).append(" ").append(1, tag).append(" ").append(text).append("\n");
}

void LogStream::add(std::string_view bytes, std::int64_t nanoseconds, std::string& out) {
    std::string const time = log_time(nanoseconds);
    while (!bytes.empty()) {
        std::size_t const room = log_piece_bytes - rest_.size();
        // A newline right behind a full piece still belongs to it.
        if (std::size_t const newline = bytes.substr(0, room + 1).find('\n'); newline != std::string_view::npos) {
            rest_ += bytes.substr(0, newline);
            bytes.remove_prefix(newline + 1);
            write(rest_, 'F', time, out);
        } else if (bytes.size() <= room) {
            rest_ += bytes;
            return;
        } else {
            rest_ += bytes.substr(0, room);
            bytes.remove_prefix(room);
            write(rest_, 'P', time, out);
        }
        rest_.clear();
    }
}

void LogStream::end(std::int64_t nanoseconds, std::string& out) {
    if (rest_.empty()) return;
    write(rest_, 'F', log_time(nanoseconds), out);
    rest_.clear();
}

std::int64_t wall_nanoseconds() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string log_time(std::int64_t nanoseconds) {
    auto const second = static_cast<std::time_t>(nanoseconds / 1'000'000'000);
    std::tm parts{};
    ::gmtime_r(&second, &parts);
    std::array<char, 48> text{};
    int const size = std::snprintf(text.data(), text.size(), "%04d-%02d-%02dT%02d:%02d:%02d.%09dZ",
                                   parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                                   parts.tm_sec, static_cast<int>(nanoseconds % 1'000'000'000));
    return {text.data(), static_cast<std::size_t>(size)};
}

Result<ContainerLog> ContainerLog::open(std::string path) {
    ContainerLog log(std::move(path));
    if (log.path_.empty()) return log;
    std::error_code ignored;  // open() says it
    std::filesystem::create_directories(std::filesystem::path(log.path_).parent_path(), ignored);
    TRY(log.reopen());
    return log;
}

Result<> ContainerLog::reopen() {
    if (path_.empty()) return {};
    // The directory is kubelet's, and no container sees it; a link there is followed by nobody nevertheless.
    UniqueFd file{::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640)};
    if (!file) return fail(errno, "open " + path_);
    file_ = std::move(file);
    is_cut_ = false;
    return {};
}

void ContainerLog::write(std::string_view text) {
    if (!file_) return;
    std::string whole;
    if (is_cut_) {  // what follows a piece of a line begins in a line of its own
        whole.append("\n").append(text);
        text = whole;
    }
    while (!text.empty()) {
        ssize_t const written = ::write(file_.get(), text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        is_cut_ = text[static_cast<std::size_t>(written) - 1] != '\n';
        text.remove_prefix(static_cast<std::size_t>(written));
    }
}

}  // namespace triton::cri::monitor
