#include "host/image/platform.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <sys/utsname.h>

#include "lib/base/digits.h"
#include "lib/json/text.h"

namespace triton::image {

namespace {

struct MachineName {
    std::string_view machine;  ///< as in uname(2)
    std::string_view architecture;
    std::string_view variant;
};
constexpr std::array<MachineName, 10> machine_names{{
    {"x86_64", "amd64", ""},
    {"aarch64", "arm64", "v8"},
    {"armv7l", "arm", "v7"},
    {"armv6l", "arm", "v6"},
    {"i686", "386", ""},
    {"ppc64le", "ppc64le", ""},
    {"s390x", "s390x", ""},
    {"riscv64", "riscv64", ""},
    {"mips64", "mips64le", ""},
    {"loongarch64", "loong64", ""},
}};

struct OtherName {
    std::string_view name;
    std::string_view architecture;
    std::string_view variant;  ///< when none is named
};
/// What some tools write instead of Go's names. Source: containerd, platforms, normalizeArch().
constexpr std::array<OtherName, 9> other_names{{
    {"x86_64", "amd64", ""},
    {"x86-64", "amd64", ""},
    {"aarch64", "arm64", ""},
    {"armhf", "arm", "v7"},
    {"armel", "arm", "v6"},
    {"i386", "386", ""},
    {"i486", "386", ""},
    {"i586", "386", ""},
    {"i686", "386", ""},
}};

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

/// The variant of an image that does not name one. Source: image-spec, image-index.md, "Platform Variants".
int first_variant(std::string_view architecture) {
    if (architecture == "arm64") return 8;
    if (architecture == "arm") return 7;
    return 1;
}

/// Returns 7 for "v7"; nullopt for anything of another form.
std::optional<int> variant_number(Platform const& platform) {
    if (platform.variant.empty()) return first_variant(platform.architecture);
    std::string_view text = platform.variant;
    if (!text.starts_with('v')) return std::nullopt;
    text.remove_prefix(1);
    std::string_view const digits = take_digits(text);
    if (digits.empty() || digits.size() > 2) return std::nullopt;
    int const major = std::stoi(std::string(digits));
    return text.empty() || text == ".0" ? std::optional(major) : std::nullopt;
}

bool is_word(std::string_view text) {
    return !text.empty() && text.size() <= 32 && std::ranges::all_of(text, [](char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || c == '.' || c == '_' || c == '-';
    });
}

}  // namespace

std::string Platform::text() const { return os + "/" + architecture + (variant.empty() ? "" : "/" + variant); }

Result<Platform> parse_platform(std::string_view text) {
    std::vector<std::string_view> words;
    for (std::string_view rest = text;;) {
        std::size_t const slash = rest.find('/');
        words.push_back(rest.substr(0, slash));
        if (slash == std::string_view::npos || words.size() > 3) break;
        rest.remove_prefix(slash + 1);
    }
    if (words.size() > 3 || !std::ranges::all_of(words, is_word))
        return fail(json::quoted(text) + " is not a platform (for example linux/amd64, linux/arm/v7)");
    Platform platform;
    if (words.size() == 1) {
        platform.architecture = words[0];
        return canonical(platform);
    }
    platform.os = words[0];
    platform.architecture = words[1];
    if (words.size() == 3) platform.variant = words[2];
    return canonical(platform);
}

Platform canonical(Platform const& platform) {
    Platform own{
        .os = lower(platform.os), .architecture = lower(platform.architecture), .variant = lower(platform.variant)};
    if (auto const row = std::ranges::find(other_names, own.architecture, &OtherName::name); row != other_names.end()) {
        own.architecture = row->architecture;
        if (own.variant.empty()) own.variant = row->variant;
    }
    if (!own.variant.empty() && is_digit(own.variant.front())) own.variant.insert(0, 1, 'v');
    return own;
}

Platform host_platform() {
    utsname name{};
    std::string_view const machine = ::uname(&name) == 0 ? std::string_view(name.machine) : std::string_view();
    auto const row = std::ranges::find(machine_names, machine, &MachineName::machine);
    if (row == machine_names.end()) return {.architecture = std::string(machine)};
    return {.architecture = std::string(row->architecture), .variant = std::string(row->variant)};
}

std::optional<int> fitness(Platform const& offered_as, Platform const& wanted_as) {
    Platform const offered = canonical(offered_as);
    Platform const wanted = canonical(wanted_as);
    if (offered.os != wanted.os || offered.architecture != wanted.architecture) return std::nullopt;
    auto const has = variant_number(offered);
    auto const can = variant_number(wanted);
    if (!has || !can) return offered.variant == wanted.variant ? std::optional(0) : std::nullopt;
    return *has <= *can ? has : std::nullopt;
}

std::vector<std::size_t> select_platforms(std::span<std::optional<Platform> const> offered, Platform const& wanted) {
    std::optional<std::size_t> best;
    std::vector<std::size_t> unnamed;
    int best_fitness = -1;
    for (std::size_t i = 0; i < offered.size(); ++i) {
        if (!offered[i] || offered[i]->architecture.empty()) {
            unnamed.push_back(i);
            continue;
        }
        auto const fits = fitness(*offered[i], wanted);
        if (!fits || *fits <= best_fitness) continue;
        best = i;
        best_fitness = *fits;
    }
    return best ? std::vector{*best} : unnamed;
}

}  // namespace triton::image
