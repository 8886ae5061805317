// Whatever somebody asks of all machines: the answer is JSON, or an error of a kind that is meant for clients, and who
// may not see secrets gets none, not even by asking whether they are as they think.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "host/info/query.h"
#include "host/machine/properties.h"
#include "lib/json/reader.h"

namespace {

using namespace triton;
using info::DocumentPtr;
using info::Query;
using info::View;

void require(bool holds) {
    if (!holds) std::abort();
}

/// Two machines that differ in nothing but their secrets.
std::array<DocumentPtr, 2> const& machines() {
    auto const make = [](std::string const& secret) {
        auto const machine = machine::parse_file(
            R"({"brand":"lx","phase":"installed","uuid":"00000000-0000-4000-8000-000000000001","alias":"web",)"
            R"("tags":{"a":1,"a.b":"c"},"nics":[{"mac":"02:00:00:00:00:01","nic_tag":"x","ip":"10.0.0.1"}],)"
            R"("customer_metadata":{"k":")" +
                secret + R"("},"internal_metadata":{"k":")" + secret + R"("},"launch":{"arguments":[")" + secret +
                R"("]}})",
            "test");
        require(machine.has_value());
        return info::make_document(*machine);
    };
    static std::array<DocumentPtr, 2> const both{make("HIDDEN1"), make("HIDDEN2")};
    return both;
}

/// Lines with a name, "=" and a value.
Query::Pairs pairs_of(std::string_view input) {
    Query::Pairs pairs;
    while (!input.empty() && pairs.size() < 100) {
        std::size_t const end = std::min(input.find('\n'), input.size());
        std::string_view const line = input.substr(0, end);
        std::size_t const equals = std::min(line.find('='), line.size());
        pairs.emplace_back(line.substr(0, equals), line.substr(std::min(equals + 1, line.size())));
        input.remove_prefix(std::min(end + 1, input.size()));
    }
    return pairs;
}

int run(std::uint8_t const* data, std::size_t size) {
    auto const pairs = pairs_of({reinterpret_cast<char const*>(data), size});
    for (View const view : {View::open, View::full}) {
        auto const query = Query::parse(pairs, view);
        if (!query) {
            require(query.error().kind == ErrorKind::invalid || query.error().kind == ErrorKind::denied);
            continue;
        }
        auto const& [one, other] = machines();
        json::ProblemList problems(1);
        require(json::read_json(*query->text(*one), {}, problems).has_value());
        if (view == View::full) continue;
        require(query->matches(*one) == query->matches(*other));
        require(*query->text(*one) == *query->text(*other));
        require(query->text(*one)->find("HIDDEN") == std::string::npos);
    }
    return 0;
}

}  // namespace

extern "C" int query_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) { return query_fuzz(data, size); }
#endif
