// Whatever a registry or an IMGAPI server sends: no crash, a reason for what is refused, and what is taken is taken
// again after it was normalised, and normalised to itself.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "host/verify/document.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

/// The first byte chooses the kind, the rest is the document.
int run(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    role::ReadDocument request{.expected = {.maximum = 1 << 20}};
    request.kind = static_cast<role::DocumentKind>(data[0] % role::document_kind_names.size());
    std::string_view const text(reinterpret_cast<char const*>(data) + 1, size - 1);
    auto const document = verify::read_document(text, request);
    if (!document) {
        ErrorKind const kind = document.error().kind;
        require(kind == ErrorKind::corrupt || kind == ErrorKind::unsupported);
        return 0;
    }
    auto const again = verify::read_document(document->json, request);
    require(again && again->json == document->json && again->media_type == document->media_type);
    return 0;
}

}  // namespace

extern "C" int document_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return document_fuzz(data, size); }
#endif
