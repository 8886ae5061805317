#include "programs/imgadm/paths.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <variant>

#include "lib/json/text.h"

namespace triton::program {

std::string absolute(std::string const& path) {
    if (path.empty()) return path;
    std::error_code error;
    auto const whole = std::filesystem::absolute(path, error);
    if (error) return path;  // without a current directory it stays relative, which is refused, or leads nowhere
    auto normal = whole.lexically_normal();
    // Behind a symbolic link ".." leads elsewhere.
    if (std::filesystem::exists(whole, error) && !std::filesystem::equivalent(whole, normal, error)) normal = whole;
    std::string text = normal.string();
    text.erase(std::max<std::size_t>(text.find_last_not_of('/') + 1, 1));
    return text;
}

std::string absolute_source(std::string const& source) {
    bool const is_path = source == "." || source == ".." || source.starts_with("./") || source.starts_with("../");
    return is_path ? absolute(source) : source;
}

std::expected<image::Reference, Failure> named_reference(std::string_view text) {
    auto reference = image::parse_reference(text);
    if (!reference) return std::unexpected(usage_failure(reference.error().text()));
    if (auto* const path = std::get_if<image::PathReference>(&*reference)) path->path = absolute(path->path);
    if (auto* const layout = std::get_if<image::LayoutReference>(&*reference)) {
        layout->path = absolute(layout->path);
        auto const again = image::parse_reference(layout->text());
        if (!again || *again != *reference)
            return std::unexpected(usage_failure(json::quoted(text, 120) + " is " + json::quoted(layout->text(), 120) +
                                                 ", which means something else: give a tag"));
    }
    return *std::move(reference);
}

}  // namespace triton::program
