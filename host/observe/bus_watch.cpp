#include "host/observe/bus_watch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include <fcntl.h>

#include "host/machine/unit_texts.h"
#include "host/systemd/signals.h"

namespace triton::observe {

namespace {

constexpr int most_messages = 256;  // in one round of the loop
constexpr Duration first_pause = milliseconds(100);
constexpr Duration longest_pause = std::chrono::seconds(10);

}  // namespace

struct BusWatch::State : std::enable_shared_from_this<State> {
    State(net::Loop& runs_in, Worker& worker, Notices to)
        : loop(runs_in), chores(worker), notices(std::move(to)), timer(runs_in) {}

    net::Loop& loop;
    Worker& chores;
    Notices notices;
    net::Timer timer;
    std::shared_ptr<systemd::Signals> signals;
    std::shared_ptr<net::Descriptor> readable;  // a duplicate: sd-bus closes its own
    std::string trouble;
    Duration pause = first_pause;
    bool is_ended = false;
    bool is_settled = false;
    std::uint64_t of_units = 0;
    std::uint64_t of_machines = 0;
    std::uint64_t losses = 0;

    void connect() {
        chores.run([self = shared_from_this()] {
            auto connected = std::make_shared<Result<systemd::Signals>>(systemd::Signals::connect());
            net::post(self->loop, [self, connected] { self->is_connected(*connected); });
        });
    }

    void is_connected(Result<systemd::Signals>& connected) {
        if (is_ended) return;
        if (!connected) return try_later(connected.error());
        UniqueFd duplicate{::fcntl(connected->fd(), F_DUPFD_CLOEXEC, 3)};
        int const err = errno;
        if (!duplicate) return try_later(fail(err, "watch the system's bus").error());
        signals = std::make_shared<systemd::Signals>(*std::move(connected));
        readable = std::make_shared<net::Descriptor>(loop, std::move(duplicate));
        trouble.clear();
        pause = first_pause;
        if (is_settled) notices.lost("connected to the bus");
        settle();
        net::spawn(loop, listen(shared_from_this()));
    }

    void try_later(Error const& why) {
        trouble = why.text();
        timer.call_at(std::chrono::steady_clock::now() + pause, [this] { connect(); });
        pause = std::min<Duration>(2 * pause, longest_pause);
        settle();
    }

    void settle() {
        if (!std::exchange(is_settled, true)) notices.settled();
    }

    static net::Task<> listen(std::shared_ptr<State> self) {
        auto const signals = self->signals;
        auto const readable = self->readable;
        // Messages that came while it was connecting are already in sd-bus's queue.
        do {
            auto has_more = self->take(*signals);
            while (has_more && *has_more) {
                co_await net::yield(self->loop);
                if (self->is_ended) co_return;
                has_more = self->take(*signals);
            }
            if (self->is_ended) co_return;
            if (!has_more) co_return self->disconnect(has_more.error());
        } while (co_await readable->wait_readable());
    }

    Result<bool> take(systemd::Signals& from) {
        auto const taken = from.take([this](auto about, std::string_view name) { tell(about, name); }, most_messages);
        if (!is_ended) notices.heard();
        return taken;
    }

    void tell(systemd::Signals::About about, std::string_view name) {
        if (is_ended) return;
        using enum systemd::Signals::About;
        std::optional<Uuid> uuid;
        switch (about) {
            case unit:
                uuid = machine::uuid_of_unit(name);
                if (!uuid) return;
                ++of_units;
                return notices.machine(*uuid, "unit");
            case machine:
                uuid = Uuid::parse(name);
                if (!uuid) return;
                ++of_machines;
                return notices.machine(*uuid, "machined");
            case machined: return notices.lost("machined has started");
        }
    }

    void disconnect(Error const& why) {
        ++losses;
        trouble = why.text();
        signals.reset();
        readable.reset();
        notices.lost("the bus has gone");
        notices.heard();
        connect();
    }

    void end() {
        is_ended = true;
        timer.cancel();
        if (readable) readable->close();
    }
};

BusWatch::BusWatch(net::Loop& loop, Worker& chores, Notices notices)
    : state_(std::make_shared<State>(loop, chores, std::move(notices))) {}
BusWatch::~BusWatch() { state_->end(); }

void BusWatch::start() { state_->connect(); }
bool BusWatch::is_connected() const { return state_->signals != nullptr; }
std::string const& BusWatch::trouble() const { return state_->trouble; }
std::uint64_t BusWatch::unit_signals() const { return state_->of_units; }
std::uint64_t BusWatch::machine_signals() const { return state_->of_machines; }
std::uint64_t BusWatch::losses() const { return state_->losses; }

}  // namespace triton::observe
