#include "host/image/reference.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "lib/base/digits.h"
#include "lib/json/text.h"

namespace triton::image {

namespace {

constexpr std::string_view digest_prefix = "sha256:";
constexpr std::size_t hex_length = 64;
constexpr std::size_t longest_reference = 4096;
constexpr std::size_t longest_repository = 255;
constexpr std::size_t longest_host = 259;  // a DNS name and a port

bool is_lower_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }
bool is_lower_alnum(char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); }
bool is_alnum(char c) { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z'); }

std::unexpected<Error> bad(std::string_view text, std::string_view why) {
    return fail("image reference " + json::quoted(text, 120) + ": " + std::string(why));
}

/// Whether a text is one component: alphanumerics with ".", "_", "__" or dashes between them.
bool is_component(std::string_view text) {
    std::size_t at = 0;
    auto const take_word = [&] {
        std::size_t const from = at;
        while (at < text.size() && is_lower_alnum(text[at]))
            ++at;
        return at > from;
    };
    auto const take_separator = [&] {
        if (text[at] == '.') return ++at, true;
        if (text[at] == '_') {
            at += text.substr(at).starts_with("__") ? 2 : 1;
            return true;
        }
        std::size_t const from = at;
        while (at < text.size() && text[at] == '-')
            ++at;
        return at > from;
    };
    if (!take_word()) return false;
    while (at < text.size()) {
        if (!take_separator() || !take_word()) return false;
    }
    return true;
}

bool is_port(std::string_view text) {
    return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, is_digit) &&
           std::stoul(std::string(text)) <= 65535 && std::stoul(std::string(text)) > 0;
}

bool is_address_in_brackets(std::string_view text) {
    return text.size() > 2 && text.starts_with('[') && text.ends_with(']') &&
           std::ranges::all_of(text.substr(1, text.size() - 2), [](char c) {
               return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
           });
}

/// Splits "name:5000" into name and port; nullopt: there is no port.
std::pair<std::string_view, std::optional<std::string_view>> split_port(std::string_view host) {
    std::size_t const bracket = host.rfind(']');
    std::size_t const colon = host.rfind(':');
    if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket))
        return {host, std::nullopt};
    return {host.substr(0, colon), host.substr(colon + 1)};
}

/// Whether the first component of a reference is a host, by Docker's rule.
bool looks_like_host(std::string_view text) {
    return text == "localhost" || text.find_first_of(".:[") != std::string_view::npos;
}

/// Takes "@sha256:..." off the end. Returns false when there is an "@" without a good digest behind it.
bool take_digest(std::string_view& text, std::string& digest) {
    std::size_t const at = text.rfind('@');
    if (at == std::string_view::npos) return true;
    if (!is_sha256_digest(text.substr(at + 1))) return false;
    digest = text.substr(at + 1);
    text = text.substr(0, at);
    return true;
}

Result<Reference> parse_registry(std::string_view whole, std::string_view text) {
    RegistryReference reference;
    if (!take_digest(text, reference.digest))
        return bad(whole, "a digest is sha256: and 64 lower-case hexadecimal digits");
    std::size_t const slash = text.find('/');
    if (slash == std::string_view::npos || !looks_like_host(text.substr(0, slash))) {
        std::string const meant = "docker.io/" + std::string(slash == std::string_view::npos ? "library/" : "");
        return bad(whole, "it names no registry; an image of Docker Hub is " + meant + std::string(text) +
                              ", a file is ./" + std::string(text));
    }
    reference.host = text.substr(0, slash);
    for (char& c : reference.host)  // a name of DNS: one registry has one spelling, and one policy
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!is_registry_host(reference.host)) return bad(whole, json::quoted(reference.host) + " is not a host");
    if (reference.host == "index.docker.io") reference.host = "docker.io";  // its old name
    text.remove_prefix(slash + 1);
    std::size_t const colon = text.rfind(':');
    if (colon != std::string_view::npos) {
        reference.tag = text.substr(colon + 1);
        text = text.substr(0, colon);
        if (!is_tag(reference.tag)) return bad(whole, json::quoted(reference.tag) + " is not a tag");
    } else if (reference.digest.empty()) {
        reference.tag = "latest";
    }
    reference.repository = text;
    if (reference.host == "docker.io" && text.find('/') == std::string_view::npos)
        reference.repository = "library/" + reference.repository;
    if (!is_repository(reference.repository))
        return bad(whole, json::quoted(reference.repository) + " is not the name of a repository");
    return reference;
}

/// Whether the rest of an archive's or a layout's reference, after a colon, is the name of an image in it. In a
/// reference like "oci:/a:b/c" it is the rest of the path. Most images in an archive of docker save are called like
/// "team/app:1"; one in a layout that has a slash in its name has a host, too ("localhost/app:1", by podman).
bool is_name_and_not_path(std::string_view text, bool is_archive) {
    std::size_t const slash = text.find('/');
    if (slash == std::string_view::npos) return true;
    if (!is_image_name(text)) return false;
    return looks_like_host(text.substr(0, slash)) ||
           (is_archive && text.find(':', text.rfind('/')) != std::string_view::npos);
}

Result<Reference> parse_layout(std::string_view whole, std::string_view text, bool is_archive) {
    LayoutReference reference;
    reference.is_archive = is_archive;
    std::size_t const at = text.rfind("@sha256:");
    if (at != std::string_view::npos && !take_digest(text, reference.digest))
        return bad(whole, "a digest is sha256: and 64 lower-case hexadecimal digits");
    std::size_t colon = reference.digest.empty() ? text.find(':') : std::string_view::npos;
    while (colon != std::string_view::npos && !is_name_and_not_path(text.substr(colon + 1), is_archive))
        colon = text.find(':', colon + 1);
    if (colon != std::string_view::npos) {
        reference.tag = text.substr(colon + 1);
        text = text.substr(0, colon);
        if (!is_image_name(reference.tag))
            return bad(whole, json::quoted(reference.tag) + " is neither a tag nor the name of an image");
    }
    if (text.empty()) return bad(whole, is_archive ? "it names no file" : "it names no directory");
    reference.path = text;
    return reference;
}

}  // namespace

std::string RegistryReference::text() const {
    return host + "/" + repository + (tag.empty() ? "" : ":" + tag) + (digest.empty() ? "" : "@" + digest);
}

std::string_view RegistryReference::endpoint() const {
    return host == "docker.io" ? std::string_view("registry-1.docker.io") : host;
}

std::string LayoutReference::text() const {
    return (is_archive ? "oci-archive:" : "oci:") + path + (tag.empty() ? "" : ":" + tag) +
           (digest.empty() ? "" : "@" + digest);
}

bool is_sha256_digest(std::string_view text) {
    return text.starts_with(digest_prefix) && text.size() == digest_prefix.size() + hex_length &&
           std::ranges::all_of(text.substr(digest_prefix.size()), is_lower_hex);
}

bool is_tag(std::string_view text) {
    return !text.empty() && text.size() <= 128 && text.front() != '.' && text.front() != '-' &&
           std::ranges::all_of(text, [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-'; });
}

bool is_image_name(std::string_view text) {
    constexpr std::size_t longest = 512;
    return !text.empty() && text.size() <= longest && (is_alnum(text.front()) || text.front() == '_') &&
           (is_alnum(text.back()) || std::string_view("._-+").find(text.back()) != std::string_view::npos) &&
           text.find("//") == std::string_view::npos && std::ranges::all_of(text, [](char c) {
               return is_alnum(c) || std::string_view("._-+:@/").find(c) != std::string_view::npos;
           });
}

ImageName split_image_name(std::string_view text) {
    text = text.substr(0, text.find('@'));
    if (text.find_first_of("/:") == std::string_view::npos) return {.name = {}, .tag = std::string(text)};
    std::size_t const first = text.find('/');
    if (first != std::string_view::npos && looks_like_host(text.substr(0, first))) text.remove_prefix(first + 1);
    std::size_t const colon = text.rfind(':');
    if (colon == std::string_view::npos || text.find('/', colon) != std::string_view::npos)
        return {.name = std::string(text), .tag = {}};
    return {.name = std::string(text.substr(0, colon)), .tag = std::string(text.substr(colon + 1))};
}

std::string whole_image_name(std::string_view text) {
    std::size_t const slash = text.find('/');
    std::string whole(text);
    if (slash == std::string_view::npos)
        whole = "docker.io/library/" + whole;
    else if (!looks_like_host(text.substr(0, slash)))
        whole = "docker.io/" + whole;
    return whole.find_first_of(":@", whole.rfind('/')) == std::string::npos ? whole + ":latest" : whole;
}

bool is_file_name(std::string_view text) {
    return !text.empty() && text.size() <= 255 && (is_alnum(text.front()) || text.front() == '_') &&
           std::ranges::all_of(
               text, [](char c) { return is_alnum(c) || std::string_view("._+~-").find(c) != std::string_view::npos; });
}

bool is_repository(std::string_view text) {
    if (text.empty() || text.size() > longest_repository) return false;
    while (true) {
        std::size_t const slash = text.find('/');
        if (!is_component(text.substr(0, slash))) return false;
        if (slash == std::string_view::npos) return true;
        text.remove_prefix(slash + 1);
    }
}

bool is_registry_host(std::string_view text) {
    if (text.empty() || text.size() > longest_host) return false;
    auto const [name, port] = split_port(text);
    if (port && !is_port(*port)) return false;
    if (is_address_in_brackets(name)) return true;
    return !name.empty() && is_alnum(name.front()) && is_alnum(name.back()) &&
           std::ranges::all_of(name, [](char c) { return is_alnum(c) || c == '.' || c == '-'; }) &&
           name.find("..") == std::string_view::npos;
}

Result<Reference> parse_reference(std::string_view text) {
    if (text.empty()) return fail("an image reference is empty");
    if (text.size() > longest_reference) return bad(text, "it is too long");
    if (text.find('\0') != std::string_view::npos) return bad(text, "it has a NUL byte");
    if (auto uuid = Uuid::parse(text)) return *std::move(uuid);
    if (text.starts_with("oci:")) return parse_layout(text, text.substr(4), false);
    for (std::string_view const prefix : {"oci-archive:", "docker-archive:"})
        if (text.starts_with(prefix)) return parse_layout(text, text.substr(prefix.size()), true);
    if (text.starts_with("docker://")) return parse_registry(text, text.substr(9));
    if (text.starts_with('/') || text.starts_with("./") || text.starts_with("../") || text == "." || text == "..")
        return PathReference{std::string(text)};
    return parse_registry(text, text);
}

}  // namespace triton::image
