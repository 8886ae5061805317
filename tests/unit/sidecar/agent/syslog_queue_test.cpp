#include "sidecar/agent/syslog_queue.h"

#include <string>

#include <gtest/gtest.h>

namespace triton::agent {

namespace {

TEST(SyslogOrder, IsRead) {
    EXPECT_EQ(parse_syslog_order("17 tcp:127.0.0.1:601 <30>1 - - - - - - hello"),
              (SyslogOrder{17, "tcp:127.0.0.1:601", "<30>1 - - - - - - hello"}));
    for (char const* const text :
         {"", "17", "17 ", "17 a", "17 a ", "17  a b", "x a b", "0 a b", "-1 a b", "1a b", "18446744073709551616 a b"})
        EXPECT_EQ(parse_syslog_order(text), std::nullopt) << text;
}

TEST(SyslogQueue, CountsOctets) {
    SyslogQueue queue;
    EXPECT_TRUE(queue.push("hello"));
    EXPECT_TRUE(queue.push("\u00e4 line\nof two"));
    SyslogQueue::Batch const batch = queue.batch();
    EXPECT_EQ(batch.bytes, "5 hello14 \u00e4 line\nof two");
    EXPECT_EQ(batch.count, 2);
    EXPECT_EQ(queue.waiting(), 2) << "they stay until they are handed over";
    queue.hand_over(1);
    EXPECT_EQ(queue.batch().bytes, "14 \u00e4 line\nof two");
    EXPECT_EQ(queue.settle(), 1);
    queue.hand_over(5);
    EXPECT_EQ(queue.settle(), 1);
    EXPECT_TRUE(queue.is_empty());
}

TEST(SyslogQueue, WhatIsHandedOverCanWaitAgain) {
    SyslogQueue queue;
    for (char const* const text : {"a", "b", "c"})
        EXPECT_TRUE(queue.push(text));
    queue.hand_over(2);
    EXPECT_EQ(queue.handed_over(), 2);
    EXPECT_EQ(queue.waiting(), 1);
    EXPECT_EQ(queue.batch().bytes, "1 c");
    EXPECT_FALSE(queue.is_empty());
    queue.take_back();
    EXPECT_EQ(queue.batch().bytes, "1 a1 b1 c");
    EXPECT_EQ(queue.settle(), 0);
    EXPECT_EQ(queue.waiting(), 3);
}

TEST(SyslogQueue, HasLimits) {
    SyslogQueue many;
    for (std::size_t i = 0; i < SyslogQueue::most_messages; ++i)
        ASSERT_TRUE(many.push("x"));
    EXPECT_FALSE(many.push("x"));
    many.hand_over(1);
    EXPECT_FALSE(many.push("x")) << "it is not settled";
    EXPECT_EQ(many.settle(), 1);
    EXPECT_TRUE(many.push("x"));

    SyslogQueue long_ones;
    std::string const text(8192, 'x');
    std::size_t count = 0;
    while (long_ones.push(text))
        ++count;
    EXPECT_EQ(count, SyslogQueue::most_bytes / text.size());
    EXPECT_LE(long_ones.batch().bytes.size(), SyslogQueue::batch_bytes + 2 * text.size());
    long_ones.hand_over(1);
    EXPECT_EQ(long_ones.settle(), 1);
    EXPECT_TRUE(long_ones.push(text)) << "room is given back";
}

TEST(SyslogAnswers, AreToldOnce) {
    SyslogAnswers answers;
    EXPECT_EQ(answers.take(true), "");
    answers.begin(7);
    answers.sent(2);
    answers.lost(3);
    EXPECT_EQ(answers.take(false), "begin 7\ndone 2 0\n");
    EXPECT_TRUE(answers.has_lost());
    answers.sent(1);
    EXPECT_EQ(answers.take(true), "done 4 3\n");
    EXPECT_FALSE(answers.has_lost());
    EXPECT_EQ(answers.take(true), "");
}

}  // namespace

}  // namespace triton::agent
