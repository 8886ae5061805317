#include "launcher/plan/program_plan.h"

#include <algorithm>

namespace triton::launcher {

namespace {

StreamTarget target_of(config::OutputKind kind) {
    switch (kind) {
        case config::OutputKind::inherit: return StreamTarget::inherited;
        case config::OutputKind::null: return StreamTarget::null;
        case config::OutputKind::captured: return StreamTarget::captured;
        case config::OutputKind::program: return StreamTarget::program;
    }
    std::unreachable();
}

ReadyChannel channel_of(Rare<config::Readiness> const& readiness) {
    if (!readiness) return ReadyChannel::none;
    if (readiness->type == config::ReadinessType::notify) return ReadyChannel::socket;
    return readiness->type == config::ReadinessType::fd ? ReadyChannel::pipe : ReadyChannel::none;
}

}  // namespace

HelperPlan const& HelperPlans::operator[](Helper which) const {
    static HelperPlan const none;
    auto const found = std::ranges::find(plans_, which, &std::pair<Helper, HelperPlan>::first);
    return found == plans_.end() ? none : found->second;
}

bool HelperPlans::needs_agent() const {
    return std::ranges::any_of(plans_, [](auto const& entry) { return entry.second.network != nullptr; });
}

std::vector<std::string> paths_to_open(ProgramPlan const& plan) {
    std::vector<std::string> paths = plan.watched_files;
    auto const add_numbered = [&](process::CommandTemplate const& names) {
        paths.push_back(names.arguments(ProcessNumber{1}).front());
    };
    auto const add_output = [&](config::Output const& output) {
        if (output.file) paths.push_back(*output.file);
        if (output.is_numbered()) add_numbered(config::numbered_path(*output.file_argument));
    };
    add_output(plan.settings->output);
    std::ranges::for_each(plan.settings->output.error, add_output);
    if (plan.pid_file) add_numbered(*plan.pid_file);
    for (SocketRequest const& socket : plan.sockets)
        if (!socket.address.path.empty()) paths.push_back(socket.address.path);
    return paths;
}

void decide_needs(ProgramPlan& plan) {
    bool const is_named = !plan.settings->name.empty();
    config::Output const& output = plan.settings->output;
    config::Stdin const& input = plan.settings->stdin_;
    bool const is_null = is_named && plan.settings->stdin_.kind == config::StdinKind::null;
    plan.needs = {.has_null_input = is_null && !plan.is_reader,
                  .input_file = {},
                  .has_piped_input = plan.is_reader,
                  .output_to = output.to,
                  .output = target_of(output.kind),
                  .error = target_of(output.error.empty() ? output.kind : output.error.front().kind),
                  .readiness = channel_of(plan.settings->readiness),
                  .notify = {},
                  .limits = plan.settings->cgroup};
    if (plan.settings->tty) {
        plan.needs.has_terminal = true;
        plan.needs.has_null_input = false;
        plan.needs.output = plan.needs.error = StreamTarget::captured;
    }
    if (input.file) {
        plan.needs.input_file = config::numbered_path({.value = *input.file});
    } else if (input.file_argument) {
        plan.needs.input_file = config::numbered_path(*input.file_argument);
    }
    plan.needs.notify.has_own_root = plan.settings->root_directory.has_value();
    if (!plan.start) return;
    process::Identity const& identity = plan.start->attributes().identity;
    plan.needs.notify.user = identity.user;
    plan.needs.notify.group = identity.group;
}

uid_t ProgramPlan::user() const {
    return start ? start->attributes().identity.user.value_or(::geteuid()) : ::geteuid();
}

}  // namespace triton::launcher
