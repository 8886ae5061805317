// What root of a machine sends to the socket of its metadata, in pieces; the first byte is the length of the first one.
// Nothing secret is answered, whatever is asked, and each line of an answer is one of the protocol.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "host/machine/properties.h"
#include "host/metadata/answers.h"
#include "host/metadata/conversation.h"
#include "host/metadata/frame.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

machine::Machine const& a_machine() {
    static machine::Machine const machine = *machine::parse_file(
        R"({"uuid":"6b0c8a3e-0000-4000-8000-00000000000a","brand":"lx","internal_metadata_namespaces":["ops"],)"
        R"("tags":{"a.b":"c"},"nics":[{"mac":"02:08:20:0a:0b:0c","nic_tag":"admin"}],)"
        R"("customer_metadata":{"k":"v"},"internal_metadata":{"hidden":"HIDDEN","root_pw":"p","ops:rack":"r"}})",
        "test");
    return machine;
}

/// The payload of an answer, decoded, or the answer itself.
void check_line(std::string_view line) {
    if (!line.starts_with("V2 ")) return require(line.find("HIDDEN") == line.npos);
    auto const frame = metadata::parse_frame(line.substr(3));
    require(frame.has_value());
    require(frame->word == "SUCCESS" || frame->word == "NOTFOUND" || frame->word == "FAILURE");
    require(frame->payload.find("HIDDEN") == frame->payload.npos);
}

int run(std::uint8_t const* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view const bytes(reinterpret_cast<char const*>(data + 1), size - 1);
    metadata::MachineAnswers answers([] { return Result<machine::Machine>(a_machine()); },
                                     [](metadata::MachineAnswers::Make const& make) -> Result<> {
                                         auto const payload = make(a_machine());
                                         if (!payload) return std::unexpected(payload.error());
                                         require(payload->size() == 1);
                                         require(payload->front().key.ends_with("_metadata"));
                                         return {};
                                     });
    metadata::Conversation conversation(answers);
    std::size_t const first = std::min<std::size_t>(data[0], bytes.size());
    std::string out = conversation.take(bytes.substr(0, first));
    out += conversation.take(bytes.substr(first));
    for (std::string_view rest = out; !rest.empty();) {
        std::size_t const end = rest.find('\n');
        require(end != rest.npos);
        check_line(rest.substr(0, end));
        rest.remove_prefix(end + 1);
    }
    return 0;
}

}  // namespace

extern "C" int metadata_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return metadata_fuzz(data, size); }
#endif
