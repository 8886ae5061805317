#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace triton::net {

enum class MetricsFormat : std::uint8_t {
    prometheus_text,  ///< text/plain; version=0.0.4
    open_metrics      ///< application/openmetrics-text; version=1.0.0
};

/// The format that an Accept header asks for: OpenMetrics where it is named, not refused (q=0), and text/plain is not
/// liked better.
MetricsFormat metrics_format(std::string_view accept);
std::string_view content_type(MetricsFormat format);

/// Writes metrics family by family: OpenMetrics wants all samples of one together.
/// Source: OpenMetrics 1.0.0; Prometheus, "Exposition formats".
class MetricsWriter {
public:
    explicit MetricsWriter(MetricsFormat format) : is_open_metrics_(format == MetricsFormat::open_metrics) {}

    enum class Type : std::uint8_t { counter, gauge, legacy_counter };
    struct Label {
        std::string_view name;
        std::string value;
    };
    using Labels = std::initializer_list<Label>;

    /// Of a counter `name` has no "_total"; its samples have. A legacy counter has none either: OpenMetrics knows no
    /// such counter, and existing graphs need its old name.
    void family(std::string_view name, Type type, std::string_view help);
    void sample(double value, Labels labels = {});
    /// A family with one sample.
    void single(std::string_view name, Type type, std::string_view help, double value);

    std::string take() &&;

private:
    void append_escaped(std::string_view text);
    void append_number(double value);

    bool is_open_metrics_;
    std::string name_;
    std::string suffix_;
    std::string out_;
};

}  // namespace triton::net
