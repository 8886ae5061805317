#include "lib/net/peer_certificate.h"

#include <array>
#include <memory>

#include <arpa/inet.h>
#include <openssl/obj_mac.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace triton::net {

namespace {

struct FieldRow {
    int nid;
    NameField field;
};
constexpr std::array<FieldRow, 8> fields{{{NID_commonName, NameField::common_name},
                                          {NID_countryName, NameField::country},
                                          {NID_localityName, NameField::locality},
                                          {NID_stateOrProvinceName, NameField::state},
                                          {NID_organizationName, NameField::organization},
                                          {NID_organizationalUnitName, NameField::unit},
                                          {NID_userId, NameField::user_id},
                                          {NID_domainComponent, NameField::domain}}};

/// The text as UTF-8, whatever its encoding in the certificate; empty when it cannot be converted.
std::string entry_text(ASN1_STRING const* text) {
    unsigned char* utf8 = nullptr;
    int const size = ::ASN1_STRING_to_UTF8(&utf8, text);
    if (size < 0) return {};
    std::string result(reinterpret_cast<char const*>(utf8), static_cast<std::size_t>(size));
    ::OPENSSL_free(utf8);
    return result;
}

std::vector<NameEntry> entries_of(X509_NAME const* name) {
    std::vector<NameEntry> entries;
    for (int i = 0; name && i < ::X509_NAME_entry_count(name); ++i) {
        X509_NAME_ENTRY const* const entry = ::X509_NAME_get_entry(name, i);
        int const nid = ::OBJ_obj2nid(::X509_NAME_ENTRY_get_object(entry));
        for (FieldRow const& row : fields) {
            if (row.nid == nid) entries.push_back({row.field, entry_text(::X509_NAME_ENTRY_get_data(entry))});
        }
    }
    return entries;
}

/// An address is octets, not text: FoundationDB compares it as text and hence never finds it.
AlternativeName address_of(ASN1_OCTET_STRING const* octets) {
    int const size = ::ASN1_STRING_length(octets);
    std::array<char, INET6_ADDRSTRLEN> text{};
    bool const is_address =
        (size == 4 || size == 16) && ::inet_ntop(size == 4 ? AF_INET : AF_INET6, ::ASN1_STRING_get0_data(octets),
                                                 text.data(), static_cast<socklen_t>(text.size()));
    return {AlternativeKind::ip, is_address ? text.data() : ""};
}

AlternativeName alternative_of(GENERAL_NAME const* name) {
    switch (name->type) {
        case GEN_DNS: return {AlternativeKind::dns, entry_text(name->d.dNSName)};
        case GEN_URI: return {AlternativeKind::uri, entry_text(name->d.uniformResourceIdentifier)};
        case GEN_EMAIL: return {AlternativeKind::email, entry_text(name->d.rfc822Name)};
        case GEN_IPADD: return address_of(name->d.iPAddress);
        default: return {AlternativeKind::other, {}};
    }
}

std::vector<AlternativeName> alternatives_of(X509 const* certificate) {
    std::unique_ptr<GENERAL_NAMES, decltype(&::GENERAL_NAMES_free)> const names(
        static_cast<GENERAL_NAMES*>(::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
        &::GENERAL_NAMES_free);
    std::vector<AlternativeName> result;
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i)
        result.push_back(alternative_of(sk_GENERAL_NAME_value(names.get(), i)));
    return result;
}

int faults_index() {
    static int const index = ::SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

}  // namespace

int ChainFaults::collect(int is_good, X509_STORE_CTX* store) {
    if (is_good == 1) return 1;
    auto* const ssl = static_cast<SSL*>(::X509_STORE_CTX_get_ex_data(store, ::SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* const faults = ssl ? static_cast<ChainFaults*>(::SSL_get_ex_data(ssl, faults_index())) : nullptr;
    if (!faults) return 0;
    int const error = ::X509_STORE_CTX_get_error(store);
    bool const is_time = error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID;
    if (!is_time) {
        faults->validity = ChainValidity::invalid;
    } else if (faults->validity == ChainValidity::valid) {
        faults->validity = ChainValidity::expired;
    }
    if (faults->problem.empty()) faults->problem = ::X509_verify_cert_error_string(error);
    return 1;
}

void ChainFaults::attach(SSL* ssl, ChainFaults* faults) { ::SSL_set_ex_data(ssl, faults_index(), faults); }

std::optional<PeerCertificate> peer_certificate(SSL* ssl, ChainFaults const& faults) {
    STACK_OF(X509) const* const chain = ::SSL_get0_verified_chain(ssl);
    if (!::SSL_get0_peer_certificate(ssl) || !chain || sk_X509_num(chain) < 1) return std::nullopt;
    return describe_chain(chain, faults);
}

PeerCertificate describe_chain(STACK_OF(X509) const* chain, ChainFaults const& faults) {
    X509 const* const own = sk_X509_value(chain, 0);
    X509 const* const root = sk_X509_value(chain, sk_X509_num(chain) - 1);
    PeerCertificate peer;
    peer.subject = entries_of(::X509_get_subject_name(own));
    peer.issuer = entries_of(::X509_get_issuer_name(own));
    peer.root = entries_of(::X509_get_subject_name(root));
    peer.alternatives = alternatives_of(own);
    peer.root_alternatives = alternatives_of(root);
    peer.validity = faults.validity;
    peer.problem = faults.problem;
    return peer;
}

}  // namespace triton::net
