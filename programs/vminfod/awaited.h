#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/result.h"
#include "lib/net/loop.h"

namespace triton::program {

/// A result that somebody else brings, for the tasks that wait for it.
template <class T>
struct Awaited {
    explicit Awaited(net::Loop& loop) : arrived(loop), limit(loop) {}
    net::Condition arrived;
    net::Timer limit;
    std::optional<Result<T>> result;

    void bring(Result<T> found) {
        if (result) return;  // it is too late
        result = std::move(found);
        limit.cancel();
        arrived.notify_all();
    }
};

template <class T>
using AwaitedPtr = std::shared_ptr<Awaited<T>>;

/// Its error is `timeout` if it does not arrive within that time: "a fresh look takes too long".
template <class T>
AwaitedPtr<T> make_awaited(net::Loop& loop, Duration limit, std::string what) {
    auto const awaited = std::make_shared<Awaited<T>>(loop);
    auto const late = [weak = std::weak_ptr(awaited), what = std::move(what)] {
        if (auto const waiting = weak.lock()) waiting->bring(fail(ErrorKind::timeout, what + " takes too long"));
    };
    awaited->limit.call_at(std::chrono::steady_clock::now() + limit, late);
    return awaited;
}

template <class T>
net::Task<Result<T>> arrival(AwaitedPtr<T> awaited) {
    while (!awaited->result)
        co_await awaited->arrived.wait();
    co_return *awaited->result;
}

}  // namespace triton::program
