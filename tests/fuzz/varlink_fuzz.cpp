// Whatever bytes a client sends: no crash, a reason for what is not a call, and an answer of the server that a client
// can read for what is one. The same for what a client gets to read.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "launcher/control/control_calls.h"
#include "launcher/control/ctl_text.h"
#include "lib/json/writer.h"
#include "lib/varlink/codec.h"

namespace {

using namespace triton;
using namespace triton::launcher;
using namespace triton::varlink;

void require(bool holds) {
    if (!holds) std::abort();
}

/// What is written back is read as the same again.
void check_json(json::Object const& object) {
    std::string const text = json_text(object);
    std::string message;
    append_reply(message, text, false);
    require(message.find('\0') == message.size() - 1);
    auto const read = parse_reply(std::string_view(message).substr(0, message.size() - 1), 1 << 22);
    require(read.has_value() && json_text(read->parameters) == text);
}

void check_call(std::string_view message) {
    auto const call = parse_call(message);
    if (!call) {
        require(!call.error().text().empty() && !call.error().text().contains('\0'));
        return;
    }
    require(!call->method.empty());
    check_json(call->parameters);
    for (MethodRow const& row : control_methods()) {
        auto const parameters = read_parameters(row.parameters, call->parameters);
        require(parameters || !parameters.error().empty() || find_member(call->parameters, ""));
        if (!parameters) continue;
        if (parameters->process) require(*parameters->process > 0);
        require(parameters->detail.size() <= most_detail_bytes);
        require(parameters->reporter.detail.size() <= most_detail_bytes);
        PodState const& pod = parameters->pod;
        require(pod.variables.size() <= most_variables && pod.shutdown_delay >= Duration::zero());
        require(std::ranges::is_sorted(pod.variables));
    }
}

/// One line, and nothing in it that steers a terminal.
void require_printable(std::string_view line) {
    require(line.ends_with('\n') && line.find('\n') == line.size() - 1);
    for (std::size_t i = 0; i + 1 < line.size(); ++i) {
        auto const byte = static_cast<unsigned char>(line[i]);
        auto const next = static_cast<unsigned char>(line[i + 1]);
        require(byte >= 0x20 && byte != 0x7f && (byte != 0xc2 || next < 0x80 || next > 0x9f));
    }
}

void check_reply(std::string_view message) {
    auto reply = parse_reply(message, message.size());
    if (!reply) {
        require(!reply.error().text().empty());
        return;
    }
    check_json(reply->parameters);
    std::vector<json::Object> programs;
    merge_programs(programs, reply->parameters);
    CpuTimes before;
    for (auto const& lines : {status_lines(programs, false), top_lines(programs, before, 1.0, false)}) {
        for (std::string const& line : lines)
            require_printable(line);
    }
    for (std::string const& line : launcher_lines(reply->parameters, 1e9))
        require_printable(line);
    for (json::Object const& program : programs)
        (void)description_text(program, program);  // for its memory accesses
}

}  // namespace

extern "C" int varlink_fuzz(std::uint8_t const* data, std::size_t size) {
    std::string const text(data, data + size);
    check_call(text);
    check_reply(text);
    json::Writer out;  // any bytes
    std::string message;
    append_reply(message, out.open('{').key("text").value(std::string_view(text)).close('}').text(), true);
    require(parse_reply(std::string_view(message).substr(0, message.size() - 1), 1 << 22).has_value());
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return varlink_fuzz(data, size); }
#endif
