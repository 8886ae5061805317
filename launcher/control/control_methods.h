#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/control/control_backend.h"
#include "launcher/control/control_calls.h"
#include "launcher/control/control_jobs.h"
#include "launcher/control/peer_rights.h"
#include "lib/varlink/method_table.h"
#include "lib/varlink/server.h"

namespace triton::launcher {

/// Records that wait for an agent that will subscribe; the oldest give way.
class KeptRecords {
public:
    explicit KeptRecords(std::size_t most_bytes) : most_bytes_(most_bytes) {}
    /// `message`: a reply, ended by its NUL.
    void keep(std::string_view message);
    /// Gives them to a session: first how many had no room.
    void hand_over(varlink::Server& server, varlink::Session& session);

private:
    std::size_t most_bytes_;
    std::string messages_;
    std::uint64_t lost_ = 0;
};

/// org.tritonlaunch.Launcher: one handler for each method, and the news for those who listen.
class ControlMethods : public varlink::Service {
public:
    using Session = varlink::Session;

    ControlMethods(ControlBackend& backend, std::size_t line_bytes, std::size_t kept_bytes, bool keeps_for_agent)
        : context_{.backend = backend, .line_bytes = line_bytes},
          backend_(backend),
          rights_(backend),
          kept_(kept_bytes),
          keeps_for_agent_(keeps_for_agent) {}
    void set_server(varlink::Server& server) { context_.server = &server; }

    [[nodiscard]] varlink::ServiceInfo info() const override;
    [[nodiscard]] std::string_view interface() const override { return launcher_interface; }
    [[nodiscard]] std::string_view description() const override { return interface_description(); }
    void call(Session& session, varlink::Call const& call) override;
    void connection_failed(std::string_view reason) override { backend_.control_failed(reason); }
    [[nodiscard]] std::expected<varlink::Role, std::string> admit(varlink::Peer const& peer,
                                                                  bool is_by_uid) const override;
    [[nodiscard]] bool has_deferred() const override { return has_lost_prober(); }
    void do_deferred() override;

    // News of the launcher; see ControlServer.
    void publish(std::string_view record, bool is_of_note);
    [[nodiscard]] bool wants_records() const;
    void publish_output(std::string_view program, OutputLine const& line);
    [[nodiscard]] bool has_followers() const;
    void answer_stage(std::uint64_t ticket, Result<StagingAnswer> const& answer);
    void answer_reload(Result<> const& answer);
    void answer_upgrade(Result<UpgradeVersions> const& answer);
    void send_to_prober(json::Writer const& parameters);
    [[nodiscard]] bool has_room_for_lines() const;
    [[nodiscard]] Duration agent_deaf_for() const;
    void state_changed() { ++context_.changes; }
    void configuration_changed() { ++context_.configuration_changes; }

    // The handlers. A row of the method table names each.
    void get_status(Session& session, CallParameters const& parameters);
    void list(Session& session, CallParameters const& parameters);
    void describe(Session& session, CallParameters const& parameters);
    void start(Session& session, CallParameters const& parameters);
    void stop(Session& session, CallParameters const& parameters);
    void restart(Session& session, CallParameters const& parameters);
    void signal(Session& session, CallParameters const& parameters);
    void reload(Session& session, CallParameters const& parameters);
    void wait(Session& session, CallParameters const& parameters);
    void subscribe(Session& session, CallParameters const& parameters);
    void logs(Session& session, CallParameters const& parameters);
    void attach(Session& session, CallParameters const& parameters);
    void upgrade(Session& session, CallParameters const& parameters);
    void stage(Session& session, CallParameters const& parameters);
    void watch_configuration(Session& session, CallParameters const& parameters);
    void probes(Session& session, CallParameters const& parameters);
    void probe_result(Session& session, CallParameters const& parameters);
    void set_pod(Session& session, CallParameters const& parameters);
    void set_reporter(Session& session, CallParameters const& parameters);

private:
    struct Command;
    bool is_alone(varlink::Session& session, ProcessSelection const& which, Command const& command);
    void command(Session& session, CallParameters const& parameters, Command const& command);
    std::optional<std::uint32_t> only_process(std::size_t index);
    std::vector<std::uint32_t> starts_of(ProcessSelection const& which);
    [[nodiscard]] bool is_agent_subscribed();
    [[nodiscard]] bool has_lost_prober() const;
    void reply(Session& session, std::string_view parameters) { context_.server->reply(session, parameters); }

    ControlContext context_;
    ControlBackend& backend_;
    PeerRights rights_;
    KeptRecords kept_;
    bool keeps_for_agent_;
    std::uint64_t last_ticket_ = 0;  // of a staging
    bool is_prober_known_ = false;   // to the backend
    std::string scratch_;
};

}  // namespace triton::launcher
