#include "host/volume/retry.h"

#include <algorithm>
#include <utility>

namespace triton::volume {

void Retry::failed(Failure failure, BootTime now, RetrySettings const& settings, std::uint32_t random) {
    if (!failure_) since_ = now;
    next_.reset();
    switch (failure.failure) {
        case FailureClass::transient: {
            BootTime pause = settings.first;
            for (unsigned i = 0; i < failures_ && pause < settings.longest; ++i)
                pause *= 2;
            pause = std::min(pause, settings.longest);
            next_ = now + pause / 2 + BootTime(pause.count() * (random % 1024) / 2048);
            ++failures_;
            break;
        }
        case FailureClass::server: next_ = now + settings.server; break;
        case FailureClass::room:
        case FailureClass::vault:
        case FailureClass::permanent: break;
    }
    failure_ = std::move(failure);
}

void Retry::succeeded() {
    failure_.reset();
    next_.reset();
    failures_ /= 2;
}

void Retry::reset() {
    failure_.reset();
    next_.reset();
}

void Retry::resume() {
    if (failure_ && failure_->failure == FailureClass::room) next_.reset();
}

bool Retry::is_due(BootTime now) const {
    if (!failure_) return true;
    switch (failure_->failure) {
        case FailureClass::transient:
        case FailureClass::server: return next_ && *next_ <= now;
        case FailureClass::room:
        case FailureClass::vault: return !next_ || *next_ <= now;
        case FailureClass::permanent: return false;
    }
    std::unreachable();
}

std::optional<BootTime> Retry::next() const { return next_; }

FailureClass class_of(ErrorKind kind, bool is_of_server) {
    switch (kind) {
        case ErrorKind::unavailable:
        case ErrorKind::timeout:
        case ErrorKind::busy: return FailureClass::transient;
        case ErrorKind::exhausted: return FailureClass::room;
        case ErrorKind::not_found:
        case ErrorKind::denied:
        case ErrorKind::refused:
        case ErrorKind::corrupt: return is_of_server ? FailureClass::server : FailureClass::permanent;
        case ErrorKind::invalid:
        case ErrorKind::exists:
        case ErrorKind::unsupported:
        case ErrorKind::internal: return FailureClass::permanent;
    }
    std::unreachable();
}

}  // namespace triton::volume
