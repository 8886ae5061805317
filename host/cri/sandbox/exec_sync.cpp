#include "host/cri/sandbox/exec_sync.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace triton::cri {

ExecSync::ExecSync(net::Loop& loop, std::shared_ptr<MonitorLink> link, Pipe output, Pipe errors)
    : link_(std::move(link)),
      output_(loop, std::move(output.reader)),
      errors_(loop, std::move(errors.reader)),
      output_writer_(std::move(output.writer)),
      errors_writer_(std::move(errors.writer)),
      timer_(loop) {
    for (net::Descriptor* pipe : {&output_, &errors_})
        ::fcntl(pipe->fd(), F_SETFL, O_NONBLOCK);
}

void ExecSync::start(std::string const& container, std::string const& process, Duration timeout, Done done) {
    done_ = std::move(done);
    container_ = container;
    auto const self = shared_from_this();
    monitor::Message message{.kind = monitor::Kind::execute, .container = container};
    message.texts = {process};
    auto const answered = [self, process](Result<std::int64_t> const& exit_code) {
        // Not before: until then the monitor reads from them which process it is to kill.
        ::unlink(process.c_str());
        ::unlink((process + ".pid").c_str());
        self->ended(exit_code);
    };
    sequence_ = link_->ask(std::move(message), answered, {output_writer_.get(), errors_writer_.get()});
    output_writer_ = {};
    errors_writer_ = {};
    read(output_, outcome_.output);
    read(errors_, outcome_.errors);
    if (timeout <= Duration{}) return;
    timer_.call_at(steady_now() + timeout, [self, timeout] {
        self->abort();
        auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
        self->ended(fail(ErrorKind::timeout, "execute a command in container " + self->container_,
                         "it did not end within " + std::to_string(seconds) + " s"));
    });
}

void ExecSync::read(net::Descriptor& pipe, std::string& into) {
    pipe.call_when_readable([self = shared_from_this(), &pipe, &into](bool is_open) {
        if (is_open && pipe.is_open() && self->take(pipe, into)) self->read(pipe, into);
    });
}

/// Returns whether more can come.
bool ExecSync::take(net::Descriptor& pipe, std::string& into) {
    static std::array<char, 64 * 1024> buffer;
    for (int round = 0; round < 16; ++round) {
        ssize_t const size = ::read(pipe.fd(), buffer.data(), buffer.size());
        if (size < 0 && errno == EAGAIN) return true;
        if (size <= 0) return false;
        std::size_t const used = outcome_.output.size() + outcome_.errors.size();
        into.append(buffer.data(), std::min(static_cast<std::size_t>(size), most_output - std::min(used, most_output)));
    }
    return true;
}

void ExecSync::abort() {
    monitor::Message message{.kind = monitor::Kind::abort, .container = container_};
    message.numbers[0] = static_cast<std::int64_t>(sequence_);
    link_->ask(std::move(message), [](Result<std::int64_t> const& /*it is dead, or its pod is*/) {});
}

void ExecSync::abandon() {
    if (!done_) return;
    abort();
    ended(fail(ErrorKind::refused, "nobody waits for the command any more"));
}

/// What is in the pipes by now is its output. A child of it may keep them: nobody waits for that.
void ExecSync::ended(Result<std::int64_t> const& exit_code) {
    if (!done_) return;
    timer_.cancel();
    if (output_.is_open()) take(output_, outcome_.output);
    if (errors_.is_open()) take(errors_, outcome_.errors);
    output_.close();
    errors_.close();
    auto const done = std::exchange(done_, nullptr);
    if (!exit_code) return done(std::unexpected(exit_code.error()));
    outcome_.exit_code = static_cast<int>(*exit_code);
    done(std::move(outcome_));
}

}  // namespace triton::cri
