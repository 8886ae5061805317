// The functions of strings, compiled for speed. Each unit that uses them brings its own copy, the linker takes the
// first, and that would be one of the units that are compiled for size. So this one is linked before them.
#include <string>
#include <string_view>

template class std::basic_string<char>;
template class std::basic_string_view<char>;
