#include "host/metadata/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/machine/properties.h"
#include "lib/json/writer.h"

namespace triton::metadata {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

machine::Machine a_machine() {
    auto machine = machine::parse_file(
        R"({"uuid":"6b0c8a3e-0000-4000-8000-00000000000a","brand":"lx","alias":"web0","hostname":"web","ram":512,)"
        R"("internal_metadata_namespaces":["ops"],"resolvers":["10.0.0.1","10.0.0.2"],)"
        R"("nics":[{"mac":"02:08:20:0a:0b:0c","nic_tag":"admin","ip":"10.0.0.9","netmask":"255.255.255.0"}],)"
        R"("tags":{"role.kind":"front","count":3,"live":true},)"
        R"("customer_metadata":{"root_authorized_keys":"ssh-ed25519 AAAA","number":7,"ops:mine":"no"},)"
        R"("internal_metadata":{"root_pw":"secret","operator-script":"#!/bin/sh","ops:rack":"r1","hidden":"h"}})",
        "test");
    EXPECT_TRUE(machine) << machine.error().text();
    return machine ? *std::move(machine) : machine::Machine{};
}

std::string value(std::string_view key) { return value_for_machine(a_machine(), key).value_or("(none)"); }

TEST(Answers, KeysAreThoseOfTheCustomer) {
    EXPECT_EQ(value("root_authorized_keys"), "ssh-ed25519 AAAA");
    EXPECT_EQ(value("number"), "7");
    EXPECT_EQ(value("nothing"), "(none)");
}

TEST(Answers, OfTheOperatorsAMachineHasPasswordsAndNamespaces) {
    EXPECT_EQ(value("root_pw"), "secret");
    EXPECT_EQ(value("ops:rack"), "r1");
    EXPECT_EQ(value("ops:mine"), "(none)");
    EXPECT_EQ(value("hidden"), "(none)");
    EXPECT_EQ(value("operator-script"), "(none)");
    EXPECT_EQ(value("sdc:operator-script"), "#!/bin/sh");
    EXPECT_THAT(keys_for_machine(a_machine()), ElementsAre("root_authorized_keys", "number", "root_pw", "ops:rack"));
}

TEST(Answers, PropertiesAreBehindAPrefix) {
    EXPECT_EQ(value("sdc:uuid"), "6b0c8a3e-0000-4000-8000-00000000000a");
    EXPECT_EQ(value("sdc:hostname"), "web");
    EXPECT_EQ(value("sdc:resolvers"), R"(["10.0.0.1","10.0.0.2"])");
    EXPECT_EQ(value("sdc:resolvers.1"), "10.0.0.2");
    EXPECT_EQ(value("sdc:nics.0.ip"), "10.0.0.9");
    EXPECT_EQ(value("sdc:tags.role.kind"), "front");
    EXPECT_EQ(value("sdc:tags.count"), "3");
    EXPECT_EQ(value("sdc:tags.live"), "true");
    for (std::string_view const key : {"sdc:", "sdc:nothing", "sdc:nics.1.ip", "sdc:nics.x", "sdc:nics..ip",
                                       "sdc:uuid.0", "sdc:resolvers.99999999999999999999"})
        EXPECT_EQ(value(key), "(none)") << key;
}

/// Another way to them would be one around all rules.
TEST(Answers, SecretsAreNoProperties) {
    for (std::string_view const key : {"sdc:internal_metadata", "sdc:internal_metadata.hidden", "sdc:customer_metadata",
                                       "sdc:customer_metadata.number"})
        EXPECT_EQ(value(key), "(none)") << key;
}

std::string change(std::string_view key, std::optional<std::string_view> to) {
    auto const payload = change_from_machine(a_machine(), key, to);
    if (!payload) return payload.error().text();
    json::Writer out;
    out.value(*payload);
    return out.text();
}

TEST(Answers, AChangeIsAnUpdate) {
    EXPECT_EQ(change("state", "done"), R"({"set_customer_metadata":{"state":"done"}})");
    EXPECT_EQ(change("state", std::nullopt), R"({"remove_customer_metadata":["state"]})");
    EXPECT_EQ(change("db_pw", "x"), R"({"set_internal_metadata":{"db_pw":"x"}})");
}

TEST(Answers, WhatIsOfOthersCannotBeChanged) {
    EXPECT_EQ(change("sdc:alias", "x"), "the namespace sdc cannot be changed from inside");
    EXPECT_EQ(change("ops:rack", std::nullopt), "the namespace ops cannot be changed from inside");
    EXPECT_EQ(change("operator-script", "x"), "operator-script is the operator's");
    EXPECT_EQ(change("", "x"), "a key has 1 to 256 bytes");
    EXPECT_EQ(change(std::string(257, 'k'), "x"), "a key has 1 to 256 bytes");
    EXPECT_EQ(change("a\nb", "x"), "a key is text in UTF-8 without control characters");
    EXPECT_EQ(change("\xff", "x"), "a key is text in UTF-8 without control characters");
    EXPECT_EQ(change("a", "\xff"), "a value is text in UTF-8");
    EXPECT_EQ(change("a", std::string_view("\0", 1)), "a value is text in UTF-8");
}

/// The operator's own updates must still fit.
TEST(Answers, AMachineCannotHaveAsMuchAsItLikes) {
    EXPECT_THAT(change("big", std::string(1 << 20, 'x')), HasSubstr("1048576 bytes"));
    EXPECT_THAT(change("big", std::string((1 << 20) - 200, 'x')), HasSubstr("set_customer_metadata"));
    machine::Machine machine = a_machine();
    for (int i = 0; i < 1000; ++i)
        machine.customer_metadata.push_back({"key" + std::to_string(i), json::Node{std::string("v")}});
    EXPECT_FALSE(change_from_machine(machine, "one more", "v"));
    EXPECT_TRUE(change_from_machine(machine, "key1", "w"));
    EXPECT_TRUE(change_from_machine(machine, "key1", std::nullopt));
}

TEST(Answers, WhatIsSoAlreadyIsNoChange) {
    int changes = 0;
    MachineAnswers answers([] { return Result<machine::Machine>(a_machine()); },
                           [&changes](MachineAnswers::Make const& make) -> Result<> {
                               ++changes;
                               return make(a_machine()) ? Result<>() : fail("it is refused");
                           });
    EXPECT_TRUE(answers.put("number", "7"));
    EXPECT_TRUE(answers.remove("nothing"));
    EXPECT_FALSE(answers.put("sdc:uuid", "6b0c8a3e-0000-4000-8000-00000000000a"));
    EXPECT_FALSE(answers.remove("ops:rack"));
    EXPECT_EQ(changes, 0);
    EXPECT_TRUE(answers.put("number", "8"));
    EXPECT_TRUE(answers.remove("number"));
    EXPECT_EQ(changes, 2);
}

/// Another client may have put as much since this one was answered.
TEST(Answers, TheBoundsAreThoseOfTheMachineThatIsChanged) {
    MachineAnswers answers([] { return Result<machine::Machine>(a_machine()); },
                           [](MachineAnswers::Make const& make) -> Result<> {
                               machine::Machine full = a_machine();
                               full.customer_metadata.push_back({"other", json::Node{std::string(1 << 20, 'x')}});
                               auto const payload = make(full);
                               return payload ? Result<>() : std::unexpected(payload.error());
                           });
    auto const put = answers.put("state", "done");
    ASSERT_FALSE(put);
    EXPECT_EQ(put.error().kind, ErrorKind::exhausted);
}

}  // namespace

}  // namespace triton::metadata
