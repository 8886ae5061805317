#include "host/observe/observer.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "host/observe/file_poll.h"
#include "host/observe/file_watches.h"

namespace triton::observe {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr Duration longest_wait = std::chrono::seconds(60);
std::string const first = "371f18c0-9f73-4e86-94f6-c1cf71188d23";
std::string const second = "a71f18c0-9f73-4e86-94f6-c1cf71188d24";

/// A host of files in a directory of its own.
class Place {
public:
    Place() {
        fs::remove_all(root_);
        fs::create_directories(machines());
        fs::create_directories(root_ + "/etc/triton");
        std::ofstream(root_ + "/etc/triton/triton.json") << R"({"storage":{"backend":"directory"}})";
    }
    ~Place() { fs::remove_all(root_); }
    Place(Place const&) = delete;
    Place& operator=(Place const&) = delete;

    [[nodiscard]] std::string const& root() const { return root_; }
    [[nodiscard]] std::string machines() const { return root_ + "/var/triton/vmadm/machines"; }
    [[nodiscard]] std::string pool() const { return root_ + "/var/triton/pool"; }
    [[nodiscard]] std::string tree(std::string const& uuid) const { return pool() + "/machines/" + uuid + "/@tree"; }
    /// As vmadm does: a whole file takes its name.
    static void replace(std::string const& path, std::string const& text) {
        std::ofstream(path + ".new") << text;
        fs::rename(path + ".new", path);
    }
    void write(std::string const& uuid, std::string const& alias) const {
        replace(machines() + "/" + uuid + ".json",
                R"({"uuid":")" + uuid + R"(","brand":"lx","alias":")" + alias +
                    R"(","image_uuid":"00000000-0000-0000-0000-000000000001","v":1,"phase":"installed"})");
    }

private:
    std::string root_ = testing::TempDir() + "observer-" + std::to_string(::getpid());
};

class ObserverTest : public testing::Test {
protected:
    void SetUp() override {
        auto const now = [this] {
            if (std::this_thread::get_id() != main_) hangs_.wait(true);
            return ++time_;
        };
        auto created = Observer::create({.root = place_.root(), .now = now, .stuck_after = stuck_after_},
                                        {loop_, agenda_, cache_, feed_, log_, [] {}});
        ASSERT_TRUE(created) << created.error().text();
        observer_ = *std::move(created);
    }
    void TearDown() override {
        hangs_ = false;
        hangs_.notify_all();
        observer_.reset();
        loop_.restart();
        loop_.poll();  // what was on its way
    }
    void load() {
        bool is_loaded = false;
        observer_->start([&is_loaded] { is_loaded = true; });
        ASSERT_TRUE(run_until([&] { return is_loaded; }));
    }
    template <class Condition>
    bool run_until(Condition const& is_so) {
        TimePoint const deadline = std::chrono::steady_clock::now() + longest_wait;
        loop_.restart();
        while (!is_so() && std::chrono::steady_clock::now() < deadline)
            loop_.run_one_for(std::chrono::seconds(1));
        return is_so();
    }
    std::string shown(std::string const& name) {
        auto const document = cache_.find(name);
        return document ? *document->text(info::View::full) : "";
    }
    bool shows(std::string const& name, std::string const& text) {
        return run_until([&] { return shown(name).find(text) != std::string::npos; });
    }
    void look_again(std::string const& name) {
        bool is_answered = false;
        observer_->look_again(Uuid::parse(name), [&](Result<> const&) { is_answered = true; });
        ASSERT_TRUE(run_until([&] { return is_answered; }));
    }

    Place place_;
    std::thread::id main_ = std::this_thread::get_id();
    std::atomic<bool> hangs_ = false;  // a thread that asks for the time waits until it is false
    Duration stuck_after_ = std::chrono::seconds(30);
    std::atomic<std::int64_t> time_ = 1'700'000'000'000'000;
    net::Loop loop_{1};
    log::Log log_{{.level = log::LogLevel::off, .path = {}}};
    info::Feed feed_{0};
    info::Cache cache_{feed_};
    info::Agenda agenda_;
    std::unique_ptr<Observer> observer_;
};

TEST_F(ObserverTest, LoadsWhatThereIs) {
    place_.write(first, "one");
    Place::replace(place_.machines() + "/" + second + ".json", "garbage");
    Place::replace(place_.machines() + "/notes.json", "{}");
    load();
    EXPECT_THAT(shown(first), HasSubstr(R"("alias":"one")"));
    EXPECT_THAT(shown(first), HasSubstr(R"("state":"stopped")"));
    EXPECT_THAT(shown(second), HasSubstr(R"("state":"unreadable")"));
    EXPECT_THAT(shown("notes"), HasSubstr("is not a UUID"));
    EXPECT_EQ(cache_.counts().machines, 3U);
    EXPECT_EQ(observer_->facts().state, "running");
    EXPECT_EQ(observer_->facts().missed, 0U);
}

TEST_F(ObserverTest, SeesFilesComeChangeAndGo) {
    load();
    place_.write(first, "one");
    ASSERT_TRUE(shows(first, R"("alias":"one")"));
    place_.write(first, "two");
    ASSERT_TRUE(shows(first, R"("alias":"two")"));
    fs::remove(place_.machines() + "/" + first + ".json");
    ASSERT_TRUE(run_until([&] { return !cache_.find(first); }));
    EXPECT_EQ(observer_->facts().missed, 0U);
}

TEST_F(ObserverTest, SeesFilesOfTheTreeAlsoInOneThatTakesItsPlace) {
    place_.write(first, "one");
    load();
    fs::create_directories(place_.tree(first) + "/config/launch");
    std::string const metadata = place_.tree(first) + "/config/metadata.json";
    Place::replace(metadata, R"({"customer_metadata":{"color":"red"}})");
    ASSERT_TRUE(shows(first, "red"));
    Place::replace(metadata, R"({"customer_metadata":{"color":"green"}})");
    ASSERT_TRUE(shows(first, "green"));
    // A rollback: another directory gets the tree's name.
    fs::copy(place_.tree(first), place_.tree(first) + "2", fs::copy_options::recursive);
    Place::replace(place_.tree(first) + "2/config/metadata.json", R"({"customer_metadata":{"color":"blue"}})");
    fs::rename(place_.tree(first), place_.tree(first) + "1");
    fs::rename(place_.tree(first) + "2", place_.tree(first));
    ASSERT_TRUE(shows(first, "blue"));
    Place::replace(metadata, R"({"customer_metadata":{"color":"black"}})");
    ASSERT_TRUE(shows(first, "black"));
    Place::replace(place_.tree(first) + "/config/launch/config.json", R"({"version":"1","arguments":[]})");
    ASSERT_TRUE(shows(first, R"("launch":{)"));
}

TEST_F(ObserverTest, ADirectoryThatTakesTheOthersPlaceIsReadAndWatched) {
    place_.write(first, "one");
    load();
    fs::copy(place_.machines(), place_.machines() + "2");
    fs::rename(place_.machines(), place_.machines() + "1");
    fs::rename(place_.machines() + "2", place_.machines());
    place_.write(second, "two");
    ASSERT_TRUE(shows(second, "two"));
    ASSERT_TRUE(shows(first, "one"));
    place_.write(first, "three");
    ASSERT_TRUE(shows(first, "three"));
}

TEST_F(ObserverTest, ThePoolIsNotMadeAndMayComeLater) {
    place_.write(first, "one");
    load();
    EXPECT_THAT(shown(first), HasSubstr(R"("alias":"one")"));
    EXPECT_FALSE(fs::exists(place_.pool()));
    EXPECT_THAT(observer_->raw(first), Not(HasSubstr("error")));
    auto const pool = storage::open_pool({.backend = storage::Backend::directory, .path = place_.pool()});
    ASSERT_TRUE(pool);
    auto const tree = *storage::TreeName::parse("machines/" + first);
    ASSERT_TRUE((*pool)->make(tree));
    ASSERT_TRUE((*pool)->snapshot(tree, *storage::SnapshotName::parse("vmsnap-before")));
    look_again(first);
    EXPECT_THAT(observer_->raw(first), HasSubstr("before"));
}

TEST_F(ObserverTest, AMachineWhoseFileComesBackHasAllItsParts) {
    auto const pool = storage::open_pool({.backend = storage::Backend::directory, .path = place_.pool()});
    ASSERT_TRUE(pool);
    auto const tree = *storage::TreeName::parse("machines/" + first);
    ASSERT_TRUE((*pool)->make(tree));
    ASSERT_TRUE((*pool)->snapshot(tree, *storage::SnapshotName::parse("vmsnap-before")));
    place_.write(first, "one");
    load();
    EXPECT_THAT(shown(first), HasSubstr("before"));
    std::string const file = place_.machines() + "/" + first + ".json";
    fs::rename(file, place_.root() + "/kept");
    ASSERT_TRUE(run_until([&] { return !cache_.find(first); }));
    fs::rename(place_.root() + "/kept", file);
    ASSERT_TRUE(run_until([&] { return cache_.find(first) != nullptr; }));
    EXPECT_THAT(shown(first), HasSubstr("before"));
    EXPECT_THAT(observer_->raw(first), HasSubstr(R"("unit":{"at":)"));
}

TEST_F(ObserverTest, NobodyWaitsForTheMeasurementOfDisks) {
    auto const pool = storage::open_pool({.backend = storage::Backend::directory, .path = place_.pool()});
    ASSERT_TRUE(pool);
    place_.write(first, "one");
    place_.write(second, "two");
    for (std::string const& name : {first, second})
        ASSERT_TRUE((*pool)->make(*storage::TreeName::parse("machines/" + name)));
    load();
    UniqueFd const holder{
        ::open(fs::path(place_.tree(first)).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    ASSERT_EQ(::flock(holder.get(), LOCK_EX), 0);
    std::string usage;
    auto const ask = [&] {
        usage.clear();
        observer_->usage([&](Result<Observer::Text> const& got) { usage = got ? **got : got.error().text(); });
        return run_until([&] { return !usage.empty(); });
    };
    ASSERT_TRUE(ask());
    EXPECT_THAT(usage, HasSubstr(first));
    EXPECT_THAT(usage, Not(HasSubstr("disk_bytes")));
    // It is measured for later answers, except for what somebody has to himself.
    TimePoint const deadline = std::chrono::steady_clock::now() + longest_wait;
    while (usage.find("disk_bytes") == std::string::npos && std::chrono::steady_clock::now() < deadline)
        ASSERT_TRUE(ask());
    ASSERT_THAT(usage, HasSubstr("disk_bytes"));
    EXPECT_GT(usage.find("disk_bytes"), usage.find(second));
}

TEST_F(ObserverTest, AnIdenticalCopyIsNotAnEvent) {
    place_.write(first, "one");
    load();
    auto const next = feed_.next();
    std::string const path = place_.machines() + "/" + first + ".json";
    auto const time = fs::last_write_time(path);
    fs::copy_file(path, path + ".new");
    fs::last_write_time(path + ".new", time);
    fs::rename(path + ".new", path);
    look_again(first);
    EXPECT_EQ(feed_.next(), next);
}

TEST_F(ObserverTest, WhoWaitsSeesWhatWasThereWhenHeAsked) {
    load();
    look_again(first);  // there is no such machine: that is an answer, too
    EXPECT_FALSE(cache_.find(first));
    place_.write(first, "one");
    look_again(first);
    EXPECT_THAT(shown(first), HasSubstr("one"));
    bool is_answered = false;
    place_.write(second, "two");
    observer_->look_again(std::nullopt, [&](Result<> const&) { is_answered = true; });
    ASSERT_TRUE(run_until([&] { return is_answered; }));
    EXPECT_THAT(shown(second), HasSubstr("two"));
}

TEST_F(ObserverTest, TellsWhenEachPartWasRead) {
    place_.write(first, "one");
    load();
    EXPECT_THAT(observer_->raw(first), HasSubstr(R"("stored":{"at":)"));
    EXPECT_THAT(observer_->raw(first), HasSubstr(R"("why":"refresh")"));
    EXPECT_EQ(observer_->raw(second), "");
}

class StuckObserverTest : public ObserverTest {
protected:
    StuckObserverTest() { stuck_after_ = std::chrono::milliseconds(50); }
};

TEST_F(StuckObserverTest, ALookThatHangsIsSeenAndRefusesOthers) {
    place_.write(first, "one");
    load();
    hangs_ = true;
    place_.write(first, "two");
    auto const tells_of = [&](std::string const& text) { return observer_->facts().doing.find(text) != text.npos; };
    ASSERT_TRUE(run_until([&] { return tells_of("has been reading " + first + " for "); }));
    EXPECT_EQ(observer_->facts().state, "stuck");
    EXPECT_TRUE(tells_of(" s: does its storage hang?"));
    EXPECT_THAT(shown(first), HasSubstr(R"("alias":"one")"));
    std::optional<Result<>> answer;
    observer_->look_again(Uuid::parse(second), [&](Result<> got) { answer = std::move(got); });
    EXPECT_FALSE(answer);  // from outside of the function that took it
    ASSERT_TRUE(run_until([&] { return answer.has_value(); }));
    EXPECT_EQ(answer->error().kind, ErrorKind::unavailable);
    EXPECT_THAT(answer->error().text(), HasSubstr("cannot look again: has been reading " + first));

    hangs_ = false;
    hangs_.notify_all();
    ASSERT_TRUE(shows(first, R"("alias":"two")"));
    ASSERT_TRUE(run_until([&] { return !observer_->facts().is_stuck; }));
    look_again(first);
}

TEST_F(ObserverTest, AFileThatIsLinkedIsSeenAndOneThatIsWrittenIsNotReadTooEarly) {
    place_.write(first, "one");
    fs::create_directories(place_.tree(first) + "/config");
    load();
    std::string const metadata = place_.tree(first) + "/config/metadata.json";
    std::ofstream(place_.root() + "/kept") << R"({"customer_metadata":{"color":"red"}})";
    fs::create_hard_link(place_.root() + "/kept", metadata);
    ASSERT_TRUE(shows(first, "red"));
    fs::remove(metadata);
    ASSERT_TRUE(run_until([&] { return shown(first).find("red") == std::string::npos; }));

    std::string const before = observer_->raw(first);  // with the number of each look
    std::ofstream half(metadata);
    place_.write(second, "later");  // its event comes behind that of the file
    ASSERT_TRUE(shows(second, "later"));
    bool is_looked_at = false;  // by the same thread, behind the look whether the file is whole
    observer_->history(std::nullopt, [&](auto const&) { is_looked_at = true; });
    ASSERT_TRUE(run_until([&] { return is_looked_at; }));
    place_.write(second, "last");
    ASSERT_TRUE(shows(second, "last"));
    EXPECT_EQ(observer_->raw(first), before);  // nobody has read it
    half << R"({"customer_metadata":{"color":"blue"}})";
    half.close();
    ASSERT_TRUE(shows(first, "blue"));
}

// --- without inotify ---

TEST(FilePoll, FindsWhatHasChanged) {
    Place place;
    machine::Store const store{machine::Layout{place.root()}};
    auto pool = storage::open_pool({.backend = storage::Backend::directory, .path = place.root() + "/var/triton/pool"});
    ASSERT_TRUE(pool) << pool.error().text();
    std::string const controls = place.root() + "/etc/systemd/system.control";
    FilePoll poll(store, **pool, {controls});
    place.write(first, "one");
    EXPECT_THAT(poll.look(), ElementsAre(first));
    EXPECT_THAT(poll.look(), IsEmpty());
    fs::create_directories(place.tree(first) + "/config");
    std::ofstream(place.tree(first) + "/config/tags.json") << "{}";
    place.write(second, "two");
    EXPECT_THAT(poll.look(), ElementsAre(first, second));
    std::string const drop_ins = controls + "/systemd-nspawn@" + second + ".service.d";
    fs::create_directories(drop_ins);
    fs::last_write_time(drop_ins, fs::file_time_type::clock::now() - std::chrono::hours(1));
    EXPECT_THAT(poll.look(), ElementsAre(second));
    Place::replace(drop_ins + "/50-CPUWeight.conf", "[Service]");
    EXPECT_THAT(poll.look(), ElementsAre(second));
    EXPECT_THAT(poll.look(), IsEmpty());
    fs::remove(place.machines() + "/" + first + ".json");
    EXPECT_THAT(poll.look(), ElementsAre(first));
}

// --- what is noticed ---

TEST(FileWatches, TellsOfLimitsAndNotOfHalfFiles) {
    Place place;
    std::string const controls = place.root() + "/etc/systemd/system.control";
    fs::create_directories(controls);
    FileWatches watches({place.root(), place.machines(), place.root() + "/var/triton/pool/machines", {controls}});
    watches.arm_host();
    std::vector<std::pair<std::string, std::string>> told;
    FileWatches::Notices const notices{
        [&](std::string_view machine, info::Parts, std::string_view why) { told.emplace_back(machine, why); },
        [](std::string_view) { FAIL(); }, [](std::string_view, std::string const&) { FAIL(); }};
    std::string const drop_ins = controls + "/systemd-nspawn@" + first + ".service.d";
    fs::create_directory(drop_ins);
    while (watches.take_events(notices)) {
    }
    EXPECT_THAT(told, ElementsAre(Pair(first, "limits")));
    told.clear();
    std::ofstream(drop_ins + "/50-CPUWeight.conf") << "[Service]\n";
    while (watches.take_events(notices)) {
    }
    EXPECT_THAT(told, testing::Contains(Pair(first, "limits")));
    told.clear();
    {
        std::ofstream half(place.machines() + "/" + second + ".json");
        while (watches.take_events(notices)) {
        }
        EXPECT_THAT(told, IsEmpty());  // it is being written
    }
    while (watches.take_events(notices)) {
    }
    EXPECT_THAT(told, ElementsAre(Pair(second, "file")));
}

}  // namespace
}  // namespace triton::observe
