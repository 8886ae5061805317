#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lib/json/reader.h"

namespace triton::agent {

/// The latest events of the launcher, numbered one after the other. The oldest give way: programs decide how many
/// there are.
class UiEvents {
public:
    /// `before`: one less than the first number. An agent's are larger than those of the agent before it, so that a
    /// page notices what it has missed.
    explicit UiEvents(std::uint64_t before = 0) : last_(before) {}

    static constexpr std::size_t most = 500;
    static constexpr std::size_t most_bytes = 256 * 1024;
    static constexpr std::size_t most_bytes_of_one = 4096;

    /// A reply of Subscribe. Those that tell nothing are left out.
    void add(json::Node const& reply);
    /// The replies have ended, and others will come: an event says so, since nobody knows of those in between.
    void note_break() { is_broken_ = true; }
    [[nodiscard]] std::uint64_t last() const { return last_; }
    /// Whether who knows the events up to `after` (0: none) does not know all.
    [[nodiscard]] bool has_news_after(std::uint64_t after) const {
        return after != last_ && (after != 0 || !kept_.empty());
    }
    /// {"events": [...], "next": N, "missed": bool}: those behind `after`, as far as they are kept; all of them when
    /// there has been no such number, because the agent was started anew.
    [[nodiscard]] std::string text_after(std::uint64_t after) const;

private:
    void add_text(std::string text);

    std::deque<std::string> kept_;  // JSON
    std::size_t bytes_ = 0;
    std::uint64_t last_;
    bool is_broken_ = false;  // the stream of replies, before the next one
};

/// The configurations that were active since the agent's start, and those that were refused.
class UiConfigurations {
public:
    static constexpr std::size_t most = 16;
    static constexpr std::size_t most_bytes = 1024 * 1024;  // of all texts but the latest
    static constexpr std::size_t most_reasons = 20;
    static constexpr std::size_t most_bytes_of_reason = 1024;

    /// A reply of WatchConfiguration. The environment in it is not kept.
    void add(json::Node const& reply);
    /// {"configurations": [...], "rejections": [...]}, the latest last.
    [[nodiscard]] std::string text() const;

private:
    struct Active {
        std::string text;
        std::string accepted_at;  // JSON
    };
    struct Rejected {
        std::vector<std::string> reasons;
        std::string rejected_at;  // JSON
        bool operator==(Rejected const&) const = default;
    };
    void add_active(json::Node const& reply);
    void add_rejected(json::Node const& reply);

    std::deque<Active> active_;
    std::deque<Rejected> rejected_;
    std::size_t bytes_ = 0;
};

}  // namespace triton::agent
