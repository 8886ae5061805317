#include "host/image/local_content.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

namespace triton::image {

namespace {

constexpr auto source_patience = std::chrono::hours(1);

/// Returns an empty ingest: copying from this host is never resumed.
Result<content::Ingest> empty_ingest(Workshop& shop, std::string_view key) {
    TimePoint const deadline = std::chrono::steady_clock::now() + source_patience;
    auto ingest = TRY(shop.store.begin_ingest(key, deadline, shop.settings.cancel));
    TRY(ingest.restart());
    return ingest;
}

/// Names an ingest whose digest is not known: by the file itself.
Result<std::string> key_of_file(int source) {
    struct stat status{};
    if (::fstat(source, &status) < 0) return fail(errno, "look at a file");
    return "file " + std::to_string(status.st_dev) + " " + std::to_string(status.st_ino) + " " +
           std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
           std::to_string(status.st_mtim.tv_nsec);
}

/// Returns the blob if the store has it already.
Result<std::optional<content::Blob>> known_blob(Workshop& shop, content::LeaseId lease,
                                                role::Expected const& expected) {
    if (!expected.digest) return std::optional<content::Blob>();
    if (!TRY(shop.store.protect(shop.protection(lease), *expected.digest))) return std::optional<content::Blob>();
    return shop.store.find(*expected.digest);
}

}  // namespace

Result<content::Blob> store_file(Workshop& shop, content::LeaseId lease, int source, role::Expected const& expected,
                                 content::BlobFacts const& facts) {
    if (auto known = TRY(known_blob(shop, lease, expected))) return *std::move(known);
    std::string const key = expected.digest ? expected.digest->text() : TRY(key_of_file(source));
    auto ingest = TRY(empty_ingest(shop, key));
    if (auto known = TRY(known_blob(shop, lease, expected))) {  // another process was faster
        TRY(shop.store.abandon(std::move(ingest)));
        return *std::move(known);
    }
    std::uint64_t const size = TRY(size_of(source, "what is imported"));
    TRY(ingest.reserve(size));
    UniqueFd writable = TRY(ingest.open_for_writing());
    auto const verified = content::check_file(shop.jobs(), expected, source, writable.get());
    if (!verified) {
        (void)shop.store.abandon(std::move(ingest));  // the error to report is that of the bytes
        return std::unexpected(verified.error());
    }
    UniqueFd const unwritable = TRY(content::prove_unwritable(std::move(writable)));
    return shop.store.commit(std::move(ingest), verified->digest, facts, shop.protection(lease));
}

Result<content::CheckedDocument> store_document(Workshop& shop, content::LeaseId lease, UniqueFd source,
                                                role::ReadDocument const& request, content::BlobFacts const& facts) {
    if (request.expected.digest && TRY(shop.store.protect(shop.protection(lease), *request.expected.digest)))
        return content::check_document(shop.jobs(), request, std::move(source));
    std::string const key = request.expected.digest ? request.expected.digest->text() : TRY(key_of_file(source.get()));
    auto ingest = TRY(empty_ingest(shop, key));
    UniqueFd writable = TRY(ingest.open_for_writing());
    auto document = content::check_document(shop.jobs(), request, std::move(source), writable.get());
    if (!document) {
        (void)shop.store.abandon(std::move(ingest));  // the error to report is that of the content
        return document;
    }
    UniqueFd const unwritable = TRY(content::prove_unwritable(std::move(writable)));
    TRY(shop.store.commit(std::move(ingest), document->digest, facts, shop.protection(lease)));
    return document;
}

Result<std::uint64_t> size_of(int file, std::string_view shown) {
    struct stat status{};
    if (::fstat(file, &status) < 0) return fail(errno, "look at " + std::string(shown));
    if (!S_ISREG(status.st_mode)) return fail(std::string(shown) + " is not a regular file");
    return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace triton::image
