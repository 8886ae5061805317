#include "sidecar/agent/ui_feed.h"

#include <algorithm>
#include <utility>

#include "lib/json/lookup.h"
#include "lib/json/writer.h"

namespace triton::agent {

namespace {

/// The JSON of a member; "null" when it is missing.
std::string json_of(json::Node const& object, std::string_view name) {
    json::Node const* const node = json::member(object, name);
    return node ? json::Writer{}.value(*node).text() : "null";
}

/// The essential members of a record that is too long to be kept.
std::string shortened(json::Node const& record) {
    json::Writer out;
    out.open('{').key("time").raw(json_of(record, "time").substr(0, 64));
    out.member("event", json::text_of(record, "event").substr(0, 100));
    out.member("message", json::text_of(record, "message").substr(0, 500) + "...");
    return std::move(out.close('}')).text();
}

}  // namespace

void UiEvents::add(json::Node const& reply) {
    if (std::exchange(is_broken_, false))
        add_text(R"({"event":"events-missed","message":"the launcher was out of reach; events may be missing here"})");
    if (auto const lost = json::number_of(reply, "lost"))
        add_text(json::Writer{}.open('{').member("lost", *lost).close('}').text());
    json::Node const* const record = json::member(reply, "event");
    if (!record || !record->get<json::Object>()) return;
    std::string text = json::Writer{}.value(*record).text();
    add_text(text.size() > most_bytes_of_one ? shortened(*record) : std::move(text));
}

void UiEvents::add_text(std::string text) {
    ++last_;
    bytes_ += text.size();
    kept_.push_back(std::move(text));
    while (kept_.size() > most || bytes_ > most_bytes) {
        bytes_ -= kept_.front().size();
        kept_.pop_front();
    }
}

std::string UiEvents::text_after(std::uint64_t after) const {
    std::uint64_t const first = last_ - kept_.size();  // one less than the number of the oldest
    bool const is_of_another = after > last_;
    std::uint64_t const from = is_of_another ? first : std::max(after, first);
    json::Writer out;
    out.open('{').key("events").open('[');
    for (std::uint64_t number = from; number < last_; ++number)
        out.raw(kept_[static_cast<std::size_t>(number - first)]);
    out.close(']').member("next", last_).member("missed", is_of_another || (after > 0 && after < first));
    return std::move(out.close('}')).text();
}

void UiConfigurations::add(json::Node const& reply) {
    add_active(reply);
    add_rejected(reply);
}

void UiConfigurations::add_active(json::Node const& reply) {
    auto const* const text = json::value_of<std::string>(reply, "configuration");
    if (!text) return;
    Active active{*text, json_of(reply, "accepted_at")};
    // The same configuration is reported again with each rejection, and by each version of the launcher.
    if (!active_.empty() && active_.back().text == active.text && active_.back().accepted_at == active.accepted_at)
        return;
    bytes_ += active.text.size();
    active_.push_back(std::move(active));
    while (active_.size() > 1 && (active_.size() > most || bytes_ > most_bytes)) {
        bytes_ -= active_.front().text.size();
        active_.pop_front();
    }
}

void UiConfigurations::add_rejected(json::Node const& reply) {
    auto const* const reasons = json::value_of<json::Array>(reply, "rejection");
    if (!reasons || reasons->empty()) return;
    Rejected rejected{{}, json_of(reply, "rejected_at")};
    for (json::Node const& reason : *reasons) {
        auto const* const text = reason.get<std::string>();
        if (text && rejected.reasons.size() < most_reasons)
            rejected.reasons.push_back(text->substr(0, most_bytes_of_reason));
    }
    if (!rejected_.empty() && rejected_.back() == rejected) return;
    rejected_.push_back(std::move(rejected));
    if (rejected_.size() > most) rejected_.pop_front();
}

std::string UiConfigurations::text() const {
    json::Writer out;
    out.open('{').key("configurations").open('[');
    for (Active const& one : active_)
        out.open('{').key("accepted_at").raw(one.accepted_at).member("text", one.text).close('}');
    out.close(']').key("rejections").open('[');
    for (Rejected const& one : rejected_) {
        out.open('{').key("rejected_at").raw(one.rejected_at).key("reasons").list(one.reasons);
        out.close('}');
    }
    return std::move(out.close(']').close('}')).text();
}

}  // namespace triton::agent
