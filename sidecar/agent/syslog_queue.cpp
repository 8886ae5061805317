#include "sidecar/agent/syslog_queue.h"

#include <charconv>
#include <cstddef>
#include <utility>

namespace triton::agent {

std::optional<SyslogOrder> parse_syslog_order(std::string_view message) {
    SyslogOrder order;
    auto const [end, error] = std::from_chars(message.data(), message.data() + message.size(), order.number);
    message.remove_prefix(static_cast<std::size_t>(end - message.data()));
    if (error != std::errc{} || order.number == 0 || !message.starts_with(' ')) return std::nullopt;
    message.remove_prefix(1);
    std::size_t const space = message.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == message.size()) return std::nullopt;
    order.address = message.substr(0, space);
    order.text = message.substr(space + 1);
    return order;
}

bool SyslogQueue::push(std::string_view text) {
    if (texts_.size() == most_messages || bytes_ + text.size() > most_bytes) return false;
    texts_.emplace_back(text);
    bytes_ += text.size();
    return true;
}

SyslogQueue::Batch SyslogQueue::batch() const {
    Batch batch;
    for (auto next = texts_.begin() + static_cast<std::ptrdiff_t>(handed_over_); next != texts_.end(); ++next) {
        std::string const& text = *next;
        batch.bytes.append(std::to_string(text.size())).append(" ").append(text);
        ++batch.count;
        if (batch.bytes.size() >= batch_bytes) break;
    }
    return batch;
}

std::size_t SyslogQueue::settle() {
    std::size_t const count = std::exchange(handed_over_, 0);
    for (std::size_t i = 0; i < count; ++i) {
        bytes_ -= texts_.front().size();
        texts_.pop_front();
    }
    return count;
}

std::string SyslogAnswers::take(bool with_lost) {
    std::string lines;
    if (begun_ > 0) lines += "begin " + std::to_string(std::exchange(begun_, 0)) + "\n";
    std::uint64_t const lost = with_lost ? std::exchange(lost_, 0) : 0;
    std::uint64_t const done = std::exchange(done_, 0) + lost;
    if (done > 0) lines += "done " + std::to_string(done) + " " + std::to_string(lost) + "\n";
    return lines;
}

}  // namespace triton::agent
