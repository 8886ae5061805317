#include "host/cri/images/image_name.h"

#include <variant>

#include "lib/json/text.h"

namespace triton::cri {

namespace {

constexpr std::size_t longest_name = 1024;

/// Whether the first component of a name is a host. Source: the grammar of distribution/reference.
bool is_host(std::string_view component) {
    return component == "localhost" || component.find_first_of(".:") != std::string_view::npos;
}

/// The name with its host: "nginx:1" is "docker.io/library/nginx:1".
std::string with_host(std::string_view text) {
    std::size_t const slash = text.find('/');
    if (slash != std::string_view::npos && is_host(text.substr(0, slash))) {
        bool const is_short = text.starts_with("docker.io/") && text.find('/', slash + 1) == std::string_view::npos;
        if (!is_short) return std::string(text);
        text.remove_prefix(slash + 1);
    }
    return (text.find('/') == std::string_view::npos ? "docker.io/library/" : "docker.io/") + std::string(text);
}

}  // namespace

Result<image::RegistryReference> parse_image_name(std::string_view text) {
    auto const wrong = [text](std::string const& why) {
        return fail(ErrorKind::invalid, "use " + json::quoted(text) + " as the name of an image", why);
    };
    if (text.empty() || text.size() > longest_name) return wrong("it must have 1 to 1,024 bytes");
    auto const parsed = image::parse_reference(with_host(text));
    if (!parsed) return wrong(parsed.error().reason);
    auto const* const reference = std::get_if<image::RegistryReference>(&*parsed);
    if (!reference) return wrong("it does not name an image of a registry");
    image::RegistryReference named = *reference;
    if (!named.digest.empty()) named.tag.clear();
    return named;
}

std::string repository_of(image::RegistryReference const& reference) {
    return reference.host + "/" + reference.repository;
}

std::string digest_name(image::RegistryReference const& reference, std::string_view digest) {
    return repository_of(reference) + "@" + std::string(digest);
}

}  // namespace triton::cri
