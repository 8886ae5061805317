#include "lib/net/verify_peers.h"

#include <algorithm>
#include <array>
#include <optional>

#include <arpa/inet.h>

#include "lib/base/digits.h"
#include "lib/json/text.h"

namespace triton::net {

namespace {

struct FieldName {
    std::string_view name;
    NameField field;
};
constexpr std::array<FieldName, 8> field_names{{{"CN", NameField::common_name},
                                                {"C", NameField::country},
                                                {"L", NameField::locality},
                                                {"ST", NameField::state},
                                                {"O", NameField::organization},
                                                {"OU", NameField::unit},
                                                {"UID", NameField::user_id},
                                                {"DC", NameField::domain}}};

struct KindRow {
    std::string_view prefix;
    AlternativeKind kind;
};
constexpr std::array<KindRow, 6> kinds{{{"DNS:", AlternativeKind::dns},
                                        {"URI:", AlternativeKind::uri},
                                        {"IP:", AlternativeKind::ip},
                                        {"IP Address:", AlternativeKind::ip},
                                        {"EMAIL:", AlternativeKind::email},
                                        {"email:", AlternativeKind::email}}};

constexpr std::string_view escapable = " \"#+,;<=>|\\";
constexpr std::string_view must_be_escaped = "\"+;<>";

/// The canonical spelling of an address, or the text itself when it is not an address.
std::string canonical_address(std::string const& text) {
    std::array<unsigned char, 16> bytes{};
    std::array<char, INET6_ADDRSTRLEN> out{};
    for (int const family : {AF_INET, AF_INET6}) {
        if (::inet_pton(family, text.c_str(), bytes.data()) == 1 &&
            ::inet_ntop(family, bytes.data(), out.data(), out.size()))
            return out.data();
    }
    return text;
}

/// Where the first unescaped separator stands, or the end of the text.
std::size_t find_unescaped(std::string_view text, char separator) {
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '\\') {
            ++at;
        } else if (text[at] == separator) {
            return at;
        }
    }
    return text.size();
}

/// Splits "a=1,b=2" at ','. An empty text has one empty part.
std::vector<std::string_view> split(std::string_view text, char separator, bool has_escapes) {
    std::vector<std::string_view> parts;
    for (;;) {
        std::size_t const end =
            has_escapes ? find_unescaped(text, separator) : std::min(text.find(separator), text.size());
        parts.push_back(text.substr(0, end));
        if (end == text.size()) return parts;
        text.remove_prefix(end + 1);
    }
}

}  // namespace

class PeerRules::Parser {
public:
    explicit Parser(bool is_sidecar_form) : is_sidecar_form_(is_sidecar_form) {}

    Result<Rule> rule(std::string_view text, std::size_t number) {
        Rule rule;
        auto conditions = split(text, ',', !is_sidecar_form_);
        if (conditions.size() > 1 && conditions.back().empty()) conditions.pop_back();  // as in FoundationDB
        for (std::size_t i = 0; i < conditions.size(); ++i) {
            if (auto const done = add(rule, conditions[i]); !done) {
                return fail("alternative " + std::to_string(number) + ", condition " + std::to_string(i + 1) + ": " +
                            done.error().text());
            }
        }
        return rule;
    }

private:
    Result<> add(Rule& rule, std::string_view text) {
        std::size_t const equals = text.find('=');
        if (text.empty()) return fail("it is empty");
        if (equals == text.npos) return fail(json::quoted(text) + " has no \"=\"");
        Condition condition;
        condition.text = text;
        std::string_view term = text.substr(0, equals);
        if (term.ends_with('>')) condition.op = Operator::prefix;
        if (term.ends_with('<')) condition.op = Operator::suffix;
        if (condition.op != Operator::equal) term.remove_suffix(1);
        std::string_view const value = text.substr(equals + 1);
        if (term.starts_with("Check.")) return add_check(rule, term, condition.op, value);
        TRY(set_field(condition, term));
        condition.value = TRY(is_sidecar_form_ ? plain_value(value) : unescaped(value));
        if (condition.is_alternative_name) TRY(set_kind(condition));
        rule.conditions.push_back(std::move(condition));
        return {};
    }

    static Result<> add_check(Rule& rule, std::string_view term, Operator op, std::string_view value) {
        bool* const flag = term == "Check.Valid"       ? &rule.needs_valid
                           : term == "Check.Unexpired" ? &rule.needs_unexpired
                                                       : nullptr;
        if (!flag) return fail("unknown check " + json::quoted(term) + " (known: Check.Valid Check.Unexpired)");
        if (op != Operator::equal || (value != "0" && value != "1"))
            return fail(std::string(term) + " takes \"=0\" or \"=1\"");
        *flag = value == "1";
        return {};
    }

    static Result<> set_field(Condition& condition, std::string_view term) {
        if (std::size_t const dot = term.find('.'); dot != term.npos) {
            std::string_view const scope = term.substr(0, dot);
            if (scope == "S" || scope == "Subject") {
                condition.scope = Scope::subject;
            } else if (scope == "I" || scope == "Issuer") {
                condition.scope = Scope::issuer;
            } else if (scope == "R" || scope == "Root") {
                condition.scope = Scope::root;
            } else {
                return fail("unknown scope " + json::quoted(scope) + " (known: S Subject I Issuer R Root)");
            }
            term.remove_prefix(dot + 1);
        }
        condition.is_alternative_name = term == "subjectAltName";
        if (condition.is_alternative_name) return {};
        auto const row = std::ranges::find(field_names, term, &FieldName::name);
        if (row == field_names.end()) {
            return fail("unknown field " + json::quoted(term) +
                        " (known: CN C L ST O OU UID DC subjectAltName Check.Valid Check.Unexpired)");
        }
        condition.field = row->field;
        return {};
    }

    static Result<> set_kind(Condition& condition) {
        for (KindRow const& row : kinds) {
            if (!condition.value.starts_with(row.prefix)) continue;
            condition.kind = row.kind;
            condition.value.erase(0, row.prefix.size());
            if (condition.value.empty()) return fail("the value is empty");
            if (row.kind == AlternativeKind::ip && condition.op == Operator::equal)
                condition.value = canonical_address(condition.value);
            return {};
        }
        return fail("the value of a subjectAltName begins with DNS:, URI:, IP: or EMAIL:, not " +
                    json::quoted(condition.value));
    }

    static Result<std::string> plain_value(std::string_view text) {
        if (text.empty()) return fail("the value is empty");
        return std::string(text);
    }

    /// Source: RFC 4514, section 3, without its "#" form.
    static Result<std::string> unescaped(std::string_view text) {
        if (text.starts_with('#') || text.starts_with(' '))
            return fail("a value does not begin with " + json::quoted(text.substr(0, 1)) + " unless it is escaped");
        std::string out;
        std::size_t kept = 0;  // up to the last character that is not an unescaped blank
        for (std::size_t at = 0; at < text.size();) {
            char const c = text[at++];
            if (c == '\\') {
                out += TRY(escaped(text, at));
                kept = out.size();
                continue;
            }
            if (must_be_escaped.find(c) != must_be_escaped.npos || c == '\0')
                return fail(json::quoted(std::string_view(&c, 1)) + " in a value must be escaped");
            out += c;
            if (c != ' ') kept = out.size();
        }
        out.resize(kept);
        if (out.empty()) return fail("the value is empty");
        return out;
    }

    static Result<char> escaped(std::string_view text, std::size_t& at) {
        if (at < text.size() && escapable.find(text[at]) != escapable.npos) return text[at++];
        int const high = at + 1 < text.size() ? hex_value(text[at]) : -1;
        int const low = high < 0 ? -1 : hex_value(text[at + 1]);
        if (low < 0) return fail("a backslash escapes a special character or begins two hexadecimal digits");
        at += 2;
        return static_cast<char>(high * 16 + low);
    }

    bool is_sidecar_form_;
};

Result<PeerRules> PeerRules::parse(std::string_view text) {
    PeerRules rules;
    if (text.empty()) return rules;
    rules.is_sidecar_form_ = find_unescaped(text, ';') != text.size();
    auto const alternatives = split(text, rules.is_sidecar_form_ ? ';' : '|', !rules.is_sidecar_form_);
    for (std::size_t i = 0; i < alternatives.size(); ++i)
        rules.rules_.push_back(TRY(Parser(rules.is_sidecar_form_).rule(alternatives[i], i + 1)));
    return rules;
}

Result<> PeerRules::check(PeerCertificate const& peer) const {
    if (std::ranges::any_of(rules_, [](Rule const& rule) { return !rule.needs_valid; })) return {};
    if (rules_.empty()) return check_rule({}, peer);
    std::string reasons;
    for (Rule const& rule : rules_) {
        auto const result = check_rule(rule, peer);
        if (result) return {};
        reasons.append(reasons.empty() ? "" : "; ").append(result.error().text());
    }
    return fail(std::move(reasons));
}

Result<> PeerRules::check_rule(Rule const& rule, PeerCertificate const& peer) const {
    bool const is_good =
        peer.validity == ChainValidity::valid || (peer.validity == ChainValidity::expired && !rule.needs_unexpired);
    if (!is_good) return fail("the certificate is not valid: " + peer.problem);
    for (Condition const& condition : rule.conditions) {
        if (!holds(condition, peer)) return fail("the certificate does not match " + condition.text);
    }
    return {};
}

bool PeerRules::holds(Condition const& condition, PeerCertificate const& peer) const {
    bool const is_root = condition.scope == Scope::root;
    if (condition.is_alternative_name)
        return matches_alternative(condition, is_root ? peer.root_alternatives : peer.alternatives);
    if (is_root) return matches_name(condition, peer.root);
    return matches_name(condition, condition.scope == Scope::issuer ? peer.issuer : peer.subject);
}

namespace {

template <class Operator>
bool compare(Operator op, std::string_view wanted, std::string_view value) {
    switch (op) {
        case Operator::equal: return value == wanted;
        case Operator::prefix: return value.starts_with(wanted);
        case Operator::suffix: return value.ends_with(wanted);
    }
    std::unreachable();
}

}  // namespace

bool PeerRules::matches_name(Condition const& condition, std::vector<NameEntry> const& name) const {
    auto const has_field = [&condition](NameEntry const& entry) { return entry.field == condition.field; };
    if (!is_sidecar_form_ && std::ranges::count_if(name, has_field) != 1) return false;
    return std::ranges::any_of(name, [&](NameEntry const& entry) {
        return has_field(entry) && compare(condition.op, condition.value, entry.value);
    });
}

bool PeerRules::matches_alternative(Condition const& condition, std::vector<AlternativeName> const& names) const {
    for (AlternativeName const& name : names) {
        if (name.kind == AlternativeKind::other && !is_sidecar_form_) return false;
        if (name.kind == condition.kind && compare(condition.op, condition.value, name.value)) return true;
    }
    return false;
}

}  // namespace triton::net
