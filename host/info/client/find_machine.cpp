#include "host/info/client/find_machine.h"

#include <vector>

#include "host/info/client/documents.h"
#include "host/info/client/http_answer.h"
#include "host/machine/names.h"
#include "lib/json/lookup.h"

namespace triton::info {

Result<Uuid> find_machine(Client const& client, std::string_view name) {
    if (auto const uuid = Uuid::parse(name)) return *uuid;
    std::string const answer = TRY(client.get(Target("/vms").add("fields", "uuid,alias").text(), most_answer_bytes));
    std::vector<machine::Names> names;
    for (json::Node const& machine : TRY(read_machines(answer))) {
        // an unreadable file may have any name
        auto const uuid = Uuid::parse(json::text_of(machine, "uuid"));
        if (uuid && !is_unreadable(machine)) names.push_back({*uuid, json::text_of(machine, "alias")});
    }
    return machine::find_name(name, names);
}

Result<Uuid> find_known(Client const& client, std::string_view name) {
    Uuid uuid = TRY(find_machine(client, name));
    auto const known = client.get("/vms/" + uuid.text(), most_answer_bytes);
    if (!known && known.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::not_found, "VM " + uuid.text() + " not found");
    if (!known) return std::unexpected(known.error());
    return uuid;
}

std::string client_name(std::string_view program, std::string_view version, char const* label) {
    std::string name = std::string(program) + "/" + std::string(version);
    return label && *label ? name + " (" + label + ")" : name;
}

}  // namespace triton::info
