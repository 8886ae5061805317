// Whatever comes as a signature, as sums or as keys: no crash, and nothing is good that nobody has signed. The key is
// one that nobody has the other half of.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "host/role/sums.h"
#include "host/verify/base64.h"
#include "host/verify/minisign.h"
#include "host/verify/openpgp.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

constexpr std::string_view keys =
    "untrusted comment: minisign public key E7620F1842B4E81F\n"
    "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
constexpr std::string_view content = "what nobody has signed";

int run(std::uint8_t const* data, std::size_t size) {
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    require(!verify::check_minisign(content, text, keys));
    require(!verify::check_minisign(content, text, text));
    (void)verify::names_file(text, "image");
    if (auto const digest = role::find_sum(text, "image")) require(text.contains(digest->hex() + " "));
    if (auto const decoded = verify::decode_base64(text)) require(decoded->size() <= text.size());
    (void)verify::without_armor(text);
    if (auto const key = verify::read_status(text)) require(text.contains("VALIDSIG") && text.contains("GOODSIG"));
    return 0;
}

}  // namespace

extern "C" int signature_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return signature_fuzz(data, size); }
#endif
