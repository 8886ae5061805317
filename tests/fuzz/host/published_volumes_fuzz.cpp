// Arbitrary bytes as a file of volumes.d, which has the objects of publishers: no crash, a reason for each refusal, and
// an accepted object is written to the database in a form that is read as the same object.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "host/volume/keys.h"
#include "programs/volumemgr/published_files.h"

namespace {

using namespace triton;

void require(bool holds) {
    if (!holds) std::abort();
}

bool is_inside(std::string const& path) {
    return !path.empty() && path.front() != '/' && !("/" + path + "/").contains("/../");
}

bool is_plain(std::string_view text) {
    return text.find_first_of(std::string_view("\0\n/", 3)) == std::string_view::npos && text != "." && text != "..";
}

/// Whether a key can be the name of a file, and leads back to the object.
struct CheckKey {
    std::string key;
    void operator()(volume::VolumeConfig const& one) const {
        require(volume::VolumeKey::parse(key) == one.key);
        require(one.source.has_value() == (one.origin == volume::Origin::clone));
        require(one.content.empty() || volume::is_content_id(one.content));
    }
    void operator()(volume::ReferenceConfig const& one) const {
        auto const parsed = volume::ReferenceKey::parse(key);
        require(parsed && parsed->volume == one.key.volume && parsed->user == one.key.user);
    }
    void operator()(volume::TreeConfig const& one) const {
        require(volume::is_content_id(key));
        require(is_inside(one.name) && !one.datastores.empty());
        if (!one.signature) return;
        require(one.signature->name.empty() != one.signature->text.empty());
        require(one.signature->name.empty() || is_inside(one.signature->name));
        require(one.signature->sums.empty() || is_inside(one.signature->sums));
        require(one.signature->holder.has_value() == volume::has_certificates(one.signature->kind));
    }
    void operator()(volume::DatastoreConfig const& one) const {
        require(Uuid::parse(key) == one.id);
        require(one.path.empty() || is_inside(one.path));
        require(one.credentials.empty() || one.credentials.front() == '/');
    }
    void operator()(volume::SnapshotConfig const& one) const {
        require(volume::SnapshotKey::parse(key) == one.key && !one.volumes.empty());
    }
    void operator()(volume::CertificatesConfig const& one) const {
        require(volume::HolderKey::parse(key) == one.key);
        require(!one.datastores.empty() && !one.certificates.empty());
        for (volume::CertificatesConfig::Certificate const& certificate : one.certificates)
            require(is_inside(certificate.name));
    }
};

void check(volume::Config const& config) {
    std::string const key = volume::key_of(config);
    require(!key.empty() && is_plain(key));
    std::visit(CheckKey{key}, config);
    std::string const text = volume::config_text(config);
    json::ProblemList problems(1);
    auto const node = json::read_json(text, {}, problems);
    auto const* const object = node ? node->get<json::Object>() : nullptr;
    require(object != nullptr);
    auto const again = volume::read_config(volume::kind_of(config), *object, volume::publisher_of(config));
    require(again && *again == config && volume::config_text(*again) == text);
}

int run(std::uint8_t const* data, std::size_t size) {
    std::string_view const text(reinterpret_cast<char const*>(data), size);
    auto const configs = program::parse_published_file(text, "file");
    if (!configs) {
        require(configs.error().text().starts_with("file: "));
        return 0;
    }
    for (volume::Config const& config : *configs)
        check(config);
    return 0;
}

}  // namespace

extern "C" int published_volumes_fuzz(std::uint8_t const* data, std::size_t size) { return run(data, size); }

#ifndef FUZZ_REPLAY
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    return published_volumes_fuzz(data, size);
}
#endif
