# Sets TRITON_LIBC_PARTS: whether the C library at hand lets us replace those of its functions that libc_parts.cpp names. Where it
# does not, the linker finds two definitions of one, or the program here fails; PID 1 is then 500 kB larger, and complete.
function(triton_try_libc_parts directory)
  if(DEFINED TRITON_LIBC_PARTS)
    return()
  endif()
  try_run(ended compiled ${CMAKE_BINARY_DIR}/libc_parts_check
    SOURCES ${CMAKE_SOURCE_DIR}/cmake/libc_parts_check.cpp
      ${directory}/libc_parts.cpp ${directory}/libc_text.cpp ${directory}/terminate.cpp
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${CMAKE_SOURCE_DIR}" "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"
    COMPILE_DEFINITIONS -fno-builtin
    LINK_OPTIONS -static-pie
    CXX_STANDARD 23 CXX_STANDARD_REQUIRED ON
    COMPILE_OUTPUT_VARIABLE output)
  if(compiled AND ended EQUAL 0)
    set(works ON)
  else()
    set(works OFF)
    message(STATUS "no parts of this C library can be replaced: triton-launch becomes 500 kB larger\n${output}")
  endif()
  set(TRITON_LIBC_PARTS ${works} CACHE BOOL "Replace parts of the C library that PID 1 does not need")
endfunction()
