#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::net {

/// The fields of a distinguished name that rules may ask for.
enum class NameField : std::uint8_t { common_name, country, locality, state, organization, unit, user_id, domain };

struct NameEntry {
    NameField field;
    std::string value;  ///< UTF-8

    bool operator==(NameEntry const&) const = default;
};

/// `other`: otherName, directoryName, registeredID and whatever rules cannot ask for.
enum class AlternativeKind : std::uint8_t { dns, uri, ip, email, other };

struct AlternativeName {
    AlternativeKind kind;
    std::string value;  ///< UTF-8; an address as inet_ntop(3) writes it

    bool operator==(AlternativeName const&) const = default;
};

/// What the chain of a certificate is worth.
enum class ChainValidity : std::uint8_t {
    valid,
    expired,  ///< valid except for time: a certificate has expired or is not valid yet
    invalid
};

/// What a peer has shown, as far as rules may ask for it.
struct PeerCertificate {
    std::vector<NameEntry> subject;
    std::vector<NameEntry> issuer;                   ///< of the peer's own certificate
    std::vector<NameEntry> root;                     ///< subject of the last certificate of the chain
    std::vector<AlternativeName> alternatives;       ///< of the peer's own certificate
    std::vector<AlternativeName> root_alternatives;  ///< of the last certificate of the chain
    ChainValidity validity = ChainValidity::invalid;
    std::string problem;  ///< why the chain is not valid
};

/// Which peers are let in: FoundationDB's TLS peer verification, and the form that its Kubernetes sidecar has for it.
///
/// Alternatives joined by `|`, each a comma list of conditions that must all hold: `[SCOPE.]FIELD OP VALUE` or a check.
/// - SCOPE: S or Subject (default), I or Issuer (the issuer's name in the peer's certificate), R or Root (the last
///   certificate of the chain).
/// - FIELD: CN C L ST O OU UID DC, or subjectAltName with the value `DNS:...`, `URI:...`, `IP:...` or `EMAIL:...`; with
///   the scope Issuer that is the subjectAltName of the peer's own certificate, as in FoundationDB.
/// - OP: `=` equal, `>=` begins with, `<=` ends with. Compared byte for byte; equal addresses are equal in any
/// spelling.
/// - VALUE: with the escapes of RFC 4514 (`\,`, `\|`, `\C3`); neither `#` nor a blank begins it; blanks at its end do
///   not belong to it.
/// - `Check.Valid=0` in any alternative lets in every certificate. `Check.Unexpired=0` overlooks, in its alternative,
///   that the chain is too old or too new. With 1 they say what holds anyway.
/// A field that a name has twice never matches, and a subjectAltName of another kind ends the search before those that
/// follow it.
///
/// The sidecar's form joins alternatives by `;`, which FoundationDB's must escape, so that one unescaped `;` tells them
/// apart. There a backslash and a `|` are ordinary, addresses may be written `IP Address:`, a field that a name has
/// twice matches when either does, and other kinds of subjectAltName are passed over. What fails or ends in an error in
/// the shipped program only because of a mistake there (C, R, operators on names, checks) works as above.
///
/// Without rules every valid chain is let in. A peer without a certificate never is.
/// Source: FoundationDB documentation, tls.rst, "Peer verification"; flow/TLSConfig; packaging/docker/sidecar.py.
class PeerRules {
public:
    PeerRules() = default;

    /// Errors: "alternative 2, condition 1: unknown field \"XY\"" and the like. Also for what FoundationDB reads and
    /// then never matches (a subjectAltName of unknown kind) or matches always (an empty alternative among others):
    /// this is never intended.
    static Result<PeerRules> parse(std::string_view text);

    /// Whether the peer is let in. Errors: why not, for the log.
    [[nodiscard]] Result<> check(PeerCertificate const& peer) const;

private:
    enum class Scope : std::uint8_t { subject, issuer, root };
    enum class Operator : std::uint8_t { equal, prefix, suffix };
    struct Condition {
        Scope scope = Scope::subject;
        bool is_alternative_name = false;
        NameField field{};       // unless it is one
        AlternativeKind kind{};  // if it is one
        Operator op = Operator::equal;
        std::string value;
        std::string text;  // as it was written
    };
    struct Rule {
        std::vector<Condition> conditions;
        bool needs_valid = true;
        bool needs_unexpired = true;
    };
    class Parser;

    [[nodiscard]] Result<> check_rule(Rule const& rule, PeerCertificate const& peer) const;
    [[nodiscard]] bool holds(Condition const& condition, PeerCertificate const& peer) const;
    [[nodiscard]] bool matches_name(Condition const& condition, std::vector<NameEntry> const& name) const;
    [[nodiscard]] bool matches_alternative(Condition const& condition, std::vector<AlternativeName> const& names) const;

    std::vector<Rule> rules_;
    bool is_sidecar_form_ = false;
};

}  // namespace triton::net
