#include "host/info/reader.h"

#include <algorithm>
#include <utility>

#include "lib/json/writer.h"

namespace triton::info {

namespace {

Text shared(std::string text) { return std::make_shared<std::string const>(std::move(text)); }

/// Whether a list contains a value; an empty list contains all.
template <class T, class List>
bool is_in(List const& list, T const& one) {
    return list.empty() || std::ranges::find(list, one) != list.end();
}

/// The first event to send. 0, which no event has, for an event that is yet to come: it must be of an earlier run of
/// the daemon.
std::uint64_t first_of(Reader::Options const& options, Feed const& feed) {
    if (!options.since) return feed.next();
    return *options.since < feed.next() ? *options.since + 1 : 0;
}

}  // namespace

/// A list of machines that is being sent: those that existed when it began.
struct Reader::Snapshot {
    SnapshotPlaces::Place place;
    std::vector<DocumentPtr> documents = {};
    std::size_t next = 0;
};

/// The result of one call of next().
class Reader::Batch {
public:
    explicit Batch(std::size_t budget) : budget_(budget) {}

    void add(Text piece) {
        size_ += piece->size();
        pieces_.push_back(std::move(piece));
    }
    [[nodiscard]] bool has_room() const { return size_ < budget_; }
    [[nodiscard]] std::vector<Text> take() && { return std::move(pieces_); }

private:
    std::size_t budget_;
    std::size_t size_ = 0;
    std::vector<Text> pieces_;
};

Reader::Reader(Options options, std::string id, Cache const& cache, Feed const& feed, SnapshotPlaces& places)
    : options_(std::move(options)),
      id_(std::move(id)),
      cache_(cache),
      feed_(feed),
      places_(places),
      next_(first_of(options_, feed)),
      is_snapshot_due_(!options_.since && options_.snapshot) {
    std::ranges::sort(options_.machines);
    std::ranges::sort(options_.fields);
}

bool Reader::wants_machine(std::string_view name) const {
    return options_.machines.empty() || std::ranges::binary_search(options_.machines, name);
}

bool Reader::has_more() const {
    if (snapshot_) return true;
    if (!has_begun_ && !is_snapshot_due_) return true;
    return wants_snapshot() ? !waits_for_place() : next_ < feed_.next();
}

bool Reader::waits_for_place() const { return !snapshot_ && wants_snapshot() && !places_.has_room(); }

std::vector<Text> Reader::next(std::size_t budget, std::int64_t now) {
    Batch batch(budget);
    if (!has_begun_ && !is_snapshot_due_) begin(batch, now);
    std::size_t looked = 0;
    while (batch.has_room()) {
        if (snapshot_)
            go_on_with_snapshot(batch);
        else if (wants_snapshot()) {
            if (!begin_snapshot(batch, now)) break;
        } else if (next_ < feed_.next() && looked++ < most_events) {
            pass_event(batch);
        } else {
            break;
        }
    }
    return std::move(batch).take();
}

/// Begins a record with `type`, `ts`, `date`, `uuid` and `seq`. The object stays open.
json::Writer Reader::record(std::string_view type, std::uint64_t sequence, std::int64_t now) const {
    json::Writer out;
    std::string const date = date_of(now);
    out.open('{').member("type", type).member("ts", date).member("date", date);
    out.member("uuid", std::string_view(id_)).member("seq", sequence);
    return out;
}

/// The text before a record in its form.
std::string Reader::head(std::string_view type, std::uint64_t sequence) const {
    if (options_.form == Form::lines) return "";
    return "id: " + std::to_string(sequence) + "\nevent: " + std::string(type) + "\ndata: ";
}

std::string_view Reader::end() const { return options_.form == Form::lines ? "\n" : "\n\n"; }

void Reader::begin(Batch& batch, std::int64_t now) {
    has_begun_ = true;
    // A client that needs a resync, and leaves before it has got one, must need it again: it knows no more than before.
    std::uint64_t const sequence = is_behind() ? options_.since.value_or(0) : position();
    json::Writer out = record("ack", sequence, now);
    out.close('}');
    batch.add(shared(head("ack", sequence) + out.text() + std::string(end())));
    ++sent_;
}

/// Takes all machines and the event after which the stream goes on from the same moment.
/// Returns false when it has to wait for a place.
bool Reader::begin_snapshot(Batch& batch, std::int64_t now) {
    auto place = places_.take();
    if (!place) return false;
    std::string_view const type = has_begun_ ? "resync" : "ready";
    resyncs_ += has_begun_ ? 1 : 0;
    has_begun_ = true;
    is_snapshot_due_ = false;
    next_ = feed_.next();
    snapshot_ = std::make_unique<Snapshot>(Snapshot{.place = *std::move(place)});
    for (auto const& [name, document] : cache_.all()) {
        if (wants_machine(name)) snapshot_->documents.push_back(document);
    }
    json::Writer out = record(type, position(), now);
    out.key("vms").open('[');
    batch.add(shared(head(type, position()) + out.text()));
    ++sent_;
    return true;
}

void Reader::go_on_with_snapshot(Batch& batch) {
    static Text const comma = shared(",");
    static Text const lines_end = shared("]}\n");
    static Text const sse_end = shared("]}\n\n");
    auto& [place, documents, next] = *snapshot_;
    while (next < documents.size() && batch.has_room()) {
        if (next > 0) batch.add(comma);
        batch.add(documents[next]->text(options_.view));
        documents[next++].reset();
    }
    if (next < documents.size()) return;
    batch.add(options_.form == Form::lines ? lines_end : sse_end);
    snapshot_.reset();
}

void Reader::pass_event(Batch& batch) {
    static Text const newline = shared("\n");
    EventPtr const event = feed_.at(next_++);
    if (!wants(*event)) return;
    if (options_.form == Form::sse) batch.add(event->stream_head());
    batch.add(event->line(options_.view));
    if (options_.form == Form::sse) batch.add(newline);
    ++sent_;
}

bool Reader::wants(Event const& event) const {
    if (!event.line(options_.view)) return false;
    if (!wants_machine(event.machine()) || !is_in(options_.types, event.type())) return false;
    if (event.type() != EventType::modify || options_.fields.empty()) return true;
    return std::ranges::any_of(event.properties(options_.view), [this](std::string const& name) {
        return std::ranges::binary_search(options_.fields, name);
    });
}

Text Reader::heartbeat(std::int64_t now) const {
    if (options_.form == Form::sse) return shared(": heartbeat\n\n");
    json::Writer out;
    out.open('{').member("type", "heartbeat").member("ts", date_of(now)).member("seq", position()).close('}');
    return shared(std::move(out).text() + "\n");
}

Reader::~Reader() = default;

}  // namespace triton::info
