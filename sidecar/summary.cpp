#include "sidecar/summary.h"

#include <algorithm>

#include "lib/json/text.h"

namespace triton::sidecar {

std::string json_summary(Round const& round) {
    std::string out = R"({"files":[)";
    for (StagedFile const& file : round.files) {
        if (&file != &round.files.front()) out += ',';
        out += R"({"path":)";
        json::append_json_string(out, file.path);
        out.append(R"(,"bytes":)").append(std::to_string(file.staged.bytes));
        out.append(R"(,"sha256":")").append(file.staged.sha256);
        out.append(R"(","result":)")
            .append(file.staged.outcome == files::Outcome::reused ? R"("reused"})" : R"("copied"})");
    }
    out += R"(],"errors":[)";
    for (std::string const& error : round.errors) {
        if (&error != &round.errors.front()) out += ',';
        json::append_json_string(out, error);
    }
    return out += "]}\n";
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
