#include "host/cri/container/apparmor.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <stdlib.h>

#include "host/cri/wire/messages.h"
#include "lib/base/read_file.h"

namespace triton::cri {
namespace {

/// A host with AppArmor, whose parser notes what it was given.
class AppArmorTest : public testing::Test {
protected:
    AppArmorTest() {
        char name[] = "/tmp/triton-apparmor.XXXXXX";
        top_ = ::mkdtemp(name);
        write("enabled", "Y\n");
        write("profiles", "other (enforce)\nmine (complain)\n");
        parser("cat > " + top_ + "/given; echo 'triton-default (enforce)' >> " + top_ + "/profiles");
    }
    ~AppArmorTest() override { std::filesystem::remove_all(top_); }
    void write(std::string const& name, std::string const& text) const { std::ofstream(top_ + "/" + name) << text; }
    void parser(std::string const& script) const {
        write("parser", "#!/bin/sh\n" + script + "\n");
        std::filesystem::permissions(top_ + "/parser", std::filesystem::perms(0755));
    }
    std::string given() const { return read_file(top_ + "/given", 1 << 16).value_or(""); }
    Result<std::string> profile() const {
        return AppArmor({.enabled = top_ + "/enabled", .profiles = top_ + "/profiles", .parser = top_ + "/parser"})
            .profile_for(context_);
    }

    std::string top_;
    v1::LinuxContainerSecurityContext context_;
};

TEST_F(AppArmorTest, DefaultIsLoadedOnce) {
    context_.mutable_apparmor()->set_profile_type(v1::SecurityProfile::RuntimeDefault);
    EXPECT_EQ(profile(), "triton-default");
    EXPECT_NE(given().find("profile triton-default "), std::string::npos);
    parser("exit 1");
    EXPECT_EQ(profile(), "triton-default") << "it is loaded";
}

TEST_F(AppArmorTest, DefaultThatCannotBeLoadedIsAnErrorWhereItWasAskedFor) {
    parser("echo no policy >&2; exit 1");
    EXPECT_EQ(profile(), "") << "nobody has asked";
    context_.set_apparmor_profile("runtime/default");
    EXPECT_NE(profile().error().text().find("no policy"), std::string::npos);
    context_.set_privileged(true);
    EXPECT_EQ(profile(), "");
}

TEST_F(AppArmorTest, WhoAsksForNothingHasTheDefault) { EXPECT_EQ(profile(), "triton-default"); }

TEST_F(AppArmorTest, Unconfined) {
    context_.mutable_apparmor()->set_profile_type(v1::SecurityProfile::Unconfined);
    EXPECT_EQ(profile(), "");
    context_.clear_apparmor();
    context_.set_apparmor_profile("unconfined");
    EXPECT_EQ(profile(), "");
    EXPECT_EQ(given(), "");
}

TEST_F(AppArmorTest, NamedOnesMustBeThere) {
    context_.mutable_apparmor()->set_profile_type(v1::SecurityProfile::Localhost);
    context_.mutable_apparmor()->set_localhost_ref("mine");
    EXPECT_EQ(profile(), "mine");
    context_.mutable_apparmor()->set_localhost_ref("min");
    EXPECT_EQ(profile().error().text(), "AppArmor profile min is not loaded");
    write("enabled", "N\n");
    EXPECT_EQ(profile().error().kind, ErrorKind::unsupported);
    context_.mutable_apparmor()->set_profile_type(v1::SecurityProfile::RuntimeDefault);
    EXPECT_EQ(profile(), "") << "passed over, as the interface has it";
}

}  // namespace
}  // namespace triton::cri
