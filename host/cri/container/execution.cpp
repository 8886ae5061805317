#include "host/cri/container/execution.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "host/cri/wire/messages.h"
#include "lib/json/lookup.h"

namespace triton::cri {

namespace {

std::vector<std::string> texts_of(json::Object const& object, std::string_view name) {
    std::vector<std::string> texts;
    for (json::Node const& node : json::list_of(object, name))
        if (auto const* const text = node.get<std::string>()) texts.push_back(*text);
    return texts;
}

void set_variable(std::vector<std::string>& environment, std::string variable) {
    std::string const name = variable.substr(0, variable.find('=') + 1);
    if (name.empty()) return;  // without "=" it is none
    auto const found = std::ranges::find_if(environment, [&](std::string const& one) { return one.starts_with(name); });
    if (found == environment.end())
        environment.push_back(std::move(variable));
    else
        *found = std::move(variable);
}

}  // namespace

ImageExecution read_execution(json::Object const& config) {
    return {.entrypoint = texts_of(config, "Entrypoint"),
            .command = texts_of(config, "Cmd"),
            .environment = texts_of(config, "Env"),
            .working_directory = json::text_of(config, "WorkingDir"),
            .user = json::text_of(config, "User"),
            .stop_signal = json::text_of(config, "StopSignal")};
}

Result<std::vector<std::string>> command_of(v1::ContainerConfig const& config, ImageExecution const& image) {
    std::vector<std::string> words(config.command().begin(), config.command().end());
    bool const is_images = words.empty();
    if (is_images) words = image.entrypoint;
    if (config.args_size() > 0)
        words.insert(words.end(), config.args().begin(), config.args().end());
    else if (is_images)
        words.insert(words.end(), image.command.begin(), image.command.end());
    if (words.empty() || words.front().empty())
        return fail(ErrorKind::invalid, "there is no command: neither the request nor the image has one");
    return words;
}

std::vector<std::string> environment_of(v1::ContainerConfig const& config, ImageExecution const& image,
                                        std::string const& hostname, std::string const& home) {
    std::vector<std::string> environment{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                         "HOSTNAME=" + hostname};
    if (config.tty()) environment.emplace_back("TERM=xterm");
    for (std::string const& variable : image.environment)
        set_variable(environment, variable);
    for (v1::KeyValue const& variable : config.envs())
        set_variable(environment, variable.key() + "=" + variable.value());
    bool const has_home =
        std::ranges::any_of(environment, [](std::string const& one) { return one.starts_with("HOME="); });
    if (!has_home) environment.push_back("HOME=" + home);
    return environment;
}

}  // namespace triton::cri
