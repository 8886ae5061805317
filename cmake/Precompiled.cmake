# Half of the time of most files goes into headers of the standard library, Asio and CLI11, so builds that nobody ships read them
# once. A release and clang-tidy read them for each file, which shows whether it includes what it needs.
option(TRITON_PRECOMPILED "Precompile the headers of others (GCC)" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TRITON_PRECOMPILED OFF)
endif()

set(TRITON_STANDARD_HEADERS
  <algorithm> <array> <cerrno> <charconv> <chrono> <csignal> <cstdint> <cstdlib> <cstring> <deque> <expected> <functional> <map>
  <memory> <optional> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector>)

# For what is made with Asio.
set(TRITON_NETWORK_HEADERS
  <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp> <boost/asio/detached.hpp> <boost/asio/generic/stream_protocol.hpp>
  <boost/asio/io_context.hpp> <boost/asio/posix/stream_descriptor.hpp> <boost/asio/redirect_error.hpp>
  <boost/asio/steady_timer.hpp> <boost/asio/use_awaitable.hpp>)

# Gives a target precompiled headers of its own: those of the standard library, and more.
function(triton_precompile target) # header...
  if(TRITON_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${TRITON_STANDARD_HEADERS} ${ARGN})
  endif()
endfunction()

# Gives all other libraries below a directory those that they can share, which takes the same options.
function(triton_precompile_libraries directory)
  get_property(folders DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(folder IN LISTS folders)
    triton_precompile_libraries(${folder})
  endforeach()
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(headers ${target} PRECOMPILE_HEADERS)
    get_target_property(options ${target} COMPILE_OPTIONS)
    if(type STREQUAL "STATIC_LIBRARY" AND NOT headers AND NOT options MATCHES "-O" AND NOT target STREQUAL "standard_headers")
      target_precompile_headers(${target} REUSE_FROM standard_headers)
    endif()
  endforeach()
endfunction()

if(TRITON_PRECOMPILED)
  # GCC 12 is wrong about std::string (bug 105329) in headers that it no longer knows for the system's. A release has this on.
  add_compile_options(-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  file(CONFIGURE OUTPUT standard_headers.cpp CONTENT "// What has the precompiled headers of the libraries.\n")
  add_library(standard_headers STATIC ${CMAKE_CURRENT_BINARY_DIR}/standard_headers.cpp)
  triton_precompile(standard_headers)
endif()
