// Whatever comes as a signature, as sums or as keys: no crash, and nothing is good that nobody has signed. The key is
// one that nobody has the other half of.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>

#include "host/role/sums.h"
#include "host/verify/minisign.h"
#include "host/verify/openpgp.h"
#include "host/verify/x509.h"
#include "lib/text/base64.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

constexpr std::string_view keys =
    "untrusted comment: minisign public key E7620F1842B4E81F\n"
    "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
/// A root and what it has issued; their keys do not exist any more.
constexpr std::string_view root =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBdjCCARugAwIBAgIULz08nbiZTiYMnYUK7824ohEFbm0wCgYIKoZIzj0EAwIw\n"
    "DzENMAsGA1UEAwwEcm9vdDAgFw0yNjExMjkxNjMzMzZaGA8yMTI2MTEwNTE2MzMz\n"
    "NlowDzENMAsGA1UEAwwEcm9vdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNaI\n"
    "dMbdxdNSu0TtCUj976J5qPrp2lsxycom5yaWlLTtVMOkK5nqaf+q0S6r6X72J2Bo\n"
    "qpnpmPFN7oe0kYn0HXqjUzBRMB0GA1UdDgQWBBSjoAeyDHyFK2AFuCs46jCL1gcC\n"
    "0zAfBgNVHSMEGDAWgBSjoAeyDHyFK2AFuCs46jCL1gcC0zAPBgNVHRMBAf8EBTAD\n"
    "AQH/MAoGCCqGSM49BAMCA0kAMEYCIQC5cT+pvN12Hs/YA3UD9fphE1NK7rF2gJ/o\n"
    "IBnKA6kHXgIhAMaZE8eELNcmt8tzIIkrMuk4j1tU5dkJ8aIRdb0gtVkM\n"
    "-----END CERTIFICATE-----\n";
constexpr std::string_view leaf =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBGjCBwQIUI+BXSviXIqL47jQ2NoIvSh43GgcwCgYIKoZIzj0EAwIwDzENMAsG\n"
    "A1UEAwwEcm9vdDAgFw0yNjExMjkxNjMzMzZaGA8yMTI2MTEwNTE2MzMzNlowDzEN\n"
    "MAsGA1UEAwwEbGVhZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABF2Ad0rUzyjc\n"
    "06J7t6Br2k1zy8AuGULXChNA4SDNwJHVH+pGnVAK2VvtfNxDmJisjPMEkG2hR/Zx\n"
    "PaJNb9GtunYwCgYIKoZIzj0EAwIDSAAwRQIhAJG1GxpmAz6m8ShQyaAdioW/uKtX\n"
    "YWjmWw/Cp059bpPiAiB16rLz6usRCnTLP95vHmAEhLh2ZbBJitOuVEb9KdEgSg==\n"
    "-----END CERTIFICATE-----\n";
constexpr std::string_view content = "what nobody has signed";

int run(std::uint8_t const* data, std::size_t size) {
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    require(!verify::check_minisign(content, text, keys));
    require(!verify::check_minisign(content, text, text));
    (void)verify::names_file(text, "image");
    if (auto const digest = role::find_sum(text, "image")) require(text.contains(digest->hex() + " "));
    if (auto const decoded = text::decode_base64(text)) require(decoded->size() <= text.size());
    (void)verify::without_armor(text);
    static int const empty = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    role::Digest const digest;  // of nothing, like the file
    require(!verify::check_bare_signature(digest, text, {.signers = leaf, .roots = root}));
    require(!verify::check_bare_signature(digest, text, {.signers = text, .roots = root}));
    require(!verify::check_bare_signature(digest, text, {.signers = leaf, .roots = text}));
    require(!verify::check_cms(empty, text, {.signers = leaf, .roots = root}));
    if (auto const key = verify::read_status(text)) require(text.contains("VALIDSIG") && text.contains("GOODSIG"));
    return 0;
}

}  // namespace

extern "C" int signature_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return signature_fuzz(data, size); }
#endif
