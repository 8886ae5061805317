#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/observe/facts.h"
#include "lib/base/result.h"
#include "lib/base/uuid.h"

namespace triton::program {

using DaemonFacts = observe::Facts;

/// The daemon, as the HTTP service needs it. Each function is called in the thread of the loop and returns
/// at once; each callback comes once, in that thread, from outside of the function that took it.
class Daemon {
public:
    using Text = std::shared_ptr<std::string const>;
    using Done = std::function<void(Result<>)>;
    using GotText = std::function<void(Result<Text>)>;

    Daemon() = default;
    Daemon(Daemon const&) = delete;
    Daemon& operator=(Daemon const&) = delete;
    virtual ~Daemon() = default;

    /// Calls when what a reload has found is in the cache that has begun after this call: of one machine, or (nullopt)
    /// of all. A machine that does not exist is not an error.
    virtual void look_again(std::optional<Uuid> const& machine, Done done) = 0;
    /// Resources that each machine uses now, as `vmadm stats -j` writes them, with a newline at the end. Made at most
    /// once a second, however often it is asked for.
    virtual void usage(GotText got) = 0;
    /// The lines of the history, each with its newline, the oldest first.
    virtual void history(std::optional<Uuid> const& machine, GotText got) = 0;
    /// What was read of one machine, part by part, with when, why, its generation and the error: a line of JSON without
    /// a newline. It may hold secrets: the service shows it on the Unix socket only.
    [[nodiscard]] virtual std::string raw(std::string const& machine) const = 0;
    [[nodiscard]] virtual DaemonFacts facts() const = 0;
};

}  // namespace triton::program
