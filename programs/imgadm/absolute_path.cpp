#include "programs/imgadm/absolute_path.h"

#include <filesystem>
#include <system_error>
#include <variant>

#include "host/image/reference.h"

namespace triton::program {

std::string absolute(std::string const& path) {
    std::error_code ignored;  // a directory that no longer exists: the path stays as it is
    auto const whole = std::filesystem::absolute(path, ignored).lexically_normal();
    return path.empty() || ignored ? path : whole.string();
}

std::string absolute_reference(std::string_view text) {
    auto reference = image::parse_reference(text);
    if (!reference) return std::string(text);
    std::string path;
    if (auto const* const file = std::get_if<image::PathReference>(&*reference)) path = absolute(file->path);
    auto* const layout = std::get_if<image::LayoutReference>(&*reference);
    if (layout) path = absolute(layout->path);
    if (path.empty()) return std::string(text);
    while (path.size() > 1 && path.ends_with('/'))
        path.pop_back();
    if (!layout) return path;
    layout->path = std::move(path);
    return layout->text();
}

}  // namespace triton::program
