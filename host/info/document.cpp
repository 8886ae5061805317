#include "host/info/document.h"

#include <algorithm>
#include <utility>

#include "host/machine/properties.h"
#include "lib/json/writer.h"

namespace triton::info {

namespace {

constexpr std::string_view error_name = "error";
constexpr std::string_view open_error = "its files cannot be read; the Unix socket says why";

std::size_t index(View view) { return static_cast<std::size_t>(view); }

std::span<machine::Property const> rows() { return machine::properties(); }

std::uint32_t property_row(std::string_view property) {
    auto const row = std::ranges::find(rows(), property, &machine::Property::name);
    return static_cast<std::uint32_t>(row - rows().begin());
}

}  // namespace

/// Writes the lines of both views, and remembers where each property is.
class Document::Maker {
public:
    Maker() {
        for (json::Writer& line : lines_)
            line.open('{');
    }

    /// `write`: writes the property's member, or nothing, as a view shows it.
    template <class Write>
    void add(std::uint32_t row, std::string_view name, Write write) {
        Field field{.row = row};
        for (View const view : {View::full, View::open})
            field.at[index(view)] = range_of(lines_[index(view)], name, view, write);
        if (field.at[index(View::full)].size != 0) fields_.push_back(field);
    }

    DocumentPtr make(std::string name, bool is_broken) && {
        auto document = std::shared_ptr<Document>(new Document);
        document->name_ = std::move(name);
        document->is_broken_ = is_broken;
        for (json::Writer& line : lines_)
            line.close('}');
        Text const full = shared(lines_[index(View::full)]);
        Text const open = shared(lines_[index(View::open)]);
        document->texts_ = {full, *open == *full ? full : open};
        fields_.shrink_to_fit();
        document->fields_ = std::move(fields_);
        return document;
    }

private:
    /// A member is `,"name":value`; the comma is not there before the first one.
    template <class Write>
    static Field::Range range_of(json::Writer& line, std::string_view name, View view, Write write) {
        std::size_t const before = line.size();
        write(line, view);
        if (line.size() == before) return {};
        std::size_t const comma = line.text()[before] == ',' ? 1 : 0;
        std::size_t const begin = before + comma + name.size() + std::string_view("\"\":").size();
        return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(line.size() - begin)};
    }

    static Text shared(json::Writer& line) {
        std::string text = std::move(line).text();
        text.shrink_to_fit();
        return std::make_shared<std::string const>(std::move(text));
    }

    std::array<json::Writer, 2> lines_;
    std::vector<Field> fields_;
};

DocumentPtr make_document(machine::Machine const& machine) {
    Document::Maker maker;
    std::uint32_t row = 0;
    for (machine::Property const& property : rows()) {
        maker.add(row++, property.name, [&](json::Writer& line, View view) {
            if (view == View::open && property.is_open()) property.write_for_all(machine, line);
            if (view == View::full && property.is_public()) property.write(property.name, machine, line);
        });
    }
    return std::move(maker).make(machine.uuid.text(), false);
}

DocumentPtr make_broken(std::string_view name, Error const& error) {
    Document::Maker maker;
    auto const add = [&](std::string_view property, std::string_view full, std::string_view open) {
        maker.add(property_row(property), property,
                  [&](json::Writer& line, View view) { line.member(property, view == View::full ? full : open); });
    };
    add("uuid", name, name);
    add("zonename", name, name);
    add("state", "unreadable", "unreadable");
    add(error_name, error.text(), open_error);
    return std::move(maker).make(std::string(name), true);
}

std::string_view Document::name_of(Field const& field) {
    return field.row < rows().size() ? rows()[field.row].name : error_name;
}

std::string_view Document::value(View view, Field const& field) const {
    Field::Range const& range = field.at[index(view)];
    return std::string_view(*text(view)).substr(range.begin, range.size);
}

std::optional<std::string_view> Document::member(View view, std::string_view property) const {
    auto const field = std::ranges::find(fields_, property, name_of);
    if (field == fields_.end() || field->at[index(view)].size == 0) return std::nullopt;
    return value(view, *field);
}

/// The limits here can be wide: the reader of the machine has set narrower ones.
json::Node parse_value(std::string_view value) {
    static constexpr json::Limits limits{.document_bytes = std::size_t{64} << 20, .values = std::size_t{1} << 24};
    json::ProblemList problems(1);
    return json::read_json(value, limits, problems).value_or(json::Node{});
}

std::size_t Document::bytes() const {
    std::size_t const open = text(View::open) == text(View::full) ? 0 : text(View::open)->capacity();
    return sizeof *this + name_.capacity() + text(View::full)->capacity() + open + fields_.capacity() * sizeof(Field) +
           2 * sizeof(std::string);
}

}  // namespace triton::info
