#include "host/image/sources.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "host/image/proxies.h"
#include "host/image/reference.h"
#include "lib/base/loopback.h"
#include "lib/json/schema.h"
#include "lib/json/table.h"
#include "lib/json/values.h"
#include "lib/json/writer.h"

namespace triton::image {

namespace {

using json::as;
using json::Need;

constexpr std::array<std::string_view, 3> source_type_names{"imgapi", "directory", "registry"};
constexpr std::array<std::string_view, 3> policy_names{"required", "if-present", "none"};
static_assert(source_type_names.size() == static_cast<std::size_t>(SourceType::registry) + 1);
static_assert(policy_names.size() == static_cast<std::size_t>(SignaturePolicy::none) + 1);

constexpr json::Limits source_limits{.document_bytes = 1 << 20, .depth = 16, .values = 1 << 14, .problems = 20};
constexpr std::size_t longest_url = 2048;

struct SourceReading : json::Reading {
    SourceReading() : json::Reading(source_limits.problems) {}
};

bool is_url_text(std::string_view text) {
    return !text.empty() && text.size() <= longest_url &&
           std::ranges::all_of(text, [](char c) { return c > ' ' && c != 0x7f && c != '"' && c != '<' && c != '>'; });
}

std::unexpected<Error> bad_url(std::string_view url, std::string why) {
    return fail("source " + json::quoted(url, 120) + ": " + std::move(why));
}

Result<> check_one_url(SourceType type, std::string_view url, bool is_insecure) {
    if (!is_url_text(url)) return bad_url(url, "it is not a URL");
    if (url.starts_with('/')) {
        if (type == SourceType::directory) return {};
        return bad_url(url, "only a source of type directory is a path");
    }
    bool const is_plain = url.starts_with("http://");
    if (!is_plain && !url.starts_with("https://")) return bad_url(url, "it begins with neither https:// nor http://");
    std::string_view const host = host_of(url);
    if (host.find('@') != std::string_view::npos)
        return bad_url(url.substr(0, url.find("://") + 3), "credentials belong in an authfile, not in the URL");
    if (!is_registry_host(host)) return bad_url(url, json::quoted(host) + " is not a host");
    if (url.find_first_of("?#") != std::string_view::npos) return bad_url(url, "it has a query or a fragment");
    if (is_plain && !is_insecure && !is_loopback_host(host))
        return bad_url(url, "it is not encrypted; use https://, or allow it with -k");
    return {};
}

/// Checks the proxy of a source, which has no credentials: imgadm.conf may be read by everybody.
Result<> check_proxy(Source const& source) {
    if (source.proxy.empty() || source.proxy == "none") return {};
    if (source.url.starts_with('/')) return bad_url(source.url, "a directory of this host has no proxy");
    auto const proxy = parse_proxy(source.proxy, "its proxy");
    if (!proxy) return bad_url(source.url, proxy.error().text());
    if (!proxy->user.empty())
        return bad_url(source.url, "credentials of its proxy belong in an authfile, not in the URL");
    return {};
}

constexpr json::Shape url_text{.types = "string", .shortest = 1, .longest = longest_url};
std::optional<std::string> read_url(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto text = json::read_text(node, at, reading);
    if (!text || is_url_text(*text)) return text;
    reading.problems.add(at, json::quoted(*text) + " is not a URL");
    return std::nullopt;
}
using Url = json::Kind<read_url, url_text>;

/// Reads the type of a source; an old configuration calls a registry "docker".
std::optional<SourceType> read_type(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = node.get<std::string>();
    if (text && *text == "docker") return SourceType::registry;
    return json::Choice<SourceType, source_type_names>::read(node, at, reading);
}
constexpr json::Shape type_text{.types = "string", .choices = source_type_names};
using Type = json::Kind<read_type, type_text>;

std::span<json::Field<Source, SourceReading> const> table(json::TableOf<Source, SourceReading>) {
    static constexpr std::array<json::Field<Source, SourceReading>, 11> rows{{
        {.name = "type", .value = as<&Source::type, Type>, .description = "The type of the server. Default: `imgapi`."},
        {.name = "url",
         .need = Need::required,
         .value = as<&Source::url, Url>,
         .description = "Where it is: `https://...`; `http://` on this machine, elsewhere with `insecure`; a path for "
                        "a source of type `directory`."},
        {.name = "insecure",
         .value = as<&Source::is_insecure, json::Boolean>,
         .description = "Whether plain HTTP to another machine is allowed. Default: false."},
        {.name = "signature",
         .value = as<&Source::signature, json::Choice<SignaturePolicy, policy_names>>,
         .description = "Whether its images must be signed. With `required` an image without a valid signature is "
                        "refused; with `if-present` only one with an invalid signature. Default: `none`."},
        {.name = "keys",
         .value = as<&Source::keys, json::List<json::Path>>,
         .description = "Files with the public keys: of minisign (`*.pub`), or key rings of OpenPGP."},
        {.name = "signatures",
         .value = as<&Source::signatures, Url>,
         .description = "Where `SHA256SUMS` and its signature are. Default: the `url`."},
        {.name = "authfile",
         .value = as<&Source::authfile, json::Path>,
         .description = "Credentials, in the format of `~/.docker/config.json`."},
        {.name = "mirrors",
         .value = as<&Source::mirrors, json::List<Url>>,
         .description = "Other URLs with the same content. They are tried in turn after `url`."},
        {.name = "authorities",
         .value = as<&Source::authorities, json::Path>,
         .description = "A file of certificates that vouch for it, in PEM. Default: those of the system."},
        {.name = "channel",
         .value = as<&Source::channel, json::Text>,
         .description = "The channel of an IMGAPI server."},
        {.name = "proxy",
         .value = as<&Source::proxy, json::Text>,
         .description = "The proxy that it is reached through: `http://proxy:3128`, with its credentials in the "
                        "`authfile`; `none`: no proxy. Default: those of the environment."},
    }};
    return rows;
}

void check_keys(Source const& source, json::Present<Source, SourceReading> const& present, json::Where const& at,
                SourceReading& reading) {
    if (present.has("url") && !present.is_faulty("url")) {
        if (auto const good = check_source(source); !good) reading.problems.add(at, good.error().text());
    }
    if (source.signature != SignaturePolicy::none && source.keys.empty())
        reading.problems.add(json::Where{&at, "keys"}, "a signature is checked with keys, and there are none");
}

constexpr json::Shape source_shape = json::object_shape("Source");

std::span<json::Field<Configuration, SourceReading> const> table(json::TableOf<Configuration, SourceReading>) {
    static constexpr json::Value<Configuration, SourceReading> ignored{
        &json::any_text, [](json::Node const&, json::Where const&, Configuration&, SourceReading&) {}};
    static constexpr std::array<json::Field<Configuration, SourceReading>, 3> rows{{
        {.name = "sources",
         .value = as<&Configuration::sources, json::List<json::Record<Source, source_shape, check_keys>>>,
         .description = "Where images come from, in the order in which they are asked."},
        {.name = "userAgentExtra", .value = ignored, .description = "Of SmartOS; it has no effect."},
        {.name = "upgradedToVer", .value = ignored, .description = "Of SmartOS; it has no effect."},
    }};
    return rows;
}

void write_source(json::Writer& out, Source const& source) {
    out.open('{').member("type", name_of(source.type)).member("url", source.url);
    if (source.is_insecure) out.member("insecure", true);
    if (source.signature != SignaturePolicy::none) out.member("signature", name_of(source.signature));
    if (!source.keys.empty()) out.key("keys").list(source.keys);
    if (!source.signatures.empty()) out.member("signatures", source.signatures);
    if (!source.authfile.empty()) out.member("authfile", source.authfile);
    if (!source.mirrors.empty()) out.key("mirrors").list(source.mirrors);
    if (!source.authorities.empty()) out.member("authorities", source.authorities);
    if (!source.channel.empty()) out.member("channel", source.channel);
    if (!source.proxy.empty()) out.member("proxy", source.proxy);
    out.close('}');
}

}  // namespace

std::string_view name_of(SourceType type) { return source_type_names[static_cast<std::size_t>(type)]; }
std::string_view name_of(SignaturePolicy policy) { return policy_names[static_cast<std::size_t>(policy)]; }

Result<ReadConfiguration> read_configuration(std::string_view text, std::string_view path) {
    SourceReading reading;
    std::optional<Configuration> configuration;
    if (auto const node = json::read_json(text, source_limits, reading.problems))
        configuration = json::read_object<Configuration>(*node, json::Where{}, reading);
    auto const texts = [](json::ProblemList list) {
        std::vector<std::string> all;
        for (json::Problem const& problem : std::move(list).take())
            all.push_back(problem.text());
        return all;
    };
    if (!reading.problems.empty() || !configuration) {
        return std::unexpected(Error{.kind = ErrorKind::invalid,
                                     .attempted = {},
                                     .reason = std::string(path) + " is not a configuration of imgadm",
                                     .details = texts(std::move(reading.problems))});
    }
    for (Source& source : configuration->sources)
        source.url = canonical_url(source.url);
    return ReadConfiguration{*std::move(configuration), texts(std::move(reading.warnings))};
}

std::string configuration_text(Configuration const& configuration) {
    std::string text = "{\n  \"sources\": [";
    char const* separator = "\n    ";
    for (Source const& source : configuration.sources) {
        text += separator + source_json(source);
        separator = ",\n    ";
    }
    text += configuration.sources.empty() ? "]" : "\n  ]";
    return text + "\n}\n";
}

std::string source_json(Source const& source) {
    json::Writer out(json::Spacing::blanks);
    write_source(out, source);
    return std::move(out).text();
}

Result<Source> make_source(SourceType type, std::string_view url, bool is_insecure) {
    std::string text = canonical_url(url);
    TRY(check_one_url(type, text, is_insecure));
    return Source{.type = type, .url = std::move(text), .is_insecure = is_insecure};
}

Result<> check_source(Source const& source) {
    TRY(check_one_url(source.type, canonical_url(source.url), source.is_insecure));
    for (std::string const& mirror : source.mirrors) {
        if (source.url.starts_with('/')) return bad_url(source.url, "a directory of this host has no mirrors");
        // A mirror is never a path.
        TRY(check_one_url(SourceType::imgapi, canonical_url(mirror), source.is_insecure));
    }
    TRY(check_proxy(source));
    if (source.signatures.empty()) return {};
    return check_one_url(SourceType::directory, canonical_url(source.signatures), source.is_insecure);
}

std::string_view host_of(std::string_view url) {
    std::size_t const scheme = url.find("://");
    std::string_view const rest = scheme == std::string_view::npos ? url : url.substr(scheme + 3);
    return rest.substr(0, rest.find('/'));
}

std::string canonical_url(std::string_view url) {
    while (url.size() > 1 && url.ends_with('/'))
        url.remove_suffix(1);
    std::string text(url);
    std::size_t const scheme = text.find("://");
    if (text.starts_with('/') || scheme == std::string::npos) return text;
    std::size_t const end = std::min(text.find_first_of("/?#", scheme + 3), text.size());
    std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    std::string_view const port = text.starts_with("https:") ? ":443" : text.starts_with("http:") ? ":80" : "";
    if (!port.empty() && host_of(text).ends_with(port)) text.erase(end - port.size(), port.size());
    return text;
}

Result<SourceType> parse_source_type(std::string_view name) {
    if (name == "docker") return SourceType::registry;
    if (name == "dsapi") return fail("sources of type dsapi have not existed since 2013; their successor is imgapi");
    auto const at = std::ranges::find(source_type_names, name);
    if (at != source_type_names.end()) return static_cast<SourceType>(at - source_type_names.begin());
    return fail(json::quoted(name) + " is not one of the types imgapi, directory, registry");
}

std::string configuration_reference_page() {
    std::string page;
    json::append_section(page, "imgadm.conf", json::described_keys<Configuration, SourceReading>());
    json::append_section(page, "Source", json::described_keys<Source, SourceReading>());
    return page;
}

}  // namespace triton::image
