#include "host/content/store.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/content/journal.h"
#include "host/content/lease_keeper.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/files/sha256.h"

namespace triton::content {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TimePoint soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(10); }
TimePoint at_once() { return std::chrono::steady_clock::now(); }

Digest digest_of(std::string_view content) {
    files::Sha256 hash;
    hash.add(content);
    return *Digest::of_hex(std::move(hash).take_hex());
}

class StoreTest : public testing::Test {
protected:
    void SetUp() override {
        // In memory where that can be: what is durable is tested with real disks elsewhere, and costs seconds.
        std::string pattern = (std::filesystem::exists("/dev/shm") ? "/dev/shm/" : testing::TempDir()) + "store.XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    Store open() {
        auto store = Store::open(directory_ + "/content");
        EXPECT_TRUE(store) << store.error().text();
        return *std::move(store);
    }
    static Ingest ingest_of(Store& store, std::string_view key, std::string_view content) {
        auto ingest = store.begin_ingest(key, soon());
        EXPECT_TRUE(ingest) << ingest.error().text();
        auto const file = ingest->open_for_writing();
        EXPECT_TRUE(file && write_all(file->get(), content));
        return *std::move(ingest);
    }
    static Digest put(Store& store, std::string_view content, std::optional<LeaseId> lease = {}) {
        Digest digest = digest_of(content);
        auto const blob = store.commit(ingest_of(store, digest.text(), content), digest,
                                       {.media_type = "text/plain", .source = "test"}, {.lease = lease});
        EXPECT_TRUE(blob) << blob.error().text();
        return digest;
    }
    static std::string read(Store& store, Digest const& digest) {
        auto const file = store.open_blob(digest);
        return file ? *read_open_file(file->get(), "blob", 1 << 20) : file.error().text();
    }
    std::string path_of(Digest const& digest) const { return directory_ + "/content/blobs/sha256/" + digest.hex(); }
    static std::vector<std::string> names(std::vector<Victim> const& victims) {
        std::vector<std::string> names;
        for (Victim const& victim : victims)
            names.push_back(victim.name);
        return names;
    }
    std::size_t files_in(std::string const& name) const {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator(directory_ + "/content/" + name),
                          std::filesystem::directory_iterator{}));
    }

    std::string directory_;
};

TEST_F(StoreTest, KeepsABlobWithItsFacts) {
    Digest const digest = [this] {
        Store store = open();
        return put(store, "content");
    }();
    Store store = open();
    auto const blob = store.find(digest);
    ASSERT_TRUE(*blob);
    EXPECT_EQ((*blob)->size, 7U);
    EXPECT_EQ((*blob)->facts.media_type, "text/plain");
    EXPECT_EQ((*blob)->facts.source, "test");
    EXPECT_EQ(read(store, digest), "content");
    EXPECT_EQ(std::filesystem::status(path_of(digest)).permissions(), std::filesystem::perms::owner_read);
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST_F(StoreTest, WhatIsNotThereIsSaidByName) {
    Store store = open();
    Digest const digest = digest_of("nothing");
    EXPECT_EQ(*store.find(digest), std::nullopt);
    EXPECT_EQ(store.open_blob(digest).error().text(), "the content store does not have " + digest.text());
    EXPECT_EQ(store.pin(digest).error().kind, ErrorKind::not_found);
    EXPECT_EQ(store.add_references({"image", "x"}, std::array{digest}).error().kind, ErrorKind::not_found);
}

TEST_F(StoreTest, AnIngestIsFoundAgainWithItsJournal) {
    {
        Store store = open();
        Ingest const ingest = ingest_of(store, "some key", "begin");
        ASSERT_TRUE(
            write_journal(ingest.directory(), {.entity_tag = "\"x\"", .size = 10, .landed = Intervals({{0, 5}})}));
    }
    Store store = open();
    auto ingest = store.begin_ingest("some key", soon());
    EXPECT_EQ(read_journal(ingest->directory()),
              (Journal{.entity_tag = "\"x\"", .size = 10, .landed = Intervals({{0, 5}})}));
    EXPECT_EQ(*read_open_file(ingest->fd(), "data", 100), "begin");
    ASSERT_TRUE(ingest->restart());
    EXPECT_EQ(read_journal(ingest->directory()), std::nullopt);
    EXPECT_EQ(::lseek(ingest->fd(), 0, SEEK_END), 0);
    ASSERT_TRUE(store.abandon(*std::move(ingest)));
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST_F(StoreTest, AJournalThatMakesNoSenseIsNone) {
    Store store = open();
    Ingest const ingest = ingest_of(store, "some key", "begin");
    std::string const path = directory_ + "/content/ingest/" + "ab";
    for (std::string_view const text :
         {"", "{", "{}", R"({"landed":[[3,1]]})", R"({"landed":[[1]]})", R"({"landed":[[1,-2]]})"}) {
        UniqueFd const file{::openat(ingest.directory(), "journal", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
        ASSERT_TRUE(write_all(file.get(), text));
        EXPECT_EQ(read_journal(ingest.directory()), std::nullopt) << text;
    }
}

TEST_F(StoreTest, AJournalIsBoundedWhateverHasLanded) {
    Store store = open();
    Ingest const ingest = ingest_of(store, "some key", "begin");
    Intervals many;
    for (std::uint64_t i = 0; i < 5000; ++i)
        many.add({(INT64_MAX / 2) + i * 10, (INT64_MAX / 2) + i * 10 + 1});
    ASSERT_TRUE(write_journal(ingest.directory(), {.landed = many}));
    auto const journal = read_journal(ingest.directory());
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->landed.list().size(), most_journal_intervals);
}

TEST_F(StoreTest, OnlyOneHasAnIngest) {
    Store store = open();
    Store other = open();
    std::optional<Ingest> ingest = ingest_of(store, "some key", "begin");
    auto const refused = other.begin_ingest("some key", at_once());
    EXPECT_EQ(refused.error().text(), "\"some key\" is being imported by another process");
    EXPECT_EQ(refused.error().kind, ErrorKind::timeout);
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    UniqueFd const reader{pipe[0]};
    UniqueFd const writer{pipe[1]};
    ASSERT_TRUE(write_all(writer.get(), "x"));
    EXPECT_EQ(other.begin_ingest("some key", soon(), reader.get()).error().text(), "cancelled");
    ingest.reset();
    EXPECT_TRUE(other.begin_ingest("some key", at_once()));
}

TEST_F(StoreTest, WhoeverWaitedForAnIngestThatWasCommittedBeginsAnew) {
    Store store = open();
    Digest const digest = digest_of("content");
    Ingest ingest = ingest_of(store, digest.text(), "content");
    std::thread waiter([this, &digest] {
        Store other = open();
        auto mine = other.begin_ingest(digest.text(), soon());
        ASSERT_TRUE(mine) << mine.error().text();
        EXPECT_TRUE(*other.find(digest));
        EXPECT_EQ(::lseek(mine->fd(), 0, SEEK_END), 0);
        EXPECT_TRUE(other.abandon(*std::move(mine)));
    });
    ASSERT_TRUE(store.commit(std::move(ingest), digest, {}));
    waiter.join();
    EXPECT_EQ(read(store, digest), "content");
    EXPECT_EQ(files_in("ingest"), 0U);
}

/// Of three that want one ingest again and again, and a collector of those that nobody has, none is ever refused, and
/// nobody's bytes go while they are held.
TEST_F(StoreTest, AnIngestThatComesAndGoesIsNobodysError) {
    (void)open();  // makes the database
    std::atomic<bool> is_over = false;
    auto const come_and_go = [&] {
        Store mine = open();
        for (int i = 0; i < 150; ++i) {
            auto ingest = mine.begin_ingest("a key", soon());
            ASSERT_TRUE(ingest) << ingest.error().text();
            auto const file = ingest->open_for_writing();
            ASSERT_TRUE(file) << file.error().text();
            EXPECT_TRUE(mine.abandon(*std::move(ingest)));
        }
    };
    std::thread collector([&] {
        Store other = open();
        while (!is_over)
            EXPECT_TRUE(other.gc({.ingest_grace = std::chrono::milliseconds(0)}));
    });
    std::thread first(come_and_go);
    std::thread second(come_and_go);
    come_and_go();
    first.join();
    second.join();
    is_over = true;
    collector.join();
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST_F(StoreTest, LocksOfProcessesThatWereKilledAreCollected) {
    Store store = open();
    auto const held = store.lock({"a key"}, soon());
    ASSERT_TRUE(held);
    std::ofstream(directory_ + "/content/locks/left") << "";
    ASSERT_TRUE(store.gc({.dry_run = true}));
    EXPECT_EQ(files_in("locks"), 2U);
    ASSERT_TRUE(store.gc());
    EXPECT_EQ(files_in("locks"), 1U);
    EXPECT_FALSE(open().lock({"a key"}, std::chrono::steady_clock::now()));
}

TEST_F(StoreTest, TheSameContentUnderTwoKeysIsOneBlob) {
    Store store = open();
    Digest const digest = put(store, "content");
    auto const second = store.commit(ingest_of(store, "another key", "content"), digest, {.source = "second"});
    ASSERT_TRUE(second);
    EXPECT_EQ(second->facts.source, "test");
    EXPECT_EQ(store.list()->size(), 1U);
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST_F(StoreTest, LocksOfKeysAreTakenAndGivenBack) {
    Store store = open();
    Store other = open();
    std::optional<KeyLock> lock = *store.lock({"b", "a", "b"}, at_once());
    EXPECT_EQ(other.lock({"c", "a"}, at_once()).error().text(), "a is being imported by another process");
    EXPECT_TRUE(other.lock({"c"}, at_once()));
    lock.reset();
    EXPECT_TRUE(other.lock({"a", "b"}, at_once()));
    EXPECT_EQ(files_in("locks"), 0U);
}

TEST_F(StoreTest, ReferencesKeepABlobAndAreCountedByQuery) {
    Store store = open();
    Digest const one = put(store, "one");
    Digest const two = put(store, "two");
    ASSERT_TRUE(store.add_references({"image", "a"}, std::array{one, two, one}));
    ASSERT_TRUE(store.add_references({"image", "b"}, std::array{one}));
    EXPECT_THAT(*store.owners(one), ElementsAre(Owner{"image", "a"}, Owner{"image", "b"}));
    EXPECT_THAT(*store.gc(), IsEmpty());
    ASSERT_TRUE(store.remove_references({"image", "a"}));
    auto const dry = store.gc({.dry_run = true});
    ASSERT_EQ(dry->size(), 1U);
    EXPECT_EQ((*dry)[0].name, two.text());
    EXPECT_EQ((*dry)[0].bytes, 3U);
    EXPECT_EQ((*dry)[0].reason, "nothing refers to it");
    EXPECT_TRUE(std::filesystem::exists(path_of(two)));
    EXPECT_THAT(names(*store.gc()), ElementsAre(two.text()));
    EXPECT_FALSE(std::filesystem::exists(path_of(two)));
    EXPECT_EQ(*store.find(two), std::nullopt);
    EXPECT_TRUE(*store.find(one));
    EXPECT_THAT(*store.referenced_by({"image", "b"}), ElementsAre(one));
}

TEST_F(StoreTest, ReferencesChangeWithAnImageOrNotAtAll) {
    Store store = open();
    Digest const one = put(store, "one");
    {
        Transaction const image = *store.database().begin();
        ASSERT_TRUE(store.add_references({"image", "a"}, std::array{one}));
    }
    EXPECT_THAT(*store.owners(one), IsEmpty());
    Transaction const open_one = *store.database().begin();
    EXPECT_EQ(store.gc().error().text(), "cannot change files of the content store: a transaction is open");
}

TEST_F(StoreTest, OneUnknownDigestChangesNothing) {
    Store store = open();
    Digest const one = put(store, "one");
    EXPECT_FALSE(store.add_references({"image", "a"}, std::array{one, digest_of("unknown")}));
    EXPECT_THAT(*store.owners(one), IsEmpty());
}

TEST_F(StoreTest, PinsAndLeasesProtect) {
    Store store = open();
    LeaseId const lease = *store.make_lease("import of x", std::chrono::hours(1));
    Digest const leased = put(store, "leased", lease);
    Digest const pinned = put(store, "pinned");
    ASSERT_TRUE(store.pin(pinned));
    EXPECT_THAT(*store.gc(), IsEmpty());
    EXPECT_THAT(store.why(leased)->leases, ElementsAre("import of x"));
    EXPECT_EQ(store.why(leased)->collected, std::nullopt);
    EXPECT_TRUE(store.why(pinned)->blob->is_pinned);
    ASSERT_TRUE(store.end_lease(lease));
    ASSERT_TRUE(store.unpin(pinned));
    EXPECT_EQ(store.why(leased)->collected, "nothing refers to it");
    EXPECT_EQ(store.gc()->size(), 2U);
}

// Room that a volume has not filled yet is not there for downloads.
TEST_F(StoreTest, PromisedRoomIsNotTaken) {
    Store store = open();
    struct stat status{};
    ASSERT_EQ(::stat(store.directory().c_str(), &status), 0);
    auto const begin = [&store] { return *store.begin_ingest("a", steady_now() + std::chrono::minutes(1)); };
    ASSERT_TRUE(begin().reserve(1000));
    ASSERT_TRUE(store.promise("volume a", {.device = status.st_dev, .bytes = 1ULL << 50, .written = 0}));
    EXPECT_EQ(begin().reserve(200'000).error().kind, ErrorKind::exhausted);
    ASSERT_TRUE(store.promise("volume a", {.device = status.st_dev, .bytes = 1ULL << 50, .written = 1ULL << 50}));
    EXPECT_TRUE(begin().reserve(200'000));
    ASSERT_TRUE(store.promise("volume a", {.device = status.st_dev + 1, .bytes = 1ULL << 50, .written = 0}));
    EXPECT_TRUE(begin().reserve(200'000));
    ASSERT_TRUE(store.promise("volume a", {.device = status.st_dev, .bytes = 1ULL << 50, .written = 0}));
    ASSERT_TRUE(store.end_promise("volume a"));
    EXPECT_TRUE(begin().reserve(200'000));
}

// A reboot, or a crash at once after the bytes have their name, takes nothing of what somebody keeps.
TEST_F(StoreTest, WhatIsKeptFromItsBeginningOutlivesTheBoot) {
    Store store = open();
    Owner const tree{"contentTree", "a"};
    Digest const digest = digest_of("kept");
    ASSERT_TRUE(store.commit(ingest_of(store, digest.text(), "kept"), digest, {}, {.owner = tree}));
    Digest const leased = put(store, "leased", *store.make_lease("import", std::chrono::hours(1)));
    ASSERT_TRUE(*store.protect(Protection{.owner = tree}, leased));
    EXPECT_FALSE(*store.protect(Protection{.owner = tree}, digest_of("unknown")));
    ASSERT_TRUE(store.database().run("UPDATE leases SET boot = 'earlier'"));
    EXPECT_THAT(*store.gc(), IsEmpty());
    ASSERT_TRUE(store.remove_reference(tree, leased));
    ASSERT_TRUE(store.remove_reference(tree, leased));
    EXPECT_THAT(names(*store.gc()), ElementsAre(leased.text()));
    EXPECT_THAT(*store.owners(digest), ElementsAre(tree));
}

// The lease of an import that was suspended for a day has run out, and nobody has renewed it.
TEST_F(StoreTest, ALeaseLivesAsLongAsTheLockOfItsOwner) {
    Store mine = open();
    Digest const one = put(mine, "one");
    std::optional<KeyLock> alive = *mine.lock({"command 1"}, soon());
    LeaseId const lease = *mine.make_lease("import of x", milliseconds(0), "command 1");
    ASSERT_TRUE(*mine.protect(lease, one));
    Store others = open();
    EXPECT_THAT(*others.gc(), IsEmpty());
    EXPECT_FALSE(*others.discard(one));
    EXPECT_TRUE(mine.renew_lease(lease, milliseconds(0)));
    alive.reset();
    EXPECT_EQ(others.gc()->size(), 1U);
}

TEST_F(StoreTest, LeasesRunOutByTheClockOfTheirBoot) {
    Store store = open();
    LeaseId const lease = *store.make_lease("import of x", std::chrono::hours(1));
    Digest const leased = put(store, "leased", lease);
    EXPECT_EQ(*store.protect(lease, digest_of("unknown")), false);
    ASSERT_TRUE(store.renew_lease(lease, milliseconds(0)));
    EXPECT_EQ(store.gc({.dry_run = true})->size(), 1U);
    ASSERT_TRUE(store.renew_lease(lease, std::chrono::hours(1)));
    EXPECT_THAT(*store.gc(), IsEmpty());
    // Of an earlier boot: whoever had it is gone.
    ASSERT_TRUE(store.database().run("UPDATE leases SET boot = 'earlier'"));
    EXPECT_THAT(names(*store.gc()), ElementsAre(leased.text()));
    EXPECT_EQ(store.renew_lease(lease, std::chrono::hours(1)).error().text(), "the lease has ended");
}

TEST_F(StoreTest, ALeaseIsKeptWhileTheWorkGoesOn) {
    Store store = open();
    LeaseId const lease = *store.make_lease("import of x", std::chrono::hours(1));
    put(store, "leased", lease);
    TimePoint const begin{};
    LeaseKeeper keeper(store, lease, begin);
    auto const is_renewed = [&](TimePoint now) {
        EXPECT_TRUE(store.renew_lease(lease, milliseconds(0)));
        keeper.note(now);
        return store.gc({.dry_run = true})->empty();
    };
    EXPECT_FALSE(is_renewed(begin + LeaseKeeper::interval - milliseconds(1)));
    EXPECT_TRUE(is_renewed(begin + LeaseKeeper::interval));
    EXPECT_FALSE(is_renewed(begin + LeaseKeeper::interval + milliseconds(1)));
    EXPECT_TRUE(is_renewed(begin + 2 * LeaseKeeper::interval));
}

TEST_F(StoreTest, GraceIsCountedFromTheLastReference) {
    Store store = open();
    Digest const one = put(store, "one");
    GcSettings const patient{.blob_grace = std::chrono::hours(1000)};
    EXPECT_THAT(*store.gc(patient), IsEmpty());
    // An hour before a thousand hours have passed, and then after.
    auto const now = *boot_time();
    auto const set = [&](std::int64_t hours) {
        return store.database().run("UPDATE blobs SET unclaimed_at = ?", now.milliseconds - hours * 3'600'000);
    };
    ASSERT_TRUE(set(999));
    EXPECT_THAT(*store.gc(patient), IsEmpty());
    ASSERT_TRUE(set(1001));
    EXPECT_THAT(names(*store.gc(patient)), ElementsAre(one.text()));
}

TEST_F(StoreTest, InterruptedIngestsAreCollectedWhenTheyAreOldAndNobodyHasThem) {
    Store store = open();
    std::optional<Ingest> ingest = ingest_of(store, "some key", "begin");
    GcSettings const impatient{.ingest_grace = milliseconds(0)};
    EXPECT_THAT(*store.gc(impatient), IsEmpty());
    ingest.reset();
    EXPECT_THAT(*store.gc(), IsEmpty());
    auto const victims = store.gc(impatient);
    ASSERT_EQ(victims->size(), 1U);
    EXPECT_EQ((*victims)[0].name, "some key");
    EXPECT_EQ((*victims)[0].reason, "it was interrupted, and not resumed");
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST_F(StoreTest, ADirectoryThatNoRowKnowsIsCollected) {
    Store store = open();
    std::filesystem::create_directory(directory_ + "/content/ingest/" + std::string(64, 'a'));
    EXPECT_EQ(store.gc()->size(), 1U);
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST_F(StoreTest, ScrubQuarantinesBadBytesAndNamesWhatWasMadeFromThem) {
    Store store = open();
    Digest const good = put(store, "good");
    Digest const bad = put(store, "bad!");
    Digest const shorter = put(store, "shorter");
    ASSERT_TRUE(store.add_references({"image", "a"}, std::array{good, bad, shorter}));
    std::filesystem::permissions(path_of(bad), std::filesystem::perms::owner_all);
    std::ofstream(path_of(bad)) << "evil";
    std::filesystem::permissions(path_of(shorter), std::filesystem::perms::owner_all);
    std::filesystem::resize_file(path_of(shorter), 1);
    std::map<Digest, Scrubbed> seen;
    ASSERT_TRUE(store.scrub([&](Scrubbed const& scrubbed) {
        seen.emplace(scrubbed.digest, scrubbed);
        return true;
    }));
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen.at(good).fault, std::nullopt);
    EXPECT_EQ(seen.at(bad).fault, "its SHA-256 is " + digest_of("evil").hex());
    EXPECT_THAT(seen.at(bad).owners, ElementsAre(Owner{"image", "a"}));
    EXPECT_EQ(seen.at(shorter).fault, "it has 1 bytes, not 7");
    EXPECT_EQ(*store.find(bad), std::nullopt);
    EXPECT_EQ(store.why(bad)->blob->quarantined, "its SHA-256 is " + digest_of("evil").hex());
    EXPECT_EQ(files_in("quarantine"), 2U);

    // What is referred to is told until it is mended.
    std::map<Digest, std::string> again;
    ASSERT_TRUE(store.scrub([&](Scrubbed const& scrubbed) {
        if (scrubbed.fault) again.emplace(scrubbed.digest, *scrubbed.fault);
        return true;
    }));
    EXPECT_EQ(again, (std::map<Digest, std::string>{{bad, *seen.at(bad).fault}, {shorter, *seen.at(shorter).fault}}));
    EXPECT_EQ(files_in("quarantine"), 2U);

    // Fetching it again mends it, and the reference is good again.
    put(store, "bad!");
    EXPECT_EQ(read(store, bad), "bad!");
    EXPECT_THAT(*store.owners(bad), ElementsAre(Owner{"image", "a"}));
    EXPECT_EQ(store.gc()->size(), 0U);
    EXPECT_EQ(store.gc({.quarantine_grace = milliseconds(0)})->size(), 2U);
    EXPECT_EQ(files_in("quarantine"), 0U);
}

TEST_F(StoreTest, ScrubLeavesAGoodFileThatHasReplacedTheBadOne) {
    Store store = open();
    Digest const digest = put(store, "good");
    std::filesystem::rename(path_of(digest), directory_ + "/good");
    std::ofstream(path_of(digest)) << "evil";
    UniqueFd const opened{::inotify_init1(IN_CLOEXEC)};
    ASSERT_GE(::inotify_add_watch(opened.get(), path_of(digest).c_str(), IN_OPEN), 0);
    std::size_t calls = 0;
    {
        // Scrub can read, and not go on.
        UniqueFd lock{::open((directory_ + "/content").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        ASSERT_EQ(::flock(lock.get(), LOCK_EX), 0);
        std::jthread const scrubbing([&] {
            EXPECT_TRUE(store.scrub([&](Scrubbed const&) {
                ++calls;
                return true;
            }));
        });
        pollfd event{.fd = opened.get(), .events = POLLIN, .revents = 0};
        EXPECT_EQ(::poll(&event, 1, 60'000), 1);
        std::filesystem::rename(directory_ + "/good", path_of(digest));
        lock = UniqueFd();
    }
    EXPECT_EQ(calls, 0U);
    EXPECT_EQ(read(store, digest), "good");
}

TEST_F(StoreTest, ScrubCanBeCancelled) {
    Store store = open();
    put(store, "one");
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    UniqueFd const reader{pipe[0]};
    ::close(pipe[1]);
    auto const scrubbed = store.scrub([](Scrubbed const&) { return true; }, reader.get());
    EXPECT_EQ(scrubbed.error().text(), "cancelled");
}

TEST_F(StoreTest, AfterTheDatabaseWasLostScrubFindsWhatIsGood) {
    Digest const one = [this] {
        Store store = open();
        return put(store, "one");
    }();
    for (char const* const name : {"content.db", "content.db-journal"})
        std::filesystem::remove(directory_ + "/content/" + name);
    std::ofstream(directory_ + "/content/blobs/sha256/" + std::string(64, 'b')) << "liar";
    Store store = open();
    EXPECT_EQ(*store.find(one), std::nullopt);
    EXPECT_THAT(*store.gc(), IsEmpty());
    ASSERT_TRUE(store.scrub([](Scrubbed const&) { return true; }));
    EXPECT_EQ(read(store, one), "one");
    EXPECT_FALSE(*store.find(*Digest::of_hex(std::string(64, 'b'))));
    EXPECT_FALSE(std::filesystem::exists(directory_ + "/content/blobs/sha256/" + std::string(64, 'b')));
}

TEST_F(StoreTest, ABlobWhoseFileIsGoneIsFetchedAgain) {
    Store store = open();
    Digest const one = put(store, "one");
    std::filesystem::remove(path_of(one));
    EXPECT_EQ(*store.find(one), std::nullopt);
    put(store, "one");
    EXPECT_EQ(read(store, one), "one");
}

TEST_F(StoreTest, OpenFinishesACommitThatHadGivenTheName) {
    Digest const digest = digest_of("content");
    {
        Store store = open();
        Ingest const ingest = ingest_of(store, "a key", "content");
        ASSERT_TRUE(store.database().run("UPDATE ingests SET committing = ?, source = 'x'", digest.text()));
        ASSERT_EQ(::renameat(ingest.directory(), "data", AT_FDCWD, path_of(digest).c_str()), 0);
    }
    Store store = open();
    EXPECT_EQ(read(store, digest), "content");
    EXPECT_EQ((*store.find(digest))->facts.source, "x");
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST_F(StoreTest, OpenLeavesAnIngestToWhoeverHasBegunItAnewSinceTheCommit) {
    Digest const digest = digest_of("content");
    Store store = open();
    Ingest const ingest = ingest_of(store, "a key", "content");
    ASSERT_TRUE(store.database().run("UPDATE ingests SET committing = ?, source = 'x'", digest.text()));
    ASSERT_EQ(::renameat(ingest.directory(), "data", AT_FDCWD, path_of(digest).c_str()), 0);
    Store other = open();
    EXPECT_EQ(read(other, digest), "content");
    EXPECT_EQ(files_in("ingest"), 1U);
    Statement row = *other.database().query("SELECT committing FROM ingests");
    ASSERT_TRUE(*row.step());
    EXPECT_EQ(row.text(0), "");
}

TEST_F(StoreTest, OpenTakesBackACommitThatHadNotGivenTheName) {
    Digest const digest = digest_of("content");
    {
        Store store = open();
        Ingest const ingest = ingest_of(store, "a key", "content");
        ASSERT_TRUE(store.database().run("UPDATE ingests SET committing = ?", digest.text()));
    }
    Store store = open();
    EXPECT_EQ(*store.find(digest), std::nullopt);
    auto const ingest = store.begin_ingest("a key", at_once());
    EXPECT_EQ(*read_open_file(ingest->fd(), "data", 100), "content");
}

TEST_F(StoreTest, OpenFinishesARemoval) {
    Digest const digest = [this] {
        Store store = open();
        return put(store, "content");
    }();
    {
        Store store = open();
        ASSERT_TRUE(store.database().run("DELETE FROM blobs"));
        ASSERT_TRUE(store.database().run("INSERT INTO removals VALUES (?)", digest.hex()));
    }
    Store const store = open();
    EXPECT_FALSE(std::filesystem::exists(path_of(digest)));
}

TEST_F(StoreTest, ACollectionLeavesRemovalsOfOthersToOpen) {
    Digest const killed = [this] {
        Store store = open();
        Digest digest = put(store, "its collection was killed");
        EXPECT_TRUE(store.database().run("DELETE FROM blobs"));
        return digest;
    }();
    {
        Store store = open();
        put(store, "another");
        ASSERT_TRUE(store.database().run("INSERT INTO removals VALUES (?)", killed.hex()));
        EXPECT_EQ(store.gc()->size(), 1U);
    }
    Store const store = open();
    EXPECT_FALSE(std::filesystem::exists(path_of(killed)));
    EXPECT_EQ(files_in("blobs/sha256"), 0U);
}

TEST_F(StoreTest, OpenFinishesAQuarantine) {
    Digest const digest = digest_of("content");
    {
        Store store = open();
        put(store, "content");
        ASSERT_TRUE(store.database().run("UPDATE blobs SET quarantined = 'why'"));
        ASSERT_TRUE(store.database().run("INSERT INTO quarantine VALUES (?, ?, 'why', 'b', 1)", digest.hex() + ".1",
                                         digest.text()));
    }
    Store const store = open();
    EXPECT_FALSE(std::filesystem::exists(path_of(digest)));
    EXPECT_EQ(files_in("quarantine"), 1U);
}

TEST_F(StoreTest, GarbageInPlaceOfTheDatabaseIsAClearErrorAndNothingIsChanged) {
    Digest const digest = [this] {
        Store store = open();
        return put(store, "content");
    }();
    std::ofstream(directory_ + "/content/content.db") << std::string(4096, 'x');
    auto const store = Store::open(directory_ + "/content");
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().text(),
              directory_ + "/content/content.db is not a database of ours: file is not a database");
    EXPECT_TRUE(std::filesystem::exists(path_of(digest)));
}

TEST_F(StoreTest, RoomIsPromisedOrRefusedAtOnce) {
    auto store = Store::open(directory_ + "/content", {.least_free_bytes = 1ULL << 50});
    auto ingest = store->begin_ingest("key", soon());
    auto const refused = ingest->reserve(1000);
    EXPECT_EQ(refused.error().kind, ErrorKind::exhausted);
    std::string const text = refused.error().text();
    std::string const wanted =
        "cannot store key: 1000 bytes are needed beside 1125899906842624 bytes that stay free, and ";
    EXPECT_EQ(text.substr(0, wanted.size()), wanted);
    EXPECT_TRUE(text.ends_with(" are free"));
    EXPECT_TRUE(ingest->reserve(0));
}

TEST_F(StoreTest, TwoStoresWriteAtOnce) {
    constexpr int count = 30;
    {
        Store const store = open();
    }
    auto const work = [this](int which) {
        Store store = open();
        for (int i = 0; i < count; ++i) {
            put(store, "shared " + std::to_string(i));
            put(store, "own " + std::to_string(which * count + i));
        }
    };
    std::thread first(work, 0);
    std::thread second(work, 1);
    first.join();
    second.join();
    Store store = open();
    EXPECT_EQ(store.list()->size(), 3U * count);
    EXPECT_EQ(files_in("ingest"), 0U);
}

TEST(PassedSince, CountsOnlyThisBoot) {
    EXPECT_EQ(passed_since({"a", 1000}, {"a", 5000}), milliseconds(4000));
    EXPECT_EQ(passed_since({"a", 1000}, {"b", 5000}), milliseconds(5000));
}

}  // namespace
}  // namespace triton::content
