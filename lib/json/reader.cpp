#include "lib/json/reader.h"

#include <algorithm>
#include <cstddef>
#include <functional>
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
                if (array->empty()) array->reserve(few);
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
        // Most objects are in order, or short.
        if (std::ranges::adjacent_find(object, std::greater_equal{}, &Member::key) == object.end()) return;
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

    static constexpr std::size_t few = 4;  // elements: most arrays have no more

    static Where::Step last_key(Node const& object) { return std::get<Object>(object.value).back().key; }

    std::string_view text_;
    Limits const& limits_;
    ProblemList& problems_;
    Node root_;
    std::vector<Node*> open_;  // from the root to the innermost container
    std::size_t count_ = 0;
};

/// Reads what most documents consist of, several times as fast as the library: ASCII text with short escapes, and
/// integers that are not long. It gives up on anything else, and on any error: the library then reads from the start.
class PlainReader {
public:
    PlainReader(std::string_view text, Builder& builder)
        : at_(text.data()), end_(text.data() + text.size()), builder_(builder) {}

    /// Returns whether it has read the whole document.
    bool read() {
        if (!read_value()) return false;
        skip_space();
        return at_ == end_;
    }

private:
    void skip_space() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r'))
            ++at_;
    }

    /// Takes the character if it comes next.
    bool take(char wanted) {
        skip_space();
        if (at_ == end_ || *at_ != wanted) return false;
        ++at_;
        return true;
    }

    /// The Builder limits the depth.
    bool read_value() {
        if (take('{')) return read_object();
        if (take('[')) return read_array();
        if (take('"')) return read_string() && builder_.string(text_);
        if (take_word("true")) return builder_.boolean(true);
        if (take_word("false")) return builder_.boolean(false);
        if (take_word("null")) return builder_.null();
        return read_integer();
    }

    bool read_object() {
        if (!builder_.start_object(0)) return false;
        if (take('}')) return builder_.end_object();
        do {
            bool const has_key = take('"') && read_string() && builder_.key(text_);
            if (!has_key || !take(':') || !read_value()) return false;
        } while (take(','));
        return take('}') && builder_.end_object();
    }

    bool read_array() {
        if (!builder_.start_array(0)) return false;
        if (take(']')) return builder_.end_array();
        do {
            if (!read_value()) return false;
        } while (take(','));
        return take(']') && builder_.end_array();
    }

    bool take_word(std::string_view word) {
        if (!std::string_view(at_, end_).starts_with(word)) return false;
        at_ += word.size();
        return true;
    }

    bool read_integer() {
        constexpr std::ptrdiff_t short_digits = 18;  // fit into 64 bits with either sign
        bool const is_negative = take('-');          // behind the space that others have skipped
        char const* const first = at_;
        std::int64_t value = 0;
        for (; at_ != end_ && *at_ >= '0' && *at_ <= '9' && at_ - first < short_digits; ++at_)
            value = value * 10 + (*at_ - '0');
        if (at_ == first || (*first == '0' && at_ - first > 1)) return false;
        // A digit more, a fraction or an exponent; in a whole document a number is followed by something else.
        if (at_ != end_ && !std::string_view(" \n\t\r,]}").contains(*at_)) return false;
        return builder_.number_integer(is_negative ? -value : value);
    }

    /// Reads a string behind its first quote into text_.
    bool read_string() {
        text_.clear();
        for (;;) {
            char const* const begin = at_;
            while (at_ != end_ && is_itself(*at_))
                ++at_;
            text_.append(begin, at_);
            if (at_ == end_) return false;
            char const special = *at_++;
            if (special == '"') return true;
            if (special != '\\' || at_ == end_) return false;
            std::size_t const escape = std::string_view("\"\\/bfnrt").find(*at_++);
            if (escape == std::string_view::npos) return false;
            text_ += std::string_view("\"\\/\b\f\n\r\t")[escape];
        }
    }

    static bool is_itself(char c) {
        auto const byte = static_cast<unsigned char>(c);
        return byte >= ' ' && byte < 0x80 && c != '"' && c != '\\';
    }

    char const* at_;
    char const* end_;
    Builder& builder_;
    std::string text_;
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
    ProblemList found = problems;
    Builder quick(text, limits, found);
    if (PlainReader(text, quick).read()) {
        problems = std::move(found);
        return quick.take_root();
    }
    Builder builder(text, limits, problems);
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
    return builder.take_root();
}

}  // namespace triton::json
