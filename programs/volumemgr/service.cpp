#include "programs/volumemgr/service.h"

#include <array>
#include <utility>

#include "lib/json/lookup.h"
#include "lib/json/text.h"

namespace triton::program {

namespace {

using varlink::Method;
using varlink::Parameter;
using varlink::Session;
using Parameters = VolumesParameters;

constexpr std::size_t most_objects = 1000;  // of a call

enum class Tag : std::uint8_t { wait, watch };

/// A call whose answer comes when something is durable.
class WaitingCall final : public varlink::Job {
public:
    static constexpr auto tag = static_cast<std::uint8_t>(Tag::wait);
    explicit WaitingCall(std::uint64_t its_ticket) : Job(tag), ticket(its_ticket) {}
    std::uint64_t const ticket;
};

/// Tells each status, and then what changes.
class Watching final : public varlink::Job {
public:
    static constexpr auto tag = static_cast<std::uint8_t>(Tag::watch);
    Watching(varlink::Server& server, Board& board, Parameters const& parameters)
        : Job(tag),
          server_(server),
          board_(board),
          kind_(parameters.kind),
          key_(parameters.key),
          follows_(parameters.follows),
          begin_(board.version()) {}

    [[nodiscard]] std::uint64_t seen() const { return seen_; }
    [[nodiscard]] bool is_due() const override { return !is_complete_ || board_.after(seen_) != nullptr; }
    [[nodiscard]] bool is_answering() const override { return !is_complete_; }

    void run(Session& session) override {
        std::size_t const most = server_.stream_limit() / 2;
        while (server_.has_work_left() && session.pending() < most) {
            Board::Entry const* const entry = board_.after(seen_);
            if (!is_complete_ && (!entry || entry->version > begin_)) return complete(session);
            if (!entry) return;
            seen_ = entry->version;
            server_.charge(1);
            if ((kind_ && *kind_ != entry->kind) || (key_ && *key_ != entry->key)) continue;
            // What had gone before it began to watch does not concern it.
            if (entry->text.empty() && entry->version <= begin_) continue;
            tell(session, *entry);
        }
    }

private:
    void tell(Session& session, Board::Entry const& entry) {
        json::Writer out;
        out.open('{').member("kind", entry.kind).member("key", entry.key).key("object");
        out.raw(entry.text.empty() ? "null" : entry.text).close('}');
        server_.reply(session, out.text(), true);
    }
    void complete(Session& session) {
        is_complete_ = true;
        bool const follows = follows_;
        if (!follows) session.end_job();
        server_.reply(session, R"({"complete":true})", follows);
    }

    varlink::Server& server_;
    Board& board_;
    std::optional<std::string> kind_;
    std::optional<std::string> key_;
    bool follows_;
    std::uint64_t begin_;
    std::uint64_t seen_ = 0;
    bool is_complete_ = false;
};

template <auto member>
bool read_text(json::Node const& node, Parameters& parameters) {
    auto const* const text = node.get<std::string>();
    if (text) parameters.*member = *text;
    return text != nullptr;
}

template <auto member>
bool read_flag(json::Node const& node, Parameters& parameters) {
    auto const* const flag = node.get<bool>();
    if (flag) parameters.*member = *flag;
    return flag != nullptr;
}

bool read_publisher(json::Node const& node, Parameters& parameters) {
    return read_text<&Parameters::publisher>(node, parameters) && volume::is_publisher(parameters.publisher);
}

bool read_objects(json::Node const& node, Parameters& parameters) {
    auto const* const list = node.get<json::Array>();
    if (!list || list->size() > most_objects) return false;
    parameters.objects = *list;
    return true;
}

/// Errors say which of them they are about.
template <class Take>
Result<> each_object(json::Array const& list, Take const& take) {
    for (std::size_t i = 0; i < list.size(); ++i) {
        auto const* const object = list[i].get<json::Object>();
        auto const taken = object ? take(*object) : fail("expected an object");
        if (!taken) return fail(taken.error().kind, "objects[" + std::to_string(i) + "]: " + taken.error().text());
    }
    return {};
}

constexpr Parameter<Parameters> publisher_row{"publisher", true, read_publisher};
constexpr Parameter<Parameters> objects_row{"objects", true, read_objects};
constexpr Parameter<Parameters> kind_row{"kind", false, read_text<&Parameters::kind>};
constexpr Parameter<Parameters> key_row{"key", false, read_text<&Parameters::key>};

constexpr std::array<Parameter<Parameters>, 2> objects_rows{publisher_row, objects_row};
constexpr std::array<Parameter<Parameters>, 1> publisher_rows{publisher_row};
constexpr std::array<Parameter<Parameters>, 2> get_rows{
    {{"kind", true, read_text<&Parameters::kind>}, {"key", true, read_text<&Parameters::key>}}};
constexpr std::array<Parameter<Parameters>, 3> watch_rows{
    {kind_row, key_row, {"follow", false, read_flag<&Parameters::follows>}}};
constexpr std::array<Parameter<Parameters>, 2> why_rows{{kind_row, {"key", true, read_text<&Parameters::key>}}};
constexpr Parameter<Parameters> volume_row{"key", true, read_text<&Parameters::key>};
constexpr std::array<Parameter<Parameters>, 2> snapshot_rows{
    {volume_row, {"name", true, read_text<&Parameters::name>}}};
constexpr std::array<Parameter<Parameters>, 1> snapshots_rows{volume_row};
constexpr std::array<Parameter<Parameters>, 1> on_rows{{{"on", true, read_flag<&Parameters::is_on>}}};
constexpr std::array<Parameter<Parameters>, 1> collect_rows{{{"dry_run", true, read_flag<&Parameters::is_dry_run>}}};

}  // namespace

std::span<VolumesService::Row const> VolumesService::methods() {
    static constexpr std::array<Row, 15> rows{{
        {"Put", objects_rows, everybody, &VolumesService::put},
        {"Delete", objects_rows, everybody, &VolumesService::remove},
        {"Restart", publisher_rows, everybody, &VolumesService::restart},
        {"Complete", publisher_rows, everybody, &VolumesService::complete},
        {"Get", get_rows, everybody, &VolumesService::get},
        {"Watch", watch_rows, everybody, &VolumesService::watch, true},
        {"Why", why_rows, everybody, &VolumesService::why},
        {"Snapshot", snapshot_rows, everybody, &VolumesService::snapshot},
        {"Rollback", snapshot_rows, everybody, &VolumesService::rollback},
        {"DeleteSnapshot", snapshot_rows, everybody, &VolumesService::delete_snapshot},
        {"Snapshots", snapshots_rows, everybody, &VolumesService::snapshots},
        {"Scrub", {}, everybody, &VolumesService::scrub},
        {"Retry", {}, everybody, &VolumesService::retry},
        {"Maintenance", on_rows, everybody, &VolumesService::maintenance},
        {"Collect", collect_rows, everybody, &VolumesService::collect},
    }};
    return rows;
}

void VolumesService::call(Session& session, varlink::Call const& call) {
    varlink::dispatch(*server_, *this, methods(), session, call);
}

void VolumesService::end_round() {
    std::uint64_t seen = board_.version();
    server_->each<Watching>([&seen](Session&, Watching const& watching) { seen = std::min(seen, watching.seen()); });
    board_.forget_gone(seen);
}

/// Leaves the call in hand without an answer until the returned function is called. That may be at once.
Manager::Done VolumesService::begin_waiting(Session& session) {
    std::uint64_t const ticket = ++last_ticket_;
    session.begin(std::make_unique<WaitingCall>(ticket));
    return [this, ticket](Result<> const& result) { answer(ticket, result); };
}

void VolumesService::answer(std::uint64_t ticket, Result<> const& result) {
    server_->each<WaitingCall>([this, ticket, &result](Session& session, WaitingCall const& waiting) {
        if (waiting.ticket != ticket) return;
        if (!result) return server_->fail_call(session, result.error());
        session.end_job();
        server_->reply(session, "{}");
    });
}

void VolumesService::put(Session& session, Parameters const& parameters) {
    std::vector<volume::Config> configs;
    auto const read = each_object(parameters.objects, [&](json::Object const& object) -> Result<> {
        configs.push_back(TRY(volume::read_config(json::text_of(object, "kind"), json::object_of(object, "config"),
                                                  parameters.publisher)));
        return {};
    });
    if (!read) return server_->fail_call(session, read.error());
    manager_.put(std::move(configs), begin_waiting(session));
}

void VolumesService::remove(Session& session, Parameters const& parameters) {
    std::vector<Manager::Name> names;
    auto const read = each_object(parameters.objects, [&](json::Object const& object) -> Result<> {
        names.push_back({json::text_of(object, "kind"), json::text_of(object, "key")});
        return {};
    });
    if (!read) return server_->fail_call(session, read.error());
    manager_.remove(parameters.publisher, names, begin_waiting(session));
}

void VolumesService::restart(Session& session, Parameters const& parameters) {
    manager_.restart(parameters.publisher);
    server_->reply(session, "{}");
}

void VolumesService::complete(Session& session, Parameters const& parameters) {
    manager_.complete(parameters.publisher);
    server_->reply(session, "{}");
}

void VolumesService::get(Session& session, Parameters const& parameters) {
    std::string text;
    if (auto const* const config = manager_.find(*parameters.kind, *parameters.key))
        text = volume::config_text(*config);
    else if (auto const* const entry = board_.find(*parameters.kind, *parameters.key))
        text = entry->text;
    if (text.empty())
        return server_->fail_call(
            session, Error{ErrorKind::not_found,
                           {},
                           "there is no " + json::shown(*parameters.kind) + " " + json::shown(*parameters.key),
                           {},
                           0});
    server_->reply(session, "{\"object\":" + text + "}");
}

void VolumesService::watch(Session& session, Parameters const& parameters) {
    session.begin(std::make_unique<Watching>(*server_, board_, parameters));
}

void VolumesService::why(Session& session, Parameters const& parameters) {
    json::Writer out;
    out.open('{').key("lines").list(manager_.why(parameters.kind.value_or("VolumeConfig"), *parameters.key));
    server_->reply(session, out.close('}').text());
}

void VolumesService::snapshot(Session& session, Parameters const& parameters) {
    manager_.act_on_snapshot(*parameters.key, Manager::SnapshotAct::make, parameters.name, begin_waiting(session));
}

void VolumesService::rollback(Session& session, Parameters const& parameters) {
    manager_.act_on_snapshot(*parameters.key, Manager::SnapshotAct::rollback, parameters.name, begin_waiting(session));
}

void VolumesService::delete_snapshot(Session& session, Parameters const& parameters) {
    manager_.act_on_snapshot(*parameters.key, Manager::SnapshotAct::remove, parameters.name, begin_waiting(session));
}

void VolumesService::snapshots(Session& session, Parameters const& parameters) {
    std::uint64_t const ticket = ++last_ticket_;
    session.begin(std::make_unique<WaitingCall>(ticket));
    manager_.list_snapshots(*parameters.key, [this, ticket](Result<std::vector<storage::SnapshotFacts>> const& all) {
        answer_snapshots(ticket, all);
    });
}

void VolumesService::answer_snapshots(std::uint64_t ticket, Result<std::vector<storage::SnapshotFacts>> const& all) {
    if (!all) return answer(ticket, std::unexpected(all.error()));
    json::Writer out;
    out.open('{').key("snapshots").open('[');
    for (storage::SnapshotFacts const& one : *all) {
        out.open('{').member("name", one.name.text());
        if (one.created_at) out.key("created").seconds(*one.created_at);
        if (one.used) out.member("used", *one.used);
        out.close('}');
    }
    answer_with(ticket, out.close(']').close('}').text());
}

void VolumesService::answer_with(std::uint64_t ticket, std::string_view parameters) {
    server_->each<WaitingCall>([this, ticket, parameters](Session& session, WaitingCall const& waiting) {
        if (waiting.ticket != ticket) return;
        session.end_job();
        server_->reply(session, parameters);
    });
}

void VolumesService::scrub(Session& session, Parameters const& /*parameters*/) {
    std::uint64_t const ticket = ++last_ticket_;
    session.begin(std::make_unique<WaitingCall>(ticket));
    manager_.scrub([this, ticket](Result<Manager::Scrubbed> const& scrubbed) {
        constexpr std::size_t most_shown = 1000;
        if (!scrubbed) return answer(ticket, std::unexpected(scrubbed.error()));
        json::Writer out;
        out.open('{')
            .member("blobs", scrubbed->found.blobs)
            .member("bytes", scrubbed->found.bytes)
            .key("bad")
            .open('[');
        for (volume::Workbench::BadBlob const& blob :
             std::span(scrubbed->found.bad).first(std::min(most_shown, scrubbed->found.bad.size()))) {
            out.open('{').member("digest", blob.digest).member("reason", blob.reason).key("owners").open('[');
            for (content::Owner const& owner : blob.owners)
                out.value(owner.kind + " " + owner.id);
            out.close(']').close('}');
        }
        std::vector<std::string> missing = scrubbed->found.missing;
        missing.resize(std::min(most_shown, missing.size()));
        out.close(']').key("missing").list(missing).key("fetched_again").list(scrubbed->fetched_again).close('}');
        answer_with(ticket, out.text());
    });
}

void VolumesService::retry(Session& session, Parameters const& /*parameters*/) {
    manager_.retry();
    server_->reply(session, "{}");
}

void VolumesService::maintenance(Session& session, Parameters const& parameters) {
    manager_.set_maintenance(parameters.is_on);
    server_->reply(session, "{}");
}

void VolumesService::collect(Session& session, Parameters const& parameters) {
    constexpr std::size_t most_shown = 1000;  // the rest is found by the next call
    json::Writer out;
    out.open('{').key("victims").open('[');
    std::size_t shown = 0;
    for (Unclaimed const& one : manager_.collect(parameters.is_dry_run)) {
        if (++shown > most_shown) break;
        out.open('{').member("key", one.key).member("reason", one.reason).member("collected", one.is_collected);
        out.close('}');
    }
    server_->reply(session, out.close(']').close('}').text());
}

}  // namespace triton::program
