// An image in a registry. Source: OCI distribution-spec, "Pull".

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "host/content/lease_keeper.h"
#include "host/image/authfile.h"
#include "host/image/oci_origin.h"
#include "host/image/proxies.h"
#include "host/image/stop_signal.h"
#include "lib/base/loopback.h"
#include "lib/base/read_file.h"

namespace triton::image {

namespace {

constexpr std::size_t largest_authorities = 4 << 20;

class RegistryOrigin : public OciOrigin {
public:
    RegistryOrigin(Workshop& shop, content::LeaseId lease, RegistryReference reference, RegistryAccess access)
        : shop_(&shop),
          lease_(lease),
          reference_(std::move(reference)),
          access_(std::move(access)),
          fetcher_(shop.store, {}) {}

    Result<OciDocument> root() override {
        content::DocumentRequest request{.remote = root_remote(),
                                         .most_bytes = largest_document,
                                         .kind = role::DocumentKind::image,
                                         .facts = {.media_type = {}, .source = reference_.text()},
                                         .protection = shop_->protection(lease_)};
        request.remote.accept = accepted_media_types();
        if (!reference_.digest.empty()) request.digest = TRY(role::Digest::parse(reference_.digest));
        if (request.remote.urls.empty())
            return fail(ErrorKind::refused, "import " + reference_.text(), "no server of it may resolve tags");
        return fetch(request);
    }

    Result<OciDocument> document(Descriptor const& descriptor, role::DocumentKind kind) override {
        bool const is_blob = kind == role::DocumentKind::config;
        auto const digest = TRY(role::Digest::parse(descriptor.digest));
        content::DocumentRequest request{.remote = remote(is_blob ? "blobs" : "manifests", descriptor.digest),
                                         .digest = digest,
                                         .size = descriptor.size,
                                         .most_bytes = largest_document,
                                         .kind = kind,
                                         .facts = {.media_type = descriptor.media_type, .source = reference_.text()},
                                         .protection = shop_->protection(lease_)};
        if (!is_blob) request.remote.accept = accepted_media_types();
        return fetch(request);
    }

    Result<> bring(std::span<Descriptor const> layers, Watcher const& watcher) override {
        std::vector<content::BlobRequest> requests;
        for (Descriptor const& layer : layers) {
            auto const digest = TRY(role::Digest::parse(layer.digest));
            requests.push_back({.remote = remote("blobs", layer.digest),
                                .digest = digest,
                                .size = layer.size,
                                .facts = {.media_type = layer.media_type, .source = reference_.text()},
                                .protection = shop_->protection(lease_)});
        }
        StopSignal const stop = TRY(StopSignal::make(watcher.cancel));
        Arrivals arrivals{.watcher = &watcher, .stop = &stop, .bytes = std::vector<std::uint64_t>(layers.size())};
        content::LeaseKeeper keeper(shop_->store, lease_, std::chrono::steady_clock::now());
        content::Watcher const fetching{.progress =
                                            [&](content::Progress const& progress) {
                                                keeper.note(std::chrono::steady_clock::now());
                                                arrivals.note(progress);
                                                if (progress.request < layers.size())
                                                    tell(layers[progress.request], progress);
                                            },
                                        .finished =
                                            [&](std::size_t i, Result<content::Blob> const& blob) {
                                                if (blob) tell(*blob);
                                                arrivals.finish(i, blob);
                                            },
                                        .cancel = stop.fd(),
                                        .passed_over = passed_over()};
        auto const results = fetcher_.fetch_blobs(access_.access, requests, fetching);
        if (arrivals.error) return std::unexpected(*arrivals.error);
        for (Result<content::Blob> const& result : results) {
            if (!result) return std::unexpected(result.error());
        }
        return {};
    }

private:
    /// What has arrived of all layers together. The first error ends the work: an image that lacks a layer is none.
    struct Arrivals {
        Watcher const* watcher;
        StopSignal const* stop;
        std::vector<std::uint64_t> bytes;
        std::optional<Error> error = {};

        void note(content::Progress const& progress) {
            if (progress.request >= bytes.size()) return;
            bytes[progress.request] = progress.bytes;
            std::uint64_t sum = 0;
            for (std::uint64_t const one : bytes)
                sum += one;
            bool const is_waiting = progress.phase == content::Progress::Phase::retrying;
            watcher->progress(sum, is_waiting ? progress.waiting_for : "");
        }
        void finish(std::size_t layer, Result<content::Blob> const& blob) {
            if (error) return;
            auto const taken = blob ? watcher->arrived(layer, *blob) : std::unexpected(blob.error());
            if (taken) return;
            error = taken.error();
            stop->raise();
        }
    };

    void tell(Descriptor const& layer, content::Progress const& progress) {
        using Phase = content::Progress::Phase;
        shop_->observer->blob({.digest = layer.digest,
                               .media_type = layer.media_type,
                               .done = progress.bytes,
                               .total = progress.size.value_or(layer.size),
                               .is_verifying = progress.phase == Phase::verifying,
                               .is_stored = progress.phase == Phase::stored});
    }
    void tell(content::Blob const& blob) {
        shop_->observer->blob({.digest = blob.digest.text(),
                               .media_type = blob.facts.media_type,
                               .done = blob.size,
                               .total = blob.size,
                               .is_stored = true});
    }

    [[nodiscard]] content::Remote remote(std::string_view what, std::string_view which) const {
        content::Remote remote{.urls = {}, .scope = "repository:" + reference_.repository + ":pull"};
        for (RegistryHost const& host : access_.hosts)
            if (host.has_content) remote.urls.push_back(url(host, what, which));
        return remote;
    }

    /// What a tag means is asked only of those that may say it.
    [[nodiscard]] content::Remote root_remote() const {
        if (!reference_.digest.empty()) return remote("manifests", reference_.digest);
        content::Remote root = remote("manifests", reference_.tag);
        root.urls.clear();
        for (RegistryHost const& host : access_.hosts)
            if (host.has_content && host.resolves) root.urls.push_back(url(host, "manifests", reference_.tag));
        return root;
    }

    [[nodiscard]] std::string url(RegistryHost const& host, std::string_view what, std::string_view which) const {
        std::string text = host.settings.base + "/" + reference_.repository;
        text.append("/").append(what).append("/").append(which);
        return host.query.empty() ? text : text + "?" + host.query;
    }

    /// Reports each server that could not help, once.
    [[nodiscard]] std::function<void(role::PassedOver const&)> passed_over() {
        if (access_.access.servers.empty()) return {};
        return [this](role::PassedOver const& one) {
            if (!reported_.insert(one.host).second) return;
            shop_->observer->warning(reference_.text() + ": another server is asked: " + one.reason);
        };
    }

    Result<OciDocument> fetch(content::DocumentRequest const& request) {
        content::Watcher watcher = shop_->watch(reference_.text());
        watcher.passed_over = passed_over();
        auto document = TRY(fetcher_.fetch_document(access_.access, request, watcher));
        shop_->observer->blob({.digest = document.digest.text(),
                               .media_type = document.media_type,
                               .done = document.size,
                               .total = document.size,
                               .is_stored = true});
        return OciDocument{document.digest, document.size, std::move(document.media_type), std::move(document.json)};
    }

    Workshop* shop_;
    content::LeaseId lease_;
    RegistryReference reference_;
    RegistryAccess access_;
    content::Fetcher fetcher_;
    std::set<std::string> reported_;
};

/// Finds the entry of a registry, with whose policy and credentials its images are imported. The port that a scheme has
/// anyway makes no difference.
Source const* source_of(Configuration const& configuration, RegistryReference const& reference) {
    auto const found = std::ranges::find_if(configuration.sources, [&](Source const& source) {
        if (source.type != SourceType::registry) return false;
        std::string const scheme = source.url.substr(0, source.url.find("://") + 3);
        return std::ranges::any_of(std::array{std::string_view(reference.host), reference.endpoint()},
                                   [&](std::string_view host) {
                                       return host_of(canonical_url(scheme + std::string(host))) == host_of(source.url);
                                   });
    });
    return found == configuration.sources.end() ? nullptr : &*found;
}

/// The addresses that imgadm.conf has for a registry, else its own.
std::vector<std::string> bases_of(Source const* source, std::string const& endpoint, bool is_insecure) {
    if (source) {
        std::vector<std::string> bases{source->url};
        bases.insert(bases.end(), source->mirrors.begin(), source->mirrors.end());
        return bases;
    }
    if (is_loopback_host(endpoint)) return {"http://" + endpoint};
    std::vector<std::string> bases{"https://" + endpoint};
    if (is_insecure) bases.push_back("http://" + endpoint);
    return bases;
}

}  // namespace

Result<RegistryAccess> registry_access(Workshop const& shop, RegistryReference const& reference,
                                       ImportOptions const& options) {
    RegistryAccess access;
    access.source = source_of(shop.configuration, reference);
    std::vector<std::string> const bases =
        bases_of(access.source, std::string(reference.endpoint()), options.is_insecure);
    std::string credential_base = bases.front();
    std::vector<RegistryHost> const as_before(1);
    for (RegistryHost const& host : options.hosts.empty() ? as_before : options.hosts) {
        if (!host.settings.base.empty()) {
            access.hosts.push_back(host);
            credential_base = host.settings.base;
            continue;
        }
        credential_base = bases.front();
        for (std::string const& base : bases) {
            access.hosts.push_back(host);
            access.hosts.back().settings.base = base + "/v2";
        }
    }
    if (!options.hosts.empty()) {
        for (RegistryHost const& host : access.hosts)
            access.access.servers.push_back(host.settings);
    }
    std::string const host(host_of(credential_base));
    std::string const authfile = !options.authfile.empty() ? options.authfile
                                 : access.source           ? access.source->authfile
                                                           : std::string();
    std::string const name = reference.host + "/" + reference.repository;
    FoundCredential found;
    if (!options.credentials.empty())
        found.credential = TRY(credential_in(options.credentials, "what was given", name, host));
    else if (!authfile.empty())
        found = TRY(credential_of(authfile, name, host, shop.settings.cancel));
    if (!found.warning.empty()) shop.observer->warning(found.warning);
    if (found.credential) access.access.credentials.push_back(*std::move(found.credential));
    access.access.proxies = TRY(proxies_for(shop, access.source, authfile));
    if (access.source && !access.source->authorities.empty())
        access.access.authorities = TRY(read_file(access.source->authorities, largest_authorities));
    return access;
}

std::unique_ptr<OciOrigin> open_registry(Workshop& shop, content::LeaseId lease, RegistryReference const& reference,
                                         RegistryAccess access) {
    return std::make_unique<RegistryOrigin>(shop, lease, reference, std::move(access));
}

}  // namespace triton::image
