#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "host/cri/wire/methods.h"
#include "lib/http/grpc/call.h"

namespace triton::cri {

/// Finds the handler of a call.
class Router {
public:
    using Handler = std::function<void(std::shared_ptr<http::grpc::Call> const&)>;

    /// `method` is one of the table, as method("Version").
    void on(Method const& method, Handler handler) { handlers_[method.path] = std::move(handler); }

    /// Calls the handler. Without one the call ends with UNIMPLEMENTED.
    void serve(std::shared_ptr<http::grpc::Call> const& call) const;

private:
    std::map<std::string_view, Handler> handlers_;
};

}  // namespace triton::cri
