#include "launcher/terminal/attach_frames.h"

#include <gtest/gtest.h>

namespace triton::launcher {

namespace {

TEST(AttachFrames, AreReadAsTheyWereWritten) {
    std::string bytes;
    append_attach_frame(bytes, AttachFrame::data, "ls\r");
    append_attach_frame(bytes, AttachFrame::upgrade);
    EXPECT_EQ(bytes, std::string("d\0\0\3ls\ru\0\0\0", 11));
    AttachMessage message;
    ASSERT_EQ(read_attach_frame(bytes, message), AttachReading::whole);
    EXPECT_EQ(message.what, AttachFrame::data);
    EXPECT_EQ(message.content, "ls\r");
    EXPECT_EQ(message.size, 7U);
    ASSERT_EQ(read_attach_frame(std::string_view(bytes).substr(7), message), AttachReading::whole);
    EXPECT_EQ(message.what, AttachFrame::upgrade);
    for (std::size_t size = 0; size < 7; ++size)
        EXPECT_EQ(read_attach_frame(std::string_view(bytes).substr(0, size), message), AttachReading::partial) << size;
}

TEST(AttachFrames, LongContentIsSeveral) {
    std::string bytes;
    append_attach_frame(bytes, AttachFrame::data, std::string(longest_attach_frame + 1, 'x'));
    AttachMessage message;
    ASSERT_EQ(read_attach_frame(bytes, message), AttachReading::whole);
    EXPECT_EQ(message.content.size(), longest_attach_frame);
    ASSERT_EQ(read_attach_frame(std::string_view(bytes).substr(message.size), message), AttachReading::whole);
    EXPECT_EQ(message.content, "x");
}

TEST(AttachFrames, OneThatIsTooLongIsWrongBeforeItHasCome) {
    AttachMessage message;
    EXPECT_EQ(read_attach_frame(std::string_view("d\0\x40\0", 4), message), AttachReading::partial);
    EXPECT_EQ(read_attach_frame(std::string_view("d\0\x40\1", 4), message), AttachReading::wrong);
    EXPECT_EQ(read_attach_frame("\xff\xff\xff\xff", message), AttachReading::wrong);
}

TEST(AttachFrames, WindowHasTwoSidesThatAreNotNothing) {
    EXPECT_EQ(read_window(window_content({300, 70})), (WindowSize{300, 70}));
    EXPECT_EQ(read_window(window_content({0, 70})), std::nullopt);
    EXPECT_EQ(read_window(window_content({24, 0})), std::nullopt);
    EXPECT_EQ(read_window("123"), std::nullopt);
    EXPECT_EQ(read_window("12345"), std::nullopt);
}

}  // namespace

}  // namespace triton::launcher
