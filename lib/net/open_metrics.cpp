#include "lib/net/open_metrics.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "lib/net/accept.h"

namespace triton::net {

MetricsFormat metrics_format(std::string_view accept) {
    double const open_metrics = weight_of("application/openmetrics-text", accept);
    double const text = weight_of("text/plain", accept);
    return open_metrics > 0 && open_metrics >= text ? MetricsFormat::open_metrics : MetricsFormat::prometheus_text;
}

std::string_view content_type(MetricsFormat format) {
    return format == MetricsFormat::open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                                 : "text/plain; version=0.0.4; charset=utf-8";
}

void MetricsWriter::family(std::string_view name, Type type, std::string_view help) {
    name_ = name;
    suffix_ = type == Type::counter ? "_total" : "";
    // In the older format a counter's family has the same name as its samples.
    std::string const shown = is_open_metrics_ ? name_ : name_ + suffix_;
    std::string_view kind = type == Type::gauge ? "gauge" : "counter";
    if (type == Type::legacy_counter && is_open_metrics_) kind = "unknown";
    out_.append("# TYPE ").append(shown).append(" ").append(kind).append("\n");
    out_.append("# HELP ").append(shown).append(" ").append(help).append("\n");
}

void MetricsWriter::sample(double value, Labels labels) {
    out_.append(name_).append(suffix_);
    char separator = '{';
    for (Label const& label : labels) {
        out_ += std::exchange(separator, ',');
        out_.append(label.name).append("=\"");
        append_escaped(label.value);
        out_ += '"';
    }
    if (separator == ',') out_ += '}';
    out_ += ' ';
    append_number(value);
    out_ += '\n';
}

void MetricsWriter::single(std::string_view name, Type type, std::string_view help, double value) {
    family(name, type, help);
    sample(value);
}

std::string MetricsWriter::take() && {
    if (is_open_metrics_) out_ += "# EOF\n";
    return std::move(out_);
}

void MetricsWriter::append_escaped(std::string_view text) {
    for (char const c : text) {
        if (c == '\n') {
            out_ += "\\n";
            continue;
        }
        if (c == '"' || c == '\\') out_ += '\\';
        out_ += c;
    }
}

void MetricsWriter::append_number(double value) {
    std::array<char, 32> digits{};
    bool const is_whole = std::abs(value) < 1e15 && value == std::trunc(value);
    auto const end = is_whole
                         ? std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<std::int64_t>(value))
                         : std::to_chars(digits.data(), digits.data() + digits.size(), value);
    out_.append(digits.data(), end.ptr);
}

}  // namespace triton::net
