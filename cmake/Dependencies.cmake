# A dependency that is missing ends in one line that names the Debian package, not in a CMake trace.
set(missing_packages "")

macro(require_header variable header package)
  find_path(${variable} "${header}")
  if(NOT ${variable})
    list(APPEND missing_packages ${package})
  endif()
  mark_as_advanced(${variable})
endmacro()

# As static libraries: the program is one.
macro(require_library variable file package)
  find_library(${variable} ${file})
  if(NOT ${variable})
    list(APPEND missing_packages ${package})
  endif()
  mark_as_advanced(${variable})
endmacro()

require_header(NLOHMANN_JSON_INCLUDE "nlohmann/json.hpp" nlohmann-json3-dev)
require_library(LIBSECCOMP libseccomp.a libseccomp-dev)
if(NOT DEFINED TRITON_TESTS OR TRITON_TESTS)
  require_header(GTEST_INCLUDE "gtest/gtest.h" libgtest-dev)
  require_header(GMOCK_INCLUDE "gmock/gmock.h" libgmock-dev)
endif()

if(missing_packages)
  list(JOIN missing_packages " " packages)
  # stderr by hand: message(FATAL_ERROR) would add a call stack below it
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo
    "triton-launch: missing build dependencies; install them with: apt-get install ${packages}")
  message(FATAL_ERROR "missing Debian packages: ${packages}")
endif()
