#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/image/image_service.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::program {

/// One image as a list shows it.
struct Listed {
    image::Manifest const* manifest = nullptr;
    std::string_view source;
    image::Image const* installed = nullptr;  ///< null: it is only available
};

std::vector<Listed> listed(std::span<image::Image const> images);
std::vector<Listed> listed(std::span<image::AvailableImage const> images);

/// How a list is shown.
struct ListOptions {
    std::string columns = "uuid,name,version,os,type,pub";
    std::string sort = "published_at,name";  ///< "-name": falling; empty: as they come
    bool is_json = false;
    bool is_parsable = false;  ///< fields with a colon between them, in which ":" and "\" have a "\" before them
    bool has_no_header = false;
    std::vector<std::string> filters = {};  ///< "os=linux", "public=true", "name=~alp"
};

/// Renders the images that pass all filters, sorted. Errors: `invalid` for a column, a key of the order or a filter
/// that does not exist, with what was probably meant: an empty list would not tell.
Result<std::string> render_list(std::span<Listed const> images, ListOptions const& options);

/// One image with everything that is known of it, as JSON with line breaks.
std::string image_json(Listed const& image);

/// JSON with line breaks and two blanks for each level.
std::string indented(json::Node const& node);

/// The names of all columns.
std::vector<std::string> column_names();

}  // namespace triton::program
