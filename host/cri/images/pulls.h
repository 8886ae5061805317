#pragma once

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/unique_fd.h"

namespace triton::cri {

/// A pull as clients ask for it. Two that are equal are one.
struct PullKey {
    std::string reference;
    std::string credentials;  ///< the text of an authfile

    bool operator==(PullKey const&) const = default;
};

/// The pulls that are under way. A client that asks for the same again, as after a lost connection, waits for the one
/// that runs; a client that has gone ends none. It belongs to one thread.
class Pulls {
public:
    using Done = std::function<void(Result<std::string> const& id)>;
    /// Starts a pull in another thread. `finished` is called in this one.
    using Start = std::function<Result<>(PullKey const& key, int cancel, Done finished)>;

    explicit Pulls(Start start) : start_(std::move(start)) {}

    void pull(PullKey const& key, Done done);
    /// Gives all of them up.
    void cancel();
    [[nodiscard]] std::size_t running() const { return running_.size(); }

private:
    struct Running {
        PullKey key;
        UniqueFd cancel;
        std::vector<Done> waiting;
    };
    void finish(std::list<Running>::iterator one, Result<std::string> const& id);

    Start start_;
    std::list<Running> running_;
};

}  // namespace triton::cri
