#include "launcher/plan/blocks.h"

#include <array>
#include <cstring>

namespace triton::launcher {

void BlockWriter::add(std::uint64_t number) {
    std::array<char, sizeof number> bytes{};
    std::memcpy(bytes.data(), &number, sizeof number);
    text_.append(bytes.data(), bytes.size());
}

void BlockWriter::add(std::string_view block) {
    add(block.size());
    text_ += block;
}

void BlockWriter::add(std::vector<std::string> const& blocks) {
    add(blocks.size());
    for (std::string const& block : blocks)
        add(std::string_view(block));
}

void BlockWriter::add(process::SeccompFilter::Code const& code) {
    add(std::string_view(reinterpret_cast<char const*>(code.data()), code.size() * sizeof(sock_filter)));
}

std::uint64_t BlockReader::number() {
    std::uint64_t value = 0;
    std::string_view const bytes = take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

std::size_t BlockReader::count() {
    std::uint64_t const count = number();
    if (count <= rest_.size() / sizeof count) return count;
    is_good_ = false;
    return 0;
}

std::vector<std::string> BlockReader::blocks() {
    std::vector<std::string> all(count());
    for (std::string& one : all)
        one = block();
    return all;
}

process::SeccompFilter::Code BlockReader::code() {
    std::string_view const bytes = block();
    if (bytes.empty() || bytes.size() % sizeof(sock_filter) != 0 || bytes.size() / sizeof(sock_filter) > BPF_MAXINSNS) {
        is_good_ = false;
        return {};
    }
    process::SeccompFilter::Code code(bytes.size() / sizeof(sock_filter));
    std::memcpy(code.data(), bytes.data(), bytes.size());
    return code;
}

std::string_view BlockReader::take(std::uint64_t size) {
    if (size > rest_.size()) {
        is_good_ = false;
        return {};
    }
    std::string_view const bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
}

}  // namespace triton::launcher
