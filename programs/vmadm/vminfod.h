#pragma once

#include <optional>
#include <string>

#include "host/info/client/client.h"
#include "host/info/client/http_answer.h"
#include "lib/base/uuid.h"
#include "lib/json/reader.h"
#include "programs/vmadm/command_line.h"

namespace triton::program {

info::Client vminfod_client(Options const& options);

/// vminfod, for commands that can do without it: it knows all machines, and where it is not there, hangs or is older,
/// they are loaded directly.
class Vminfod {
public:
    explicit Vminfod(Options const& options);

    /// Answers, read; nullopt: do without it. Standard error says why, in one line for all questions: unless the output
    /// is for programs, nobody expects a vminfod below that root directory, or all is well and there is no such VM.
    std::optional<std::string> ask(info::Target const& target);
    std::optional<json::Array> ask_machines(info::Target const& target);
    std::optional<json::Node> ask_machine(Uuid const& uuid);
    /// Its machine of that name; nullopt also when there is none, or several: who loads directly says it best.
    std::optional<Uuid> find(std::string_view name);

    /// Returns when vminfod has looked again at a machine that was changed, or at all: whoever reads from now on sees
    /// the change. At once when nobody listens there. Errors: it could not be waited for; nobody waits again then.
    Result<> settle(std::optional<Uuid> const& machine);

private:
    /// Success, or from now on without it.
    template <class T>
    std::optional<T> accept(Result<T> result);

    Options options_;
    info::Client client_;
    bool is_expected_;
    bool is_off_ = false;
    bool is_quiet_;
};

}  // namespace triton::program
