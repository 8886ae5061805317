#include "programs/triton-machine-metadata/service.h"

#include <cerrno>
#include <csignal>
#include <memory>
#include <string>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/metadata/conversation.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace triton::program {

namespace {

/// Whether the descriptor can be read before the time is up.
bool await_input(int fd, milliseconds limit) {
    pollfd wait{fd, POLLIN, 0};
    int ready = 0;
    do {
        ready = ::poll(&wait, 1, static_cast<int>(limit.count()));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

/// A client that does not read what it has asked for is left.
void answer_client(int client, metadata::Answers& answers, milliseconds silence) {
    timeval const limit{.tv_sec = silence.count() / 1000, .tv_usec = 0};
    (void)::setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    metadata::Conversation conversation(answers);
    char piece[16384];
    while (!conversation.is_over() && await_input(client, silence)) {
        ssize_t const got = ::read(client, piece, sizeof piece);
        if (got <= 0) return;
        std::string const answer = conversation.take({piece, static_cast<std::size_t>(got)});
        if (!answer.empty() && !write_all(client, answer)) return;
    }
}

class Service {
public:
    Service(int listener, std::function<std::unique_ptr<metadata::Answers>()> const& open_answers,
            ServiceLimits const& limits)
        : listener_(listener), open_answers_(open_answers), limits_(limits) {}

    Result<> run() {
        for (;;) {
            reap(clients_ >= limits_.clients);
            bool const is_asked = await_input(listener_, clients_ > 0 ? std::chrono::seconds(1) : limits_.silence);
            if (!is_asked && clients_ == 0) return {};
            if (!is_asked) continue;
            UniqueFd const client{::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)};
            if (!client && (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED)) continue;
            if (!client) return fail(errno, "accept a client");
            TRY(begin(client.get()));
        }
    }

private:
    Result<> begin(int client) {
        pid_t const parent = ::getpid();
        pid_t const child = ::fork();
        if (child < 0) return fail(errno, "start a process for a client");
        if (child > 0) {
            ++clients_;
            return {};
        }
        (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(1);
        auto const answers = open_answers_();
        answer_client(client, *answers, limits_.silence);
        ::_exit(0);
    }
    void reap(bool waits) {
        while (clients_ > 0) {
            pid_t const child = ::waitpid(-1, nullptr, waits ? 0 : WNOHANG);
            if (child < 0 && errno == EINTR) continue;
            if (child <= 0) return;
            --clients_;
            waits = false;
        }
    }

    int listener_;
    std::function<std::unique_ptr<metadata::Answers>()> const& open_answers_;
    ServiceLimits limits_;
    unsigned clients_ = 0;
};

}  // namespace

Result<> serve_metadata(int listener, std::function<std::unique_ptr<metadata::Answers>()> const& open_answers,
                        ServiceLimits const& limits) {
    return Service(listener, open_answers, limits).run();
}

}  // namespace triton::program
