// What the store still has of an image: enough when only its tree was lost, whatever became of where it came from.

#include <utility>

#include "host/image/local_content.h"
#include "host/image/oci_origin.h"

namespace triton::image {

namespace {

class StoredOrigin : public OciOrigin {
public:
    StoredOrigin(Workshop& shop, content::LeaseId lease, std::string digest)
        : shop_(&shop), lease_(lease), digest_(std::move(digest)) {}

    Result<OciDocument> root() override { return document({.digest = digest_}, role::DocumentKind::image); }

    Result<OciDocument> document(Descriptor const& descriptor, role::DocumentKind kind) override {
        content::Blob const blob = TRY(kept(descriptor));
        role::ReadDocument const request{
            .kind = kind,
            .expected = {.maximum = largest_document, .size = blob.size, .digest = blob.digest},
            .media_type = descriptor.media_type.empty() ? blob.facts.media_type : descriptor.media_type};
        UniqueFd file = TRY(shop_->store.open_blob(blob.digest));
        auto document = TRY(store_document(*shop_, lease_, std::move(file), request, blob.facts));
        return OciDocument{document.digest, document.size, std::move(document.media_type), std::move(document.json)};
    }

    Result<> bring(std::span<Descriptor const> layers, Watcher const& watcher) override {
        std::uint64_t done = 0;
        std::vector<content::Blob> blobs;
        for (Descriptor const& layer : layers)  // before anything is unpacked
            blobs.push_back(TRY(kept(layer)));
        for (std::size_t i = 0; i < blobs.size(); ++i) {
            watcher.progress(done += blobs[i].size, "");
            TRY(watcher.arrived(i, blobs[i]));
        }
        return {};
    }

private:
    Result<content::Blob> kept(Descriptor const& descriptor) {
        auto const digest = TRY(role::Digest::parse(descriptor.digest));
        bool const is_protected = TRY(shop_->store.protect(shop_->protection(lease_), digest));
        auto blob = is_protected ? TRY(shop_->store.find(digest)) : std::optional<content::Blob>();
        if (!blob) return fail(ErrorKind::not_found, descriptor.digest + " is not in the store");
        return *std::move(blob);
    }

    Workshop* shop_;
    content::LeaseId lease_;
    std::string digest_;
};

}  // namespace

std::unique_ptr<OciOrigin> open_stored(Workshop& shop, content::LeaseId lease, std::string const& digest) {
    return std::make_unique<StoredOrigin>(shop, lease, digest);
}

}  // namespace triton::image
