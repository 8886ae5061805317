#include "programs/imgadm/failure.h"

#include <utility>

#include "lib/base/error_kinds.h"
#include "lib/json/writer.h"
#include "lib/text/printable.h"

namespace triton::program {

namespace {

/// The code of an error, for programs made for the other imgadm: its word where it has one.
std::string_view code_of(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid: return "InvalidParameter";
        case ErrorKind::not_found: return "ResourceNotFound";
        case ErrorKind::exists: return "ImageAlreadyInstalled";
        case ErrorKind::refused: return "Refused";
        case ErrorKind::busy: return "Busy";
        case ErrorKind::unavailable: return "ServiceUnavailable";
        case ErrorKind::exhausted: return "NoSpace";
        case ErrorKind::timeout: return "Timeout";
        case ErrorKind::denied: return "NotAuthorized";
        case ErrorKind::corrupt: return "CorruptContent";
        case ErrorKind::unsupported: return "NotSupported";
        case ErrorKind::internal: return "InternalError";
    }
    std::unreachable();
}

}  // namespace

Failure failure_of(Error error) {
    std::string code(code_of(error.kind));
    return {ExitCode::failed, std::move(code), std::move(error)};
}

Failure download_failure(Error error) {
    Failure failure = failure_of(std::move(error));
    if (failure.error.kind == ErrorKind::corrupt) failure.code = "DownloadError";
    return failure;
}

Failure usage_failure(std::string reason) {
    return {ExitCode::usage, "Usage",
            Error{.kind = ErrorKind::invalid, .attempted = {}, .reason = std::move(reason), .details = {}}};
}

Failure not_installed(Error error) {
    if (error.kind != ErrorKind::not_found) return failure_of(std::move(error));
    return {ExitCode::not_installed, "ImageNotInstalled", std::move(error)};
}

Failure interrupted() {
    return {ExitCode::interrupted, "Interrupted",
            Error{.kind = ErrorKind::refused, .attempted = {}, .reason = "cancelled", .details = {}}};
}

std::string render_failure(Failure const& failure, bool is_json) {
    if (is_json) {
        json::Writer out;
        out.open('{')
            .member("code", failure.code)
            .member("kind", row_of(failure.error.kind).name)
            .member("exitStatus", static_cast<int>(failure.exit))
            .member("message", failure.error.text())
            .key("details")
            .list(failure.error.details)
            .close('}');
        return std::move(out).text() + "\n";
    }
    std::string text = "imgadm: error (" + failure.code + "): " + text::printable(failure.error.text()) + "\n";
    for (std::string const& detail : failure.error.details)
        text += "  " + text::printable(detail) + "\n";
    return text;
}

}  // namespace triton::program
