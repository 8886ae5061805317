#include "config/substitution.h"

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/ip_list.h"
#include "lib/json/text.h"
#include "tests/unit/config/problem_texts.h"

namespace triton::config {
namespace {

using testing::ElementsAre;

constexpr std::int64_t lowest_integer = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest_integer = std::numeric_limits<std::int64_t>::max();

ProcessConfiguration configuration_with(std::vector<Argument> arguments) {
    return {"1", true, std::nullopt, std::move(arguments)};
}

std::vector<std::string> errors_of(std::vector<Argument> arguments, char const* const* environment,
                                   std::uint32_t highest = 1, Limits const& limits = {}) {
    auto const command =
        config::substitute(configuration_with(std::move(arguments)), Variables({}, environment), highest, limits);
    return command ? std::vector<std::string>{} : texts(command.error());
}

std::string joined(std::vector<std::string> const& words) {
    std::string line = "/usr/bin/fdbserver";
    for (std::string const& word : words)
        line += " " + word;
    return line;
}

Argument number(std::int64_t multiplier, std::int64_t offset) {
    return {.type = ArgumentType::process_number, .multiplier = multiplier, .offset = offset};
}
Argument variable(std::string name) { return {.type = ArgumentType::environment, .source = std::move(name)}; }
Argument address(std::string name, IpFamily family) {
    return {.type = ArgumentType::ip_list, .ip_family = family, .source = std::move(name)};
}

constexpr char const* no_environment[] = {nullptr};

TEST(CommandTemplate, TheExampleOfTheDesign) {
    auto const parsed = parse(R"({
	"version": "6.3.0",
	"arguments": [
		{"value": "--public_address"},
		{"type": "Concatenate", "values": [
			{"type": "Environment", "source": "FDB_PUBLIC_IP"},
			{"value": ":"},
			{"type": "ProcessNumber", "offset": 4498, "multiplier": 2},
			{"value": ":tls"}
		]},
		{"value": "--listen_address"},
		{"type": "Concatenate", "values": [
			{"type": "Environment", "source": "FDB_POD_IP"},
			{"value": ":"},
			{"type": "ProcessNumber", "offset": 4498, "multiplier": 2},
			{"value": ":tls"}
		]},
		{"value": "--datadir"},
		{"type": "Concatenate", "values": [
			{"value": "/var/fdb/data/"},
			{"type": "ProcessNumber"}
		]},
		{"value": "--class"},
		{"value": "storage"},
		{"value": "--locality_zoneid"},
		{"type": "Environment", "source": "FDB_ZONE_ID"},
		{"value": "--locality_instance-id"},
		{"type": "Environment", "source": "FDB_INSTANCE_ID"},
		{"value": "--locality_process-id"},
		{"type": "Concatenate", "values": [
			{"type": "Environment", "source": "FDB_INSTANCE_ID"},
			{"value": "-"},
			{"type": "ProcessNumber"}
		]}
	]
})");
    ASSERT_TRUE(parsed);
    char const* const environment[] = {"FDB_PUBLIC_IP=10.0.0.1", "FDB_POD_IP=192.168.0.1", "FDB_ZONE_ID=zone1",
                                       "FDB_INSTANCE_ID=storage-1", nullptr};
    auto const command = config::substitute(parsed->configuration, Variables({}, environment), 2);
    ASSERT_TRUE(command);
    EXPECT_EQ(joined(command->arguments(process::ProcessNumber{1})),
              "/usr/bin/fdbserver --public_address 10.0.0.1:4500:tls --listen_address 192.168.0.1:4500:tls --datadir "
              "/var/fdb/data/1 --class storage --locality_zoneid zone1 --locality_instance-id storage-1 "
              "--locality_process-id storage-1-1");
    EXPECT_EQ(joined(command->arguments(process::ProcessNumber{2})),
              "/usr/bin/fdbserver --public_address 10.0.0.1:4502:tls --listen_address 192.168.0.1:4502:tls --datadir "
              "/var/fdb/data/2 --class storage --locality_zoneid zone1 --locality_instance-id storage-1 "
              "--locality_process-id storage-1-2");
}

TEST(CommandTemplate, EmptyArgumentsAreArguments) {
    auto const command = config::substitute(configuration_with({{}, {.type = ArgumentType::concatenate}, {}}),
                                            Variables({}, nullptr), 1);
    ASSERT_TRUE(command);
    EXPECT_THAT(command->arguments(process::ProcessNumber{1}), ElementsAre("", "", ""));
    EXPECT_EQ(command->buffer_size(), 3U);
}

TEST(CommandTemplate, NoArgumentsAtAll) {
    auto const command = config::substitute(configuration_with({}), Variables({}, nullptr), 0);
    ASSERT_TRUE(command);
    char* argv[1] = {const_cast<char*>("untouched")};
    command->render(process::ProcessNumber{1}, {}, argv);
    EXPECT_EQ(argv[0], nullptr);
}

TEST(CommandTemplate, RendersIntoTheCallersBuffer) {
    auto const command =
        config::substitute(configuration_with({{.value = "a"}, number(10, 0)}), Variables({}, nullptr), 100);
    ASSERT_TRUE(command);
    EXPECT_EQ(command->buffer_size(), sizeof "a" + sizeof "655350");  // for every number there may be
    std::vector<char> buffer(command->buffer_size());
    std::vector<char*> argv(command->argument_count() + 1, buffer.data());
    command->render(process::ProcessNumber{100}, buffer, argv);
    EXPECT_EQ(argv[0], buffer.data());
    EXPECT_STREQ(argv[0], "a");
    EXPECT_STREQ(argv[1], "1000");
    EXPECT_EQ(argv[2], nullptr);
}

TEST(CommandTemplate, BufferFitsTheLongerEndOfAFallingNumber) {
    auto const command = config::substitute(configuration_with({number(-1, 100)}), Variables({}, nullptr), 1100);
    ASSERT_TRUE(command);
    EXPECT_EQ(command->buffer_size(), sizeof "-65435");
    EXPECT_THAT(command->arguments(process::ProcessNumber{1}), ElementsAre("99"));
    EXPECT_THAT(command->arguments(process::ProcessNumber{100}), ElementsAre("0"));
    EXPECT_THAT(command->arguments(process::ProcessNumber{1100}), ElementsAre("-1000"));
}

TEST(CommandTemplate, ZerosStandBeforeANumberUpToItsWidth) {
    auto const padded = [](std::uint32_t width, std::int64_t multiplier, std::int64_t offset, std::uint32_t at) {
        Argument argument = number(multiplier, offset);
        argument.width = width;
        Argument const joint{.type = ArgumentType::concatenate,
                             .values = {{.value = "w-"}, argument, {.value = ".log"}}};
        auto const command =
            config::substitute(configuration_with({joint, {.value = "last"}}), Variables({}, nullptr), 9);
        EXPECT_TRUE(command);
        auto const made = command->arguments(process::ProcessNumber{at});
        EXPECT_EQ(made.back(), "last");
        std::size_t const bytes = made.front().size() + sizeof "" + sizeof "last";
        EXPECT_LE(bytes, command->buffer_size());
        return made.front();
    };
    EXPECT_EQ(padded(2, 1, 0, 7), "w-07.log");
    EXPECT_EQ(padded(1, 1, 0, 7), "w-7.log");
    EXPECT_EQ(padded(2, 1, 0, 65535), "w-65535.log");  // above the count, and wider than asked for
    EXPECT_EQ(padded(5, 1, 0, 65535), "w-65535.log");
    EXPECT_EQ(padded(6, 1, 0, 65535), "w-065535.log");
    EXPECT_EQ(padded(4, -1, 0, 7), "w--007.log");
    EXPECT_EQ(padded(2, -1, 0, 7), "w--7.log");
    EXPECT_EQ(padded(20, 1, 0, 1), "w-00000000000000000001.log");
    EXPECT_EQ(padded(20, 1, lowest_integer, 1), "w--9223372036854775807.log");
}

TEST(CommandTemplate, AWidthIsCountedAndCompared) {
    Argument wide = number(1, 0);
    wide.width = 20;
    Argument const joint{.type = ArgumentType::concatenate, .values = {{.value = std::string(131052, 'x')}, wide}};
    auto const refused = config::substitute(configuration_with({joint}), Variables({}, nullptr), 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().front().text(),
              "arguments[0]: would be 131072 bytes long; Linux allows 131071 (MAX_ARG_STRLEN)");
    auto const one = config::substitute(configuration_with({wide}), Variables({}, nullptr), 1);
    auto const other = config::substitute(configuration_with({number(1, 0)}), Variables({}, nullptr), 1);
    ASSERT_TRUE(one && other);
    EXPECT_FALSE(*one == *other);
}

/// A process that runs when the count is lowered is stopped with what was made for the new count.
TEST(CommandTemplate, RendersForNumbersAboveTheCount) {
    struct Case {
        std::int64_t multiplier;
        std::int64_t offset;
        std::vector<std::string> texts;  // of processes 2, 12 and 65535
    };
    Case const cases[] = {
        {1, 0, {"2", "12", "65535"}},
        {-1, 11, {"9", "-1", "-65524"}},
        {1'000'000'000'000, 0, {"2000000000000", "12000000000000", "65535000000000000"}},
        {1, highest_integer - 2, {"9223372036854775807", "9223372036854775807", "9223372036854775807"}},
        {lowest_integer, 0, {"-9223372036854775808", "-9223372036854775808", "-9223372036854775808"}},
        {highest_integer, lowest_integer, {"9223372036854775806", "9223372036854775807", "9223372036854775807"}},
    };
    for (Case const& one : cases) {
        auto const command = config::substitute(
            configuration_with({number(one.multiplier, one.offset), {.value = "last"}}), Variables({}, nullptr), 1);
        ASSERT_TRUE(command);
        EXPECT_THAT(command->arguments(process::ProcessNumber{2}), ElementsAre(one.texts[0], "last"));
        EXPECT_THAT(command->arguments(process::ProcessNumber{12}), ElementsAre(one.texts[1], "last"));
        EXPECT_THAT(command->arguments(process::highest_process_number), ElementsAre(one.texts[2], "last"));
    }
}

/// The texts of numbers above the count are not a reason to refuse what is fine for all that are to run.
TEST(CommandTemplate, NumbersAboveTheCountAreNotChecked) {
    Argument const joint{.type = ArgumentType::concatenate,
                         .values = {{.value = std::string(131070, 'x')}, number(1, 0)}};
    auto const command = config::substitute(configuration_with({joint}), Variables({}, nullptr), 9);
    ASSERT_TRUE(command);
    EXPECT_EQ(command->arguments(process::ProcessNumber{9}).front().size(), 131071U);
    EXPECT_EQ(command->arguments(process::highest_process_number).front().size(), 131075U);
}

TEST(CommandTemplate, TheCountIsNoPartOfWhatIsCompared) {
    auto const made = [](std::int64_t multiplier, std::uint32_t count) {
        return *config::substitute(configuration_with({number(multiplier, 0)}), Variables({}, nullptr), count);
    };
    EXPECT_EQ(made(10, 1), made(10, 100));
    EXPECT_NE(made(10, 1), made(11, 1));
}

TEST(CommandTemplate, TheFirstArgumentCanBeTaken) {
    auto const made = [](std::vector<Argument> arguments) {
        return *config::substitute(configuration_with(std::move(arguments)), Variables({}, nullptr), 20);
    };
    Argument const port{.type = ArgumentType::concatenate, .values = {{.value = ":"}, number(-1, 10), {.value = "/"}}};
    auto command = made({{.value = "/bin/web"}, port, {}, number(2, 0)});
    EXPECT_EQ(command.take_first(), "/bin/web");
    auto const rest = made({port, {}, number(2, 0)});
    EXPECT_EQ(command, rest);
    EXPECT_EQ(command.argument_count(), rest.argument_count());
    EXPECT_EQ(command.buffer_size(), rest.buffer_size());
    EXPECT_THAT(command.arguments(process::ProcessNumber{20}), ElementsAre(":-10/", "", "40"));

    auto alone = made({{}});
    EXPECT_EQ(alone.take_first(), "");
    EXPECT_THAT(alone.arguments(process::ProcessNumber{1}), ElementsAre());
}

TEST(CommandTemplate, EveryMissingVariableIsReported) {
    char const* const environment[] = {"EMPTY=", "LIST=fd00::1,x", "SETX=1", nullptr};
    EXPECT_THAT(errors_of({{},
                           variable("FDB_PUBLIC_IP"),
                           {.type = ArgumentType::concatenate, .values = {{}, variable("EMPTY"), variable("SET")}},
                           address("LIST", IpFamily::v4),
                           address("EMPTY", IpFamily::v6),
                           variable("a b")},
                          environment),
                ElementsAre("arguments[1].source: environment variable FDB_PUBLIC_IP is not set",
                            "arguments[2].values[1].source: environment variable EMPTY is empty",
                            "arguments[2].values[2].source: environment variable SET is not set",
                            "arguments[3]: could not find IP with family 4",
                            "arguments[4].source: environment variable EMPTY is empty",
                            R"(arguments[5].source: environment variable "a b" is not set)"));
}

TEST(CommandTemplate, NumbersAreCheckedForEveryProcess) {
    EXPECT_THAT(errors_of({number(1, highest_integer - 3)}, no_environment, 3), ElementsAre());
    EXPECT_THAT(errors_of({number(1, highest_integer - 3)}, no_environment, 4),
                ElementsAre("arguments[0]: process 4: 4 * 1 + 9223372036854775804 is beyond a 64-bit signed integer"));
    EXPECT_THAT(
        errors_of({number(-1, lowest_integer)}, no_environment, 1),
        ElementsAre("arguments[0]: process 1: 1 * -1 + -9223372036854775808 is beyond a 64-bit signed integer"));
    EXPECT_THAT(errors_of({number(1, highest_integer)}, no_environment, 0),
                ElementsAre("arguments[0]: process 1: 1 * 1 + 9223372036854775807 is beyond a 64-bit signed integer"));
    EXPECT_THAT(errors_of({number(highest_integer, 0)}, no_environment, 1), ElementsAre());
    EXPECT_THAT(
        errors_of({{.type = ArgumentType::concatenate, .values = {number(highest_integer, 0)}}}, no_environment, 65535),
        ElementsAre("arguments[0].values[0]: process 65535: 65535 * 9223372036854775807 + 0 is beyond a 64-bit signed "
                    "integer"));
}

TEST(CommandTemplate, EndsOfTheNumberRange) {
    auto const command =
        config::substitute(configuration_with({number(1, highest_integer - 1), number(-1, lowest_integer + 1),
                                               number(lowest_integer, 0), number(highest_integer, lowest_integer)}),
                           Variables({}, nullptr), 1);
    ASSERT_TRUE(command);
    EXPECT_THAT(command->arguments(process::ProcessNumber{1}),
                ElementsAre("9223372036854775807", "-9223372036854775808", "-9223372036854775808", "-1"));
    // what is too large only in between is fine
    auto const second =
        config::substitute(configuration_with({number(highest_integer, lowest_integer)}), Variables({}, nullptr), 2);
    ASSERT_TRUE(second);
    EXPECT_THAT(second->arguments(process::ProcessNumber{2}), ElementsAre("9223372036854775806"));
}

TEST(CommandTemplate, LengthOfOneArgumentIsLimited) {
    EXPECT_THAT(errors_of({{.value = std::string(131071, 'x')}}, no_environment), ElementsAre());
    EXPECT_THAT(errors_of({{.value = std::string(131072, 'x')}}, no_environment),
                ElementsAre("arguments[0]: would be 131072 bytes long; Linux allows 131071 (MAX_ARG_STRLEN)"));
    // for the process with the longest number
    Argument const joint{.type = ArgumentType::concatenate,
                         .values = {{.value = std::string(131070, 'x')}, number(1, 0)}};
    EXPECT_THAT(errors_of({joint}, no_environment, 9), ElementsAre());
    EXPECT_THAT(errors_of({joint}, no_environment, 10),
                ElementsAre("arguments[0]: would be 131072 bytes long; Linux allows 131071 (MAX_ARG_STRLEN)"));
}

TEST(CommandTemplate, LengthOfAllIsLimited) {
    std::string const entry = "BIG=" + std::string(100'000, 'x');
    char const* const environment[] = {entry.c_str(), nullptr};
    EXPECT_THAT(errors_of(std::vector<Argument>(62, variable("BIG")), environment), ElementsAre());
    EXPECT_THAT(errors_of(std::vector<Argument>(65536, variable("BIG")), environment),
                ElementsAre("arguments: would be more than 6291456 bytes in all; Linux allows no more (execve(2))"));
}

TEST(CommandTemplate, TooLongArgumentsOccupyNoMemory) {
    std::string const entry = "BIG=" + std::string(200'000, 'x');
    char const* const environment[] = {entry.c_str(), nullptr};
    auto const errors = errors_of(std::vector<Argument>(65536, variable("BIG")), environment);
    ASSERT_EQ(errors.size(), 101U);
    EXPECT_EQ(errors.front(), "arguments[0]: would be 200000 bytes long; Linux allows 131071 (MAX_ARG_STRLEN)");
    EXPECT_EQ(errors.back(), "and 65436 more");
}

TEST(Variables, FileComesBeforeTheEnvironment) {
    char const* const environment[] = {"A=process", "B=process", "A=second", "=odd", "NOVALUE", nullptr};
    Variables const variables({{"A", "file"}, {"C", "file=1"}}, environment);
    EXPECT_EQ(variables.find("A"), "file");
    EXPECT_EQ(variables.find("B"), "process");
    EXPECT_EQ(variables.find("C"), "file=1");
    EXPECT_EQ(variables.find("NOVALUE"), std::nullopt);
    EXPECT_EQ(variables.find("D"), std::nullopt);
    EXPECT_EQ(Variables({}, environment).find("A"), "process");  // the first, as getenv(3) does
    EXPECT_EQ(Variables({}, nullptr).find("A"), std::nullopt);
}

TEST(Variables, AnEmptyFileValueHidesTheEnvironment) {
    char const* const environment[] = {"A=process", nullptr};
    auto const command =
        config::substitute(configuration_with({variable("A")}), Variables({{"A", ""}}, environment), 1);
    ASSERT_FALSE(command);
    EXPECT_THAT(texts(command.error()), ElementsAre("arguments[0].source: environment variable A is empty"));
}

TEST(ReferencedVariables, EachOnceWithTheChosenAddress) {
    char const* const environment[] = {"A=1", "IPS=10.0.0.1, fd00::1", "EMPTY=", nullptr};
    auto const references = referenced_variables(
        configuration_with({variable("A"),
                            {.type = ArgumentType::concatenate,
                             .values = {address("IPS", IpFamily::v6), variable("A"), variable("NONE")}},
                            variable("EMPTY"),
                            address("A", IpFamily::v4),
                            {.value = "x", .source = "IGNORED"}}),
        Variables({}, environment));
    EXPECT_THAT(references,
                ElementsAre(Reference{"A", std::nullopt}, Reference{"A", "1"}, Reference{"EMPTY", std::nullopt},
                            Reference{"IPS", "fd00::1"}, Reference{"NONE", std::nullopt}));
}

TEST(ReferencedVariables, ThoseOfProgramsAndTheirHooks) {
    Program program;
    program.command = {variable("COMMAND")};
    program.arguments = {variable("ARGUMENTS")};
    program.environment = {{"X", variable("ENVIRONMENT")}};
    program.pre_stop = {.command = {variable("PRE_STOP")}};
    program.on_failure = {.command = {variable("ON_FAILURE")}};
    program.readiness = {.type = ReadinessType::exec, .command = {variable("READINESS")}};
    program.health = {{.command = {variable("HEALTH")}}};
    Program probed;
    probed.readiness = {.type = ReadinessType::tcp, .address = variable("ADDRESS")};
    probed.health = {{.type = HealthType::http, .url = variable("URL")}};
    Program forking;
    forking.pid_file = variable("PID_FILE");
    forking.readiness = {.type = ReadinessType::log, .pattern = variable("PATTERN")};
    ProcessConfiguration configuration;
    configuration.programs = {program, program, probed, forking};
    std::vector<std::string> names;
    for (Reference const& reference : referenced_variables(configuration, Variables({}, no_environment)))
        names.push_back(reference.name);
    EXPECT_THAT(names, ElementsAre("ADDRESS", "ARGUMENTS", "COMMAND", "ENVIRONMENT", "HEALTH", "ON_FAILURE", "PATTERN",
                                   "PID_FILE", "PRE_STOP", "READINESS", "URL"));
}

// What stands somewhere else than in "arguments".

TEST(CommandTemplate, OneArgumentAtAPlaceOfItsOwn) {
    char const* const environment[] = {"IP=10.0.0.1", nullptr};
    Variables const variables({}, environment);
    json::Where const document;
    json::Where const at{&document, "address"};
    Argument const port{.type = ArgumentType::concatenate, .values = {variable("IP"), {.value = ":"}, number(1, 4500)}};
    auto const command = config::substitute(port, at, variables, 1000);
    ASSERT_TRUE(command);
    EXPECT_THAT(command->arguments(process::ProcessNumber{1}), ElementsAre("10.0.0.1:4501"));
    EXPECT_THAT(command->arguments(process::ProcessNumber{1000}), ElementsAre("10.0.0.1:5500"));

    auto const unset = config::substitute(variable("NONE"), at, variables, 1);
    ASSERT_FALSE(unset);
    EXPECT_THAT(texts(unset.error()), ElementsAre("address.source: environment variable NONE is not set"));
    auto const nested = config::substitute({.type = ArgumentType::concatenate, .values = {variable("NONE")}}, at,
                                           variables, 1, Limits{.argument_bytes = 4});
    ASSERT_FALSE(nested);
    EXPECT_THAT(texts(nested.error()), ElementsAre("address.values[0].source: environment variable NONE is not set"));
    auto const longer = config::substitute(variable("IP"), at, variables, 1, Limits{.argument_bytes = 4});
    ASSERT_FALSE(longer);
    EXPECT_THAT(texts(longer.error()), ElementsAre("address: would be 8 bytes long; Linux allows 3 (MAX_ARG_STRLEN)"));
}

TEST(CommandTemplate, ListsOneAfterTheOther) {
    std::vector<Argument> const command{{.value = "/bin/web"}, number(2, 0)};
    std::vector<Argument> const arguments{{.value = "--verbose"}};
    json::Where const document;
    ArgumentList const lists[] = {{command, document}, {arguments, document}};
    auto const both = config::substitute(lists, Variables({}, no_environment), 9);
    ASSERT_TRUE(both);
    EXPECT_THAT(both->arguments(process::ProcessNumber{7}), ElementsAre("/bin/web", "14", "--verbose"));
}

TEST(CommandTemplate, ProblemsNameThePlaceOfTheirList) {
    std::vector<Argument> const command{{.value = "x"}, {.type = ArgumentType::concatenate, .values = {variable("A")}}};
    std::vector<Argument> const arguments{variable("B")};
    json::Where const document;
    json::Where const programs{&document, "programs"};
    json::Where const web{&programs, "web"};
    json::Where const command_at{&web, "command"};
    json::Where const arguments_at{&web, "arguments"};
    ArgumentList const lists[] = {{command, command_at}, {arguments, arguments_at}};
    auto const both = config::substitute(lists, Variables({}, no_environment), 1);
    ASSERT_FALSE(both);
    EXPECT_THAT(texts(both.error()),
                ElementsAre("programs.web.command[1].values[0].source: environment variable A is not set",
                            "programs.web.arguments[0].source: environment variable B is not set"));
    auto const one = config::substitute(arguments, arguments_at, Variables({}, no_environment), 1);
    ASSERT_FALSE(one);
    EXPECT_THAT(texts(one.error()), ElementsAre("programs.web.arguments[0].source: environment variable B is not set"));
}

TEST(CommandTemplate, Environment) {
    char const* const ours[] = {"V=value", nullptr};
    std::vector<std::pair<std::string, Argument>> environment{
        {"B", {.value = "1 2"}}, {"EMPTY", {}}, {"PORT", number(10, 4500)}, {"V", variable("V")}};
    json::Where const document;
    json::Where const at{&document, "environment"};
    auto const entries = config::substitute(environment, at, Variables({}, ours), 20);
    ASSERT_TRUE(entries);
    EXPECT_THAT(entries->arguments(process::ProcessNumber{3}), ElementsAre("B=1 2", "EMPTY=", "PORT=4530", "V=value"));
    environment.emplace_back("a.b", variable("NONE"));
    environment.emplace_back("LONG", Argument{.value = std::string(20, 'x')});
    auto const faulty = config::substitute(environment, at, Variables({}, ours), 1, {.argument_bytes = 20});
    ASSERT_FALSE(faulty);
    EXPECT_THAT(texts(faulty.error()),
                ElementsAre(R"(environment["a.b"].source: environment variable NONE is not set)",
                            "environment.LONG: would be 25 bytes long; Linux allows 19 (MAX_ARG_STRLEN)"));
}

// The template against the plainest evaluation of the definition, for random documents that go through the parser.

class RandomDocument {
public:
    explicit RandomDocument(std::uint32_t seed) : random_(seed) {}

    struct Piece {
        std::string json;
        std::vector<std::string> expected;  // one for each of the numbers
    };

    Piece argument(std::vector<std::uint32_t> const& numbers, int depth) {
        switch (below(depth > 0 ? 5U : 4U)) {
            case 0: return literal(numbers);
            case 1:
                return {R"({"type":"Environment","source":"V"})", std::vector<std::string>(numbers.size(), "va lue")};
            case 2:
                return {R"({"source":"IPS","type":"IPList","ipFamily":6})",
                        std::vector<std::string>(numbers.size(), "::1")};
            case 3: return process_number(numbers);
            default: return concatenation(numbers, depth);
        }
    }

    std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }

private:
    Piece literal(std::vector<std::uint32_t> const& numbers) {
        static std::string const texts[] = {"", "a", "--x=\"1\"", "\u00e9\n", "\\", "12"};
        std::string const& text = texts[below(6)];
        Piece piece{R"({"value":)", std::vector<std::string>(numbers.size(), text)};
        json::append_json_string(piece.json, text);
        piece.json += '}';
        return piece;
    }

    Piece process_number(std::vector<std::uint32_t> const& numbers) {
        std::int64_t const multiplier = static_cast<std::int64_t>(below(20001)) - 10000;
        std::int64_t const offset = (static_cast<std::int64_t>(below(20001)) - 10000) * (below(2) == 0 ? 1 : 1LL << 40);
        Piece piece{R"({"type":"ProcessNumber","multiplier":)" + std::to_string(multiplier) + R"(,"offset":)" +
                        std::to_string(offset) + "}",
                    {}};
        for (std::uint32_t const n : numbers) {
            piece.expected.push_back(std::to_string(n * (multiplier == 0 ? 1 : multiplier) + offset));
        }
        return piece;
    }

    Piece concatenation(std::vector<std::uint32_t> const& numbers, int depth) {
        Piece piece{R"({"type":"Concatenate","values":[)", std::vector<std::string>(numbers.size())};
        for (std::uint32_t i = 0, count = below(4); i < count; ++i) {
            Piece const part = argument(numbers, depth - 1);
            piece.json.append(i > 0 ? "," : "").append(part.json);
            for (std::size_t n = 0; n < numbers.size(); ++n)
                piece.expected[n] += part.expected[n];
        }
        piece.json += "]}";
        return piece;
    }

    std::mt19937 random_;
};

TEST(CommandTemplate, EqualsPlainEvaluationForRandomDocuments) {
    char const* const environment[] = {"V=va lue", "IPS=10.0.0.1, ::1 ,::2", nullptr};
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        SCOPED_TRACE(seed);
        RandomDocument random(seed);
        std::vector<std::uint32_t> const numbers{1, 1 + random.below(999), 1000};
        std::string text = R"({"version":"1","arguments":[)";
        std::vector<std::vector<std::string>> expected(numbers.size());
        for (std::uint32_t i = 0, count = random.below(12); i < count; ++i) {
            auto const piece = random.argument(numbers, 4);
            text.append(i > 0 ? "," : "").append(piece.json);
            for (std::size_t n = 0; n < numbers.size(); ++n)
                expected[n].push_back(piece.expected[n]);
        }
        auto const parsed = parse(text + "]}");
        ASSERT_TRUE(parsed) << text << parsed.error()[0].text();
        auto const command = config::substitute(parsed->configuration, Variables({}, environment), 1000);
        ASSERT_TRUE(command) << text;
        for (std::size_t n = 0; n < numbers.size(); ++n) {
            EXPECT_EQ(command->arguments(process::ProcessNumber{numbers[n]}), expected[n]) << text;
        }
    }
}

struct AddressRow {
    std::string list;
    std::optional<std::string_view> v4;
    std::optional<std::string_view> v6;
};

TEST(FirstAddress, Table) {
    AddressRow const rows[] = {
        {"10.0.0.1", "10.0.0.1", std::nullopt},
        {" 10.0.0.1, 10.0.0.2,10.0.0.3", "10.0.0.1", std::nullopt},
        {"fd00::1,10.0.0.1\n", "10.0.0.1", "fd00::1"},
        {"FD00:0:0::1,fd00::2", std::nullopt, "FD00:0:0::1"},
        {"::ffff:10.0.0.1,::1", "::ffff:10.0.0.1", "::1"},
        {"[::1],host,10.0.0.256,010.0.0.1,10.0.0.1/8,fe80::1%eth0,10.0.0.9", "10.0.0.9", std::nullopt},
        {",,\t,10.0.0.1", "10.0.0.1", std::nullopt},
        {"", std::nullopt, std::nullopt},
        {"   ", std::nullopt, std::nullopt},
        {std::string(1000, '1'), std::nullopt, std::nullopt},
        {"0000:0000:0000:0000:0000:ffff:255.255.255.255", "0000:0000:0000:0000:0000:ffff:255.255.255.255",
         std::nullopt},
    };
    for (AddressRow const& row : rows) {
        EXPECT_EQ(first_address(row.list, IpFamily::v4), row.v4) << row.list;
        EXPECT_EQ(first_address(row.list, IpFamily::v6), row.v6) << row.list;
    }
}

}  // namespace
}  // namespace triton::config
