// What the tests of host/content drive: the content store and the fetcher, as imgadm uses them, with words instead of
// images. usage: content_tool DIRECTORY COMMAND [NAME=VALUE...]

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "host/content/fetcher.h"
#include "host/content/store.h"
#include "lib/base/error_kinds.h"
#include "lib/base/read_file.h"
#include "lib/base/write_all.h"
#include "lib/files/sha256.h"
#include "lib/json/writer.h"

namespace {

using namespace triton;
using namespace triton::content;

class Words {
public:
    explicit Words(std::vector<std::string> const& words) {
        for (std::string const& word : words)
            values_[word.substr(0, word.find('='))].push_back(word.substr(word.find('=') + 1));
    }
    std::string text(std::string const& name, std::string const& otherwise = "") const {
        auto const found = values_.find(name);
        return found == values_.end() ? otherwise : found->second.back();
    }
    std::uint64_t number(std::string const& name, std::uint64_t otherwise) const {
        return has(name) ? std::strtoull(text(name).c_str(), nullptr, 10) : otherwise;
    }
    bool has(std::string const& name) const { return values_.contains(name); }
    std::vector<std::string> all(std::string const& name) const {
        auto const found = values_.find(name);
        return found == values_.end() ? std::vector<std::string>{} : found->second;
    }

private:
    std::map<std::string, std::vector<std::string>> values_;
};

void print(json::Writer writer) {
    std::string const text = std::move(writer).text() + "\n";
    (void)write_all(STDOUT_FILENO, text);
}

json::Writer described(Blob const& blob) {
    json::Writer writer;
    writer.open('{').member("digest", blob.digest.text()).member("size", blob.size);
    writer.member("mediaType", blob.facts.media_type).member("source", blob.facts.source);
    writer.member("quarantined", blob.quarantined).close('}');
    return writer;
}

int failed(Error const& error) {
    json::Writer writer;
    writer.open('{').member("error", row_of(error.kind).name).member("text", error.text()).close('}');
    print(std::move(writer));
    return 1;
}

Result<Digest> digest_of(Words const& words) { return Digest::parse(words.text("digest")); }
TimePoint in_a_minute() { return std::chrono::steady_clock::now() + std::chrono::minutes(1); }

// Commands.

Result<> put(Store& store, Words const& words) {
    std::string const content = TRY(read_file(words.text("file"), 1 << 30));
    files::Sha256 hash;
    hash.add(content);
    Digest const digest = TRY(Digest::of_hex(std::move(hash).take_hex()));
    Ingest ingest = TRY(store.begin_ingest(words.text("key", digest.text()), in_a_minute()));
    TRY(ingest.reserve(content.size()));
    {
        UniqueFd const file = TRY(ingest.open_for_writing());
        if (!write_all(file.get(), content)) return fail(errno, "write the file of an ingest");
    }
    Protection protection;
    if (words.has("kept-by")) protection.owner = Owner{"test", words.text("kept-by")};
    if (words.has("lease")) protection.lease = TRY(store.make_lease("test", milliseconds(words.number("lease", 0))));
    Blob const blob = TRY(store.commit(std::move(ingest), digest, {.source = "put"}, protection));
    if (words.has("owner")) TRY(store.add_references({"test", words.text("owner")}, std::array{digest}));
    print(described(blob));
    return {};
}

Result<> begin(Store& store, Words const& words) {
    Ingest const ingest = TRY(store.begin_ingest(words.text("key"), in_a_minute()));
    return ingest.reserve(words.number("size", 0));
}

Result<> list(Store& store, Words const&) {
    for (Blob const& blob : TRY(store.list()))
        print(described(blob));
    return {};
}

/// Every blob that find() gives can be opened and is what its name says.
Result<> check(Store& store, Words const&) {
    TRY(store.database().check());
    for (Blob const& blob : TRY(store.list())) {
        if (!blob.quarantined.empty()) continue;
        UniqueFd const file = TRY(store.open_blob(blob.digest));
        files::Sha256 hash;
        hash.add(TRY(read_open_file(file.get(), "blob", 1 << 30)));
        if (std::move(hash).take_hex() != blob.digest.hex()) return fail(ErrorKind::corrupt, blob.digest.text());
    }
    return {};
}

Result<> refer(Store& store, Words const& words) {
    return store.add_references({"test", words.text("owner")}, std::array{TRY(digest_of(words))});
}
Result<> release(Store& store, Words const& words) { return store.remove_references({"test", words.text("owner")}); }
Result<> quarantine(Store& store, Words const& words) {
    return store.quarantine(TRY(digest_of(words)), words.text("reason", "test"));
}

Result<> gc(Store& store, Words const& words) {
    GcSettings settings{.dry_run = words.has("dry-run")};
    if (words.has("ingest-grace")) settings.ingest_grace = milliseconds(words.number("ingest-grace", 0));
    for (Victim const& victim : TRY(store.gc(settings))) {
        json::Writer writer;
        writer.open('{').member("name", victim.name).member("bytes", victim.bytes).member("reason", victim.reason);
        print(std::move(writer.close('}')));
    }
    return {};
}

Result<> scrub(Store& store, Words const&) {
    return store.scrub([](Scrubbed const& scrubbed) {
        json::Writer writer;
        writer.open('{').member("digest", scrubbed.digest.text()).member("bytes", scrubbed.bytes);
        if (scrubbed.fault) writer.member("fault", *scrubbed.fault);
        print(std::move(writer.close('}')));
        return true;
    });
}

Access access_of(Words const& words) {
    role::Proxy const proxy{.url = words.text("proxy")};
    Access access{.proxies = {.http = proxy, .https = proxy, .no_proxy = words.text("no-proxy")},
                  .bytes_per_second = words.number("rate", 0)};
    access.stall = milliseconds(words.number("stall", 10'000));
    if (words.has("ca")) access.authorities = read_file(words.text("ca"), 1 << 20).value_or("");
    // From a file: a command line is for everybody to read.
    if (words.has("password-file")) {
        access.credentials.push_back({.host = words.text("host"),
                                      .user = words.text("user"),
                                      .password = read_file(words.text("password-file"), 4096).value_or("")});
    }
    return access;
}

FetcherSettings fetcher_settings(Words const& words) {
    FetcherSettings settings;
    settings.retry = {.attempts = static_cast<unsigned>(words.number("attempts", 4)),
                      .first = milliseconds(words.number("first-wait", 20)),
                      .longest = milliseconds(words.number("longest-wait", 2000))};
    settings.streams = static_cast<unsigned>(words.number("streams", settings.streams));
    settings.role_silence = milliseconds(words.number("silence", 30'000));
    settings.range_bytes = words.number("range-bytes", settings.range_bytes);
    settings.parallel_from = words.number("parallel-from", settings.parallel_from);
    return settings;
}

void show(Progress const& progress) {
    json::Writer writer;
    writer.open('{').member("phase", name_of(progress.phase)).member("bytes", progress.bytes);
    writer.member("request", progress.request).member("resumed", progress.resumed);
    if (progress.size) writer.member("size", *progress.size);
    writer.member("rate", progress.bytes_per_second).member("waitingFor", progress.waiting_for);
    print(std::move(writer.close('}')));
}

/// Readable once somebody wants us to end.
UniqueFd cancelled_by_signal() {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGINT);
    ::sigaddset(&signals, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &signals, nullptr);
    return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC));
}

Result<> fetch(Store& store, Words const& words) {
    BlobRequest request{
        .remote = {.urls = words.all("url"), .accept = words.all("accept"), .scope = words.text("scope")},
        .most_bytes = words.number("most", 1ULL << 40)};
    if (words.has("size")) request.size = words.number("size", 0);
    UniqueFd const cancel = cancelled_by_signal();
    Watcher watcher{.cancel = cancel.get()};
    if (words.has("progress")) watcher.progress = show;
    if (words.has("kept-by")) request.protection.owner = Owner{"test", words.text("kept-by")};
    std::vector<BlobRequest> requests;
    for (std::string const& digest : words.all("digest")) {
        requests.push_back(request);
        requests.back().digest = TRY(Digest::parse(digest));
        if (words.has("each")) requests.back().remote.urls = {request.remote.urls.front() + digest};
    }
    if (requests.empty()) requests.push_back(request);
    Fetcher fetcher(store, fetcher_settings(words));
    std::optional<Error> error;
    for (auto const& result : fetcher.fetch_blobs(access_of(words), requests, watcher)) {
        if (result)
            print(described(*result));
        else if (!error)
            error = result.error();
    }
    if (error) return std::unexpected(*error);
    return {};
}

Result<> document(Store& store, Words const& words) {
    DocumentRequest request{
        .remote = {.urls = words.all("url"), .accept = words.all("accept"), .scope = words.text("scope")},
        .most_bytes = words.number("most", 4 << 20)};
    if (words.has("digest")) request.digest = TRY(digest_of(words));
    request.is_kept = !words.has("drop");
    Watcher watcher;
    if (words.has("gc-when-stored")) {
        watcher.finished = [&store](std::size_t /*request*/, Result<Blob> const& /*result*/) {
            auto other = Store::open(store.directory());
            if (!other || !other->gc()) std::abort();
        };
    }
    Fetcher fetcher(store, fetcher_settings(words));
    Document const got = TRY(fetcher.fetch_document(access_of(words), request, watcher));
    json::Writer writer;
    writer.open('{').member("digest", got.digest.text()).member("size", got.size).member("json", got.json).close('}');
    print(std::move(writer));
    return {};
}

std::map<std::string_view, Result<> (*)(Store&, Words const&)> const commands{
    {"put", put},           {"begin", begin}, {"list", list},   {"check", check},           {"refer", refer},
    {"release", release},   {"gc", gc},       {"scrub", scrub}, {"quarantine", quarantine}, {"fetch", fetch},
    {"document", document},
};

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> const arguments(argv + 1, argv + argc);
    auto const command = arguments.size() < 2 ? commands.end() : commands.find(arguments[1]);
    if (command == commands.end()) return 2;
    Words const words({arguments.begin() + 2, arguments.end()});
    StoreSettings settings;
    settings.least_free_bytes = words.number("least-free", 1 << 20);
    auto store = Store::open(arguments[0], settings);
    if (!store) return failed(store.error());
    auto const done = command->second(*store, words);
    return done ? 0 : failed(done.error());
}
