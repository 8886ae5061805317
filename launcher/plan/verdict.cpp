#include "launcher/plan/verdict.h"

#include <cstdint>
#include <ctime>
#include <utility>

#include "launcher/plan/blocks.h"
#include "lib/base/duration.h"

namespace triton::launcher {

namespace {

/// The processor time that this process has used.
Duration time_used() {
    timespec now{};
    (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

constexpr std::string_view accepted_mark = "accepted";
constexpr std::string_view rejected_mark = "rejected";

Rejected read_rejected(BlockReader& in) {
    Rejected rejected;
    rejected.errors = in.blocks();
    rejected.warnings = in.blocks();
    rejected.remarks = in.blocks();
    rejected.missing_binaries = in.blocks();
    rejected.document = in.number();
    rejected.misses_node_label = in.number() != 0;
    return rejected;
}

Findings read_findings(BlockReader& in) {
    Findings findings;
    findings.commands = in.blocks();
    findings.filters.resize(in.count());
    for (process::SeccompFilter::Code& code : findings.filters)
        code = in.code();
    return findings;
}

}  // namespace

Verdict judge(SourceTexts const& texts, SourceOptions const& options, char const* const* environment, Duration most) {
    Verdict verdict;
    // The first result is freed before the second is made: PID 1 has only one of them, too.
    if (auto first =
            load_configuration(texts, options, environment, BinaryCheck::required, LoadKind::whole, &verdict.findings);
        !first) {
        verdict.rejected = std::move(first.error());
        return verdict;
    }
    Findings findings = verdict.findings;
    Duration const before = time_used();
    auto const rehearsed =
        load_configuration(texts, options, environment, BinaryCheck::required, LoadKind::follow, &findings);
    Duration const taken = time_used() - before;
    if (!rehearsed) {
        verdict.rejected = rehearsed.error();
    } else if (taken > most) {
        verdict.rejected = Rejected{.errors = {"it takes more than " + format_duration(most) + " to follow"},
                                    .document = hash_of(*texts.document)};
    }
    return verdict;
}

std::string write_verdict(Verdict const& verdict) {
    BlockWriter out;
    if (verdict.rejected) {
        out.add(rejected_mark);
        out.add(verdict.rejected->errors);
        out.add(verdict.rejected->warnings);
        out.add(verdict.rejected->remarks);
        out.add(verdict.rejected->missing_binaries);
        out.add(std::uint64_t{verdict.rejected->document});
        out.add(std::uint64_t{verdict.rejected->misses_node_label});
        return out.take();
    }
    out.add(accepted_mark);
    out.add(verdict.findings.commands);
    out.add(std::uint64_t{verdict.findings.filters.size()});
    for (process::SeccompFilter::Code const& code : verdict.findings.filters)
        out.add(code);
    return out.take();
}

Result<Verdict> read_verdict(std::string_view text) {
    BlockReader in(text);
    Verdict verdict;
    std::string_view const mark = in.block();
    if (mark == rejected_mark) {
        verdict.rejected = read_rejected(in);
    } else if (mark == accepted_mark) {
        verdict.findings = read_findings(in);
    }
    bool const says_why = !verdict.rejected || !verdict.rejected->errors.empty();
    if (in.is_whole() && says_why && (mark == rejected_mark || mark == accepted_mark)) return verdict;
    return fail(ErrorKind::corrupt, "read the verdict of the helper", "it is not one");
}

}  // namespace triton::launcher
