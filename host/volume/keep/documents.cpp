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
constexpr std::size_t most_datastores = 16;
constexpr std::int64_t largest_size = std::int64_t{1} << 60;
constexpr std::size_t longest_publisher = 32;

constexpr std::array<std::string_view, 4> kinds{"VolumeConfig", "ContentTreeConfig", "VolumeRefConfig",
                                                "DatastoreConfig"};
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
    TRY(in.end());
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

void write_error(json::Writer& out, std::optional<Failure> const& error) {
    if (!error) return;
    out.key("Error").open('{').member("Class", name_of(error->failure)).member("Text", error->text).close('}');
}

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
        if (!config.digest.empty()) out.member("ContentSha256", config.digest.substr(config.digest.find(':') + 1));
        out.member("MaxDownloadSize", config.most_bytes).member("Format", name_of(config.format));
        out.key("DatastoreIDList").open('[');
        for (Uuid const& datastore : config.datastores)
            out.value(datastore.text());
        out.close(']');
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
};

}  // namespace

std::string_view kind_of(Config const& config) { return kinds[config.index()]; }

std::string key_of(Config const& config) {
    struct Key {
        std::string operator()(VolumeConfig const& one) const { return one.key.text(); }
        std::string operator()(TreeConfig const& one) const { return one.id; }
        std::string operator()(ReferenceConfig const& one) const { return one.key.text(); }
        std::string operator()(DatastoreConfig const& one) const { return one.id.text(); }
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

void write_status(json::Writer& out, VolumeStatus const& status, VolumeConfig const* config, VolumeRow const* row) {
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
    write_error(out, status.error);
    out.close('}');
}

void write_status(json::Writer& out, TreeStatus const& status, TreeConfig const* config) {
    out.open('{').member("ContentID", status.id).member("State", name_of(status.state));
    if (config) out.member("RelativeURL", config->name).member("Format", name_of(config->format));
    if (!status.digest.empty()) out.member("ContentSha256", status.digest.substr(status.digest.find(':') + 1));
    out.member("CurrentSize", status.bytes).member("TotalSize", status.total_bytes);
    out.member("RefCount", status.references);
    write_error(out, status.error);
    out.close('}');
}

}  // namespace triton::volume
