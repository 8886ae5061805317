#include <set>
#include <string>

#include <gtest/gtest.h>

#include "launcher/control/control_backend.h"
#include "launcher/control/control_calls.h"
#include "tests/unit/lib/varlink/varlink_interface.h"

namespace triton::launcher {

namespace {

using test::VarlinkInterface;

VarlinkInterface declared() { return test::parse_interface(interface_description()); }

MethodRow const* find_method(std::string_view name) {
    for (MethodRow const& row : control_methods()) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

/// Both ways: what is declared is dispatched with the same parameters, and nothing else is.
std::set<std::string> names_of_probe_kinds() {
    std::set<std::string> names;
    for (config::ProbeKindRow const& row : config::probe_kinds)
        names.emplace(row.name);
    return names;
}

TEST(ControlInterface, MethodsAreThoseOfTheDescription) {
    VarlinkInterface const interface = declared();
    EXPECT_EQ(interface.name, launcher_interface);
    std::set<std::string> dispatched;
    for (MethodRow const& row : control_methods()) {
        std::string const name(row.name);
        EXPECT_TRUE(dispatched.insert(name).second) << name;
        EXPECT_NE(row.handle, nullptr) << name;
        ASSERT_TRUE(interface.methods.contains(name)) << name;
        test::VarlinkType const& in = interface.methods.at(name).in;
        EXPECT_EQ(in.fields.size(), row.parameters.size()) << name;
        for (auto const& parameter : row.parameters) {
            auto const field = in.fields.find(std::string(parameter.name));
            ASSERT_NE(field, in.fields.end()) << name << " " << parameter.name;
            EXPECT_EQ(field->second.is_optional, !parameter.is_required) << name << " " << parameter.name;
        }
    }
    for (auto const& [method, types] : interface.methods)
        EXPECT_TRUE(dispatched.contains(method)) << method;
}

TEST(ControlInterface, StatesAndKindsAreThoseOfTheDescription) {
    VarlinkInterface const interface = declared();
    EXPECT_EQ(interface.types.at("State").words,
              std::set<std::string>(process_state_names.begin(), process_state_names.end()));
    EXPECT_EQ(interface.types.at("Kind").words,
              std::set<std::string>(program_kind_names.begin(), program_kind_names.end()));
    EXPECT_EQ(interface.methods.at("Stage").in.fields.at("what").words,
              std::set<std::string>(staging_kind_names.begin(), staging_kind_names.end()));
    EXPECT_EQ(interface.methods.at("Probes").out.fields.at("kind").words, names_of_probe_kinds());
}

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
        MethodRow const* const method = find_method(row.method);
        ASSERT_NE(method, nullptr);
        json::ProblemList problems{1};
        auto const node = json::read_json(row.parameters, {}, problems);
        ASSERT_TRUE(node) << row.parameters;
        auto const parameters = varlink::read_parameters(method->parameters, *node->get<json::Object>());
        EXPECT_EQ(parameters ? "" : parameters.error(), row.wrong) << row.method << row.parameters;
    }
}

}  // namespace

}  // namespace triton::launcher
