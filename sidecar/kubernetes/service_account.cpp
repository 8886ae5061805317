#include "sidecar/kubernetes/service_account.h"

#include <algorithm>
#include <cerrno>

#include <sys/auxv.h>
#include <sys/stat.h>

#include "lib/base/read_file.h"

namespace triton::kubernetes {

namespace {

constexpr std::size_t most_token_bytes = 64 << 10;
constexpr std::size_t most_certificate_bytes = 1 << 20;

std::string without_end(std::string text) {
    std::size_t const end = text.find_last_not_of(" \t\r\n");
    text.resize(end == text.npos ? 0 : end + 1);
    return text;
}

/// Reads the token. The kubelet makes it readable for one user alone (mode 0600) if all containers of the pod run as
/// that user. No system call tells who we are, because the filter allows only those that we need.
Result<std::string> read_token(std::string const& path) {
    auto text = read_file(path, most_token_bytes);
    if (text || text.error().kind != ErrorKind::denied) return text;
    return fail(ErrorKind::denied, text.error().text() + "; the agent is user " + std::to_string(::getauxval(AT_EUID)) +
                                       ": see --agent-user and fsGroup");
}

}  // namespace

ServiceAccount::Stamp ServiceAccount::stamp(std::string const& path) const {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return {};
    return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Result<std::string> ServiceAccount::token(bool must_read) {
    std::string const path = directory_ + "/token";
    Stamp const now = stamp(path);
    if (!must_read && now == token_stamp_ && now.size >= 0) return token_;
    std::string token = without_end(TRY(read_token(path)));
    bool const is_clean = std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7f; });
    if (token.empty() || !is_clean) return fail(path + ": no token in it");
    token_ = std::move(token);
    token_stamp_ = now;
    return token_;
}

Result<net::Certificates::Context> ServiceAccount::tls() {
    std::string const path = directory_ + "/ca.crt";
    Stamp const now = stamp(path);
    if (tls_ && (now == tls_stamp_ || now.size < 0)) return tls_;
    auto const pem = read_file(path, most_certificate_bytes);
    if (!pem && tls_) return tls_;
    if (!pem) return std::unexpected(pem.error());
    auto fresh = net::client_context(*pem);
    if (!fresh && tls_) return tls_;
    if (!fresh) return fail(path + ": " + fresh.error().text());
    tls_ = std::move(*fresh);
    tls_stamp_ = now;
    return tls_;
}

Result<std::string> ServiceAccount::pod_namespace() const {
    std::string const path = directory_ + "/namespace";
    std::string name = without_end(TRY(read_file(path, most_token_bytes)));
    if (name.empty()) return fail(path + ": empty");
    return name;
}

}  // namespace triton::kubernetes
