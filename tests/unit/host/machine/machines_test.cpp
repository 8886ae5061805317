#include "host/machine/machines.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <utility>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/machine/nic.h"
#include "host/machine/properties.h"
#include "tests/unit/host/machine/other_pool.h"

namespace triton::machine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int killed = 77;

/// Ends this process as SIGKILL would, at the n-th thing that happens.
class Reaper {
public:
    int at = -1;
    void happen() {
        if (count_++ == at) ::_exit(killed);
    }

private:
    int count_ = 0;
};

/// systemd, whose truth is in files, so that it outlives a process that is killed.
class FakeUnits final : public Units {
public:
    FakeUnits(fs::path directory, Reaper& reaper) : directory_(std::move(directory)), reaper_(reaper) {
        fs::create_directories(directory_);
    }

    Result<> check_host() override {
        if (is_elsewhere) return fail(ErrorKind::unavailable, "it needs the running host");
        return {};
    }
    Result<> check_machine(Uuid const& uuid) override {
        if (is_elsewhere && uuid == runs_here) return fail(ErrorKind::refused, "VM " + uuid.text() + " runs here");
        return {};
    }
    Result<std::string> control_group(Uuid const&) override { return std::string(); }
    Result<UnitStatus> status(Uuid const& uuid) override {
        if (is_elsewhere) return std::unexpected(check_host().error());
        UnitStatus status{.ended_at = ended.ended_at, .exit_status = ended.exit_status};
        if (!failure.empty()) status = {.activity = UnitStatus::Activity::failed, .failure = failure};
        if (has("running", uuid)) status = {.activity = UnitStatus::Activity::active, .leader = 4711};
        return status;
    }
    Result<std::map<Uuid, UnitStatus>> all() override {
        if (is_gone) return fail(ErrorKind::unavailable, "systemd is not there");
        std::map<Uuid, UnitStatus> all;
        for (fs::directory_entry const& entry : fs::directory_iterator(directory_))
            if (auto const uuid = Uuid::parse(entry.path().stem().string())) all[*uuid] = *status(*uuid);
        return all;
    }
    Result<> start(Uuid const& uuid, std::chrono::seconds, Begun const& begun, Check const& check) override {
        auto done = set("running", uuid, true);
        if (begun) begun();
        if (done && check) done = check();
        return done;
    }
    Result<> stop(Uuid const& uuid, std::chrono::seconds, Begun const& begun) override {
        auto done = set("running", uuid, false);
        if (begun) begun();
        return done;
    }
    void await_listener(Uuid const&, UnitStatus const&, int) override {}
    Result<> halt(Uuid const& uuid) override {
        halted = true;
        return set("running", uuid, false);
    }
    Result<> reboot(Uuid const&, std::chrono::seconds, Begun const&, Check const& check) override { return check(); }
    Result<> kill(Uuid const&, int) override { return {}; }
    Result<> reset(Uuid const&) override {
        failure.clear();
        return {};
    }
    Result<> set_limits(Uuid const& uuid, std::span<UnitProperty const>) override {
        if (has_no_room) return fail(ENOSPC, "set the limits");
        return set("limits", uuid, true);
    }
    [[nodiscard]] bool has_unified_cgroups() const override { return is_unified; }
    [[nodiscard]] bool has_limits(Uuid const& uuid) const { return has("limits", uuid); }
    [[nodiscard]] bool starts_at_boot(Uuid const& uuid) const { return has("autostart", uuid); }
    Result<> forget_limits(Uuid const& uuid) override { return set("limits", uuid, false); }
    Result<> set_autostart(Uuid const& uuid, bool is_on) override { return set("autostart", uuid, is_on); }

    bool halted = false;  // since it was set to that
    bool is_gone = false;
    bool is_busy = false;
    bool has_no_room = false;   // for its files
    bool is_elsewhere = false;  // the files are below another root
    std::optional<Uuid> runs_here = {};
    bool is_unified = false;
    LastExit ended = {};       // what it remembers of each machine
    std::string failure = {};  // of the latest start of those that do not run

private:
    [[nodiscard]] fs::path file(std::string const& what, Uuid const& uuid) const {
        return directory_ / (uuid.text() + "." + what);
    }
    [[nodiscard]] bool has(std::string const& what, Uuid const& uuid) const { return fs::exists(file(what, uuid)); }
    Result<> set(std::string const& what, Uuid const& uuid, bool is_on) {
        if (is_gone) return fail(ErrorKind::unavailable, "systemd is not there");
        if (is_busy) return fail(EBUSY, "ask systemd");
        reaper_.happen();
        if (is_on)
            std::ofstream(file(what, uuid)) << "x";
        else
            fs::remove(file(what, uuid));
        reaper_.happen();
        return {};
    }

    fs::path directory_;
    Reaper& reaper_;
};

class FakeImages final : public Images {
public:
    FakeImages(fs::path directory, Reaper& reaper) : directory_(std::move(directory)), reaper_(reaper) {
        fs::create_directories(directory_);
    }
    Result<std::vector<InstalledImage>> list() override { return std::vector<InstalledImage>(); }
    Result<ImageTree> find(Uuid const& image) override {
        if (image.text().starts_with("0000"))
            return fail(ErrorKind::not_found, "image " + image.text() + " is not installed");
        return ImageTree{*storage::TreeName::parse("layers/a"), *storage::SnapshotName::parse("final"), "a@1"};
    }
    Result<> hold(Uuid const&, Uuid const& holder) override {
        reaper_.happen();
        std::ofstream(directory_ / holder.text()) << "x";
        return {};
    }
    Result<> release_all(Uuid const& holder) override { return release(Uuid(), holder); }
    Result<> release(Uuid const&, Uuid const& holder) override {
        reaper_.happen();
        fs::remove(directory_ / holder.text());
        return {};
    }

private:
    fs::path directory_;
    Reaper& reaper_;
};

class FakeLauncher final : public Launcher {
public:
    Result<> check(std::string_view document) override {
        if (document.find("bad") != std::string_view::npos) return fail("programs: it is bad");
        return {};
    }
    Result<std::string> program() override { return std::string("/usr/bin/triton-launch"); }
    std::optional<std::string> status(std::int64_t, std::int64_t) override { return report; }
    Result<> reload(std::int64_t, std::int64_t) override {
        ++reloads;
        return answer;
    }
    std::string report = R"({"launcher":{"version":"1"}})";
    Result<> answer = {};
    int reloads = 0;
};

/// One bridge, and no link of a machine ever comes.
class FakeNetworks final : public Networks {
public:
    Result<network::Tags> tags() override {
        if (is_gone) return fail(ErrorKind::not_found, "there is no bridge");
        return network::Tags(
            {{"admin", network::Attachment::bridge, "br0"}, {"e", network::Attachment::bridge, "br1"}});
    }
    Result<std::string> first_program() override { return std::string("/usr/libexec/triton/triton-machine-init"); }
    Result<> check(std::span<network::Port const>) override { return {}; }
    Result<> guard(std::span<network::Port const> ports) override {
        bool const has_rules =
            std::ranges::any_of(ports, [](network::Port const& port) { return !port.rules.empty(); });
        if (has_rules && !has_nft) return fail(ErrorKind::unavailable, "there is no nft on this host");
        guarded.assign(ports.begin(), ports.end());
        return {};
    }
    Result<> lower(std::span<network::Port const>) override { return {}; }
    std::vector<network::Port> guarded;
    bool has_nft = true;
    bool is_gone = false;
};

/// A host in a temporary directory, with a pool of plain directories.
class Host {
public:
    explicit Host(fs::path root)
        : root_(std::move(root)), units_(root_ / "units", reaper), images_(root_ / "images", reaper) {
        fs::create_directories(root_ / "var/lib");
        auto opened = storage::open_pool({.backend = storage::Backend::directory, .path = (root_ / "pool").string()});
        EXPECT_TRUE(opened) << (opened ? "" : opened.error().text());
        pool_ = std::move(*opened);
        auto const image = *storage::TreeName::parse("layers/a");
        if (!*pool_->exists(image)) {
            EXPECT_TRUE(pool_->make(image));
            fs::path const content = fs::path(pool_->path(image)) / "root";
            fs::create_directories(content / "usr");
            fs::create_directories(content / "sbin");
            std::ofstream(content / "sbin/init") << "x";
            fs::create_directories(content / "etc");
            std::ofstream(content / "etc/os-release") << "ID=test\n";
            EXPECT_TRUE(pool_->snapshot(image, *storage::SnapshotName::parse("final")));
        }
        other_pool.emplace(*pool_);
        HostParts parts{.pool = *other_pool, .images = images_, .units = units_, .launcher = launcher_, .now = [] {
                            return std::int64_t{0};
                        }};
        parts.progress = [this](std::string_view, std::string_view) { reaper.happen(); };
        parts.networks = &networks;
        parts.notice = [this](std::string text) { notices.push_back(std::move(text)); };
        machines.emplace(Layout{root_.string()}, parts);
    }

    Reaper reaper;
    FakeNetworks networks;
    std::vector<std::string> notices;
    std::optional<OtherPool> other_pool;
    std::optional<Machines> machines;
    FakeUnits& units() { return units_; }
    FakeLauncher& launcher() { return launcher_; }
    storage::Pool& pool() { return *pool_; }
    [[nodiscard]] fs::path const& root() const { return root_; }

    /// What there is of a machine: each file that has its uuid in its name, without the root.
    [[nodiscard]] std::set<std::string> parts_of(Uuid const& uuid) const {
        std::set<std::string> parts;
        for (fs::directory_entry const& entry : fs::recursive_directory_iterator(root_)) {
            if (entry.path().filename().string().find(uuid.text()) != std::string::npos)
                parts.insert(fs::relative(entry.path(), root_).string());
        }
        return parts;
    }

private:
    fs::path root_;
    FakeUnits units_;
    FakeImages images_;
    FakeLauncher launcher_;
    std::unique_ptr<storage::Pool> pool_;
};

class MachinesTest : public testing::Test {
protected:
    MachinesTest() {
        // where nothing waits for a disk: each mark is made durable
        fs::path const parent = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
        std::string pattern = (parent / "machines-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
    }
    ~MachinesTest() override { fs::remove_all(directory_); }
    [[nodiscard]] fs::path directory() const { return directory_; }

    static Creation creation(std::string const& members = "") {
        auto const payload = read_payload(
            R"({"brand":"lx","quota":0,"image_uuid":"5e6a4c11-0c2f-4a44-8c1f-000000000001")" + members + "}");
        EXPECT_TRUE(payload) << (payload ? "" : payload.error().text());
        auto made = read_creation(*payload, 0);
        EXPECT_TRUE(made) << (made ? "" : made.error().json());
        return *made;
    }
    static std::function<Result<Update>(Machine const&)> updating(std::string text) {
        return [text = std::move(text)](Machine const& before) -> Result<Update> {
            return *read_update(before, *read_payload(text));
        };
    }

    /// Runs something in a process that is killed at the n-th thing that happens. Returns whether it came so far.
    template <class Run>
    bool kill_at(int n, Run run) {
        pid_t const child = ::fork();
        if (child == 0) {
            Host host(directory_);
            host.reaper.at = n;
            (void)run(*host.machines);
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFEXITED(status) && WEXITSTATUS(status) == killed;
    }

private:
    fs::path directory_;
};

std::string text_of(Result<> const& result) { return result ? "ok" : result.error().text(); }

struct Recovery {
    std::vector<std::string> lines;
    Result<> result;
};
Recovery recover(Machines& machines, std::optional<Uuid> const& uuid) {
    Recovery recovery;
    recovery.result = machines.recover(uuid, [&](std::string line) { recovery.lines.push_back(std::move(line)); });
    return recovery;
}

TEST_F(MachinesTest, WhatCreateMakesDeleteRemoves) {
    Host host(directory());
    Creation const made =
        creation(R"(,"alias":"web","tags":{"a":1},"customer_metadata":{"k":"v"},"launch":{"programs":{}})");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    EXPECT_EQ(*host.machines->find("web"), uuid);
    EXPECT_EQ(*host.machines->find(uuid.text().substr(0, 8)), uuid);
    auto const machine = host.machines->get(uuid);
    ASSERT_TRUE(machine) << machine.error().text();
    EXPECT_EQ(machine->state, State::running);
    EXPECT_EQ(machine->pid, 4711);
    EXPECT_EQ(machine->tags.size(), 1U);
    EXPECT_EQ(machine->customer_metadata.size(), 1U);
    EXPECT_TRUE(machine->launch_status);
    EXPECT_EQ(fs::read_symlink(host.root() / "var/lib/machines" / uuid.text()).string(), *machine->zonepath + "/root");
    EXPECT_EQ(text_of(host.machines->create(made)), "VM with UUID " + uuid.text() + " already exists");
    ASSERT_EQ(text_of(host.machines->destroy(uuid)), "ok");
    EXPECT_THAT(host.parts_of(uuid), IsEmpty());
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "VM " + uuid.text() + " not found");
}

TEST_F(MachinesTest, WhatAKilledCommandHasLeftInThePoolGoesWithTheNextChange) {
    Host host(directory());
    fs::path const left = host.root() / "pool/@pool/trash/left";
    auto const leaves = [&](auto change) {
        fs::create_directories(left / "@tree/root");
        EXPECT_TRUE(change());
        return fs::exists(left);
    };
    Creation const made = creation(R"(,"autoboot":false)");
    Uuid const uuid = made.machine.uuid;
    EXPECT_FALSE(leaves([&] { return host.machines->create(made); }));
    EXPECT_FALSE(leaves([&] { return host.machines->update(uuid, updating(R"({"alias":"db"})")); }));
    EXPECT_FALSE(leaves([&] { return host.machines->create_snapshot(uuid, "now"); }));
    EXPECT_TRUE(leaves([&] { return host.machines->start(uuid); }));  // it does not wait for that
    EXPECT_TRUE(leaves([&] { return host.machines->stop(uuid, {}); }));
    EXPECT_FALSE(leaves([&] { return host.machines->destroy(uuid); }));
}

/// The old document is in force, and is what the next start reads.
TEST_F(MachinesTest, AnUpdateWhoseLaunchDocumentTheLauncherRejectsChangesNothing) {
    Host host(directory());
    Creation const made = creation(R"(,"alias":"web","launch":{"programs":{"a":{}}})");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    host.launcher().answer = fail(ErrorKind::invalid, "the launcher rejects the launch configuration");
    host.launcher().answer.error().details = {"programs.b: no"};
    auto const done = host.machines->update(uuid, updating(R"({"alias":"db","launch":{"programs":{"b":{}}}})"));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().text(), "the launcher rejects the launch configuration, and keeps the one that it has");
    EXPECT_THAT(done.error().details, ElementsAre("programs.b: no"));
    auto const machine = host.machines->get(uuid);
    EXPECT_EQ(machine->alias, "web");
    EXPECT_EQ(machine->launch->front().node.get<json::Object>()->front().key, "a");
    EXPECT_THAT(*host.machines->store().marked(), IsEmpty());
    EXPECT_EQ(host.launcher().reloads, 1);
    EXPECT_TRUE(host.machines->update(uuid, updating(R"({"alias":"db"})")));
    EXPECT_EQ(host.launcher().reloads, 1);  // it has no other document
    host.launcher().answer = fail(ErrorKind::timeout, "the launcher has not answered");
    EXPECT_TRUE(host.machines->update(uuid, updating(R"({"launch":{"programs":{"b":{}}}})")));
    EXPECT_THAT(host.notices, ElementsAre("launch: the launcher has not answered"));
}

TEST_F(MachinesTest, AStartWhoseLauncherRejectsItsDocumentEndsAtOnceWithTheReasons) {
    Host host(directory());
    host.launcher().report =
        R"({"launcher":{"version":"1","configuration_changes":0,"rejection":["programs.a: no \u001b"]}})";
    Creation const made = creation(R"(,"launch":{"programs":{"a":{}}})");
    Uuid const uuid = made.machine.uuid;
    auto const created = host.machines->create(made);
    EXPECT_EQ(text_of(created), "cannot start VM " + uuid.text() + ": its launcher rejects the launch configuration");
    EXPECT_THAT(created.error().details,
                ElementsAre("programs.a: no \\x1b", HasSubstr("is complete and stays: vmadm start")));
    EXPECT_EQ(host.machines->get(uuid)->state, State::stopped);
    EXPECT_FALSE(host.machines->start(uuid));
    EXPECT_EQ(host.machines->get(uuid)->state, State::stopped);
    host.launcher().report = R"({"launcher":{"version":"1","configuration_changes":1,"rejection":["newer: no"]}})";
    EXPECT_TRUE(host.machines->start(uuid));
    EXPECT_EQ(host.machines->get(uuid)->state, State::running);
}

/// Nothing is half done: the file, the tree and the marks are as before.
TEST_F(MachinesTest, BelowAnotherRootWhatNeedsTheRunningHostIsRefusedBeforeItsFirstStep) {
    Host host(directory());
    Uuid const installed = creation(R"(,"alias":"web","autoboot":false)").machine.uuid;
    Creation made = creation(R"(,"alias":"web","autoboot":false)");
    made.machine.uuid = installed;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_EQ(text_of(host.machines->create_snapshot(installed, "now")), "ok");
    auto const before = host.parts_of(installed);
    host.units().is_elsewhere = true;
    std::string const refusal = "it needs the running host";
    EXPECT_EQ(text_of(host.machines->create(creation())), refusal);
    EXPECT_EQ(text_of(host.machines->destroy(installed)), refusal);
    EXPECT_EQ(host.machines->update(installed, updating(R"({"alias":"db"})")).error().text(), refusal);
    EXPECT_EQ(host.machines->start(installed).error().text(), refusal);
    EXPECT_EQ(host.machines->stop(installed, {}).error().text(), refusal);
    EXPECT_EQ(text_of(host.machines->reboot(installed, true)), refusal);
    EXPECT_EQ(text_of(host.machines->reprovision(installed, *made.machine.image_uuid)), refusal);
    EXPECT_EQ(text_of(host.machines->rollback_snapshot(installed, "now")), refusal);
    EXPECT_EQ(host.machines->prepare().error().text(), refusal);
    EXPECT_EQ(host.parts_of(installed), before);
    EXPECT_THAT(*host.machines->store().marked(), IsEmpty());
    EXPECT_EQ(host.machines->get(installed)->alias, "web");
}

TEST_F(MachinesTest, BelowAnotherRootAMachineThatWasNeverInstalledIsMadeChangedAndDeleted) {
    Host host(directory());
    host.units().is_elsewhere = true;
    Creation const made = creation(R"(,"create_only":true)");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    EXPECT_TRUE(host.machines->update(uuid, updating(R"({"alias":"db"})")));
    EXPECT_EQ(text_of(host.machines->install(uuid)), "it needs the running host");
    host.units().runs_here = uuid;
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "VM " + uuid.text() + " runs here");
    EXPECT_EQ(host.machines->update(uuid, updating(R"({"alias":"x"})")).error().text(),
              "VM " + uuid.text() + " runs here");
    EXPECT_EQ(text_of(recover(*host.machines, uuid).result), "ok");  // there is nothing to recover
    host.units().runs_here = {};
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
    EXPECT_THAT(host.parts_of(uuid), IsEmpty());
}

TEST_F(MachinesTest, WhatIsToBeArchivedIsKeptWhenTheMachineGoes) {
    Host host(directory());
    Creation const made = creation(R"(,"archive_on_delete":true,"customer_metadata":{"k":"v"},"tags":{"a":1})");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_EQ(text_of(host.machines->destroy(uuid)), "ok");
    std::string const kept = "var/triton/vmadm/archive/" + uuid.text() + ".json";
    EXPECT_THAT(host.parts_of(uuid), ElementsAre(kept));
    EXPECT_EQ(fs::status(host.root() / kept).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    std::ifstream file(host.root() / kept);
    std::string const text(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(text, HasSubstr(R"("customer_metadata":{"k":"v"})"));
    EXPECT_THAT(text, HasSubstr(R"("tags":{"a":1})"));
}

/// Its owner was told that the deletion failed.
TEST_F(MachinesTest, AMachineThatCannotBeArchivedStaysAsItWas) {
    Host host(directory());
    Creation const made = creation(R"(,"archive_on_delete":true)");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    std::ofstream(host.root() / "var/triton/vmadm/archive") << "in the way";
    EXPECT_THAT(text_of(host.machines->destroy(uuid)), HasSubstr("archive"));
    EXPECT_TRUE(host.machines->update(uuid, updating(R"({"alias":"kept"})")));
    EXPECT_EQ(host.machines->get(uuid)->state, State::running);
    EXPECT_THAT(host.notices, IsEmpty()) << "nothing is left to be finished";
    fs::remove(host.root() / "var/triton/vmadm/archive");
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
}

std::string content(fs::path const& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// As on SmartOS. Former versions wrote an object with the name of the property.
TEST_F(MachinesTest, TagsAndRoutesAreBareObjectsInTheirFiles) {
    Host host(directory());
    Creation const made = creation(R"(,"autoboot":false,"tags":{"tags":"x","a":1})");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const config = fs::path(*host.machines->get(uuid)->zonepath) / "config";
    EXPECT_EQ(content(config / "tags.json"), "{\"tags\":\"x\",\"a\":1}\n");
    EXPECT_EQ(content(config / "routes.json"), "{}\n");
    EXPECT_EQ(host.machines->get(uuid)->tags.size(), 2U);
    ASSERT_TRUE(host.machines->update(uuid, updating(R"({"remove_tags":["a"]})")));
    EXPECT_EQ(content(config / "tags.json"), "{\"tags\":\"x\"}\n");
    EXPECT_EQ(host.machines->get(uuid)->tags.front().key, "tags");
    std::ofstream(config / "tags.json") << R"({"tags":{"b":2,"c":3}})";
    std::ofstream(config / "routes.json") << R"({"routes":{"10.9.0.0/16":"10.0.0.1"}})";
    EXPECT_EQ(host.machines->get(uuid)->tags.size(), 2U);
    EXPECT_EQ(host.machines->get(uuid)->routes.front().key, "10.9.0.0/16");
}

TEST_F(MachinesTest, AStartThatFailedIsSeenUntilTheNextStartOrStop) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_TRUE(host.machines->stop(uuid, {}));
    EXPECT_EQ(host.machines->get(uuid)->state, State::stopped);
    EXPECT_FALSE(host.machines->get(uuid)->failure);
    ASSERT_TRUE(host.units().set_autostart(uuid, true));
    for (bool const is_started_again : {false, true}) {
        host.units().failure = "its start failed (exit-code)";
        EXPECT_EQ(host.machines->get(uuid)->state, State::failed);
        EXPECT_EQ(host.machines->get(uuid)->failure, "its start failed (exit-code)");
        EXPECT_EQ(host.machines->list()->machines.at(0).state, State::failed);
        EXPECT_THAT(text_of(host.machines->reboot(uuid, false)),
                    HasSubstr(R"(from state "failed", must be "running")"));
        // It is not of the machine's file, and not for `vmadm recover`.
        EXPECT_TRUE(host.machines->update(uuid, updating(R"({"alias":"x"})")));
        EXPECT_FALSE(host.machines->store().load(uuid)->failure);
        EXPECT_THAT(recover(*host.machines, std::nullopt).lines, IsEmpty());
        if (is_started_again)
            EXPECT_TRUE(*host.machines->start(uuid));
        else
            EXPECT_FALSE(*host.machines->stop(uuid, {}));
        EXPECT_EQ(host.machines->get(uuid)->state, is_started_again ? State::running : State::stopped);
        EXPECT_FALSE(host.machines->get(uuid)->failure);
    }
    host.units().failure = "its start failed (exit-code)";
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
}

TEST_F(MachinesTest, AZpoolThatIsNotThatOfTheHostIsRefusedAndIsNotOfACopy) {
    Host host(directory());
    Creation made = creation(R"(,"autoboot":false,"zpool":"zones")");
    std::string const refusal =
        "zpool: \"zones\" is not the pool of machines here, which is not on ZFS: leave zpool out";
    EXPECT_EQ(text_of(host.machines->create(made)), refusal);
    EXPECT_FALSE(host.machines->store().exists(made.machine.uuid));
    made.machine.zpool.reset();
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    Creation copy = creation(R"(,"autoboot":false,"zpool":"zones")");
    ASSERT_EQ(text_of(host.machines->clone(made.machine.uuid, "", copy)), "ok");
    EXPECT_FALSE(host.machines->get(copy.machine.uuid)->zpool);
}

TEST_F(MachinesTest, SnapshotsModifyTheMachine) {
    Host host(directory());
    Creation const made = creation(R"(,"autoboot":false)");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    auto const moves = [&](auto change) {
        using namespace std::chrono_literals;
        fs::path const config = fs::path(*host.machines->get(uuid)->zonepath) / "config";
        for (fs::directory_entry const& entry : fs::directory_iterator(config))
            fs::last_write_time(entry, fs::file_time_type::clock::now() - 2h);
        fs::last_write_time(host.root() / "var/triton/vmadm/machines" / (uuid.text() + ".json"),
                            fs::file_time_type::clock::now() - 1h);
        auto const before = host.machines->get(uuid)->last_modified;
        EXPECT_EQ(text_of(change()), "ok");
        return *host.machines->get(uuid)->last_modified > *before;
    };
    EXPECT_TRUE(moves([&] { return host.machines->create_snapshot(uuid, "now"); }));
    EXPECT_TRUE(moves([&] { return host.machines->rollback_snapshot(uuid, "now"); }));
    EXPECT_TRUE(moves([&] { return host.machines->delete_snapshot(uuid, "now"); }));
    EXPECT_FALSE(moves([&] { return Result<>(); }));
}

std::optional<LastExit> shown_exit(Machine const& machine, std::string const& time) {
    if (!machine.exit_timestamp || !machine.exit_status) return std::nullopt;
    EXPECT_EQ(*machine.exit_timestamp, time);
    return LastExit{.ended_at = 0, .exit_status = *machine.exit_status};
}

TEST_F(MachinesTest, TheLastExitOutlivesItsUnit) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_EQ(text_of(host.machines->store().save_last_exit(uuid, {1'700'000'000'123'000, 9})), "ok");
    fs::path const file = host.root() / "var/triton/vmadm/exits" / (uuid.text() + ".json");
    EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);

    // It is not shown of a machine that runs, and a start forgets nothing.
    EXPECT_FALSE(host.machines->get(uuid)->exit_status);
    ASSERT_TRUE(host.machines->stop(uuid, {}));
    std::string const time = "2023-11-14T22:13:20.123Z";
    EXPECT_EQ(shown_exit(*host.machines->get(uuid), time), (LastExit{0, 9}));
    EXPECT_EQ(shown_exit(host.machines->list()->machines.at(0), time), (LastExit{0, 9}));
    host.units().is_gone = true;
    EXPECT_EQ(shown_exit(host.machines->list()->machines.at(0), time), (LastExit{0, 9}));
    host.units().is_gone = false;

    // systemd's time of the same end is older: nothing changes when systemd forgets it.
    host.units().ended = {.ended_at = 1'700'000'000'100'000, .exit_status = 9};
    EXPECT_EQ(shown_exit(*host.machines->get(uuid), time), (LastExit{0, 9}));

    // What systemd knows may be newer: the file could not be written.
    host.units().ended = {.ended_at = 1'700'000'001'000'000, .exit_status = 3};
    EXPECT_EQ(shown_exit(*host.machines->get(uuid), "2023-11-14T22:13:21.000Z"), (LastExit{0, 3}));
    host.units().ended = {};

    // Garbage hides no machine.
    std::ofstream(file) << "garbage";
    auto const machine = host.machines->get(uuid);
    ASSERT_TRUE(machine) << machine.error().text();
    EXPECT_FALSE(machine->exit_status);
    EXPECT_FALSE(machine->exit_timestamp);

    ASSERT_EQ(text_of(host.machines->destroy(uuid)), "ok");
    EXPECT_THAT(host.parts_of(uuid), IsEmpty());
}

TEST_F(MachinesTest, EachMachineHasUidsOfItsOwn) {
    Host host(directory());
    std::set<std::int64_t> firsts;
    for (int i = 0; i < 3; ++i) {
        Creation const made = creation();
        ASSERT_EQ(text_of(host.machines->create(made)), "ok");
        firsts.insert(*host.machines->get(made.machine.uuid)->first_uid);
    }
    EXPECT_THAT(firsts, ElementsAre(1879048192, 1879113728, 1879179264));
}

TEST_F(MachinesTest, AnAddressIsThereOnlyOnce) {
    Host host(directory());
    std::string const nic = R"(,"nics":[{"nic_tag":"e","vlan_id":5,"ips":["10.0.0.2/24"]}])";
    ASSERT_EQ(text_of(host.machines->create(creation(nic))), "ok");
    EXPECT_EQ(text_of(host.machines->create(creation(nic))), conflict_text);
    EXPECT_EQ(text_of(host.machines->create(creation(R"(,"nics":[{"nic_tag":"e","ips":["10.0.0.2/24"]}])"))), "ok");
}

/// A running machine has the NICs of its start, whatever an update has made of them.
TEST_F(MachinesTest, AMacOrAnAddressIsTakenAsLongAsAMachineRunsWithIt) {
    Host host(directory());
    Creation const made = creation();
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const network = host.root() / "run/triton/network" / made.machine.uuid.text();
    fs::create_directories(network);
    std::string const mac = "02:08:20:0a:0b:0c";
    std::ofstream(network / "raised.json")
        << network::ports_text({{.mac = mac, .tag = {"e", {}, "br0"}, .vlan = 5, .addresses = {"10.0.0.5"}}});
    Creation const other = creation(R"(,"nics":[{"nic_tag":"e","mac":")" + mac + R"(","ips":["10.0.0.2/24"]}])");
    auto const refused = host.machines->create(other);
    EXPECT_EQ(text_of(refused), conflict_text);
    EXPECT_THAT(refused.error().details,
                ElementsAre("VM " + made.machine.uuid.text() + " has the same until it is stopped or rebooted"));
    Creation const same_address = creation(R"(,"nics":[{"nic_tag":"e","vlan_id":5,"ips":["10.0.0.5/24"]}])");
    EXPECT_EQ(text_of(host.machines->create(same_address)), conflict_text);
    EXPECT_EQ(text_of(host.machines->create(creation(R"(,"nics":[{"nic_tag":"e","ips":["10.0.0.5/24"]}])"))), "ok");
    fs::remove(network / "raised.json");
    EXPECT_EQ(text_of(host.machines->create(other)), "ok");
    EXPECT_EQ(text_of(host.machines->create(same_address)), "ok");
}

/// The links of a machine that is starting may come after an update of it.
TEST_F(MachinesTest, AnUpdateLeavesItsRulesForLinksThatAreToCome) {
    Host host(directory());
    Creation const made = creation(R"(,"nics":[{"nic_tag":"admin","ips":["10.0.0.2/24"]}])");
    Uuid const uuid = made.machine.uuid;
    std::string const mac = made.machine.nics.front().mac;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const network = host.root() / "run/triton/network" / uuid.text();
    fs::copy_file(network / "ports.json", network / "raised.json");  // as `up` does
    std::string const change = R"({"update_nics":[{"mac":")" + mac + R"(","blocked_outgoing_ports":[25]}]})";
    ASSERT_TRUE(host.machines->update(uuid, updating(change)));
    auto const raised = network::read_ports((network / "raised.json").string());
    ASSERT_TRUE(raised);
    EXPECT_THAT(raised->front().rules, testing::Contains(HasSubstr("25")));
    ASSERT_EQ(host.networks.guarded.size(), 1U);
    EXPECT_EQ(host.networks.guarded.front().rules, raised->front().rules);
    for (auto const& file : fs::directory_iterator(network))
        EXPECT_FALSE(file.path().filename().string().starts_with("raised.json.")) << file;

    fs::remove(network / "raised.json");  // as `down` does
    ASSERT_TRUE(host.machines->update(uuid, updating(R"({"alias":"a"})")));
    EXPECT_FALSE(fs::exists(network / "raised.json"));
}

/// On a full disk both may have needed it, and even a deletion needs it then.
TEST_F(MachinesTest, AStartAndAStopLeaveTheRoomForDeletions) {
    Host host(directory());
    Creation const made = creation();
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const reserve = host.root() / "var/triton/vmadm/reserve";
    fs::remove(reserve);
    ASSERT_TRUE(host.machines->stop(made.machine.uuid, {}));
    EXPECT_TRUE(fs::exists(reserve));
    fs::remove(reserve);
    ASSERT_TRUE(host.machines->start(made.machine.uuid));
    EXPECT_TRUE(fs::exists(reserve));
}

/// As on a host that was installed anew and has kept its machines.
TEST_F(MachinesTest, AStartSetsLimitsThatSystemdDoesNotKnow) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_TRUE(host.machines->stop(uuid, {}));
    ASSERT_TRUE(host.units().forget_limits(uuid));
    ASSERT_TRUE(host.machines->start(uuid));
    EXPECT_TRUE(host.units().has_limits(uuid));
}

TEST_F(MachinesTest, AStartOnAFullDiskKeepsTheLimitsThatSystemdHas) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_TRUE(host.machines->stop(uuid, {}));
    host.units().has_no_room = true;
    ASSERT_TRUE(host.machines->start(uuid));
    EXPECT_TRUE(host.units().has_limits(uuid));
    EXPECT_THAT(host.notices,
                ElementsAre("limits: systemd keeps those that it has: cannot set the limits: No space left on device"));
}

/// What may send anything needs no nft, and its machine can run where there is none.
TEST_F(MachinesTest, AnUpdateWhoseRulesCannotBeMadeIsTakenBack) {
    Host host(directory());
    host.networks.has_nft = false;
    Creation const made = creation(
        R"(,"nics":[{"nic_tag":"admin","ips":["10.0.0.2/24"],"allow_dhcp_spoofing":true,"allow_ip_spoofing":true,)"
        R"("allow_mac_spoofing":true,"allow_restricted_traffic":true}])");
    Uuid const uuid = made.machine.uuid;
    std::string const mac = made.machine.nics.front().mac;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const network = host.root() / "run/triton/network" / uuid.text();
    fs::copy_file(network / "ports.json", network / "raised.json");  // as `up` does
    std::string const change = R"({"update_nics":[{"mac":")" + mac + R"(","allow_ip_spoofing":false}]})";
    auto const refused = host.machines->update(uuid, updating(change));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().text(), "there is no nft on this host");
    EXPECT_THAT(refused.error().details, IsEmpty());
    EXPECT_EQ(host.machines->get(uuid)->nics.front().allow_ip_spoofing, true);
    for (char const* const file : {"ports.json", "raised.json"})
        EXPECT_THAT(network::read_ports((network / file).string())->front().rules, IsEmpty()) << file;
    EXPECT_TRUE(host.machines->update(uuid, updating(R"({"alias":"a"})")));
}

TEST_F(MachinesTest, ALaunchConfigurationThatIsRefusedMakesNoMachine) {
    Host host(directory());
    Creation const made = creation(R"(,"launch":{"programs":{"bad":1}})");
    EXPECT_EQ(text_of(host.machines->create(made)), "programs: it is bad");
    EXPECT_THAT(host.parts_of(made.machine.uuid), IsEmpty());
}

TEST_F(MachinesTest, WithoutSystemdACreationLeavesNothingAndAListIsThere) {
    Host host(directory());
    ASSERT_EQ(text_of(host.machines->create(creation())), "ok");
    host.units().is_gone = true;
    Creation const made = creation();
    auto const failed = host.machines->create(made);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().text(), "systemd is not there");
    host.units().is_gone = false;
    EXPECT_TRUE(recover(*host.machines, std::nullopt).result);
    EXPECT_THAT(host.parts_of(made.machine.uuid), IsEmpty());
    host.units().is_gone = true;
    auto const listed = host.machines->list();
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->machines.size(), 1U);
    EXPECT_EQ(text_of(listed->states), "systemd is not there");
}

TEST_F(MachinesTest, ACreationThatIsKilledAnywhereIsGoneAfterwards) {
    int kills = 0;
    for (int n = 0;; ++n) {
        Creation const made = creation();
        Uuid const uuid = made.machine.uuid;
        bool const was_killed = kill_at(n, [&made](Machines& machines) { return machines.create(made); });
        Host host(directory());
        ASSERT_TRUE(host.machines->list());
        ASSERT_TRUE(recover(*host.machines, uuid).result);
        EXPECT_FALSE(fs::exists(host.root() / "var/triton/vmadm/journal" / (uuid.text() + ".json"))) << n;
        auto const machine = host.machines->get(uuid);
        if (machine) {  // killed at its first start
            EXPECT_EQ(machine->phase, Phase::installed) << n;
            EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok") << n;
        }
        EXPECT_THAT(host.parts_of(uuid), IsEmpty()) << n;
        if (!was_killed) break;
        ++kills;
    }
    EXPECT_GT(kills, 12);
}

TEST_F(MachinesTest, ACreationThatWasKilledCanSimplyBeRepeated) {
    for (int n = 0; n < 12; n += 3) {
        Creation const made = creation();
        ASSERT_TRUE(kill_at(n, [&made](Machines& machines) { return machines.create(made); }));
        Host host(directory());
        EXPECT_EQ(text_of(host.machines->create(made)), "ok") << n;
        EXPECT_EQ(host.machines->get(made.machine.uuid)->state, State::running) << n;
        EXPECT_EQ(host.notices.empty() ? "" : host.notices.front(),
                  "VM " + made.machine.uuid.text() + ": an interrupted create was undone");
    }
}

/// Who was killed has not told it, and what a boot finishes is otherwise told nobody.
TEST_F(MachinesTest, TheHistoryHasWhatWasInterrupted) {
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    std::string const line = R"({"time":"1970-01-01T00:00:00.000Z","uuid":")" + uuid.text() + R"(","command":")";
    ASSERT_TRUE(kill_at(4, [&made](Machines& machines) { return machines.create(made); }));
    {
        Host host(directory());
        ASSERT_TRUE(host.machines->prepare());
        EXPECT_THAT(*host.machines->store().history(uuid),
                    ElementsAre(line + R"(create","outcome":"it was interrupted, and has been undone"})"));
        ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    }
    ASSERT_TRUE(kill_at(4, [&](Machines& machines) { return machines.update(uuid, updating(R"({"alias":"a"})")); }));
    Host host(directory());
    ASSERT_TRUE(host.machines->prepare());
    EXPECT_EQ(host.machines->store().history(uuid)->back(),
              line + R"(update","outcome":"ok","detail":"it was interrupted, and finished later"})");
}

TEST_F(MachinesTest, ACloneThatIsKilledAnywhereLeavesAllOrNothing) {
    Uuid const source = creation().machine.uuid;
    {
        Creation first = creation();
        first.machine.uuid = source;
        ASSERT_EQ(text_of(Host(directory()).machines->create(first)), "ok");
    }
    int kills = 0;
    for (int n = 0;; ++n) {
        Creation const made = creation();
        Uuid const uuid = made.machine.uuid;
        bool const was_killed = kill_at(n, [&](Machines& machines) { return machines.clone(source, "", made); });
        Host host(directory());
        ASSERT_TRUE(recover(*host.machines, uuid).result) << n;
        auto const machine = host.machines->get(uuid);
        if (machine) {  // killed at its first start
            EXPECT_EQ(machine->phase, Phase::installed) << n;
            EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok") << n;
        }
        EXPECT_THAT(host.parts_of(uuid), IsEmpty()) << n;  // also no snapshot of the source
        EXPECT_TRUE(host.machines->get(source)) << n;
        if (!was_killed) break;
        ++kills;
    }
    EXPECT_GT(kills, 12);
}

TEST_F(MachinesTest, ACloneThatWasKilledIsDeletedWithItsSnapshotOfTheSource) {
    Creation const first = creation();
    ASSERT_EQ(text_of(Host(directory()).machines->create(first)), "ok");
    Uuid const source = first.machine.uuid;
    for (int n = 0;; ++n) {
        Creation const made = creation(R"(,"autoboot":false)");
        bool const was_killed = kill_at(n, [&](Machines& machines) { return machines.clone(source, "", made); });
        Host host(directory());
        bool const is_left =
            host.machines->store().exists(made.machine.uuid) || *host.machines->store().mark(made.machine.uuid);
        EXPECT_EQ(text_of(host.machines->destroy(made.machine.uuid)) == "ok", is_left) << n;
        EXPECT_THAT(host.parts_of(made.machine.uuid), IsEmpty()) << n;
        EXPECT_THAT(*host.pool().snapshots(tree_of(source)), IsEmpty()) << n;
        if (!was_killed) break;
    }
}

TEST_F(MachinesTest, RecoveryRemovesTheSnapshotOfAnInterruptedCopy) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    auto const snapshot = *storage::SnapshotName::parse("copy-" + uuid.text());  // as a send makes it
    ASSERT_TRUE(host.pool().snapshot(tree_of(uuid), snapshot));
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "own")), "ok");
    {
        auto const sending = host.machines->store().lock(uuid, "vmadm send", milliseconds(0));
        ASSERT_TRUE(sending);
        EXPECT_EQ(text_of(recover(*host.machines, std::nullopt).result), "ok");
        EXPECT_EQ(host.pool().snapshots(tree_of(uuid))->size(), 2U);
    }
    auto const told = recover(*host.machines, std::nullopt);
    EXPECT_THAT(told.lines, ElementsAre("VM " + uuid.text() + ": the snapshot of an interrupted copy was removed"));
    EXPECT_EQ(host.pool().snapshots(tree_of(uuid))->size(), 1U);
}

TEST_F(MachinesTest, AReceptionThatIsKilledAnywhereLeavesAllOrNothing) {
    std::string const file = (directory() / "stream").string();
    Creation made = creation(R"(,"tags":{"a":1})");
    Uuid const uuid = made.machine.uuid;
    {
        Host host(directory());
        ASSERT_EQ(text_of(host.machines->create(made)), "ok");
        UniqueFd const to(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        ASSERT_EQ(text_of(host.machines->send(uuid, to.get())), "ok");
        ASSERT_EQ(text_of(host.machines->destroy(uuid)), "ok");
    }
    auto const receive = [&](Machines& machines) -> Result<> {
        UniqueFd const from(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        StreamReader stream(from.get());
        StreamHead const head = TRY(stream.head());
        EXPECT_THAT(head.payload, HasSubstr(R"("create_timestamp":"1970-01-01T00:00:00.000Z"})"));
        return machines.receive(stream, head.storage, made);
    };
    for (int n = 0;; ++n) {
        bool const was_killed = kill_at(n, receive);
        Host host(directory());
        ASSERT_TRUE(recover(*host.machines, uuid).result) << n;
        if (!was_killed) {
            auto const machine = host.machines->get(uuid);
            ASSERT_TRUE(machine);
            EXPECT_EQ(machine->state, State::stopped);
            break;
        }
        EXPECT_THAT(host.parts_of(uuid), IsEmpty()) << n;
    }
}

TEST_F(MachinesTest, ADeletionThatIsKilledAnywhereIsFinished) {
    for (int n = 0;; ++n) {
        Creation const made = creation();
        Uuid const uuid = made.machine.uuid;
        {
            Host host(directory());
            ASSERT_EQ(text_of(host.machines->create(made)), "ok");
        }
        bool const was_killed = kill_at(n, [&uuid](Machines& machines) { return machines.destroy(uuid); });
        Host host(directory());
        ASSERT_TRUE(host.machines->list());
        auto const recovered = recover(*host.machines, uuid).result;
        bool const is_gone = !recovered && recovered.error().kind == ErrorKind::not_found;
        ASSERT_TRUE(recovered || is_gone) << recovered.error().text();
        EXPECT_THAT(host.parts_of(uuid), IsEmpty()) << n;
        if (!was_killed) break;
    }
}

TEST_F(MachinesTest, AnUpdateThatIsKilledAnywhereIsFinished) {
    Creation const made = creation(R"(,"alias":"old","tags":{"a":1})");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
    for (int n = 0;; ++n) {
        std::string const alias = "new" + std::to_string(n);
        bool const was_killed = kill_at(n, [&](Machines& machines) {
            return machines.update(uuid,
                                   updating(R"({"alias":")" + alias + R"(","tags":{"n":)" + std::to_string(n) + "}}"));
        });
        Host host(directory());
        ASSERT_TRUE(recover(*host.machines, uuid).result);
        auto const machine = host.machines->get(uuid);
        ASSERT_TRUE(machine);
        EXPECT_EQ(machine->alias, alias);
        EXPECT_EQ(std::get<std::int64_t>(machine->tags.front().node.value), n);
        if (!was_killed) break;
    }
}

TEST_F(MachinesTest, AReprovisionThatIsKilledAnywhereIsFinished) {
    Uuid const image = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    for (int n = 0;; ++n) {
        Creation const made = creation(R"(,"tags":{"a":1},"launch":{"programs":{}})");
        Uuid const uuid = made.machine.uuid;
        std::string root;
        {
            Host host(directory());
            ASSERT_EQ(text_of(host.machines->create(made)), "ok");
            root = *host.machines->get(uuid)->zonepath + "/root";
            std::ofstream(root + "/old") << "x";
        }
        bool const was_killed = kill_at(n, [&](Machines& machines) { return machines.reprovision(uuid, image); });
        Host host(directory());
        auto const recovered = recover(*host.machines, uuid).result;
        ASSERT_TRUE(recovered) << recovered.error().text();
        auto const machine = host.machines->get(uuid);
        ASSERT_TRUE(machine) << n;
        EXPECT_EQ(machine->state, State::running) << n;
        EXPECT_EQ(machine->image_uuid, image) << n;
        EXPECT_EQ(machine->tags.size(), 1U) << n;
        EXPECT_TRUE(machine->launch) << n;
        EXPECT_FALSE(fs::exists(root + "/old")) << n;
        EXPECT_TRUE(fs::exists(root + "/usr")) << n;
        EXPECT_FALSE(fs::exists(host.root() / "pool/incoming" / uuid.text())) << n;
        EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
        EXPECT_THAT(host.parts_of(uuid), IsEmpty()) << n;
        if (!was_killed) break;
    }
}

TEST_F(MachinesTest, AMachineThatIsHaltedForAWhileRunsAgainWhereverThatIsKilled) {
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    {
        Host host(directory());
        ASSERT_EQ(text_of(host.machines->create(made)), "ok");
        ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "one")), "ok");
    }
    using Act = std::function<Result<>(Machines&)>;
    std::vector<std::pair<std::string, Act>> const acts{
        {"rollback", [&](Machines& machines) { return machines.rollback_snapshot(uuid, "one"); }},
        {"reboot", [&](Machines& machines) { return machines.reboot(uuid, false); }},
        {"forced reboot", [&](Machines& machines) { return machines.reboot(uuid, true); }},
    };
    for (auto const& [name, act] : acts) {
        for (int n = 0;; ++n) {
            bool const was_killed = kill_at(n, act);
            Host host(directory());
            EXPECT_EQ(text_of(recover(*host.machines, uuid).result), "ok");
            EXPECT_EQ(host.machines->get(uuid)->state, State::running) << name << ", killed at " << n;
            if (!was_killed) break;
        }
    }
}

TEST_F(MachinesTest, AMachineThatWasDownStaysDownWhenAnInterruptedRollbackIsFinished) {
    Creation const made = creation(R"(,"autoboot":false)");
    Uuid const uuid = made.machine.uuid;
    {
        Host host(directory());
        ASSERT_EQ(text_of(host.machines->create(made)), "ok");
        ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "one")), "ok");
    }
    for (int n = 0;; ++n) {
        bool const was_killed = kill_at(n, [&](Machines& machines) { return machines.rollback_snapshot(uuid, "one"); });
        Host host(directory());
        EXPECT_EQ(text_of(recover(*host.machines, uuid).result), "ok");
        EXPECT_EQ(host.machines->get(uuid)->state, State::stopped) << n;
        if (!was_killed) break;
    }
}

/// At boot it is prepare that finishes a rollback, and systemd has already been told to start the machine.
TEST_F(MachinesTest, ARollbackThatIsFinishedAtBootDoesNotKeepTheMachineFromStarting) {
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    {
        Host host(directory());
        ASSERT_EQ(text_of(host.machines->create(made)), "ok");
        ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "one")), "ok");
    }
    for (int n = 0;; ++n) {
        bool const was_killed = kill_at(n, [&](Machines& machines) { return machines.rollback_snapshot(uuid, "one"); });
        Host host(directory());
        ASSERT_TRUE(host.units().start(uuid, std::chrono::seconds(0), {}, {}));
        auto const failed = host.machines->prepare();
        ASSERT_TRUE(failed);
        EXPECT_THAT(*failed, IsEmpty()) << n;
        EXPECT_EQ(host.machines->get(uuid)->state, State::running) << n;
        if (!was_killed) break;
    }
}

TEST_F(MachinesTest, AMachineIsStoppedThoughWhatWasInterruptedCannotBeFinished) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const journal = host.root() / "var/triton/vmadm/journal";
    fs::create_directories(journal);
    std::ofstream(journal / (uuid.text() + ".json")) << "{}";
    auto const stopped = host.machines->stop(uuid, {});
    ASSERT_FALSE(stopped);
    EXPECT_THAT(stopped.error().text(), HasSubstr("it is not a mark of an operation"));
    EXPECT_THAT(stopped.error().details,
                ElementsAre("VM " + uuid.text() + " is stopped, but may start with the host: " +
                            "an earlier command was interrupted, and cannot be finished now"));
    EXPECT_EQ(host.machines->get(uuid)->state, State::stopped);
    EXPECT_TRUE(host.units().starts_at_boot(uuid));
}

/// systemd would try to start it later, fail, and call the host degraded.
TEST_F(MachinesTest, ADeletionThatIsFinishedAtBootLeavesNothingToStart) {
    for (int n = 0;; ++n) {
        Creation const made = creation();
        Uuid const uuid = made.machine.uuid;
        ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
        bool const was_killed = kill_at(n, [&](Machines& machines) { return machines.destroy(uuid); });
        Host host(directory());
        if (!was_killed) break;
        ASSERT_TRUE(host.units().start(uuid, std::chrono::seconds(0), {}, {}));
        ASSERT_TRUE(host.machines->prepare());
        bool const runs = !host.units().status(uuid)->is_down();
        EXPECT_EQ(runs, host.machines->store().exists(uuid)) << n;
        if (host.machines->store().exists(uuid)) {
            EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
        }
        ASSERT_TRUE(host.units().halt(uuid));
    }
}

TEST_F(MachinesTest, UpdatesAtOnceLoseNothing) {
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
    std::vector<pid_t> children;
    for (int n = 0; n < 8; ++n) {
        pid_t const child = ::fork();
        if (child == 0) {
            Host host(directory());
            auto const done =
                host.machines->update(uuid, updating(R"({"set_tags":{"t)" + std::to_string(n) + R"(":1}})"));
            ::_exit(done ? 0 : 1);
        }
        children.push_back(child);
    }
    for (pid_t const child : children) {
        int status = 0;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(Host(directory()).machines->get(uuid)->tags.size(), 8U);
}

TEST_F(MachinesTest, TwoCommandsAtOnceAndTheSecondSaysWhoIsFirst) {
    Host host(directory());
    Creation const made = creation();
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    Uuid const uuid = made.machine.uuid;
    auto const first = host.machines->store().lock(uuid, "vmadm update", milliseconds(0));
    ASSERT_TRUE(first);
    auto const second = host.machines->store().lock(uuid, "vmadm stop", milliseconds(20));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::busy);
    EXPECT_EQ(second.error().text(),
              "VM " + uuid.text() + " is in use by \"vmadm update\" (process " + std::to_string(::getpid()) + ")");
}

/// What two processes say that do something at the same time: "ok", or why they could not.
class AtOnce {
public:
    using Act = std::function<Result<>(Machines&)>;

    explicit AtOnce(fs::path directory) : directory_(std::move(directory)) {}

    [[nodiscard]] std::pair<std::string, std::string> run(Act const& one, Act const& other) const {
        int begin[2];
        EXPECT_EQ(::pipe(begin), 0);
        Said const first = start(one, begin);
        Said const second = start(other, begin);
        ::close(begin[0]);
        ::close(begin[1]);  // both wait for this
        return {answer(first), answer(second)};
    }

private:
    struct Said {
        pid_t process;
        int text;
    };
    [[nodiscard]] Said start(Act const& act, int (&begin)[2]) const {
        int said[2];
        EXPECT_EQ(::pipe(said), 0);
        pid_t const child = ::fork();
        if (child == 0) {
            Host host(directory_);
            ::close(begin[1]);
            char nothing = 0;
            (void)!::read(begin[0], &nothing, 1);
            std::string const text = text_of(act(*host.machines));
            (void)!::write(said[1], text.data(), text.size());
            ::_exit(0);
        }
        ::close(said[1]);
        return {child, said[0]};
    }
    static std::string answer(Said const& said) {
        std::string text(4096, '\0');
        ssize_t const got = ::read(said.text, text.data(), text.size());
        text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        ::close(said.text);
        int status = 0;
        ::waitpid(said.process, &status, 0);
        EXPECT_EQ(status, 0);
        return text;
    }

    fs::path directory_;
};

template <class Value>
Result<> without_value(Result<Value> const& result) {
    if (result) return {};
    return std::unexpected(result.error());
}

constexpr int rounds_at_once = 12;

TEST_F(MachinesTest, OfTwoThatCreateOneMachineOneDoes) {
    AtOnce const at_once(directory());
    for (int n = 0; n < rounds_at_once; ++n) {
        Creation const made = creation();
        auto const create = [&](Machines& machines) { return machines.create(made); };
        auto said = at_once.run(create, create);
        if (said.first != "ok") std::swap(said.first, said.second);
        EXPECT_EQ(said.first, "ok");
        EXPECT_EQ(said.second, "VM with UUID " + made.machine.uuid.text() + " already exists");
        Host host(directory());
        EXPECT_EQ(text_of(host.machines->destroy(made.machine.uuid)), "ok");
        EXPECT_THAT(host.parts_of(made.machine.uuid), IsEmpty());
    }
}

/// Whatever is done to a machine that is being deleted: it was done before, or there was no machine any more. Nothing
/// of it is left, not even the lock.
TEST_F(MachinesTest, WhoComesWhileAMachineIsDeletedComesBeforeOrAfter) {
    AtOnce const at_once(directory());
    Uuid uuid;
    Creation copy = creation();
    UniqueFd const nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    std::vector<std::pair<std::string, AtOnce::Act>> const acts{
        {"delete", [&](Machines& machines) { return machines.destroy(uuid); }},
        {"start", [&](Machines& machines) { return without_value(machines.start(uuid)); }},
        {"stop", [&](Machines& machines) { return without_value(machines.stop(uuid, {})); }},
        {"update", [&](Machines& machines) { return without_value(machines.update(uuid, updating(R"({"ram":77})"))); }},
        {"snapshot", [&](Machines& machines) { return machines.create_snapshot(uuid, "a"); }},
        {"reprovision",
         [&](Machines& machines) {
             return machines.reprovision(uuid, *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002"));
         }},
        {"clone", [&](Machines& machines) { return machines.clone(uuid, "", copy); }},
        {"send", [&](Machines& machines) { return machines.send(uuid, nowhere.get()); }},
        {"recover", [&](Machines& machines) { return recover(machines, std::nullopt).result; }},
    };
    for (auto const& [name, act] : acts) {
        for (int n = 0; n < rounds_at_once; ++n) {
            Creation const made = creation();
            uuid = made.machine.uuid;
            copy = creation();
            ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
            auto const said = at_once.run(act, [&](Machines& machines) { return machines.destroy(uuid); });
            std::set<std::string> const texts{said.first, said.second};
            std::string const gone = "VM " + uuid.text() + " not found";
            EXPECT_TRUE(texts.contains("ok") && (texts.size() == 1 || texts.contains(gone)))
                << name << ": " << said.first << " / " << said.second;
            EXPECT_TRUE(said.second == "ok" || name == "delete") << name << ": " << said.second;
            Host host(directory());
            EXPECT_THAT(host.parts_of(uuid), IsEmpty()) << name;
            if (host.machines->store().exists(copy.machine.uuid)) {
                EXPECT_EQ(text_of(host.machines->destroy(copy.machine.uuid)), "ok");
            }
            EXPECT_THAT(host.parts_of(copy.machine.uuid), IsEmpty()) << name;
        }
    }
}

TEST_F(MachinesTest, WhatIsDoneToAMachineAtOnceIsDoneOneAfterTheOther) {
    AtOnce const at_once(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
    Uuid const image = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    for (int n = 0; n < rounds_at_once; ++n) {
        std::string const tag = "t" + std::to_string(n);
        auto const updated = at_once.run(
            [&](Machines& machines) {
                return without_value(machines.update(uuid, updating(R"({"set_tags":{")" + tag + R"(":1}})")));
            },
            [&](Machines& machines) { return without_value(machines.stop(uuid, {})); });
        EXPECT_EQ(updated, std::pair(std::string("ok"), std::string("ok")));
        auto const stopped = Host(directory()).machines->get(uuid);
        ASSERT_TRUE(stopped);
        EXPECT_EQ(stopped->state, State::stopped);
        EXPECT_EQ(stopped->autoboot, std::optional(false));

        auto const started = at_once.run([&](Machines& machines) { return machines.reprovision(uuid, image); },
                                         [&](Machines& machines) { return without_value(machines.start(uuid)); });
        EXPECT_EQ(started, std::pair(std::string("ok"), std::string("ok")));
        Host host(directory());
        auto const running = host.machines->get(uuid);
        ASSERT_TRUE(running);
        EXPECT_EQ(running->state, State::running);
        EXPECT_EQ(running->image_uuid, image);
        EXPECT_EQ(running->tags.size(), static_cast<std::size_t>(n + 1));
        EXPECT_FALSE(fs::exists(host.root() / "pool/incoming" / uuid.text()));
    }
    Host host(directory());
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
    EXPECT_THAT(host.parts_of(uuid), IsEmpty());
}

TEST_F(MachinesTest, AStopMendsOneThatWasKilledBeforeSystemdKnew) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    for (int n = 0; n < 2; ++n) {
        ASSERT_TRUE(host.machines->stop(uuid, {}));
        EXPECT_FALSE(host.units().starts_at_boot(uuid));
        ASSERT_TRUE(host.units().set_autostart(uuid, true));  // as it was when the machine had been saved only
    }
    ASSERT_TRUE(host.machines->stop(uuid, {}));
    EXPECT_FALSE(host.units().starts_at_boot(uuid));
}

TEST_F(MachinesTest, NoCommandLeavesALockOfAMachineThatDoesNotExist) {
    Host host(directory());
    Uuid const uuid = *Uuid::random();
    std::string const gone = "VM " + uuid.text() + " not found";
    UniqueFd const nothing(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(text_of(host.machines->send(uuid, nothing.get())), gone);
    EXPECT_EQ(text_of(host.machines->clone(uuid, "", creation())), gone);
    EXPECT_THAT(host.parts_of(uuid), IsEmpty());
}

/// Whether a process waits for a flock(2).
bool waits_for_lock(pid_t process) {
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);)
        if (line.find("-> FLOCK") != std::string::npos &&
            line.find(' ' + std::to_string(process) + ' ') != std::string::npos)
            return true;
    return false;
}

/// Whoever finds that the history is full moves it away, unless somebody else has just done it: the new one is not
/// full, and would take the place of what was moved.
TEST_F(MachinesTest, TheHistoryThatWasMovedAwayIsKept) {
    Store const store{Layout{directory().string()}};
    std::string const history = store.layout().state() + "/history.jsonl";
    fs::create_directories(store.layout().state());
    std::ofstream(history) << "{" + std::string(1 << 20, '.') + "}\n{the old one}\n";
    UniqueFd old(::open(history.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(::flock(old.get(), LOCK_EX), 0);
    auto const add = [&] { return store.add_event({.uuid = *Uuid::random(), .command = "start", .outcome = "ok"}); };
    pid_t const child = ::fork();
    if (child == 0) {
        old = UniqueFd();  // the lock is its parent's
        ::_exit(add() ? 0 : 1);
    }
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0 && !waits_for_lock(child)) {
    }
    ASSERT_FALSE(fs::exists(history + ".1"));
    fs::rename(history, history + ".1");
    ASSERT_TRUE(add());
    old = UniqueFd();
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(store.history(std::nullopt)->size(), 4U);
    EXPECT_TRUE(fs::exists(history));
}

TEST_F(MachinesTest, ATreeThatBelongsToNobodyIsRemovedWhenItIsNamed) {
    Host host(directory());
    Uuid const uuid = *Uuid::random();
    ASSERT_TRUE(host.pool().make(tree_of(uuid)));
    auto const told = recover(*host.machines, std::nullopt);
    ASSERT_TRUE(told.result);
    EXPECT_THAT(told.lines, ElementsAre("tree machines/" + uuid.text() + ": belongs to no VM; vmadm recover " +
                                        uuid.text() + " removes it"));
    EXPECT_TRUE(*host.pool().exists(tree_of(uuid)));
    auto const done = recover(*host.machines, uuid);
    ASSERT_TRUE(done.result);
    EXPECT_THAT(done.lines, ElementsAre("tree machines/" + uuid.text() + ": removed, it belongs to no VM"));
    EXPECT_FALSE(*host.pool().exists(tree_of(uuid)));
}

/// Where the disk with the machines' files is not mounted, every tree looks like this.
TEST_F(MachinesTest, ATreeThatIsThereAlreadyIsNotTakenForANewMachine) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    std::string const stream = (directory() / "stream").string();
    UniqueFd const to(::open(stream.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(text_of(host.machines->send(uuid, to.get())), "ok");
    fs::path const kept = fs::path(host.pool().path(tree_of(uuid))) / "root/kept";
    std::ofstream(kept) << "x";
    fs::rename(host.root() / "var/triton/vmadm", host.root() / "away");

    Creation const source = creation();
    ASSERT_EQ(text_of(host.machines->create(source)), "ok");
    std::string const refusal = "tree machines/" + uuid.text() +
                                " exists already and belongs to no VM; vmadm recover " + uuid.text() + " removes it";
    EXPECT_EQ(text_of(host.machines->create(made)), refusal);
    EXPECT_EQ(text_of(host.machines->clone(source.machine.uuid, "", made)), refusal);
    UniqueFd const from(::open(stream.c_str(), O_RDONLY | O_CLOEXEC));
    StreamReader reader(from.get());
    auto const head = reader.head();
    ASSERT_TRUE(head);
    EXPECT_EQ(text_of(host.machines->receive(reader, head->storage, made)), refusal);
    EXPECT_TRUE(fs::exists(kept));
    EXPECT_FALSE(host.machines->store().exists(uuid));
}

/// It would look like one without metadata and launch configuration, and would be written like that.
TEST_F(MachinesTest, AMachineWhoseTreeIsAwayIsLeftAlone) {
    Host host(directory());
    Creation const made = creation(R"(,"tags":{"a":1},"launch":{"programs":{}},"autoboot":false)");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const tree = host.pool().path(tree_of(uuid));
    fs::path const away = host.root() / "away";
    fs::rename(tree, away);
    std::string const refusal = "the pool does not have its tree machines/" + uuid.text();
    auto const error_of = [](auto const& result) { return result ? "ok" : result.error().text(); };
    EXPECT_EQ(error_of(host.machines->update(uuid, updating(R"({"alias":"new"})"))), refusal);
    EXPECT_EQ(error_of(host.machines->start(uuid)), refusal);
    EXPECT_EQ(error_of(host.machines->stop(uuid, {})), "ok");
    EXPECT_FALSE(fs::exists(tree));
    fs::rename(away, tree);
    auto const machine = host.machines->get(uuid);
    ASSERT_TRUE(machine);
    EXPECT_FALSE(machine->alias);
    EXPECT_EQ(machine->tags.size(), 1U);
}

/// Who is killed while a file is replaced leaves another one.
TEST_F(MachinesTest, HalfFilesOfItsNetworkDoNotKeepAMachineFromBeingDeleted) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const network = host.root() / "run/triton/network" / uuid.text();
    fs::create_directories(network);
    for (char const* const name : {"ports.json", "raised.json", "raised.json.Ab3dEf", ".ports.json.0123abcd.tmp"})
        std::ofstream(network / name) << R"({"ports":[]})";
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
    EXPECT_THAT(host.parts_of(uuid), IsEmpty());
}

/// A machine may run although its file is away: the disk with the files is not mounted.
TEST_F(MachinesTest, ANetworkThatBelongsToNobodyIsRemovedWhenItIsNamed) {
    Host host(directory());
    Uuid const uuid = *Uuid::random();
    Uuid const other = *Uuid::random();
    fs::path const networks = host.root() / "run/triton/network";
    for (Uuid const& owner : {uuid, other})
        fs::create_directories(networks / owner.text());
    auto const told = recover(*host.machines, std::nullopt);
    EXPECT_EQ(text_of(told.result), "ok");
    EXPECT_THAT(
        told.lines,
        testing::UnorderedElementsAre(
            "network of VM " + uuid.text() + ": there is no such VM; vmadm recover " + uuid.text() + " removes it",
            "network of VM " + other.text() + ": there is no such VM; vmadm recover " + other.text() + " removes it"));
    auto const done = recover(*host.machines, uuid);
    EXPECT_EQ(text_of(done.result), "ok");
    EXPECT_THAT(done.lines, ElementsAre("network of VM " + uuid.text() + ": removed, there is no such VM"));
    EXPECT_FALSE(fs::exists(networks / uuid.text()));
    EXPECT_TRUE(fs::exists(networks / other.text()));
}

TEST_F(MachinesTest, AMachineThatCannotBeRecoveredDoesNotKeepOthersFromIt) {
    Creation const first = creation();
    Creation const last = creation();
    for (Creation const* const made : {&first, &last})
        ASSERT_TRUE(kill_at(4, [made](Machines& machines) { return machines.create(*made); }));
    Host host(directory());
    fs::path const journal = host.root() / "var/triton/vmadm/journal";
    std::ofstream(journal / "00000000-0000-4000-8000-000000000000.json") << "{}";
    Uuid const stray = *Uuid::random();
    ASSERT_TRUE(host.pool().make(tree_of(stray)));
    auto const busy = host.machines->store().lock(last.machine.uuid, "vmadm create", milliseconds(0));
    ASSERT_TRUE(busy);
    auto const told = recover(*host.machines, std::nullopt);
    EXPECT_THAT(text_of(told.result), HasSubstr("it is not a mark of an operation"));
    EXPECT_THAT(told.lines,
                testing::IsSupersetOf({"VM " + first.machine.uuid.text() + ": an interrupted create was undone",
                                       "VM " + last.machine.uuid.text() + " is in use by \"vmadm create\" (process " +
                                           std::to_string(::getpid()) + "): left alone",
                                       "tree machines/" + stray.text() + ": belongs to no VM; vmadm recover " +
                                           stray.text() + " removes it"}));
    EXPECT_TRUE(fs::exists(journal / (last.machine.uuid.text() + ".json")));
}

/// Only one that another command has is left alone.
TEST_F(MachinesTest, WhatIsBusyInAMachineIsAnErrorOfItsRecovery) {
    Host host(directory());
    Creation const made = creation();
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_TRUE(kill_at(2, [&made](Machines& machines) { return machines.destroy(made.machine.uuid); }));
    host.units().is_busy = true;
    auto const told = recover(*host.machines, std::nullopt);
    EXPECT_THAT(text_of(told.result), HasSubstr("cannot ask systemd: Device or resource busy"));
    EXPECT_THAT(told.lines, IsEmpty());
}

TEST_F(MachinesTest, AFileThatIsGarbageHidesNoOther) {
    Host host(directory());
    Creation const made = creation();
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    std::ofstream(host.root() / "var/triton/vmadm/machines/4dad7f3e-0000-4000-8000-000000000000.json") << "{";
    std::ofstream(host.root() / "var/triton/vmadm/machines/hello.json") << "{}";
    auto const listed = host.machines->list();
    ASSERT_TRUE(listed);
    EXPECT_EQ(listed->machines.size(), 1U);
    ASSERT_EQ(listed->broken.size(), 2U);
    EXPECT_THAT(listed->broken[0].error.text(),
                HasSubstr("4dad7f3e-0000-4000-8000-000000000000.json: line 1, column 2"));
    EXPECT_EQ(listed->broken[1].error.text(), "\"hello\" is not a UUID");
}

/// A machine that cannot be made ready must not start at boot, but one that runs loses nothing.
TEST_F(MachinesTest, PreparingTakesNothingFromAMachineThatRuns) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const derived = host.root() / "run/systemd/nspawn" / (uuid.text() + ".nspawn");
    ASSERT_TRUE(fs::exists(derived));
    std::ofstream(host.root() / "var/triton/vmadm/machines" / (uuid.text() + ".json")) << "{";
    for (bool const does_run : {true, false}) {
        if (!does_run) {
            ASSERT_TRUE(host.units().halt(uuid));
        }
        auto const failed = host.machines->prepare();
        ASSERT_TRUE(failed) << failed.error().text();
        EXPECT_EQ(failed->size(), 1U);
        EXPECT_EQ(fs::exists(derived), does_run);
    }
}

/// Half of its files may be of before. Whoever finishes that would take the files from under a machine that runs.
TEST_F(MachinesTest, WhatCannotBeFinishedAtBootDoesNotStart) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_TRUE(host.units().halt(uuid));
    fs::path const journal = host.root() / "var/triton/vmadm/journal";
    fs::create_directories(journal);
    std::ofstream(journal / (uuid.text() + ".json")) << "{}";
    auto const failed = host.machines->prepare();
    ASSERT_TRUE(failed) << failed.error().text();
    ASSERT_EQ(failed->size(), 1U);
    EXPECT_THAT(failed->front().error.text(), HasSubstr("it is not a mark of an operation"));
    EXPECT_FALSE(fs::exists(host.root() / "run/systemd/nspawn" / (uuid.text() + ".nspawn")));
}

/// As systemctl and machinectl may.
TEST_F(MachinesTest, WhoWasStartedMeanwhileIsHaltedBeforeItsFilesAreReplaced) {
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    {
        Host host(directory());
        ASSERT_EQ(text_of(host.machines->create(made)), "ok");
        ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "one")), "ok");
    }
    Uuid const image = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    using Act = std::function<Result<>(Machines&)>;
    for (Act const& act : {Act([&](Machines& machines) { return machines.rollback_snapshot(uuid, "one"); }),
                           Act([&](Machines& machines) { return machines.reprovision(uuid, image); })}) {
        for (int n = 0;; ++n) {
            bool const was_killed = kill_at(n, act);
            Host host(directory());
            ASSERT_TRUE(host.units().start(uuid, std::chrono::seconds(0), {}, {}));
            fs::path const root = fs::path(*host.machines->get(uuid)->zonepath) / "root";
            struct stat before{};
            bool const was_there = ::stat(root.c_str(), &before) == 0;
            host.units().halted = false;
            ASSERT_EQ(text_of(recover(*host.machines, uuid).result), "ok");
            struct stat after{};
            ASSERT_EQ(::stat(root.c_str(), &after), 0);
            if (!was_there || before.st_ino != after.st_ino) {
                EXPECT_TRUE(host.units().halted) << n;
            }
            if (!was_killed) break;
        }
    }
}

/// A later snapshot may be what makes room.
TEST_F(MachinesTest, ARollbackThatFindsNoRoomGivesNothingUp) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const root = fs::path(*host.machines->get(uuid)->zonepath) / "root";
    std::ofstream(root / "large") << std::string(1 << 20, 'x');
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "one")), "ok");
    fs::remove(root / "large");
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "two")), "ok");
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    rlimit const small{1 << 16, limit.rlim_max};
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    Result<> const failed = host.machines->rollback_snapshot(uuid, "one");
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    (void)std::signal(SIGXFSZ, handler);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().text(), HasSubstr("File too large"));
    auto const machine = host.machines->get(uuid);
    EXPECT_EQ(machine->state, State::running);
    EXPECT_EQ(machine->snapshots.size(), 2U);
    EXPECT_EQ(text_of(host.machines->delete_snapshot(uuid, "two")), "ok") << "nothing is left to be finished first";
    EXPECT_EQ(text_of(host.machines->rollback_snapshot(uuid, "one")), "ok");
    EXPECT_TRUE(fs::exists(root / "large"));
}

/// ZFS goes back to the latest snapshot only, and keeps one that somebody has cloned.
TEST_F(MachinesTest, ARollbackThatIsRefusedKeepsTheSnapshotsThatAreInUse) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    host.other_pool->backend = storage::Backend::zfs;
    for (char const* const name : {"one", "two", "three", "four"})
        ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, name)), "ok");
    std::string in_use = "vmsnap-four";
    host.other_pool->before_delete_snapshot = [&](storage::SnapshotName const& name) -> Result<> {
        if (name.text() == in_use) return fail(ErrorKind::busy, "delete snapshot " + name.text(), "it has a clone");
        return {};
    };
    auto const left = [&] {
        std::vector<std::string> names;
        auto const machine = host.machines->get(uuid);
        for (Snapshot const& snapshot : machine->snapshots)
            names.push_back(snapshot.name);
        return names;
    };
    EXPECT_EQ(text_of(host.machines->rollback_snapshot(uuid, "one")),
              "cannot delete snapshot vmsnap-four: it has a clone");
    EXPECT_THAT(left(), ElementsAre("four", "three", "two", "one"));
    EXPECT_EQ(host.machines->get(uuid)->state, State::running);
    host.other_pool->is_looking = true;
    in_use = "vmsnap-three";
    EXPECT_EQ(text_of(host.machines->rollback_snapshot(uuid, "one")),
              "cannot delete snapshot vmsnap-three: it has a clone");
    EXPECT_THAT(left(), ElementsAre("four", "three", "two", "one"));
    in_use = "none";
    EXPECT_EQ(text_of(host.machines->rollback_snapshot(uuid, "two")), "ok");
    EXPECT_THAT(left(), ElementsAre("two", "one"));
}

/// Filters are evaluated before the first of many, and it may take minutes until it is the turn of the last one.
TEST_F(MachinesTest, WhatWasChosenByItsPropertiesIsLeftAloneWhenTheyChange) {
    Host host(directory());
    Creation const made = creation(R"(,"autoboot":false)");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    host.machines->only_while([](Machine const& machine) { return machine.state == State::stopped; });
    ASSERT_TRUE(host.machines->start(uuid));
    EXPECT_EQ(text_of(host.machines->destroy(uuid)),
              "VM " + uuid.text() + " has changed meanwhile: it is not one of those any more");
    EXPECT_EQ(host.machines->get(uuid)->state, State::running);
    ASSERT_TRUE(host.units().halt(uuid));
    EXPECT_EQ(text_of(host.machines->destroy(uuid)), "ok");
}

/// Nobody may take the one for the other.
TEST_F(MachinesTest, AnUnreadableMachineCountsWhereANameIsLookedFor) {
    Host host(directory());
    Creation made = creation();
    made.machine.uuid = *Uuid::parse("4dad7f3e-0000-4000-8000-000000000001");
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_TRUE(host.machines->find("4dad7f3e"));
    std::ofstream(host.root() / "var/triton/vmadm/machines/4dad7f3e-0000-4000-8000-000000000000.json") << "{";
    EXPECT_FALSE(host.machines->find("4dad7f3e"));
    EXPECT_TRUE(host.machines->find("4dad7f3e-0000-4000-8000-000000000001"));
}

TEST_F(MachinesTest, LinuxHasNoVlan4095) {
    Host host(directory());
    Creation const made = creation(R"(,"autoboot":false,"nics":[{"nic_tag":"admin","ips":["dhcp"],"vlan_id":4095}])");
    EXPECT_THAT(text_of(host.machines->create(made)), HasSubstr("invalid vlan_id for NIC: 4095"));
    EXPECT_THAT(host.parts_of(made.machine.uuid), IsEmpty());
}

/// Its processes may still run with them.
TEST_F(MachinesTest, TheUidsOfAnUnreadableMachineStayTaken) {
    Host host(directory());
    Creation const first = creation();
    ASSERT_EQ(text_of(host.machines->create(first)), "ok");
    auto const before = host.machines->get(first.machine.uuid)->first_uid;
    fs::path const file = host.root() / "var/triton/vmadm/machines" / (first.machine.uuid.text() + ".json");
    std::ofstream(file, std::ios::app) << "garbage";
    ASSERT_EQ(host.machines->list()->broken.size(), 1U);
    Creation const second = creation();
    ASSERT_EQ(text_of(host.machines->create(second)), "ok");
    EXPECT_NE(host.machines->get(second.machine.uuid)->first_uid, before);
}

/// An image that has no room, or is gone: the machine is what it was, and its owner may do all with it.
TEST_F(MachinesTest, AReprovisionThatFailsLeavesTheMachineAsItWas) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    std::string const root = *host.machines->get(uuid)->zonepath + "/root";
    std::ofstream(root + "/old") << "x";
    // what the clone would be made from is away for a moment
    fs::path const layer = host.pool().path(*storage::TreeName::parse("layers/a"));
    fs::rename(layer, layer.string() + "-away");
    EXPECT_NE(text_of(host.machines->reprovision(uuid, *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002"))), "ok");
    fs::rename(layer.string() + "-away", layer);
    EXPECT_TRUE(fs::exists(root + "/old"));
    EXPECT_EQ(host.machines->get(uuid)->image_uuid, made.machine.image_uuid);
    EXPECT_TRUE(host.machines->stop(uuid, {}));
    EXPECT_THAT(host.notices, IsEmpty()) << "nothing is left to be finished";
    EXPECT_EQ(text_of(host.machines->reprovision(uuid, *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002"))), "ok");
    EXPECT_FALSE(fs::exists(root + "/old"));
}

/// As ZFS does with a quota below what the tree holds.
Result<> too_small(storage::TreeName const&, std::optional<std::uint64_t> bytes) {
    if (bytes == std::uint64_t{1} << 30) return fail(ErrorKind::refused, "limit the tree", "it holds more");
    return {};
}

/// The machine would be one that nobody can change, start or stop.
TEST_F(MachinesTest, AQuotaThatIsRefusedChangesNothing) {
    Host host(directory());
    Creation const made = creation(R"(,"alias":"old")");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    host.other_pool->before_set_quota = too_small;
    EXPECT_EQ(text_of(without_value(
                  host.machines->update(uuid, updating(R"({"alias":"new","quota":1,"set_tags":{"a":1}})")))),
              "cannot limit the tree: it holds more");
    auto const machine = host.machines->get(uuid);
    ASSERT_TRUE(machine);
    EXPECT_EQ(machine->alias, "old");
    EXPECT_EQ(machine->quota, 0);
    EXPECT_THAT(machine->tags, IsEmpty());
    EXPECT_EQ(text_of(without_value(host.machines->update(uuid, updating(R"({"quota":50})")))), "ok");
    EXPECT_THAT(host.notices, IsEmpty()) << "nothing is left to be finished";
}

TEST_F(MachinesTest, AQuotaThatANativeToolHasSetIsShownAndStays) {
    constexpr std::uint64_t gib = std::uint64_t{1} << 30;
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    std::uint64_t& limit = host.other_pool->limits[tree_of(uuid)];
    auto const update = [&](std::string const& what) {
        return text_of(without_value(host.machines->update(uuid, updating(what))));
    };
    auto const stored = [&] { return host.machines->store().load(uuid)->quota; };

    ASSERT_EQ(update(R"({"quota":10})"), "ok");
    EXPECT_EQ(limit, 10 * gib);
    limit = 8 * gib;
    EXPECT_EQ(host.machines->get(uuid)->quota, 8);
    EXPECT_EQ(host.machines->list()->machines.front().quota, 8);
    ASSERT_EQ(update(R"({"alias":"new"})"), "ok");
    EXPECT_EQ(limit, 8 * gib);
    EXPECT_EQ(stored(), 10);
    ASSERT_EQ(update(R"({"quota":10})"), "ok") << "what the file has already is another one than what is in force";
    EXPECT_EQ(limit, 10 * gib);

    limit = 0;
    EXPECT_EQ(host.machines->get(uuid)->quota, 0);
    ASSERT_EQ(update(R"({"alias":"newer"})"), "ok");
    EXPECT_EQ(limit, 0);
    limit = 7 * gib + 1;
    EXPECT_EQ(text_of(host.machines->reprovision(uuid, *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002"))), "ok");
    EXPECT_EQ(limit, 7 * gib + 1);
    EXPECT_EQ(stored(), 10);

    // An update that fails leaves it, too.
    host.other_pool->before_set_quota = too_small;
    EXPECT_EQ(update(R"({"alias":"no","quota":1})"), "cannot limit the tree: it holds more");
    EXPECT_EQ(limit, 7 * gib + 1);
    EXPECT_EQ(stored(), 10);
    ASSERT_EQ(update(R"({"quota":0})"), "ok");
    EXPECT_EQ(limit, 0);
    EXPECT_EQ(stored(), 0);
}

TEST_F(MachinesTest, AnUpdateThatIsFinishedLaterSetsNoOtherLimits) {
    constexpr std::uint64_t limit = 8'000'000'000;
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
    auto const tree = tree_of(uuid);
    for (int n = 0;; ++n) {
        std::string const alias = "n" + std::to_string(n);
        bool const was_killed = kill_at(n, [&](Machines& machines) {
            return machines.update(uuid, updating(R"({"max_lwps":77,"alias":")" + alias + R"("})"));
        });
        Host host(directory());
        host.other_pool->limits[tree] = limit;
        ASSERT_EQ(text_of(recover(*host.machines, uuid).result), "ok") << n;
        EXPECT_EQ(host.other_pool->limits[tree], limit) << n;
        EXPECT_EQ(host.machines->get(uuid)->alias, alias);
        if (!was_killed) break;
    }
}

/// After a kill nobody knows any more what was before.
TEST_F(MachinesTest, AQuotaThatIsRefusedKeepsNoUpdateFromBeingFinished) {
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
    int refused = 0;
    for (int n = 0;; ++n) {
        std::string const alias = "n" + std::to_string(n);
        bool const was_killed = kill_at(n, [&](Machines& machines) {
            return machines.update(uuid, updating(R"({"quota":1,"alias":")" + alias + R"("})"));
        });
        Host host(directory());
        host.other_pool->before_set_quota = too_small;
        auto const recovered = recover(*host.machines, uuid);
        ASSERT_EQ(text_of(recovered.result), "ok") << n;
        auto const machine = host.machines->get(uuid);
        ASSERT_TRUE(machine);
        EXPECT_EQ(machine->alias, alias);
        EXPECT_EQ(machine->quota, 1);
        ASSERT_EQ(text_of(without_value(host.machines->update(uuid, updating(R"({"ram":77})")))), "ok");
        refused += static_cast<int>(std::ranges::count(
            recovered.lines, "quota: it is stored, but not in force: cannot limit the tree: it holds more"));
        ASSERT_EQ(text_of(without_value(host.machines->update(uuid, updating(R"({"quota":2})")))), "ok");
        if (!was_killed) break;
    }
    EXPECT_GT(refused, 0) << "killed before its step, it is set later";
}

TEST_F(MachinesTest, AnImageThatIsLargerThanTheQuotaTakesNothingFromTheMachine) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_EQ(text_of(without_value(host.machines->update(uuid, updating(R"({"quota":1})")))), "ok");
    fs::path const old = fs::path(*host.machines->get(uuid)->zonepath) / "root/old";
    std::ofstream(old) << "x";
    host.other_pool->before_set_quota = too_small;
    Uuid const image = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    host.units().halted = false;
    EXPECT_EQ(text_of(host.machines->reprovision(uuid, image)), "cannot limit the tree: it holds more");
    EXPECT_FALSE(host.units().halted);
    EXPECT_TRUE(fs::exists(old));
    EXPECT_EQ(host.machines->get(uuid)->image_uuid, made.machine.image_uuid);
    EXPECT_FALSE(fs::exists(host.root() / "pool/incoming" / uuid.text()));
    EXPECT_EQ(text_of(without_value(host.machines->update(uuid, updating(R"({"quota":2})")))), "ok");
    EXPECT_EQ(text_of(host.machines->reprovision(uuid, image)), "ok");
    EXPECT_FALSE(fs::exists(old));
}

/// imgadm makes an image of it, or was killed while it did.
TEST_F(MachinesTest, AReprovisionOfAMachineThatIsInUseLeavesItRunning) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    fs::path const old = fs::path(*host.machines->get(uuid)->zonepath) / "root/old";
    std::ofstream(old) << "x";
    host.other_pool->before_destroy = [&](storage::TreeName const& tree) -> Result<> {
        if (tree != tree_of(uuid)) return {};
        return fail(ErrorKind::busy, "destroy tree " + tree.text(), "it was cloned to building/7");
    };
    Uuid const image = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    std::string const refusal = "cannot destroy tree machines/" + uuid.text() + ": it was cloned to building/7";
    auto const refused = host.machines->reprovision(uuid, image);
    EXPECT_EQ(text_of(refused), refusal);
    EXPECT_THAT(refused.error().details,
                ElementsAre("imgadm is making an image of it; if that was killed, imgadm gc removes what it has left"));
    EXPECT_EQ(host.machines->get(uuid)->state, State::running);
    EXPECT_EQ(host.machines->get(uuid)->image_uuid, made.machine.image_uuid);
    EXPECT_TRUE(fs::exists(old));
    EXPECT_FALSE(fs::exists(host.root() / "pool/incoming" / uuid.text()));
    EXPECT_TRUE(host.machines->stop(uuid, {}));
    EXPECT_THAT(host.notices, IsEmpty()) << "nothing is left to be finished";
    EXPECT_EQ(text_of(host.machines->reprovision(uuid, image)), refusal);
    EXPECT_EQ(host.machines->get(uuid)->state, State::stopped);
    host.other_pool->before_destroy = {};
    EXPECT_EQ(text_of(host.machines->reprovision(uuid, image)), "ok");
    EXPECT_FALSE(fs::exists(old));
}

/// The new tree is all that is left then.
TEST_F(MachinesTest, AReprovisionThatHasLostTheOldTreeIsFinished) {
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(Host(directory()).machines->create(made)), "ok");
    Uuid const image = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    for (bool const is_gone : {false, true}) {  // systemd, when the next command comes
        bool const was_killed = kill_at(1000, [&](Machines&) {
            Host host(directory());
            host.other_pool->after_destroy = [&](storage::TreeName const& tree) -> Result<> {
                if (tree == tree_of(uuid)) ::_exit(killed);
                return {};
            };
            return host.machines->reprovision(uuid, image);
        });
        ASSERT_TRUE(was_killed);
        Host host(directory());
        host.units().is_gone = is_gone;
        EXPECT_EQ(text_of(recover(*host.machines, uuid).result), is_gone ? "systemd is not there" : "ok");
        host.units().is_gone = false;
        EXPECT_EQ(text_of(recover(*host.machines, uuid).result), "ok");
        EXPECT_EQ(host.machines->get(uuid)->state, State::running);
        EXPECT_EQ(host.machines->get(uuid)->image_uuid, image);
        EXPECT_TRUE(fs::exists(fs::path(*host.machines->get(uuid)->zonepath) / "root/usr"));
    }
}

/// What has lost its name is gone, although its room is not free yet.
TEST_F(MachinesTest, AReprovisionGoesOnWithoutTheRoomOfTheOldTree) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    host.other_pool->after_destroy = [](storage::TreeName const&) -> Result<> { return fail(EIO, "remove it"); };
    Uuid const image = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    EXPECT_EQ(text_of(host.machines->reprovision(uuid, image)), "ok");
    EXPECT_EQ(host.machines->get(uuid)->image_uuid, image);
}

/// An earlier version has swapped the trees before it set the quota.
TEST_F(MachinesTest, AReprovisionThatHasSwappedItsTreesIsFinishedWithoutItsQuota) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_EQ(text_of(without_value(host.machines->update(uuid, updating(R"({"quota":1})")))), "ok");
    auto machine = host.machines->read(uuid);
    ASSERT_TRUE(machine);
    machine->image_uuid = *Uuid::parse("5e6a4c11-0c2f-4a44-8c1f-000000000002");
    auto const journal = host.machines->store().journal(uuid, true);
    ASSERT_TRUE(
        journal->write({.operation = "reprovision", .data = whole_text(*machine), .step = 5, .was_running = true}));
    host.other_pool->before_set_quota = too_small;
    EXPECT_EQ(text_of(recover(*host.machines, uuid).result), "ok");
    EXPECT_EQ(host.machines->get(uuid)->image_uuid, machine->image_uuid);
    EXPECT_EQ(host.machines->get(uuid)->state, State::running);
}

/// Whoever makes an image does not choose where we write.
TEST_F(MachinesTest, ConfigOfAnImageIsNotFollowed) {
    Host host(directory());
    fs::path const target = directory() / "elsewhere";
    fs::create_directories(target);
    auto const layer = *storage::TreeName::parse("layers/a");
    auto const final_one = *storage::SnapshotName::parse("final");
    ASSERT_TRUE(host.pool().delete_snapshot(layer, final_one));
    fs::create_symlink(target, fs::path(host.pool().path(layer)) / "config");
    ASSERT_TRUE(host.pool().snapshot(layer, final_one));
    Creation const made = creation(R"(,"tags":{"a":1})");
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    EXPECT_TRUE(fs::is_empty(target));
    EXPECT_EQ(host.machines->get(made.machine.uuid)->tags.size(), 1U);
}

TEST_F(MachinesTest, SnapshotsHaveNamesOf64CharactersAndTellTheirTime) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    std::string const longest(64, 'n');
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, longest)), "ok");
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "later")), "ok");
    EXPECT_EQ(text_of(host.machines->create_snapshot(uuid, longest + "n")), "Invalid snapshot name");
    EXPECT_EQ(text_of(host.machines->create_snapshot(uuid, "%a/b")), "Invalid snapshot name");
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "%50%")), "ok");
    EXPECT_EQ(host.machines->get(uuid)->snapshots.front().name, "%50%");
    ASSERT_EQ(text_of(host.machines->delete_snapshot(uuid, "%50%")), "ok");

    auto const snapshots = host.machines->get(uuid)->snapshots;
    ASSERT_EQ(snapshots.size(), 2U);
    EXPECT_EQ(snapshots[0].name, "later");
    EXPECT_EQ(snapshots[1].name, longest);
    for (Snapshot const& snapshot : snapshots) {
        if (!snapshot.created_at) GTEST_SKIP() << "the file system keeps no time of birth";
        EXPECT_GT(*snapshot.created_at, "2020");
    }
    EXPECT_GE(*snapshots[0].created_at, *snapshots[1].created_at);
    ASSERT_EQ(text_of(host.machines->rollback_snapshot(uuid, longest)), "ok");
    EXPECT_EQ(host.machines->get(uuid)->snapshots.at(0).created_at, snapshots[1].created_at);
    ASSERT_EQ(text_of(host.machines->delete_snapshot(uuid, longest)), "ok");
}

/// The snapshot brings another launch configuration back.
TEST_F(MachinesTest, ARollbackDerivesAnew) {
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "before")), "ok");
    ASSERT_TRUE(host.machines->update(uuid, updating(R"({"launch":{"programs":{}}})")));
    auto const derived = [&] {
        std::ifstream file(host.root() / "run/systemd/nspawn" / (uuid.text() + ".nspawn"));
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    EXPECT_THAT(derived(), HasSubstr("triton-launch"));
    ASSERT_EQ(text_of(host.machines->rollback_snapshot(uuid, "before")), "ok");
    EXPECT_THAT(derived(), HasSubstr("Boot=yes"));
}

/// systemd-nspawn refuses both, the second one only where it looks for the init itself.
TEST_F(MachinesTest, AnImageNeedsNeitherUsrNorOsRelease) {
    Host host(directory());
    Creation const made = creation(R"(,"autoboot":false)");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    EXPECT_THAT(host.notices, IsEmpty());
    fs::path const settings = host.root() / "run/systemd/nspawn" / (uuid.text() + ".nspawn");
    EXPECT_THAT(content(settings), HasSubstr("Boot=yes\n"));
    fs::path const root = fs::path(*host.machines->get(uuid)->zonepath) / "root";
    fs::remove(root / "usr");
    fs::remove(root / "etc/os-release");
    ASSERT_TRUE(host.machines->start(uuid));
    EXPECT_TRUE(fs::is_directory(root / "usr"));
    EXPECT_THAT(host.notices, ElementsAre(HasSubstr("has no /usr: an empty one was made")));
    EXPECT_THAT(content(settings), HasSubstr("Boot=no\nParameters=/sbin/init\n"));
}

/// As systemd-nspawn leaves them on a file system without idmapped mounts, which may have them after an upgrade.
TEST_F(MachinesTest, FilesThatBelongToUidsOfTheHostStaySo) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
    Host host(directory());
    Creation const made = creation();
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    auto const derived = [&] {
        std::ifstream file(host.root() / "run/systemd/nspawn" / (uuid.text() + ".nspawn"));
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    EXPECT_THAT(derived(), HasSubstr("PrivateUsersOwnership=auto"));
    auto const machine = host.machines->get(uuid);
    ASSERT_TRUE(machine && machine->first_uid);
    auto const first = static_cast<uid_t>(*machine->first_uid);
    ASSERT_EQ(::chown((*machine->zonepath + "/root").c_str(), first, first), 0);
    ASSERT_EQ(text_of(without_value(host.machines->update(uuid, updating(R"({"alias":"shifted"})")))), "ok");
    EXPECT_THAT(derived(), HasSubstr("PrivateUsersOwnership=chown"));
}

TEST_F(MachinesTest, ARollbackStartsNothingFromFilesOfBefore) {
    Host host(directory());
    Creation const made = creation(R"(,"nics":[{"nic_tag":"admin","ips":["10.0.0.2/24"]}])");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    ASSERT_EQ(text_of(host.machines->create_snapshot(uuid, "before")), "ok");
    ASSERT_TRUE(host.machines->start(uuid));
    host.networks.is_gone = true;
    EXPECT_EQ(text_of(host.machines->rollback_snapshot(uuid, "before")), "there is no bridge");
    EXPECT_TRUE(host.units().status(uuid)->is_down());
    host.networks.is_gone = false;
    EXPECT_TRUE(host.machines->start(uuid));
}

/// The launcher's environment has the values of customer_metadata, where passwords are.
TEST_F(MachinesTest, WhatIsDerivedIsNotReadableForEverybody) {
    Host host(directory());
    host.units().is_unified = true;
    Creation const made = creation(R"(,"customer_metadata":{"password":"secret"},"launch":{"programs":{}})");
    Uuid const uuid = made.machine.uuid;
    ASSERT_EQ(text_of(host.machines->create(made)), "ok");
    constexpr fs::perms ours = fs::perms::owner_read | fs::perms::owner_write;
    for (char const* const kind : {".nspawn", ".environment"}) {
        fs::path const file = host.root() / "run/systemd/nspawn" / (uuid.text() + kind);
        EXPECT_EQ(fs::status(file).permissions(), ours) << kind;
        fs::permissions(file, fs::perms(0644));  // as an older version has left it
    }
    ASSERT_TRUE(host.machines->prepare());
    for (char const* const kind : {".nspawn", ".environment"})
        EXPECT_EQ(fs::status(host.root() / "run/systemd/nspawn" / (uuid.text() + kind)).permissions(), ours) << kind;
}

TEST_F(MachinesTest, TwoHundredMachinesComeAndGo) {
    Host host(directory());
    for (int i = 0; i < 200; ++i) {
        Creation const made = creation();
        ASSERT_EQ(text_of(host.machines->create(made)), "ok") << i;
        ASSERT_EQ(text_of(host.machines->destroy(made.machine.uuid)), "ok") << i;
        ASSERT_THAT(host.parts_of(made.machine.uuid), IsEmpty()) << i;
    }
}

}  // namespace
}  // namespace triton::machine
