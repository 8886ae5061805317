#include "lib/base/nearest.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace triton {

namespace {

constexpr std::size_t longest_word = 64;  // anything longer is not a typing error, and rows live on the stack

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool same(char a, char b) { return lower(a) == lower(b); }
bool equal(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, same); }

/// How many insertions, deletions, substitutions and swaps of neighbours turn one word into the other (optimal string
/// alignment).
std::size_t distance(std::string_view a, std::string_view b) {
    using Row = std::array<std::size_t, longest_word + 1>;
    Row before_last{};
    Row last{};
    Row row{};
    for (std::size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        before_last = last;
        last = row;
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0U : 1U)});
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
                row[j] = std::min(row[j], before_last[j - 2] + 1);
            }
        }
    }
    return row[b.size()];
}

bool is_separator(char c) { return c == '-' || c == '_' || c == '.'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

/// Whether a part of a word begins at `i`, as in "run|Servers" or "log|-level".
bool is_boundary(std::string_view word, std::size_t i) {
    return is_separator(word[i]) || (is_upper(word[i]) && !is_upper(word[i - 1]));
}

std::string_view without_separators(std::string_view word) {
    while (!word.empty() && is_separator(word.front()))
        word.remove_prefix(1);
    while (!word.empty() && is_separator(word.back()))
        word.remove_suffix(1);
    return word;
}

std::string_view first_part(std::string_view word) {
    word = without_separators(word);
    std::size_t end = 1;
    while (end < word.size() && !is_boundary(word, end))
        ++end;
    return word.substr(0, end);
}

std::string_view last_part(std::string_view word) {
    word = without_separators(word);
    if (word.empty()) return word;
    std::size_t begin = word.size() - 1;
    while (begin > 0 && !is_boundary(word, begin))
        --begin;
    return without_separators(word.substr(begin));
}

bool shares_part(std::string_view a, std::string_view b) {
    auto const telling = [](std::string_view x, std::string_view y) { return x.size() >= 3 && equal(x, y); };
    return telling(first_part(a), first_part(b)) || telling(last_part(a), last_part(b));
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view word, std::span<std::string_view const> known) {
    if (word.empty() || word.size() > longest_word) return std::nullopt;
    std::optional<std::string_view> best;
    std::optional<std::string_view> sharing;
    std::size_t best_distance = longest_word;
    std::size_t sharing_count = 0;
    for (std::string_view const candidate : known) {
        if (candidate.empty() || candidate.size() > longest_word) continue;
        std::size_t const steps = distance(word, candidate);
        if (steps <= std::max(word.size(), candidate.size()) / 3 && steps < best_distance) {
            best = candidate;
            best_distance = steps;
        }
        if (shares_part(word, candidate)) {
            sharing = candidate;
            ++sharing_count;
        }
    }
    if (best) return best;
    return sharing_count == 1 ? sharing : std::nullopt;
}

}  // namespace triton
