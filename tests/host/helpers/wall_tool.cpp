// The library's side of the wall as a command, for the Python tests: each job prints what came of it, as JSON or as the
// text of the error with its kind.
//
//   wall_tool receive FILE MAXIMUM [size=N] [digest=D] [sha1=S] [landed=OFFSET+LENGTH]... range=OFFSET[+LENGTH]=PATH...
//   end=N wall_tool check FILE SOURCE MAXIMUM [size=N] [digest=D] wall_tool document KIND SOURCE MAXIMUM [size=N]
//   [digest=D] [type=T] [layers=N] [keep=FILE] wall_tool signature KIND NAME DIGEST SIGNED SIGNATURE KEYS
//   [roots=FILE] wall_tool unwritable FILE [writer]
// LIBEXEC, where it is set, is where the roles are.

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>

#include "host/content/unpack_job.h"
#include "host/content/verify_job.h"
#include "lib/base/read_file.h"
#include "lib/json/writer.h"

namespace {

using namespace triton;

TimePoint later() { return std::chrono::steady_clock::now() + std::chrono::seconds(120); }

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

UniqueFd open_file(std::string const& path, int flags) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
    if (!fd) {
        std::perror(path.c_str());
        std::exit(2);
    }
    return fd;
}

content::JobSettings settings() {
    char const* const directory = std::getenv("LIBEXEC");
    return {.role = {.directory = directory ? directory : ""}};
}

struct Words {
    std::vector<std::string> plain;
    std::vector<std::pair<std::string, std::string>> named;

    [[nodiscard]] std::string const* find(std::string_view name) const {
        for (auto const& [key, value] : named)
            if (key == name) return &value;
        return nullptr;
    }
};

role::Expected expected(std::string const& maximum, Words const& words) {
    role::Expected wanted{.maximum = number(maximum)};
    if (auto const* const size = words.find("size")) wanted.size = number(*size);
    if (auto const* const digest = words.find("digest")) wanted.digest = role::Digest::parse(*digest).value();
    if (auto const* const sha1 = words.find("sha1")) wanted.sha1 = *sha1;
    return wanted;
}

role::Interval interval(std::string_view text) {
    std::size_t const plus = text.find('+');
    return {number(text.substr(0, plus)), plus == text.npos ? UINT64_MAX : number(text.substr(plus + 1))};
}

template <class T>
int show(Result<T> const& result) {
    if (result) return std::printf("%s\n", role::encode(*result).c_str()), 0;
    return 1;
}

int show(Error const& error) {
    std::printf("%s: %s\n", std::string(row_of(error.kind).name).c_str(), error.text().c_str());
    for (std::string const& detail : error.details)
        std::printf("  %s\n", detail.c_str());
    return 1;
}

int receive(Words const& words) {
    std::vector<role::Interval> landed;
    for (auto const& [key, value] : words.named)
        if (key == "landed") landed.push_back(interval(value));
    UniqueFd const file = open_file(words.plain.at(0), O_RDWR | O_CREAT);
    auto job = content::VerifyJob::start(settings(), expected(words.plain.at(1), words), file.get(), landed);
    if (!job) return show(job.error());
    std::uint32_t open = 0;
    for (auto const& [key, value] : words.named) {
        if (key != "range") continue;
        std::size_t const equals = value.find('=');
        role::Interval const range = interval(value.substr(0, equals));
        std::optional<std::uint64_t> const length =
            range.length == UINT64_MAX ? std::nullopt : std::optional(range.length);
        auto const added = job->add_range(++open, range.offset, length, open_file(value.substr(equals + 1), O_RDONLY));
        if (!added) return show(added.error());
    }
    for (;;) {
        if (open == 0) {
            open = UINT32_MAX;
            if (auto const ended = job->end(number(*words.find("end"))); !ended) return show(ended.error());
        }
        auto const event = job->next(later());
        if (!event) return show(event.error());
        if (auto const* const verified = std::get_if<role::Verified>(&*event))
            return std::printf("%s\n", role::encode(*verified).c_str()), 0;
        if (std::holds_alternative<role::RangeEnded>(*event)) --open;
    }
}

int check(Words const& words) {
    UniqueFd const file = open_file(words.plain.at(0), O_RDWR | O_CREAT);
    UniqueFd const source = open_file(words.plain.at(1), O_RDONLY);
    auto const verified = content::check_file(settings(), expected(words.plain.at(2), words), source.get(), file.get());
    return verified ? show(verified) : show(verified.error());
}

int document(Words const& words) {
    role::ReadDocument request{.expected = expected(words.plain.at(2), words)};
    for (std::size_t i = 0; i < role::document_kind_names.size(); ++i)
        if (role::document_kind_names[i] == words.plain.at(0)) request.kind = static_cast<role::DocumentKind>(i);
    if (auto const* const type = words.find("type")) request.media_type = *type;
    if (auto const* const layers = words.find("layers"))
        request.most_layers = static_cast<std::uint32_t>(number(*layers));
    UniqueFd kept;
    if (auto const* const path = words.find("keep")) kept = open_file(*path, O_RDWR | O_CREAT);
    auto const answer =
        content::check_document(settings(), request, open_file(words.plain.at(1), O_RDONLY), kept.get());
    if (!answer) return show(answer.error());
    std::printf("%s\n", role::encode(role::CheckedDocument{answer->size, answer->digest, answer->media_type}).c_str());
    std::printf("%s\n", answer->json.c_str());
    return 0;
}

int signature(Words const& words) {
    content::SignatureRequest request;
    request.name = words.plain.at(1);
    for (std::size_t i = 0; i < role::signature_kind_names.size(); ++i)
        if (role::signature_kind_names[i] == words.plain.at(0)) request.kind = static_cast<role::SignatureKind>(i);
    if (auto const* const path = words.find("roots")) request.roots = read_file(*path, 1 << 20).value();
    request.digest = role::Digest::parse(words.plain.at(2)).value();
    UniqueFd const file = open_file(words.plain.at(3), O_RDONLY);
    request.signed_file = file.get();
    request.signature = read_file(words.plain.at(4), 1 << 20).value();
    request.keys = read_file(words.plain.at(5), 1 << 20).value();
    auto const by = content::check_signature(settings(), request);
    return by ? show(by) : show(by.error());
}

int unwritable(Words const& words) {
    UniqueFd const writer = words.plain.size() > 1 ? open_file(words.plain[0], O_WRONLY) : UniqueFd();
    auto const reader = content::prove_unwritable(open_file(words.plain.at(0), O_RDWR));
    if (!reader) return show(reader.error());
    bool const is_for_reading = (::fcntl(reader->get(), F_GETFL) & O_ACCMODE) == O_RDONLY;
    return std::printf("%s\n", is_for_reading ? "proved" : "may still write"), 0;
}

int unpack(Words const& words) {
    content::UnpackRequest request;
    for (std::size_t i = 0; i < role::compression_names.size(); ++i)
        if (auto const* const name = words.find("compression"); name && role::compression_names[i] == *name)
            request.compression = static_cast<role::Compression>(i);
    if (auto const* const digest = words.find("diffid")) request.diff_id = role::Digest::parse(*digest).value();
    if (auto const* const entries = words.find("entries")) request.limits.entries = number(*entries);
    if (auto const* const bytes = words.find("bytes")) request.limits.bytes = number(*bytes);
    if (auto const* const depth = words.find("depth"))
        request.limits.depth = static_cast<std::uint32_t>(number(*depth));
    if (auto const* const seconds = words.find("seconds"))
        request.limits.seconds = static_cast<std::uint32_t>(number(*seconds));
    if (auto const* const free = words.find("free")) request.limits.least_free_bytes = number(*free);
    if (auto const* const free = words.find("free-inodes")) request.limits.least_free_inodes = number(*free);
    if (auto const* const ids = words.find("ids")) {
        role::Interval const range = interval(*ids);
        request.ids = {static_cast<std::uint32_t>(range.offset), static_cast<std::uint32_t>(range.length)};
    }
    request.applies_whiteouts = words.plain.size() < 3;
    UniqueFd const archive = open_file(words.plain.at(0), O_RDONLY);
    UniqueFd const directory = open_file(words.plain.at(1), O_RDONLY | O_DIRECTORY);
    auto const unpacked = content::unpack(settings(), request, archive.get(), directory.get());
    return unpacked ? show(unpacked) : show(unpacked.error());
}

}  // namespace

int main(int argc, char** argv) {
    std::map<std::string, int (*)(Words const&)> const commands{{"receive", receive},       {"check", check},
                                                                {"document", document},     {"signature", signature},
                                                                {"unwritable", unwritable}, {"unpack", unpack}};
    Words words;
    for (int i = 2; i < argc; ++i) {
        std::string const word = argv[i];
        std::size_t const equals = word.find('=');
        if (equals == word.npos || word.front() == '/')
            words.plain.push_back(word);
        else
            words.named.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
    auto const command = argc > 1 ? commands.find(argv[1]) : commands.end();
    return command == commands.end() ? 2 : command->second(words);
}
