#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::image {

/// What answers at a source.
enum class SourceType : std::uint8_t {
    imgapi,     ///< an IMGAPI server
    directory,  ///< manifests and files, in a directory of this host or behind an HTTP server
    registry,   ///< OCI distribution
};

/// Whether what comes from a source must be signed.
enum class SignaturePolicy : std::uint8_t {
    required,    ///< without a good signature nothing is imported
    if_present,  ///< a signature must be good, but may be missing
    none,        ///< no signature is looked for
};

std::string_view name_of(SourceType type);
std::string_view name_of(SignaturePolicy policy);

/// A place where images come from, and what is required of them.
struct Source {
    SourceType type = SourceType::imgapi;
    std::string url;           ///< "https://images.smartos.org", "/srv/images", "https://registry.example:5000"
    bool is_insecure = false;  ///< plain HTTP is allowed even to other machines
    SignaturePolicy signature = SignaturePolicy::none;
    std::vector<std::string> keys = {};     ///< files of public keys: minisign, or an OpenPGP key ring
    std::string signatures = {};            ///< where SHA256SUMS and its signature are; empty: at the source itself
    std::string authfile = {};              ///< credentials in the format of ~/.docker/config.json
    std::vector<std::string> mirrors = {};  ///< other URLs with the same content, tried in turn
    std::string authorities = {};           ///< file of certificates that vouch for it; empty: those of the system
    std::string channel = {};               ///< of an IMGAPI server
    std::string proxy = {};                 ///< "http://proxy:3128"; "none"; empty: those of the environment

    bool operator==(Source const&) const = default;
};

/// `<state>/imgadm/imgadm.conf`.
struct Configuration {
    std::vector<Source> sources;
};

struct ReadConfiguration {
    Configuration configuration;
    std::vector<std::string> warnings;
};

/// Reads imgadm.conf. `path`: for errors. Errors: `invalid`, "<path> is not a configuration of imgadm", with details.
Result<ReadConfiguration> read_configuration(std::string_view text, std::string_view path);

/// The text of the file: indented, with a newline at the end.
std::string configuration_text(Configuration const& configuration);

/// One source as JSON in one line.
std::string source_json(Source const& source);

/// Checks a URL as typed by a user, and gives it its canonical form. Errors: `invalid`: an unknown scheme; HTTP to
/// another machine without `is_insecure`; a user name or password in it.
Result<Source> make_source(SourceType type, std::string_view url, bool is_insecure);

/// Checks the URLs of a source, of its mirrors and of its signatures. Errors: as of make_source().
Result<> check_source(Source const& source);

/// Returns "registry.example:5000" for "https://registry.example:5000/x".
std::string_view host_of(std::string_view url);

/// The one spelling of a URL: without a slash at its end, with scheme and host in lower case, without the port that its
/// scheme has anyway. So a source is found, and its signature policy holds, however its URL is typed. A path only loses
/// its slash.
std::string canonical_url(std::string_view url);

/// Reads "imgapi", "directory" or "registry"; "docker" is an old name for the last. Errors: `invalid`.
Result<SourceType> parse_source_type(std::string_view name);

/// The reference page of imgadm.conf's keys, in Markdown.
std::string configuration_reference_page();

}  // namespace triton::image
