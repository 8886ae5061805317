#include "programs/vmadm/launch_verdict.h"

#include <chrono>
#include <thread>

#include "lib/json/text.h"
#include "lib/varlink/codec.h"

namespace triton::program {

namespace {

constexpr std::chrono::milliseconds patience{2000};
constexpr std::chrono::milliseconds pause{20};  // it reads a new file at once, and asks nobody
constexpr std::size_t most_reasons = 20;
constexpr std::size_t most_bytes = 1000;  // of one of them

std::vector<std::string> shown_reasons(std::vector<std::string> const& rejection) {
    std::vector<std::string> reasons;
    for (std::string const& reason : rejection) {
        if (reasons.size() == most_reasons) break;
        reasons.push_back(json::printable(std::string_view(reason).substr(0, most_bytes)));
    }
    return reasons;
}

}  // namespace

std::optional<LaunchVerdict> launch_verdict(machine::Machine const& machine) {
    if (!machine.launch_status) return std::nullopt;
    json::Node const* const launcher = varlink::find_member(*machine.launch_status, "launcher");
    auto const* const said = launcher ? launcher->get<json::Object>() : nullptr;
    if (!said) return std::nullopt;
    LaunchVerdict verdict;
    json::Node const* const changes = varlink::find_member(*said, "configuration_changes");
    if (auto const* const count = changes ? changes->get<std::int64_t>() : nullptr) verdict.changes = *count;
    json::Node const* const rejection = varlink::find_member(*said, "rejection");
    if (auto const* const reasons = rejection ? rejection->get<json::Array>() : nullptr)
        for (json::Node const& reason : *reasons)
            if (auto const* const text = reason.get<std::string>()) verdict.rejection.push_back(*text);
    return verdict;
}

std::vector<std::string> await_verdict(machine::Machines& machines, Uuid const& uuid, LaunchVerdict const& before) {
    auto const deadline = std::chrono::steady_clock::now() + patience;
    std::optional<LaunchVerdict> now;
    do {
        auto const machine = machines.get(uuid);
        now = machine ? launch_verdict(*machine) : std::nullopt;
        if (!now || now->changes != before.changes) return {};
        if (!now->rejection.empty() && now->rejection != before.rejection) break;
        std::this_thread::sleep_for(pause);
    } while (std::chrono::steady_clock::now() < deadline);
    return shown_reasons(now->rejection);
}

}  // namespace triton::program
