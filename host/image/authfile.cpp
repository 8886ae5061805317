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
#include <unistd.h>

#include "host/image/credential_helper.h"
#include "host/image/sources.h"
#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/json/table.h"
#include "lib/json/text.h"
#include "lib/json/values.h"
#include "lib/text/base64.h"

namespace triton::image {

namespace {

constexpr std::size_t largest_file = 1 << 20;

/// Base64, whose padding some programs leave out. Returns nullopt for anything else.
std::optional<std::string> decoded(std::string text) {
    while (text.ends_with('='))
        text.pop_back();
    text.resize((text.size() + 3) / 4 * 4, '=');
    return text::decode_base64(text);
}

struct Entry {
    std::string user;
    std::string password;
    std::string token;
    std::string identity_token;
};

/// Parses "user:password" in Base64. No message contains the value.
void parse_auth(json::Node const& node, json::Where const& at, Entry& entry, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    if (!text) return;
    auto const plain = decoded(*text);
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
    static constexpr std::array<json::Field<Entry>, 5> rows{{
        {.name = "auth", .value = {&text, parse_auth}},
        {.name = "username", .value = json::as<&Entry::user, json::Text>},
        {.name = "password", .value = json::as<&Entry::password, json::Text>},
        {.name = "registrytoken", .value = json::as<&Entry::token, json::Text>},
        {.name = "identitytoken", .value = json::as<&Entry::identity_token, json::Text>},
    }};
    return rows;
}

struct Auths {
    json::Object entries;
    json::Object helpers;  ///< for some registries
    std::string helper;    ///< for all others
};
constexpr json::Shape map_of_registries{.types = "object"};
template <json::Object Auths::* member>
constexpr json::Value<Auths, json::Reading> as_map{
    &map_of_registries, [](json::Node const& node, json::Where const& at, Auths& auths, json::Reading& reading) {
        if (auto const* const all = json::expect<json::Object>("an object", node, at, reading)) auths.*member = *all;
    }};
std::span<json::Field<Auths> const> table(json::TableOf<Auths>) {
    static constexpr std::array<json::Field<Auths>, 3> rows{{
        {.name = "auths", .value = as_map<&Auths::entries>},
        {.name = "credHelpers", .value = as_map<&Auths::helpers>},
        {.name = "credsStore", .value = json::as<&Auths::helper, json::Text>},
    }};
    return rows;
}

/// The key of Docker's own registry, which is older than the names of registries.
constexpr std::string_view old_key_of_hub = "https://index.docker.io/v1/";

/// Splits "host/path", in the one spelling of URLs. A key with a scheme is one of old versions of Docker, whose path is
/// that of an API.
std::pair<std::string, std::string> split_key(std::string_view key) {
    std::size_t const scheme = key.find("://");
    std::string_view const rest = scheme == std::string_view::npos ? key : key.substr(scheme + 3);
    std::string const whole = scheme == std::string_view::npos ? "https://" + std::string(key) : std::string(key);
    std::string host(host_of(canonical_url(whole)));
    if (host == "index.docker.io" || host == "registry-1.docker.io") host = "docker.io";
    std::size_t const slash = rest.find('/');
    std::string path(scheme != std::string_view::npos || slash == std::string_view::npos ? "" : rest.substr(slash + 1));
    while (path.ends_with('/'))
        path.pop_back();
    if (path == "v1" || path == "v2") path.clear();
    return {host, path};
}

/// How well a key fits an image; nullopt: not at all. More of the image's name is better.
std::optional<std::size_t> fit(std::string_view key, std::string_view name) {
    auto const [key_host, key_path] = split_key(key);
    auto const [host, repository] = split_key(name);
    if (key_host != host) return std::nullopt;
    if (!key_path.empty() && !(repository + "/").starts_with(key_path + "/")) return std::nullopt;
    return key_path.size();
}

/// The member whose key fits best; the first of equal ones; null: none fits.
json::Member const* best_of(json::Object const& members, std::string_view name) {
    json::Member const* best = nullptr;
    std::size_t best_fit = 0;
    for (json::Member const& member : members) {
        auto const fits = fit(member.key, name);
        if (!fits || (best && *fits <= best_fit)) continue;
        best = &member;
        best_fit = *fits;
    }
    return best;
}

std::unexpected<Error> not_an_authfile(std::string const& path, json::Reading& reading) {
    Error error{.kind = ErrorKind::invalid, .attempted = {}, .reason = path + " is not an authfile", .details = {}};
    for (json::Problem const& problem : std::move(reading.problems).take())
        error.details.push_back(problem.text());
    return std::unexpected(std::move(error));
}

Result<Auths> read_auths(std::string_view text, std::string const& path) {
    json::Reading reading(10);
    auto const node = json::read_json(text, json::Limits{}, reading.problems);
    auto auths = node ? json::read_object<Auths>(*node, json::Where{}, reading) : std::nullopt;
    if (!auths || !reading.problems.empty()) return not_an_authfile(path, reading);
    return *std::move(auths);
}

Result<std::optional<content::Credential>> entry_for(Auths const& auths, std::string const& path, std::string_view name,
                                                     std::string host) {
    json::Member const* const found = best_of(auths.entries, name);
    if (!found) return std::optional<content::Credential>();
    json::Reading reading(10);
    json::Where const root;
    json::Where const map{&root, "auths"};
    auto entry = json::read_object<Entry>(found->node, json::Where{&map, found->key}, reading);
    if (!entry || !reading.problems.empty()) return not_an_authfile(path, reading);
    // Where a helper of Docker has the password, the file has the name of the registry only.
    bool const is_empty =
        entry->user.empty() && entry->password.empty() && entry->token.empty() && entry->identity_token.empty();
    if (is_empty) return std::optional<content::Credential>();
    return content::Credential{.host = std::move(host),
                               .user = std::move(entry->user),
                               .password = std::move(entry->password),
                               .token = std::move(entry->token),
                               .identity_token = std::move(entry->identity_token)};
}

/// The helper that a file names for this image alone; empty: none.
std::string own_helper(Auths const& auths, std::string_view name) {
    json::Member const* const found = best_of(auths.helpers, name);
    auto const* const text = found ? found->node.get<std::string>() : nullptr;
    return text ? *text : "";
}

}  // namespace

Result<std::optional<content::Credential>> credential_in(std::string_view text, std::string const& path,
                                                         std::string_view name, std::string host) {
    return entry_for(TRY(read_auths(text, path)), path, name, std::move(host));
}

Result<FoundCredential> credential_of(std::string const& path, std::string_view name, std::string host, int cancel) {
    UniqueFd const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) return fail(errno, "open " + path);
    struct stat status{};
    if (::fstat(file.get(), &status) < 0) return fail(errno, "look at " + path);
    if ((status.st_mode & 077) != 0)
        return fail(ErrorKind::refused,
                    path + " has credentials, and others than its owner may use it; chmod 600 " + path);
    Auths const auths = TRY(read_auths(TRY(read_open_file(file.get(), path, largest_file)), path));
    std::string helper = own_helper(auths, name);
    if (helper.empty()) {
        FoundCredential found;
        found.credential = TRY(entry_for(auths, path, name, host));
        if (found.credential || auths.helper.empty()) return found;
        helper = auths.helper;
    }
    // Whoever owns the file would choose a program that runs as us.
    if (status.st_uid != ::geteuid()) {
        return FoundCredential{.warning = path + " names the credential helper " + json::shown(helper) +
                                          ", which is not run, because the file belongs to user " +
                                          std::to_string(status.st_uid)};
    }
    auto const registry = split_key(name).first;
    std::string const server(registry == "docker.io" ? old_key_of_hub : std::string_view(registry));
    auto asked = ask_credential_helper(helper, server, cancel);
    if (!asked && asked.error().kind == ErrorKind::refused) return std::unexpected(asked.error());  // cancelled
    if (!asked) return FoundCredential{.warning = asked.error().text() + "; " + path + " names it for " + registry};
    if (*asked) (*asked)->host = std::move(host);
    return FoundCredential{.credential = *std::move(asked)};
}

}  // namespace triton::image
