#include "config/substitution.h"

#include <algorithm>
#include <new>

#include "config/ip_list.h"
#include "lib/json/text.h"
#include "lib/json/where.h"

namespace triton::config {

std::optional<std::string_view> Variables::find(std::string_view name) const {
    auto const file_value = std::ranges::lower_bound(file_values_, name, {}, &EnvironmentVariable::name);
    if (file_value != file_values_.end() && file_value->name == name) return file_value->value;
    if (!environment_) return std::nullopt;
    for (char const* const* entry = environment_; *entry; ++entry) {
        std::string_view const text = *entry;
        if (text.size() > name.size() && text[name.size()] == '=' && text.starts_with(name)) {
            return text.substr(name.size() + 1);
        }
    }
    return std::nullopt;
}

namespace {

using process::decimal_length;
using process::exact_value;

/// Makes a template and collects problems. Sizes are checked before anything is appended: so the limits bound the
/// memory, whatever the document and the variables expand to.
class Substitution {
public:
    Substitution(Variables const& variables, std::uint32_t highest_number, Limits const& limits)
        : variables_(variables), limits_(limits), problems_(limits.document.problems), builder_(highest_number) {}

    void add_arguments(std::vector<Argument> const& arguments, json::Where const& list_at) {
        for (std::size_t i = 0; i < arguments.size() && !is_over_; ++i)
            add_argument(arguments[i], json::Where{&list_at, i}, list_at);
    }

    void add_argument(Argument const& argument, json::Where const& at, json::Where const& list_at) {
        begin_argument();
        add_part(argument, at);
        finish_argument(at, list_at);
    }

    void add_environment(std::span<std::pair<std::string, Argument> const> environment, json::Where const& list_at) {
        for (std::size_t i = 0; i < environment.size() && !is_over_; ++i) {
            auto const& [name, value] = environment[i];
            json::Where const at{&list_at, std::string_view(name)};
            begin_argument();
            add_text(name);
            add_text("=");
            add_part(value, at);
            finish_argument(at, list_at);
        }
    }

    std::expected<process::CommandTemplate, json::Problems> take() && {
        if (!problems_.empty()) return std::unexpected(std::move(problems_).take());
        return std::move(builder_).take();
    }

private:
    void add_part(Argument const& argument, json::Where const& at) {
        switch (argument.type) {
            case ArgumentType::literal: return add_text(argument.value);
            case ArgumentType::concatenate: return add_parts(argument.values, at);
            case ArgumentType::environment: return add_text(value_of(argument, at));
            case ArgumentType::process_number: return add_number(argument, at);
            case ArgumentType::ip_list: return add_address(argument, at);
        }
    }

    void add_parts(std::vector<Argument> const& parts, json::Where const& at) {
        json::Where const list_at{&at, std::string_view("values")};
        for (std::size_t i = 0; i < parts.size(); ++i)
            add_part(parts[i], json::Where{&list_at, i});
    }

    /// The variable's value; empty, with a problem, when it is not set.
    std::string_view value_of(Argument const& argument, json::Where const& at) {
        auto const value = variables_.find(argument.source);
        if (value && !value->empty()) return *value;
        problems_.add(json::Where{&at, std::string_view("source")},
                      "environment variable " + json::shown(argument.source) + (value ? " is empty" : " is not set"));
        return {};
    }

    void add_address(Argument const& argument, json::Where const& at) {
        std::string_view const list = value_of(argument, at);
        if (list.empty()) return;
        auto const address = first_address(list, argument.ip_family);
        if (address) return add_text(*address);
        problems_.add(at, "could not find IP with family " + std::to_string(static_cast<int>(argument.ip_family)));
    }

    /// The expression is linear in the number, so what holds for both ends holds between them: the range, and the
    /// length of the text.
    void add_number(Argument const& argument, json::Where const& at) {
        std::size_t longest = argument.width;
        for (std::uint32_t const number : {std::uint32_t{1}, builder_.highest_number()}) {
            process::Wide const value = exact_value(number, argument.multiplier, argument.offset);
            if (!process::fits(value)) return add_overflow(number, argument, at);
            longest = std::max(longest, decimal_length(static_cast<std::int64_t>(value)));
        }
        if (reserve(longest)) builder_.add_number(argument.multiplier, argument.offset, argument.width, longest);
    }

    void add_overflow(std::uint32_t number, Argument const& argument, json::Where const& at) {
        problems_.add(at, "process " + std::to_string(number) + ": " + std::to_string(number) + " * " +
                              std::to_string(argument.multiplier) + " + " + std::to_string(argument.offset) +
                              " is beyond a 64-bit signed integer");
    }

    void add_text(std::string_view text) {
        if (reserve(text.size())) builder_.add_text(text);
    }

    /// Counts bytes. Returns false when the argument has become too long to be kept.
    bool reserve(std::size_t bytes) {
        argument_size_ += bytes;
        return argument_size_ <= limits_.argument_bytes;
    }

    void begin_argument() { argument_size_ = 1; }  // for its NUL

    void finish_argument(json::Where const& at, json::Where const& list_at) {
        if (argument_size_ > limits_.argument_bytes) {
            problems_.add(at, "would be " + std::to_string(argument_size_ - 1) + " bytes long; Linux allows " +
                                  std::to_string(limits_.argument_bytes - 1) + " (MAX_ARG_STRLEN)");
            builder_.restart_argument();
            argument_size_ = 1;
        }
        builder_.finish_argument(argument_size_);
        std::size_t const total = builder_.size() + builder_.argument_count() * sizeof(char*);
        if (total <= limits_.command_bytes) return;
        is_over_ = true;
        problems_.add(list_at, "would be more than " + std::to_string(limits_.command_bytes) +
                                   " bytes in all; Linux allows no more (execve(2))");
    }

    Variables const& variables_;
    Limits const& limits_;
    json::ProblemList problems_;
    process::CommandTemplate::Builder builder_;
    std::size_t argument_size_ = 0;  // of the current argument, in the process that has the longest one
    bool is_over_ = false;
};

template <class Add>
std::expected<process::CommandTemplate, json::Problems> build(Variables const& variables, std::uint32_t highest_number,
                                                              Limits const& limits, Add add) try {
    Substitution substitution(variables, highest_number, limits);
    add(substitution);
    return std::move(substitution).take();
} catch (std::bad_alloc const&) {
    return std::unexpected(json::Problems{{"", "out of memory"}});
}

}  // namespace

std::expected<process::CommandTemplate, json::Problems> substitute(ProcessConfiguration const& configuration,
                                                                   Variables const& variables,
                                                                   std::uint32_t highest_number, Limits const& limits) {
    json::Where const document;
    json::Where const at{&document, "arguments"};
    return substitute(configuration.arguments, at, variables, highest_number, limits);
}

std::expected<process::CommandTemplate, json::Problems> substitute(std::vector<Argument> const& arguments,
                                                                   json::Where const& at, Variables const& variables,
                                                                   std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits, [&](Substitution& all) { all.add_arguments(arguments, at); });
}

std::expected<process::CommandTemplate, json::Problems> substitute(Argument const& argument, json::Where const& at,
                                                                   Variables const& variables,
                                                                   std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits, [&](Substitution& all) { all.add_argument(argument, at, at); });
}

std::expected<process::CommandTemplate, json::Problems> substitute(std::span<ArgumentList const> lists,
                                                                   Variables const& variables,
                                                                   std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits, [&](Substitution& all) {
        for (ArgumentList const& list : lists)
            all.add_arguments(list.arguments, list.at);
    });
}

std::expected<process::CommandTemplate, json::Problems> substitute(
    std::span<std::pair<std::string, Argument> const> environment, json::Where const& at, Variables const& variables,
    std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits, [&](Substitution& all) { all.add_environment(environment, at); });
}

Argument with_variables_put_in(Argument const& argument, Variables const& variables) {
    switch (argument.type) {
        case ArgumentType::literal:
        case ArgumentType::process_number: return argument;
        case ArgumentType::environment: return {.value = std::string(variables.find(argument.source).value_or(""))};
        case ArgumentType::ip_list: {
            auto const list = variables.find(argument.source);
            auto const address = list ? first_address(*list, argument.ip_family) : std::nullopt;
            return {.value = std::string(address.value_or(""))};
        }
        case ArgumentType::concatenate: break;
    }
    Argument whole{.type = ArgumentType::concatenate};
    for (Argument const& part : argument.values)
        whole.values.push_back(with_variables_put_in(part, variables));
    return whole;
}

process::CommandTemplate numbered_path(Argument const& argument) {
    json::Where const nowhere;
    Limits const limits;
    Variables const none({}, nullptr);
    Substitution path(none, 1, limits);
    path.add_argument(argument, nowhere, nowhere);
    return std::move(path).take().value();
}

namespace {

class ReferenceList {
public:
    explicit ReferenceList(Variables const& variables) : variables_(variables) {}

    void add(std::vector<Argument> const& arguments) {
        for (Argument const& argument : arguments)
            add(argument);
    }

    void add(Program const& program) {
        add(program.command);
        add(program.arguments);
        for (auto const& [name, value] : program.environment)
            add(value);
        if (program.pre_stop) add(program.pre_stop->command);
        if (program.on_failure) add(program.on_failure->command);
        for (EnvironmentSource const& file : program.environment_files)
            add({file.path});
        if (program.working_directory_argument) add({*program.working_directory_argument});
        if (program.on_success) add(program.on_success->command);
        if (program.on_stop) add(program.on_stop->command);
        if (program.readiness) add_probe(*program.readiness);
        if (program.readiness && program.readiness->pattern) add({*program.readiness->pattern});
        for (Health const& health : program.health)
            add_probe(health);
        if (program.files) add(program.files->paths);
        if (program.pid_file) add({*program.pid_file});
        if (program.stdin_.file_argument) add({*program.stdin_.file_argument});
        if (program.output.file_argument) add({*program.output.file_argument});
        for (Output const& error : program.output.error)
            if (error.file_argument) add({*error.file_argument});
    }

    std::vector<Reference> take() && {
        std::ranges::sort(references_);
        auto const rest = std::ranges::unique(references_);
        references_.erase(rest.begin(), rest.end());
        return std::move(references_);
    }

private:
    void add_probe(auto const& probe) {
        add(probe.command);
        if (probe.address) add(*probe.address);
        if (probe.url) add(*probe.url);
        for (auto const& [name, value] : probe.headers)
            add(value);
    }

    void add(Argument const& argument) {
        add(argument.values);
        bool const is_list = argument.type == ArgumentType::ip_list;
        if (!is_list && argument.type != ArgumentType::environment) return;
        auto value = variables_.find(argument.source);
        if (value && is_list) value = first_address(*value, argument.ip_family);
        if (value && value->empty()) value.reset();
        references_.push_back({argument.source, value ? std::optional(std::string(*value)) : std::nullopt});
    }

    Variables const& variables_;
    std::vector<Reference> references_;
};

}  // namespace

std::vector<Reference> referenced_variables(ProcessConfiguration const& configuration, Variables const& variables) {
    ReferenceList references(variables);
    references.add(configuration.arguments);
    for (Program const& program : configuration.programs)
        references.add(program);
    return std::move(references).take();
}

}  // namespace triton::config
