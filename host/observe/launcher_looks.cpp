#include "host/observe/launcher_looks.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "host/machine/launch_report.h"
#include "host/observe/worker.h"
#include "host/parts/host_launcher.h"

namespace triton::observe {

/// Where threads leave their results, as long as somebody wants them.
struct LauncherLooks::Mailbox {
    std::mutex mutex;
    LauncherLooks* owner = nullptr;

    void put(std::uint64_t number, LauncherSeen seen, std::shared_ptr<Mailbox> const& self) {
        std::scoped_lock const lock(mutex);
        if (!owner) return;
        auto shared = std::make_shared<LauncherSeen>(std::move(seen));
        net::post(owner->loop_, [self, number, shared] {
            if (self->owner) self->owner->arrived(number, std::move(*shared));
        });
    }
};

LauncherLooks::LauncherLooks(net::Loop& loop, Settings settings, Look look,
                             std::function<void(std::string const& machine)> freed)
    : loop_(loop),
      settings_(settings),
      look_(std::move(look)),
      freed_(std::move(freed)),
      mailbox_(std::make_shared<Mailbox>()) {
    mailbox_->owner = this;
}

LauncherLooks::~LauncherLooks() {
    std::scoped_lock const lock(mailbox_->mutex);
    mailbox_->owner = nullptr;
}

bool LauncherLooks::has_room() const {
    return underway_.size() < settings_.at_once && hanging_.size() < settings_.written_off;
}

bool LauncherLooks::hangs(std::string const& machine) const {
    return std::ranges::any_of(hanging_, [&machine](auto const& one) { return one.second == machine; });
}

void LauncherLooks::begin(std::string machine, Order const& order, std::function<void(LauncherSeen)> done) {
    std::uint64_t const number = ++last_;
    auto timer = std::make_unique<net::Timer>(loop_);
    timer->call_at(std::chrono::steady_clock::now() + order.patience + settings_.grace,
                   [this, number] { write_off(number); });
    underway_.emplace(number, Underway{std::move(machine), order.address, std::move(done), std::move(timer)});
    SignalsBlocked const blocked;
    try {
        std::thread([number, order, look = look_, mailbox = mailbox_] {
            mailbox->put(number, look(order), mailbox);
        }).detach();
    } catch (std::system_error const&) {  // no thread can be made now
        net::post(loop_, [number, mailbox = mailbox_] {
            if (mailbox->owner) mailbox->owner->arrived(number, {});
        });
    }
}

void LauncherLooks::arrived(std::uint64_t number, LauncherSeen seen) {
    if (auto const hung = hanging_.extract(number); !hung.empty()) {
        if (freed_) freed_(hung.mapped());
        return;
    }
    auto look = underway_.extract(number);
    if (look.empty()) return;
    seen.report.leader = look.mapped().address.leader;
    look.mapped().done(std::move(seen));
}

void LauncherLooks::write_off(std::uint64_t number) {
    auto look = underway_.extract(number);
    if (look.empty()) return;
    hanging_.emplace(number, look.mapped().machine);
    look.mapped().done({.report = {look.mapped().address.leader, std::nullopt}, .events = {}});
}

LauncherSeen look_at_launcher(LauncherLooks::Order const& order) {
    TimePoint const deadline = std::chrono::steady_clock::now() + order.patience;
    auto const& [leader, root_uid] = order.address;
    LauncherSeen seen{.report = {leader, std::nullopt}, .events = {}};
    if (order.wants_events) {
        if (auto connection = parts::connect_to_launcher(leader, root_uid, deadline)) {
            connection->call("org.tritonlaunch.Launcher.Subscribe", "{}", true);
            auto const first = connection->reply(deadline);
            if (first && first->error.empty()) seen.events = std::move(*connection).take();
        }
    }
    if (auto const reported = parts::launcher_status(leader, root_uid, deadline))
        seen.report.content = machine::read_report(*reported);
    return seen;
}

}  // namespace triton::observe
