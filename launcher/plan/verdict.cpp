#include "launcher/plan/verdict.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "lib/base/duration.h"

namespace triton::launcher {

namespace {

/// The processor time that this process has used.
Duration time_used() {
    timespec now{};
    (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// A verdict is a sequence of blocks, each with its length before it; a list is its count and its blocks.

class Writer {
public:
    void add(std::uint64_t number) {
        std::array<char, sizeof number> bytes{};
        std::memcpy(bytes.data(), &number, sizeof number);
        text_.append(bytes.data(), bytes.size());
    }
    void add(std::string_view block) {
        add(block.size());
        text_ += block;
    }
    void add(std::vector<std::string> const& blocks) {
        add(blocks.size());
        for (std::string const& block : blocks)
            add(std::string_view(block));
    }
    void add(process::SeccompFilter::Code const& code) {
        add(std::string_view(reinterpret_cast<char const*>(code.data()), code.size() * sizeof(sock_filter)));
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
};

/// Reads blocks. A missing block is read as empty, and makes the whole unreadable.
class VerdictReader {
public:
    explicit VerdictReader(std::string_view text) : rest_(text) {}

    std::uint64_t number() {
        std::uint64_t value = 0;
        std::string_view const bytes = take(sizeof value);
        if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
        return value;
    }
    std::string_view block() { return take(number()); }
    /// No list can have more blocks than bytes are left for their lengths.
    std::size_t count() {
        std::uint64_t const count = number();
        if (count <= rest_.size() / sizeof count) return count;
        is_good_ = false;
        return 0;
    }
    std::vector<std::string> blocks() {
        std::vector<std::string> all(count());
        for (std::string& one : all)
            one = block();
        return all;
    }
    process::SeccompFilter::Code code() {
        std::string_view const bytes = block();
        if (bytes.empty() || bytes.size() % sizeof(sock_filter) != 0 ||
            bytes.size() / sizeof(sock_filter) > BPF_MAXINSNS) {
            is_good_ = false;
            return {};
        }
        process::SeccompFilter::Code code(bytes.size() / sizeof(sock_filter));
        std::memcpy(code.data(), bytes.data(), bytes.size());
        return code;
    }
    [[nodiscard]] bool is_whole() const { return is_good_ && rest_.empty(); }

private:
    std::string_view take(std::uint64_t size) {
        if (size > rest_.size()) {
            is_good_ = false;
            return {};
        }
        std::string_view const bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return bytes;
    }

    std::string_view rest_;
    bool is_good_ = true;
};

constexpr std::string_view accepted_mark = "accepted";
constexpr std::string_view rejected_mark = "rejected";

Rejected read_rejected(VerdictReader& in) {
    Rejected rejected;
    rejected.errors = in.blocks();
    rejected.warnings = in.blocks();
    rejected.remarks = in.blocks();
    rejected.missing_binaries = in.blocks();
    rejected.document = in.number();
    rejected.misses_node_label = in.number() != 0;
    return rejected;
}

Findings read_findings(VerdictReader& in) {
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
    Writer out;
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
    VerdictReader in(text);
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
