#include "lib/base/name_pattern.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

namespace triton {

namespace {

bool is_between(char low, char letter, char high) {
    return static_cast<unsigned char>(low) <= static_cast<unsigned char>(letter) &&
           static_cast<unsigned char>(letter) <= static_cast<unsigned char>(high);
}
bool is_lower(char letter) { return is_between('a', letter, 'z'); }
bool is_capital(char letter) { return is_between('A', letter, 'Z'); }
bool is_alpha(char letter) { return is_lower(letter) || is_capital(letter); }
bool is_decimal(char letter) { return is_between('0', letter, '9'); }
bool is_alnum(char letter) { return is_alpha(letter) || is_decimal(letter); }
bool is_graph(char letter) { return is_between('!', letter, '~'); }
bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }
bool is_white(char letter) { return letter == ' ' || is_between('\t', letter, '\r'); }

struct CharacterClass {
    std::string_view name;
    bool (*contains)(char);
};

constexpr std::array<CharacterClass, 12> character_classes{{
    {"alnum", is_alnum},
    {"alpha", is_alpha},
    {"blank", is_blank},
    {"cntrl", [](char letter) { return is_between('\0', letter, '\x1f') || letter == '\x7f'; }},
    {"digit", is_decimal},
    {"graph", is_graph},
    {"lower", is_lower},
    {"print", [](char letter) { return is_graph(letter) || letter == ' '; }},
    {"punct", [](char letter) { return is_graph(letter) && !is_alnum(letter); }},
    {"space", is_white},
    {"upper", is_capital},
    {"xdigit",
     [](char letter) { return is_decimal(letter) || is_between('a', letter, 'f') || is_between('A', letter, 'F'); }},
}};

/// Reads a pattern from its front.
class PatternReader {
public:
    explicit PatternReader(std::string_view rest) : rest_(rest) {}

    [[nodiscard]] std::string_view rest() const { return rest_; }
    [[nodiscard]] bool begins_with(char letter) const { return rest_.starts_with(letter); }
    bool accept(char letter) {
        if (!begins_with(letter)) return false;
        rest_.remove_prefix(1);
        return true;
    }
    /// Reads one letter, which a backslash in front takes literally. nullopt: the pattern ends before it.
    std::optional<char> letter() {
        (void)accept('\\');
        if (rest_.empty()) return std::nullopt;
        char const letter = rest_.front();
        rest_.remove_prefix(1);
        return letter;
    }
    /// Reads the name in "[:alpha:]", for the sign ':'. nullopt, and nothing is read: something else follows.
    std::optional<std::string_view> named(char sign) {
        if (rest_.size() < 2 || rest_[0] != '[' || rest_[1] != sign) return std::nullopt;
        std::size_t const end = rest_.find(sign, 2);
        if (end == rest_.npos || end + 1 >= rest_.size() || rest_[end + 1] != ']') return std::nullopt;
        std::string_view const name = rest_.substr(2, end - 2);
        rest_.remove_prefix(end + 2);
        return name;
    }

private:
    std::string_view rest_;
};

/// Whether the brackets behind a '[' contain the letter; reads them. nullopt: they do not end, and '[' is a letter.
std::optional<bool> contains(PatternReader& brackets, char letter) {
    bool const is_negated = brackets.accept('!') || brackets.accept('^');
    bool found = false;
    for (bool is_first = true; is_first || !brackets.accept(']'); is_first = false) {
        if (auto const name = brackets.named(':')) {
            auto const* const named = std::ranges::find(character_classes, *name, &CharacterClass::name);
            found = found || (named != character_classes.end() && named->contains(letter));
            continue;
        }
        auto const low = brackets.letter();
        if (!low) return std::nullopt;
        PatternReader behind = brackets;
        std::optional<char> high = low;
        if (behind.accept('-') && !behind.begins_with(']')) {
            high = behind.letter();
            if (!high) return std::nullopt;
            brackets = behind;
        }
        found = found || is_between(*low, letter, *high);
    }
    return found != is_negated;
}

/// What follows in the pattern when its first part, which is not '*', matches the letter.
std::optional<std::string_view> behind_match(std::string_view pattern, char letter) {
    PatternReader reader(pattern);
    if (pattern.empty()) return std::nullopt;
    if (reader.accept('?')) return reader.rest();
    if (reader.accept('[')) {
        PatternReader brackets = reader;
        if (auto const is_in = contains(brackets, letter))
            return *is_in ? std::optional(brackets.rest()) : std::nullopt;
        return letter == '[' ? std::optional(reader.rest()) : std::nullopt;
    }
    return reader.letter() == letter ? std::optional(reader.rest()) : std::nullopt;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view name) {
    // A leading period is matched by itself only.
    if (name.starts_with('.') && !pattern.starts_with('.') && !pattern.starts_with("\\.")) return false;
    // Only the latest '*' needs to take more: what an earlier one could take, it can take as well.
    std::optional<std::string_view> behind_star;
    std::string_view after_star;  // of the name, not taken by that '*' yet
    while (!name.empty() || !pattern.empty()) {
        if (pattern.starts_with('*')) {
            pattern.remove_prefix(1);
            behind_star = pattern;
            after_star = name;
        } else if (auto const behind = name.empty() ? std::nullopt : behind_match(pattern, name.front())) {
            pattern = *behind;
            name.remove_prefix(1);
        } else if (behind_star && !after_star.empty()) {
            after_star.remove_prefix(1);
            pattern = *behind_star;
            name = after_star;
        } else {
            return false;
        }
    }
    return true;
}

}  // namespace triton
