#include "lib/json/reader.h"

#include <algorithm>
#include <utility>

#define JSON_NO_IO  // no <istream>, no <cstdio>
#include <nlohmann/json.hpp>

#include "lib/json/text.h"
#include "lib/json/where.h"

namespace triton::json {

namespace {

/// The place of a byte as "line 2, column 7". A column is a character: UTF-8 continuation bytes do not count.
std::string line_and_column(std::string_view text, std::size_t offset) {
    std::string_view const before = text.substr(0, offset);
    std::size_t const line_start = before.rfind('\n') + 1;  // npos + 1 is 0
    auto const is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; };
    auto const line = 1 + std::ranges::count(before, '\n');
    auto const column = 1 + std::ranges::count_if(before.substr(line_start), is_first_byte);
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// The library's text without its number, its position (in bytes) and its quotation, which can be as long as the
/// document. "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing object key -
/// invalid literal; last read: '{a'; expected string literal" becomes "syntax error while parsing object key: invalid
/// literal; expected string literal".
std::string plain_reason(std::string_view text) {
    constexpr std::string_view start = "syntax error ";
    text.remove_prefix(std::min(text.find(start), text.size()));
    std::size_t const dash = text.find(" - ");
    if (dash == std::string_view::npos) return "syntax error";
    std::string_view const context = text.substr(0, dash);
    std::string_view detail = text.substr(dash + 3);
    std::string_view expected;
    if (std::size_t const at = detail.find("; last read: '"); at != std::string_view::npos) {
        std::size_t const after = detail.rfind("'; expected ");
        if (after != std::string_view::npos) expected = detail.substr(after + 1);
        detail = detail.substr(0, at);
    }
    return std::string(context).append(": ").append(detail).append(expected);
}

/// Builds Nodes from the library's events. Each function returns whether to read on.
class Builder {
public:
    Builder(std::string_view text, Limits const& limits, ProblemList& problems)
        : text_(text), limits_(limits), problems_(problems) {}

    Node take_root() { return std::move(root_); }

    bool null() { return add({Null{}}) != nullptr; }
    bool boolean(bool value) { return add({value}) != nullptr; }
    bool number_integer(std::int64_t value) { return add({value}) != nullptr; }
    bool number_unsigned(std::uint64_t value) {
        if (std::in_range<std::int64_t>(value)) return number_integer(static_cast<std::int64_t>(value));
        return add({OddNumber{std::to_string(value)}}) != nullptr;
    }
    bool number_float(double, std::string const& text) { return add({OddNumber{text}}) != nullptr; }
    bool string(std::string& value) {
        refuse_nul(value);
        return add({std::move(value)}) != nullptr;
    }
    bool binary(std::vector<std::uint8_t>&) { return false; }  // JSON has none
    bool start_object(std::size_t) { return open({Object{}}); }
    bool start_array(std::size_t) { return open({Array{}}); }
    bool key(std::string& value) {
        std::get<Object>(open_.back()->value).push_back({std::move(value), {}});
        refuse_nul(std::get<Object>(open_.back()->value).back().key);
        return true;
    }
    bool end_object() {
        report_duplicates(std::get<Object>(open_.back()->value));
        open_.pop_back();
        return true;
    }
    bool end_array() {
        open_.pop_back();
        return true;
    }
    bool parse_error(std::size_t position, std::string const&, nlohmann::json::exception const& error) {
        constexpr int number_overflow = 406;  // of a floating-point number; all other errors are about syntax
        std::size_t const offset = std::min(position > 0 ? position - 1 : 0, text_.size());
        problems_.add(line_and_column(text_, offset),
                      error.id == number_overflow ? "the number is too large" : plain_reason(error.what()));
        return false;
    }

private:
    /// Puts a value where the document has it; nullptr: there are too many.
    Node* add(Node node) {
        if (++count_ > limits_.values) {
            problems_.add(Where{}, "has more than " + std::to_string(limits_.values) + " values");
            return nullptr;
        }
        Node* place = &root_;
        if (!open_.empty()) {
            if (auto* const array = std::get_if<Array>(&open_.back()->value)) {
                place = &array->emplace_back();
            } else {
                place = &std::get<Object>(open_.back()->value).back().node;
            }
        }
        *place = std::move(node);
        return place;
    }

    bool open(Node node) {
        if (open_.size() >= limits_.depth) {
            problems_.add(path(), "nested deeper than " + std::to_string(limits_.depth) + " levels");
            return false;
        }
        Node* const place = add(std::move(node));
        if (place) open_.push_back(place);  // stays valid: nothing is added next to it before it is closed
        return place != nullptr;
    }

    void refuse_nul(std::string_view text) {
        if (text.contains('\0')) problems_.add(path(), "contains a NUL byte, which no argument can carry");
    }

    void report_duplicates(Object const& object) {
        std::vector<std::string_view> keys;
        keys.reserve(object.size());
        for (Member const& member : object)
            keys.push_back(member.key);
        std::ranges::sort(keys);
        for (std::size_t i = 1; i < keys.size(); ++i) {
            bool const again = keys[i] == keys[i - 1];
            bool const reported = i >= 2 && keys[i] == keys[i - 2];
            if (!again || reported) continue;
            std::string where = path_of_open();
            append_step(where, keys[i]);
            problems_.add(std::move(where), "duplicate key");
        }
    }

    /// The path of the innermost open container.
    [[nodiscard]] std::string path_of_open() const {
        std::string path;
        for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
            auto const* const array = open_[i]->get<Array>();
            append_step(path, array ? Where::Step{array->size() - 1} : last_key(*open_[i]));
        }
        return path;
    }

    /// The path of the key that was just read, or of the value that comes next.
    [[nodiscard]] std::string path() const {
        std::string path = path_of_open();
        if (open_.empty()) return path;
        auto const* const array = open_.back()->get<Array>();
        append_step(path, array ? Where::Step{array->size()} : last_key(*open_.back()));
        return path;
    }

    static Where::Step last_key(Node const& object) { return std::get<Object>(object.value).back().key; }

    std::string_view text_;
    Limits const& limits_;
    ProblemList& problems_;
    Node root_;
    std::vector<Node*> open_;  // from the root to the innermost container
    std::size_t count_ = 0;
};

/// Why the text is not worth parsing; empty when it is.
std::string refusal(std::string_view text, Limits const& limits) {
    if (text.size() > limits.document_bytes)
        return "is larger than " + std::to_string(limits.document_bytes) + " bytes";
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "is empty";
    if (text.starts_with("\xef\xbb\xbf")) return "starts with a byte order mark; save the file as UTF-8 without one";
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return "is UTF-16; save the file as UTF-8";
    return {};
}

}  // namespace

std::string_view Node::kind() const {
    static constexpr std::string_view names[] = {"null", "boolean", "number", "number", "string", "array", "object"};
    static_assert(std::size(names) == std::variant_size_v<decltype(value)>);
    return names[value.index()];
}

std::optional<Node> read_json(std::string_view text, Limits const& limits, ProblemList& problems) {
    if (std::string reason = refusal(text, limits); !reason.empty()) {
        problems.add(Where{}, std::move(reason));
        return std::nullopt;
    }
    // The library takes a NUL byte for the end of the text, and would ignore what follows it.
    if (std::size_t const nul = text.find('\0'); nul != std::string_view::npos) {
        problems.add(line_and_column(text, nul), "a NUL byte, which JSON does not allow");
        return std::nullopt;
    }
    Builder builder(text, limits, problems);
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
    return builder.take_root();
}

}  // namespace triton::json
