#pragma once

#include <functional>
#include <optional>
#include <string>

#include "host/cri/images/library.h"
#include "host/cri/images/workers.h"
#include "host/cri/sandbox/pod_service.h"
#include "host/cri/wire/router.h"
#include "lib/base/result.h"
#include "programs/tritoncrid/configuration.h"

namespace triton::program {

/// Serves of the RuntimeService what is about the node itself.
class RuntimeCalls {
public:
    struct Surroundings {
        std::string root;
        CriConfiguration const& configuration;
        cri::ImageLibrary& library;
        cri::PodService const& pods;
        /// Calls it later in the thread of the calls; from any thread.
        std::function<void(std::function<void()>)> post;
    };

    explicit RuntimeCalls(Surroundings around);
    ~RuntimeCalls();
    RuntimeCalls(RuntimeCalls const&) = delete;
    RuntimeCalls& operator=(RuntimeCalls const&) = delete;

    void add_to(cri::Router& router);

    /// Recovers the images, in another thread; `done` is called in this one with the result. Status tries it again as
    /// long as it fails.
    void recover(std::function<void(Result<> const&)> done);

private:
    using CallPtr = std::shared_ptr<http::grpc::Call>;
    void answer_status(CallPtr const& call);

    Surroundings around_;
    CgroupDriver driver_;
    std::optional<Error> images_;  // why they cannot be used; nullopt: they can
    bool is_recovering_ = false;
    cri::Workers worker_{1};
};

}  // namespace triton::program
