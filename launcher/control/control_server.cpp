#include "launcher/control/control_server.h"

#include <utility>

#include "launcher/control/control_render.h"

namespace triton::launcher {

namespace {

/// How many values a call may have: those of SetPod, with room to notice that there are too many.
constexpr std::size_t values_of_agent = 2 * most_variables;

varlink::Settings socket_of(ControlSettings const& settings) {
    return {.path = settings.path,
            .mode = settings.mode,
            .group = settings.group,
            .adopted = settings.adopted,
            .close = settings.close};
}

varlink::Limits server_limits(ControlLimits const& limits) {
    varlink::RoleLimits const person{.sessions = limits.clients,
                                     .input_bytes = limits.input_bytes,
                                     .output_bytes = limits.output_bytes,
                                     .reserved = limits.reserved};
    varlink::RoleLimits const agent{.sessions = limits.adopted,
                                    .input_bytes = limits.adopted_input_bytes,
                                    .output_bytes = limits.adopted_output_bytes,
                                    .values = values_of_agent,
                                    .is_oldest_replaced = true,
                                    .is_reader_watched = true};
    static_assert(static_cast<int>(ControlRole::person) == 0 && static_cast<int>(ControlRole::agent) == 1 &&
                  static_cast<int>(ControlRole::limited) == 2 && static_cast<int>(ControlRole::steward) == 3);
    varlink::RoleLimits limited = person;
    limited.reserved = 0;
    return {.roles = {person, agent, limited, agent},
            .work = limits.work,
            .stream_bytes = limits.output_bytes,
            .partial = limits.partial,
            .unread = limits.unread,
            .evictable = limits.evictable};
}

}  // namespace

ControlServer::ControlServer(ControlSettings const& settings, ControlBackend& backend, ControlLimits const& limits)
    : methods_(backend, limits.line_bytes, limits.kept_bytes, settings.keeps_for_agent) {}

Result<std::unique_ptr<ControlServer>> ControlServer::create(EventLoop& loop, ControlSettings settings,
                                                             ControlBackend& backend, ControlLimits const& limits) {
    std::unique_ptr<ControlServer> made(new ControlServer(settings, backend, limits));
    made->server_ = TRY(varlink::Server::create(loop, socket_of(settings), made->methods_, server_limits(limits)));
    made->methods_.set_server(*made->server_);
    return made;
}

ControlServer::~ControlServer() = default;

void ControlServer::publish(std::string_view record, bool is_of_note) noexcept {
    server_->enter([&] { methods_.publish(record, is_of_note); });
}

bool ControlServer::wants_records() const { return methods_.wants_records(); }

Duration ControlServer::agent_deaf_for() const { return methods_.agent_deaf_for(); }

void ControlServer::publish_output(std::string_view program, OutputLine const& line) noexcept {
    server_->enter([&] { methods_.publish_output(program, line); });
}

bool ControlServer::has_followers() const { return methods_.has_followers(); }

void ControlServer::state_changed() noexcept { methods_.state_changed(); }

void ControlServer::answer_reload(Result<> const& answer) noexcept {
    server_->enter([&] { methods_.answer_reload(answer); });
}

void ControlServer::answer_upgrade(Result<UpgradeVersions> const& answer) noexcept {
    server_->enter([&] { methods_.answer_upgrade(answer); });
}

void ControlServer::adopt(UniqueFd connection, ControlRole role) noexcept {
    server_->enter([&] { server_->adopt(std::move(connection), static_cast<varlink::Role>(role)); });
}

void ControlServer::answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer) noexcept {
    server_->enter([&] { methods_.answer_stage(ticket, answer); });
}

void ControlServer::send_probe(ProbeRequest const& request) noexcept {
    server_->enter([&] {
        json::Writer out;
        write_probe(out, request);
        methods_.send_to_prober(out);
    });
}

void ControlServer::cancel_probe(std::uint64_t id) noexcept {
    server_->enter([&] {
        auto const number = static_cast<std::int64_t>(id);
        methods_.send_to_prober(json::Writer{}.open('{').key("id").value(number).close('}'));
    });
}

void ControlServer::send_lines(std::uint64_t id, std::span<std::string_view const> lines) noexcept {
    server_->enter([&] {
        json::Writer out;
        out.open('{').key("id").value(static_cast<std::int64_t>(id)).key("lines").list(lines).close('}');
        methods_.send_to_prober(out);
    });
}

void ControlServer::configuration_changed() noexcept { methods_.configuration_changed(); }

std::optional<TimePoint> ControlServer::next_deadline() const { return server_->next_deadline(); }
void ControlServer::time_passed() noexcept {
    server_->enter([&] { server_->time_passed(); });
}
void ControlServer::end_round() noexcept {
    if (server_->is_idle()) return;
    server_->enter([&] { server_->end_round(); });
}

varlink::HandedSocket ControlServer::socket() const { return server_->socket(); }

}  // namespace triton::launcher
