#include "host/cri/sandbox/records_store.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "host/cri/sandbox/stored_pod.h"
#include "lib/base/read_file.h"

namespace triton::cri {

namespace {

constexpr std::size_t largest_record = 32U << 20U;

template <class Record>
Result<Record> read_record(std::string const& path, std::string const& id) {
    std::string const text = TRY(read_file(path, largest_record));
    Record record;
    if (!record.ParseFromString(text) || record.id() != id) return fail(ErrorKind::corrupt, path + " is not a record");
    return record;
}

std::vector<std::string> ids_in(std::string const& directory) {
    std::vector<std::string> ids;
    std::error_code error;
    for (auto const& entry : std::filesystem::directory_iterator(directory, error))
        if (std::string name = entry.path().filename().string(); is_id(name)) ids.push_back(std::move(name));
    return ids;
}

void put_aside(Places const& places, std::string const& path, std::string const& name) {
    std::error_code ignored;  // then it stays, and is met again
    (void)make_directories(places.archive());
    std::filesystem::rename(path, places.archive() + "/" + name, ignored);
}

}  // namespace

Result<> save(Places const& places, record::Pod const& pod, bool is_durable) {
    TRY(make_directories(places.container_records(pod.id())));
    return write_file(places.record(pod.id()), pod.SerializeAsString(), is_durable);
}

Result<> save(Places const& places, record::Container const& container) {
    return write_file(places.record(container.pod(), container.id()), container.SerializeAsString(), false);
}

std::vector<StoredPod> load_records(Places const& places, std::vector<std::string>& complaints) {
    std::vector<StoredPod> found;
    for (std::string const& id : ids_in(places.records())) {
        auto pod = read_record<record::Pod>(places.record(id), id);
        if (!pod) {
            complaints.push_back(pod.error().text());
            put_aside(places, places.record(id), id);
            put_aside(places, places.container_records(id), id + ".d");
            continue;
        }
        StoredPod stored{.pod = *std::move(pod), .containers = {}};
        for (std::string const& container : ids_in(places.container_records(id))) {
            auto read = read_record<record::Container>(places.record(id, container), container);
            if (read) {
                stored.containers.push_back(*std::move(read));
                continue;
            }
            complaints.push_back(read.error().text());
            put_aside(places, places.record(id, container), container);
        }
        found.push_back(std::move(stored));
    }
    return found;
}

}  // namespace triton::cri
