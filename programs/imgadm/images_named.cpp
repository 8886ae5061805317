#include "programs/imgadm/images_named.h"

#include "lib/json/text.h"
#include "programs/imgadm/paths.h"

namespace triton::program {

std::expected<Uuid, Failure> parse_uuid(std::string_view text) {
    if (auto uuid = Uuid::parse(text)) return *std::move(uuid);
    return std::unexpected(usage_failure(json::quoted(text, 120) + " is not a UUID"));
}

std::expected<Uuid, Failure> find_installed(image::ImageService& service, std::string_view text) {
    auto const reference = named_reference(text);
    if (!reference) return std::unexpected(reference.error());
    auto found = service.find(*reference);
    if (!found) return std::unexpected(not_installed(found.error()));
    return *std::move(found);
}

}  // namespace triton::program
