#include "launcher/services/check_output.h"

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace triton::launcher {

namespace {

constexpr int most_reads_at_the_end = 16;  // more than a pipe holds; the check decides how much there is

void keep_end(std::string& text, std::string_view more) {
    if (more.size() >= CheckOutput::longest) {
        text.assign(more.substr(more.size() - CheckOutput::longest));
        return;
    }
    std::size_t const whole = text.size() + more.size();
    if (whole > CheckOutput::longest) text.erase(0, whole - CheckOutput::longest);
    text += more;
}

}  // namespace

Result<int> CheckOutput::begin(Key key) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno, "make a pipe for the output of a check");
    checks_.erase(key);
    Check& check = checks_[key];
    check.read_end = UniqueFd(ends[0]);
    check.write_end = UniqueFd(ends[1]);
    if (Result<> const watched = watch(check); !watched) {
        checks_.erase(key);
        return std::unexpected(watched.error());
    }
    return check.write_end.get();
}

/// Our end alone is never waited for: the check's own waits as any pipe does.
Result<> CheckOutput::watch(Check& check) {
    (void)::fcntl(check.read_end.get(), F_SETFL, O_NONBLOCK);
    check.watch = TRY(loop_.on_readable(
        check.read_end.get(),
        [&check] {
            if (read(check) == 0) check.watch = {};  // the last writer has gone
        }));
    return {};
}

/// Reads a piece, as read(2) does.
ssize_t CheckOutput::read(Check& check) {
    std::array<char, 4096> bytes{};
    ssize_t const size = ::read(check.read_end.get(), bytes.data(), bytes.size());
    if (size > 0) keep_end(check.text, {bytes.data(), static_cast<std::size_t>(size)});
    return size;
}

void CheckOutput::end_start(Key key) {
    auto const found = checks_.find(key);
    if (found != checks_.end()) found->second.write_end = UniqueFd();
}

std::string CheckOutput::end(Key key) {
    auto const found = checks_.find(key);
    if (found == checks_.end()) return {};
    Check& check = found->second;
    check.write_end = UniqueFd();
    int left = most_reads_at_the_end;
    while (read(check) > 0 && --left > 0) {
    }
    std::string text = std::move(check.text);
    checks_.erase(found);
    return text;
}

std::vector<CheckOutput::Open> CheckOutput::export_state() const {
    std::vector<Open> open;
    for (auto const& [key, check] : checks_)
        open.push_back({key, check.read_end.get(), check.text});
    return open;
}

void CheckOutput::import_state(std::vector<Open> open) {
    for (Open& one : open) {
        Check& check = checks_[one.key];
        check.read_end = UniqueFd(one.read_end);
        check.text = std::move(one.text);
        (void)watch(check);  // without it the check may wait for room; its time limit ends that
    }
}

}  // namespace triton::launcher
