// Whatever a role sends to the library, or the library to a role: no crash, a reason for what is not a message, and
// what is one is written back as a message that means the same.

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "host/role/download_messages.h"
#include "host/role/unpack_messages.h"
#include "host/role/verify_messages.h"

namespace {

using namespace triton;
using namespace triton::role;

void require(bool holds) {
    if (!holds) std::abort();
}

template <class... Messages>
void check(std::string_view text) {
    auto const message = decode<Messages...>(text);
    if (!message) {
        require(message.error().kind == ErrorKind::corrupt && !message.error().text().empty());
        return;
    }
    auto const write = [](auto const& one) { return encode(one); };
    std::string const written = std::visit(write, *message);
    auto const again = decode<Messages...>(written);
    require(again && again->index() == message->index() && std::visit(write, *again) == written);
    if constexpr ((std::is_same_v<Messages, Failed> || ...))
        if (auto const* const failed = std::get_if<Failed>(&*message)) {
            for (char const c : error_of(*failed).text())
                require(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
        }
}

int run(std::uint8_t const* data, std::size_t size) {
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    check<Receive, Range, End, Check, ReadDocument, CheckSignature>(text);
    check<Landed, RangeEnded, Verified, CheckedDocument, Signed, Failed>(text);
    check<Unpack>(text);
    check<Unpacking, Unpacked, Failed>(text);
    check<Download, Cancel>(text);
    check<Answer, Downloaded, DownloadFailed>(text);
    return 0;
}

}  // namespace

extern "C" int messages_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return messages_fuzz(data, size); }
#endif
