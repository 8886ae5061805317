#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace triton::agent {

inline constexpr std::size_t shortest_token = 16;
inline constexpr std::size_t longest_token = 1024;

/// The token that a file holds: one line of printable ASCII without blanks. Errors: those of reading; invalid: it is
/// too short to be kept from guessers, too long, or has other characters.
Result<std::string> read_token(std::string const& path);

/// Why a request is refused: its status and one line.
struct UiRefusal {
    unsigned status;
    std::string_view text;
    bool operator==(UiRefusal const&) const = default;
};

/// Who may see more on the page than everybody, and give commands there: clients with the token, or, without
/// one, clients that have shown a requested certificate. Without either, nobody may. Pages of other servers were
/// refused before: see OwnNames.
class UiAccess {
public:
    struct Settings {
        std::string token;  ///< empty: none
        bool asks_for_certificates = false;
    };
    /// What a request says of itself; all of it except the last comes from its sender.
    struct Claim {
        std::string_view authorization;
        bool has_accepted_certificate = false;
    };

    explicit UiAccess(Settings settings);

    /// Whether anybody may.
    [[nodiscard]] bool is_possible() const { return has_token_ || settings_.asks_for_certificates; }
    /// Replaces the token, where there is one; the old one no longer counts. Returns false when it is the same.
    bool replace_token(std::string token);
    /// nullopt: this one may. The time that it takes does not depend on how much of the token is right.
    [[nodiscard]] std::optional<UiRefusal> refusal_of(Claim const& claim) const;

private:
    using Digest = std::array<unsigned char, 32>;
    [[nodiscard]] std::optional<UiRefusal> refusal_of_token(std::string_view authorization) const;
    static Digest digest_of(std::string_view text);

    Settings settings_;  // without the token, of which the digest is enough
    bool has_token_;
    Digest token_;
};

}  // namespace triton::agent
