// Commands that change nothing.

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

#include "lib/json/lookup.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"
#include "lib/text/width.h"
#include "programs/frame/columns.h"
#include "programs/volumeadm/command_line.h"
#include "programs/volumeadm/manager_client.h"

namespace triton::program {

namespace {

using StatusColumn = Column<std::string, json::Object>;  // of its key and its status

std::string shown_size(std::uint64_t bytes) {
    if (bytes == 0) return "-";
    constexpr std::array<std::string_view, 5> units{"", "K", "M", "G", "T"};
    std::size_t unit = 0;
    auto size = static_cast<double>(bytes);
    while (size >= 1024 && unit + 1 < units.size()) {
        size /= 1024;
        ++unit;
    }
    auto const tenths = static_cast<std::uint64_t>(size * 10);
    std::string text = std::to_string(tenths / 10);
    if (tenths < 1000 && tenths % 10 != 0) text += "." + std::to_string(tenths % 10);
    return text + std::string(units[unit]);
}

std::string size_of(json::Object const& status, std::string_view name) {
    return shown_size(static_cast<std::uint64_t>(json::number_of(status, name).value_or(0)));
}

std::string state_of(json::Object const& status) {
    std::string const sub = json::text_of(status, "SubState");
    std::string const state = json::text_of(status, "State");
    return sub.empty() || sub == "Created" ? state : state + "/" + sub;
}

std::string error_of(json::Object const& status) {
    std::string const text = json::text_of(json::object_of(status, "Error"), "Text");
    return text.empty() ? "-" : text;
}

std::string text_or_dash(json::Object const& status, std::string_view name) {
    std::string const text = json::text_of(status, name);
    return text.empty() ? "-" : text;
}

constexpr auto volume_columns = std::to_array<StatusColumn>({
    {"key", "KEY", [](std::string const& key, json::Object const&) { return key; }},
    {"name", "NAME",
     [](std::string const&, json::Object const& status) { return text_or_dash(status, "DisplayName"); }},
    {"state", "STATE", [](std::string const&, json::Object const& status) { return state_of(status); }},
    {"size", "SIZE", [](std::string const&, json::Object const& status) { return size_of(status, "MaxVolSize"); }},
    {"format", "FORMAT",
     [](std::string const&, json::Object const& status) { return text_or_dash(status, "ContentFormat"); }},
    {"refs", "REFS",
     [](std::string const&, json::Object const& status) {
         return std::to_string(json::number_of(status, "RefCount").value_or(0));
     }},
    {"publisher", "PUBLISHER",
     [](std::string const&, json::Object const& status) { return text_or_dash(status, "Publisher"); }},
    {"content", "CONTENT",
     [](std::string const&, json::Object const& status) { return text_or_dash(status, "ContentID"); }},
    {"error", "ERROR", [](std::string const&, json::Object const& status) { return error_of(status); }},
});
constexpr std::string_view usual_volume_columns = "key,name,state,size,format,refs,error";

constexpr auto content_columns = std::to_array<StatusColumn>({
    {"id", "CONTENT", [](std::string const& key, json::Object const&) { return key; }},
    {"state", "STATE", [](std::string const&, json::Object const& status) { return state_of(status); }},
    {"format", "FORMAT", [](std::string const&, json::Object const& status) { return text_or_dash(status, "Format"); }},
    {"done", "DONE", [](std::string const&, json::Object const& status) { return size_of(status, "CurrentSize"); }},
    {"size", "SIZE", [](std::string const&, json::Object const& status) { return size_of(status, "TotalSize"); }},
    {"refs", "REFS",
     [](std::string const&, json::Object const& status) {
         return std::to_string(json::number_of(status, "RefCount").value_or(0));
     }},
    {"url", "URL", [](std::string const&, json::Object const& status) { return text_or_dash(status, "RelativeURL"); }},
    {"sha256", "SHA256",
     [](std::string const&, json::Object const& status) { return text_or_dash(status, "ContentSha256"); }},
    {"error", "ERROR", [](std::string const&, json::Object const& status) { return error_of(status); }},
});
constexpr std::string_view usual_content_columns = "id,state,format,done,size,refs,url,error";

std::string text_of_refs(std::string const& /*key*/, json::Object const& status) {
    return std::to_string(json::number_of(status, "RefCount").value_or(0));
}

template <std::size_t size>
struct Member {
    char text[size];  // NOLINT(modernize-avoid-c-arrays): a text as template argument
    consteval Member(char const (&from)[size]) { std::copy_n(from, size, text); }  // NOLINT
};
/// A column with the text, or the size, of a member.
template <Member member>
std::string shown_text(std::string const& /*key*/, json::Object const& status) {
    return text_or_dash(status, member.text);
}
template <Member member>
std::string shown_bytes(std::string const& /*key*/, json::Object const& status) {
    return size_of(status, member.text);
}
std::string shown_key(std::string const& key, json::Object const& /*status*/) { return key; }
std::string shown_state(std::string const& /*key*/, json::Object const& status) { return state_of(status); }
std::string shown_error(std::string const& /*key*/, json::Object const& status) { return error_of(status); }

constexpr auto blob_columns = std::to_array<StatusColumn>({
    {"sha256", "SHA256", shown_key},
    {"state", "STATE", shown_state},
    {"done", "DONE", shown_bytes<"CurrentSize">},
    {"size", "SIZE", shown_bytes<"TotalSize">},
    {"refs", "REFS", text_of_refs},
    {"type", "TYPE", shown_text<"MediaType">},
    {"url", "URL", shown_text<"RelativeURL">},
    {"error", "ERROR", shown_error},
});
constexpr auto download_columns = std::to_array<StatusColumn>({
    {"sha256", "SHA256", shown_key},
    {"state", "STATE", shown_state},
    {"done", "DONE", shown_bytes<"CurrentSize">},
    {"size", "SIZE", shown_bytes<"TotalSize">},
    {"name", "NAME", shown_text<"Name">},
    {"error", "ERROR", shown_error},
});
constexpr auto verification_columns = std::to_array<StatusColumn>({
    {"sha256", "SHA256", shown_key},
    {"state", "STATE", shown_state},
    {"size", "SIZE", shown_bytes<"Size">},
    {"name", "NAME", shown_text<"Name">},
    {"error", "ERROR", shown_error},
});
constexpr auto certificates_columns = std::to_array<StatusColumn>({
    {"uuid", "HOLDER", shown_key},
    {"state", "STATE", shown_state},
    {"count", "CERTIFICATES",
     [](std::string const&, json::Object const& status) {
         return std::to_string(json::list_of(status, "StorageStatusList").size());
     }},
    {"publisher", "PUBLISHER", shown_text<"Publisher">},
    {"error", "ERROR", shown_error},
});
constexpr auto user_columns = std::to_array<StatusColumn>({
    {"key", "KEY", shown_key},
    {"user", "USER", shown_text<"AppUUID">},
    {"state", "STATE", shown_state},
    {"size", "SIZE", shown_bytes<"MaxVolSize">},
});
constexpr auto snapshot_columns = std::to_array<StatusColumn>({
    {"id", "SNAPSHOT", shown_key},
    {"state", "STATE", shown_state},
    {"count", "VOLUMES",
     [](std::string const&, json::Object const& status) {
         return std::to_string(json::list_of(status, "VolumeIDs").size());
     }},
    {"user", "USER", shown_text<"AppUUID">},
    {"publisher", "PUBLISHER", shown_text<"Publisher">},
    {"error", "ERROR", shown_error},
});
constexpr auto disk_columns = std::to_array<StatusColumn>({
    {"key", "KEY", shown_key},
    {"format", "FORMAT", shown_text<"DiskType">},
    {"used", "USED", shown_bytes<"UsedBytes">},
    {"size", "SIZE", shown_bytes<"ProvisionedBytes">},
    {"path", "PATH", shown_text<"DiskPath">},
});

/// What `list` lists: the kind of its objects, and their columns.
struct Listed {
    std::string_view name;
    std::string_view kind;
    std::span<StatusColumn const> columns;
    std::string_view usual = {};  ///< empty: all
};
constexpr auto listed_kinds = std::to_array<Listed>({
    {"volumes", "VolumeStatus", volume_columns, usual_volume_columns},
    {"content", "ContentTreeStatus", content_columns, usual_content_columns},
    {"blobs", "BlobStatus", blob_columns},
    {"downloads", "DownloaderStatus", download_columns},
    {"verifications", "VerifyImageStatus", verification_columns},
    {"certificates", "CertObjStatus", certificates_columns},
    {"users", "VolumeRefStatus", user_columns},
    {"snapshots", "VolumesSnapshotStatus", snapshot_columns},
    {"disks", "AppDiskMetric", disk_columns},
});

Result<Listed> listed_kind(Options const& options) {
    std::string_view const name = options.is_of_content  ? "content"
                                  : options.kind.empty() ? "volumes"
                                                         : std::string_view(options.kind);
    if (options.is_of_content && !options.kind.empty()) return fail("-c is --kind content");
    auto const found = std::ranges::find(listed_kinds, name, &Listed::name);
    if (found != listed_kinds.end()) return *found;
    std::string names;
    for (Listed const& one : listed_kinds)
        names += (names.empty() ? "" : ", ") + std::string(one.name);
    return fail("--kind is one of " + names);
}

void add_list_options(CLI::App& app, Options& options) {
    app.add_flag("-c,--content", options.is_of_content, "Content trees instead of volumes.");
    app.add_option("-k,--kind", options.kind, "volumes (default), content, blobs, downloads, verifications, ..");
    app.add_flag("-j,--json", options.as_json, "JSON instead of a table.");
    app.add_flag("-H", options.without_header, "Without the header.");
    app.add_option("-o", options.fields, "Columns, with commas between them.");
}

Outcome run_list(Options const& options) {
    Listed const listed = TRY(listed_kind(options));
    Statuses const statuses = TRY(read_statuses(options, listed.kind));
    if (options.as_json) {
        json::Writer out;
        out.open('[');
        for (auto const& [key, status] : statuses)
            out.value(status);
        TRY(print(std::move(out.close(']')).text() + "\n"));
        return {};
    }
    TableRows table(TRY(choose_columns(listed.columns, options.fields.empty() ? listed.usual : options.fields)),
                    !options.without_header);
    for (auto const& [key, status] : statuses)
        table.add(key, status);
    TRY(print(table.text()));
    return {};
}

/// The key and the status of what a word means: a volume, or a content tree.
struct Meant {
    std::string kind = "VolumeConfig";
    std::string key;
    json::Object status;
};

/// What else than a volume a word can mean: the configuration that says why it is so, and its status.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> other_kinds{
    {{"ContentTreeConfig", "ContentTreeStatus"},
     {"CertObjConfig", "CertObjStatus"},
     {"VolumesSnapshotConfig", "VolumesSnapshotStatus"},
     {"", "BlobStatus"}}};

Result<Meant> find_meant(Options const& options, std::string const& word) {
    Statuses const volumes = TRY(read_statuses(options, "VolumeStatus"));
    auto key = find_volume(volumes, word);
    if (key) return Meant{.key = *key, .status = volumes.at(*key)};
    if (key.error().kind != ErrorKind::not_found) return std::unexpected(key.error());
    for (auto const& [kind, status_kind] : other_kinds) {
        Statuses const statuses = TRY(read_statuses(options, status_kind));
        auto const found = statuses.find(word);
        if (found != statuses.end()) return Meant{.kind = std::string(kind), .key = word, .status = found->second};
    }
    return fail(ErrorKind::not_found, "there is no volume and no content tree " + json::shown(word));
}

Outcome run_get(Options const& options) {
    TRY(expect_words(options, "get", 1, 1));
    Meant const meant = TRY(find_meant(options, options.words.front()));
    json::Writer out;
    TRY(print(std::move(out.value(meant.status)).text() + "\n"));
    return {};
}

Outcome run_why(Options const& options) {
    TRY(expect_words(options, "why", 1, 1));
    Meant const meant = TRY(find_meant(options, options.words.front()));
    if (meant.kind.empty()) return fail("a blob is as its content is; volumeadm list -k blobs shows it");
    std::string text;
    for (std::string const& line : TRY(read_why(options, meant.kind, meant.key)))
        text += text::printable(line) + "\n";
    TRY(print(text));
    return {};
}

Outcome run_show(Options const& options) {
    TRY(expect_words(options, "show", 1, 1));
    Meant const meant = TRY(find_meant(options, options.words.front()));
    std::vector<std::vector<std::string>> rows;
    for (json::Member const& member : meant.status) {
        if (member.key == "Error") continue;  // the lines below say it
        auto const* const text = member.node.get<std::string>();
        json::Writer out;
        out.value(member.node);
        rows.push_back({member.key, text::printable(text ? *text : out.text())});
    }
    std::string text = text::aligned(rows);
    auto const lines = meant.kind.empty() ? std::vector<std::string>() : TRY(read_why(options, meant.kind, meant.key));
    for (std::string const& line : lines)
        text += text::printable(line) + "\n";
    TRY(print(text));
    return {};
}

void add_watch_options(CLI::App& app, Options& options) {
    add_words(app, options);
    app.add_flag("-j,--json", options.as_json, "Each change as a JSON object in one line.");
    app.add_option("--until", options.until, "Ends when the volume has this state; gone: when it does not exist.");
    app.add_option("--timeout", options.timeout, "Ends with exit code 4 after so many seconds.");
}

std::string line_of(Told const& told, bool as_json) {
    if (as_json) {
        json::Writer out;
        out.open('{').member("kind", told.kind).member("key", told.key).key("object");
        told.object ? out.value(*told.object) : out.raw("null");
        return std::move(out.close('}')).text() + "\n";
    }
    if (!told.object) return told.kind + "  " + told.key + "  gone\n";
    std::string line = told.kind + "  " + told.key + "  " + state_of(*told.object);
    auto const total = json::number_of(*told.object, "TotalSize").value_or(0);
    if (total > 0) line += "  " + size_of(*told.object, "CurrentSize") + " of " + size_of(*told.object, "TotalSize");
    if (std::string const error = error_of(*told.object); error != "-") line += "  " + error;
    return text::printable(line) + "\n";
}

Outcome run_watch(Options const& options) {
    TRY(expect_words(options, "watch", 0, 1));
    if (!options.until.empty() && options.words.empty()) return fail("--until needs a VOLUME");
    Meant meant;
    if (!options.words.empty()) meant = TRY(find_meant(options, options.words.front()));
    std::string kind = meant.key.empty() ? "" : "VolumeStatus";
    for (auto const& [config, status] : other_kinds)
        if (!meant.key.empty() && meant.kind == config) kind = status;
    auto client = TRY(ManagerClient::connect(options));
    std::optional<TimePoint> deadline;
    if (options.timeout > 0)
        deadline = steady_now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.timeout));
    bool is_there = false;
    return client.watch(kind, meant.key, true, deadline, [&](Told const& told) -> Result<bool> {
        if (told.is_complete) return options.until != "gone" || is_there;
        is_there = told.object.has_value();
        if (!TRY(print(line_of(told, options.as_json)))) return false;
        if (options.until.empty()) return true;
        return told.object ? json::text_of(*told.object, "State") != options.until : options.until != "gone";
    });
}

/// Counts and sums by what the labels say, in the order of their first use.
class Metric {
public:
    Metric(std::string_view name, std::string_view help) : name_(name), help_(help) {}
    void add(std::string const& labels, std::uint64_t value) { values_[labels] += value; }
    void write(std::string& out) const {
        std::string const name = "triton_volume_" + std::string(name_);
        out += "# HELP " + name + " " + std::string(help_) + "\n# TYPE " + name + " gauge\n";
        for (auto const& [labels, value] : values_)
            out += name + (labels.empty() ? "" : "{" + labels + "}") + " " + std::to_string(value) + "\n";
    }

private:
    std::string_view name_;
    std::string_view help_;
    std::map<std::string, std::uint64_t> values_;
};

std::string label(std::string_view name, std::string const& value) {
    return std::string(name) + "=\"" + value + "\"";  // words of ours, that need no escapes
}

/// Prints what there is in OpenMetrics. Source: OpenMetrics 1.0, "Text format".
Outcome run_metrics(Options const& options) {
    TRY(expect_words(options, "metrics", 0, 0));
    Metric objects("objects", "Volumes and content trees by state.");
    Metric promised("promised_bytes", "What volumes may hold, by format.");
    Metric waiting("waiting", "Objects that a failure holds up, by its class.");
    Metric content("content_bytes", "Bytes of content trees that are here.");
    Metric free("free_bytes", "Bytes that are free in the pool.");
    content.add("", 0);
    auto const number = [](json::Object const& status, std::string_view name) {
        return static_cast<std::uint64_t>(json::number_of(status, name).value_or(0));
    };
    for (auto const& [key, status] : TRY(read_statuses(options, "VolumeStatus"))) {
        objects.add(label("kind", "volume") + "," + label("state", state_of(status)), 1);
        if (std::string const format = json::text_of(status, "ContentFormat"); !format.empty())
            promised.add(label("format", format), number(status, "MaxVolSize"));
        std::string const failure = json::text_of(json::object_of(status, "Error"), "Class");
        if (!failure.empty()) waiting.add(label("kind", "volume") + "," + label("class", failure), 1);
    }
    for (auto const& [key, status] : TRY(read_statuses(options, "ContentTreeStatus"))) {
        objects.add(label("kind", "content") + "," + label("state", state_of(status)), 1);
        content.add("", number(status, "CurrentSize"));
        std::string const failure = json::text_of(json::object_of(status, "Error"), "Class");
        if (!failure.empty()) waiting.add(label("kind", "content") + "," + label("class", failure), 1);
    }
    for (auto const& [key, status] : TRY(read_statuses(options, "VolumeMgrStatus")))
        free.add("", number(status, "RemainingSpace"));
    std::string text;
    for (Metric const* const metric : {&objects, &promised, &waiting, &content, &free})
        metric->write(text);
    TRY(print(text + "# EOF\n"));
    return {};
}

}  // namespace

std::span<Command const> look_commands() {
    static constexpr auto rows = std::to_array<Command>({
        {"list", "[-c] [-k KIND] [-j] [-H] [-o COLUMNS]", "lists volumes, content trees, blobs, ..",
         "volumeadm list -o key,state,error", add_list_options, run_list},
        {"get", "VOLUME", "prints the status of a volume or content tree as JSON", "volumeadm get data", add_words,
         run_get},
        {"show", "VOLUME", "prints all that is known of a volume or content tree", "volumeadm show data", add_words,
         run_show},
        {"metrics", "", "prints counts and bytes in OpenMetrics", "volumeadm metrics >volumes.prom", add_nothing,
         run_metrics},
        {"why", "VOLUME", "says why it is as it is, and what would help", "volumeadm why data", add_words, run_why},
        {"watch", "[VOLUME] [-j] [--until STATE]", "prints what is, and then each change",
         "volumeadm watch data --until CREATED_VOLUME --timeout 60", add_watch_options, run_watch},
    });
    return rows;
}

}  // namespace triton::program
