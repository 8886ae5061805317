#include "lib/base/place.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace triton {

namespace {

class PlaceTest : public testing::Test {
protected:
    PlaceTest() {
        char name[] = "/tmp/triton-place.XXXXXX";
        directory = ::mkdtemp(name);
        std::filesystem::create_directory(directory + "/real");
        std::ofstream(directory + "/real/file") << "content";
    }
    ~PlaceTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(directory, ignored);
    }
    /// A link in `directory`; `user`: who has made it.
    void link(std::string const& name, std::string const& target, std::optional<uid_t> user = {}) const {
        std::string const path = directory + "/" + name;
        ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
        if (user && ::lchown(path.c_str(), *user, static_cast<gid_t>(-1)) != 0) FAIL() << errno_text(errno);
    }
    /// "real/file": what is found, below `directory`, by what the directory's descriptor and the name lead to; else the
    /// error.
    [[nodiscard]] std::string found(std::string const& path, Place::LastLink last = Place::LastLink::follow) const {
        auto const place = Place::find(directory + "/" + path, last);
        if (!place) return place.error().text();
        UniqueFd const fd = place->open(O_PATH);
        if (!fd) return "open: " + errno_text(errno);
        std::string const where = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd.get()));
        return where.starts_with(directory + "/") ? where.substr(directory.size() + 1) : where;
    }

    std::string directory;
};

TEST_F(PlaceTest, FollowsLinksOfRootAndOfUs) {
    link("directory", "real");
    link("absolute", directory + "/directory/../real/");
    link("last", "absolute/file");
    EXPECT_EQ(found("real/file"), "real/file");
    EXPECT_EQ(found("./real//file"), "real/file");
    EXPECT_EQ(found("directory/file"), "real/file");
    EXPECT_EQ(found("absolute/file"), "real/file");
    EXPECT_EQ(found("last"), "real/file");
}

TEST_F(PlaceTest, FollowsNoLinkOfSomebodyElse) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a file of somebody else";
    link("theirs", "real", 4711);
    link("through", "theirs/file");
    link("last", "real/file", 4711);
    EXPECT_EQ(found("theirs/file"), "theirs on the way is a symbolic link of user 4711");
    EXPECT_EQ(found("through"), "theirs on the way is a symbolic link of user 4711");
    EXPECT_EQ(found("last"), "last on the way is a symbolic link of user 4711");
    EXPECT_EQ(Place::find(directory + "/last", Place::LastLink::follow).error().kind, ErrorKind::denied);
}

TEST_F(PlaceTest, KeepsTheLastLinkWhenItIsMeant) {
    link("last", "real/file");
    auto const place = Place::find(directory + "/last", Place::LastLink::keep);
    ASSERT_TRUE(place);
    EXPECT_TRUE(S_ISLNK(place->status()->st_mode));
    EXPECT_FALSE(place->open(O_RDONLY));
    EXPECT_EQ(errno, ELOOP);
}

TEST_F(PlaceTest, FollowsLinksOfTheKernel) {
    UniqueFd const file{::open((directory + "/real/file").c_str(), O_RDONLY | O_CLOEXEC)};
    link("last", "/proc/self/fd/" + std::to_string(file.get()));
    link("directory", "/proc/self/cwd");
    EXPECT_EQ(found("last"), "real/file");
    EXPECT_EQ(found("directory/nothing"), "open: No such file or directory");
}

TEST_F(PlaceTest, NamesWhatIsMissing) {
    link("circle", "circle");
    EXPECT_EQ(found("nothing"), "open: No such file or directory");
    EXPECT_EQ(found("nothing/file"), "No such file or directory");
    EXPECT_EQ(found("real/file/below"), "Not a directory");
    EXPECT_EQ(found("circle"), "Too many levels of symbolic links");
    EXPECT_EQ(Place::find("", Place::LastLink::keep).error().code, ENOENT);
}

TEST_F(PlaceTest, ChangesOnlyTheFileThatIsMeant) {
    auto const place = Place::find(directory + "/real/file", Place::LastLink::keep);
    ASSERT_TRUE(place && place->status());
    FileId const id = id_of(*place->status());
    EXPECT_TRUE(place->set_access(id, {}, {}, 0640));
    EXPECT_EQ(place->status()->st_mode & 07777, 0640U);
    EXPECT_EQ(place->set_access({id.device, id.inode + 1}, {}, {}, 0600).error().reason,
              "another file has replaced it");
    EXPECT_EQ(place->status()->st_mode & 07777, 0640U);
    ASSERT_EQ(::link((directory + "/real/file").c_str(), (directory + "/other").c_str()), 0);
    EXPECT_EQ(place->set_access(id, {}, {}, 0600).error().reason, "another file has replaced it");
    place->remove_if({id.device, id.inode + 1});
    EXPECT_TRUE(place->status());
    place->remove_if(id);
    EXPECT_FALSE(place->status());
}

}  // namespace

}  // namespace triton
