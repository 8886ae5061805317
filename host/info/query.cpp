#include "host/info/query.h"

#include <algorithm>

#include "host/machine/properties.h"
#include "lib/json/writer.h"

namespace triton::info {

namespace {

std::string_view property_of_column(std::string_view key) { return key.substr(0, key.find('.')); }

/// Refuses even to filter by what the view does not show, so that nobody takes an empty answer for a fact.
Result<> refuse(std::string_view name) { return fail(ErrorKind::denied, std::string(name) + " needs the Unix socket"); }

/// An object with one property, in the form in which filters want a machine.
json::Node with_property(Document const& document, View view, std::string_view name) {
    auto const value = document.member(view, name);
    if (!value) return {json::Object{}};
    json::Object object;
    object.push_back({std::string(name), parse_value(*value)});
    return {std::move(object)};
}

}  // namespace

Result<Query> Query::parse(Pairs const& pairs, View view, std::span<std::string_view const> others) {
    Query query;
    query.view_ = view;
    for (auto const& [name, value] : pairs) {
        if (std::ranges::find(others, name) != others.end()) continue;
        if (name == "fields")
            TRY(query.add_fields(value));
        else
            TRY(query.add_condition(name + "=" + value));
    }
    return query;
}

Result<> Query::add_condition(std::string const& text) {
    if (filters_.size() == most_conditions)
        return fail("there are more than " + std::to_string(most_conditions) + " conditions");
    machine::Filter filter = TRY(machine::Filter::parse(text, "lookup"));
    if (view_ == View::open && filter.is_pattern() && ++patterns_ > most_open_patterns)
        return fail("there are more than " + std::to_string(most_open_patterns) + " patterns");
    // A machine's owner decides how long its launcher's report is, so not everybody may have it searched.
    machine::Property const* const property = machine::find_property(filter.property());
    if (view_ == View::open && property && property->has_secrets()) return refuse(filter.property());
    filters_.push_back(std::move(filter));
    return {};
}

Result<> Query::add_fields(std::string_view names) {
    if (!columns_) columns_.emplace();
    for (machine::ListColumn& column : TRY(machine::parse_columns(names, "field"))) {
        if (columns_->size() == most_fields)
            return fail("there are more than " + std::to_string(most_fields) + " fields");
        machine::Property const* const property = machine::find_property(property_of_column(column.key));
        if (view_ == View::open && property && !property->is_open()) return refuse(property->name);
        columns_->push_back(std::move(column));
    }
    return {};
}

bool Query::matches(Document const& document) const {
    return std::ranges::all_of(filters_, [&](machine::Filter const& filter) {
        return filter.matches(with_property(document, view_, filter.property()));
    });
}

Text Query::text(Document const& document) const {
    // the error of an unreadable machine is always of interest
    if (!columns_ || document.is_broken()) return document.text(view_);
    json::Writer out;
    out.open('{');
    for (machine::ListColumn const& column : *columns_)
        write_column(out, document, column);
    out.close('}');
    return std::make_shared<std::string const>(std::move(out).text());
}

/// Writes a column. The value of a whole property is copied unchanged.
void Query::write_column(json::Writer& out, Document const& document, machine::ListColumn const& column) const {
    std::string_view const property = property_of_column(column.key);
    auto const value = document.member(view_, property);
    if (!value) return;
    if (property == column.key) {
        out.name(column.key).raw(*value);
        return;
    }
    json::Node const selected = machine::selection(with_property(document, view_, property), {&column, 1});
    for (json::Member const& member : *selected.get<json::Object>())
        out.name(member.key).value(member.node);
}

}  // namespace triton::info
