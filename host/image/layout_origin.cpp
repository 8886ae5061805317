// An OCI layout in a directory, or what docker save writes. Source: OCI image-spec, image-layout.md.

#include <utility>

#include "host/image/local_content.h"
#include "host/image/oci_origin.h"
#include "lib/files/confined_directory.h"
#include "lib/json/text.h"

namespace triton::image {

namespace {

/// Says what an error is about: the programs that look at a blob do not know where it comes from.
std::unexpected<Error> about_layout(std::string_view what, Error error) {
    error.reason = std::string(what) + ": " + error.text();
    error.attempted.clear();
    return std::unexpected(std::move(error));
}

class LayoutOrigin : public OciOrigin {
public:
    LayoutOrigin(Workshop& shop, content::LeaseId lease, LayoutReference reference, files::ConfinedDirectory directory)
        : shop_(&shop), lease_(lease), reference_(std::move(reference)), directory_(std::move(directory)) {}

    Result<OciDocument> root() override {
        TRY(check_version());
        auto const index = TRY(index_of_layout());
        if (!reference_.digest.empty()) return document(TRY(descriptor_of(reference_.digest)), role::DocumentKind::image);
        Descriptor const chosen = TRY(choose_tag(index, reference_.tag, shown()));
        auto found = TRY(document(chosen, role::DocumentKind::image));
        found.name = chosen.image_name.empty() ? chosen.reference_name : chosen.image_name;
        return found;
    }

    Result<OciDocument> document(Descriptor const& descriptor, role::DocumentKind kind) override {
        auto file = TRY(open_blob(descriptor));
        if (descriptor.size > largest_document)
            return fail(ErrorKind::corrupt, shown() + " has a document of more than 4 MiB");
        auto const digest = TRY(role::Digest::parse(descriptor.digest));
        role::ReadDocument const request{
            .kind = kind,
            .expected = {.maximum = largest_document, .size = descriptor.size, .digest = digest},
            .media_type = descriptor.media_type};
        auto document = store_document(*shop_, lease_, std::move(file.fd), request,
                                       {.media_type = descriptor.media_type, .source = shown()});
        if (!document) return about_layout(shown_blob(descriptor), std::move(document).error());
        return OciDocument{
            document->digest, document->size, std::move(document->media_type), std::move(document->json), {}};
    }

    Result<> bring(std::span<Descriptor const> layers, Watcher const& watcher) override {
        std::uint64_t done = 0;
        for (std::size_t i = 0; i < layers.size(); ++i) {
            TRY(shop_->check_cancelled());
            auto const file = TRY(open_blob(layers[i]));
            auto const digest = TRY(role::Digest::parse(layers[i].digest));
            role::Expected const expected{.maximum = layers[i].size, .size = layers[i].size, .digest = digest};
            auto const blob = store_file(*shop_, lease_, file.fd.get(), expected,
                                         {.media_type = layers[i].media_type, .source = shown()});
            if (!blob) return about_layout(shown_blob(layers[i]), blob.error());
            watcher.progress(done += blob->size, "");
            TRY(watcher.arrived(i, *blob));
        }
        return {};
    }

private:
    [[nodiscard]] std::string shown() const { return reference_.text(); }
    [[nodiscard]] std::string shown_blob(Descriptor const& descriptor) const {
        return descriptor.digest + " of " + shown();
    }

    /// Refuses a layout of another version, whose files may mean something else. One without a version is accepted,
    /// since some tools write none.
    Result<> check_version() {
        auto opened = directory_.open_file("oci-layout");
        if (!opened && opened.error().kind == ErrorKind::not_found) return {};
        auto file = TRY(std::move(opened));
        role::ReadDocument const request{.kind = role::DocumentKind::other, .expected = {.maximum = largest_document}};
        std::string const what = "oci-layout of " + shown();
        auto const document = content::check_document(shop_->jobs(), request, std::move(file.fd));
        if (!document) return about_layout(what, document.error());
        std::string const version = TRY(read_layout_version(document->json, what));
        if (version.starts_with("1.")) return {};
        return fail(ErrorKind::unsupported, what + " has version " + json::quoted(version) + ", and only 1 is known");
    }

    Result<OciIndex> index_of_layout() {
        auto file = TRY(directory_.open_file("index.json"));
        role::ReadDocument const request{.kind = role::DocumentKind::index, .expected = {.maximum = largest_document}};
        std::string const what = "index.json of " + shown();
        auto document = content::check_document(shop_->jobs(), request, std::move(file.fd));
        if (!document) return about_layout(what, std::move(document).error());
        auto read = TRY(read_index_or_manifest(document->json, document->media_type, what));
        if (auto* const index = std::get_if<OciIndex>(&read)) return std::move(*index);
        return fail(ErrorKind::corrupt, what + " is a manifest, not an index");
    }

    /// A manifest that is referred to by its digest need not be in the index.
    Result<Descriptor> descriptor_of(std::string const& digest) {
        Descriptor descriptor{.digest = digest};
        auto const file = TRY(open_blob(descriptor));
        descriptor.size = static_cast<std::uint64_t>(file.status.st_size);
        return descriptor;
    }

    /// Symbolic links stay inside the layout; the form of the digest has been checked.
    [[nodiscard]] Result<files::ConfinedDirectory::File> open_blob(Descriptor const& descriptor) const {
        return directory_.open_file("blobs/sha256/" + TRY(role::Digest::parse(descriptor.digest)).hex());
    }

    Workshop* shop_;
    content::LeaseId lease_;
    LayoutReference reference_;
    files::ConfinedDirectory directory_;
};

}  // namespace

Result<std::unique_ptr<OciOrigin>> open_layout(Workshop& shop, content::LeaseId lease, LayoutReference const& reference,
                                               std::string const& directory_path) {
    auto directory = TRY(files::ConfinedDirectory::open(directory_path.empty() ? reference.path : directory_path));
    bool const is_layout = TRY(directory.exists("index.json"));
    if (!is_layout && TRY(directory.exists("manifest.json")))
        return open_saved_images(shop, lease, reference, std::move(directory));
    if (is_layout) return std::make_unique<LayoutOrigin>(shop, lease, reference, std::move(directory));
    if (TRY(directory.exists("repositories")))
        return fail(ErrorKind::unsupported, reference.path +
                                                " was written by docker save before version 1.10, without digests; a "
                                                "newer docker loads it, and saves it with them");
    return fail(ErrorKind::not_found, reference.path +
                                          " is neither an OCI layout, which has an index.json, nor of docker save, "
                                          "which has a manifest.json");
}

}  // namespace triton::image
