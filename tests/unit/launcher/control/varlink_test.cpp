#include "launcher/control/varlink.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "launcher/control/control_backend.h"
#include "launcher/control/control_calls.h"
#include "tests/unit/launcher/control/varlink_interface.h"

namespace triton::launcher {

namespace {

using test::VarlinkInterface;

VarlinkInterface declared(std::string_view name) { return test::parse_interface(interface_description(name)); }

TEST(VarlinkCall, MembersAreRead) {
    auto const call = parse_varlink_call(
        R"({"method":"a.b.C","parameters":{"x":1},"more":true,"oneway":null,"upgrade":false,"other":[1]})");
    ASSERT_TRUE(call);
    EXPECT_EQ(call->method, "a.b.C");
    EXPECT_EQ(call->interface(), "a.b");
    EXPECT_EQ(call->name(), "C");
    EXPECT_TRUE(call->wants_more);
    EXPECT_FALSE(call->is_oneway);
    EXPECT_FALSE(call->wants_upgrade);
    ASSERT_NE(find_member(call->parameters, "x"), nullptr);
    EXPECT_EQ(find_member(call->parameters, "y"), nullptr);
}

TEST(VarlinkCall, OneWithoutDotHasNoInterface) {
    auto const call = parse_varlink_call(R"({"method":"C"})");
    ASSERT_TRUE(call);
    EXPECT_EQ(call->interface(), "");
    EXPECT_EQ(call->name(), "C");
}

TEST(VarlinkCall, WhatIsNoCallIsToldInOneLine) {
    struct Row {
        std::string message;
        std::string reason;
    };
    std::string const deep = std::string(9, '[') + std::string(9, ']');
    std::string many = R"({"method":"a.b","parameters":{"x":[0)";
    for (int i = 0; i < 300; ++i)
        many += ",0";
    for (Row const& row : {
             Row{"", "is empty"},
             Row{"[]", "expected an object, found array"},
             Row{"{}", "no \"method\""},
             Row{R"({"method":""})", "no \"method\""},
             Row{R"({"method":1})", "\"method\" cannot be of type number"},
             Row{R"({"method":"a.b","more":"yes"})", "\"more\" cannot be of type string"},
             Row{R"({"method":"a.b","parameters":[]})", "\"parameters\" cannot be of type array"},
             Row{R"({"method":"a.b","method":"a.c"})", "method: duplicate key"},
             Row{R"({"method":"a.b\u0000"})", "method: contains a NUL byte, which no argument can carry"},
             Row{R"({"method":"a.b","parameters":{"x":)" + deep + "}}",
                 "parameters.x[0][0][0][0][0][0]: nested deeper than 8 levels"},
             Row{many + "]}}", "has more than 256 values"},
             Row{"GET / HTTP/1.1\r\n\r\n", "line 1, column 1: syntax error while parsing value: invalid literal"},
         }) {
        auto const call = parse_varlink_call(row.message);
        ASSERT_FALSE(call) << row.message;
        EXPECT_EQ(call.error(), row.reason);
    }
}

TEST(VarlinkReply, IsReadBack) {
    std::string text;
    append_varlink_reply(text, R"({"a":1})", true);
    append_varlink_error(text, "x.y.Z", "{}");
    std::size_t const end = text.find('\0');
    auto const reply = parse_varlink_reply(text.substr(0, end), 1000);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->continues);
    EXPECT_TRUE(reply->error.empty());
    auto const error = parse_varlink_reply(text.substr(end + 1, text.size() - end - 2), 1000);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->error, "x.y.Z");
    EXPECT_FALSE(parse_varlink_reply(text.substr(0, end), 10));
}

/// Both ways: what is declared is dispatched with the same parameters, and nothing else is.
TEST(ControlInterface, MethodsAreThoseOfTheDescription) {
    std::set<std::string> dispatched;
    for (MethodRow const& row : control_methods()) {
        VarlinkInterface const interface = declared(row.interface);
        EXPECT_EQ(interface.name, row.interface);
        std::string const name(row.name);
        EXPECT_TRUE(dispatched.insert(std::string(row.interface) + "." + name).second) << name;
        ASSERT_TRUE(interface.methods.contains(name)) << name;
        test::VarlinkType const& in = interface.methods.at(name).in;
        EXPECT_EQ(in.fields.size(), row.parameters.size()) << name;
        for (ParameterRow const& parameter : row.parameters) {
            auto const field = in.fields.find(std::string(parameter.name));
            ASSERT_NE(field, in.fields.end()) << name << " " << parameter.name;
            EXPECT_EQ(field->second.is_optional, !parameter.is_required) << name << " " << parameter.name;
        }
        EXPECT_EQ(find_method(row.interface, row.name), &row);
    }
    for (std::string_view const name : {launcher_interface, service_interface}) {
        for (auto const& [method, types] : declared(name).methods)
            EXPECT_TRUE(dispatched.contains(std::string(name) + "." + method)) << method;
    }
}

TEST(ControlInterface, MethodRowsStandInTheOrderOfTheEnum) {
    std::size_t at = 0;
    for (MethodRow const& row : control_methods())
        EXPECT_EQ(static_cast<std::size_t>(row.method), at++) << row.name;
}

TEST(ControlInterface, StatesAndKindsAreThoseOfTheDescription) {
    VarlinkInterface const interface = declared(launcher_interface);
    EXPECT_EQ(interface.types.at("State").words,
              std::set<std::string>(process_state_names.begin(), process_state_names.end()));
    EXPECT_EQ(interface.types.at("Kind").words,
              std::set<std::string>(program_kind_names.begin(), program_kind_names.end()));
    EXPECT_EQ(interface.methods.at("Stage").in.fields.at("what").words,
              std::set<std::string>(staging_kind_names.begin(), staging_kind_names.end()));
    EXPECT_EQ(interface.methods.at("Probes").out.fields.at("kind").words,
              std::set<std::string>(probe_kind_names.begin(), probe_kind_names.end()));
}

TEST(ControlInterface, AnUnknownOneHasNoDescription) { EXPECT_EQ(interface_description("a.b"), ""); }

/// Every value that a declared type allows is read, every other is refused with the parameter's name.
TEST(ControlParameters, AreCheckedOneByOne) {
    struct Row {
        std::string_view method;
        std::string parameters;
        std::string wrong;  // empty: none
    };
    for (Row const& row : {
             Row{"Start", R"({"program":"a"})", ""},
             Row{"Start", R"({"program":"a","process":1,"wait":true})", ""},
             Row{"Start", R"({"program":"a","process":null,"wait":null})", ""},
             Row{"Start", R"({})", "program"},
             Row{"Start", R"({"program":null})", "program"},
             Row{"Start", R"({"program":1})", "program"},
             Row{"Start", R"({"program":"a","process":0})", "process"},
             Row{"Start", R"({"program":"a","process":-1})", "process"},
             Row{"Start", R"({"program":"a","process":4294967296})", "process"},
             Row{"Start", R"({"program":"a","process":1.5})", "process"},
             Row{"Start", R"({"program":"a","wait":1})", "wait"},
             Row{"Start", R"({"program":"a","when":1})", "when"},
             Row{"Signal", R"({"program":"a","signal":"SIGRTMIN+3"})", ""},
             Row{"Signal", R"({"program":"a","signal":"15"})", ""},
             Row{"Signal", R"({"program":"a","signal":15})", "signal"},
             Row{"Signal", R"({"program":"a","signal":"65"})", "signal"},
             Row{"Signal", R"({"program":"a","signal":""})", "signal"},
             Row{"Signal", R"({"program":"a"})", "signal"},
             Row{"Wait", R"({"program":"a","condition":"down"})", ""},
             Row{"Wait", R"({"program":"a","condition":"dead"})", "condition"},
             Row{"Wait", R"({"program":"a"})", "condition"},
             Row{"Logs", R"({"program":"a","lines":0})", ""},
             Row{"Logs", R"({"program":"a","lines":10001})", "lines"},
             Row{"Logs", R"({"program":"a","follow":"yes"})", "follow"},
             Row{"List", R"({})", ""},
             Row{"Reload", R"({"x":1})", "x"},
             Row{"Stage", R"({"what":"monitor_conf"})", ""},
             Row{"Stage", R"({"what":"monitor-conf"})", "what"},
             Row{"Stage", R"({})", "what"},
             Row{"ProbeResult", R"({"id":9223372036854775807,"ok":true,"detail":"x"})", ""},
             Row{"ProbeResult", R"({"id":-1,"ok":true,"detail":"x"})", "id"},
             Row{"ProbeResult", R"({"id":1.5,"ok":true,"detail":"x"})", "id"},
             Row{"ProbeResult", R"({"id":1,"ok":"yes","detail":"x"})", "ok"},
             Row{"ProbeResult", R"({"id":1,"ok":true})", "detail"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":60,"variables":{"NODE_LABEL_A":""}})", ""},
             Row{"SetPod", R"({"isolated":1,"shutdown_delay_seconds":60,"variables":{}})", "isolated"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":-1,"variables":{}})", "shutdown_delay_seconds"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":-0.5,"variables":{}})",
                 "shutdown_delay_seconds"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":"1","variables":{}})",
                 "shutdown_delay_seconds"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":0,"variables":[]})", "variables"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":0,"variables":{"NODE_LABEL_A":1}})",
                 "variables"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":0,"variables":{"":"x"}})", "variables"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":0,"variables":{"NODE_LABEL_A=B":"x"}})",
                 "variables"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":0,"variables":{"PATH":"x"}})", "variables"},
             Row{"SetPod", R"({"isolated":true,"shutdown_delay_seconds":0})", "variables"},
             Row{"SetReporter", R"({"reporter":{"state":"connecting","detail":"","last_success":0}})", ""},
             Row{"SetReporter", R"({"reporter":{"state":"unwell","detail":""}})", "reporter"},
             Row{"SetReporter", R"({"reporter":{"state":"ok"}})", "reporter"},
             Row{"SetReporter", R"({"reporter":{"detail":""}})", "reporter"},
             Row{"SetReporter", R"({"reporter":{"state":"ok","detail":"","since":1}})", "reporter"},
             Row{"SetReporter", R"({"reporter":{"state":"ok","detail":"","last_success":-1}})", "reporter"},
             Row{"SetReporter", R"({"reporter":{"state":"ok","detail":"","last_success":1e13}})", "reporter"},
             Row{"SetReporter", R"({"reporter":"ok"})", "reporter"},
         }) {
        MethodRow const* const method = find_method(launcher_interface, row.method);
        ASSERT_NE(method, nullptr);
        json::ProblemList problems{1};
        auto const node = json::read_json(row.parameters, {}, problems);
        ASSERT_TRUE(node) << row.parameters;
        auto const parameters = read_parameters(*method, *node->get<json::Object>());
        EXPECT_EQ(parameters ? "" : parameters.error(), row.wrong) << row.method << row.parameters;
    }
}

}  // namespace

}  // namespace triton::launcher
