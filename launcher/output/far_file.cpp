#include "launcher/output/far_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "launcher/output/message_socket.h"

namespace triton::launcher {

using std::chrono::steady_clock;

namespace {

constexpr int most_answers = 64;  // in one go; a writer that was taken over by somebody may send without end
constexpr std::size_t longest_told = 8192;
constexpr std::size_t longest_message = 1 + FarFile::longest_text;

/// As much of the text as a message can have: whole lines, where one fits.
std::string_view first_message(std::string_view text) {
    if (text.size() <= FarFile::longest_text) return text;
    std::size_t const newline = text.rfind('\n', FarFile::longest_text - 1);
    return text.substr(0, newline == text.npos ? FarFile::longest_text : newline + 1);
}

ssize_t receive(int channel, std::span<char> buffer) {
    ssize_t size = -1;
    do {
        size = ::recv(channel, buffer.data(), buffer.size(), MSG_DONTWAIT);
    } while (size < 0 && errno == EINTR);
    return size;
}

}  // namespace

// The writer.

/// A child that is on its way to execve has the channel, too: closing it would not be its end.
FarFile::~FarFile() {
    if (channel_) (void)::shutdown(channel_.get(), SHUT_RDWR);
}

Result<> FarFile::begin() { return start_writer(); }

Result<> FarFile::start_writer() {
    next_start_ = steady_clock::now() + between_starts;
    connect(TRY(start_(settings())));
    is_to_open_ = false;  // it begins with that
    return {};
}

void FarFile::connect(UniqueFd channel) {
    channel_ = std::move(channel);
    is_ending_ = false;
    moved_at_ = steady_clock::now();
    auto watch = loop_.on_readable(channel_.get(), [this] {
        read_answers();
        if (!channel_) flush();
        if (auto const moved = moved_) moved();  // a copy: it may drop this
    });
    if (watch) watch_ = std::move(*watch);  // without one, answers are read when something is sent
}

void FarFile::adopt(UniqueFd channel, std::size_t sent) {
    adopted_ = sent;
    connect(std::move(channel));
}

/// All that was sent and not confirmed is to be sent again.
void FarFile::lose_writer() {
    watch_ = {};
    channel_ = {};
    sent_ = confirmed_;
    told_ = {};
}

void FarFile::let_writer_end() {
    is_to_end_ = true;
    flush();
}

// To it.

Result<> FarFile::open() {
    is_to_open_ = true;
    flush();
    return {};
}

void FarFile::write(std::string_view text) {
    if (text.empty()) return;
    if (pending() == 0) moved_at_ = steady_clock::now();
    is_mid_line_ = text.back() != '\n';
    if (confirmed_ > capacity / 2) {
        text_.erase(0, confirmed_);
        sent_ -= std::exchange(confirmed_, 0);
    }
    text_ += text;
    send();
}

void FarFile::flush() {
    if (channel_) read_answers();
    bool const is_needed = pending() > 0 || is_to_open_;
    if (!channel_ && is_needed && steady_clock::now() >= next_start_) {
        Result<> started = start_writer();
        own_ = started ? Error{} : std::move(started.error());
    }
    send();
    see_whether_it_answers();
}

void FarFile::drain(milliseconds limit) {
    auto const deadline = steady_clock::now() + limit;
    if (!channel_) next_start_ = {};
    flush();
    while (pending() > 0) {
        auto const left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
        if (left.count() <= 0) return;
        pollfd waits{channel_.get(), POLLIN, 0};
        (void)::poll(&waits, 1, static_cast<int>(left.count()));
        flush();
    }
}

void FarFile::send() {
    if (!channel_ || is_ending_) return;
    // A writer that has gone shows at the next look for answers.
    if (is_to_open_ && !send_message(channel_.get(), "o", {})) return;
    is_to_open_ = false;
    while (sent_ < text_.size()) {
        std::string_view const part = first_message(std::string_view(text_).substr(sent_));
        if (!send_message(channel_.get(), "w", part)) return;
        sent_ += part.size();
    }
    if (is_to_end_) is_ending_ = ::shutdown(channel_.get(), SHUT_WR) == 0;
}

// From it.

void FarFile::read_answers() {
    std::array<char, longest_told> buffer;
    for (int count = 0; count < most_answers; ++count) {
        ssize_t const size = receive(channel_.get(), buffer);
        if (size < 0 && errno == EAGAIN) return;
        if (size < 0 && errno == ECONNRESET) continue;  // it has gone; what it has said comes after that
        if (size <= 0) return lose_writer();
        take_answer({buffer.data(), static_cast<std::size_t>(size)});
    }
}

void FarFile::take_answer(std::string_view answer) {
    bool const is_count = answer.starts_with("a ");
    if (!is_count && !answer.starts_with("e ")) return;
    answer.remove_prefix(2);
    auto const number = take_number(answer, '\n');
    if (!number) return;
    if (is_count) {
        confirmed_ += std::min<std::uint64_t>(*number, sent_ - confirmed_);
        moved_at_ = steady_clock::now();
        own_ = {};
        if (pending() > 0) return;
        confirmed_ = sent_ = 0;
        text_.capacity() > capacity / 2 ? void(text_ = {}) : text_.clear();
        return;
    }
    std::size_t const end = answer.find('\n');
    told_ = {};
    if (*number == 0 || end == std::string_view::npos) return;
    told_ = {ErrorKind::internal, std::string(answer.substr(0, end)), std::string(answer.substr(end + 1)), {}};
    told_.code = static_cast<int>(*number);
}

void FarFile::see_whether_it_answers() {
    if (pending() == 0 || own_.code != 0 || steady_clock::now() < moved_at_ + time_to_answer) return;
    own_ = fail(ErrorKind::unavailable, "write to " + settings().path, "the file system does not answer").error();
    own_.code = ETIMEDOUT;
}

void FarFile::restore(std::string_view waiting, bool is_mid_line) {
    text_.assign(waiting);
    confirmed_ = 0;
    sent_ = std::min(std::exchange(adopted_, 0), text_.size());
    is_mid_line_ = is_mid_line;
    moved_at_ = steady_clock::now();
    send();
}

// The writer's end.

namespace {

constexpr milliseconds between_tries{1000};

class Writer {
public:
    Writer(int channel, LogFile& file) : channel_(channel), file_(file) {}

    void run() {
        if (!open_first()) return;
        while (!is_at_end_ || file_.pending() > 0) {
            bool const reads = !is_at_end_ && file_.has_room(FarFile::longest_text);
            bool const is_to_try = file_.pending() > 0 || !is_all_told_;
            short const seen = wait_for(reads ? POLLIN : 0, is_to_try);
            if (reads && seen != 0)
                take();
            else
                file_.flush();
            tell();
            if (!reads && (seen & POLLHUP) != 0) return;  // nobody waits for what is left
        }
    }

private:
    short wait_for(short events, bool is_to_try) const {
        pollfd waits{channel_, events, 0};
        int const count = ::poll(&waits, 1, is_to_try ? static_cast<int>(between_tries.count()) : -1);
        return count > 0 ? waits.revents : short{0};
    }

    bool open_first() {
        for (;;) {
            Result<> opened = file_.open();
            if (opened) break;
            note(std::move(opened.error()), true);
            tell();
            if ((wait_for(0, true) & POLLHUP) != 0) return false;
        }
        open_error_ = {};
        tell();
        return true;
    }

    /// By its code an error is told from none.
    void note(Error error, bool is_error) {
        open_error_ = std::move(error);
        if (is_error && open_error_.code == 0) open_error_.code = EPERM;
    }

    void take() {
        ssize_t const size = receive(channel_, buffer_);
        if (size < 0 && errno == EAGAIN) return;
        if (size <= 0) {
            is_at_end_ = true;
            return;
        }
        std::string_view const message{buffer_.data(), static_cast<std::size_t>(size)};
        if (message.front() == 'o') {
            Result<> opened = file_.open();
            note(opened ? Error{} : std::move(opened.error()), !opened);
            file_.flush();
        } else if (message.front() == 'w') {
            taken_ += message.size() - 1;
            file_.write(message.substr(1));
        }
    }

    void tell() {
        is_all_told_ = true;
        std::size_t const written = taken_ - file_.pending();
        if (written > confirmed_) {
            if (send_message(channel_, "a ", std::to_string(written - confirmed_)))
                confirmed_ = written;
            else
                is_all_told_ = false;
        }
        Error const& error = open_error_.code != 0 ? open_error_ : file_.error();
        if (error.code == told_.code && error.attempted == told_.attempted) return;
        std::string const text = std::to_string(error.code) + "\n" + error.attempted + "\n" + error.reason;
        if (send_message(channel_, "e ", text))
            told_ = error;
        else
            is_all_told_ = false;
    }

    int channel_;
    LogFile& file_;
    std::array<char, longest_message> buffer_{};
    std::size_t taken_ = 0;
    std::size_t confirmed_ = 0;
    bool is_at_end_ = false;
    bool is_all_told_ = true;
    Error open_error_;
    Error told_;
};

}  // namespace

Result<UniqueFd> start_writer(StartCompanion const& start, std::string const& path,
                              std::function<void(int channel)> const& work) {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return fail(errno, "make a channel to the writer of " + path);
    UniqueFd ours{ends[0]};
    UniqueFd const theirs{ends[1]};
    TRY(start(
        theirs.get(),
        [&] {
            (void)::prctl(PR_SET_NAME, "log-writer");
            work(theirs.get());
        }));
    return ours;
}

void write_for_other(int channel, LogFile& file) { Writer(channel, file).run(); }

}  // namespace triton::launcher
