#include "host/observe/sequence_file.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "host/machine/store.h"
#include "lib/base/read_file.h"

namespace triton::observe {

namespace {

constexpr std::size_t most_bytes = 64;
/// Beyond this, a number in JSON is not exact for all readers.
constexpr std::uint64_t most = std::uint64_t{1} << 53;

/// Parses a number and the end of its line; nullopt for anything else.
std::optional<std::uint64_t> parse(std::string_view text) {
    std::uint64_t number = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    bool const is_whole = error == std::errc() && std::string_view(end, text.data() + text.size()) == "\n";
    return is_whole && number < most ? std::optional(number) : std::nullopt;
}

}  // namespace

Result<> SequenceFile::write(std::uint64_t mark) {
    return machine::replace_file(path_, std::to_string(mark) + "\n", 0644);
}

Result<std::uint64_t> SequenceFile::begin(std::uint64_t fallback) {
    auto const text = read_file(path_, most_bytes);
    bool const is_first = !text && text.error().kind == ErrorKind::not_found;
    auto const mark = text ? parse(*text) : std::nullopt;
    std::uint64_t const last = mark ? *mark : is_first ? 0 : fallback;
    TRY(write(last + reserve));
    return last;
}

Result<> SequenceFile::keep_ahead(std::uint64_t next) { return write(next + reserve); }

}  // namespace triton::observe
