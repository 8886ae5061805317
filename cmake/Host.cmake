# What the programs of a host need beside the rest. They are ordinary dynamic executables.
option(TRITON_HOST "Build the programs of a host: imgadm and those that it starts" ON)
if(NOT TRITON_HOST)
  return()
endif()

set(host_missing "")
foreach(pair "curl/curl.h=libcurl4-openssl-dev" "archive.h=libarchive-dev" "sqlite3.h=libsqlite3-dev"
        "isa-l.h=libisal-dev" "zstd.h=libzstd-dev" "lzma.h=liblzma-dev" "bzlib.h=libbz2-dev" "CLI/CLI.hpp=libcli11-dev"
        "openssl/evp.h=libssl-dev" "systemd/sd-bus.h=libsystemd-dev" "re2/re2.h=libre2-dev")
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 header)
  list(GET pair 1 package)
  string(MAKE_C_IDENTIFIER "HOST_${header}" variable)
  find_path(${variable} ${header})
  mark_as_advanced(${variable})
  if(NOT ${variable})
    list(APPEND host_missing ${package})
  endif()
endforeach()
if(host_missing)
  list(JOIN host_missing " " packages)
  message(FATAL_ERROR "the programs of a host miss Debian packages: ${packages} (or configure with -DTRITON_HOST=OFF)")
endif()
