#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/event_loop.h"
#include "lib/base/unique_fd.h"
#include "lib/json/writer.h"
#include "lib/varlink/socket.h"

namespace triton::varlink {

class Session;

/// How a connection is closed. Descriptors that its peer has sent may lie in it, and the last reference to a file may
/// take as long to close as its owner likes: code that must not wait leaves that to another process.
using Closer = std::function<void(UniqueFd connection)>;

/// What a session may call, as the service numbers them from 0.
enum class Role : std::uint8_t {};

/// What a call still owes after its handler has returned, until it has its last answer. A session has one at most: the
/// calls behind it wait. Each kind has a `static constexpr std::uint8_t tag` of its own, by which it is found again.
class Job {
public:
    explicit Job(std::uint8_t its_tag) : tag(its_tag) {}
    Job(Job const&) = delete;
    Job& operator=(Job const&) = delete;
    virtual ~Job() = default;

    /// Whether run() has something to do now.
    [[nodiscard]] virtual bool is_due() const { return false; }
    /// Whether it reaches its last answer without anything happening outside; it is due until then.
    [[nodiscard]] virtual bool is_answering() const { return false; }
    /// Does one step, within the work that the server has left in this round.
    virtual void run(Session& session) { (void)session; }
    /// Whether the number of lost messages may be reported now: not while older ones are still to be sent.
    [[nodiscard]] virtual bool may_tell_lost() const { return true; }
    /// Members that the method's reply needs beside `lost`.
    virtual void write_lost_members(json::Writer& out) const { (void)out; }

    std::uint8_t const tag;
};

/// The server's end of a connection: its bytes in and out, and the call in hand. The server knows what the bytes mean.
class Session {
public:
    enum class Interest : std::uint8_t { none, input, output };

    /// `closer` (borrowed) takes the connection at its end; null: it is closed here.
    Session(UniqueFd fd, Peer const& peer, Role role, TimePoint now, Closer const* closer = nullptr)
        : peer_(peer), role_(role), last_active_(now), fd_(std::move(fd)), closer_(closer) {}

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] Peer const& peer() const { return peer_; }
    [[nodiscard]] Role role() const { return role_; }

    /// Receives once, as far as the limit goes. Ends the session when that fails, and when descriptors come.
    void receive(std::size_t limit, TimePoint now);
    [[nodiscard]] bool has_message() const { return message_end_ != std::string::npos; }
    [[nodiscard]] bool has_input_room(std::size_t limit) const { return input_.size() < limit; }
    [[nodiscard]] bool is_input_full(std::size_t limit) const { return input_.size() >= limit && !has_message(); }
    [[nodiscard]] bool has_partial_message() const { return !input_.empty() && !has_message(); }
    [[nodiscard]] TimePoint partial_since() const { return partial_since_; }
    /// The next message, without its NUL.
    std::string take_message(TimePoint now);

    /// Whether there is room for more, below a limit.
    [[nodiscard]] bool has_room(std::size_t size, std::size_t limit) const { return pending() + size <= limit; }
    [[nodiscard]] std::size_t pending() const { return output_.size() - written_; }
    /// The output, to append to; `now` is when the reader's time begins.
    std::string& output(TimePoint now);
    /// Sends what the reader takes. Ends the session when the reader is gone.
    void flush(TimePoint now);
    [[nodiscard]] TimePoint progress_at() const { return progress_at_; }
    /// How long the reader has left data unread. One system call.
    [[nodiscard]] Duration deaf_for(TimePoint now) const;
    /// Has flush() note when the reader had taken everything; without it deaf_for() is not to be asked.
    void watch_reader() { is_reader_watched_ = true; }

    void end();
    /// The connection goes on without the session, which ends.
    [[nodiscard]] UniqueFd release();
    [[nodiscard]] bool has_input() const { return !input_.empty(); }
    [[nodiscard]] bool is_dead() const { return !fd_; }
    [[nodiscard]] bool is_at_end() const { return is_at_end_; }  // the other side sends no more
    [[nodiscard]] TimePoint last_active() const { return last_active_; }

    [[nodiscard]] Job* job() const { return job_.get(); }
    /// Replaces the job in hand, which lives on until drop_ended_jobs(): it may be the caller.
    void begin(std::unique_ptr<Job> job);
    void end_job() { begin(nullptr); }
    void drop_ended_jobs() { ended_jobs_.clear(); }

    bool wants_more = false;  // of the call in hand
    bool is_oneway = false;   // likewise
    bool is_closing = false;  // as soon as the output is written
    std::uint64_t lost = 0;   // messages since there was room last
    Interest interest = Interest::none;
    EventLoop::Watch watch;

private:
    void find_message(std::size_t from, TimePoint now);
    [[nodiscard]] bool has_unread() const;

    Peer peer_;
    Role role_;
    std::string input_;
    std::size_t message_end_ = std::string::npos;
    TimePoint partial_since_{};
    std::string output_;
    std::size_t written_ = 0;
    TimePoint progress_at_{};
    TimePoint unread_since_{};
    TimePoint last_active_;
    bool is_at_end_ = false;
    bool is_reader_watched_ = false;
    std::unique_ptr<Job> job_;
    std::vector<std::unique_ptr<Job>> ended_jobs_;
    UniqueFd fd_;
    Closer const* closer_;
};

}  // namespace triton::varlink
