#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace triton::machine {

/// One step of a change to a machine. Both functions may be called when the step has already been done wholly, partly
/// or not at all: a command can be killed at any point, and only the mark before the step tells how far it came.
struct Step {
    std::string_view name;
    std::function<Result<>()> run;
    std::function<Result<>()> undo = {};  ///< empty: nothing needs to be undone
};

/// What happens to an operation that was interrupted or has failed.
enum class Outcome : std::uint8_t {
    undone,    ///< its steps are undone, the last one first
    finished,  ///< its steps are done, beginning with the interrupted one
};

/// A change to a machine.
struct Operation {
    std::string_view name;  ///< "create"
    Outcome after_kill = Outcome::undone;
    std::size_t undone_before = 0;  ///< for `finished`: when a step before this one fails, all are undone
    bool was_running = false;       ///< the machine ran before, so it is to run afterwards
    bool needs_host = false;        ///< it changes what runs: units, or what they are made from
    std::size_t host_step = 0;      ///< for `undone`: the first step that cannot be undone without the host
    std::string data = {};          ///< JSON: what the steps need to be made again; empty: only the machine's uuid
    std::vector<Step> steps = {};
};

/// How far an operation has come, as it is on disk.
struct Mark {
    std::string operation;
    std::string data = {};
    std::size_t step = 0;    ///< the last step that may have begun
    bool is_undone = false;  ///< it has failed, and its steps are being undone
    bool was_running = false;

    bool operator==(Mark const&) const = default;
};

/// Where marks are kept. Each call is durable when it returns.
class Journal {
public:
    virtual ~Journal() = default;
    virtual Result<> write(Mark const& mark) = 0;
    virtual Result<> remove() = 0;
};

/// Called with the name of each step before it is done.
using Progress = std::function<void(std::string_view operation, std::string_view step)>;

/// Does the steps, each after its mark. If one fails and the operation is undone after a kill, it is undone now. If it
/// is finished after a kill, the mark stays, and the next command continues with it.
/// Errors: the step's; what could not be undone is in the details, and then the mark stays.
Result<> perform(Operation const& operation, Journal& journal, Progress const& progress = {});

/// Finishes or undoes what was interrupted after this mark. Returns which. What was being undone, by steps that nobody
/// can undo any more, is finished from its beginning. Errors: as above.
Result<Outcome> resume(Operation const& operation, Mark const& mark, Journal& journal, Progress const& progress = {});

}  // namespace triton::machine
