#include "host/volume/objects.h"

#include <algorithm>
#include <array>

namespace triton::volume {

namespace {

constexpr std::array<std::string_view, 5> origin_names{"download", "blank", "cloudInit", "clone", "received"};
static_assert(origin_names.size() == static_cast<std::size_t>(Origin::received) + 1);
constexpr std::array<std::string_view, 2> layout_names{"directory", "file"};
static_assert(layout_names.size() == static_cast<std::size_t>(Layout::file) + 1);
constexpr std::array<std::string_view, 9> format_names{"raw", "iso",  "qcow",      "qcow2",    "vmdk",
                                                       "vhd", "vhdx", "container", "directory"};
static_assert(format_names.size() == static_cast<std::size_t>(Format::directory) + 1);
constexpr std::array<std::string_view, 3> datastore_names{"http", "registry", "directory"};
static_assert(datastore_names.size() == static_cast<std::size_t>(DatastoreConfig::Type::directory) + 1);

constexpr std::array<std::string_view, 5> signature_names{"minisign", "openpgp-sums", "openpgp", "cms", "x509"};
static_assert(signature_names.size() == static_cast<std::size_t>(SignatureConfig::Kind::x509) + 1);

template <class Enum, std::size_t count>
std::optional<Enum> find_name(std::array<std::string_view, count> const& names, std::string_view name) {
    auto const found = std::ranges::find(names, name);
    if (found == names.end()) return std::nullopt;
    return static_cast<Enum>(found - names.begin());
}

}  // namespace

std::string_view name_of(Origin origin) { return origin_names[static_cast<std::size_t>(origin)]; }
std::string_view name_of(Layout layout) { return layout_names[static_cast<std::size_t>(layout)]; }
std::string_view name_of(Format format) { return format_names[static_cast<std::size_t>(format)]; }
std::string_view name_of(DatastoreConfig::Type type) { return datastore_names[static_cast<std::size_t>(type)]; }
std::optional<Origin> parse_origin(std::string_view name) { return find_name<Origin>(origin_names, name); }
std::optional<Layout> parse_layout(std::string_view name) { return find_name<Layout>(layout_names, name); }
std::optional<Format> parse_format(std::string_view name) { return find_name<Format>(format_names, name); }
std::optional<DatastoreConfig::Type> parse_datastore_type(std::string_view name) {
    return find_name<DatastoreConfig::Type>(datastore_names, name);
}

std::string_view name_of(SignatureConfig::Kind kind) { return signature_names[static_cast<std::size_t>(kind)]; }
std::optional<SignatureConfig::Kind> parse_signature_kind(std::string_view name) {
    return find_name<SignatureConfig::Kind>(signature_names, name);
}
bool has_certificates(SignatureConfig::Kind kind) {
    return kind == SignatureConfig::Kind::cms || kind == SignatureConfig::Kind::x509;
}

std::string demand_of(std::optional<SignatureConfig> const& signature) {
    if (!signature) return {};
    std::string text(name_of(signature->kind));
    text += signature->is_required ? " required" : " if-present";
    if (signature->holder) text += " " + signature->holder->text();
    for (std::string const* const part : {&signature->keys, &signature->name, &signature->sums, &signature->text})
        text += "|" + *part;
    return text;
}

std::string shown_user(ReferenceConfig const& reference) {
    return (reference.publisher == "vmadm" ? "machine " : "") + reference.key.user;
}

Layout layout_of(Format format) {
    return format == Format::container || format == Format::directory ? Layout::directory : Layout::file;
}

}  // namespace triton::volume
