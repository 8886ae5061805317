#include "host/cri/images/registry_hosts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include <dirent.h>
#include <sys/stat.h>

#include "host/cri/images/hosts_file.h"
#include "host/image/sources.h"
#include "lib/base/next_entry.h"
#include "lib/base/read_file.h"

namespace triton::cri {

namespace {

constexpr std::size_t most_file_bytes = 64 << 10;
constexpr std::size_t most_certificate_bytes = 1 << 20;
constexpr std::size_t most_bytes = 4 << 20;  // of all certificates, which travel to the downloader
constexpr std::size_t most_entries = 1000;   // of a directory

/// "registry.example_5000_" for "registry.example:5000": a directory whose name has no colon.
std::string without_colon(std::string const& host) {
    std::size_t const colon = host.rfind(':');
    return colon == std::string::npos ? host : host.substr(0, colon) + "_" + host.substr(colon + 1) + "_";
}

/// The directory of a registry. Nullopt: there is none.
Result<std::optional<std::string>> directory_of(std::string const& directory, std::string const& host) {
    std::string const names[] = {without_colon(host), host, "_default"};
    for (std::string const& name : names) {
        std::string path = directory + "/" + name;
        struct stat status{};
        if (::stat(path.c_str(), &status) == 0) return std::optional(std::move(path));
        if (errno != ENOENT) return fail(errno, "look at " + path);
    }
    return std::optional<std::string>();
}

/// Certificates as Docker's users have them. Source: Docker, "Verify repository client with certificates".
Result<std::vector<HostEntry>> certificates_in(std::string const& directory) {
    std::unique_ptr<DIR, int (*)(DIR*)> const opened(::opendir(directory.c_str()), ::closedir);
    if (!opened) return fail(errno, "open directory " + directory);
    std::vector<std::string> names;
    while (dirent const* const entry = TRY(next_entry(opened.get(), directory))) {
        names.emplace_back(entry->d_name);
        if (names.size() > most_entries) return fail(ErrorKind::invalid, directory + " has more than 1,000 entries");
    }
    std::ranges::sort(names);
    HostEntry entry;
    for (std::string const& name : names) {
        std::string const path = directory + "/" + name;
        if (name.ends_with(".crt")) entry.authorities.push_back(path);
        if (!name.ends_with(".cert")) continue;
        if (!entry.certificate.empty())
            return fail(ErrorKind::invalid, "use " + path, "more than one certificate for a server is not supported");
        entry.certificate = path;
        entry.key = path.substr(0, path.size() - 4) + "key";
    }
    if (entry == HostEntry()) return std::vector<HostEntry>();
    return std::vector{std::move(entry)};
}

Result<std::vector<HostEntry>> entries_of(std::string const& directory) {
    std::string const path = directory + "/hosts.toml";
    auto const text = read_file(path, most_file_bytes);
    if (text) return parse_hosts_file(*text, path);
    if (text.error().kind != ErrorKind::not_found) return std::unexpected(text.error());
    return certificates_in(directory);
}

/// Reads the files of certificates.
class Certificates {
public:
    Result<std::string> read(std::string const& path) {
        std::string text = TRY(read_file(path, most_certificate_bytes));
        if (text.find("-----BEGIN ") == std::string::npos)
            return fail(ErrorKind::invalid, "use " + path, "it has no certificate or key in PEM");
        bytes_ += text.size();
        if (bytes_ > most_bytes)
            return fail(ErrorKind::invalid, "use " + path, "the certificates of a registry have more than 4 MiB");
        return text;
    }

private:
    std::size_t bytes_ = 0;
};

Result<image::RegistryHost> host_of_entry(HostEntry const& entry, Certificates& certificates) {
    image::RegistryHost host{.settings = {.base = entry.base,
                                          .headers = entry.headers,
                                          .is_unverified = entry.is_unverified,
                                          .connect_milliseconds = static_cast<std::uint64_t>(entry.connect.count())},
                             .resolves = entry.resolves,
                             .has_content = entry.has_content};
    for (std::string const& path : entry.authorities)
        host.settings.authorities += TRY(certificates.read(path)) + "\n";
    if (entry.certificate.empty()) return host;
    host.settings.certificate = TRY(certificates.read(entry.certificate));
    host.settings.key = TRY(certificates.read(entry.key.empty() ? entry.certificate : entry.key));
    return host;
}

std::string encoded(std::string_view host) {
    std::string text;
    for (char const c : host)
        text += c == ':' ? "%3A" : c == '[' ? "%5B" : c == ']' ? "%5D" : std::string(1, c);
    return text;
}

/// Whether a server is another one than that of the registry. It then needs to be told which registry is meant.
/// Source: containerd, docs/hosts.md, "ns".
bool is_mirror(std::string const& base, image::RegistryReference const& reference) {
    if (base.empty()) return false;
    std::string const scheme = base.substr(0, base.find("://") + 3);
    auto const is_server = [&](std::string_view host) {
        return image::host_of(image::canonical_url(scheme + std::string(host))) == image::host_of(base);
    };
    return !is_server(reference.host) && !is_server(reference.endpoint());
}

}  // namespace

Result<RegistryHosts> read_registry_hosts(std::string const& directory, image::RegistryReference const& reference) {
    RegistryHosts registry;
    if (directory.empty()) return registry;
    auto const found = TRY(directory_of(directory, reference.host));
    if (!found) return registry;
    Certificates certificates;
    for (HostEntry const& entry : TRY(entries_of(*found))) {
        image::RegistryHost host = TRY(host_of_entry(entry, certificates));
        if (is_mirror(entry.base, reference)) host.query = "ns=" + encoded(reference.host);
        if (entry.is_unverified && !entry.base.starts_with("http://"))
            registry.warnings.push_back(reference.text() + ": " + *found + " lets " +
                                        (entry.base.empty() ? reference.host : entry.base) +
                                        " have any certificate (skip_verify)");
        registry.hosts.push_back(std::move(host));
    }
    return registry;
}

}  // namespace triton::cri
