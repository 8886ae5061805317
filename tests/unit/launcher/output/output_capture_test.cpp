#include "launcher/output/output_capture.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/launcher/output/file_size_limit.h"

namespace triton::launcher {

namespace {

using namespace std::chrono_literals;
using config::OutputFormat;
using config::WhenFull;

/// A pipe that the launcher writes to as its own standard output or error, and somebody reads or does not.
struct Reader {
    UniqueFd read_end;
    UniqueFd write_end;

    Reader() {
        int ends[2] = {-1, -1};
        if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
        read_end = UniqueFd{ends[0]};
        write_end = UniqueFd{ends[1]};
        EXPECT_EQ(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
        EXPECT_EQ(::fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    }
    [[nodiscard]] std::string read() const {
        std::string text;
        char buffer[4096];
        for (ssize_t size = 0; (size = ::read(read_end.get(), buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<std::size_t>(size));
        return text;
    }
};

class OutputCaptureTest : public testing::Test {
protected:
    static constexpr OutputKey web1{1, 1};
    static constexpr OutputKey web2{1, 2};
    static constexpr OutputKey db1{2, 1};

    OutputCaptureTest() {
        char name[] = "/tmp/triton-output.XXXXXX";
        directory = ::mkdtemp(name);
        file = directory + "/log";
        ::sigemptyset(&sigpipe);
        ::sigaddset(&sigpipe, SIGPIPE);
        (void)::sigprocmask(SIG_BLOCK, &sigpipe, &mask_before);  // as the launcher does
        console->attach(*loop, [this] { capture->resume(); });
    }
    ~OutputCaptureTest() override {
        capture.reset();
        timespec const at_once{};
        (void)::sigtimedwait(&sigpipe, nullptr, &at_once);  // of a test's own write
        (void)::sigprocmask(SIG_SETMASK, &mask_before, nullptr);
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }

    config::Output to_file(OutputFormat format, WhenFull when_full = WhenFull::block) const {
        return {config::OutputKind::captured, file, format, 10 << 20, 2, {}, when_full};
    }
    static config::Output to_console(OutputFormat format, WhenFull when_full = WhenFull::block) {
        return {config::OutputKind::captured, {}, format, 10 << 20, 2, {}, when_full};
    }
    void configure(std::uint32_t program, std::string_view name, config::Output const& output) {
        auto const done = capture->configure(program, name, output);
        ASSERT_TRUE(done) << done.error().text();
    }
    OutputCapture::WriteEnds ends(OutputKey key) {
        auto const opened = capture->write_ends(key);
        EXPECT_TRUE(opened) << opened.error().text();
        return opened.value_or(OutputCapture::WriteEnds{});
    }
    void write_out(OutputKey key, std::string_view text) { write(ends(key).out, text); }
    void write_err(OutputKey key, std::string_view text) { write(ends(key).err, text); }
    /// More than the pipe holds must not be written without somebody reading.
    static void write(int fd, std::string_view text) {
        ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }

    /// Runs the loop until `is_done`, which is asked after each round; fails after ten seconds.
    void run_until(std::function<bool()> const& is_done) {
        int beat[2] = {-1, -1};  // always readable, so that rounds never end
        ASSERT_EQ(::pipe2(beat, O_CLOEXEC), 0);
        UniqueFd const read_end{beat[0]};
        UniqueFd const write_end{beat[1]};
        write(write_end.get(), "x");
        TimePoint const limit = std::chrono::steady_clock::now() + 10s;
        auto const watch = loop->on_readable(read_end.get(), [&] {
            if (is_done() || std::chrono::steady_clock::now() > limit) loop->stop();
        });
        ASSERT_TRUE(loop->run());
        EXPECT_TRUE(is_done());
    }
    /// As many rounds as it takes to handle all that is ready.
    void run_dry() {
        int rounds = 0;
        run_until([&rounds] { return ++rounds > 20; });
    }
    static std::string content(std::string const& path) {
        std::ifstream stream(path, std::ios::binary);
        if (!stream) return "(none)";
        std::ostringstream text;
        text << stream.rdbuf();
        return std::move(text).str();
    }
    std::string log_text(std::uint32_t program) const {
        std::string text;
        capture->read_log(program, 0, [&text](LogChunk const& chunk) {
            text += chunk.text;
            return true;
        });
        return text;
    }
    /// As an upgrade does it: the state is all that is left, and its descriptors have other numbers.
    void upgrade(
        std::function<void()> const& configure_again,
        std::function<void(OutputState&)> const& change = [](OutputState&) {}) {
        capture->stop_reading();
        OutputState state = capture->export_state();
        change(state);
        for (OutputState::Pipe& pipe : state.pipes) {
            pipe.read_end = ::fcntl(pipe.read_end, F_DUPFD_CLOEXEC, 0);
            pipe.write_end = ::fcntl(pipe.write_end, F_DUPFD_CLOEXEC, 0);
        }
        capture.reset();
        capture = make_capture();
        configure_again();
        capture->import_state(std::move(state));
    }
    /// What passes through the console until nothing more comes, while the loop runs.
    std::string read_console(Reader const& reader, std::size_t size) {
        std::string text;
        run_until([&] {
            text += reader.read();
            return text.size() >= size;
        });
        return text;
    }

    std::string directory;
    std::string file;
    sigset_t sigpipe{};
    sigset_t mask_before{};
    Reader out;
    Reader err;
    std::unique_ptr<EventLoop> loop = std::move(*EventLoop::create());
    std::unique_ptr<Console> console = std::make_unique<Console>(out.write_end.get(), err.write_end.get());
    std::vector<std::string> failures;
    std::map<std::string, std::uint64_t, std::less<>> dropped;
    std::vector<std::string> lost;
    SyslogRelay relay{*loop, [this](std::uint64_t messages) { lost_by_agent += messages; }};
    std::uint64_t lost_by_agent = 0;
    std::unique_ptr<OutputCapture> capture = make_capture();

    /// Writes until nobody takes more; returns how much that was.
    template <class Writer>
    std::size_t write_until_stuck(Writer& writer) {
        int still = 0;
        std::size_t before = 0;
        run_until([&] {
            writer.write_on();
            still = writer.written() == before ? still + 1 : 0;
            before = writer.written();
            return still > 20;
        });
        return before;
    }

    std::unique_ptr<OutputCapture> make_capture() {
        return std::make_unique<OutputCapture>(
            *loop, *console, relay,
            OutputCapture::Callbacks{
                [this](std::string_view name, std::uint64_t lines) { dropped[std::string(name)] += lines; },
                [this](std::string_view, Error const& error) { failures.push_back(error.text()); },
                [this](std::string_view name, std::uint64_t lines) {
                    lost.push_back(std::string(name) + ": " + std::to_string(lines));
                },
                [this](std::string_view address, std::uint64_t messages) {
                    lost.push_back(std::string(address) + ": " + std::to_string(messages));
                }});
    }
};

TEST_F(OutputCaptureTest, PrefixedLinesGoToTheirStreams) {
    configure(1, "web", to_console(OutputFormat::prefix));
    write_out(web1, "one\ntwo\n");
    write_err(web1, "bad\n");
    write_out(web2, "other\n");
    std::string const expected = "web[1] | one\nweb[1] | two\nweb[2] | other\n";
    std::string text = read_console(out, expected.size());
    if (!text.starts_with("web[1]")) text = text.substr(15) + text.substr(0, 15);  // pipes have no order among them
    EXPECT_EQ(text, expected);
    EXPECT_EQ(err.read(), "web[1] | bad\n");
}

TEST_F(OutputCaptureTest, LineWaitsForItsEnd) {
    configure(1, "web", to_console(OutputFormat::prefix));
    write_out(web1, "begun");
    run_dry();
    EXPECT_EQ(out.read(), "");
    write_out(web1, " and ended\nnext");
    run_dry();
    EXPECT_EQ(out.read(), "web[1] | begun and ended\n");
}

TEST_F(OutputCaptureTest, WhatAProcessLeftIsToldWhenItEnds) {
    configure(1, "web", to_console(OutputFormat::prefix));
    write_out(web1, "first\nunfinished");
    capture->process_ended(web1);  // without a round of the loop
    EXPECT_EQ(out.read(), "web[1] | first\nweb[1] | unfinished\n");
    write_out(web1, "its successor\n");
    run_dry();
    EXPECT_EQ(out.read(), "web[1] | its successor\n");
}

TEST_F(OutputCaptureTest, SuccessorsUseTheSamePipe) {
    configure(1, "web", to_console(OutputFormat::prefix));
    OutputCapture::WriteEnds const first = ends(web1);
    capture->process_ended(web1);
    EXPECT_EQ(ends(web1).out, first.out);
    EXPECT_EQ(ends(web1).err, first.err);
    EXPECT_NE(first.out, first.err);
    EXPECT_NE(ends(web2).out, first.out);
}

TEST_F(OutputCaptureTest, GrandchildThatKeepsThePipeHoldsUpNothing) {
    configure(1, "web", to_console(OutputFormat::prefix));
    UniqueFd const grandchild{::fcntl(ends(web1).out, F_DUPFD_CLOEXEC, 0)};
    write_out(web1, "last words");
    capture->process_ended(web1);
    EXPECT_EQ(out.read(), "web[1] | last words\n");
    write(grandchild.get(), "still here\n");
    run_dry();
    EXPECT_EQ(out.read(), "web[1] | still here\n");
    capture->remove(web1);
    EXPECT_EQ(::write(grandchild.get(), "x", 1), -1);  // with EPIPE: nobody reads any more
}

TEST_F(OutputCaptureTest, JsonLines) {
    configure(1, "web", to_console(OutputFormat::json));
    write_err(web2, "a \"b\" \xff\n");
    run_dry();
    std::string const text = err.read();
    EXPECT_EQ(text.substr(0, 9), R"({"time":")");
    EXPECT_EQ(text.substr(36),
              "\",\"program\":\"web\",\"process\":2,\"stream\":\"stderr\",\"message\":\"a \\\"b\\\" \uFFFD\"}\n");
}

TEST_F(OutputCaptureTest, RawFileKeepsTheOrderOfBothStreams) {
    configure(1, "web", to_file(OutputFormat::raw));
    EXPECT_EQ(ends(web1).out, ends(web1).err);
    write_out(web1, "1\n");
    write_err(web1, "2\n");
    write_out(web1, "3\n");
    capture->process_ended(web1);
    EXPECT_EQ(content(file), "1\n2\n3\n");
}

TEST_F(OutputCaptureTest, ErrorHasADestinationOfItsOwn) {
    std::string const error_file = directory + "/err";
    config::Output output = to_file(OutputFormat::raw);
    output.error = {to_file(OutputFormat::prefix)};
    output.error.front().file = error_file;
    configure(1, "web", output);
    EXPECT_NE(ends(web1).out, ends(web1).err);
    write_out(web1, "one\n");
    run_dry();
    write_err(web1, "two\n");
    run_dry();
    write_out(web1, "three\n");
    run_dry();
    EXPECT_EQ(content(file), "one\nthree\n");
    EXPECT_EQ(content(error_file), "web[1] | two\n");
    EXPECT_EQ(log_text(1), "one\ntwo\nthree\n") << "what is kept has both, in their order";

    std::filesystem::rename(error_file, directory + "/moved");
    capture->reopen_files();
    write_err(web1, "four");
    run_dry();
    capture->process_ended(web1);
    EXPECT_EQ(content(error_file), "web[1] | four\n");
    EXPECT_EQ(content(directory + "/moved"), "web[1] | two\n");

    write_err(web1, "five\n");
    capture->forget(1);
    EXPECT_EQ(content(error_file), "web[1] | four\nweb[1] | five\n");
    EXPECT_FALSE(capture->write_ends(web1));
}

TEST_F(OutputCaptureTest, ErrorGoesToTheConsoleOrNotThroughUs) {
    config::Output output = to_file(OutputFormat::raw);
    output.error = {to_console(OutputFormat::prefix)};
    configure(1, "web", output);
    write_err(web1, "one\n");
    write_out(web1, "two\n");
    run_dry();
    EXPECT_EQ(err.read(), "web[1] | one\n");
    EXPECT_EQ(content(file), "two\n");

    // Whoever writes into the old pipe is heard where the rest goes.
    int const pipe = ends(web1).err;
    output.error = {{.kind = config::OutputKind::inherit}};
    configure(1, "web", output);
    EXPECT_EQ(ends(web1).err, -1);
    EXPECT_EQ(ends(web2).err, -1);
    write(pipe, "three\n");
    run_dry();
    EXPECT_EQ(content(file), "two\nthree\n");
    EXPECT_EQ(err.read(), "");
    output.error = {{.kind = config::OutputKind::null}};
    configure(1, "web", output);
    EXPECT_EQ(ends(web1).err, -1);
    output.error.clear();
    configure(1, "web", output);
    EXPECT_EQ(ends(web1).err, ends(web1).out);
}

TEST_F(OutputCaptureTest, FileOfTheErrorThatCannotBeOpenedChangesNothing) {
    configure(1, "web", to_file(OutputFormat::raw));
    config::Output output = to_file(OutputFormat::raw);
    output.file = directory + "/other";
    output.error = {to_file(OutputFormat::raw)};
    output.error.front().file = directory + "/missing/err";
    auto const done = capture->configure(1, "web", output);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().text(), "cannot open " + directory + "/missing/err: No such file or directory");
    EXPECT_EQ(ends(web1).err, ends(web1).out);
    write_err(web1, "one\n");
    run_dry();
    EXPECT_EQ(content(file), "one\n");
}

TEST_F(OutputCaptureTest, UpgradeKeepsBothDestinations) {
    std::string const error_file = directory + "/err";
    config::Output output = to_file(OutputFormat::raw);
    output.error = {to_file(OutputFormat::prefix)};
    output.error.front().file = error_file;
    configure(1, "web", output);
    OutputState state;
    {
        FileSizeLimit const limit{3};
        write_err(web1, "a\nb\n");
        run_dry();
        write_err(web1, "begun ");
        run_dry();
        state = capture->export_state();
    }
    for (OutputState::Pipe& pipe : state.pipes) {
        pipe.read_end = ::fcntl(pipe.read_end, F_DUPFD_CLOEXEC, 0);
        pipe.write_end = ::fcntl(pipe.write_end, F_DUPFD_CLOEXEC, 0);
    }
    capture.reset();
    capture = make_capture();
    configure(1, "web", output);
    capture->import_state(std::move(state));
    capture->retry();
    write_err(web1, "ended\n");
    write_out(web1, "out\n");
    run_dry();
    EXPECT_EQ(content(error_file), "web[1] | a\nweb[1] | b\nweb[1] | begun ended\n");
    EXPECT_EQ(content(file), "out\n");
    EXPECT_THAT(log_text(1), testing::StartsWith("a\nb\n"));
}

TEST_F(OutputCaptureTest, TimestampStandsBeforeEachLineOfARawFile) {
    config::Output stamped = to_file(OutputFormat::raw);
    stamped.timestamp = config::OutputTimestamp::rfc3339;
    configure(1, "web", stamped);
    write_out(web1, "one\ntw");
    write_err(web1, "o\n");  // the same pipe
    write_out(web1, "not ended");
    run_dry();
    capture->process_ended(web1);
    constexpr char const* line = "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{6}Z ";
    EXPECT_THAT(content(file),
                testing::MatchesRegex(std::string(line) + "one\n" + line + "two\n" + line + "not ended\n"));
    EXPECT_EQ(log_text(1), "one\ntwo\nnot ended") << "what is kept is what was written";
    configure(1, "web", to_file(OutputFormat::raw));
    write_out(web1, "plain\n");
    run_dry();
    EXPECT_TRUE(content(file).ends_with("Z not ended\nplain\n"));
}

TEST_F(OutputCaptureTest, RawFileHasTheBytesAsTheyAre) {
    configure(1, "web", to_file(OutputFormat::raw));
    std::string binary;
    for (int i = 0; i < 60000; ++i)
        binary += static_cast<char>(i * 7919 >> 3);
    write_out(web1, binary);
    write_out(web1, "no end");
    capture->process_ended(web1);
    EXPECT_EQ(content(file), binary + "no end");
    // The next line of somebody else begins a line of its own.
    write_out(web2, "next\n");
    run_dry();
    EXPECT_EQ(content(file), binary + "no end\nnext\n");
}

TEST_F(OutputCaptureTest, RawLinesOfSeveralProcessesAreNotTorn) {
    configure(1, "web", to_file(OutputFormat::raw));
    write_out(web1, "a1\na2 ");
    write_out(web2, "b1\nb2 ");
    run_dry();
    write_out(web1, "a3\n");
    run_dry();
    write_out(web2, "b3\n");
    run_dry();
    std::string const text = content(file);
    EXPECT_EQ(text.substr(6), "a2 a3\nb2 b3\n");
    EXPECT_TRUE(text.starts_with("a1\nb1\n") || text.starts_with("b1\na1\n"));
}

/// Writes more than a pipe holds, as far as it takes it, whenever the loop goes round.
class Writer {
public:
    Writer(int fd, std::string text) : fd_(::fcntl(fd, F_DUPFD_CLOEXEC, 0)), text_(std::move(text)) {
        EXPECT_EQ(::fcntl(fd_.get(), F_SETFL, O_NONBLOCK), 0);
    }
    bool write_on() {
        while (written_ < text_.size()) {
            ssize_t const size = ::write(fd_.get(), text_.data() + written_, text_.size() - written_);
            if (size < 0) return false;
            written_ += static_cast<std::size_t>(size);
        }
        return true;
    }
    [[nodiscard]] std::size_t written() const { return written_; }

private:
    UniqueFd fd_;
    std::string text_;
    std::size_t written_ = 0;
};

TEST_F(OutputCaptureTest, LineOfAMebibyteComesInPieces) {
    configure(1, "web", to_console(OutputFormat::prefix));
    std::string line(1 << 20, 'x');
    for (std::size_t i = 0; i < line.size(); i += 1000)
        line[i] = static_cast<char>('a' + i / 1000 % 26);
    Writer writer{ends(web1).out, line + "\nnext\n"};
    std::string text;
    run_until([&] {
        writer.write_on();
        text += out.read();
        return text.ends_with("web[1] | next\n");
    });
    std::string expected = "web[1] | " + line.substr(0, longest_line) + "\n";
    for (std::size_t at = longest_line; at < line.size(); at += longest_line)
        expected += "web[1] + " + line.substr(at, longest_line) + "\n";
    expected += "web[1] | next\n";
    EXPECT_TRUE(text == expected) << text.size() << " bytes, expected " << expected.size();
}

TEST_F(OutputCaptureTest, LineOfAMebibyteInARawFileIsWhole) {
    configure(1, "web", to_file(OutputFormat::raw));
    std::string const line(1 << 20, 'x');
    Writer writer{ends(web1).out, line + "\nnext\n"};
    run_until([&] { return writer.write_on() && content(file).size() >= line.size() + 6; });
    EXPECT_TRUE(content(file) == line + "\nnext\n");
}

TEST_F(OutputCaptureTest, LongLineOfControlCharactersFitsIntoBoundedMemory) {
    configure(1, "web", to_console(OutputFormat::json));
    std::string const line(longest_line, '\x01');
    Writer writer{ends(web1).out, line + "\n"};
    std::string text;
    std::size_t escapes = 0;
    run_until([&] {
        writer.write_on();
        text += out.read();
        return text.ends_with("\\u0001\"}\n");
    });
    for (std::size_t at = text.find("\\u0001"); at != std::string::npos; at = text.find("\\u0001", at + 6))
        ++escapes;
    EXPECT_EQ(escapes, line.size());
    EXPECT_EQ(std::ranges::count(text, '\n'), 7);  // 6 x 64 KiB, and what did not fit into them
}

TEST_F(OutputCaptureTest, SlowReaderBlocksTheProgramAndLosesNothing) {
    configure(1, "web", to_console(OutputFormat::prefix));
    std::string input;
    std::string expected;
    for (int i = 0; i < 40000; ++i) {
        input += "line " + std::to_string(i) + "\n";
        expected += "web[1] | line " + std::to_string(i) + "\n";
    }
    Writer writer{ends(web1).out, input};
    // Nobody reads: it stands still with bounded memory, and the loop has nothing to do for it.
    (void)write_until_stuck(writer);
    EXPECT_LT(writer.written(), log::LogOutput::capacity + 4 * longest_line);
    EXPECT_LT(writer.written(), input.size());
    // Another program is not held up.
    configure(2, "db", to_file(OutputFormat::raw));
    write_out(db1, "fine\n");
    run_dry();
    EXPECT_EQ(content(file), "fine\n");
    std::string text;
    run_until([&] {
        writer.write_on();
        text += out.read();
        return text.size() >= expected.size();
    });
    EXPECT_TRUE(text == expected);
    EXPECT_EQ(dropped.size(), 0);
}

TEST_F(OutputCaptureTest, EndOfARunIsKeptWhileTheReaderIsSlow) {
    configure(1, "web", to_console(OutputFormat::prefix));
    std::string input;
    for (int i = 0; i < 40000; ++i)
        input += "line " + std::to_string(i) + "\n";
    Writer writer{ends(web1).out, input + "unfinished"};
    bool is_written = false;
    std::string text;
    run_until([&] {
        is_written = writer.write_on();
        if (!is_written) text += out.read();
        return is_written;
    });
    capture->process_ended(web1);
    write_out(web1, "successor\n");
    run_until([&] {
        text += out.read();
        return text.ends_with("successor\n");
    });
    EXPECT_TRUE(text.ends_with("web[1] | line 39999\nweb[1] | unfinished\nweb[1] | successor\n"))
        << text.substr(text.size() - 100);
}

TEST_F(OutputCaptureTest, SlowReaderMakesLinesDropWhereThatIsAskedFor) {
    configure(1, "web", to_console(OutputFormat::prefix, WhenFull::drop));
    constexpr int lines = 60000;
    std::string input;
    for (int i = 0; i < lines; ++i)
        input += "line " + std::to_string(i) + "\n";
    Writer writer{ends(web1).out, input};
    run_until([&] { return writer.write_on(); });  // though nobody reads
    std::string text;
    run_until([&] {
        text += out.read();
        return !console->is_blocked() && text.ends_with("\n");
    });
    write_out(web1, "the end\n");
    run_until([&] {
        text += out.read();
        return text.ends_with("the end\n");
    });
    auto const told = static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
    EXPECT_GT(dropped["web"], 0);
    EXPECT_EQ(told + dropped["web"], lines + 1);
    // Only whole lines, in order.
    std::istringstream stream(text);
    int last = -1;
    for (std::string line; std::getline(stream, line) && line != "web[1] | the end";) {
        ASSERT_EQ(line.substr(0, 14), "web[1] | line ");
        int const number = std::stoi(line.substr(14));
        ASSERT_GT(number, last);
        last = number;
    }
}

TEST_F(OutputCaptureTest, DeadReaderHoldsUpNobody) {
    configure(1, "web", to_console(OutputFormat::prefix));
    out.read_end = {};
    std::string const input(200000, '\n');
    Writer writer{ends(web1).out, input};
    run_until([&] { return writer.write_on(); });
    write_err(web1, "the other stream lives\n");
    run_dry();
    EXPECT_EQ(err.read(), "web[1] | the other stream lives\n");
    sigset_t pending;
    ::sigpending(&pending);
    EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

TEST_F(OutputCaptureTest, FullDiskIsToldOnceAndTriedAgain) {
    file = "/dev/full";
    configure(1, "web", to_file(OutputFormat::raw));
    write_out(web1, "a\n");
    run_dry();
    write_out(web1, "b\n");
    run_dry();
    EXPECT_EQ(failures, std::vector<std::string>{"cannot write to /dev/full: No space left on device"});
    EXPECT_TRUE(capture->is_to_retry());
    capture->retry();
    EXPECT_TRUE(capture->is_to_retry());
    EXPECT_EQ(failures.size(), 1);
    // Another file: what waits goes there.
    file = directory + "/log";
    configure(1, "web", to_file(OutputFormat::raw));
    capture->retry();
    EXPECT_EQ(content(file), "a\nb\n");
    EXPECT_FALSE(capture->is_to_retry());
}

TEST_F(OutputCaptureTest, FullDiskBlocksOrDropsAsAskedFor) {
    file = "/dev/full";
    configure(1, "web", to_file(OutputFormat::json, WhenFull::block));
    Writer blocked{ends(web1).out, std::string(1 << 18, '\n')};
    int rounds = 0;
    run_until([&] { return blocked.write_on() || ++rounds > 200; });
    EXPECT_LT(blocked.written(), 1 << 18);
    configure(1, "web", to_file(OutputFormat::json, WhenFull::drop));
    run_until([&] { return blocked.write_on(); });
    file = directory + "/log";
    configure(1, "web", to_file(OutputFormat::json, WhenFull::drop));
    capture->retry();
    capture->process_ended(web1);
    EXPECT_GT(dropped["web"], 0);
    EXPECT_EQ(dropped["web"] + static_cast<std::uint64_t>(std::ranges::count(content(file), '\n')), 1 << 18);
}

TEST_F(OutputCaptureTest, WhatWaitsIsWrittenAfterAnUpgradeThoughNobodyWrites) {
    configure(1, "web", to_file(OutputFormat::prefix));
    OutputState state;
    {
        FileSizeLimit const limit{3};
        write_out(web1, "a\nb\n");
        run_dry();
        state = capture->export_state();
    }
    for (OutputState::Pipe& pipe : state.pipes) {
        pipe.read_end = ::fcntl(pipe.read_end, F_DUPFD_CLOEXEC, 0);
        pipe.write_end = ::fcntl(pipe.write_end, F_DUPFD_CLOEXEC, 0);
    }
    capture.reset();
    capture = make_capture();
    configure(1, "web", to_file(OutputFormat::prefix));
    capture->import_state(std::move(state));
    EXPECT_TRUE(capture->is_to_retry());
    run_until([this] { return content(file) == "web[1] | a\nweb[1] | b\n"; });
}

TEST_F(OutputCaptureTest, WhatWaitsForAFileThatAnUpgradeCannotOpenIsTold) {
    configure(1, "web", to_file(OutputFormat::prefix));
    FileSizeLimit const limit{3};
    write_out(web1, "a\nb\n");
    run_dry();
    upgrade([this] { configure(1, "web", to_console(OutputFormat::prefix)); });
    EXPECT_EQ(lost, std::vector<std::string>{"web: 2"});
}

TEST_F(OutputCaptureTest, WhatWaitsOfAProgramThatLeavesIsWrittenLater) {
    configure(1, "web", to_file(OutputFormat::prefix));
    {
        FileSizeLimit const limit{3};
        write_out(web1, "a\nb\n");
        run_dry();
        capture->remove(web1);
        capture->forget(1);
        EXPECT_TRUE(capture->is_to_retry());
        capture->retry();
        EXPECT_EQ(content(file), "web");
    }
    capture->retry();
    EXPECT_EQ(content(file), "web[1] | a\nweb[1] | b\n");
    EXPECT_FALSE(capture->is_to_retry());
    EXPECT_EQ(lost, std::vector<std::string>{});
}

TEST_F(OutputCaptureTest, WhatCannotWaitIsTold) {
    FileSizeLimit const limit{3};
    for (std::uint32_t program = 1; program <= 17; ++program) {
        file = directory + "/log" + std::to_string(program);
        configure(program, "web" + std::to_string(program), to_file(OutputFormat::prefix));
        write_out({program, 1}, "a\nb\n");
        run_dry();
        capture->forget(program);
    }
    EXPECT_EQ(lost, std::vector<std::string>{"web1: 2"});
    (void)capture->export_state();
    EXPECT_EQ(lost.size(), 1U) << "the upgrade may be refused";
    capture->tell_waiting_as_lost();
    EXPECT_EQ(lost.size(), 17U);
    EXPECT_TRUE(capture->is_to_retry()) << "the upgrade may still fail";
}

TEST_F(OutputCaptureTest, RotatedFilesHoldEverything) {
    config::Output output = to_file(OutputFormat::raw);
    output.max_size = 10000;
    output.max_files = 20;
    configure(1, "web", output);
    std::string input;
    for (int i = 0; i < 10000; ++i)
        input += "line " + std::to_string(i) + "\n";
    Writer writer{ends(web1).out, input};
    run_until([&] { return writer.write_on(); });
    capture->process_ended(web1);
    std::string together;
    for (int i = 20; i > 0; --i) {
        std::string const part = content(file + "." + std::to_string(i));
        if (part == "(none)") continue;
        EXPECT_LE(part.size(), 10000);
        EXPECT_GT(part.size(), 9900);
        EXPECT_EQ(part.back(), '\n');
        together += part;
    }
    EXPECT_TRUE(together + content(file) == input);
}

TEST_F(OutputCaptureTest, FileIsOpenedAgainOnRequest) {
    configure(1, "web", to_file(OutputFormat::prefix));
    write_out(web1, "a\n");
    run_dry();
    std::filesystem::rename(file, file + ".moved");
    capture->reopen_files();
    write_out(web1, "b\n");
    run_dry();
    EXPECT_EQ(content(file + ".moved"), "web[1] | a\n");
    EXPECT_EQ(content(file), "web[1] | b\n");
    std::filesystem::rename(directory, directory + "-moved");
    capture->reopen_files();
    EXPECT_EQ(failures, std::vector<std::string>{"cannot open " + file + ": No such file or directory"});
    std::filesystem::rename(directory + "-moved", directory);
}

TEST_F(OutputCaptureTest, MissingDirectoryChangesNothing) {
    configure(1, "web", to_file(OutputFormat::prefix));
    std::string const good = file;
    file = directory + "/no/log";
    auto const done = capture->configure(1, "web", to_file(OutputFormat::prefix));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ENOENT);
    write_out(web1, "a\n");
    run_dry();
    EXPECT_EQ(content(good), "web[1] | a\n");
}

TEST_F(OutputCaptureTest, AFileGoesFromOneProgramToAnother) {
    configure(1, "web", to_file(OutputFormat::prefix));
    write_out(web1, "a\n");
    run_dry();
    configure(2, "db", to_file(OutputFormat::prefix));
    capture->forget(1);
    write_out({2, 1}, "b\n");
    run_dry();
    EXPECT_EQ(content(file), "web[1] | a\ndb[1] | b\n");
}

TEST_F(OutputCaptureTest, SettingsChangeWhileItRuns) {
    configure(1, "web", to_console(OutputFormat::prefix));
    write_out(web1, "a\n");
    run_dry();
    configure(1, "web", to_file(OutputFormat::raw));
    write_out(web1, "b\n");
    write_err(web1, "c\n");
    run_dry();
    configure(1, "web", to_console(OutputFormat::raw));
    write_err(web1, "d\n");
    run_dry();
    EXPECT_EQ(out.read(), "web[1] | a\n");
    EXPECT_EQ(content(file), "b\nc\n");
    EXPECT_EQ(err.read(), "d\n");
}

TEST_F(OutputCaptureTest, SameFileBehindBothStreamsHasOneBuffer) {
    Console both{out.write_end.get(), out.write_end.get()};
    EXPECT_EQ(&both.out(), &both.err());
    EXPECT_NE(&console->out(), &console->err());
}

TEST_F(OutputCaptureTest, LinesOfTheLogStayWholeBetweenThoseOfPrograms) {
    configure(1, "web", to_console(OutputFormat::prefix));
    std::string input;
    for (int i = 0; i < 20000; ++i)
        input += "line " + std::to_string(i) + "\n";
    Writer writer{ends(web1).out, input};
    std::string text;
    int logged = 0;
    bool is_written = false;
    run_until([&] {
        is_written = writer.write_on();
        if (logged < 200) console->out().append("log " + std::to_string(logged++) + "\n");
        console->flush();
        char some[100];  // so slowly that writes stop within lines
        ssize_t const size = ::read(out.read_end.get(), some, sizeof some);
        if (size > 0) text.append(some, static_cast<std::size_t>(size));
        if (logged == 200) text += out.read();
        return is_written && text.find("line 19999\n") != std::string::npos &&
               text.find("log 199\n") != std::string::npos;
    });
    std::istringstream stream(text);
    int next_line = 0;
    int next_log = 0;
    for (std::string line; std::getline(stream, line);) {
        if (line == "log " + std::to_string(next_log))
            ++next_log;
        else
            ASSERT_EQ(line, "web[1] | line " + std::to_string(next_line++));
    }
    EXPECT_EQ(next_line, 20000);
    EXPECT_EQ(next_log, 200);
}

TEST_F(OutputCaptureTest, RemovedNumberIsDrainedFirst) {
    configure(1, "web", to_file(OutputFormat::raw));
    write_out(web1, "to the last\nbyte");
    capture->remove(web1);
    EXPECT_EQ(content(file), "to the last\nbyte");
    capture->remove(web1);  // once is enough
    write_out(web1, "again\n");
    run_dry();
    EXPECT_EQ(content(file), "to the last\nbyte\nagain\n");
}

/// Its id may be another's by the time that there is room for it.
TEST_F(OutputCaptureTest, LateOutputOfWhoHasLeftIsNobodyElses) {
    configure(1, "web", to_console(OutputFormat::raw));
    Writer writer{ends(web1).out, std::string(1 << 19, '\n')};
    std::size_t const before = write_until_stuck(writer);
    capture->remove(web1);
    capture->forget(1);
    configure(1, "other", to_console(OutputFormat::raw));
    std::size_t told = 0;
    capture->follow([&told](std::uint32_t, LogChunk const& chunk) { told += chunk.text.size(); });
    std::size_t read = 0;
    run_until([&] {
        read += out.read().size();
        return read >= before;
    });
    EXPECT_EQ(told, 0);
    EXPECT_EQ(log_text(1), "");
}

TEST_F(OutputCaptureTest, RemovedNumberIsDrainedEvenWhenTheReaderIsSlow) {
    configure(1, "web", to_console(OutputFormat::raw));
    Writer writer{ends(web1).out, std::string(1 << 19, '\n')};
    std::size_t const before = write_until_stuck(writer);
    capture->forget(1);
    EXPECT_FALSE(capture->write_ends(web1));
    std::string text;
    run_until([&] {
        text += out.read();
        return text.size() >= before;
    });
    EXPECT_EQ(text.size(), before);
    EXPECT_FALSE(writer.write_on());
    EXPECT_EQ(errno, EPIPE);  // drained and closed
}

TEST_F(OutputCaptureTest, FlushAtTheEndWaitsForASlowReaderButNotForEver) {
    configure(1, "web", to_console(OutputFormat::raw));
    write_out(web1, std::string(60000, '\n') + "end");
    capture->flush(20ms);  // nobody reads
    std::string text = out.read();
    EXPECT_EQ(text.size(), 4096);
    // The rest is still there.
    run_until([&] {
        text += out.read();
        return text.size() >= 60004;
    });
    EXPECT_TRUE(text == std::string(60000, '\n') + "end\n");
}

TEST_F(OutputCaptureTest, FlushAtTheEndWaitsForWhoeverReads) {
    configure(1, "web", to_console(OutputFormat::raw));
    write_out(web1, std::string(60000, '\n') + "end");
    std::string text;
    Reader const stop;
    std::thread reader([&] {
        std::array<pollfd, 2> ready{{{out.read_end.get(), POLLIN, 0}, {stop.read_end.get(), POLLIN, 0}}};
        while (::poll(ready.data(), ready.size(), -1) > 0 && ready[1].revents == 0)
            text += out.read();
    });
    capture->flush(10s);
    write(stop.write_end.get(), "x");
    reader.join();
    EXPECT_TRUE(text + out.read() == std::string(60000, '\n') + "end\n");
}

TEST(ConsoleTest, WhatWasNotFlushedIsWrittenAtTheEnd) {
    Reader const reader;
    Console console(reader.write_end.get(), reader.write_end.get());
    console.out().append("one\n");
    console.drain(0ms);
    EXPECT_EQ(reader.read(), "one\n");
}

// ctl logs

TEST_F(OutputCaptureTest, TheLastIsKeptForEachProgram) {
    configure(1, "web", to_file(OutputFormat::json));
    write_out(web1, "a\nb\n");
    run_dry();
    write_out(web2, "c\nd\ne\n");
    run_dry();
    EXPECT_EQ(log_text(1), "a\nb\nc\nd\ne\n");
    EXPECT_EQ(log_text(2), "");
}

TEST_F(OutputCaptureTest, FollowersHearOfEachChunk) {
    std::string text;
    capture->follow([&text](std::uint32_t program, LogChunk const& chunk) {
        text += std::to_string(program) + ":" + std::to_string(chunk.process) + ":" +
                std::string(stream_name(chunk.stream)) + ":" + std::string(chunk.text);
    });
    configure(1, "web", to_console(OutputFormat::prefix));
    configure(2, "db", to_file(OutputFormat::raw));
    write_out(web2, "a\nb");
    run_dry();
    write_err(web2, "c\n");
    run_dry();
    write_err(db1, "d\n");
    run_dry();
    EXPECT_EQ(text, "1:2:stdout:a\n1:2:stderr:c\n2:1:stdout:d\n");
    capture->follow({});
    write_out(web2, "\n");
    run_dry();
    EXPECT_EQ(text.size(), std::string_view("1:2:stdout:a\n1:2:stderr:c\n2:1:stdout:d\n").size());
}

// upgrade

TEST_F(OutputCaptureTest, UpgradeLosesNothing) {
    configure(1, "web", to_console(OutputFormat::prefix));
    configure(2, "db", to_file(OutputFormat::raw));
    std::string input;
    std::string expected;
    for (int i = 0; i < 40000; ++i) {
        input += "line " + std::to_string(i) + "\n";
        expected += "web[1] | line " + std::to_string(i) + "\n";
    }
    Writer writer{ends(web1).out, input};
    write_out(db1, "begun ");
    std::string text;
    for (int round = 0; round < 5; ++round) {
        // Into the middle of everything: text waits in pipes, in lines that have begun, and for room.
        int rounds = 0;
        run_until([&] {
            writer.write_on();
            if (rounds % 4 == 0) text += out.read();
            return ++rounds > 20;
        });
        upgrade([this] {
            configure(1, "web", to_console(OutputFormat::prefix));
            configure(2, "db", to_file(OutputFormat::raw));
        });
    }
    write_out(db1, "ended\n");
    run_until([&] {
        writer.write_on();
        text += out.read();
        return text.size() >= expected.size();
    });
    EXPECT_TRUE(text == expected);
    EXPECT_EQ(content(file), "begun ended\n");
    EXPECT_EQ(log_text(2), "begun ended\n");
    EXPECT_TRUE(log_text(1).ends_with("line 39999\n"));
}

/// Of a line that is too long for one piece the rest comes after the upgrade: marked as such, or behind it in a raw
/// file.
TEST_F(OutputCaptureTest, UpgradeInTheMiddleOfALongLineDividesItNot) {
    auto const configure_both = [this] {
        configure(1, "web", to_console(OutputFormat::prefix));
        configure(2, "db", to_file(OutputFormat::raw));
    };
    configure_both();
    std::string const begin(longest_line, 'x');
    std::string text;
    for (OutputKey const& key : {web1, db1}) {
        Writer writer{ends(key).out, begin + "y"};
        run_until([&] {
            text += out.read();
            return writer.write_on() && (key.program == 1 ? !text.empty() : content(file).size() >= begin.size());
        });
    }
    upgrade(configure_both);
    write_out(web1, "z\nnext\n");
    write_out(db1, "z\nnext\n");
    run_until([&] {
        text += out.read();
        return text.ends_with("next\n") && content(file).ends_with("next\n");
    });
    EXPECT_TRUE(text == "web[1] | " + begin + "\nweb[1] + yz\nweb[1] | next\n") << text.substr(longest_line);
    EXPECT_TRUE(content(file) == begin + "yz\nnext\n") << content(file).substr(longest_line);
}

TEST_F(OutputCaptureTest, UpgradeInTheMiddleOfADroppedLineDropsItsRest) {
    std::string const real = file;
    file = "/dev/full";
    auto const configure_it = [this] { configure(1, "web", to_file(OutputFormat::raw, WhenFull::drop)); };
    configure_it();
    std::string const full(LogFile::capacity, '\n');
    Writer writer{ends(web1).out, full + std::string(longest_line, 'x') + "y"};
    run_until([&] { return writer.write_on(); });
    run_dry();
    upgrade(configure_it);
    file = real;
    configure_it();  // what waits goes there, and there is room
    write_out(web1, "rest\nnext\n");
    run_until([&] { return content(file).ends_with("next\n"); });
    EXPECT_EQ(content(file).find_first_not_of('\n'), content(file).size() - 5) << "the rest of the line is there";
    auto const lines = static_cast<std::uint64_t>(std::ranges::count(content(file), '\n'));
    EXPECT_EQ(lines + dropped["web"], full.size() + 2);
}

TEST_F(OutputCaptureTest, UpgradeKeepsLinesOfSeveralProcessesApart) {
    auto const configure_it = [this] { configure(2, "db", to_file(OutputFormat::raw)); };
    configure_it();
    std::string const begin(longest_line, 'x');
    Writer writer{ends(db1).out, begin + "y"};
    run_until([&] { return writer.write_on() && content(file).size() >= begin.size(); });
    upgrade(configure_it);
    write_out({2, 2}, "of another\n");
    run_until([&] { return content(file).ends_with("another\n"); });
    EXPECT_TRUE(content(file) == begin + "\nof another\n") << content(file).substr(longest_line);
}

/// The process has ended, and what it wrote waits for a reader: its last line is ended by the next version.
TEST_F(OutputCaptureTest, UpgradeKnowsWhoseRunHasEnded) {
    auto const configure_it = [this] { configure(1, "web", to_console(OutputFormat::prefix)); };
    configure_it();
    std::string input;
    for (int i = 0; i < 40000; ++i)
        input += "line " + std::to_string(i) + "\n";
    Writer writer{ends(web1).out, input + "unfinished"};
    std::string text;
    run_until([&] {
        bool const is_written = writer.write_on();
        if (!is_written) text += out.read();
        return is_written;
    });
    capture->process_ended(web1);
    ASSERT_FALSE(text.ends_with("unfinished\n"));
    upgrade(configure_it);
    write_out(web1, "successor\n");
    run_until([&] {
        text += out.read();
        return text.ends_with("successor\n");
    });
    EXPECT_TRUE(text.ends_with("web[1] | line 39999\nweb[1] | unfinished\nweb[1] | successor\n"))
        << text.substr(text.size() - 100);
}

/// The number came back while the pipe that it had before still waits for the disk.
TEST_F(OutputCaptureTest, AnUpgradeKeepsAnEarlierPipeApart) {
    configure(1, "web", to_file(OutputFormat::prefix));
    UniqueFd fresh;
    {
        FileSizeLimit const limit{3};
        Writer writer{ends(web1).out, std::string(1 << 20, 'x')};
        for (std::size_t before = 1; before != writer.written();) {
            before = writer.written();
            writer.write_on();
            run_dry();
        }
        capture->remove(web1);
        fresh = UniqueFd{::fcntl(ends(web1).out, F_DUPFD_CLOEXEC, 0)};
        upgrade([&] { configure(1, "web", to_file(OutputFormat::prefix)); });
    }
    write(fresh.get(), "fresh\n");
    run_until([&] { return content(file).contains("web[1] | fresh\n"); });
}

/// Its id may be another program's in the next version, which then closes the pipe. What was in it is told.
TEST_F(OutputCaptureTest, UpgradeTakesNoPipesOfAProgramThatHasLeft) {
    constexpr std::uint64_t lines = 400'000;
    FileSizeLimit const limit{3};
    configure(1, "web", to_file(OutputFormat::raw));
    Writer writer{ends(web1).out, std::string(lines, '\n')};
    std::uint64_t const written = write_until_stuck(writer);
    ASSERT_LT(written, lines);
    capture->remove(web1);
    capture->forget(1);
    upgrade([this] { configure(1, "other", to_console(OutputFormat::raw)); },
            [&](OutputState& state) {
                EXPECT_EQ(state.pipes.size(), 0U);
                capture->tell_waiting_as_lost();
            });
    EXPECT_FALSE(capture->has_pipes(1));
    EXPECT_EQ(log_text(1), "");
    std::uint64_t told = 0;
    for (std::string const& one : lost) {
        EXPECT_TRUE(one.starts_with("web: "));
        told += std::stoull(one.substr(5));
    }
    EXPECT_EQ(told + content(file).size(), written);
}

TEST_F(OutputCaptureTest, FailedUpgradeKeepsThePipesOfAProgramThatHasLeft) {
    configure(1, "web", to_file(OutputFormat::raw));
    std::uint64_t written = 0;
    {
        FileSizeLimit const limit{3};
        Writer writer{ends(web1).out, std::string(400'000, '\n')};
        written = write_until_stuck(writer);
        capture->remove(web1);
        capture->forget(1);
        capture->stop_reading();
        (void)capture->export_state();
        capture->tell_waiting_as_lost();
        capture->resume_reading();
    }
    capture->retry();
    run_until([&] { return content(file).size() == written; });
}

/// The count was lowered, and what the process has left still waits for the disk.
TEST_F(OutputCaptureTest, UpgradeGivesNoNumberAPipeThatItHasLeft) {
    configure(1, "web", to_file(OutputFormat::raw));
    std::optional<FileSizeLimit> limit(3);
    Writer writer{ends(web2).out, std::string(1 << 20, '\n')};
    std::size_t const written = write_until_stuck(writer);
    ASSERT_LT(written, 1 << 20);
    capture->remove(web2);
    upgrade([this] { configure(1, "web", to_file(OutputFormat::raw)); });
    EXPECT_FALSE(capture->has_pipes(1));
    EXPECT_EQ(capture->run_begin(web2, OutputStream::out), UINT64_MAX);
    limit.reset();
    capture->retry();
    run_until([&] { return content(file).size() == written; });
    EXPECT_FALSE(writer.write_on());
    EXPECT_EQ(errno, EPIPE) << "drained and closed";
}

TEST_F(OutputCaptureTest, FailedUpgradeGoesOn) {
    configure(1, "web", to_console(OutputFormat::prefix));
    write_out(web1, "a\n");
    run_dry();
    capture->stop_reading();
    OutputState const state = capture->export_state();
    EXPECT_EQ(state.pipes.size(), 2);
    write_out(web1, "b\n");
    run_dry();
    EXPECT_EQ(out.read(), "web[1] | a\n");
    capture->resume_reading();
    run_dry();
    EXPECT_EQ(out.read(), "web[1] | b\n");
}

/// What a terminal shows, and whether it is to be read.
struct Screen : OutputCapture::TerminalReader {
    std::string seen;
    bool is_waiting = false;
    void shown(OutputKey, std::string_view bytes) override { seen += bytes; }
    bool is_to_wait(OutputKey) const override { return is_waiting; }
};

TEST_F(OutputCaptureTest, TerminalIsShownAsItIsAndKeptInLines) {
    Screen screen;
    capture->read_terminals_for(screen);
    configure(1, "web", to_file(OutputFormat::raw));
    auto const slave = capture->open_terminal(web1, {24, 80}, ::geteuid());
    ASSERT_TRUE(slave) << slave.error().text();
    EXPECT_GE(capture->terminal(web1), 0);
    EXPECT_EQ(capture->terminal(web2), -1);
    write(*slave, "one\na\rb\nready> ");
    run_until([&] { return screen.seen.ends_with("ready> "); });
    EXPECT_EQ(screen.seen, "one\r\na\rb\r\nready> ");
    EXPECT_EQ(content(file), "one\na\rb\n");
    EXPECT_EQ(capture->begun_line(web1), "ready> ");
    write(*slave, "bye\n");
    capture->process_ended(web1);
    EXPECT_EQ(content(file), "one\na\rb\nready> bye\n");
    EXPECT_TRUE(screen.seen.ends_with("ready> bye\r\n"));
    EXPECT_EQ(capture->terminal(web1), -1);
}

TEST_F(OutputCaptureTest, TerminalWaitsForWhoLooksAtIt) {
    Screen screen;
    screen.is_waiting = true;
    capture->read_terminals_for(screen);
    configure(1, "web", to_file(OutputFormat::raw));
    auto const slave = capture->open_terminal(web1, {24, 80}, ::geteuid());
    ASSERT_TRUE(slave) << slave.error().text();
    write(*slave, "one\n");
    int rounds = 0;
    run_until([&] { return ++rounds > 5; });
    EXPECT_EQ(screen.seen, "");
    screen.is_waiting = false;
    capture->resume();
    run_until([&] { return screen.seen == "one\r\n"; });
    screen.is_waiting = true;
    write(*slave, "two\n");
    run_until([&, left = 5]() mutable { return --left < 0; });
    capture->process_ended(web1);  // now nobody is waited for
    EXPECT_EQ(screen.seen, "one\r\ntwo\r\n");
    EXPECT_EQ(content(file), "one\ntwo\n");
}

TEST_F(OutputCaptureTest, AProgramThatLeavesTakesItsTerminalsAlong) {
    configure(1, "web", to_file(OutputFormat::raw));
    configure(2, "db", to_console(OutputFormat::raw));
    auto const slave = capture->open_terminal(web1, {24, 80}, ::geteuid());
    ASSERT_TRUE(slave) << slave.error().text();
    ASSERT_TRUE(capture->open_terminal(db1, {24, 80}, ::geteuid()));
    write(*slave, "last words\n");
    capture->forget(1);
    EXPECT_EQ(content(file), "last words\n");
    EXPECT_EQ(capture->terminal(web1), -1);
    EXPECT_GE(capture->terminal(db1), 0) << "it is another one's";
}

TEST_F(OutputCaptureTest, WhatIsSwitchedOnATerminalIsKnownAlsoAfterAnUpgrade) {
    auto const configure_it = [&] { configure(1, "web", to_file(OutputFormat::raw)); };
    configure_it();
    auto const opened = capture->open_terminal(web1, {24, 80}, ::geteuid());
    ASSERT_TRUE(opened) << opened.error().text();
    UniqueFd const slave{::fcntl(*opened, F_DUPFD_CLOEXEC, 0)};
    EXPECT_EQ(capture->terminal_modes(web1).redo(), "");
    EXPECT_EQ(capture->terminal_modes(web2).redo(), "") << "it has no terminal";
    std::string const modes = "\033[?1049h\033[?1002h\033[?2004h";
    auto const is_as = [&](std::string_view text) { return capture->terminal_modes(web1).redo() == text; };
    write(slave.get(), modes);
    run_until([&] { return is_as(modes); });
    upgrade(configure_it);
    EXPECT_TRUE(is_as(modes));
    write(slave.get(), "\033[?1049l\033[?1002l");
    run_until([&] { return is_as("\033[?2004h"); });
    upgrade(configure_it, [](OutputState& state) { state.pipes.at(0).modes.clear(); });  // of a version without it
    EXPECT_TRUE(is_as(""));
    write(slave.get(), modes);
    run_until([&] { return is_as(modes); });
    ASSERT_TRUE(capture->open_terminal(web1, {24, 80}, ::geteuid()));  // of the next process
    EXPECT_TRUE(is_as(""));
}

TEST_F(OutputCaptureTest, UpgradeClosesWhatIsNotWantedAnyMore) {
    configure(1, "web", to_console(OutputFormat::prefix));
    OutputState state;
    int pair[2] = {-1, -1};
    ASSERT_EQ(::pipe2(pair, O_CLOEXEC), 0);
    state.pipes.push_back({{7, 1}, OutputStream::out, pair[0], pair[1]});
    capture->import_state(std::move(state));
    EXPECT_EQ(::fcntl(pair[0], F_GETFD), -1);
    EXPECT_EQ(::fcntl(pair[1], F_GETFD), -1);
}

// Files by the number.

class NumberedFiles : public OutputCaptureTest {
protected:
    config::Output by_number(OutputFormat format = OutputFormat::raw) const {
        config::Output output = to_file(format);
        output.file.reset();
        output.file_argument = {
            .type = config::ArgumentType::concatenate,
            .values = {{.value = file + "-"}, {.type = config::ArgumentType::process_number, .width = 2}}};
        return output;
    }
    void configure_for(std::uint32_t count, config::Output const& output) {
        auto const done = capture->configure(1, "web", output, count);
        ASSERT_TRUE(done) << done.error().text();
    }
    std::string number(char const* suffix) const { return content(file + "-" + suffix); }
};

TEST_F(NumberedFiles, EachNumberHasItsOwn) {
    configure_for(2, by_number());
    write_out(web1, "one\n");
    write_err(web1, "first\n");
    write_out(web2, "two\n");
    run_dry();
    EXPECT_EQ(number("01"), "one\nfirst\n");
    EXPECT_EQ(number("02"), "two\n");
    EXPECT_EQ(number("03"), "(none)");
    EXPECT_EQ(log_text(1), "one\nfirst\ntwo\n") << "the program has one log";
}

TEST_F(NumberedFiles, AHigherCountOpensMoreAndLeavesTheOthers) {
    configure_for(1, by_number());
    write_out(web1, "one\n");
    run_dry();
    std::filesystem::rename(file + "-01", file + "-moved");
    configure_for(2, by_number());
    write_out(web1, "more\n");
    write_out(web2, "two\n");
    run_dry();
    EXPECT_EQ(number("moved"), "one\nmore\n") << "what is open stays open";
    EXPECT_EQ(number("02"), "two\n");
}

TEST_F(NumberedFiles, OneThatCannotBeOpenedChangesNothing) {
    configure_for(1, by_number());
    std::filesystem::create_directory(file + "-03");
    auto const done = capture->configure(1, "web", by_number(), 4);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().text(), "cannot open " + file + "-03: Is a directory");
    write_out(web1, "one\n");
    run_dry();
    EXPECT_EQ(number("01"), "one\n");
}

TEST_F(NumberedFiles, ARemovedNumberKeepsItsFileUntilItsLastWords) {
    configure_for(2, by_number());
    int const before = static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
    write_out(web2, "two\n");
    run_dry();
    configure_for(1, by_number());
    write_out(web2, "last");
    capture->process_ended(web2);
    EXPECT_EQ(number("02"), "two\nlast");
    capture->remove(web2);
    int const after = static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
    EXPECT_EQ(after, before - 1) << "its file is closed";
}

TEST_F(NumberedFiles, FromOneFileToManyAndBack) {
    configure_for(2, to_file(OutputFormat::raw));
    write_out(web1, "a\n");
    run_dry();
    configure_for(2, by_number());
    write_out(web1, "b\n");
    write_out(web2, "c\n");
    run_dry();
    configure_for(2, to_file(OutputFormat::raw));
    write_out(web2, "d\n");
    run_dry();
    EXPECT_EQ(content(file), "a\nd\n");
    EXPECT_EQ(number("01"), "b\n");
    EXPECT_EQ(number("02"), "c\n");
    std::filesystem::remove(file + "-01");
    capture->reopen_files();
    EXPECT_EQ(number("01"), "(none)") << "it is not held any more";
}

TEST_F(NumberedFiles, UpgradeKeepsWhatWaitsForEach) {
    FileSizeLimit const limit(10);
    configure_for(2, by_number());
    write_out(web1, "123456789\nabc\n");
    write_out(web2, "12345\n678\nxyz\n");
    run_dry();
    OutputState state = capture->export_state();
    for (OutputState::Pipe& pipe : state.pipes) {
        pipe.read_end = ::fcntl(pipe.read_end, F_DUPFD_CLOEXEC, 0);
        pipe.write_end = ::fcntl(pipe.write_end, F_DUPFD_CLOEXEC, 0);
    }
    capture.reset();
    std::filesystem::remove(file + "-01");
    std::filesystem::remove(file + "-02");
    capture = make_capture();
    configure_for(1, by_number());  // the second one is to stop
    capture->import_state(std::move(state));
    capture->retry();
    EXPECT_EQ(number("01"), "abc\n");
    EXPECT_EQ(number("02"), "xyz\n") << "its file was opened again, for as long as it runs";
}

}  // namespace

}  // namespace triton::launcher
