#include "host/verify/openpgp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/verify/read_to_end.h"
#include "lib/text/base64.h"

namespace triton::verify {

namespace {

constexpr std::uint64_t largest_signed_text = 4 << 20;
constexpr std::uint64_t largest_output = 2 * largest_signed_text;
constexpr char const* gpgv = "/usr/bin/gpgv";
constexpr int status_descriptor = 3;
constexpr std::string_view status_prefix = "[GNUPG:] ";

/// A file in memory for the output of gpgv, with a limit.
Result<UniqueFd> memory_file(char const* name) {
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
    if (!fd) return fail(errno, "keep what gpgv says");
    return fd;
}

struct Outputs {
    UniqueFd text;
    UniqueFd status;
};

/// What gpgv checks.
enum class Form : std::uint8_t {
    sums,         ///< the file /sums, with a signature beside it
    inline_sums,  ///< the file /sums, which contains its signature
    input,        ///< its standard input, with a signature beside it
};

using Arguments = std::array<char const*, 9>;
constexpr Arguments arguments_of(Form form) {
    switch (form) {
        case Form::sums: return {gpgv, "--status-fd", "3", "--keyring", "/keys", "/signature", "/sums"};
        case Form::inline_sums: return {gpgv, "--status-fd", "3", "--keyring", "/keys", "--output", "-", "/sums"};
        case Form::input: return {gpgv, "--status-fd", "3", "--keyring", "/keys", "/signature", "-"};
    }
    std::unreachable();
}

/// Becomes gpgv in a sandbox, or exits. This process has no other use.
[[noreturn]] void become_gpgv(role::Started const& started, role::Confinement confinement, Outputs const& outputs,
                              Form form, int input) {
    // The root is changed for a whole mount namespace, so it gets its own.
    bool const is_confined = ::unshare(CLONE_NEWNS) == 0 && role::confine(std::move(confinement), started).has_value();
    if (!is_confined || ::dup2(outputs.status.get(), status_descriptor) < 0 ||
        ::dup2(outputs.text.get(), STDOUT_FILENO) < 0 || (input >= 0 && ::dup2(input, STDIN_FILENO) < 0))
        ::_exit(126);
    Arguments const arguments = arguments_of(form);
    std::array<char*, 1> const environment{nullptr};
    ::execve(gpgv, const_cast<char* const*>(arguments.data()), environment.data());
    ::_exit(127);
}

/// Runs gpgv to its end. Returns its exit status. `input`: its standard input; -1: the one of this process.
Result<int> run_gpgv(role::Started const& started, role::Confinement confinement, Outputs const& outputs, Form form,
                     int input = -1) {
    pid_t const child = ::fork();
    if (child < 0) return fail(errno, "start gpgv");
    if (child == 0) become_gpgv(started, std::move(confinement), outputs, form, input);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return fail(errno, "wait for gpgv");
    if (!WIFEXITED(status)) return fail(ErrorKind::corrupt, "gpgv was killed");
    return WEXITSTATUS(status);
}

Result<std::string> read_back(UniqueFd const& fd) {
    if (::lseek(fd.get(), 0, SEEK_SET) != 0) return fail(errno, "read what gpgv says");
    return read_to_end(fd.get(), largest_output);
}

std::string_view take_word(std::string_view& text) {
    std::size_t const end = std::min(text.find(' '), text.size());
    std::string_view const word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

/// A line of gpgv's status. Source: GnuPG, doc/DETAILS, "Format of the --status-fd output".
struct Message {
    std::string_view word;
    std::string_view arguments;
};

/// Takes the next message away from the text, with whatever else is before it; nullopt: there is none.
std::optional<Message> take_message(std::string_view& status) {
    while (!status.empty()) {
        std::size_t const end = std::min(status.find('\n'), status.size());
        std::string_view line = status.substr(0, end);
        status.remove_prefix(std::min(end + 1, status.size()));
        if (!line.starts_with(status_prefix)) continue;
        line.remove_prefix(status_prefix.size());
        std::string_view const word = take_word(line);
        return Message{word, line};
    }
    return std::nullopt;
}

bool is_fingerprint(std::string_view text) {
    return text.size() >= 40 && text.size() <= 64 &&
           std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); });
}

}  // namespace

Result<std::string> read_status(std::string_view status) {
    std::optional<std::string> key;
    std::optional<std::string> unknown;
    bool is_good = false;
    while (auto const message = take_message(status)) {
        std::string_view line = message->arguments;
        std::string_view const word = message->word;
        if (word == "GOODSIG") is_good = true;
        if (word == "BADSIG" || word == "EXPSIG" || word == "EXPKEYSIG" || word == "REVKEYSIG")
            return fail(ErrorKind::denied, "signature is not good: " + std::string(word));
        if (word == "NO_PUBKEY" && !unknown) unknown = std::string(take_word(line));
        if (word != "VALIDSIG" || key) continue;
        // its ninth argument is the primary key; the first may be a subkey
        std::string_view primary = take_word(line);
        for (std::string_view argument = primary; !argument.empty(); argument = take_word(line))
            primary = argument;
        if (is_fingerprint(primary)) key = std::string(primary);
    }
    if (key && is_good) return *std::move(key);
    if (!key && unknown) return fail(ErrorKind::denied, "signature is by key " + *unknown + ", which is not trusted");
    return fail(ErrorKind::denied, "signature is not good");
}

bool has_unknown_keys_only(std::string_view status) {
    static constexpr std::array<std::string_view, 10> harmless{
        "NEWSIG",    "KEY_CONSIDERED", "SIG_ID",         "GOODSIG",       "VALIDSIG",
        "NO_PUBKEY", "NOTATION_NAME",  "NOTATION_FLAGS", "NOTATION_DATA", "POLICY_URL"};
    bool has_unknown = false;
    while (auto const message = take_message(status)) {
        std::string_view line = message->arguments;
        std::string_view const word = message->word;
        if (word == "ERRSIG") {
            std::string_view reason;  // its sixth argument
            for (int i = 0; i < 6; ++i)
                reason = take_word(line);
            if (reason != "9") return false;  // 9: there is no such key
            has_unknown = true;
        } else if (std::ranges::find(harmless, word) == harmless.end()) {
            return false;
        }
    }
    return has_unknown;
}

Result<std::string> without_armor(std::string_view certificates) {
    static constexpr std::string_view begin = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
    static constexpr std::string_view end = "-----END PGP PUBLIC KEY BLOCK-----";
    if (certificates.find(begin) == certificates.npos) return std::string(certificates);
    // Packets may come before the armor: their first bit is set, and that of a comment is not.
    bool const has_packets = static_cast<unsigned char>(certificates.front()) >= 0x80;
    std::string binary(certificates.substr(0, has_packets ? certificates.find(begin) : 0));
    for (std::size_t at = certificates.find(begin); at != certificates.npos; at = certificates.find(begin)) {
        certificates.remove_prefix(at + begin.size());
        std::size_t const stop = certificates.find(end);
        if (stop == certificates.npos) return fail("armor of a certificate does not end");
        std::string_view block = certificates.substr(0, stop);
        std::string text;
        bool is_body = false;  // after the headers and an empty line
        bool is_first = true;
        while (!block.empty()) {
            std::size_t const newline = std::min(block.find('\n'), block.size());
            std::string_view line = block.substr(0, newline);
            block.remove_prefix(std::min(newline + 1, block.size()));
            if (line.ends_with('\r')) line.remove_suffix(1);
            if (line.starts_with('=')) break;  // the checksum
            if (is_body) text += line;
            if (line.empty() && !std::exchange(is_first, false)) is_body = true;
        }
        auto const decoded = text::decode_base64(text);
        if (!decoded) return fail("armor of a certificate is broken");
        binary += *decoded;
    }
    return binary;
}

Result<SignedSums> check_sums(role::Started const& started, std::vector<UniqueFd> const& files) {
    if (::access(gpgv, X_OK) != 0) return fail(ErrorKind::unsupported, "gpgv is not installed");
    std::string sums = TRY(read_to_end(files[0].get(), largest_signed_text));
    std::string const signature = TRY(read_to_end(files[1].get(), largest_signed_text));
    std::string const armored = TRY(read_to_end(files[2].get(), largest_signed_text));
    bool const is_detached = !signature.empty();
    role::Confinement outer;
    role::Confinement inner;
    inner.files = {{"sums", sums}, {"signature", signature}, {"keys", TRY(without_armor(armored))}};
    inner.executes = true;
    outer.most_file_bytes = inner.most_file_bytes = largest_output;
    Outputs outputs{TRY(memory_file("text")), TRY(memory_file("status"))};
    int const exit_status =
        TRY(run_gpgv(started, std::move(inner), outputs, is_detached ? Form::sums : Form::inline_sums));
    TRY(role::confine(std::move(outer), started));
    std::string const status = TRY(read_back(outputs.status));
    std::string key = TRY(read_status(status));
    // gpgv fails when it does not have the key of one of several signatures: one by a trusted key is enough. Not so for
    // an inline signature, of which gpgv writes the text before it knows who has signed that.
    bool const is_good = exit_status == 0 || (exit_status == 2 && is_detached && has_unknown_keys_only(status));
    if (!is_good) return fail(ErrorKind::denied, "signature is not good");
    if (!is_detached) sums = TRY(read_back(outputs.text));
    return SignedSums{std::move(sums), std::move(key)};
}

Result<std::string> check_detached(role::Started const& started, std::vector<UniqueFd> const& files) {
    if (::access(gpgv, X_OK) != 0) return fail(ErrorKind::unsupported, "gpgv is not installed");
    std::string const signature = TRY(read_to_end(files[1].get(), largest_signed_text));
    std::string const armored = TRY(read_to_end(files[2].get(), largest_signed_text));
    if (::lseek(files[0].get(), 0, SEEK_SET) != 0) return fail(errno, "read the signed file");
    role::Confinement outer;
    role::Confinement inner;
    inner.files = {{"signature", signature}, {"keys", TRY(without_armor(armored))}};
    inner.executes = true;
    outer.most_file_bytes = inner.most_file_bytes = largest_output;
    outer.most_memory += TRY(size_of_file(files[0].get()));  // it is mapped to be hashed
    Outputs outputs{TRY(memory_file("text")), TRY(memory_file("status"))};
    int const exit_status = TRY(run_gpgv(started, std::move(inner), outputs, Form::input, files[0].get()));
    TRY(role::confine(std::move(outer), started));
    std::string const status = TRY(read_back(outputs.status));
    std::string key = TRY(read_status(status));
    bool const is_good = exit_status == 0 || (exit_status == 2 && has_unknown_keys_only(status));
    if (!is_good) return fail(ErrorKind::denied, "signature is not good");
    return key;
}

}  // namespace triton::verify
