#include "host/info/event.h"

#include <array>

#include "host/info/diff.h"
#include "lib/base/rfc3339.h"
#include "lib/json/writer.h"

namespace triton::info {

namespace {

constexpr std::array<std::string_view, 3> type_names{"create", "modify", "delete"};

EventType type_of(Document const* before, Document const* after) {
    if (!before) return EventType::create;
    return after ? EventType::modify : EventType::remove;
}

/// Returns "nics" for "nics.0.ip".
std::string_view property_of(std::string_view path) { return path.substr(0, path.find('.')); }

void write_text(json::Writer& out, std::string_view name, Document const& document, View view) {
    if (auto const value = document.member(view, name)) out.key(name).raw(*value);
}

}  // namespace

std::string_view name_of(EventType type) { return type_names[static_cast<std::size_t>(type)]; }

std::string date_of(std::int64_t at) {
    std::string date = rfc3339(at / 1'000'000);
    std::string const milliseconds = std::to_string(1000 + at / 1000 % 1000);
    date.replace(date.size() - 1, 1, "." + milliseconds.substr(1) + "Z");
    return date;
}

Event::Event(std::uint64_t sequence, std::int64_t at, Document const* before, Document const* after)
    : sequence_(sequence), at_(at), type_(type_of(before, after)), machine_((after ? after : before)->name()) {
    for (View const view : {View::full, View::open})
        seen_[static_cast<std::size_t>(view)] = look(view, before, after);
    stream_head_ = std::make_shared<std::string const>("id: " + std::to_string(sequence) +
                                                       "\nevent: " + std::string(name_of(type_)) + "\ndata: ");
}

Event::Seen Event::look(View view, Document const* before, Document const* after) const {
    Seen seen;
    std::vector<Change> changes;
    if (type_ == EventType::modify) {
        changes = diff(*before, *after, view);
        if (changes.empty()) return seen;
    }
    json::Writer out;
    std::string const date = date_of(at_);
    out.open('{').member("seq", sequence_).member("ts", date).member("date", date).member("type", name_of(type_));
    Document const& latest = after ? *after : *before;
    if (!latest.member(view, "zonename")) out.member("zonename", machine_);  // its default
    for (std::string_view const name : {"zonename", "uuid", "alias"})
        write_text(out, name, latest, view);
    if (type_ == EventType::modify) {
        out.key("changes").open('[');
        for (Change const& change : changes) {
            write_change(out, change);
            std::string_view const name = property_of(change.path);
            if (seen.properties.empty() || seen.properties.back() != name) seen.properties.emplace_back(name);
        }
        out.close(']');
    }
    if (after) out.key("vm").raw(*after->text(view));
    out.close('}');
    seen.line = std::make_shared<std::string const>(std::move(out).text() + "\n");
    return seen;
}

std::size_t Event::bytes() const {
    std::size_t bytes = sizeof *this + machine_.capacity() + stream_head_->capacity();
    for (Seen const& seen : seen_)
        bytes += (seen.line ? seen.line->capacity() : 0) + seen.properties.capacity() * sizeof(std::string);
    return bytes;
}

}  // namespace triton::info
