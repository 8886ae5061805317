#include "host/content/database.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/unique_fd.h"

namespace triton::content {
namespace {

constexpr std::array<Migration, 2> steps{{
    {"CREATE TABLE things (name TEXT PRIMARY KEY NOT NULL, size INTEGER) STRICT"},
    {"ALTER TABLE things ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'"},
}};

class DatabaseTest : public testing::Test {
protected:
    void SetUp() override {
        // In memory where that can be: what is durable is tested with real disks elsewhere, and costs seconds.
        std::string pattern =
            (std::filesystem::exists("/dev/shm") ? "/dev/shm/" : testing::TempDir()) + "database.XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        path_ = directory_ + "/content.db";
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    Database open() {
        auto database = Database::open(path_, milliseconds(50));
        EXPECT_TRUE(database) << database.error().text();
        EXPECT_TRUE(database->migrate("things", steps));
        return std::move(*database);
    }
    static std::int64_t count(Database& database) {
        auto rows = database.query("SELECT count(*) FROM things");
        EXPECT_TRUE(rows && rows->step());
        return rows->integer(0);
    }

    std::string directory_;
    std::string path_;
};

TEST_F(DatabaseTest, KeepsValuesOfEachKind) {
    Database database = open();
    ASSERT_TRUE(database.run("INSERT INTO things (name, size) VALUES (?, ?)", "a\0b", std::nullopt));
    ASSERT_TRUE(database.run("INSERT INTO things (name, size) VALUES (?, ?)", std::string("z"), std::int64_t{1} << 40));
    auto rows = database.query("SELECT name, size, colour FROM things ORDER BY name");
    ASSERT_TRUE(*rows->step());
    EXPECT_TRUE(rows->is_null(1));
    EXPECT_EQ(rows->integer(1), 0);
    EXPECT_EQ(rows->text(2), "red");
    ASSERT_TRUE(*rows->step());
    EXPECT_EQ(rows->text(0), "z");
    EXPECT_EQ(rows->integer(1), std::int64_t{1} << 40);
    EXPECT_FALSE(*rows->step());
}

TEST_F(DatabaseTest, ForeignersCannotReadIt) {
    Database const database = open();
    struct stat status{};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(DatabaseTest, TransactionsNest) {
    Database database = open();
    {
        Transaction outer = *database.begin();
        ASSERT_TRUE(database.run("INSERT INTO things (name) VALUES (?)", "outer"));
        {
            Transaction const inner = *database.begin();
            ASSERT_TRUE(database.run("INSERT INTO things (name) VALUES (?)", "taken back"));
        }
        {
            Transaction inner = *database.begin();
            ASSERT_TRUE(database.run("INSERT INTO things (name) VALUES (?)", "inner"));
            ASSERT_TRUE(inner.commit());
        }
        EXPECT_EQ(count(database), 2);
        ASSERT_TRUE(outer.commit());
    }
    EXPECT_EQ(count(database), 2);
    {
        Transaction const forgotten = *database.begin();
        ASSERT_TRUE(database.run("DELETE FROM things"));
    }
    EXPECT_EQ(count(database), 2);
}

TEST_F(DatabaseTest, TellsErrorsApart) {
    Database database = open();
    ASSERT_TRUE(database.run("INSERT INTO things (name) VALUES (?)", "one"));
    auto const twice = database.run("INSERT INTO things (name) VALUES (?)", "one");
    EXPECT_EQ(twice.error().kind, ErrorKind::exists);
    EXPECT_EQ(twice.error().text(), "cannot use database " + path_ + ": UNIQUE constraint failed: things.name");
    EXPECT_EQ(database.run("INSERT INTO things (name) VALUES (?)", std::nullopt).error().kind, ErrorKind::refused);
    EXPECT_EQ(database.run("INSERT INTO nothing VALUES (1)").error().kind, ErrorKind::internal);
    EXPECT_EQ(database.run("INSERT INTO things (name) VALUES (?)").error().text(),
              "cannot use statement INSERT INTO things (name) VALUES (?): it has another number of values");

    Database other = open();
    Transaction const held = *database.begin();
    EXPECT_EQ(other.begin().error().kind, ErrorKind::busy);
}

TEST_F(DatabaseTest, ManyMayMakeItAtOnce) {
    for (int round = 0; round < 20; ++round) {
        std::filesystem::remove_all(directory_);
        std::filesystem::create_directory(directory_);
        std::vector<pid_t> openers;
        int gate[2];
        ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
        for (int i = 0; i < 8; ++i) {
            pid_t const pid = ::fork();
            if (pid == 0) {
                ::close(gate[1]);
                char byte = 0;
                (void)::read(gate[0], &byte, 1);
                auto database = Database::open(path_);
                bool const is_good = database && database->migrate("things", steps);
                if (!is_good && !database) std::cerr << database.error().text() << '\n';
                ::_exit(is_good ? 0 : 1);
            }
            openers.push_back(pid);
        }
        ::close(gate[0]);
        ::close(gate[1]);
        for (pid_t const pid : openers) {
            int status = 0;
            EXPECT_EQ(::waitpid(pid, &status, 0), pid);
            EXPECT_EQ(status, 0);
        }
    }
}

// A process loses all its locks on a file when it closes any descriptor of it, and then another one could write what it
// is reading. Source: https://www.sqlite.org/howtocorrupt.html, section 2.2
TEST_F(DatabaseTest, OneThatIsBeingReadStaysLocked) {
    auto const is_locked = [this] {
        pid_t const pid = ::fork();
        if (pid == 0) {
            UniqueFd const file{::open(path_.c_str(), O_RDWR | O_CLOEXEC)};
            struct flock lock{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
            ::_exit(::fcntl(file.get(), F_GETLK, &lock) == 0 && lock.l_type == F_RDLCK ? 0 : 1);
        }
        int status = 0;
        EXPECT_EQ(::waitpid(pid, &status, 0), pid);
        return status == 0;
    };
    Database first = open();
    ASSERT_TRUE(first.run("INSERT INTO things (name) VALUES ('a')"));
    auto rows = first.query("SELECT name FROM things");
    ASSERT_TRUE(rows && *rows->step());
    EXPECT_TRUE(is_locked());
    {
        Database const second = open();
        EXPECT_TRUE(is_locked());
    }
    EXPECT_TRUE(is_locked());
}

TEST_F(DatabaseTest, ALinkInItsPlaceIsRefused) {
    std::ofstream(directory_ + "/elsewhere").flush();
    std::filesystem::create_symlink("elsewhere", path_);
    auto const opened = Database::open(path_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind, ErrorKind::refused);
    EXPECT_EQ(std::filesystem::file_size(directory_ + "/elsewhere"), 0U);
}

TEST_F(DatabaseTest, GarbageIsAClearErrorAndStaysAsItIs) {
    std::ofstream(path_) << std::string(8192, 'x');
    auto const opened = Database::open(path_);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind, ErrorKind::corrupt);
    EXPECT_EQ(opened.error().text(), path_ + " is not a database of ours: file is not a database");
    EXPECT_EQ(std::filesystem::file_size(path_), 8192U);
}

TEST_F(DatabaseTest, AnEmptyFileIsNoNewDatabase) {
    std::ofstream(path_).flush();
    for (auto const& opened : {Database::open(path_), Database::open_for_reading(path_)}) {
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().kind, ErrorKind::corrupt);
        EXPECT_EQ(opened.error().text(), path_ + " is not a database of ours: it is empty");
    }
    EXPECT_EQ(std::filesystem::file_size(path_), 0U);
}

TEST_F(DatabaseTest, ANewOneIsNeverEmpty) {
    {
        Database const database = open();
    }
    std::vector<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator(directory_))
        names.push_back(entry.path().filename());
    // SQLite maps nothing into memory, which on a full btrfs would be a signal
    EXPECT_THAT(names, testing::UnorderedElementsAre("content.db", "content.db-journal"));
}

// A journal with the old content of pages that have been written over: what a process leaves that is killed while it
// commits.
TEST_F(DatabaseTest, ACommitThatWasKilledIsUndoneByTheNextReader) {
    constexpr int rows = 2000;
    {
        Database database = open();
        Transaction transaction = *database.begin();
        for (int i = 0; i < rows; ++i)
            ASSERT_TRUE(database.run("INSERT INTO things (name) VALUES (?)", std::to_string(i) + std::string(50, 'n')));
        ASSERT_TRUE(transaction.commit());
    }
    pid_t const pid = ::fork();
    if (pid == 0) {
        Database database = open();
        bool const is_good = database.run("PRAGMA cache_spill = ON") && database.run("PRAGMA cache_size = 1") &&
                             database.run("BEGIN") && database.run("UPDATE things SET colour = 'blue'");
        ::_exit(is_good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_EQ(status, 0);
    auto reader = Database::open_for_reading(path_);
    ASSERT_TRUE(reader) << reader.error().text();
    auto counted = reader->query("SELECT count(*) FROM things WHERE colour = 'red'");
    ASSERT_TRUE(counted && *counted->step());
    EXPECT_EQ(counted->integer(0), rows);
    EXPECT_TRUE(reader->check());
}

// Older versions had a log beside it.
TEST_F(DatabaseTest, AnOlderOneLosesItsLogWhenNobodyHasItOpen) {
    {
        Database older = open();
        ASSERT_TRUE(older.run("PRAGMA journal_mode = WAL"));
        ASSERT_TRUE(older.run("INSERT INTO things (name) VALUES ('a')"));
        Database second = open();  // while it is open, both go on with the log
        ASSERT_TRUE(second.run("INSERT INTO things (name) VALUES ('b')"));
        EXPECT_TRUE(std::filesystem::exists(path_ + "-shm"));
    }
    Database database = open();
    EXPECT_EQ(count(database), 2);
    EXPECT_FALSE(std::filesystem::exists(path_ + "-shm"));
    EXPECT_FALSE(std::filesystem::exists(path_ + "-wal"));
}

TEST_F(DatabaseTest, ADamagedPageIsFoundByTheCheck) {
    {
        Database database = open();
        Transaction transaction = *database.begin();
        for (int i = 0; i < 2000; ++i)
            ASSERT_TRUE(database.run("INSERT INTO things (name) VALUES (?)", std::to_string(i) + std::string(50, 'n')));
        ASSERT_TRUE(transaction.commit());
    }
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5 * 4096);
    file << std::string(4096, '\xff');
    file.close();
    Database database = open();
    auto const checked = database.check();
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().kind, ErrorKind::corrupt);
    EXPECT_FALSE(checked.error().details.empty());
}

TEST_F(DatabaseTest, AnOlderProgramRefusesNewerTables) {
    {
        Database const database = open();
    }
    auto database = Database::open(path_);
    auto const older = database->migrate("things", std::span(steps).first(1));
    ASSERT_FALSE(older);
    EXPECT_EQ(older.error().kind, ErrorKind::unsupported);
    EXPECT_EQ(older.error().text(), "content.db has tables \"things\" of version 2, and this program knows 1");
}

TEST_F(DatabaseTest, AStepThatFailsLeavesTheOldVersion) {
    Database database = open();
    std::array<Migration, 3> const worse{steps[0], steps[1], Migration{"CREATE TABLE more (x TEXT); NONSENSE"}};
    EXPECT_FALSE(database.migrate("things", worse));
    EXPECT_TRUE(database.migrate("things", steps));
    EXPECT_FALSE(database.run("SELECT * FROM more"));
}

}  // namespace
}  // namespace triton::content
