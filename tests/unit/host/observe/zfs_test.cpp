#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/observe/zfs_event_text.h"
#include "host/observe/zfs_watch.h"

namespace triton::observe {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

constexpr std::string_view first_machine = "371f18c0-9f73-6e86-94f6-c1cf71188d23";
constexpr std::string_view second_machine = "00000000-0000-4000-8000-000000000002";

std::string event(std::string_view dataset) {
    return "Nov 22 2026 23:59:59.123456789 sysevent.fs.zfs.history_event\n"
           "        class = \"sysevent.fs.zfs.history_event\"\n"
           "        pool = \"tank\"\n"
           "        history_dsname = \"" +
           std::string(dataset) + "\"\n        history_internal_name = \"snapshot\"\n\n";
}

struct Told {
    std::vector<std::string> machines;
    int dropped = 0;
    ZfsEventText::Tell tell() {
        return {[this](Uuid const& machine) { machines.push_back(machine.text()); }, [this] { ++dropped; }};
    }
};

TEST(ZfsEventText, TellsOfMachinesAlone) {
    Told told;
    ZfsEventText text;
    text.take(event("tank/triton/machines/" + std::string(first_machine)) + event("tank/triton/layers/a@final") +
                  event("tank/triton/machines/" + std::string(second_machine) + "@vmsnap-a") +
                  event("tank/triton/machines/" + std::string(first_machine) + "/data/of/its/own"),
              told.tell());
    EXPECT_THAT(told.machines, ElementsAre(first_machine, second_machine));
    EXPECT_EQ(told.dropped, 0);
}

TEST(ZfsEventText, DoesNotCareHowItIsCut) {
    Told told;
    ZfsEventText text;
    for (char const c : event("tank/machines/" + std::string(first_machine)) + "dropped 7 events\n")
        text.take({&c, 1}, told.tell());
    EXPECT_THAT(told.machines, ElementsAre(first_machine));
    EXPECT_EQ(told.dropped, 1);
}

TEST(ZfsEventText, PassesOverLinesThatAreTooLong) {
    Told told;
    ZfsEventText text;
    std::string const piece(16 << 10, 'x');
    text.take("history_dsname = \"tank/machines/", told.tell());
    for (int i = 0; i < 8; ++i)
        text.take(piece, told.tell());
    text.take("\"\n" + event("tank/machines/" + std::string(second_machine)), told.tell());
    EXPECT_THAT(told.machines, ElementsAre(second_machine));
}

/// A program that plays zpool.
std::string program_of(std::string const& body) {
    std::string const path = testing::TempDir() + "zpool-" + std::to_string(::getpid());
    std::ofstream(path) << "#!/bin/sh\n" << body;
    ::chmod(path.c_str(), 0755);
    return path;
}

TEST(ZfsWatch, HearsWhatItsChildSays) {
    net::Loop loop{1};
    std::vector<std::string> machines;
    int lost = 0;
    std::string const program =
        program_of("test \"$*\" = 'events -f -H -v' || exit 2\ncat <<'END'\n" +
                   event("tank/machines/" + std::string(first_machine)) + "dropped 2 events\nEND\nexec sleep 1000\n");
    ZfsWatch watch(loop, {.program = program},
                   {[&](Uuid const& machine) { machines.push_back(machine.text()); }, [&](std::string_view) { ++lost; },
                    [&] {
                        if (lost > 0) loop.stop();
                    }});
    watch.start();
    loop.run_for(std::chrono::seconds(60));
    EXPECT_THAT(machines, ElementsAre(first_machine));
    EXPECT_EQ(lost, 1);
    EXPECT_TRUE(watch.is_working());
    EXPECT_EQ(watch.trouble(), "");
}

TEST(ZfsWatch, StartsAChildAgainThatEnds) {
    net::Loop loop{1};
    int lost = 0;
    std::string const program = program_of("exit 0\n");
    ZfsWatch watch(loop, {.program = program, .first_pause = milliseconds(1), .short_life = Duration(0)},
                   {[](Uuid const&) {}, [&](std::string_view) { lost == 2 ? loop.stop() : void(++lost); }, [] {}});
    watch.start();
    loop.run_for(std::chrono::seconds(60));
    EXPECT_EQ(lost, 2);
}

TEST(ZfsWatch, SaysThatThereIsNoSuchProgram) {
    net::Loop loop{1};
    ZfsWatch watch(loop, {.program = "/nonexistent/zpool"}, {[](Uuid const&) {}, [](std::string_view) {}, [] {}});
    watch.start();
    EXPECT_FALSE(watch.is_working());
    EXPECT_EQ(watch.trouble(), "cannot run /nonexistent/zpool events: No such file or directory");
}

}  // namespace
}  // namespace triton::observe
