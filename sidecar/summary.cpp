#include "sidecar/summary.h"

#include <algorithm>

#include "lib/json/writer.h"

namespace triton::sidecar {

std::string json_summary(Round const& round) {
    json::Writer out;
    out.open('{').key("files").open('[');
    for (StagedFile const& file : round.files) {
        bool const is_reused = file.staged.outcome == files::Outcome::reused;
        out.open('{').member("path", file.path).member("bytes", file.staged.bytes);
        out.member("sha256", file.staged.sha256).member("result", is_reused ? "reused" : "copied").close('}');
    }
    out.close(']').key("errors").list(round.errors).close('}');
    return out.text() + "\n";
}

std::string progress_text(std::string_view name, std::uint64_t done, std::uint64_t all, Duration elapsed) {
    constexpr std::uint64_t mebibyte = 1 << 20;
    auto const ms = static_cast<std::uint64_t>(
        std::max<milliseconds::rep>(std::chrono::duration_cast<milliseconds>(elapsed).count(), 1));
    std::uint64_t const percent = all == 0 ? 100 : std::min<std::uint64_t>(done / (all / 100 + 1), 99);
    std::string text(name);
    text.append("  ").append(std::to_string(done >= all ? 100 : percent)).append(" %  ");
    text.append(std::to_string(done / mebibyte)).append(" MiB of ").append(std::to_string(all / mebibyte));
    return text.append(" MiB  ").append(std::to_string(done / mebibyte * 1000 / ms)).append(" MiB/s");
}

}  // namespace triton::sidecar
