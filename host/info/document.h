#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/info/view.h"
#include "host/machine/machine.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::info {

class Document;
using DocumentPtr = std::shared_ptr<Document const>;

/// Parses what is in a document, which is valid JSON.
json::Node parse_value(std::string_view value);

/// One machine as it was found: its JSON object in one line for each view, and the place of each property in it.
/// Whoever reads the machine makes it once, and all that show it share it. Properties are found without parsing, so a
/// comparison or a filter reads only what it is about.
class Document {
public:
    /// Where the value of a property is in each view's line.
    struct Field {
        struct Range {
            std::uint32_t begin = 0;
            std::uint32_t size = 0;  ///< 0: this view does not have it
        };
        std::uint32_t row = 0;  ///< in the property table; beyond its end: "error"
        std::array<Range, 2> at = {};
    };

    /// The uuid; for an unreadable machine the name of its file.
    [[nodiscard]] std::string const& name() const { return name_; }
    [[nodiscard]] bool is_broken() const { return is_broken_; }
    /// A JSON object in one line, without a newline. Both views share it when they are equal.
    [[nodiscard]] Text const& text(View view) const { return texts_[static_cast<std::size_t>(view)]; }
    /// The JSON text of a property ("state" gives "\"running\""); nullopt: it has none, or the view does not show it.
    [[nodiscard]] std::optional<std::string_view> member(View view, std::string_view property) const;
    [[nodiscard]] json::Node node(View view) const { return parse_value(*text(view)); }

    /// The fields, in the order of the property table.
    [[nodiscard]] std::span<Field const> fields() const { return fields_; }
    [[nodiscard]] std::string_view value(View view, Field const& field) const;
    /// A name of the table, which lives as long as the program.
    static std::string_view name_of(Field const& field);

    /// Its memory.
    [[nodiscard]] std::size_t bytes() const;

    class Maker;  ///< in document.cpp

private:
    Document() = default;

    std::string name_;
    bool is_broken_ = false;
    std::array<Text, 2> texts_;
    std::vector<Field> fields_;
};

/// Makes the object that `vmadm get` shows.
DocumentPtr make_document(machine::Machine const& machine);
/// Makes the document of a machine whose file cannot be read: {"uuid","zonename","state":"unreadable","error"}. `name`:
/// its uuid, or the file's name instead.
DocumentPtr make_broken(std::string_view name, Error const& error);

}  // namespace triton::info
