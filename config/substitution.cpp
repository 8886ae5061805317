#include "config/substitution.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstring>
#include <limits>
#include <new>

#include "config/ip_list.h"
#include "config/json_text.h"
#include "config/where.h"

namespace triton::config {

namespace {

__extension__ using Wide = __int128;

constexpr auto last_number = static_cast<std::uint32_t>(highest_process_number);

/// number * multiplier + offset, exactly: the product alone may be beyond 64 bits where the sum is not.
Wide exact_value(std::uint32_t number, std::int64_t multiplier, std::int64_t offset) {
    return static_cast<Wide>(number) * multiplier + offset;
}

constexpr Wide lowest_integer = std::numeric_limits<std::int64_t>::min();
constexpr Wide highest_integer = std::numeric_limits<std::int64_t>::max();

bool fits(Wide value) { return value >= lowest_integer && value <= highest_integer; }

std::int64_t nearest_integer(Wide value) {
    return static_cast<std::int64_t>(std::clamp(value, lowest_integer, highest_integer));
}

std::size_t length_of(std::int64_t number) {
    std::array<char, sizeof "-9223372036854775808"> digits;
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return static_cast<std::size_t>(end - digits.data());
}

}  // namespace

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

/// Makes a template and collects what is wrong. Sizes are checked before anything is appended: memory stays bounded by
/// the limits, whatever the document and the variables expand to.
class CommandTemplate::Builder {
public:
    Builder(Variables const& variables, std::uint32_t highest_number, Limits const& limits)
        : variables_(variables), limits_(limits), problems_(limits.problems) {
        command_.highest_number_ = std::max<std::uint32_t>(highest_number, 1);
    }

    void add_arguments(std::vector<Argument> const& arguments, Where const& list_at) {
        for (std::size_t i = 0; i < arguments.size() && !is_over_; ++i)
            add_argument(arguments[i], Where{&list_at, i}, list_at);
    }

    void add_argument(Argument const& argument, Where const& at, Where const& list_at) {
        begin_argument();
        add_part(argument, at);
        finish_argument(at, list_at);
    }

    void add_environment(std::span<std::pair<std::string, Argument> const> environment, Where const& list_at) {
        for (std::size_t i = 0; i < environment.size() && !is_over_; ++i) {
            auto const& [name, value] = environment[i];
            Where const at{&list_at, std::string_view(name)};
            begin_argument();
            add_text(name);
            add_text("=");
            add_part(value, at);
            finish_argument(at, list_at);
        }
    }

    std::expected<CommandTemplate, Problems> take() && {
        if (!problems_.empty()) return std::unexpected(std::move(problems_).take());
        command_.buffer_size_ += spare_;
        return std::move(command_);
    }

private:
    void add_part(Argument const& argument, Where const& at) {
        switch (argument.type) {
            case ArgumentType::literal: return add_text(argument.value);
            case ArgumentType::concatenate: return add_parts(argument.values, at);
            case ArgumentType::environment: return add_text(value_of(argument, at));
            case ArgumentType::process_number: return add_number(argument, at);
            case ArgumentType::ip_list: return add_address(argument, at);
        }
    }

    void add_parts(std::vector<Argument> const& parts, Where const& at) {
        Where const list_at{&at, std::string_view("values")};
        for (std::size_t i = 0; i < parts.size(); ++i)
            add_part(parts[i], Where{&list_at, i});
    }

    /// The variable's value; empty, with a problem, when there is none.
    std::string_view value_of(Argument const& argument, Where const& at) {
        auto const value = variables_.find(argument.source);
        if (value && !value->empty()) return *value;
        problems_.add(Where{&at, std::string_view("source")},
                      "environment variable " + shown(argument.source) + (value ? " is empty" : " is not set"));
        return {};
    }

    void add_address(Argument const& argument, Where const& at) {
        std::string_view const list = value_of(argument, at);
        if (list.empty()) return;
        auto const address = first_address(list, argument.ip_family);
        if (address) return add_text(*address);
        problems_.add(at, "could not find IP with family " + std::to_string(static_cast<int>(argument.ip_family)));
    }

    /// The expression is linear in the number: what holds for both ends holds between them, for its range as for the
    /// length of its text.
    void add_number(Argument const& argument, Where const& at) {
        std::size_t longest = 0;
        for (std::uint32_t const number : {std::uint32_t{1}, command_.highest_number_}) {
            Wide const value = exact_value(number, argument.multiplier, argument.offset);
            if (!fits(value)) return add_overflow(number, argument, at);
            longest = std::max(longest, length_of(static_cast<std::int64_t>(value)));
        }
        if (!reserve(longest)) return;
        // A number that was wanted before may be rendered too, while its process is stopped.
        Wide const last = exact_value(last_number, argument.multiplier, argument.offset);
        spare_ += std::max(longest, length_of(nearest_integer(last))) - longest;
        command_.numbers_.push_back(
            {static_cast<std::uint32_t>(command_.text_.size()), argument.multiplier, argument.offset});
    }

    void add_overflow(std::uint32_t number, Argument const& argument, Where const& at) {
        problems_.add(at, "process " + std::to_string(number) + ": " + std::to_string(number) + " * " +
                              std::to_string(argument.multiplier) + " + " + std::to_string(argument.offset) +
                              " is beyond a 64-bit signed integer");
    }

    void add_text(std::string_view text) {
        if (reserve(text.size())) command_.text_ += text;
    }

    /// Counts bytes; false when the argument has become too long to be kept.
    bool reserve(std::size_t bytes) {
        argument_size_ += bytes;
        return argument_size_ <= limits_.argument_bytes;
    }

    void begin_argument() {
        argument_start_ = command_.text_.size();
        argument_size_ = 1;  // its NUL
    }

    void finish_argument(Where const& at, Where const& list_at) {
        if (argument_size_ > limits_.argument_bytes) {
            problems_.add(at, "would be " + std::to_string(argument_size_ - 1) + " bytes long; Linux allows " +
                                  std::to_string(limits_.argument_bytes - 1) + " (MAX_ARG_STRLEN)");
            command_.text_.resize(argument_start_);
            argument_size_ = 1;
        }
        command_.text_ += '\0';
        ++command_.argument_count_;
        command_.buffer_size_ += argument_size_;
        std::size_t const total = command_.buffer_size_ + command_.argument_count_ * sizeof(char*);
        if (total <= limits_.command_bytes) return;
        is_over_ = true;
        problems_.add(list_at, "would be more than " + std::to_string(limits_.command_bytes) +
                                   " bytes in all; Linux allows no more (execve(2))");
    }

    Variables const& variables_;
    Limits const& limits_;
    ProblemList problems_;
    CommandTemplate command_;
    std::size_t argument_start_ = 0;  // in text_
    std::size_t argument_size_ = 0;   // of the current argument, for the process for which it is longest
    std::size_t spare_ = 0;           // what numbers above the highest one need besides
    bool is_over_ = false;
};

template <class Add>
std::expected<CommandTemplate, Problems> CommandTemplate::build(Variables const& variables,
                                                                std::uint32_t highest_number, Limits const& limits,
                                                                Add add) try {
    Builder builder(variables, highest_number, limits);
    add(builder);
    auto command = std::move(builder).take();
    if (command) {
        command->text_.shrink_to_fit();
        command->numbers_.shrink_to_fit();
    }
    return command;
} catch (std::bad_alloc const&) {
    return std::unexpected(Problems{{"", "out of memory"}});
}

std::expected<CommandTemplate, Problems> CommandTemplate::create(ProcessConfiguration const& configuration,
                                                                 Variables const& variables,
                                                                 std::uint32_t highest_number, Limits const& limits) {
    Where const document;
    Where const at{&document, "arguments"};
    return create(configuration.arguments, at, variables, highest_number, limits);
}

std::expected<CommandTemplate, Problems> CommandTemplate::create(std::vector<Argument> const& arguments,
                                                                 Where const& at, Variables const& variables,
                                                                 std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits, [&](Builder& builder) { builder.add_arguments(arguments, at); });
}

std::expected<CommandTemplate, Problems> CommandTemplate::create(Argument const& argument, Where const& at,
                                                                 Variables const& variables,
                                                                 std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits, [&](Builder& builder) { builder.add_argument(argument, at, at); });
}

std::expected<CommandTemplate, Problems> CommandTemplate::create(std::span<ArgumentList const> lists,
                                                                 Variables const& variables,
                                                                 std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits, [&](Builder& builder) {
        for (ArgumentList const& list : lists)
            builder.add_arguments(list.arguments, list.at);
    });
}

std::expected<CommandTemplate, Problems> CommandTemplate::create(
    std::span<std::pair<std::string, Argument> const> environment, Where const& at, Variables const& variables,
    std::uint32_t highest_number, Limits const& limits) {
    return build(variables, highest_number, limits,
                 [&](Builder& builder) { builder.add_environment(environment, at); });
}

void CommandTemplate::render(ProcessNumber number, std::span<char> buffer, std::span<char*> argv) const noexcept {
    assert(number >= ProcessNumber{1} && number <= highest_process_number);
    assert(buffer.size() >= buffer_size_ && argv.size() > argument_count_);
    // Whatever the number is, buffer_size() bytes are enough.
    std::uint32_t const known = std::clamp(static_cast<std::uint32_t>(number), 1U, last_number);
    char* out = buffer.data();
    std::size_t copied = 0;
    auto const copy_until = [&](std::size_t end) {
        out = std::copy(text_.data() + copied, text_.data() + end, out);
        copied = end;
    };
    for (Number const& part : numbers_) {
        copy_until(part.position);
        Wide const value = exact_value(known, part.multiplier, part.offset);
        out = std::to_chars(out, buffer.data() + buffer.size(), nearest_integer(value)).ptr;
    }
    copy_until(text_.size());

    char* argument = buffer.data();
    for (std::size_t i = 0; i < argument_count_; ++i) {
        argv[i] = argument;
        argument += std::strlen(argument) + 1;
    }
    argv[argument_count_] = nullptr;
}

std::vector<std::string> CommandTemplate::arguments(ProcessNumber number) const {
    std::string buffer(buffer_size_, '\0');
    std::vector<char*> argv(argument_count_ + 1);
    render(number, buffer, argv);
    return {argv.begin(), argv.end() - 1};
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
        if (program.readiness) add_probe(*program.readiness);
        if (program.health) add_probe(*program.health);
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
