#include "sidecar/control/log.h"

#include <array>
#include <cerrno>
#include <ctime>

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "lib/json/writer.h"

namespace triton::sidecar::control {

namespace {

constexpr std::array<std::string_view, 4> level_names{"debug", "info", "warning", "error"};
constexpr std::size_t longest_value = 512;

/// "2026-11-21T11:32:50.123456Z"
std::string time_text() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    std::tm parts{};
    ::gmtime_r(&now.tv_sec, &parts);
    std::array<char, 32> text{};
    std::size_t const size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    std::string const micros = std::to_string(1'000'000 + now.tv_nsec / 1000);
    return std::string(text.data(), size) + "." + micros.substr(1) + "Z";
}

void append(json::Writer& line, std::string_view name, std::string_view value) {
    line.name(name).value(value.substr(0, longest_value));
}

}  // namespace

void AgentLog::write(AgentLogLevel level, std::string_view event, std::string_view message,
                     std::initializer_list<Field> fields) {
    if (!is_enabled(level)) return;
    // poll(2) says that a pipe is writable when it takes PIPE_BUF bytes; no more than that is written then.
    pollfd polled{fd_, POLLOUT, 0};
    if (::poll(&polled, 1, 0) != 1 || (polled.revents & POLLOUT) == 0) {
        ++dropped_;
        return;
    }
    json::Writer out;
    out.open('{');
    append(out, "time", time_text());
    append(out, "level", level_names[static_cast<std::size_t>(level)]);
    append(out, "event", event);
    append(out, "message", message);
    if (dropped_ > 0) out.member("dropped", dropped_);
    for (Field const& field : fields) {
        std::size_t const before = out.size();
        append(out, field.name, field.value);
        if (out.size() > PIPE_BUF - 2) {  // a pipe that is nearly full might cut a longer line
            out.rewind(before);
            break;
        }
    }
    std::string const line = out.close('}').text() + "\n";
    if (::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size())) {
        dropped_ = 0;
    } else {
        ++dropped_;
    }
}

}  // namespace triton::sidecar::control
