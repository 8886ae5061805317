#include "config/reading.h"

#include "lib/base/signal_names.h"

namespace triton::config {

std::optional<int> read_signal(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = expect_string(node, at, reading);
    if (!text) return std::nullopt;
    int const signo = parse_signal(text->data(), text->data() + text->size());
    if (signo > 0) return signo;
    reading.problems.add(at, json::quoted(*text) + " is not a signal (for example TERM, 15, RTMIN+3)");
    return std::nullopt;
}

std::optional<process::IdOrName> read_id_or_name(json::Node const& node, json::Where const& at,
                                                 json::Reading& reading) {
    if (node.get<std::string>()) {
        auto name = read_text(node, at, reading);
        return name ? std::optional(process::IdOrName(std::move(*name))) : std::nullopt;
    }
    if (node.kind() != "number") {
        reading.problems.add(at, std::string("expected a name or a number, found ").append(node.kind()));
        return std::nullopt;
    }
    auto const id = read_integer_within(node, at, 0, highest_id, reading);
    return id ? std::optional(process::IdOrName(static_cast<std::uint32_t>(*id))) : std::nullopt;
}

}  // namespace triton::config
