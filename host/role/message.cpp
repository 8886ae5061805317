#include "host/role/message.h"

namespace triton::role {

namespace {

/// No message is deeper than a list of objects in an object in its envelope.
json::Limits limits(std::size_t most_bytes) {
    return {.document_bytes = most_bytes, .depth = 8, .values = 8192, .problems = most_problems};
}

std::unexpected<Error> corrupt(std::string reason, json::Problems const& problems) {
    Error error{ErrorKind::corrupt, "", std::move(reason), {}};
    for (json::Problem const& problem : problems)
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

}  // namespace

std::optional<std::string> read_string(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    return text ? std::optional(*text) : std::nullopt;
}

std::optional<Digest> read_digest(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    auto digest = Digest::parse(*text);
    if (digest) return *std::move(digest);
    reading.problems.add(at, digest.error().text());
    return std::nullopt;
}

std::optional<std::string> read_sha1(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return std::nullopt;
    if (is_lower_hex(*text, 40)) return *text;
    reading.problems.add(at, "expected 40 lower-case hexadecimal digits, found " + json::quoted(*text));
    return std::nullopt;
}

Result<json::Member> read_envelope(std::string_view text, std::size_t most_bytes) {
    json::ProblemList problems(most_problems);
    auto node = json::read_json(text, limits(most_bytes), problems);
    if (!node || !problems.empty()) return corrupt("message is not JSON", std::move(problems).take());
    auto* const object = std::get_if<json::Object>(&node->value);
    if (!object || object->size() != 1) return corrupt("message is not an object with one member", {});
    return std::move(object->front());
}

std::unexpected<Error> malformed(std::string_view name, json::Reading&& reading) {
    json::Problems problems = std::move(reading.problems).take();
    for (json::Problem& warning : std::move(reading.warnings).take())
        problems.push_back(std::move(warning));
    return corrupt("message " + json::quoted(name) + " is malformed", problems);
}

std::unexpected<Error> unexpected_message(std::string_view name) {
    return corrupt("message " + json::quoted(name) + " is not expected here", {});
}

}  // namespace triton::role
