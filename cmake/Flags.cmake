set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON) # inline assembly, statement expressions in TRY

option(TRITON_SANITIZE "AddressSanitizer and UndefinedBehaviorSanitizer; links dynamically" OFF)
option(TRITON_ASSERTIONS "Keep assert() in optimised builds" OFF)
option(TRITON_FUZZ "Build the libFuzzer targets (clang only)" OFF)

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wno-language-extension-token -Wno-gnu-statement-expression
                    -Wshadow -Wnon-virtual-dtor -Wconversion -Wno-sign-conversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wpedantic objects to statement expressions even behind __extension__; -Wrestrict is wrong about std::string (GCC
  # bug 105329)
  add_compile_options(-Wno-pedantic -Wno-restrict)
endif()

# Most of the time of a file goes into headers and templates that its neighbours need as well. So no name of a file's own may
# mean something else in its folder, or in what it includes: unit/structure_test.py looks for that.
option(TRITON_UNITY "Compile all files of a library as one unit; clang-tidy needs each for itself" ON)
if(TRITON_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)
  # A local name may be that of a function in a neighbour; and what is private to a file looks as if it came from a header.
  add_compile_options(-Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-subobject-linkage)
  endif()
endif()
include_directories(${CMAKE_SOURCE_DIR})
# Their headers do not keep to our warnings.
include_directories(SYSTEM ${NLOHMANN_JSON_INCLUDE})

if(TRITON_ASSERTIONS)
  string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
endif()
if(TRITON_SANITIZE OR TRITON_FUZZ)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_definitions(__SANITIZE_ADDRESS__) # as GCC does, and clang from version 20 on
  endif()
  # Half of the time to compile went into these, for what AddressSanitizer finds most of. The library's own assertions find the
  # rest (an index, an optional, a pointer to nothing), also before it is used.
  add_compile_options(-fno-sanitize=null,alignment,object-size,vptr)
endif()
if(TRITON_SANITIZE OR TRITON_FUZZ OR TRITON_ASSERTIONS)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # GCC's library implements std::stable_sort with what it has declared deprecated itself; only clang says so.
  # And only clang takes the value of TRY for one that must be used, and objects to what GNU's C++ has beside the standard's.
  add_compile_options(-Wno-deprecated-declarations -Wno-unused-result -Wno-gnu-conditional-omitted-operand
                      -Wno-c99-extensions)
endif()
if(TRITON_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  # The comparisons of this check would be traced as well, which cost most of what tracing does.
  add_compile_options(-fno-sanitize=pointer-overflow)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  # -O3 makes PID 1 190 kB larger, and the load of 1,000 programs 1 % slower.
  string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  include(CheckIPOSupported)
  check_ipo_supported(LANGUAGES CXX)
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # On all cores, and without a note that it was not. What GCC 12 says of std::string's own memcpy is wrong (bug 105329), and
    # it takes the value that a std::expected does not hold for one that may be used.
    # Functions keep sections of their own, so that the linker drops what link-time optimisation has made superfluous.
    add_compile_options(-ffunction-sections -fdata-sections -Wno-maybe-uninitialized)
    # Padding in front of loops and jumps made PID 1 33 kB larger, and no faster.
    add_compile_options(-fno-align-loops -fno-align-jumps)
    # Nothing of ours asks for the type of an object. Each lambda in a std::function had its name in the program.
    add_compile_options(-fno-rtti)
    set(is_optimised_as_a_whole $<BOOL:$<TARGET_PROPERTY:INTERPROCEDURAL_OPTIMIZATION>>)
    add_link_options(
      -Wl,--gc-sections
      "$<IF:${is_optimised_as_a_whole},-flto=auto;-ffunction-sections;-fdata-sections;-Wno-stringop-overflow,-fno-lto>")
  endif()
endif()

# For what is linked into PID 1 or its agent, and into programs that are not optimised as a whole, too.
macro(triton_for_all)
  if(CMAKE_INTERPROCEDURAL_OPTIMIZATION AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-ffat-lto-objects)
  endif()
endmacro()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# For programs of the host, which root runs for years: addresses of functions cannot be overwritten, and the C library's
# checks of sizes are in. Both need the optimiser; sanitizers have checks of their own.
macro(triton_harden)
  if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TRITON_SANITIZE AND NOT TRITON_FUZZ)
    # These checks also mark results that must not be ignored, (void) or not.
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -Wno-unused-result)
    add_link_options(-Wl,-z,relro -Wl,-z,now)
  endif()
endmacro()

# For what runs where libc has not started, or in a child that shares its parent's memory.
set(TRITON_FREESTANDING
  -O2 -ffreestanding -fno-builtin -fno-stack-protector -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-lto
  -fvisibility=hidden -fno-sanitize=all -U_GLIBCXX_ASSERTIONS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # No call of memset or memcpy out of a loop: in a static program those are resolved when libc starts.
  list(APPEND TRITON_FREESTANDING -fno-tree-loop-distribute-patterns -fcf-protection=none)
endif()

# For parts of PID 1 that run seldom: they cost pages of the binary, not time. See docs/decisions/0040-size.md.
function(triton_small target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Os>)
endfunction()

# For the files among these that a start, a signal or an end runs.
function(triton_fast)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
endfunction()
