# Run at every build: writes OUTPUT only when the commit has changed.
execute_process(COMMAND git -C "${SOURCE_DIR}" describe --always --dirty --abbrev=12 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR NOT commit)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT [[
#include "launcher/plan/version.h"

namespace triton::launcher {
char const* version() { return "@VERSION@"; }
char const* commit() { return "@commit@"; }
}  // namespace triton::launcher
]] @ONLY)
