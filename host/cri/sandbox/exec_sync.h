#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "host/cri/sandbox/monitor_link.h"
#include "lib/base/pipe.h"
#include "lib/base/result.h"
#include "lib/net/loop.h"

namespace triton::cri {

/// A command in a container whose output is kept: it ends by itself, or is killed with what it has started.
class ExecSync : public std::enable_shared_from_this<ExecSync> {
public:
    struct Outcome {
        int exit_code = 0;
        std::string output;
        std::string errors;
    };
    using Done = std::function<void(Result<Outcome>)>;
    static constexpr std::size_t most_output = 15U << 20U;  ///< of both streams; what comes after it is thrown away

    ExecSync(net::Loop& loop, std::shared_ptr<MonitorLink> link, Pipe output, Pipe errors);

    /// `process`: path of its process.json, which is removed at its end. `timeout` zero: no limit; else the error is
    /// `timeout`. `done` is called once.
    void start(std::string const& container, std::string const& process, Duration timeout, Done done);
    /// Kills it: nobody waits for it any more.
    void abandon();

private:
    void read(net::Descriptor& pipe, std::string& into);
    bool take(net::Descriptor& pipe, std::string& into);
    void ended(Result<std::int64_t> const& exit_code);
    void abort();

    std::shared_ptr<MonitorLink> link_;
    net::Descriptor output_;
    net::Descriptor errors_;
    UniqueFd output_writer_;
    UniqueFd errors_writer_;
    net::Timer timer_;
    Outcome outcome_;
    std::string container_;
    std::uint64_t sequence_ = 0;
    Done done_;
};

}  // namespace triton::cri
