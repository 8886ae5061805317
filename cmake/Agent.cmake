# What triton-launch-agent needs beside the rest.
option(TRITON_AGENT "Build triton-launch-agent (needs Boost's headers, OpenSSL, c-ares, nghttp2, libseccomp and RE2)" ON)
if(NOT TRITON_AGENT)
  return()
endif()

set(agent_missing "")
foreach(pair "boost/beast/core.hpp=libboost-dev" "openssl/ssl.h=libssl-dev" "ares.h=libc-ares-dev"
        "nghttp2/nghttp2.h=libnghttp2-dev"
        "seccomp.h=libseccomp-dev" "re2/re2.h=libre2-dev")
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 header)
  list(GET pair 1 package)
  string(MAKE_C_IDENTIFIER "AGENT_${header}" variable)
  find_path(${variable} ${header})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    list(APPEND agent_missing ${package})
  endif()
endforeach()
if(agent_missing)
  list(JOIN agent_missing " " packages)
  message(FATAL_ERROR "triton-launch-agent misses Debian packages: ${packages} (or configure with -DTRITON_AGENT=OFF)")
endif()

# Asio's coroutines and Beast: 5 to 20 seconds of processor for each file that includes them.
add_library(asio INTERFACE)
target_link_libraries(asio INTERFACE ssl crypto)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Boost before 1.78 takes clang's coroutines for those of the technical specification.
  target_compile_definitions(asio INTERFACE BOOST_ASIO_HAS_CO_AWAIT BOOST_ASIO_HAS_STD_COROUTINE)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 takes Asio's allocation of coroutine frames for a mismatch.
  target_compile_options(asio INTERFACE -Wno-mismatched-new-delete)
endif()
