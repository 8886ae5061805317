#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace triton::sidecar::control {

enum class AgentLogLevel : std::uint8_t { debug, info, warning, error };

/// One line of JSON an event, as the launcher's own log has it: time, level, event, message, then fields.
///
/// Whoever reads our standard output may stop reading. So nothing is written that would have to wait: what a full pipe
/// does not take is dropped, and counted in the next line that gets through.
class AgentLog {
public:
    struct Field {
        std::string_view name;
        std::string_view value;
    };

    /// `fd` is borrowed.
    explicit AgentLog(int fd, AgentLogLevel level) : fd_(fd), level_(level) {}

    [[nodiscard]] bool is_enabled(AgentLogLevel level) const { return level >= level_; }
    void write(AgentLogLevel level, std::string_view event, std::string_view message,
               std::initializer_list<Field> fields = {});

private:
    int fd_;
    AgentLogLevel level_;
    std::uint64_t dropped_ = 0;
};

}  // namespace triton::sidecar::control
