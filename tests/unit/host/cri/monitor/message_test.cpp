#include "host/cri/monitor/message.h"

#include <string>

#include <gtest/gtest.h>

namespace triton::cri::monitor {
namespace {

Message sample() {
    Message message{
        .kind = Kind::create, .sequence = 7, .container = "abc", .texts = {"one", "", std::string(3, '\0')}};
    message.numbers = {1, -2, 3, INT64_MAX, INT64_MIN};
    return message;
}

TEST(MonitorMessage, ComesBackAsItWas) { EXPECT_EQ(decode(encode(sample()).value()).value(), sample()); }

TEST(MonitorMessage, DamageIsSeen) {
    std::string const whole = encode(sample()).value();
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_FALSE(decode(std::string_view(whole).substr(0, size))) << size;
    EXPECT_FALSE(decode(whole + "x"));
    std::string other = whole;
    other[0] = 9;
    EXPECT_EQ(decode(other).error().text(), "the monitor speaks version 9");
}

TEST(MonitorMessage, HasBounds) {
    Message message = sample();
    message.texts = {std::string(most_message_bytes, 'x')};
    EXPECT_EQ(encode(message).error().kind, ErrorKind::invalid);
    message.texts.assign(most_texts + 1, "x");
    EXPECT_EQ(encode(message).error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace triton::cri::monitor
