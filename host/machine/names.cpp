#include "host/machine/names.h"

#include <vector>

#include "lib/json/text.h"

namespace triton::machine {

namespace {
constexpr std::size_t shortest_beginning = 4;
}

Result<Uuid> find_name(std::string_view name, std::span<Names const> machines) {
    if (auto uuid = Uuid::parse(name)) return *std::move(uuid);
    std::vector<Uuid> found;
    for (Names const& machine : machines) {
        bool const begins = name.size() >= shortest_beginning && machine.uuid.text().starts_with(name);
        if (begins || (!machine.alias.empty() && machine.alias == name)) found.push_back(machine.uuid);
    }
    if (found.size() == 1) return found.front();
    if (found.empty()) return fail(ErrorKind::not_found, "VM " + json::shown(name) + " not found");
    Error error =
        fail(ErrorKind::refused, json::shown(name) + " names " + std::to_string(found.size()) + " VMs").error();
    for (Uuid const& uuid : found)
        error.details.push_back(uuid.text());
    return std::unexpected(std::move(error));
}

}  // namespace triton::machine
