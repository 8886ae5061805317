#include "host/image/credential_helper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>

#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/digits.h"
#include "lib/base/last_line.h"
#include "lib/base/signal_text.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/json/table.h"
#include "lib/json/text.h"
#include "lib/json/values.h"
#include "lib/process/run_command.h"

namespace triton::image {

namespace {

constexpr auto patience = std::chrono::minutes(1);  // it may ask a server
constexpr std::size_t most_output = 64 << 10;
constexpr std::string_view none_there = "credentials not found in native keychain";
/// In place of a user: the secret is an identity token.
constexpr std::string_view token_user = "<token>";

struct Answer {
    std::string user;
    std::string secret;
};
std::span<json::Field<Answer> const> table(json::TableOf<Answer>) {
    static constexpr std::array<json::Field<Answer>, 2> rows{{
        {.name = "Username", .need = json::Need::required, .value = json::as<&Answer::user, json::Text>},
        {.name = "Secret", .need = json::Need::required, .value = json::as<&Answer::secret, json::Text>},
    }};
    return rows;
}

/// Whether it can be the end of a program's name, and nothing else.
bool is_helper_name(std::string_view name) {
    return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
    });
}

std::string why_failed(process::Completed const& completed) {
    if (completed.signal != 0) return "was killed by " + signal_text(completed.signal);
    // By convention it says why on its standard output.
    std::string said = last_line(completed.output);
    if (said.empty()) said = last_line(completed.errors);
    return said.empty() ? "exited with code " + std::to_string(completed.exit_code) : "says " + json::quoted(said, 200);
}

}  // namespace

Result<std::optional<content::Credential>> ask_credential_helper(std::string_view name, std::string const& server,
                                                                 int cancel) {
    if (!is_helper_name(name)) return fail(json::quoted(name) + " is not the name of a credential helper");
    std::string const program = "docker-credential-" + std::string(name);
    UniqueFd const input(::memfd_create("server", MFD_CLOEXEC));
    if (!input || !write_all(input.get(), server) || ::lseek(input.get(), 0, SEEK_SET) < 0)
        return fail(errno, "ask " + program);
    auto const completed = process::run_command({.arguments = {program, "get"},
                                                 .in = input.get(),
                                                 .timeout = patience,
                                                 .cancel = cancel,
                                                 .most_output = most_output});
    if (!completed && completed.error().kind == ErrorKind::not_found)
        return fail(ErrorKind::unsupported, "the credential helper " + program + " is not installed");
    if (!completed) return std::unexpected(completed.error());
    if (!completed->is_ok() && completed->output.contains(none_there)) return std::optional<content::Credential>();
    if (!completed->is_ok()) return fail(ErrorKind::unavailable, program + " " + why_failed(*completed));
    json::Reading reading(1);
    auto const node = json::read_json(completed->output, {.document_bytes = most_output}, reading.problems);
    auto answer = node ? json::read_object<Answer>(*node, json::Where{}, reading) : std::nullopt;
    // No reason: it could have the secret in it.
    if (!answer || !reading.problems.empty())
        return fail(ErrorKind::unavailable, program + " does not answer with a Username and a Secret");
    if (answer->user == token_user) return content::Credential{.host = {}, .identity_token = std::move(answer->secret)};
    return content::Credential{.host = {}, .user = std::move(answer->user), .password = std::move(answer->secret)};
}

}  // namespace triton::image
