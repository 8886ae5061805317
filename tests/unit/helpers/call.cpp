// One system call, as the command line says: call NUMBER [ARGUMENT...]. An argument is a number, "@N" for a buffer of N
// bytes, or a text. Prints the result (negative: -errno), and what is in the buffer as text. Static and without libc,
// so that it runs in an empty root directory and under the narrowest filter, where only write and exit_group are
// needed.

#include "lib/process/raw_syscall.h"

namespace {

using triton::process::raw::address;

char buffer[4096];

unsigned long length_of(char const* text) {
    unsigned long length = 0;
    while (text[length])
        ++length;
    return length;
}

void print(char const* text, unsigned long length) {
    (void)triton::process::raw::call(SYS_write, 1, address(text), static_cast<long>(length));
}

void print_number(long number) {
    char digits[24];
    char* at = digits + sizeof digits;
    *--at = '\n';
    bool const is_negative = number < 0;
    do {
        long const digit = number % 10;
        *--at = static_cast<char>('0' + (digit < 0 ? -digit : digit));
        number /= 10;
    } while (number != 0);
    if (is_negative) *--at = '-';
    print(at, static_cast<unsigned long>(digits + sizeof digits - at));
}

bool is_number(char const* text) {
    if (*text == '-') ++text;
    return *text >= '0' && *text <= '9';
}

long parse(char const* text) {
    bool const is_negative = *text == '-';
    long number = 0;
    for (text += is_negative; *text >= '0' && *text <= '9'; ++text)
        number = number * 10 + (*text - '0');
    return is_negative ? -number : number;
}

}  // namespace

/// `arguments`: argc and argv as the kernel lays them out.
extern "C" [[noreturn]] void run(long* arguments) {
    long const count = arguments[0];
    auto* const* const argv = reinterpret_cast<char**>(arguments + 1);
    long values[6] = {};
    bool has_buffer = false;
    for (long i = 1; i < count && i <= 6; ++i) {
        has_buffer = has_buffer || argv[i][0] == '@';
        values[i - 1] = argv[i][0] == '@' ? address(buffer) : is_number(argv[i]) ? parse(argv[i]) : address(argv[i]);
    }
    long const result = triton::process::raw::call(values[0], values[1], values[2], values[3], values[4], values[5]);
    print_number(result);
    if (has_buffer && result >= 0) print(buffer, length_of(buffer));
    triton::process::raw::exit(0);
}

asm(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall run\n");
