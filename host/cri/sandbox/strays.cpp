#include "host/cri/sandbox/strays.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "host/cri/cni/network_namespace.h"
#include "host/cri/sandbox/pods.h"

namespace triton::cri {

namespace {

using Kind = Belonging::Kind;

constexpr std::size_t most_groups = 100'000;  // that are looked at: whoever may make control groups says how many

std::vector<std::string> names_below(std::string const& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator(directory, error))
        names.push_back(entry.path().filename().string());
    return names;
}

class Lister {
public:
    Lister(HostFacts const& facts, Names names) : facts_(facts), names_(names) {}

    std::vector<Belonging> list(std::set<std::string> const& parents) {
        Places const& places = facts_.places;
        add_below(places.runs(), Kind::pod_files);
        for (std::string const& pod : names_below(places.runs()))
            add_below(places.run(pod) + "/c", Kind::container_files);
        for (std::string const& name : names_below(places.records())) {
            std::string const pod = name.substr(0, name.find('.'));
            add(Kind::pod_record, pod, places.records() + "/" + name);
            if (name != pod) add_below(places.records() + "/" + name, Kind::container_record);
        }
        add_below(places.layers(), Kind::layer);
        add_below(places.runtime(), Kind::runtime_state);
        add_pins();
        add_groups(parents);
        return std::move(found_);
    }

private:
    void add(Kind kind, std::string const& id, std::string path) {
        bool const is_shared = kind == Kind::network_namespace || kind == Kind::control_group;
        if (is_id(id) || (names_ == Names::all && !is_shared)) found_.push_back({kind, id, std::move(path)});
    }

    void add_below(std::string const& directory, Kind kind) {
        for (std::string const& name : names_below(directory))
            add(kind, name, directory + "/" + name);
    }

    void add_pins() {
        std::string const one = network_namespace_path(facts_, "");  // .. /triton-
        std::size_t const slash = one.rfind('/') + 1;
        std::string const prefix = one.substr(slash);
        for (std::string const& name : names_below(one.substr(0, slash)))
            if (name.starts_with(prefix))
                add(Kind::network_namespace, name.substr(prefix.size()), one.substr(0, slash) + name);
    }

    void add_groups(std::set<std::string> const& parents) {
        for (std::string const& parent : parents) {
            std::string const above = facts_.cgroups.pod_path(parent);
            if (above.empty()) continue;
            std::set<std::string> names;  // of all hierarchies
            for (std::string const& place : facts_.cgroups.places(above))
                for (std::string& name : names_below(place))
                    if (names.size() < most_groups) names.insert(std::move(name));
            for (std::string const& name : names) {
                std::string id = name;
                if (id.starts_with("triton-") && id.ends_with(".scope")) id = id.substr(7, id.size() - 13);
                if (is_id(id) && facts_.cgroups.path(parent, id) == above + "/" + name)
                    add(Kind::control_group, id, above + "/" + name);
            }
        }
    }

    HostFacts const& facts_;
    Names names_;
    std::vector<Belonging> found_;
};

}  // namespace

std::string_view name_of(Kind kind) {
    switch (kind) {
        case Kind::pod_files: return "files of a pod";
        case Kind::pod_record: return "record of a pod";
        case Kind::network_namespace: return "network namespace of a pod";
        case Kind::container_files: return "files of a container";
        case Kind::container_record: return "record of a container";
        case Kind::layer: return "layer of a container";
        case Kind::runtime_state: return "state of the runtime for a container";
        case Kind::control_group: return "control group of a container";
    }
    std::unreachable();
}

bool is_of_pod(Kind kind) {
    return kind == Kind::pod_files || kind == Kind::pod_record || kind == Kind::network_namespace;
}

std::vector<Belonging> list_belongings(HostFacts const& facts, std::set<std::string> const& parents, Names names) {
    return Lister(facts, names).list(parents);
}

Result<> remove_stray(HostFacts const& facts, Belonging const& stray) {
    switch (stray.kind) {
        case Kind::pod_files: return remove_pod_files(facts, stray.id);
        case Kind::network_namespace: return remove_network_namespace(stray.path);
        case Kind::layer: TRY(release_images(facts.settings.images, stray.id)); return remove_all(stray.path);
        case Kind::control_group:
            TRY(facts.cgroups.kill(stray.path));
            facts.cgroups.remove(stray.path);
            if (!facts.cgroups.places(stray.path).empty())
                return fail(ErrorKind::busy, "remove control group " + stray.path, "something is still in it");
            return {};
        case Kind::pod_record:
        case Kind::container_files:
        case Kind::container_record:
        case Kind::runtime_state: return remove_all(stray.path);
    }
    std::unreachable();
}

}  // namespace triton::cri
