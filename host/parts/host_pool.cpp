#include "host/parts/host_pool.h"

#include "host/image/site.h"

namespace triton::parts {

Result<std::unique_ptr<storage::Pool>> open_host_pool(machine::Layout const& layout) {
    return storage::open_pool(TRY(image::read_site(image::Settings{.root = layout.root})).storage);
}

}  // namespace triton::parts
