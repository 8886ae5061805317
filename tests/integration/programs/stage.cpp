// sidecar/ as a program of its own: what the modes init and sidecar will do, under their options, for its tests.
#include "sidecar/stage.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include <unistd.h>

#include "launcher/path_watcher.h"

using namespace triton;
using namespace triton::sidecar;

namespace {

class Watch final : public ChangeWatch {
public:
    explicit Watch(launcher::PathWatcher watcher) : watcher_(std::move(watcher)) {}
    int fd() const override { return watcher_.fd(); }
    Result<> watch(std::vector<std::string> const& paths) override { return watcher_.watch(paths); }
    bool take_events() override { return watcher_.take_events(); }

private:
    launcher::PathWatcher watcher_;
};

void put(int fd, std::string_view text) { (void)!::write(fd, text.data(), text.size()); }

int complain(std::string_view text) {
    put(STDERR_FILENO, "triton-launch: " + std::string(text) + "\n");
    return 2;
}

std::string environment_name(std::string_view flag) {
    std::string name = "TRITON_LAUNCH_";
    for (char const c : flag)
        name += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
    return name;
}

StageFlag const* find(std::vector<StageFlag> const& flags, std::string_view given) {
    for (StageFlag const& flag : flags) {
        if (given == "--" + std::string(flag.name)) return &flag;
    }
    return nullptr;
}

}  // namespace

int main(int argc, char** argv, char** envp) {
    StageOptions options;
    auto const flags = stage_flags(options);
    for (StageFlag const& flag : flags) {
        std::string const name = environment_name(flag.name);
        char const* const value = std::getenv(name.c_str());
        if (!value || !*value) continue;
        if (auto const result = flag.apply(value); !result) return complain(name + ": " + result.error().text);
    }
    for (int i = 1; i < argc; ++i) {
        std::string const argument = argv[i];
        std::size_t const equals = argument.find('=');
        std::string const name = argument.substr(0, equals);
        bool const takes_next = equals == std::string::npos && i + 1 < argc;
        if (name == "--mode" && takes_next) {
            options.mode = std::string_view(argv[++i]) == "sidecar" ? StageMode::sidecar : StageMode::init;
            continue;
        }
        StageFlag const* const flag = find(flags, name);
        if (!flag) return complain("unknown option " + name);
        std::string value = "true";
        if (equals != std::string::npos) {
            value = argument.substr(equals + 1);
        } else if (!flag->value.empty()) {
            if (!takes_next) return complain(name + ": its value is missing");
            value = argv[++i];
        }
        if (auto const result = flag->apply(value); !result) return complain(name + ": " + result.error().text);
    }

    StageSurroundings surroundings;
    surroundings.environment = envp;
    surroundings.print = [](std::string_view text) { put(STDOUT_FILENO, text); };
    surroundings.log = [&options](StageLevel level, std::string_view event, std::string_view message) {
        if (level == StageLevel::error) {
            (void)complain(message);
        } else if (!options.as_json) {
            put(STDOUT_FILENO,
                R"({"event":")" + std::string(event) + R"(","message":")" + std::string(message) + "\"}\n");
        }
    };
    if (::isatty(STDERR_FILENO) == 1) surroundings.progress = [](std::string_view text) { put(STDERR_FILENO, text); };
    surroundings.make_watch = []() -> Result<std::unique_ptr<ChangeWatch>> {
        return std::make_unique<Watch>(TRY(launcher::PathWatcher::create()));
    };
    return stage(options, surroundings);
}
