#include "host/content/journal.h"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/json/table.h"
#include "lib/json/values.h"
#include "lib/json/writer.h"

namespace triton::content {

using Offset = json::Integer<std::uint64_t, 0, INT64_MAX>;

namespace {

constexpr char const* file_name = "journal";
constexpr char const* new_name = "journal.new";

struct Record {
    std::string entity_tag;
    std::optional<std::uint64_t> size;
    std::vector<std::vector<std::uint64_t>> landed;
};

std::optional<std::string> read_tag(json::Node const& node, json::Where const& at, json::Reading& reading) {
    std::string const* const text = json::expect_string(node, at, reading);
    return text ? std::optional(*text) : std::nullopt;
}
using Tag = json::Kind<read_tag, json::any_text>;

std::span<json::Field<Record> const> table(json::TableOf<Record>) {
    static constexpr std::array<json::Field<Record>, 3> rows{{
        {.name = "etag", .value = json::as<&Record::entity_tag, Tag>},
        {.name = "size", .value = json::as<&Record::size, Offset>},
        {.name = "landed",
         .need = json::Need::required,
         .value = json::as<&Record::landed, json::List<json::List<Offset>>>},
    }};
    return rows;
}

}  // namespace

std::optional<Journal> read_journal(int directory) {
    UniqueFd const file{::openat(directory, file_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    if (!file) return std::nullopt;
    auto const text = read_open_file(file.get(), file_name, most_journal_bytes);
    if (!text) return std::nullopt;
    json::Reading reading(1);
    auto const node = json::read_json(*text, {.document_bytes = most_journal_bytes, .depth = 4}, reading.problems);
    if (!node) return std::nullopt;
    auto record = json::read_object<Record>(*node, json::Where{}, reading);
    if (!record || !reading.problems.empty()) return std::nullopt;
    Journal journal{.entity_tag = std::move(record->entity_tag), .size = record->size};
    for (auto const& pair : record->landed) {
        if (pair.size() != 2 || pair[0] >= pair[1]) return std::nullopt;
        journal.landed.add({pair[0], pair[1]});
    }
    return journal;
}

Result<> write_journal(int directory, Journal const& journal) {
    json::Writer writer;
    writer.open('{').member("etag", journal.entity_tag);
    if (journal.size) writer.member("size", *journal.size);
    writer.key("landed").open('[');
    std::size_t count = 0;
    for (Interval const& interval : journal.landed.list()) {
        if (++count > most_journal_intervals) break;
        writer.open('[').value(interval.begin).value(interval.end).close(']');
    }
    writer.close(']').close('}');
    UniqueFd const file{::openat(directory, new_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
    if (!file || !write_all(file.get(), writer.text()) || ::renameat(directory, new_name, directory, file_name) != 0)
        return fail(errno, "write the journal of an ingest");
    return {};
}

Result<> remove_journal(int directory) {
    for (char const* const name : {file_name, new_name})
        if (::unlinkat(directory, name, 0) != 0 && errno != ENOENT)
            return fail(errno, "remove the journal of an ingest");
    return {};
}

}  // namespace triton::content
