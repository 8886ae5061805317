#include "host/cri/images/image_calls.h"

#include <algorithm>
#include <utility>

#include "host/cri/images/image_name.h"
#include "host/cri/wire/typed.h"
#include "lib/base/clock.h"
#include "lib/http/grpc/status.h"
#include "lib/json/writer.h"

namespace triton::cri {

namespace {

using http::grpc::Call;
using http::grpc::Code;
using http::grpc::Status;

constexpr std::size_t reader_threads = 2;
constexpr std::size_t remover_threads = 1;
constexpr std::size_t images_at_once = 1000;  // in a message of a stream

std::string valid(std::string_view text) { return http::grpc::valid_utf8(text); }

v1::Image image_of(ImageRecord const& record) {
    v1::Image image;
    image.set_id(record.id);
    for (std::string const& tag : record.repo_tags)
        image.add_repo_tags(valid(tag));
    for (std::string const& digest : record.repo_digests)
        image.add_repo_digests(valid(digest));
    image.set_size(record.size);
    if (record.user_id)
        image.mutable_uid()->set_value(*record.user_id);
    else
        image.set_username(valid(record.user_name));
    image.set_pinned(record.is_pinned);
    return image;
}

/// The images that a filter takes: all, or the one that it names.
Result<std::vector<ImageRecord>> filtered(ImageLibrary& library, std::string const& name) {
    auto records = TRY(library.list());
    if (name.empty()) return records;
    auto const found = find_record(records, name);
    if (!found || !*found) return std::vector<ImageRecord>();
    return std::vector{**found};
}

Result<std::string> list_images(ImageLibrary& library, std::string const& name) {
    v1::ListImagesResponse response;
    for (ImageRecord const& record : TRY(filtered(library, name)))
        *response.add_images() = image_of(record);
    return response.SerializeAsString();
}

/// Sends images in pieces, each when the client has taken the one before it.
class ImageStream : public std::enable_shared_from_this<ImageStream> {
public:
    ImageStream(std::shared_ptr<Call> call, std::vector<ImageRecord> records)
        : call_(std::move(call)), records_(std::move(records)) {}

    void start() {
        call_->when_drained([self = shared_from_this()] { self->send(); });
        send();
    }

private:
    void send() {
        std::size_t const end = std::min(next_ + images_at_once, records_.size());
        if (next_ == end) return call_->finish();
        v1::StreamImagesResponse response;
        for (; next_ < end; ++next_)
            *response.add_images() = image_of(records_[next_]);
        call_->send(response.SerializeAsString());
    }

    std::shared_ptr<Call> call_;
    std::vector<ImageRecord> records_;
    std::size_t next_ = 0;
};

/// What only people want to know.
std::string info_text(ImageRecord const& record) {
    json::Writer out;
    out.open('{')
        .member("uuid", record.uuid.text())
        .member("platform", record.platform)
        .member("installedAt", record.installed_at)
        .close('}');
    return std::move(out).text();
}

Result<std::string> image_status(ImageLibrary& library, std::string const& name, bool is_verbose) {
    auto const records = TRY(library.list());
    ImageRecord const* const found = TRY(find_record(records, name));
    v1::ImageStatusResponse response;
    if (found) *response.mutable_image() = image_of(*found);
    if (found && is_verbose) (*response.mutable_info())["info"] = valid(info_text(*found));
    return response.SerializeAsString();
}

Result<std::string> file_system_info(ImageLibrary& library) {
    ImageUsage const usage = TRY(library.usage());
    v1::FilesystemUsage one;
    one.set_timestamp(wall_microseconds() * 1000);
    one.mutable_fs_id()->set_mountpoint(valid(usage.mountpoint));
    one.mutable_used_bytes()->set_value(usage.bytes);
    one.mutable_inodes_used()->set_value(usage.inodes);
    v1::ImageFsInfoResponse response;
    *response.add_image_filesystems() = one;
    *response.add_container_filesystems() = one;  // containers will be on the same one
    return response.SerializeAsString();
}

/// kubelet looks for the beginning of the message, and takes the prefix of gRPC off only when the code is UNKNOWN.
Status status_of_pull(Error const& error) {
    Status status = http::grpc::status_of(error);
    bool const is_unreachable = error.kind == ErrorKind::unavailable || error.kind == ErrorKind::timeout;
    if (is_unreachable) status = {Code::unknown, "RegistryUnavailable: " + status.message};
    return status;
}

Credentials credentials_of(v1::AuthConfig const& auth) {
    return {.user = auth.username(),
            .password = auth.password(),
            .both = auth.auth(),
            .server = auth.server_address(),
            .identity_token = auth.identity_token(),
            .registry_token = auth.registry_token()};
}

}  // namespace

ImageCalls::ImageCalls(ImageLibrary& library, std::size_t parallel_pulls, Surroundings around)
    : library_(library),
      around_(std::move(around)),
      pulls_([this](PullKey const& key, int cancel, Pulls::Done finished) {
          return start_pull(key, cancel, std::move(finished));
      }),
      readers_(reader_threads),
      removers_(remover_threads),
      pullers_(parallel_pulls) {}

ImageCalls::~ImageCalls() = default;

void ImageCalls::answer_from(Workers& workers, CallPtr const& call, Make make) {
    auto const queued = workers.run([this, call = CallPtr(call), make = std::move(make)]() mutable {
        // The call is used and destroyed in its own thread.
        auto answer = std::make_shared<Result<std::string>>(make());
        around_.post([call = std::exchange(call, nullptr), answer] {
            if (*answer)
                call->answer(**answer);
            else
                call->finish(http::grpc::status_of(answer->error()));
        });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

void ImageCalls::stream_images(CallPtr const& call, std::string const& name) {
    auto const queued = readers_.run([this, call = CallPtr(call), name]() mutable {
        auto records = std::make_shared<Result<std::vector<ImageRecord>>>(filtered(library_, name));
        around_.post([call = std::exchange(call, nullptr), records] {
            if (!*records) return call->finish(http::grpc::status_of(records->error()));
            std::make_shared<ImageStream>(call, std::move(**records))->start();
        });
    });
    if (!queued) call->finish(http::grpc::status_of(queued.error()));
}

Result<> ImageCalls::start_pull(PullKey const& key, int cancel, Pulls::Done finished) {
    return pullers_.run([this, key, cancel, finished = std::move(finished)]() mutable {
        auto const pull = [&]() -> Result<std::string> {
            auto const reference = TRY(parse_image_name(key.reference));
            return library_.pull(reference, key.credentials, cancel);
        };
        auto id = std::make_shared<Result<std::string>>(pull());
        around_.post([this, id, reference = key.reference, finished = std::exchange(finished, nullptr)] {
            around_.pulled(reference, *id);
            finished(*id);
        });
    });
}

void ImageCalls::add_to(Router& router) {
    router.on(method("ListImages"), typed<v1::ListImagesRequest>([this](CallPtr const& call, auto const& request) {
                  answer_from(readers_, call,
                              [this, name = request.filter().image().image()] { return list_images(library_, name); });
              }));
    router.on(method("StreamImages"), typed<v1::StreamImagesRequest>([this](CallPtr const& call, auto const& request) {
                  stream_images(call, request.filter().image().image());
              }));
    router.on(method("ImageStatus"), typed<v1::ImageStatusRequest>([this](CallPtr const& call, auto const& request) {
                  answer_from(readers_, call, [this, name = request.image().image(), verbose = request.verbose()] {
                      return image_status(library_, name, verbose);
                  });
              }));
    router.on(method("ImageFsInfo"),
              typed<v1::ImageFsInfoRequest>([this](CallPtr const& call, auto const& /*request*/) {
                  answer_from(readers_, call, [this] { return file_system_info(library_); });
              }));
    router.on(method("RemoveImage"), typed<v1::RemoveImageRequest>([this](CallPtr const& call, auto const& request) {
                  answer_from(removers_, call, [this, name = request.image().image()]() -> Result<std::string> {
                      TRY(library_.remove(name));
                      return v1::RemoveImageResponse().SerializeAsString();
                  });
              }));
    router.on(method("PullImage"), typed<v1::PullImageRequest>([this](CallPtr const& call, auto const& request) {
                  auto const reference = parse_image_name(request.image().image());
                  if (!reference) return call->finish(http::grpc::status_of(reference.error()));
                  std::string const authfile = authfile_text(credentials_of(request.auth()), *reference);
                  pulls_.pull({reference->text(), authfile}, [call](Result<std::string> const& id) {
                      if (!id) return call->finish(status_of_pull(id.error()));
                      v1::PullImageResponse response;
                      response.set_image_ref(*id);
                      call->answer(response.SerializeAsString());
                  });
              }));
}

}  // namespace triton::cri
