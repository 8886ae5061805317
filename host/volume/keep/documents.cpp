#include "host/volume/keep/documents.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "lib/json/lookup.h"
#include "lib/json/text.h"

namespace triton::volume {

namespace {

constexpr std::size_t longest_text = 1024;
constexpr std::size_t longest_display_name = 128;
constexpr std::size_t longest_signature = 16 << 10;
constexpr std::size_t most_datastores = 16;
constexpr std::size_t most_certificates = 16;
constexpr std::size_t most_volumes_of_snapshot = 64;
constexpr std::int64_t largest_size = std::int64_t{1} << 60;
constexpr std::size_t longest_publisher = 32;

constexpr std::array<std::string_view, 6> kinds{"VolumeConfig",    "ContentTreeConfig", "VolumeRefConfig",
                                                "DatastoreConfig", "CertObjConfig",     "VolumesSnapshotConfig"};
static_assert(kinds.size() == std::variant_size_v<Config>);

/// Takes the members of an object one by one; what nobody took in the end is unknown. The first error stays.
class Members {
public:
    Members(std::string_view kind, json::Object const& object) : kind_(kind), object_(object) {}

    std::string text(std::string_view name, std::size_t longest = longest_text) {
        json::Node const* const node = take(name);
        if (!node) return {};
        auto const* const text = node->get<std::string>();
        if (!text) return wrong(name, "expected a text"), std::string();
        if (text->size() > longest) return wrong(name, "longer than " + std::to_string(longest) + " bytes"), "";
        auto const is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
        if (std::ranges::any_of(*text, is_control)) return wrong(name, "it has control characters"), std::string();
        return *text;
    }

    /// A text of several lines.
    std::string lines(std::string_view name, std::size_t longest) {
        json::Node const* const node = take(name);
        if (!node) return {};
        auto const* const text = node->get<std::string>();
        bool const is_good = text && !text->empty() && text->size() <= longest && !text->contains('\0');
        if (!is_good) wrong(name, "expected a text of at most " + std::to_string(longest) + " bytes");
        return is_good ? *text : std::string();
    }

    /// A list of objects; nullptr when it is absent.
    json::Array const* list(std::string_view name) {
        json::Node const* const node = take(name);
        if (!node) return nullptr;
        auto const* const list = node->get<json::Array>();
        if (!list) wrong(name, "expected a list");
        return list;
    }

    /// An object within this one; nullptr when it is absent.
    json::Object const* object(std::string_view name) {
        json::Node const* const node = take(name);
        if (!node) return nullptr;
        auto const* const object = node->get<json::Object>();
        if (!object) wrong(name, "expected an object");
        return object;
    }

    std::uint64_t number(std::string_view name) {
        json::Node const* const node = take(name);
        if (!node) return 0;
        auto const* const number = node->get<std::int64_t>();
        if (number && *number >= 0 && *number <= largest_size) return static_cast<std::uint64_t>(*number);
        wrong(name, "expected a number from 0 to " + std::to_string(largest_size));
        return 0;
    }

    bool flag(std::string_view name) {
        json::Node const* const node = take(name);
        if (!node) return false;
        auto const* const flag = node->get<bool>();
        if (!flag) wrong(name, "expected true or false");
        return flag && *flag;
    }

    Uuid uuid(std::string_view name) {
        std::string const written = text(name);
        auto const parsed = Uuid::parse(written);
        if (parsed) return *parsed;
        wrong(name, written.empty() ? "it is missing" : json::shown(written) + " is no UUID");
        return {};
    }

    std::vector<Uuid> uuids(std::string_view name) {
        std::vector<Uuid> all;
        json::Node const* const node = take(name);
        if (!node) return all;
        auto const* const list = node->get<json::Array>();
        if (!list || list->size() > most_datastores)
            return wrong(name, "expected a list of at most " + std::to_string(most_datastores) + " UUIDs"), all;
        for (json::Node const& one : *list) {
            auto const* const written = one.get<std::string>();
            auto const parsed = written ? Uuid::parse(*written) : std::nullopt;
            if (!parsed) return wrong(name, "expected a list of UUIDs"), all;
            all.push_back(*parsed);
        }
        return all;
    }

    std::vector<VolumeKey> volumes(std::string_view name, std::size_t most) {
        std::vector<VolumeKey> all;
        json::Node const* const node = take(name);
        auto const* const list = node ? node->get<json::Array>() : nullptr;
        if (!list || list->empty() || list->size() > most)
            return wrong(name, "expected 1 to " + std::to_string(most) + " volumes"), all;
        for (json::Node const& one : *list) {
            auto const* const written = one.get<std::string>();
            auto const key = written ? VolumeKey::parse(*written) : std::nullopt;
            if (!key) return wrong(name, "expected a list of UUID#GENERATION"), all;
            if (std::ranges::find(all, *key) != all.end()) return wrong(name, key->text() + " is there twice"), all;
            all.push_back(*key);
        }
        return all;
    }

    /// A word of a fixed set; nothing when it is absent.
    template <class Enum>
    std::optional<Enum> word(std::string_view name, std::optional<Enum> (*parse)(std::string_view)) {
        std::string const written = text(name);
        if (written.empty()) return std::nullopt;
        auto const parsed = parse(written);
        if (!parsed) wrong(name, json::shown(written) + " is not known");
        return parsed;
    }

    void wrong(std::string_view name, std::string const& what) {
        if (!error_) error_ = std::string(kind_) + "." + std::string(name) + ": " + what;
    }

    Result<> end() {
        for (json::Member const& member : object_) {
            if (std::ranges::find(taken_, member.key) == taken_.end()) wrong(json::shown(member.key), "unknown member");
        }
        if (error_) return fail(*error_);
        return {};
    }

private:
    json::Node const* take(std::string_view name) {
        taken_.push_back(name);
        json::Node const* const node = json::member(object_, name);
        return node && !node->get<json::Null>() ? node : nullptr;
    }

    std::string_view kind_;
    json::Object const& object_;
    std::vector<std::string_view> taken_;
    std::optional<std::string> error_;
};

/// Whether a name leads nowhere else than below where it is looked for.
bool is_inside(std::string_view path) {
    if (path.empty() || path.front() == '/') return false;
    while (!path.empty()) {
        std::size_t const slash = std::min(path.find('/'), path.size());
        std::string_view const part = path.substr(0, slash);
        if (part.empty() || part == "." || part == "..") return false;
        path.remove_prefix(std::min(slash + 1, path.size()));
    }
    return true;
}

bool is_sha256(std::string_view text) {
    auto const is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return text.size() == 64 && std::ranges::all_of(text, is_hex);
}

Result<Config> read_volume(json::Object const& object, std::string_view publisher) {
    Members in("VolumeConfig", object);
    VolumeConfig config{.publisher = std::string(publisher)};
    config.key = {in.uuid("VolumeID"), in.number("GenerationCounter")};
    config.display_name = in.text("DisplayName", longest_display_name);
    auto const origin = in.word<Origin>("VolumeContentOriginType", parse_origin);
    config.layout = in.word<Layout>("Layout", parse_layout);
    config.content = in.text("ContentID");
    std::string const source = in.text("Source");
    config.most_bytes = in.number("MaxVolSize");
    config.is_encrypted = in.flag("Encrypted");
    config.is_read_only = in.flag("ReadOnly");
    config.origin = origin.value_or(config.content.empty() ? Origin::blank : Origin::download);
    config.format = in.word<Format>("Format", parse_format);
    config.user_data = in.text("UserDataFile");
    config.network = in.text("NetworkConfigFile");
    bool const is_received = config.origin == Origin::received;
    if (is_received && (!config.format || *config.format == Format::container))
        in.wrong("Format", "a received volume says what it is: directory, or the format of its file");
    if (config.format && !is_received && (*config.format != Format::raw || config.origin != Origin::download))
        in.wrong("Format", "only content can become raw; without this it stays as it is");
    if (config.origin == Origin::cloud_init) {
        if (!config.user_data.starts_with('/')) in.wrong("UserDataFile", "expected an absolute path");
        if (!config.network.empty() && !config.network.starts_with('/'))
            in.wrong("NetworkConfigFile", "expected an absolute path");
        if (config.layout == Layout::directory) in.wrong("Layout", "a cloud-init volume is a file");
    } else {
        if (!config.user_data.empty()) in.wrong("UserDataFile", "only a volume of origin cloudInit has one");
        if (!config.network.empty()) in.wrong("NetworkConfigFile", "only a volume of origin cloudInit has one");
    }
    bool const has_content = !config.content.empty();
    if (has_content != (config.origin == Origin::download))
        in.wrong("ContentID", has_content ? "only a volume of origin download has one" : "it is missing");
    if (has_content && !is_content_id(config.content)) in.wrong("ContentID", "it is no name of a content tree");
    if (!source.empty()) config.source = VolumeKey::parse(source);
    if (!source.empty() && !config.source) in.wrong("Source", "expected UUID#GENERATION");
    if (config.source.has_value() != (config.origin == Origin::clone))
        in.wrong("Source", config.source ? "only a volume of origin clone has one" : "it is missing");
    if (config.source == config.key) in.wrong("Source", "a volume cannot be a clone of itself");
    if (config.origin == Origin::blank && config.layout == Layout::file && config.most_bytes == 0)
        in.wrong("MaxVolSize", "a file needs a size");
    TRY(in.end());
    return config;
}

/// Where a signature is when nothing says so.
std::string usual_name(SignatureConfig const& signature, std::string const& content) {
    switch (signature.kind) {
        case SignatureConfig::Kind::minisign: return content + ".minisig";
        case SignatureConfig::Kind::openpgp_sums: return signature.sums + ".gpg";
        case SignatureConfig::Kind::openpgp: return content + ".asc";
        case SignatureConfig::Kind::cms: return content + ".p7s";
        case SignatureConfig::Kind::x509: return content + ".sig";
    }
    std::unreachable();
}

/// `content`: the name of what is signed.
Result<SignatureConfig> read_signature(json::Object const& object, std::string const& content) {
    Members in("ContentTreeConfig.Signature", object);
    SignatureConfig config;
    auto const kind = in.word<SignatureConfig::Kind>("Kind", parse_signature_kind);
    if (!kind) in.wrong("Kind", "it is missing; minisign, openpgp-sums, openpgp, cms or x509");
    config.kind = kind.value_or(SignatureConfig::Kind::minisign);
    std::string const policy = in.text("Policy");
    if (!policy.empty() && policy != "required" && policy != "if-present")
        in.wrong("Policy", "expected required or if-present");
    config.is_required = policy != "if-present";
    config.keys = in.text("KeyFile");
    std::string const holder = in.text("CertObj");
    config.holder = HolderKey::parse(holder);
    config.sums = in.text("SumsURL");
    config.name = in.text("RelativeURL");
    config.text = in.lines("ImageSignature", longest_signature);
    bool const is_certified = has_certificates(config.kind);
    if (is_certified && !config.holder)
        in.wrong("CertObj", "expected the UUID of the CertObjConfig with the certificates of the signer");
    if (is_certified && !config.keys.empty()) in.wrong("KeyFile", "a signature of this kind has certificates: CertObj");
    if (!is_certified && !config.keys.starts_with('/'))
        in.wrong("KeyFile", "expected the absolute path of a file with public keys");
    if (!is_certified && !holder.empty()) in.wrong("CertObj", "a signature of this kind has keys: KeyFile");
    bool const has_sums = config.kind == SignatureConfig::Kind::openpgp_sums;
    if (!has_sums && !config.sums.empty()) in.wrong("SumsURL", "only a signature of kind openpgp-sums has one");
    if (has_sums && config.sums.empty()) config.sums = content.substr(0, content.rfind('/') + 1) + "SHA256SUMS";
    if (has_sums && !is_inside(config.sums)) in.wrong("SumsURL", "expected a relative path without '..'");
    if (!config.text.empty() && !config.name.empty())
        in.wrong("ImageSignature", "the signature is this text, or where RelativeURL says");
    if (config.text.empty() && config.name.empty()) config.name = usual_name(config, content);
    if (!config.name.empty() && !is_inside(config.name))
        in.wrong("RelativeURL", "expected a relative path without '..'");
    // A name that was derived must be read from the database again.
    if (config.name.size() > longest_text || config.sums.size() > longest_text)
        in.wrong("RelativeURL", "its name would be longer than " + std::to_string(longest_text) + " bytes");
    TRY(in.end());
    return config;
}

Result<Config> read_tree(json::Object const& object, std::string_view publisher) {
    Members in("ContentTreeConfig", object);
    TreeConfig config{.id = in.text("ContentID"), .publisher = std::string(publisher)};
    config.name = in.text("RelativeURL");
    std::string const digest = in.text("ContentSha256");
    config.most_bytes = in.number("MaxDownloadSize");
    config.format = in.word<Format>("Format", parse_format).value_or(Format::container);
    config.datastores = in.uuids("DatastoreIDList");
    if (!is_content_id(config.id)) in.wrong("ContentID", "it is missing, or no name of a content tree");
    if (!is_inside(config.name)) in.wrong("RelativeURL", "expected a relative path without '..'");
    if (!digest.empty() && !is_sha256(digest)) in.wrong("ContentSha256", "expected 64 hexadecimal digits");
    if (!digest.empty()) config.digest = "sha256:" + digest;
    if (config.format == Format::directory) in.wrong("Format", "no content is a directory");
    if (layout_of(config.format) == Layout::file && digest.empty())
        in.wrong("ContentSha256", "it is missing; only an OCI registry resolves names");
    if (layout_of(config.format) == Layout::file && config.most_bytes == 0)
        in.wrong("MaxDownloadSize", "it is missing");
    if (config.datastores.empty()) in.wrong("DatastoreIDList", "it is missing");
    json::Object const* const signature = in.object("Signature");
    TRY(in.end());
    if (signature) config.signature = TRY(read_signature(*signature, config.name));
    return config;
}

Result<Config> read_reference(json::Object const& object, std::string_view publisher) {
    Members in("VolumeRefConfig", object);
    ReferenceConfig config{.key = {},
                           .publisher = std::string(publisher),
                           .is_verify_only = in.flag("VerifyOnly"),
                           .is_read_only = in.flag("ReadOnly")};
    config.key.volume = {in.uuid("VolumeID"), in.number("GenerationCounter")};
    config.key.user = in.text("AppUUID");
    if (!is_content_id(config.key.user))
        in.wrong("AppUUID", "it is missing, or has other characters than [A-Za-z0-9._-]");
    TRY(in.end());
    return config;
}

Result<Config> read_datastore(json::Object const& object, std::string_view publisher) {
    Members in("DatastoreConfig", object);
    DatastoreConfig config{.id = in.uuid("UUID"), .publisher = std::string(publisher)};
    auto const type = in.word<DatastoreConfig::Type>("DsType", parse_datastore_type);
    config.type = type.value_or(DatastoreConfig::Type::http);
    config.address = in.text("Fqdn");
    config.path = in.text("Dpath");
    config.credentials = in.text("CredentialsFile");
    config.is_insecure = in.flag("Insecure");
    if (!type) in.wrong("DsType", "it is missing");
    if (config.type == DatastoreConfig::Type::http && !config.address.starts_with("http://") &&
        !config.address.starts_with("https://"))
        in.wrong("Fqdn", "expected http://HOST or https://HOST");
    if (config.type == DatastoreConfig::Type::registry && (config.address.empty() || config.address.contains('/')))
        in.wrong("Fqdn", "expected HOST or HOST:PORT");
    if (config.type == DatastoreConfig::Type::directory && !config.address.starts_with('/'))
        in.wrong("Fqdn", "expected an absolute path");
    if (!config.path.empty() && !is_inside(config.path)) in.wrong("Dpath", "expected a relative path without '..'");
    if (!config.credentials.empty() && !config.credentials.starts_with('/'))
        in.wrong("CredentialsFile", "expected an absolute path");
    TRY(in.end());
    return config;
}

Result<CertificatesConfig::Certificate> read_certificate(json::Object const& object) {
    Members in("CertObjConfig.StorageConfigList", object);
    CertificatesConfig::Certificate certificate{.name = in.text("RelativeURL"), .digest = in.text("ImageSha256")};
    if (!is_inside(certificate.name)) in.wrong("RelativeURL", "expected a relative path without '..'");
    if (!is_sha256(certificate.digest)) in.wrong("ImageSha256", "expected 64 hexadecimal digits");
    certificate.digest = "sha256:" + certificate.digest;
    TRY(in.end());
    return certificate;
}

Result<Config> read_certificates(json::Object const& object, std::string_view publisher) {
    Members in("CertObjConfig", object);
    CertificatesConfig config{.key = {in.uuid("UUID")}, .publisher = std::string(publisher)};
    config.datastores = in.uuids("DatastoreIDList");
    if (config.datastores.empty()) in.wrong("DatastoreIDList", "it is missing");
    json::Array const* const list = in.list("StorageConfigList");
    if (!list || list->empty() || list->size() > most_certificates)
        in.wrong("StorageConfigList", "expected 1 to " + std::to_string(most_certificates) + " certificates");
    TRY(in.end());
    for (json::Node const& node : *list) {
        auto const* const one = node.get<json::Object>();
        if (!one) return fail("CertObjConfig.StorageConfigList: expected a list of objects");
        config.certificates.push_back(TRY(read_certificate(*one)));
    }
    return config;
}

Result<Config> read_snapshot(json::Object const& object, std::string_view publisher) {
    Members in("VolumesSnapshotConfig", object);
    SnapshotConfig config{.publisher = std::string(publisher)};
    auto const key = SnapshotKey::parse(in.text("SnapshotID"));
    if (!key) in.wrong("SnapshotID", "it is missing, or no name of at most 64 characters of [A-Za-z0-9._-]");
    config.key = key.value_or(SnapshotKey{});
    config.user = in.text("AppUUID");
    if (!config.user.empty() && !is_content_id(config.user))
        in.wrong("AppUUID", "it has other characters than [A-Za-z0-9._-]");
    config.volumes = in.volumes("VolumeIDs", most_volumes_of_snapshot);
    config.rollbacks = in.number("RollbackCounter");
    TRY(in.end());
    return config;
}

void write_error(json::Writer& out, std::optional<Failure> const& error) {
    if (!error) return;
    out.key("Error").open('{').member("Class", name_of(error->failure)).member("Text", error->text).close('}');
}

void write_volumes(json::Writer& out, std::vector<VolumeKey> const& volumes) {
    out.key("VolumeIDs").open('[');
    for (VolumeKey const& volume : volumes)
        out.value(volume.text());
    out.close(']');
}

/// A digest as EVE writes it.
std::string hex_of(std::string const& digest) { return digest.substr(digest.find(':') + 1); }

struct ConfigWriter {
    json::Writer& out;

    void operator()(VolumeConfig const& config) const {
        out.member("VolumeID", config.key.id.text()).member("GenerationCounter", config.key.generation);
        if (!config.display_name.empty()) out.member("DisplayName", config.display_name);
        out.member("VolumeContentOriginType", name_of(config.origin));
        if (config.layout) out.member("Layout", name_of(*config.layout));
        if (!config.content.empty()) out.member("ContentID", config.content);
        if (config.source) out.member("Source", config.source->text());
        out.member("MaxVolSize", config.most_bytes);
        out.member("Encrypted", config.is_encrypted).member("ReadOnly", config.is_read_only);
        if (config.format) out.member("Format", name_of(*config.format));
        if (!config.user_data.empty()) out.member("UserDataFile", config.user_data);
        if (!config.network.empty()) out.member("NetworkConfigFile", config.network);
    }
    void operator()(TreeConfig const& config) const {
        out.member("ContentID", config.id).member("RelativeURL", config.name);
        if (!config.digest.empty()) out.member("ContentSha256", hex_of(config.digest));
        out.member("MaxDownloadSize", config.most_bytes).member("Format", name_of(config.format));
        out.key("DatastoreIDList").open('[');
        for (Uuid const& datastore : config.datastores)
            out.value(datastore.text());
        out.close(']');
        if (config.signature) write(*config.signature);
    }
    void write(SignatureConfig const& config) const {
        out.key("Signature").open('{').member("Kind", name_of(config.kind));
        out.member("Policy", config.is_required ? "required" : "if-present");
        if (!config.keys.empty()) out.member("KeyFile", config.keys);
        if (config.holder) out.member("CertObj", config.holder->text());
        if (!config.sums.empty()) out.member("SumsURL", config.sums);
        if (!config.name.empty()) out.member("RelativeURL", config.name);
        if (!config.text.empty()) out.member("ImageSignature", config.text);
        out.close('}');
    }
    void operator()(ReferenceConfig const& config) const {
        out.member("VolumeID", config.key.volume.id.text());
        out.member("GenerationCounter", config.key.volume.generation).member("AppUUID", config.key.user);
        out.member("VerifyOnly", config.is_verify_only);
        if (config.is_read_only) out.member("ReadOnly", true);
    }
    void operator()(DatastoreConfig const& config) const {
        out.member("UUID", config.id.text()).member("DsType", name_of(config.type)).member("Fqdn", config.address);
        if (!config.path.empty()) out.member("Dpath", config.path);
        if (!config.credentials.empty()) out.member("CredentialsFile", config.credentials);
        if (config.is_insecure) out.member("Insecure", true);
    }
    void operator()(CertificatesConfig const& config) const {
        out.member("UUID", config.key.text()).key("DatastoreIDList").open('[');
        for (Uuid const& datastore : config.datastores)
            out.value(datastore.text());
        out.close(']').key("StorageConfigList").open('[');
        for (CertificatesConfig::Certificate const& one : config.certificates)
            out.open('{').member("RelativeURL", one.name).member("ImageSha256", hex_of(one.digest)).close('}');
        out.close(']');
    }
    void operator()(SnapshotConfig const& config) const {
        out.member("SnapshotID", config.key.text());
        if (!config.user.empty()) out.member("AppUUID", config.user);
        write_volumes(out, config.volumes);
        out.member("RollbackCounter", config.rollbacks);
    }
};

}  // namespace

std::string_view kind_of(Config const& config) { return kinds[config.index()]; }

std::string key_of(Config const& config) {
    struct Key {
        std::string operator()(VolumeConfig const& one) const { return one.key.text(); }
        std::string operator()(TreeConfig const& one) const { return one.id; }
        std::string operator()(ReferenceConfig const& one) const { return one.key.text(); }
        std::string operator()(DatastoreConfig const& one) const { return one.id.text(); }
        std::string operator()(CertificatesConfig const& one) const { return one.key.text(); }
        std::string operator()(SnapshotConfig const& one) const { return one.key.text(); }
    };
    return std::visit(Key{}, config);
}

std::string const& publisher_of(Config const& config) {
    return std::visit([](auto const& one) -> std::string const& { return one.publisher; }, config);
}

Result<Config> read_config(std::string_view kind, json::Object const& object, std::string_view publisher) {
    if (kind == kinds[0]) return read_volume(object, publisher);
    if (kind == kinds[1]) return read_tree(object, publisher);
    if (kind == kinds[2]) return read_reference(object, publisher);
    if (kind == kinds[3]) return read_datastore(object, publisher);
    if (kind == kinds[4]) return read_certificates(object, publisher);
    if (kind == kinds[5]) return read_snapshot(object, publisher);
    return fail("there are no objects of kind " + json::shown(kind));
}

std::string config_text(Config const& config) {
    json::Writer out;
    out.open('{');
    std::visit(ConfigWriter{out}, config);
    return std::move(out.close('}')).text();
}

bool is_publisher(std::string_view text) {
    auto const is_good = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
    return !text.empty() && text.size() <= longest_publisher && std::ranges::all_of(text, is_good);
}

void write_status(json::Writer& out, VolumeStatus const& status, VolumeConfig const* config, VolumeRow const* row,
                  std::span<BlobStatus const> content_blobs) {
    out.open('{').member("VolumeID", status.key.id.text()).member("GenerationCounter", status.key.generation);
    out.member("DisplayName", config ? config->display_name : std::string());
    out.member("Publisher", status.publisher).member("State", name_of(status.state));
    out.member("SubState", name_of(status.sub_state)).member("MaxVolSize", status.most_bytes);
    out.member("RefCount", status.references);
    if (row) out.member("ContentFormat", name_of(row->format));
    std::string const content = row ? row->content : config ? config->content : "";
    if (!content.empty()) out.member("ContentID", content);
    if (config) out.member("ReadOnly", config->is_read_only);
    out.member("Encrypted", row ? row->is_in_vault : config && config->is_encrypted);
    if (!content_blobs.empty()) {
        out.key("Content").open('[');
        for (BlobStatus const& blob : content_blobs)
            write_status(out, blob);
        out.close(']');
    }
    write_error(out, status.error);
    out.close('}');
}

namespace {

/// Sizes, with what EVE calls progress: a percentage.
void write_progress(json::Writer& out, BlobStatus const& status) {
    out.member("TotalSize", status.total_bytes).member("CurrentSize", status.bytes);
    bool const is_complete = status.state >= State::loaded;
    out.member("Progress", is_complete ? std::uint64_t{100}
                           : status.total_bytes == 0
                               ? std::uint64_t{0}
                               : std::min<std::uint64_t>(status.bytes * 100 / status.total_bytes, 100));
}

}  // namespace

void write_status(json::Writer& out, BlobStatus const& status) {
    out.open('{').member("Sha256", hex_of(status.digest)).member("State", name_of(status.state));
    if (!status.name.empty()) out.member("RelativeURL", status.name);
    if (!status.media_type.empty()) out.member("MediaType", status.media_type);
    write_progress(out, status);
    out.member("RefCount", status.references);
    write_error(out, status.error);
    out.close('}');
}

bool is_downloaded(BlobStatus const& status) {
    return status.state >= State::downloading && status.state < State::loaded;
}

bool is_verified(BlobStatus const& status) { return status.state >= State::verifying && status.state < State::loaded; }

void write_download(json::Writer& out, BlobStatus const& status) {
    bool const has_ended = status.state >= State::downloaded;
    out.open('{').member("ImageSha256", hex_of(status.digest)).member("Name", status.name);
    out.member("State", name_of(has_ended ? State::downloaded : status.state));
    write_progress(out, status);
    if (!has_ended) write_error(out, status.error);
    out.close('}');
}

void write_verification(json::Writer& out, BlobStatus const& status) {
    out.open('{').member("ImageSha256", hex_of(status.digest)).member("Name", status.name);
    out.member("State", name_of(std::min(status.state, State::verified))).member("Size", status.total_bytes);
    write_error(out, status.error);
    out.close('}');
}

void write_status(json::Writer& out, TreeStatus const& status, TreeConfig const* config) {
    out.open('{').member("ContentID", status.id).member("State", name_of(status.state));
    if (config) out.member("RelativeURL", config->name).member("Format", name_of(config->format));
    if (!status.digest.empty()) out.member("ContentSha256", hex_of(status.digest));
    out.member("CurrentSize", status.bytes).member("TotalSize", status.total_bytes);
    out.member("RefCount", status.references);
    if (!status.signed_by.empty()) out.member("SignedBy", status.signed_by);
    write_error(out, status.error);
    out.close('}');
}

void write_status(json::Writer& out, CertificatesStatus const& status, CertificatesConfig const* config) {
    out.open('{').member("UUID", status.key.text()).member("Publisher", status.publisher);
    out.member("State", name_of(status.state)).key("StorageStatusList").open('[');
    for (CertificatesConfig::Certificate const& one :
         config ? config->certificates : std::vector<CertificatesConfig::Certificate>())
        out.open('{').member("RelativeURL", one.name).member("ImageSha256", hex_of(one.digest)).close('}');
    out.close(']');
    write_error(out, status.error);
    out.close('}');
}

void write_status(json::Writer& out, SnapshotStatus const& status) {
    out.open('{').member("SnapshotID", status.key.text()).member("Publisher", status.publisher);
    if (!status.user.empty()) out.member("AppUUID", status.user);
    out.member("State", name_of(status.state));
    write_volumes(out, status.volumes);
    out.member("RollbackCounter", status.rollbacks);
    if (status.taken != 0) out.member("TimeCreated", status.taken);
    write_error(out, status.error);
    out.close('}');
}

}  // namespace triton::volume
