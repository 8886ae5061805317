#include "launcher/control/peer_rights.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/launcher/control/control_subject.h"

namespace triton::launcher {

namespace {

constexpr std::uint64_t all = 0x1ff'ffff'ffff;

/// A /proc of the test's own, in which we are process 1.
class PeerRightsTest : public ::testing::Test {
protected:
    PeerRightsTest() {
        char name[] = "/tmp/triton-proc.XXXXXX";
        EXPECT_NE(::mkdtemp(name), nullptr);
        proc = name;
        process(1, {.parent = 0, .capabilities = all});
    }
    ~PeerRightsTest() override { std::filesystem::remove_all(proc); }

    void process(pid_t pid, ProcessRights const& rights) const {
        std::string const directory = proc + "/" + std::to_string(pid);
        std::filesystem::create_directories(directory);
        std::ofstream file(directory + "/status");
        file << "Name:\tx\nPPid:\t" << rights.parent << "\nCapInh:\t0000000000000000\nCapPrm:\t" << std::hex
             << rights.capabilities << std::dec << "\nNoNewPrivs:\t" << rights.no_new_privileges
             << "\nSeccomp:\t2\nSeccomp_filters:\t" << rights.filters << "\n";
    }
    std::string why(pid_t pid, bool is_by_uid = true) const {
        auto const role = PeerRights(backend, proc, 1).role_of({.uid = 0, .gid = 0, .pid = pid}, is_by_uid);
        if (!role) return role.error();
        return *role == ControlRole::person ? "" : *role == ControlRole::limited ? "limited" : "agent";
    }

    std::string proc;
    FakeBackend backend;
};

TEST_F(PeerRightsTest, AreReadFromProc) {
    ProcessRights const rights{.parent = 7, .no_new_privileges = true, .filters = 3, .capabilities = 0xa0};
    process(50, rights);
    EXPECT_EQ(read_rights(50, proc), rights);
    EXPECT_EQ(read_rights(51, proc), std::nullopt);
    EXPECT_TRUE(read_rights(::getpid()));
}

TEST_F(PeerRightsTest, SomebodyFromOutsideMayCommand) {
    EXPECT_EQ(why(0), "");  // another PID namespace
    process(60, {.parent = 0, .capabilities = all});
    EXPECT_EQ(why(60), "");  // what a container runtime has started beside us
}

TEST_F(PeerRightsTest, WhoeverDescendsFromASandboxOrTheAgentMayNot) {
    process(10, {.parent = 1, .capabilities = all});
    process(11, {.parent = 10, .capabilities = all});
    process(12, {.parent = 11, .capabilities = all});
    for (pid_t const pid : {10, 11, 12}) {
        backend.owners = {{10, ProcessOwner::program}};
        EXPECT_EQ(why(pid), "");
        backend.owners = {{10, ProcessOwner::sandboxed}};
        EXPECT_EQ(why(pid), "it belongs to a program with a sandbox");
        EXPECT_EQ(why(pid, false), "it belongs to a program with a sandbox");
        backend.owners = {{10, ProcessOwner::agent}};
        EXPECT_EQ(why(pid, false), "it belongs to the agent");
        backend.owners = {{10, ProcessOwner::other_user}};
        EXPECT_EQ(why(pid), "it belongs to a program of another user");
        EXPECT_EQ(why(pid, false), "");  // the socket's mode lets that user in
    }
}

TEST_F(PeerRightsTest, OfAnOrphanNobodyKnowsWhoseItWas) {
    process(20, {.parent = 1, .capabilities = all});
    process(21, {.parent = 20, .capabilities = all});
    EXPECT_EQ(why(21), "");
    backend.has_sandbox = true;
    EXPECT_EQ(why(20), "its parent has ended, and may have belonged to a program with a sandbox");
    EXPECT_EQ(why(21), "its parent has ended, and may have belonged to a program with a sandbox");
}

TEST_F(PeerRightsTest, WhoHasEndedMayNot) {
    EXPECT_EQ(why(30), "its process has ended, so its origin is unknown");
    process(31, {.parent = 30, .capabilities = all});
    backend.owners = {{99, ProcessOwner::other_user}};
    EXPECT_EQ(why(31), "a parent of its process has ended in the meantime");
    backend.owners = {{99, ProcessOwner::program}};
    EXPECT_EQ(why(31), "");  // whoever the parent was, it could have commanded
}

TEST_F(PeerRightsTest, ALongLineOfAncestorsIsNotFollowed) {
    backend.has_sandbox = true;
    for (pid_t pid = 100; pid < 200; ++pid)
        process(pid, {.parent = pid + 1, .capabilities = all});
    process(200, {.parent = 0, .capabilities = all});
    EXPECT_EQ(why(100), "it has too many ancestors");
    EXPECT_EQ(why(190), "");
}

TEST_F(PeerRightsTest, WhoHasFewerRightsThanWeMayDoLessByItsUidAlone) {
    struct Row {
        ProcessRights ours;
        ProcessRights theirs;
        std::string why;
    };
    for (Row const& row : {
             Row{{.capabilities = all}, {.capabilities = all}, ""},
             Row{{.capabilities = 0}, {.capabilities = all}, ""},
             Row{{.capabilities = all}, {.capabilities = all - 1}, "limited"},
             Row{{}, {.no_new_privileges = true}, "limited"},
             Row{{.no_new_privileges = true}, {.no_new_privileges = true}, ""},
             Row{{.filters = 1}, {.filters = 1}, ""},
             Row{{.filters = 1}, {.filters = 2}, "limited"},
         }) {
        process(1, row.ours);
        process(40, row.theirs);
        EXPECT_EQ(why(40), row.why);
        EXPECT_EQ(why(40, false), "");
    }
}

}  // namespace

}  // namespace triton::launcher
