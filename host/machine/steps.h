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

/// One step of a change to a machine. Both functions may be called when the step has been done already, wholly, partly
/// or not at all: a command can be killed at any point, and only the mark before the step tells how far it came.
struct Step {
    std::string_view name;
    std::function<Result<>()> run;
    std::function<Result<>()> undo = {};  ///< empty: there is nothing to take back
};

/// What becomes of an operation that was interrupted, or that has failed.
enum class Outcome : std::uint8_t {
    undone,    ///< its steps are taken back, the last one first
    finished,  ///< its steps are done, from the one that was interrupted on
};

/// A change to a machine.
struct Operation {
    std::string_view name;  ///< "create"
    Outcome after_kill = Outcome::undone;
    std::size_t undone_before = 0;  ///< of one that is finished: when a step before this one fails, all are taken back
    std::string data = {};  ///< JSON: what is needed to make the steps again; empty: the machine's uuid says it all
    std::vector<Step> steps = {};
};

/// How far an operation has come, as it is on disk.
struct Mark {
    std::string operation;
    std::string data = {};
    std::size_t step = 0;    ///< this one, and none behind it, may have been begun
    bool is_undone = false;  ///< it failed, and its steps are being taken back

    bool operator==(Mark const&) const = default;
};

/// Where marks are kept. Each call is durable when it returns.
class Journal {
public:
    virtual ~Journal() = default;
    virtual Result<> write(Mark const& mark) = 0;
    virtual Result<> remove() = 0;
};

/// Is told the name of each step before it is done.
using Progress = std::function<void(std::string_view operation, std::string_view step)>;

/// Does the steps, each after its mark. When one fails, an operation that is undone after a kill is undone now; of one
/// that is finished after a kill the mark stays, and the next command continues with it.
/// Errors: the step's; what could not be taken back is in the details, and the mark then stays.
Result<> perform(Operation const& operation, Journal& journal, Progress const& progress = {});

/// Finishes or undoes what was interrupted after this mark, and returns which. Errors: as above.
Result<Outcome> resume(Operation const& operation, Mark const& mark, Journal& journal, Progress const& progress = {});

}  // namespace triton::machine
