#include "launcher/output/line_watches.h"

#include <algorithm>
#include <utility>

namespace triton::launcher {

std::vector<LineWatches::Watch>::iterator LineWatches::find(OutputKey process) {
    return std::ranges::lower_bound(watches_, process, {}, &Watch::process);
}

void LineWatches::begin(OutputKey process, std::uint64_t id, config::LogStream stream) {
    end(process);
    std::uint64_t const first =
        std::min(output_.run_begin(process, OutputStream::out), output_.run_begin(process, OutputStream::err));
    bool const is_known = first != UINT64_MAX;  // else what an earlier run has left is still to be read
    std::uint64_t const next = is_known ? first : output_.kept(process.program).next;
    watches_.insert(find(process), Watch{.process = process, .id = id, .next = next, .stream = stream});
    ++behind_;
}

void LineWatches::end(OutputKey process) {
    auto const found = find(process);
    if (found == watches_.end() || found->process != process) return;
    behind_ -= found->is_behind ? 1 : 0;
    watches_.erase(found);
}

void LineWatches::clear() {
    watches_ = {};
    behind_ = 0;
}

void LineWatches::take(std::uint32_t program, LogChunk const& chunk) {
    if (watches_.empty()) return;
    auto const watch = find({program, chunk.process});
    if (watch == watches_.end() || watch->process != OutputKey{program, chunk.process} || watch->is_behind) return;
    if (!calls_.has_room()) return fall_behind(*watch);
    watch->next = chunk.sequence + 1;
    if (!chunk.is_left_over) send(*watch, chunk);
}

void LineWatches::fall_behind(Watch& watch) {
    watch.is_behind = true;
    ++behind_;
}

void LineWatches::catch_up() {
    std::size_t reads = 0;
    for (std::size_t seen = 0; is_to_catch_up() && seen < watches_.size() && reads < most_reads; ++seen) {
        turn_ = turn_ < watches_.size() ? turn_ : 0;
        Watch& watch = watches_[turn_++];
        if (!watch.is_behind) continue;
        ++reads;
        read_ring(watch);
    }
}

void LineWatches::read_ring(Watch& watch) {
    if (watch.next < output_.kept(watch.process.program).first) {
        watch.is_mid_out = watch.is_mid_err = false;
        if (!std::exchange(watch.has_missed, true)) calls_.missed(watch.process);
    }
    bool has_room = true;
    watch.next = output_.read_log(watch.process.program, watch.next, [&](LogChunk const& chunk) {
        bool const is_its_run =
            chunk.process == watch.process.process && chunk.sequence >= output_.run_begin(watch.process, chunk.stream);
        if (is_its_run) send(watch, chunk);
        has_room = calls_.has_room();
        return has_room;
    });
    if (!has_room) return;
    watch.is_behind = false;
    --behind_;
}

/// Sends the lines of a chunk. Of a line that goes on over several chunks only the beginning is sent.
void LineWatches::send(Watch& watch, LogChunk const& chunk) {
    bool const is_err = chunk.stream == OutputStream::err;
    bool& is_mid = is_err ? watch.is_mid_err : watch.is_mid_out;
    bool const begins_mid = std::exchange(is_mid, chunk.is_partial);
    if (watch.stream != config::LogStream::both && (watch.stream == config::LogStream::err) != is_err) return;
    lines_.clear();
    std::string_view rest = chunk.text;
    if (begins_mid) rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
    while (!rest.empty()) {
        std::size_t const end = std::min(rest.find('\n'), rest.size());
        lines_.push_back(rest.substr(0, std::min(end, longest_shown)));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (!lines_.empty()) calls_.send(watch.id, lines_);
}

}  // namespace triton::launcher
