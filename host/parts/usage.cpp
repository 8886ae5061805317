#include "host/parts/usage.h"

namespace triton::parts {

namespace {

json::Node number_node(std::uint64_t value) { return json::Node{static_cast<std::int64_t>(value)}; }

}  // namespace

json::Object usage_row(Used const& used) {
    json::Object row{{"uuid", json::Node{used.uuid}}, {"state", json::Node{used.state}}};
    if (!used.alias.empty()) row.push_back({"alias", json::Node{used.alias}});
    for (Figure const& figure : figures)
        if (auto const& value = used.processes.*figure.member)
            row.push_back({std::string(figure.name), number_node(*value)});
    if (used.disk) {
        row.push_back({"disk_bytes", number_node(used.disk->used)});
        if (used.disk->quota) row.push_back({"disk_quota_bytes", number_node(*used.disk->quota)});
    }
    return row;
}

}  // namespace triton::parts
