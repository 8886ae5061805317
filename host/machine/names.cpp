#include "host/machine/names.h"

#include <algorithm>
#include <vector>

#include "lib/json/table.h"
#include "lib/json/text.h"

namespace triton::machine {

namespace {
constexpr std::size_t shortest_beginning = 4;

std::unexpected<Error> no_such_machine(std::string_view name, std::span<Names const> machines) {
    std::string text = "VM " + json::shown(name) + " not found";
    auto const is_hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    std::vector<std::string_view> aliases;
    for (Names const& machine : machines)
        if (!machine.alias.empty()) aliases.push_back(machine.alias);
    std::string const meant = json::suggestion(name, aliases);
    if (meant.empty() && name.size() < shortest_beginning && std::ranges::all_of(name, is_hexadecimal))
        text += ": of a uuid at least " + std::to_string(shortest_beginning) + " characters are needed";
    return fail(ErrorKind::not_found, text + meant);
}

}  // namespace

Result<Uuid> find_name(std::string_view name, std::span<Names const> machines) {
    if (auto uuid = Uuid::parse(name)) return *std::move(uuid);
    std::vector<Uuid> found;
    for (Names const& machine : machines) {
        bool const begins = name.size() >= shortest_beginning && machine.uuid.text().starts_with(name);
        if (begins || (!machine.alias.empty() && machine.alias == name)) found.push_back(machine.uuid);
    }
    if (found.size() == 1) return found.front();
    if (found.empty()) return no_such_machine(name, machines);
    Error error =
        fail(ErrorKind::refused, json::shown(name) + " names " + std::to_string(found.size()) + " VMs").error();
    for (Uuid const& uuid : found)
        error.details.push_back(uuid.text());
    return std::unexpected(std::move(error));
}

namespace {

std::string title_of(InstalledImage const& image) { return image.name + "@" + image.version; }

std::unexpected<Error> no_such_image(std::string_view name, std::span<InstalledImage const> images) {
    constexpr std::size_t most_shown = 20;
    std::string const what = "image " + json::shown(name) + " is not installed";
    if (images.empty())
        return fail(ErrorKind::not_found,
                    what + ": none is; imgadm avail lists images, and imgadm import installs one");
    std::vector<std::string_view> known;
    for (InstalledImage const& image : images)
        known.push_back(image.name);
    Error error = fail(ErrorKind::not_found, what + json::suggestion(name.substr(0, name.find('@')), known)).error();
    for (InstalledImage const& image : images.first(std::min(images.size(), most_shown)))
        error.details.push_back("installed: " + image.uuid.text() + " " + title_of(image));
    if (images.size() > most_shown)
        error.details.push_back("and " + std::to_string(images.size() - most_shown) + " more: imgadm list");
    return std::unexpected(std::move(error));
}

}  // namespace

Result<Uuid> find_image(std::string_view name, std::span<InstalledImage const> images) {
    if (auto uuid = Uuid::parse(name)) return *std::move(uuid);
    std::vector<InstalledImage const*> found;
    auto const add_if = [&](auto const& is_meant) {
        for (InstalledImage const& image : images)
            if (is_meant(image)) found.push_back(&image);
    };
    add_if([&](InstalledImage const& image) { return image.name == name; });
    if (!found.empty()) {
        auto const last = std::ranges::max_element(found, {}, [](auto const* image) {
            return std::pair(std::string_view(image->published_at), std::string_view(image->version));
        });
        return (*last)->uuid;
    }
    add_if([&](InstalledImage const& image) { return title_of(image) == name; });
    if (found.empty() && name.size() >= shortest_beginning)
        add_if([&](InstalledImage const& image) { return image.uuid.text().starts_with(name); });
    if (found.empty()) return no_such_image(name, images);
    if (found.size() == 1) return found.front()->uuid;
    Error error =
        fail(ErrorKind::refused, json::shown(name) + " names " + std::to_string(found.size()) + " images").error();
    for (InstalledImage const* image : found)
        error.details.push_back(image->uuid.text() + " " + title_of(*image));
    return std::unexpected(std::move(error));
}

}  // namespace triton::machine
