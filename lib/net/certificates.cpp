#include "lib/net/certificates.h"

#include <algorithm>
#include <ctime>
#include <string_view>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "lib/base/read_file.h"
#include "lib/net/address.h"
#include "lib/net/peer_certificate.h"

namespace triton::net {

namespace {

constexpr std::size_t most_bytes = 1 << 20;
// Of a chain that a peer sends: each certificate of it costs a check of a signature, in the thread that serves all.
constexpr int most_intermediates = 8;
constexpr long most_chain_bytes = 32 << 10;

struct Free {
    void operator()(BIO* bio) const { ::BIO_free(bio); }
    void operator()(X509* certificate) const { ::X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
    void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

/// An error "<what>: <the first thing OpenSSL says>"; OpenSSL's queue is empty afterwards.
std::unexpected<Error> openssl_failure(std::string what) {
    unsigned long const code = ::ERR_get_error();
    char const* const reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
    ::ERR_clear_error();
    return fail(std::move(what.append(": ").append(reason ? reason : "it has no PEM of that kind")));
}

Owned<BIO> reader(std::string const& text) {
    return Owned<BIO>(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

int give_password(char* buffer, int size, int /*for_writing*/, void* given) {
    auto const& password = *static_cast<std::string const*>(given);
    if (static_cast<int>(password.size()) > size) return -1;
    password.copy(buffer, password.size());
    return static_cast<int>(password.size());
}

/// All certificates of a PEM text; an error if there are none.
Result<std::vector<Owned<X509>>> certificates_of(std::string const& text, std::string const& path) {
    auto const bio = reader(text);
    std::vector<Owned<X509>> all;
    ::ERR_clear_error();
    while (bio) {
        Owned<X509> one(::PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, const_cast<char*>("")));
        if (!one) break;
        all.push_back(std::move(one));
    }
    bool const is_end = ERR_GET_REASON(::ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (is_end && !all.empty()) {
        ::ERR_clear_error();
        return all;
    }
    if (is_end) ::ERR_clear_error();
    return openssl_failure(path);
}

Result<> use_certificate(SSL_CTX* context, std::string const& text, std::string const& path, std::int64_t& not_after) {
    auto const chain = TRY(certificates_of(text, path));
    if (::SSL_CTX_use_certificate(context, chain.front().get()) != 1) return openssl_failure(path);
    for (std::size_t i = 1; i < chain.size(); ++i) {
        if (::SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) return openssl_failure(path);
    }
    std::tm parts{};
    if (::ASN1_TIME_to_tm(::X509_get0_notAfter(chain.front().get()), &parts) != 1) return openssl_failure(path);
    not_after = ::timegm(&parts);
    return {};
}

Result<> use_key(SSL_CTX* context, std::string const& text, CertificateFiles const& files) {
    auto const bio = reader(text);
    ::ERR_clear_error();
    Owned<EVP_PKEY> const key(
        ::PEM_read_bio_PrivateKey(bio.get(), nullptr, &give_password, const_cast<std::string*>(&files.password)));
    if (!key) return openssl_failure(files.key);
    if (::SSL_CTX_use_PrivateKey(context, key.get()) != 1 || ::SSL_CTX_check_private_key(context) != 1)
        return openssl_failure(files.key + " does not belong to " + files.certificate);
    return {};
}

/// Lets chains end at a certificate whose issuer is not among them, as at an intermediate authority. Where it is,
/// chains still end at the root, which rules may name: so X509_V_FLAG_PARTIAL_CHAIN is not for us.
void trust_as_root(std::vector<Owned<X509>> const& all, X509* one) {
    bool const has_issuer = std::ranges::any_of(
        all, [one](auto const& other) { return ::X509_check_issued(other.get(), one) == X509_V_OK; });
    if (!has_issuer) (void)::X509_add1_trust_object(one, ::OBJ_nid2obj(NID_client_auth));  // out of memory: as before
}

/// Adds the authority, and announces it to peers so that they can choose among their certificates.
Result<> use_authority(SSL_CTX* context, std::string const& text, std::string const& path) {
    X509_STORE* const store = ::SSL_CTX_get_cert_store(context);
    auto const all = TRY(certificates_of(text, path));
    for (auto const& one : all) {
        trust_as_root(all, one.get());
        if (::X509_STORE_add_cert(store, one.get()) != 1 || ::SSL_CTX_add_client_CA(context, one.get()) != 1)
            return openssl_failure(path);
    }
    ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER, &ChainFaults::collect);
    ::SSL_CTX_set_verify_depth(context, most_intermediates);
    ::SSL_CTX_set_max_cert_list(context, most_chain_bytes);
    return {};
}

Result<std::string> read(std::string const& path) {
    if (path.empty()) return std::string();
    return read_file(path, most_bytes);
}

}  // namespace

Result<Certificates::Context> trusting_client_context() {
    Certificates::Context context(::SSL_CTX_new(::TLS_client_method()), Free{});
    if (!context) return openssl_failure("cannot set up TLS");
    ::SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION);
    ::SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
    return context;
}

Result<Certificates::Context> client_context(std::string const& authorities) {
    Certificates::Context context = TRY(trusting_client_context());
    auto const bio = reader(authorities);
    int count = 0;  // duplicates count
    while (bio) {
        Owned<X509> const one(::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
        if (!one) break;
        count += ::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context.get()), one.get());
    }
    ::ERR_clear_error();
    if (count == 0) return fail("it has no certificate");
    ::X509_STORE_set_flags(::SSL_CTX_get_cert_store(context.get()),
                           X509_V_FLAG_PARTIAL_CHAIN);  // any of them is enough
    ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    return context;
}

/// Sets the host that the certificate must be for. A subject's common name does not count: RFC 9525, 6.3.
bool expect_host(SSL* tls, std::string const& host) {
    X509_VERIFY_PARAM* const expected = ::SSL_get0_param(tls);
    if (parse_address(host)) return ::X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1;
    ::X509_VERIFY_PARAM_set_hostflags(expected,
                                      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return ::X509_VERIFY_PARAM_set1_host(expected, host.c_str(), host.size()) == 1 &&
           SSL_set_tlsext_host_name(tls, host.c_str()) == 1;
}

void initialize_openssl() { ::OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr); }

Result<Certificates> Certificates::load(CertificateFiles files) {
    Certificates certificates(std::move(files));
    certificates.current_ = TRY(read(certificates.files_));
    return certificates;
}

Result<Certificates::Loaded> Certificates::read(CertificateFiles const& files) {
    std::string const certificate = TRY(net::read(files.certificate));
    std::string const key = TRY(net::read(files.key));
    std::string const authority = TRY(net::read(files.authority));
    Loaded loaded;
    loaded.context = Context(::SSL_CTX_new(::TLS_server_method()), Free{});
    SSL_CTX* const context = loaded.context.get();
    int const least = files.wants_tls13 ? TLS1_3_VERSION : TLS1_2_VERSION;
    if (!context || ::SSL_CTX_set_min_proto_version(context, least) != 1) return openssl_failure("cannot set up TLS");
    if (::SSL_CTX_set_cipher_list(context, files.ciphers.c_str()) != 1)
        return openssl_failure("cannot use the ciphers " + files.ciphers);
    // A resumed session would not bring the peer's chain, which we judge for each connection.
    ::SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    ::SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)::SSL_CTX_set_num_tickets(context, 0);
    ::SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
    ::SSL_CTX_set_read_ahead(context, 1);  // a record in one system call, not first its header
    TRY(use_certificate(context, certificate, files.certificate, loaded.not_after));
    TRY(use_key(context, key, files));
    if (!files.authority.empty()) TRY(use_authority(context, authority, files.authority));
    loaded.content = certificate + '\0' + key + '\0' + authority;
    return loaded;
}

Result<bool> Certificates::reload(std::int64_t now) {
    Loaded fresh = TRY(read(files_));
    if (fresh.content == current_.content) return false;
    if (now > fresh.not_after) return fail(files_.certificate + ": the certificate has expired");
    current_ = std::move(fresh);
    return true;
}

}  // namespace triton::net
