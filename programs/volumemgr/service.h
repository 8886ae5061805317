#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/log/log.h"
#include "lib/varlink/method_table.h"
#include "lib/varlink/server.h"
#include "programs/volumemgr/board.h"
#include "programs/volumemgr/manager.h"

namespace triton::program {

inline constexpr std::string_view volumes_interface = "org.tritonlaunch.Volumes";
/// The text of its description.
std::string_view volumes_description();

/// The parameters of any of its methods.
struct VolumesParameters {
    std::string publisher;
    std::optional<std::string> kind;
    std::optional<std::string> key;
    std::string name;
    json::Array objects;
    bool is_on = false;
    bool is_dry_run = false;
    bool follows = false;
};

/// The interface org.tritonlaunch.Volumes.
class VolumesService final : public varlink::Service {
public:
    VolumesService(Manager& manager, Board& board, log::Log& log) : manager_(manager), board_(board), log_(log) {}
    /// To be called once, before anybody connects.
    void use(varlink::Server& server) { server_ = &server; }
    /// Has watchers told what is new, and forgets what all of them have seen. At the end of each round.
    void end_round();

    [[nodiscard]] varlink::ServiceInfo info() const override {
        return {"Triton Launch", "volumemgr", TRITON_VERSION, "https://github.com/tritonlaunch"};
    }
    [[nodiscard]] std::string_view interface() const override { return volumes_interface; }
    [[nodiscard]] std::string_view description() const override { return volumes_description(); }
    void call(varlink::Session& session, varlink::Call const& call) override;
    void connection_failed(std::string_view reason) override {
        log_.write(log::LogLevel::warning, "connection-failed", reason);
    }

private:
    using Session = varlink::Session;
    using Parameters = VolumesParameters;

    void put(Session& session, Parameters const& parameters);
    void remove(Session& session, Parameters const& parameters);
    void restart(Session& session, Parameters const& parameters);
    void complete(Session& session, Parameters const& parameters);
    void get(Session& session, Parameters const& parameters);
    void watch(Session& session, Parameters const& parameters);
    void why(Session& session, Parameters const& parameters);
    void snapshot(Session& session, Parameters const& parameters);
    void rollback(Session& session, Parameters const& parameters);
    void delete_snapshot(Session& session, Parameters const& parameters);
    void snapshots(Session& session, Parameters const& parameters);
    void scrub(Session& session, Parameters const& parameters);
    void retry(Session& session, Parameters const& parameters);
    void maintenance(Session& session, Parameters const& parameters);
    void collect(Session& session, Parameters const& parameters);

    Manager::Done begin_waiting(Session& session);
    void answer_snapshots(std::uint64_t ticket, Result<std::vector<storage::SnapshotFacts>> const& all);
    void answer(std::uint64_t ticket, Result<> const& result);
    void answer_with(std::uint64_t ticket, std::string_view parameters);

    static constexpr varlink::Roles everybody = varlink::only(varlink::Role{0});
    using Row = varlink::Method<VolumesService, Parameters>;
    static std::span<Row const> methods();

    Manager& manager_;
    Board& board_;
    log::Log& log_;
    varlink::Server* server_ = nullptr;
    std::uint64_t last_ticket_ = 0;
};

}  // namespace triton::program
