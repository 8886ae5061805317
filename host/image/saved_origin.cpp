// The images of docker save: manifest.json, configurations and layers as files. Source: moby, image/tarexport.

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

#include "host/image/local_content.h"
#include "host/image/oci_origin.h"
#include "lib/base/joined.h"
#include "lib/base/write_all.h"
#include "lib/json/text.h"
#include "lib/json/writer.h"

namespace triton::image {

namespace {

constexpr std::string_view manifest_type = "application/vnd.oci.image.manifest.v1+json";
constexpr std::string_view config_type = "application/vnd.oci.image.config.v1+json";

/// The media type of a layer, by its first bytes. It is only for the manifest: the unpacker finds out the compression.
Result<std::string> layer_type_of(int file) {
    std::array<unsigned char, 4> head{};
    if (::pread(file, head.data(), head.size(), 0) < 0) return fail(errno, "read a layer");
    std::string const type = "application/vnd.oci.image.layer.v1.tar";
    if (head[0] == 0x1f && head[1] == 0x8b) return type + "+gzip";
    if (head == std::array<unsigned char, 4>{0x28, 0xb5, 0x2f, 0xfd}) return type + "+zstd";
    return type;
}

class SavedOrigin : public OciOrigin {
public:
    SavedOrigin(Workshop& shop, content::LeaseId lease, LayoutReference reference, files::ConfinedDirectory directory)
        : shop_(&shop), lease_(lease), reference_(std::move(reference)), directory_(std::move(directory)) {}

    Result<OciDocument> root() override {
        auto const images = TRY(read_images());
        OciDocument root = reference_.digest.empty() ? TRY(by_name(images)) : TRY(by_digest(images));
        stored_ = open_stored(*shop_, lease_, root.digest.text());
        return root;
    }

    Result<OciDocument> document(Descriptor const& descriptor, role::DocumentKind kind) override {
        if (!stored_) (void)TRY(root());
        return stored_->document(descriptor, kind);
    }

    Result<> bring(std::span<Descriptor const> layers, Watcher const& watcher) override {
        if (!stored_) (void)TRY(root());
        return stored_->bring(layers, watcher);
    }

private:
    [[nodiscard]] std::string shown() const { return reference_.text(); }

    /// Says what an error is about: the programs that look at a file do not know where it comes from.
    [[nodiscard]] std::unexpected<Error> about(std::string_view path, Error error) const {
        error.reason = json::shown(path) + " of " + shown() + ": " + error.text();
        error.attempted.clear();
        return std::unexpected(std::move(error));
    }

    Result<std::vector<SavedImage>> read_images() {
        constexpr std::string_view name = "manifest.json";
        auto file = TRY(directory_.open_file(std::string(name)));
        role::ReadDocument const request{.kind = role::DocumentKind::other, .expected = {.maximum = largest_document}};
        auto const document = content::check_document(shop_->jobs(), request, std::move(file.fd));
        if (!document) return about(name, document.error());
        return read_saved_images(document->json, std::string(name) + " of " + shown());
    }

    Result<OciDocument> by_name(std::vector<SavedImage> const& images) {
        std::vector<NamedImage> named;
        for (SavedImage const& image : images) {
            named.push_back({.identity = {}, .names = image.names});
            if (images.size() > 1) named.back().identity = TRY(store_config(image)).digest.text();
        }
        SavedImage const& chosen = images[TRY(choose_named(named, reference_.tag, shown()))];
        auto made = TRY(make(chosen));
        if (!chosen.names.empty()) made.root.name = chosen.names.front();
        if (std::ranges::find(chosen.names, reference_.tag) != chosen.names.end()) made.root.name = reference_.tag;
        return std::move(made.root);
    }

    /// A digest names a configuration, as it does for Docker, or the manifest that was made when it was imported.
    Result<OciDocument> by_digest(std::vector<SavedImage> const& images) {
        std::vector<std::string> all;
        for (SavedImage const& image : images) {
            auto made = TRY(make(image));
            if (made.config == reference_.digest || made.root.digest.text() == reference_.digest)
                return std::move(made.root);
            all.push_back(made.config);
        }
        return fail(ErrorKind::not_found, shown() + " has no such image; it has: " + joined(all, ", "));
    }

    Result<content::CheckedDocument> store_config(SavedImage const& image) {
        auto opened = directory_.open_file(image.config);
        if (!opened) return about(image.config, opened.error());
        role::ReadDocument const request{.kind = role::DocumentKind::config,
                                         .expected = {.maximum = largest_document},
                                         .media_type = std::string(config_type)};
        auto config = store_document(*shop_, lease_, std::move(opened->fd), request,
                                     {.media_type = std::string(config_type), .source = shown()});
        if (!config) return about(image.config, config.error());
        return config;
    }

    /// Brings a layer into the store, once for each file: docker save has links where layers are the same.
    Result<Descriptor> store_layer(std::string const& path) {
        auto const opened = directory_.open_file(path);
        if (!opened) return about(path, opened.error());
        auto const [known, is_new] = layers_.try_emplace({opened->status.st_dev, opened->status.st_ino});
        if (!is_new) return known->second;
        std::string const type = TRY(layer_type_of(opened->fd.get()));
        auto const blob = store_file(*shop_, lease_, opened->fd.get(), {.maximum = largest_layer},
                                     {.media_type = type, .source = shown()});
        if (!blob) return about(path, blob.error());
        known->second = {.media_type = type, .digest = blob->digest.text(), .size = blob->size};
        return known->second;
    }

    struct Made {
        OciDocument root;
        std::string config;  // its digest
    };

    /// Makes the manifest of an image. The same content always makes the same manifest.
    Result<Made> make(SavedImage const& image) {
        auto const config = TRY(store_config(image));
        json::Writer out;
        auto const describe = [&out](std::string_view type, std::string_view digest, std::uint64_t size) {
            out.open('{').member("mediaType", type).member("digest", digest).member("size", size).close('}');
        };
        out.open('{').member("schemaVersion", 2).member("mediaType", manifest_type).key("config");
        describe(config_type, config.digest.text(), config.size);
        out.key("layers").open('[');
        for (std::string const& path : image.layers) {
            TRY(shop_->check_cancelled());
            Descriptor const layer = TRY(store_layer(path));
            describe(layer.media_type, layer.digest, layer.size);
        }
        out.close(']').close('}');
        return Made{TRY(store_manifest(out.text())), config.digest.text()};
    }

    Result<OciDocument> store_manifest(std::string_view text) {
        UniqueFd file(::memfd_create("manifest", MFD_CLOEXEC));
        if (!file || !write_all(file.get(), text) || ::lseek(file.get(), 0, SEEK_SET) < 0)
            return fail(errno, "keep the manifest");
        role::ReadDocument const request{.kind = role::DocumentKind::manifest,
                                         .expected = {.maximum = largest_document},
                                         .media_type = std::string(manifest_type)};
        auto stored = TRY(store_document(*shop_, lease_, std::move(file), request,
                                         {.media_type = std::string(manifest_type), .source = shown()}));
        return OciDocument{stored.digest, stored.size, std::string(manifest_type), std::move(stored.json), {}};
    }

    Workshop* shop_;
    content::LeaseId lease_;
    LayoutReference reference_;
    files::ConfinedDirectory directory_;
    std::map<std::pair<dev_t, ino_t>, Descriptor> layers_;  // those that are in the store already
    std::unique_ptr<OciOrigin> stored_;
};

}  // namespace

std::unique_ptr<OciOrigin> open_saved_images(Workshop& shop, content::LeaseId lease, LayoutReference const& reference,
                                             files::ConfinedDirectory directory) {
    return std::make_unique<SavedOrigin>(shop, lease, reference, std::move(directory));
}

}  // namespace triton::image
