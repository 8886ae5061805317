// What plugins and administrators of networks write, and what a monitor is told: it is read, or refused with a reason,
// and what was read can be given on.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "host/cri/cni/network_list.h"
#include "host/cri/monitor/container_log.h"
#include "host/cri/monitor/message.h"
#include "lib/json/reader.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

bool is_json(std::string const& text) {
    json::ProblemList problems(1);
    return json::read_json(text, {}, problems).has_value();
}

void read_network(std::string_view text) {
    auto const list = cri::parse_network_list(text, "F");
    if (!list) return require(!list.error().text().empty());
    require(!list->plugins.empty() && !list->name.empty());
    for (json::Object const& plugin : list->plugins)
        require(is_json(
            cri::plugin_input(*list, plugin, {.capabilities = R"({"portMappings":[]})", .previous_result = "{}"})));
}

/// Lines of a log: nothing is lost, however the bytes are cut.
void keep_log(std::string_view text) {
    cri::monitor::LogStream stream("stdout");
    std::string out;
    std::size_t const cut = text.size() / 3;
    stream.add(text.substr(0, cut), 0, out);
    stream.add(text.substr(cut), 0, out);
    stream.end(0, out);
    std::string joined;
    constexpr std::size_t tag_at = 38;  // behind the time and "stdout"
    for (std::string_view rest = out; !rest.empty();) {
        std::string_view const line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() + 1);
        require(line.size() >= tag_at + 2 && line.size() <= tag_at + 2 + cri::monitor::log_piece_bytes);
        joined += line.substr(tag_at + 2);
        if (line[tag_at] == 'F') joined += '\n';
    }
    if (!text.empty() && text.back() != '\n') joined.pop_back();
    require(joined == text);
}

}  // namespace

extern "C" int cri_text_fuzz(std::uint8_t const* data, std::size_t size) {
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    read_network(text);
    if (auto const addresses = cri::addresses_of(text, "eth0"))
        for (std::string const& address : *addresses)
            require(address.find('/') == std::string::npos);
    require(!cri::plugin_error("p", text, "", 1).text().empty());
    if (auto const message = cri::monitor::decode(text)) require(cri::monitor::encode(*message).value() == text);
    keep_log(text);
    return 0;
}

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return cri_text_fuzz(data, size); }
#endif
