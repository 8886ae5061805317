#include "host/image/authfile.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "host/image/sources.h"
#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/json/table.h"
#include "lib/json/values.h"

namespace triton::image {

namespace {

constexpr std::size_t largest_file = 1 << 20;

/// Base64 (RFC 4648, section 4). Returns nullopt for anything else.
std::optional<std::string> decode_base64(std::string_view text) {
    static constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    while (text.ends_with('='))
        text.remove_suffix(1);
    std::string out;
    std::uint32_t bits = 0;
    unsigned count = 0;
    for (char const c : text) {
        std::size_t const value = alphabet.find(c);
        if (value == std::string_view::npos) return std::nullopt;
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        out += static_cast<char>(bits >> count & 0xff);
    }
    return out;
}

struct Entry {
    std::string user;
    std::string password;
    std::string token;
};

/// Parses "user:password" in Base64. No message contains the value.
void parse_auth(json::Node const& node, json::Where const& at, Entry& entry, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return;
    auto const plain = decode_base64(*text);
    std::size_t const colon = plain ? plain->find(':') : std::string::npos;
    if (colon == std::string::npos) return reading.problems.add(at, "is not USER:PASSWORD in Base64");
    entry.user = plain->substr(0, colon);
    entry.password = plain->substr(colon + 1);
    while (entry.password.ends_with('\0'))  // old versions of Docker fill it up
        entry.password.pop_back();
    auto const is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::ranges::any_of(entry.user + entry.password, is_control))
        reading.problems.add(at, "has a control character");
}

std::span<json::Field<Entry> const> table(json::TableOf<Entry>) {
    static constexpr json::Shape text{.types = "string"};
    static constexpr std::array<json::Field<Entry>, 4> rows{{
        {.name = "auth", .value = {&text, parse_auth}},
        {.name = "username", .value = json::as<&Entry::user, json::Text>},
        {.name = "password", .value = json::as<&Entry::password, json::Text>},
        {.name = "registrytoken", .value = json::as<&Entry::token, json::Text>},
    }};
    return rows;
}

struct Auths {
    json::Object entries;
};
std::span<json::Field<Auths> const> table(json::TableOf<Auths>) {
    static constexpr json::Shape map{.types = "object"};
    static constexpr std::array<json::Field<Auths>, 1> rows{{
        {.name = "auths",
         .value = {&map,
                   [](json::Node const& node, json::Where const& at, Auths& auths, json::Reading& reading) {
                       if (auto const* const all = json::expect<json::Object>("an object", node, at, reading))
                           auths.entries = *all;
                   }}},
    }};
    return rows;
}

/// The host of a key: a host, perhaps with more behind it when it has a scheme. In the one spelling of URLs.
std::string host_of_key(std::string_view key) {
    bool const has_scheme = key.find("://") != std::string_view::npos;
    return std::string(host_of(canonical_url(has_scheme ? std::string(key) : "https://" + std::string(key))));
}

/// Whether a key is one of the names under which Docker, podman and skopeo keep the credentials of a registry.
bool is_for(std::string_view key, std::string_view registry) {
    if (registry == "docker.io" && key == "https://index.docker.io/v1/") return true;
    bool const is_host = key.find("://") != std::string_view::npos || key.find('/') == std::string_view::npos;
    return is_host && host_of_key(key) == host_of_key(registry);
}

std::unexpected<Error> not_an_authfile(std::string const& path, json::Reading& reading) {
    Error error{.kind = ErrorKind::invalid, .attempted = {}, .reason = path + " is not an authfile", .details = {}};
    for (json::Problem const& problem : std::move(reading.problems).take())
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

}  // namespace

Result<std::optional<content::Credential>> credential_in(std::string_view text, std::string const& path,
                                                         std::string_view registry, std::string host) {
    json::Reading reading(10);
    auto const node = json::read_json(text, json::Limits{}, reading.problems);
    auto const auths = node ? json::read_object<Auths>(*node, json::Where{}, reading) : std::nullopt;
    if (!auths || !reading.problems.empty()) return not_an_authfile(path, reading);
    auto const found =
        std::ranges::find_if(auths->entries, [registry](json::Member const& one) { return is_for(one.key, registry); });
    if (found == auths->entries.end()) return std::optional<content::Credential>();
    json::Where const root;
    json::Where const map{&root, "auths"};
    auto entry = json::read_object<Entry>(found->node, json::Where{&map, found->key}, reading);
    if (!entry || !reading.problems.empty()) return not_an_authfile(path, reading);
    // Where a helper of Docker has the password, the file has the name of the registry only.
    bool const is_empty = entry->user.empty() && entry->password.empty() && entry->token.empty();
    if (is_empty) return std::optional<content::Credential>();
    return content::Credential{.host = std::move(host),
                               .user = std::move(entry->user),
                               .password = std::move(entry->password),
                               .token = std::move(entry->token)};
}

Result<std::optional<content::Credential>> credential_of(std::string const& path, std::string_view registry,
                                                         std::string host) {
    UniqueFd const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return fail(errno, "open " + path);
    struct stat status{};
    if (::fstat(file.get(), &status) < 0) return fail(errno, "look at " + path);
    if ((status.st_mode & 077) != 0)
        return fail(ErrorKind::refused,
                    path + " has credentials, and others than its owner may use it; chmod 600 " + path);
    return credential_in(TRY(read_open_file(file.get(), path, largest_file)), path, registry, std::move(host));
}

}  // namespace triton::image
