#include "host/cri/wire/router.h"

#include <string>
#include <utility>

#include "lib/json/text.h"

namespace triton::cri {

void Router::serve(std::shared_ptr<http::grpc::Call> const& call) const {
    auto const found = handlers_.find(call->path());
    if (found != handlers_.end()) return found->second(call);
    Method const* const known = find_method(call->path());
    call->finish({http::grpc::Code::unimplemented,
                  known ? std::string(known->name()) + " is not served by this version"
                        : json::quoted(call->path()) + " is not a method of the container runtime interface"});
}

}  // namespace triton::cri
