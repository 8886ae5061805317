#include "sidecar/substitute.h"

#include <algorithm>
#include <utility>

#include "config/environment_file.h"
#include "config/limits.h"
#include "config/process_configuration.h"
#include "lib/json/text.h"

namespace triton::sidecar {

namespace {

constexpr std::string_view argument_prefix = "arguments[0]";
/// Of what a text becomes. Its writer controls how often a value is repeated; the result is kept in memory.
constexpr std::size_t most_bytes = 16 << 20;
constexpr std::string_view too_long = "what comes of it is longer than 16 MiB";

/// Describes places of a text. They must be in ascending order: there may be many, and each count goes on from the last
/// one.
class Position {
public:
    explicit Position(std::string_view text) : text_(text) {}

    std::string text(std::size_t at) {
        for (; counted_ < at; ++counted_) {
            if (text_[counted_] != '\n') continue;
            line_begin_ = counted_ + 1;
            ++line_;
        }
        return "line " + std::to_string(line_) + ", column " + std::to_string(at - line_begin_ + 1);
    }

private:
    std::string_view text_;
    std::size_t counted_ = 0;
    std::size_t line_ = 1;
    std::size_t line_begin_ = 0;
};

/// The place after the closing brace of the JSON object that begins at `begin`; npos when it does not end.
std::size_t end_of_object(std::string_view text, std::size_t begin) {
    int depth = 0;
    bool in_string = false;
    for (std::size_t at = begin; at < text.size(); ++at) {
        char const c = text[at];
        if (in_string && c == '\\') {
            ++at;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string && c == '{') {
            ++depth;
        } else if (!in_string && c == '}' && --depth == 0) {
            return at + 1;
        }
    }
    return text.npos;
}

class Template {
public:
    Template(std::string_view text, config::Variables const& variables)
        : text_(text), variables_(variables), position_(text) {}

    std::expected<std::string, json::Problems> substitute() && {
        while (at_ < text_.size()) {
            if (out_.size() > most_bytes) {
                add_problem(std::string(too_long));
                break;
            }
            std::size_t const next = text_.find("${", at_);
            std::size_t const end = std::min(next, text_.size());
            out_ += text_.substr(at_, end - at_);
            at_ = end;
            if (next == text_.npos) break;
            if (next > 0 && text_[next - 1] == '$') {  // $${: the first of the two dollars has been written
                out_ += '{';
                at_ += 2;
            } else {
                add_placeholder();
            }
        }
        if (!problems_.empty()) return std::unexpected(std::move(problems_).take());
        return std::move(out_);
    }

private:
    /// Substitutes the placeholder at at_, which stands on "${", and moves behind its end. After one without an end,
    /// text that has been searched is not searched again, or many of them would take hours. That is the rest of the
    /// line, or an object with no brace behind it. An object that does not end contains all further ones, so those are
    /// not searched either.
    void add_placeholder() {
        std::size_t const begin = at_ + 2;
        bool const is_object = text_.substr(begin, 1) == "{";
        if (is_object && is_in_object_) {
            at_ = begin;
            return;
        }
        std::size_t const end = is_object ? end_of_object(text_, begin) : text_.find_first_of("}\n", begin);
        if (end == text_.npos || text_.substr(end, 1) != "}") {
            add_problem("${ without its }; for a plain ${ write $${");
            bool const has_no_end = is_object && end == text_.npos;
            is_in_object_ = is_in_object_ || has_no_end;
            at_ = has_no_end ? begin : std::min(end, text_.size());
            return;
        }
        std::string_view const inside = text_.substr(begin, end - begin);
        if (is_object) {
            add_json(inside);
        } else if (!config::is_variable_name(inside)) {
            add_problem(json::shown(inside) + " is not the name of a variable; for a plain ${ write $${");
        } else {
            config::ProcessConfiguration configuration;
            configuration.arguments.push_back(
                {.type = config::ArgumentType::environment, .source = std::string(inside)});
            add_value(configuration);
        }
        at_ = end + 1;
    }

    void add_json(std::string_view json) {
        std::string document = R"({"version":"0","arguments":[)";
        document.append(json).append("]}");
        auto parsed = config::parse(document);
        if (!parsed) return add_problems(parsed.error());
        // A template is not written by a newer version, so warnings are errors.
        if (!parsed->warnings.empty()) return add_problems(parsed->warnings);
        add_value(parsed->configuration);
    }

    void add_value(config::ProcessConfiguration const& configuration) {
        auto const command = config::substitute(configuration, variables_, 1);
        if (!command) return add_problems(command.error());
        out_ += command->arguments(process::ProcessNumber{1}).front();
    }

    void add_problem(std::string reason) { problems_.add(position_.text(at_), std::move(reason)); }

    /// The places of these problems are in a document that nobody has written; only the part inside the Argument is
    /// kept.
    void add_problems(json::Problems const& problems) {
        for (json::Problem const& problem : problems) {
            std::string_view inside = problem.where;
            bool const is_inside = inside.starts_with(argument_prefix);
            if (is_inside) inside.remove_prefix(argument_prefix.size());
            if (inside.starts_with(".")) inside.remove_prefix(1);
            bool const is_source = inside == "source" && text_.substr(at_ + 2, 1) != "{";
            bool const is_told = !is_inside || inside.empty() || is_source;
            add_problem((is_told ? std::string() : std::string(inside) + ": ") + problem.reason);
        }
    }

    std::string_view text_;
    config::Variables const& variables_;
    Position position_;
    bool is_in_object_ = false;  // one without an end
    json::ProblemList problems_{json::Limits{}.problems};
    std::string out_;
    std::size_t at_ = 0;
};

std::optional<std::string> value_of(config::Variables const& variables, std::string_view name) {
    auto const value = variables.find(name);
    if (!value || value->empty()) return std::nullopt;
    return std::string(*value);
}

MonitorVariable address(std::string name, std::optional<std::string> value, std::optional<config::IpFamily> family) {
    if (!value || !family) return {std::move(name), std::move(value)};
    bool const is_v6 = *family == config::IpFamily::v6;
    auto const found = config::first_address(*value, *family);
    if (!found)
        return {std::move(name), std::nullopt,
                "has no " + std::string(is_v6 ? "IPv6" : "IPv4") + " address: " + json::shown(*value), true};
    std::string text(*found);
    return {std::move(name), is_v6 ? "[" + text + "]" : text};
}

}  // namespace

std::expected<std::string, json::Problems> substitute_template(std::string_view text,
                                                               config::Variables const& variables) {
    return Template(text, variables).substitute();
}

std::vector<MonitorVariable> monitor_variables(config::Variables const& variables,
                                               std::vector<std::string> const& further,
                                               std::optional<config::IpFamily> family,
                                               std::optional<std::string> binary_directory) {
    auto const first_of = [&variables](std::initializer_list<std::string_view> names) -> std::optional<std::string> {
        for (std::string_view const name : names) {
            if (auto value = value_of(variables, name)) return value;
        }
        return std::nullopt;
    };
    std::vector<MonitorVariable> list{
        address("FDB_PUBLIC_IP", first_of({"FDB_PUBLIC_IP", "FDB_POD_IP"}), family),
        address("FDB_POD_IP", first_of({"FDB_POD_IP"}), family),
        {"FDB_MACHINE_ID", first_of({"FDB_MACHINE_ID", "HOSTNAME"})},
        {"FDB_ZONE_ID", first_of({"FDB_ZONE_ID", "FDB_MACHINE_ID", "HOSTNAME"})},
        {"FDB_INSTANCE_ID", first_of({"FDB_INSTANCE_ID"})},
        {"BINARY_DIR", std::move(binary_directory)},
    };
    for (std::string const& name : further) {
        bool const is_known = std::ranges::find(list, name, &MonitorVariable::name) != list.end();
        if (!is_known) list.push_back({name, value_of(variables, name)});
    }
    return list;
}

std::expected<std::string, json::Problems> substitute_monitor_conf(std::string_view text,
                                                                   std::vector<MonitorVariable> const& variables) {
    json::ProblemList problems{json::Limits{}.problems};
    Position position(text);
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        if (out.size() > most_bytes) {
            problems.add(position.text(at), std::string(too_long));
            break;
        }
        MonitorVariable const* meant = nullptr;
        for (MonitorVariable const& variable : variables) {
            bool const fits = text[at] == '$' && text.substr(at + 1).starts_with(variable.name);
            if (fits && (!meant || variable.name.size() > meant->name.size())) meant = &variable;
        }
        if (!meant) {
            out += text[at++];
            continue;
        }
        if (meant->value) {
            out += *meant->value;
        } else {
            problems.add(position.text(at), "$" + meant->name + " " + meant->problem);
        }
        at += 1 + meant->name.size();
    }
    if (!problems.empty()) return std::unexpected(std::move(problems).take());
    return out;
}

}  // namespace triton::sidecar
