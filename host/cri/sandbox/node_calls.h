#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/cri/images/workers.h"
#include "host/cri/sandbox/strays.h"
#include "host/cri/wire/node_messages.h"
#include "host/cri/wire/router.h"

namespace triton::cri {

class Pods;

/// Serves the calls of criadm: what this node has and why, and what is left over.
class NodeCalls {
public:
    /// `post`: calls it later in the loop's thread.
    NodeCalls(Pods& pods, std::function<void(std::function<void()>)> post);

    void add_to(Router& router);

private:
    using CallPtr = std::shared_ptr<http::grpc::Call>;

    [[nodiscard]] node::ReportResponse report() const;
    void check(CallPtr const& call, bool repairs);
    void add_troubles(node::CheckResponse& response, bool repairs);
    /// Answers a check with what there is on disk, of which it removes what is nobody's.
    void finish_check(CallPtr const& call, std::vector<Belonging> const& all, bool repairs);

    Pods& pods_;
    std::function<void(std::function<void()>)> post_;
    Workers worker_;
};

}  // namespace triton::cri
