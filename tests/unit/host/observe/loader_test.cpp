#include "host/observe/loader.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "host/parts/host_launcher.h"
#include "host/parts/installed_images.h"
#include "host/parts/late_pool.h"

namespace triton::observe {
namespace {

/// A systemd that answers as the test says.
class ScriptedUnits final : public machine::Units {
public:
    Result<machine::UnitStatus> answer = machine::UnitStatus{};

    Result<machine::UnitStatus> status(Uuid const&) override { return answer; }
    Result<std::map<Uuid, machine::UnitStatus>> all() override {
        if (!answer) return std::unexpected(answer.error());
        return std::map<Uuid, machine::UnitStatus>{};
    }
    Result<> start(Uuid const&, std::chrono::seconds, Begun const&, Check const&) override { return {}; }
    Result<> stop(Uuid const&, std::chrono::seconds, Begun const&) override { return {}; }
    void await_listener(Uuid const&, machine::UnitStatus const&, int) override {}
    Result<> halt(Uuid const&) override { return {}; }
    Result<> reboot(Uuid const&, std::chrono::seconds, Begun const&, Check const&) override { return {}; }
    Result<> kill(Uuid const&, int) override { return {}; }
    Result<> reset(Uuid const&) override { return {}; }
    Result<> set_limits(Uuid const&, std::span<machine::UnitProperty const>) override { return {}; }
    [[nodiscard]] bool has_unified_cgroups() const override { return true; }
    Result<> forget_limits(Uuid const&) override { return {}; }
    Result<> set_autostart(Uuid const&, bool) override { return {}; }
    Result<std::string> control_group(Uuid const&) override { return std::string(); }
};

class LoaderTest : public testing::Test {
protected:
    LoaderTest() {
        std::filesystem::create_directories(layout.machines());
        std::ofstream(layout.machines() + "/" + uuid + ".json")
            << R"({"uuid":")" + uuid +
                   R"(","brand":"lx","image_uuid":"00000000-0000-0000-0000-000000000001","v":1,"phase":"installed"})";
    }
    ~LoaderTest() override { std::filesystem::remove_all(layout.root); }
    Loader::Outcome read(info::Parts parts) { return loader.run({.machine = uuid, .parts = parts, .why = "test"}); }
    static std::string shown(Loader::Outcome const& outcome) { return *outcome.seen->document->text(info::View::full); }

    std::string const uuid = "371f18c0-9f73-4e86-94f6-c1cf71188d23";
    machine::Layout layout{testing::TempDir() + "loader-" + std::to_string(::getpid())};
    std::unique_ptr<storage::Pool> pool = parts::late_host_pool(layout);
    parts::InstalledImages images{layout};
    ScriptedUnits units;
    parts::HostLauncher launcher;
    std::function<std::int64_t()> now = [] { return 1'700'000'000'000'000; };
    machine::Machines machines{layout,
                               {.pool = *pool, .images = images, .units = units, .launcher = launcher, .now = now}};
    FileWatches watches{{layout.root, layout.machines(), layout.root + "/var/triton/pool/machines", {}}};
    Records records;
    Loader loader{{machines, units, *pool, watches, records, now}};
};

TEST_F(LoaderTest, ASystemdThatIsNotThereRunsNothing) {
    units.answer = fail(ErrorKind::unavailable, "connect to the system's bus");
    auto const seen = read(info::host_parts);
    EXPECT_EQ(seen.error, "");
    EXPECT_FALSE(seen.seen->has_failed);
    EXPECT_THAT(shown(seen), testing::HasSubstr(R"("state":"stopped")"));
}

TEST_F(LoaderTest, ASystemdThatIsBusySaysNothingAboutMachines) {
    units.answer = fail(ErrorKind::timeout, "ask systemd");
    (void)loader.run({.why = "start"});
    auto const silent = read(info::host_parts);
    EXPECT_EQ(silent.error, "ask systemd");
    EXPECT_TRUE(silent.seen->has_failed);  // it is read again later
    units.answer = machine::UnitStatus{.activity = machine::UnitStatus::Activity::active, .leader = 4711};
    EXPECT_THAT(shown(read(info::Part::stored)), testing::HasSubstr(R"("state":"running")"));
    units.answer = fail(ErrorKind::unavailable, "connect to the system's bus");
    EXPECT_THAT(shown(read(info::host_parts)), testing::HasSubstr(R"("state":"running")"));
}

}  // namespace
}  // namespace triton::observe
