#include "lib/base/signal_text.h"

#include "lib/base/signal_names.h"

namespace triton {

std::string signal_text(int signo) {
    for (SignalName const& row : signal_names) {
        if (row.number == signo) return std::string("SIG") + row.name;
    }
    if (signo == rtmin) return "SIGRTMIN";
    if (signo > rtmin && signo <= rtmax) return "SIGRTMIN+" + std::to_string(signo - rtmin);
    return "signal " + std::to_string(signo);
}

}  // namespace triton
