#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace triton::info {

/// The parts of a machine, by where they are read.
enum class Part : std::uint8_t {
    stored = 1,     ///< its files
    unit = 2,       ///< systemd's unit
    snapshots = 4,  ///< the pool
    launcher = 8,   ///< what its launcher reports
};

/// A set of parts.
class Parts {
public:
    constexpr Parts() = default;
    constexpr Parts(Part part) : bits_(static_cast<std::uint8_t>(part)) {}  // NOLINT(google-explicit-constructor)
    constexpr Parts operator|(Parts other) const { return Parts(bits_ | other.bits_); }
    constexpr Parts operator&(Parts other) const { return Parts(bits_ & other.bits_); }
    constexpr Parts& operator|=(Parts other) { return *this = *this | other; }
    [[nodiscard]] constexpr Parts without(Parts other) const { return Parts(bits_ & ~other.bits_); }
    [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
    [[nodiscard]] constexpr bool has(Part part) const { return !(*this & part).empty(); }
    /// Returns "stored, unit", for example.
    [[nodiscard]] std::string text() const {
        static constexpr std::array<std::string_view, 4> names{"stored", "unit", "snapshots", "launcher"};
        std::string text;
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (((bits_ >> i) & 1) != 0) text.append(text.empty() ? "" : ", ").append(names[i]);
        }
        return text;
    }
    bool operator==(Parts const&) const = default;

private:
    constexpr explicit Parts(int bits) : bits_(static_cast<std::uint8_t>(bits)) {}
    std::uint8_t bits_ = 0;
};

constexpr Parts operator|(Part left, Part right) { return Parts(left) | right; }

/// The parts that the host itself knows, so no machine can delay them.
inline constexpr Parts host_parts = Part::stored | Part::unit | Part::snapshots;
inline constexpr Parts all_parts = host_parts | Part::launcher;

}  // namespace triton::info
