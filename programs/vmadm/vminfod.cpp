#include "programs/vmadm/vminfod.h"

#include <cstdlib>

#include "host/info/client/documents.h"
#include "host/info/client/find_machine.h"
#include "lib/text/printable.h"
#include "programs/vmadm/context.h"

namespace triton::program {

namespace {

/// Long enough for one reload on a busy host.
constexpr info::Patience settle_patience{.start = std::chrono::seconds(10), .whole = std::chrono::seconds(10)};

}  // namespace

info::Client vminfod_client(Options const& options) {
    return info::Client(options.root + std::string(info::socket_path),
                        info::client_name("vmadm", TRITON_VERSION, std::getenv("VMADM_IDENT")));
}

Vminfod::Vminfod(Options const& options)
    : options_(options),
      client_(vminfod_client(options)),
      is_expected_(options.root.empty() || client_.has_socket()),
      is_quiet_(options.is_quiet || options.is_parsable || options.no_header || options.has_json_errors) {}

template <class T>
std::optional<T> Vminfod::accept(Result<T> result) {
    if (result) return std::move(*result);
    if (result.error().kind == ErrorKind::not_found) return std::nullopt;
    is_off_ = true;
    if (is_expected_ && !is_quiet_)
        say(text::printable("note: without vminfod, which takes longer: " + result.error().text()));
    return std::nullopt;
}

std::optional<std::string> Vminfod::ask(info::Target const& target) {
    if (is_off_) return std::nullopt;
    trace(options_, "asks vminfod: " + target.text());
    return accept(client_.get(target.text(), info::most_answer_bytes));
}

std::optional<json::Array> Vminfod::ask_machines(info::Target const& target) {
    auto const answer = ask(target);
    return answer ? accept(info::read_machines(*answer)) : std::nullopt;
}

std::optional<json::Node> Vminfod::ask_machine(Uuid const& uuid) {
    auto const answer = ask(info::Target("/vms/" + uuid.text()));
    return answer ? accept(info::read_machine(*answer)) : std::nullopt;
}

std::optional<Uuid> Vminfod::find(std::string_view name) {
    if (is_off_) return std::nullopt;
    trace(options_, "asks vminfod for " + std::string(name));
    auto found = info::find_machine(client_, name);
    bool const is_for_others =
        !found && (found.error().kind == ErrorKind::not_found || found.error().kind == ErrorKind::refused);
    return is_for_others ? std::nullopt : accept(std::move(found));
}

Result<> Vminfod::settle(std::optional<Uuid> const& machine) {
    if (is_off_ || !client_.has_socket()) return {};
    info::Target target(machine ? "/vms/" + machine->text() : "/vms");
    target.add("fresh", "true");
    if (!machine) target.add("fields", "uuid");
    trace(options_, "waits until vminfod has looked: " + target.text());
    auto const answer = client_.get(target.text(), info::most_answer_bytes, settle_patience);
    // If nobody listens, nobody reads there either. A machine that is gone is an answer, too.
    if (answer || answer.error().kind == ErrorKind::unavailable || answer.error().kind == ErrorKind::not_found)
        return {};
    is_off_ = true;
    return std::unexpected(answer.error());
}

}  // namespace triton::program
