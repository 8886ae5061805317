#include "lib/base/result.h"

#include <cerrno>
#include <cstring>

namespace triton {

std::string errno_text(int err) {
    char const* const text = ::strerrordesc_np(err);
    return text ? text : "errno " + std::to_string(err);
}

ErrorKind kind_of_errno(int err) {
    switch (err) {
        case EINVAL:
        case EISDIR:
        case E2BIG:
        case EFBIG:
        case ENAMETOOLONG:
        case ENOEXEC:
        case EDOM:
        case ERANGE:
        case EBADF: return ErrorKind::invalid;
        case ENOENT:
        case ENOTDIR:
        case ESRCH:
        case ENXIO:
        case ENODEV: return ErrorKind::not_found;
        case EEXIST:
        case ENOTEMPTY: return ErrorKind::exists;
        case ELOOP:  // links that lead nowhere, like links that lead outside
        case EXDEV: return ErrorKind::refused;
        case EBUSY:
        case ETXTBSY:
        case EADDRINUSE: return ErrorKind::busy;
        case EAGAIN:
        case ENOMEM:
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case EPIPE:
        case ENOTCONN:
        case ECONNREFUSED:
        case ECONNRESET:
        case ECONNABORTED:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ESTALE: return ErrorKind::unavailable;
        case ENOSPC:
        case EDQUOT: return ErrorKind::exhausted;
        case ETIMEDOUT: return ErrorKind::timeout;
        case EACCES:
        case EPERM:
        case EROFS: return ErrorKind::denied;
        case EBADMSG:
        case EILSEQ: return ErrorKind::corrupt;
        case ENOSYS:
        case EOPNOTSUPP:
        case EAFNOSUPPORT:
        case EPROTONOSUPPORT: return ErrorKind::unsupported;
        default: return ErrorKind::internal;
    }
}

std::string Error::text() const {
    if (attempted.empty()) return reason;
    return std::string("cannot ").append(attempted).append(": ").append(reason);
}

std::unexpected<Error> fail(int err, std::string_view what) {
    return std::unexpected(Error{kind_of_errno(err), std::string(what), errno_text(err), {}, err});
}

std::unexpected<Error> fail(ErrorKind kind, std::string_view what, std::string reason) {
    return std::unexpected(Error{kind, std::string(what), std::move(reason), {}, 0});
}

std::unexpected<Error> fail(ErrorKind kind, std::string text) {
    return std::unexpected(Error{kind, {}, std::move(text), {}, 0});
}

std::unexpected<Error> fail(std::string text) { return fail(ErrorKind::invalid, std::move(text)); }

Result<> unless_missing(Result<> result) {
    if (!result && result.error().kind == ErrorKind::not_found) return {};
    return result;
}

}  // namespace triton
