#include "host/verify/document.h"

#include <algorithm>
#include <utility>

#include "host/verify/imgapi_document.h"
#include "host/verify/oci_document.h"
#include "lib/json/writer.h"

namespace triton::verify {

namespace {

constexpr std::size_t deepest = 32;
constexpr std::size_t most_values = 1 << 20;
constexpr std::size_t most_problems = 10;

Result<json::Node> read_strictly(std::string_view text) {
    json::Limits const limits{
        .document_bytes = text.size(), .depth = deepest, .values = most_values, .problems = most_problems};
    json::ProblemList problems(most_problems);
    auto node = json::read_json(text, limits, problems);
    if (node && problems.empty()) return *std::move(node);
    Error error{ErrorKind::corrupt, "", "document is not acceptable JSON", {}};
    for (json::Problem const& problem : std::move(problems).take())
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

Result<std::string> check(json::Node const& node, role::ReadDocument const& request) {
    switch (request.kind) {
        case role::DocumentKind::image:
        case role::DocumentKind::index:
        case role::DocumentKind::manifest: return check_image_document(node, request);
        case role::DocumentKind::config: return check_image_config(node, request);
        case role::DocumentKind::imgapi: return check_imgapi_manifest(node);
        case role::DocumentKind::imgapi_list: return check_imgapi_list(node);
        case role::DocumentKind::tags: return check_tags(node);
        case role::DocumentKind::other: return std::string();
    }
    std::unreachable();
}

}  // namespace

Result<Document> read_document(std::string_view text, role::ReadDocument const& request) {
    json::Node const node = TRY(read_strictly(text));
    std::string media_type = TRY(check(node, request));
    json::Writer writer;
    writer.value(node);
    return Document{std::move(media_type), std::move(writer).text()};
}

}  // namespace triton::verify
