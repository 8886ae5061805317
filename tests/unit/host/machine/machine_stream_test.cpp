#include "host/machine/machine_stream.h"

#include <array>
#include <csignal>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"

namespace triton::machine {
namespace {

UniqueFd file_of(std::string_view content) {
    UniqueFd file(::memfd_create("stream", MFD_CLOEXEC));
    EXPECT_TRUE(write_all(file.get(), content));
    ::lseek(file.get(), 0, SEEK_SET);
    return file;
}

std::string content_of(UniqueFd const& file) {
    std::string text(static_cast<std::size_t>(::lseek(file.get(), 0, SEEK_END)), '\0');
    EXPECT_EQ(::pread(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
}

std::string stream_of(std::string_view tree) {
    UniqueFd const file = file_of("");
    StreamWriter writer(file.get());
    EXPECT_TRUE(writer.head({"tree", R"({"uuid":"x"})"}));
    EXPECT_TRUE(writer.content(file_of(tree).get()));
    return content_of(file);
}

/// What is read of a stream: its content, or what is wrong with it.
std::string read_stream(std::string_view stream) {
    UniqueFd const from = file_of(stream);
    UniqueFd const to = file_of("");
    StreamReader reader(from.get());
    auto const head = reader.head();
    if (!head) return head.error().text();
    auto const read = reader.content(to.get());
    return read ? content_of(to) : read.error().text();
}

TEST(MachineStream, IsReadAsItWasWritten) {
    UniqueFd const from = file_of(stream_of("content"));
    StreamReader reader(from.get());
    auto const head = reader.head();
    ASSERT_TRUE(head);
    EXPECT_EQ(head->storage, "tree");
    EXPECT_EQ(head->payload, R"({"uuid":"x"})");
    EXPECT_EQ(read_stream(stream_of("")), "");
    std::string const large(1'000'000, 'x');
    EXPECT_EQ(read_stream(stream_of(large)), large);
}

TEST(MachineStream, IsRefusedWhereverItIsCutOff) {
    std::string const whole = stream_of("content");
    for (std::size_t size = 0; size < whole.size(); ++size) {
        std::string const expected = size < 17 ? "cannot receive a VM: this is not a stream of vmadm send"
                                               : "cannot receive a VM: the stream ends early";
        EXPECT_EQ(read_stream(std::string_view(whole).substr(0, size)), expected) << size;
    }
}

TEST(MachineStream, IsRefusedWhateverByteIsWrong) {
    std::string const whole = stream_of("content");
    for (std::size_t i = 0; i < whole.size(); ++i) {
        std::string wrong = whole;
        wrong[i] = static_cast<char>(wrong[i] ^ 1);
        EXPECT_TRUE(read_stream(wrong).starts_with("cannot receive a VM: ")) << i;
    }
}

TEST(MachineStream, HasLimits) {
    EXPECT_EQ(read_stream("triton-machine 1\n\xff\xff\xff\xff"),
              "cannot receive a VM: its properties have more than 16 MiB");
    std::string const whole = stream_of("");
    std::string const head = whole.substr(0, whole.size() - 69);  // without the end and the digest
    EXPECT_EQ(read_stream(head + "\xff\xff\xff\xff"), "cannot receive a VM: a piece has more than 256 KiB");
}

TEST(MachineStream, IsReadToItsEndWhenTheTreeEndsBefore) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    UniqueFd const to(ends[1]);
    ::close(ends[0]);  // nobody reads: writing fails with EPIPE
    auto const before = ::signal(SIGPIPE, SIG_IGN);
    std::string whole = stream_of("content");
    auto const read = [&to](std::string const& stream) {
        UniqueFd const from = file_of(stream);
        StreamReader reader(from.get());
        EXPECT_TRUE(reader.head());
        auto const done = reader.content(to.get());
        return done ? std::string() : done.error().text();
    };
    EXPECT_EQ(read(whole), "");
    EXPECT_EQ(read(stream_of(std::string(2 << 20, 'x'))),
              "cannot receive a VM: there is more after the end of its tree");
    whole[whole.size() - 2] = 'x';
    EXPECT_EQ(read(whole), "cannot receive a VM: its digest is not that of its content");
    ::signal(SIGPIPE, before);
}

}  // namespace
}  // namespace triton::machine
