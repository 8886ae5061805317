// The C++ library calls this when nobody catches an exception. Its own handler prints the exception's type, for which a
// static program gets 45 kB of a demangler. This one says what has happened, and takes the other's place by having its
// name.

#include <cstdlib>
#include <exception>
#include <string_view>

#include <unistd.h>

namespace {

void say_now(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }  // nobody else to tell

void say_what_was_thrown() {
    if (!std::current_exception()) return say_now("terminated without an exception");
    try {
        throw;
    } catch (std::exception const& error) {
        say_now("nobody caught an exception: ");
        say_now(error.what());
    } catch (...) {
        say_now("nobody caught an exception of an unknown type");
    }
}

}  // namespace

// NOLINTNEXTLINE(bugprone-reserved-identifier): the library's name
namespace __gnu_cxx {

[[gnu::used]] void __verbose_terminate_handler() {  // NOLINT(bugprone-reserved-identifier): likewise
    say_now("triton-launch: ");
    say_what_was_thrown();
    say_now("\n");
    std::abort();
}

}  // namespace __gnu_cxx
