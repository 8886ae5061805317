#include "lib/http/grpc/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>

#include "lib/net/transport.h"

namespace triton::http::grpc {

namespace {

using log::LogLevel;
using net::Task;

constexpr std::size_t read_bytes = 16 * 1024;
constexpr std::size_t write_bytes = 256 * 1024;
constexpr std::size_t most_read_ahead = 64 * 1024;                 // while the peer takes no answers
constexpr Duration shortest_wait = std::chrono::milliseconds(10);  // of the timer of a connection
constexpr Duration accept_pause = std::chrono::milliseconds(100);  // when descriptors have run out
constexpr Duration idle_before_eviction =
    std::chrono::milliseconds(500);  // a client may be about to make its first call

/// A new connection; an empty one when none is waiting. Errors: those of accept4(2) that matter.
Result<UniqueFd> accept_from(int listener) {
    UniqueFd socket{::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    int const err = errno;
    bool const is_nothing = err == EAGAIN || err == EINTR || err == ECONNABORTED;
    if (socket || is_nothing) return socket;
    return fail(err, "accept a connection");
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Impl> {
public:
    Impl(ServerLimits const& limits, Surroundings around) : limits_(limits), around_(std::move(around)) {}

    void listen(UniqueFd socket) {
        (void)::fcntl(socket.get(), F_SETFL, O_NONBLOCK);  // its flags are no others
        auto listener = std::make_shared<net::Descriptor>(around_.loop, std::move(socket));
        listeners_.push_back(listener);
        net::spawn(around_.loop, accept(shared_from_this(), listener));
    }

    void stop(std::function<void()> stopped) {
        stopped_ = std::move(stopped);
        is_stopping_ = true;
        for (auto const& listener : listeners_)
            listener->close();
        auto const all = connections_;
        for (auto const& connection : all)
            connection->begin_shutdown();
        tell_if_stopped();
    }

    /// Drops all: their tasks end when they run next.
    void abandon() {
        stopped_ = nullptr;
        stop(nullptr);
        for (auto const& connection : std::list(connections_))
            connection->break_off();
    }

    [[nodiscard]] std::size_t open_connections() const { return connections_.size(); }

private:
    class Connection : public std::enable_shared_from_this<Connection> {
    public:
        Connection(Impl& server, std::unique_ptr<net::Transport> transport)
            : server_(server),
              transport_(std::move(transport)),
              has_output_(server.around_.loop),
              has_written_(server.around_.loop),
              timer_(server.around_.loop),
              idle_since_(steady_now()),
              session_(server.limits_.session, {.serve = server.around_.serve,
                                                .has_output = [this] { wake(); },
                                                .now = steady_now,
                                                .memory = server.memory_}) {}

        void start() {
            net::spawn(server_.around_.loop, run_guarded(shared_from_this(), &Connection::write));
            net::spawn(server_.around_.loop, run_guarded(shared_from_this(), &Connection::read));
        }
        void begin_shutdown() {
            session_.begin_shutdown();
            wake();
        }
        void break_off() {
            is_ending_ = true;
            transport_->close();
            has_output_.notify_all();
            has_written_.notify_all();
        }
        /// Whether it may give way to another one.
        [[nodiscard]] bool is_idle() const {
            return !is_ending_ && session_.open_calls() == 0 && steady_now() - idle_since_ > idle_before_eviction;
        }
        [[nodiscard]] TimePoint idle_since() const { return idle_since_; }

    private:
        using Part = Task<> (Connection::*)();

        /// Both tasks of a connection end together; the last one removes it.
        static Task<> run_guarded(std::shared_ptr<Connection> self, Part part) {
            auto const server = self->server_.shared_from_this();
            ++self->tasks_;
            try {
                co_await (self.get()->*part)();
            } catch (std::exception const& error) {  // of memory
                server->around_.log.write(LogLevel::error, "connection-failed", error.what());
            }
            self->break_off();
            if (--self->tasks_ == 0) server->remove(self);
        }

        Task<> read() {
            std::vector<char> buffer(read_bytes);
            while (!is_ending_) {
                // A client that takes no answers is not read from: what we owe it stays bounded.
                while (!is_ending_ && is_writing_ && read_ahead_ > most_read_ahead)
                    co_await has_written_.wait();
                if (is_ending_) break;
                std::size_t const size = co_await transport_->read_some(buffer);
                if (size == 0) break;
                if (is_writing_) read_ahead_ += size;
                bool const goes_on = session_.receive({buffer.data(), size});
                if (session_.open_calls() == 0) idle_since_ = steady_now();
                wake();
                if (!goes_on) break;
            }
            is_ending_ = true;
            has_output_.notify_all();
            // The last answer, or why the client is sent away, goes out before the connection is closed.
            while (transport_->is_open() && (is_writing_ || has_more_))
                co_await has_written_.wait();
        }

        Task<> write() {
            while (transport_->is_open()) {
                std::string const output = session_.take_output(write_bytes);
                has_more_ = !output.empty();
                if (output.empty()) {
                    if (is_ending_ || session_.is_over()) break;
                    co_await has_output_.wait();
                    continue;
                }
                is_writing_ = true;
                transport_->expires_after(server_.limits_.answer);
                bool const goes_on = co_await transport_->write(output);
                transport_->expires_never();
                is_writing_ = false;
                read_ahead_ = 0;
                has_written_.notify_all();
                if (!goes_on) break;
            }
            has_more_ = false;
            if (!session_.complaint().empty())
                server_.around_.log.write(LogLevel::warning, "client-sent-away", session_.complaint());
        }

        void wake() {
            has_more_ = true;
            has_output_.notify_all();
            arm();
        }

        void arm() {
            TimePoint const next = session_.next_deadline();
            if (next == TimePoint::max()) return timer_.cancel();
            timer_.call_at(std::max(next, steady_now() + shortest_wait), [weak = weak_from_this()] {
                auto const self = weak.lock();
                if (!self || self->is_ending_) return;
                self->session_.pass_time();
                self->wake();
            });
        }

        Impl& server_;
        std::unique_ptr<net::Transport> transport_;
        net::Condition has_output_;
        net::Condition has_written_;
        net::Timer timer_;
        TimePoint idle_since_;
        std::size_t read_ahead_ = 0;
        int tasks_ = 0;
        bool is_writing_ = false;
        bool has_more_ = true;  // the writer has not looked since there may be output
        bool is_ending_ = false;
        ServerSession session_;
    };

    static Task<> accept(std::shared_ptr<Impl> self, std::shared_ptr<net::Descriptor> listener) {
        while (!self->is_stopping_) {
            if (!co_await listener->wait_readable()) co_return;
            while (!self->is_stopping_ && self->connections_.size() >= self->limits_.connections)
                co_await self->make_room();
            if (self->is_stopping_) co_return;
            Result<UniqueFd> socket = accept_from(listener->fd());
            auto transport = socket && *socket ? net::Transport::adopt(self->around_.loop, std::move(*socket))
                                               : Result<std::unique_ptr<net::Transport>>(nullptr);
            if (!socket || !transport) {
                Error const& problem = socket ? transport.error() : socket.error();
                self->around_.log.write(LogLevel::warning, "accept-failed", problem.text());
                co_await net::sleep_for(self->around_.loop, accept_pause);
                continue;
            }
            if (*transport) self->begin(*std::move(transport));
        }
    }

    void begin(std::unique_ptr<net::Transport> transport) {
        try {
            auto const connection = std::make_shared<Connection>(*this, std::move(transport));
            connections_.push_back(connection);
            connection->start();
        } catch (std::exception const& error) {  // of memory
            around_.log.write(LogLevel::error, "connection-failed", error.what());
        }
    }

    /// Ends the connection that has been without a call for the longest time, and waits.
    Task<> make_room() {
        std::shared_ptr<Connection> idlest;
        for (auto const& connection : connections_)
            if (connection->is_idle() && (!idlest || connection->idle_since() < idlest->idle_since()))
                idlest = connection;
        if (idlest) idlest->break_off();
        co_await net::sleep_for(around_.loop, accept_pause);
    }

    void remove(std::shared_ptr<Connection> const& connection) {
        connections_.remove(connection);
        tell_if_stopped();
    }

    void tell_if_stopped() {
        if (!is_stopping_ || !connections_.empty()) return;
        if (auto const stopped = std::exchange(stopped_, nullptr)) stopped();
    }

    ServerLimits limits_;
    Surroundings around_;
    RequestMemory memory_;
    std::vector<std::shared_ptr<net::Descriptor>> listeners_;
    std::list<std::shared_ptr<Connection>> connections_;
    std::function<void()> stopped_;
    bool is_stopping_ = false;
};

Server::Server(ServerLimits const& limits, Surroundings around)
    : impl_(std::make_shared<Impl>(limits, std::move(around))) {}

Server::~Server() { impl_->abandon(); }

void Server::listen(UniqueFd socket) { impl_->listen(std::move(socket)); }

void Server::stop(std::function<void()> stopped) { impl_->stop(std::move(stopped)); }

std::size_t Server::open_connections() const { return impl_->open_connections(); }

}  // namespace triton::http::grpc
