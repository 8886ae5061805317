#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "lib/base/result.h"

namespace triton {

/// Starts a thread that calls `work`, which must not throw. What `work` holds is destroyed when there is no thread.
/// Errors: EAGAIN when a limit or the memory has no room for one, which std::thread throws.
/// Source: pthread_create(3).
template <class Work>
Result<std::thread> start_thread(Work&& work) {
    try {
        return std::thread(std::forward<Work>(work));
    } catch (std::system_error const& error) {
        return fail(error.code().value(), "start a thread");
    }
}

}  // namespace triton
