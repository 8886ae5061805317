#include "host/cri/container/name_service.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "host/cri/wire/messages.h"
#include "lib/json/text.h"

namespace triton::cri {

namespace {

constexpr int most_words = 64;

bool is_word(std::string const& text) {
    return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c != 0x7f; });
}

template <class Words>
Result<> check_words(Words const& words, char const* what) {
    if (words.size() > most_words) return fail(ErrorKind::invalid, std::string("dns_config has too many ") + what);
    for (std::string const& word : words)
        if (!is_word(word))
            return fail(ErrorKind::invalid, json::quoted(word) + " cannot be one of dns_config's " + what);
    return {};
}

template <class Words>
void add_line(std::string& text, char const* key, Words const& words) {
    if (words.empty()) return;
    text += key;
    for (std::string const& word : words)
        text += " " + word;
    text += "\n";
}

}  // namespace

Result<std::string> resolver_text(v1::DNSConfig const& dns) {
    TRY(check_words(dns.servers(), "servers"));
    TRY(check_words(dns.searches(), "searches"));
    TRY(check_words(dns.options(), "options"));
    std::string text;
    add_line(text, "search", dns.searches());
    for (std::string const& server : dns.servers())
        text += "nameserver " + server + "\n";
    add_line(text, "options", dns.options());
    return text;
}

std::string hosts_text(std::string const& hostname, std::vector<std::string> const& addresses) {
    std::string text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
    for (std::string const& address : addresses)
        text += address + "\t" + hostname + "\n";
    return text;
}

Result<> check_sysctl(std::string const& name, std::string const& value, bool has_network, bool has_ipc) {
    constexpr std::array<std::string_view, 4> of_ipc{"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."};
    auto const is_safe = [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-' || c == '/';
    };
    std::string dotted = name;
    std::ranges::replace(dotted, '/', '.');
    std::string const shown = "sysctl " + json::quoted(name);
    bool const is_name = !name.empty() && std::ranges::all_of(name, is_safe) && dotted.find("..") == std::string::npos;
    bool const is_value = std::ranges::all_of(value, [](unsigned char c) { return c >= ' ' && c < 0x7f; });
    if (!is_name || !is_value || value.find('+') != std::string::npos)
        return fail(ErrorKind::invalid, shown + " has a name or a value that cannot be");
    bool const is_ipc =
        std::ranges::any_of(of_ipc, [&](std::string_view prefix) { return dotted.starts_with(prefix); });
    bool const is_network = dotted.starts_with("net.");
    if (is_ipc && !has_ipc)
        return fail(ErrorKind::invalid, shown + " would be the node's: the pod has its IPC namespace");
    if (is_network && !has_network)
        return fail(ErrorKind::invalid, shown + " would be the node's: the pod has its network");
    if (!is_ipc && !is_network) return fail(ErrorKind::invalid, shown + " is not one of a namespace");
    return {};
}

}  // namespace triton::cri
