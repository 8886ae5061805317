#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <stdlib.h>

#include "host/cri/container/capability_sets.h"
#include "host/cri/container/execution.h"
#include "host/cri/container/mounts.h"
#include "host/cri/container/name_service.h"
#include "host/cri/container/oci_spec.h"
#include "host/cri/container/seccomp_profile.h"
#include "host/cri/container/stop_signals.h"
#include "host/cri/container/user.h"
#include "host/cri/wire/messages.h"
#include "lib/json/lookup.h"

namespace triton::cri {
namespace {

constexpr process::CapabilitySet all_capabilities = (process::CapabilitySet{1} << 41U) - 1;

class ContainerUserTest : public testing::Test {
protected:
    ContainerUserTest() {
        char name[] = "/tmp/triton-user.XXXXXX";
        root_ = ::mkdtemp(name);
        std::filesystem::create_directory(root_ + "/etc");
    }
    ~ContainerUserTest() override { std::filesystem::remove_all(root_); }
    void write(std::string const& name, std::string const& text) const {
        std::ofstream(root_ + "/etc/" + name) << text;
    }
    Result<ContainerUser> find(std::string const& image_user) const { return find_user(context_, image_user, root_); }

    std::string root_;
    v1::LinuxContainerSecurityContext context_;
};

TEST_F(ContainerUserTest, NamesAreTheImages) {
    write("passwd", "web:x:1000:1001::/home/web:/bin/sh\n");
    write("group", "web:x:1001:\nextra:x:5:web\n");
    EXPECT_EQ(find("web").value(),
              (ContainerUser{.user = 1000, .group = 1001, .groups = {5, 1001}, .home = "/home/web"}));
    EXPECT_EQ(find("web:extra").value().group, 5);
    EXPECT_EQ(find("4711:12").value(), (ContainerUser{.user = 4711, .group = 12, .groups = {12}}));
    EXPECT_EQ(find("").value(), (ContainerUser{.user = 0, .group = 0, .groups = {0}}));
    EXPECT_EQ(find("other").error().text(), "the image has no user \"other\" in /etc/passwd");
    EXPECT_EQ(find("web:other").error().text(), "the image has no group \"other\" in /etc/group");
}

TEST_F(ContainerUserTest, NumbersHaveARange) {
    EXPECT_EQ(find("4294967296").error().text(), "user 4294967296 is not from 0 to 2147483647");
    EXPECT_EQ(find("99999999999999999999").error().kind, ErrorKind::invalid);
    EXPECT_EQ(find("-1").error().kind, ErrorKind::invalid);
    context_.mutable_run_as_user()->set_value(std::int64_t{1} << 31);
    EXPECT_EQ(find("").error().text(), "user 2147483648 is not from 0 to 2147483647");
}

TEST_F(ContainerUserTest, FilesOfTheImageAreOnlyData) {
    std::filesystem::create_symlink("/../../../../etc/hostname", root_ + "/etc/passwd");
    EXPECT_EQ(find("7").value().user, 7) << "the link leads nowhere inside";
    std::filesystem::remove(root_ + "/etc/passwd");
    std::filesystem::create_directory(root_ + "/etc/passwd");
    EXPECT_EQ(find("7").error().text(), "/etc/passwd of the image is not a regular file");
    std::filesystem::remove(root_ + "/etc/passwd");
    write("passwd", "");
    std::filesystem::resize_file(root_ + "/etc/passwd", 1U << 30U);
    EXPECT_EQ(find("7").error().kind, ErrorKind::invalid) << "a gigabyte is not read";
}

TEST(ContainerCapabilities, AllAndSingleOnes) {
    v1::LinuxContainerSecurityContext context;
    auto const usual = find_capabilities(context, all_capabilities).value();
    EXPECT_EQ(capability_names(usual.bounding).size(), 14);
    EXPECT_EQ(usual.ambient, 0);
    auto& wanted = *context.mutable_capabilities();
    wanted.add_drop_capabilities("ALL");
    wanted.add_add_capabilities("NET_ADMIN");
    EXPECT_EQ(capability_names(find_capabilities(context, all_capabilities)->bounding),
              std::vector<std::string>{"CAP_NET_ADMIN"});
    wanted.clear_drop_capabilities();
    wanted.add_add_capabilities("ALL");
    wanted.add_drop_capabilities("CAP_SYS_ADMIN");
    EXPECT_EQ(find_capabilities(context, all_capabilities)->bounding,
              all_capabilities & ~(process::CapabilitySet{1} << CAP_SYS_ADMIN));
    wanted.add_add_capabilities("FLY");
    EXPECT_EQ(find_capabilities(context, all_capabilities).error().text(), "\"FLY\" is not a capability");
}

TEST(ContainerExecution, RequestHidesTheImage) {
    ImageExecution const image{.entrypoint = {"/entry"}, .command = {"a", "b"}, .environment = {"X=image", "PATH=/p"}};
    v1::ContainerConfig config;
    EXPECT_EQ(command_of(config, image).value(), (std::vector<std::string>{"/entry", "a", "b"}));
    config.add_args("c");
    EXPECT_EQ(command_of(config, image).value(), (std::vector<std::string>{"/entry", "c"}));
    config.add_command("run");
    EXPECT_EQ(command_of(config, image).value(), (std::vector<std::string>{"run", "c"}));
    config.clear_args();
    EXPECT_EQ(command_of(config, image).value(), std::vector<std::string>{"run"});
    EXPECT_EQ(command_of({}, {}).error().text(), "there is no command: neither the request nor the image has one");
    auto& variable = *config.add_envs();
    variable.set_key("X");
    variable.set_value("request");
    EXPECT_EQ(environment_of(config, image, "host", "/root"),
              (std::vector<std::string>{"PATH=/p", "HOSTNAME=host", "X=request", "HOME=/root"}));
}

TEST(StopSignals, RequestThenImageThenTerm) {
    EXPECT_EQ(stop_signal_of(0, ""), SIGTERM);
    EXPECT_EQ(stop_signal_of(0, "SIGQUIT"), SIGQUIT);
    EXPECT_EQ(stop_signal_of(0, "3"), SIGQUIT);
    EXPECT_EQ(stop_signal_of(v1::SIGNAL_SIGUSR1, "SIGQUIT"), SIGUSR1);
    EXPECT_EQ(stop_signal_of(v1::SIGNAL_SIGRTMINPLUS3, ""), SIGRTMIN + 3);
    EXPECT_EQ(stop_signal_of(v1::SIGNAL_SIGRTMAX, ""), SIGRTMAX);
    EXPECT_EQ(stop_signal_of(0, "SIGNONSENSE"), SIGTERM);
    EXPECT_EQ(value_of_signal(SIGTERM), v1::SIGNAL_SIGTERM);
    EXPECT_EQ(value_of_signal(SIGSYS), v1::SIGNAL_SIGSYS);
}

TEST(NameService, ResolverIsOnlyWords) {
    v1::DNSConfig dns;
    dns.add_servers("10.0.0.1");
    dns.add_searches("a.b");
    dns.add_searches("c");
    dns.add_options("ndots:5");
    EXPECT_EQ(resolver_text(dns).value(), "search a.b c\nnameserver 10.0.0.1\noptions ndots:5\n");
    dns.add_options("x\nnameserver 1.2.3.4");
    EXPECT_EQ(resolver_text(dns).error().kind, ErrorKind::invalid);
}

TEST(NameService, SysctlsOfTheNodeAreNotThePods) {
    EXPECT_TRUE(check_sysctl("net.ipv4.tcp_syncookies", "1", true, true));
    EXPECT_TRUE(check_sysctl("kernel.shm_rmid_forced", "1", false, true));
    for (auto const& [name, value] : {std::pair{"net.ipv4.x", "1"},
                                      {"kernel.panic", "1"},
                                      {"kernel.shmmax", "1\n2"},
                                      {"kernel.shmmax", "1+net.x=2"},
                                      {"../../etc/x", "1"},
                                      {"", "1"},
                                      {"kernel.hostname", "x"}})
        EXPECT_FALSE(check_sysctl(name, value, false, true)) << name;
    EXPECT_FALSE(check_sysctl("fs.mqueue.msg_max", "1", true, false));
}

TEST(ContainerMounts, RequestsReplaceWhatAllHave) {
    v1::ContainerConfig config;
    for (char const* const path : {"/a/b/c", "/a", "/etc/hosts", "/dev/shm"}) {
        auto& mount = *config.add_mounts();
        mount.set_container_path(path);
        mount.set_host_path("/tmp");
    }
    auto const found =
        find_mounts(config, {.resolver = "/r", .hostname = "/h", .hosts = "/hosts", .memory = "/m"}).value();
    std::vector<std::string> places;
    for (SpecMount const& mount : found.mounts)
        places.push_back(mount.destination);
    EXPECT_EQ(places, (std::vector<std::string>{"/proc", "/dev", "/dev/pts", "/dev/mqueue", "/sys", "/sys/fs/cgroup",
                                                "/etc/resolv.conf", "/etc/hostname", "/a", "/etc/hosts", "/dev/shm",
                                                "/a/b/c"}));
    config.mutable_mounts(0)->set_container_path("/a/../b");
    EXPECT_EQ(find_mounts(config, {}).error().text(), "\"/a/../b\" cannot be the container_path of a mount");
}

TEST(ContainerMounts, PropagationIsTheMountPoints) {
    constexpr char text[] =
        "1 0 8:1 / / rw shared:1 - ext4 /dev/a rw\n"
        "2 1 0:1 / /private rw - tmpfs t rw\n"
        "3 1 0:2 / /private/slave rw master:4 - tmpfs t rw\n";
    EXPECT_TRUE(propagation_of(text, "/x").is_shared);
    EXPECT_FALSE(propagation_of(text, "/private/x").is_shared);
    EXPECT_TRUE(propagation_of(text, "/private/slave/y").is_slave);
    EXPECT_TRUE(propagation_of(text, "/privateer").is_shared);
}

TEST(SeccompProfile, DefaultHasWhatItShould) {
    v1::LinuxContainerSecurityContext context;
    EXPECT_EQ(seccomp_of(context, 0).value(), "");
    context.mutable_seccomp()->set_profile_type(v1::SecurityProfile::RuntimeDefault);
    std::string const text = seccomp_of(context, 0).value();
    for (char const* const call : {"\"openat2\"", "\"ptrace\"", "\"epoll_wait\"", "\"accept4\"", "\"chown\""})
        EXPECT_NE(text.find(call), std::string::npos) << call;
    for (char const* const call : {"\"mount\"", "\"unshare\"", "\"keyctl\"", "\"bpf\"", "\"io_uring_setup\"",
                                   "\"reboot\"", "\"mbind\"", "\"setns\""})
        EXPECT_EQ(text.find(call), std::string::npos) << call;
    std::string const more = seccomp_of(context, process::CapabilitySet{1} << CAP_SYS_ADMIN).value();
    EXPECT_NE(more.find("\"mount\""), std::string::npos);
    context.set_privileged(true);
    EXPECT_EQ(seccomp_of(context, 0).value(), "");
}

TEST(OciSpec, IsWholeAndCommandsHaveItsProcess) {
    v1::ContainerConfig config;
    config.add_command("/run");
    SpecSurroundings around{
        .hostname = "pod", .files = {.memory = "/m"}, .namespaces = {{"mount"}, {"pid"}}, .cgroups_path = "/a/b"};
    around.capabilities = all_capabilities;
    std::string const spec = make_spec(config, around).value();
    std::string const process = make_process(spec, {"ls", "-l"}, false).value();
    json::ProblemList problems(1);
    auto const node = json::read_json(process, {}, problems).value();
    EXPECT_EQ(json::text_of(node, "cwd"), "/");
    EXPECT_EQ(json::value_of<json::Array>(node, "args")->size(), 2);
    config.mutable_linux()->mutable_resources()->mutable_unified()->insert({"memory.high", "1"});
    EXPECT_EQ(make_spec(config, around).error().kind, ErrorKind::unsupported);
    config.clear_linux();
    config.set_working_dir("relative");
    EXPECT_EQ(make_spec(config, around).error().text(), "working_dir is not absolute: \"relative\"");
}

TEST(OciSpec, ALabelIsRefusedOnlyWhereItMeansSomething) {
    v1::ContainerConfig config;
    config.add_command("true");
    config.mutable_linux()->mutable_security_context()->mutable_selinux_options()->set_type("spc_t");
    SpecSurroundings around{.cgroups_path = "/a"};
    around.capabilities = all_capabilities;
    around.selinux = "/dev/null";
    EXPECT_EQ(make_spec(config, around).error().text(), "selinux_options are not supported, and this node has SELinux");
    around.selinux = "/dev/null/none";
    EXPECT_TRUE(make_spec(config, around));
    around.selinux = "/dev/null";
    config.mutable_linux()->mutable_security_context()->mutable_selinux_options()->clear_type();
    EXPECT_TRUE(make_spec(config, around));
}

TEST(OciSpec, ADeviceThatMayNotBeMadeIsThereAllTheSame) {
    v1::ContainerConfig config;
    config.add_command("true");
    v1::Device& device = *config.add_devices();
    device.set_host_path("/dev/null");
    device.set_container_path("/dev/gpu0");
    device.set_permissions("rw");  // as plugins for devices ask for them
    SpecSurroundings around{
        .hostname = "pod", .files = {.memory = "/m"}, .namespaces = {{"mount"}, {"pid"}}, .cgroups_path = "/a/b"};
    around.capabilities = all_capabilities;
    std::string const spec = make_spec(config, around).value();
    EXPECT_NE(spec.find(R"({"path":"/dev/gpu0","type":"c","major":1,"minor":3)"), std::string::npos) << spec;
    EXPECT_NE(spec.find(R"({"allow":true,"type":"c","access":"rw","major":1,"minor":3})"), std::string::npos) << spec;
}

}  // namespace
}  // namespace triton::cri
