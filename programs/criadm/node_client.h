#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/cri/wire/node_messages.h"
#include "lib/base/clock.h"
#include "lib/base/result.h"
#include "lib/http/grpc/client.h"
#include "programs/criadm/command_line.h"

namespace triton::program {

namespace v1 = cri::v1;
namespace node = cri::node;

/// tritoncrid, for one command.
class NodeClient {
public:
    /// Errors: `unavailable`, with what would help.
    static Result<NodeClient> connect(Options const& options);

    /// Calls a method whose answer is one message. Errors: those of the daemon, by their kind.
    template <class Response>
    Result<Response> call(cri::Method const& method, google::protobuf::MessageLite const& request, Duration limit) {
        std::string const bytes = TRY(call_bytes(method, request.SerializeAsString(), limit));
        Response response;
        if (!response.ParseFromString(bytes))
            return fail(ErrorKind::corrupt, "read the answer of tritoncrid", "it is not a valid message");
        return response;
    }

    /// Calls a method several times at the same time. Errors: of the first one that has failed.
    Result<> call_each(cri::Method const& method, std::vector<std::string> messages, Duration limit);

    [[nodiscard]] http::grpc::Client& connection() { return connection_; }

private:
    explicit NodeClient(http::grpc::Client connection) : connection_(std::move(connection)) {}
    Result<std::string> call_bytes(cri::Method const& method, std::string message, Duration limit);

    http::grpc::Client connection_;
};

/// How long calls may take that only look.
inline constexpr Duration look_limit = std::chrono::seconds(30);

/// All pods and containers, in the order of their names.
Result<node::ReportResponse> read_report(Options const& options);

/// "default/web", or "default/web/nginx".
std::string object_name(node::ReportResponse const& report, node::Subject const& subject);

/// The pod or container that a word names. Errors: `not_found`; `invalid`: it names several, which are listed.
Result<node::Subject> find_object(node::ReportResponse const& report, std::string_view word);

}  // namespace triton::program
