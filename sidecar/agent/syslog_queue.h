#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace triton::agent {

/// One message of the launcher's, "NUMBER ADDRESS TEXT". Borrowed.
struct SyslogOrder {
    std::uint64_t number = 0;
    std::string_view address;
    std::string_view text;

    bool operator==(SyslogOrder const&) const = default;
};
/// nullopt: it is not of that form.
std::optional<SyslogOrder> parse_syslog_order(std::string_view message);

/// Messages that wait for one daemon, up to `most_messages` and `most_bytes`. The first ones may be handed over: they
/// stay until they are settled, or wait again.
class SyslogQueue {
public:
    static constexpr std::size_t most_messages = 4096;
    static constexpr std::size_t most_bytes = 1 << 20;
    static constexpr std::size_t batch_bytes = 64 << 10;

    /// Returns whether there was room.
    bool push(std::string_view text);
    [[nodiscard]] bool is_empty() const { return texts_.empty(); }

    struct Batch {
        std::string bytes;  ///< "LENGTH TEXT" of each. Source: RFC 6587, 3.4.1; RFC 5425, 4.3.
        std::size_t count = 0;
    };
    /// The first ones that wait, about as many bytes as that, and at least one if one waits.
    [[nodiscard]] Batch batch() const;
    void hand_over(std::size_t count) { handed_over_ = std::min(handed_over_ + count, texts_.size()); }
    /// Removes what is handed over. Returns how many those were.
    std::size_t settle();
    void take_back() { handed_over_ = 0; }
    [[nodiscard]] std::size_t handed_over() const { return handed_over_; }
    [[nodiscard]] std::size_t waiting() const { return texts_.size() - handed_over_; }

private:
    std::deque<std::string> texts_;
    std::size_t handed_over_ = 0;
    std::size_t bytes_ = 0;
};

/// Collects what the launcher is told about messages that it need not wait for any more.
class SyslogAnswers {
public:
    void begin(std::uint64_t number) { begun_ = number; }
    void sent(std::uint64_t count) { done_ += count; }
    void lost(std::uint64_t count) { lost_ += count; }
    [[nodiscard]] bool has_lost() const { return lost_ > 0; }

    /// The lines to write, which are told then. `with_lost`: losses, too, which are to be told only now and then.
    [[nodiscard]] std::string take(bool with_lost);

private:
    std::uint64_t begun_ = 0;
    std::uint64_t done_ = 0;
    std::uint64_t lost_ = 0;
};

}  // namespace triton::agent
