#include "host/cri/images/records.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "host/cri/images/image_name.h"
#include "host/image/reference.h"
#include "lib/json/lookup.h"

namespace triton::cri {

namespace {

constexpr std::string_view algorithm = "sha256:";
constexpr std::size_t shortest_beginning = 8;
constexpr std::size_t digest_digits = 64;

void add_name(std::vector<std::string>& names, std::string name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
}

/// "user", "uid", "user:group" of an image's configuration. Empty: root.
void set_user(ImageRecord& record, std::string_view user) {
    user = user.substr(0, user.find(':'));
    std::int64_t number = 0;
    auto const [end, error] = std::from_chars(user.data(), user.data() + user.size(), number);
    bool const is_number = error == std::errc{} && end == user.data() + user.size() && number >= 0;
    if (user.empty() || is_number)
        record.user_id = number;
    else
        record.user_name = user;
}

std::optional<image::RegistryReference> registry_reference(std::string_view text) {
    auto const parsed = image::parse_reference(text);
    auto const* const reference = parsed ? std::get_if<image::RegistryReference>(&*parsed) : nullptr;
    return reference ? std::optional(*reference) : std::nullopt;
}

std::optional<ImageRecord> record_of(image::Image const& image, std::span<DigestName const> hidden) {
    auto const* const document = image.manifest.document.get<json::Object>();
    if (!document) return std::nullopt;
    json::Object const& oci = json::object_of(*document, "oci");
    std::string id = json::text_of(oci, "config");
    if (!image::is_sha256_digest(id)) return std::nullopt;
    ImageRecord record{.id = std::move(id),
                       .uuid = image.uuid(),
                       .repo_tags = {},
                       .repo_digests = {},
                       .size = std::max<std::uint64_t>(image.size, 1),
                       .user_id = {},
                       .user_name = {},
                       .platform = image.platform,
                       .installed_at = image.installed_at,
                       .is_pinned = image.is_pinned};
    set_user(record, json::text_of(json::object_of(oci, "execution"), "User"));
    auto const reference = registry_reference(image.reference);
    if (!reference || image.digest.empty()) return record;
    DigestName const first{digest_name(*reference, image.digest), record.uuid};
    if (std::ranges::find(hidden, first) == hidden.end()) add_name(record.repo_digests, first.name);
    return record;
}

/// The digits of an id or of the beginning of one; empty: it is neither.
std::string_view id_digits(std::string_view text) {
    std::string_view const digits = text.starts_with(algorithm) ? text.substr(algorithm.size()) : text;
    auto const is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    bool const is_one = digits.size() >= shortest_beginning && digits.size() <= digest_digits;
    return is_one && std::ranges::all_of(digits, is_digit) ? digits : std::string_view();
}

bool has_id(ImageRecord const& record, std::string_view digits) {
    return !digits.empty() && std::string_view(record.id).substr(algorithm.size()).starts_with(digits);
}

std::string tag_name(image::RegistryReference const& reference) {
    return repository_of(reference) + ":" + reference.tag;
}

}  // namespace

std::vector<ImageRecord> records_of(std::span<image::Image const> images, NameSources const& sources) {
    std::map<Uuid, ImageRecord> records;
    for (image::Image const& image : images)
        if (auto record = record_of(image, sources.hidden)) records.emplace(image.uuid(), *std::move(record));
    for (image::Latch const& latch : sources.latches) {
        auto const found = records.find(latch.image);
        auto const reference = registry_reference(latch.reference);
        if (found == records.end() || !reference || reference->tag.empty()) continue;
        add_name(found->second.repo_tags, tag_name(*reference));
        add_name(found->second.repo_digests, digest_name(*reference, latch.digest));
    }
    for (DigestName const& one : sources.digests)
        if (auto const found = records.find(one.image); found != records.end())
            add_name(found->second.repo_digests, one.name);
    std::vector<ImageRecord> sorted;
    for (auto& [uuid, record] : records) {
        std::ranges::sort(record.repo_tags);
        std::ranges::sort(record.repo_digests);
        sorted.push_back(std::move(record));
    }
    std::ranges::sort(sorted, {}, &ImageRecord::id);
    return sorted;
}

Result<ImageRecord const*> find_record(std::span<ImageRecord const> records, std::string_view text) {
    ImageRecord const* found = nullptr;
    if (std::string_view const digits = id_digits(text); !digits.empty()) {
        for (ImageRecord const& record : records) {
            if (!has_id(record, digits)) continue;
            if (found)
                return fail(ErrorKind::invalid, "several images have ids that begin with " + std::string(digits));
            found = &record;
        }
        if (found || digits.size() == digest_digits || text.starts_with(algorithm)) return found;
    }
    auto const reference = TRY(parse_image_name(text));
    std::string const name = reference.digest.empty() ? tag_name(reference) : digest_name(reference, reference.digest);
    for (ImageRecord const& record : records) {
        auto const& names = reference.digest.empty() ? record.repo_tags : record.repo_digests;
        if (std::ranges::find(names, name) != names.end()) found = &record;
    }
    return found;
}

ImageNames names_of(ImageRecord const& record, std::span<image::Latch const> latches) {
    ImageNames names{.references = {}, .digests = record.repo_digests};
    for (image::Latch const& latch : latches)
        if (latch.image == record.uuid) names.references.push_back(latch.reference);
    return names;
}

}  // namespace triton::cri
