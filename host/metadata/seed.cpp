#include "host/metadata/seed.h"

#include <algorithm>
#include <utility>

#include "lib/json/lookup.h"
#include "lib/json/writer.h"
#include "lib/text/base64.h"

namespace triton::metadata {

namespace {

using machine::Machine;

std::string customer_text(Machine const& machine, std::string_view key) {
    return json::text_of(machine.customer_metadata, key);
}

/// The keys of an authorized_keys(5), without its comments.
std::vector<std::string> lines_with_keys(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        while (line.ends_with('\r') || line.ends_with(' '))
            line.remove_suffix(1);
        if (!line.empty() && !line.starts_with('#')) lines.emplace_back(line);
    }
    return lines;
}

/// JSON, which is YAML, too: nothing of a tenant's text can become anything else.
std::string meta_data(Machine const& machine) {
    json::Writer out;
    out.open('{').member("instance-id", machine.uuid.text());
    out.member("local-hostname", machine.hostname.value_or(machine.uuid.text()));
    auto const keys = lines_with_keys(customer_text(machine, "root_authorized_keys"));
    if (!keys.empty()) out.key("public-keys").list(keys);
    out.close('}');
    return std::move(out).text() + "\n";
}

/// Without it the keys are those of the image's usual user alone.
constexpr std::string_view root_may_log_in = "#cloud-config\n{\"disable_root\": false}\n";

/// A document of two parts. What the tenant has written is encoded: it cannot end its part.
std::string with_script(std::string_view script) {
    static constexpr std::string_view boundary = "triton-machine-metadata";
    std::string const shebang = script.starts_with("#!") ? "" : "#!/bin/sh\n";
    std::string const code = text::encode_base64(shebang + std::string(script));
    std::string out =
        "Content-Type: multipart/mixed; boundary=\"" + std::string(boundary) + "\"\nMIME-Version: 1.0\n\n";
    auto const begin_part = [&out](std::string_view type, std::string_view more) {
        out.append("--").append(boundary).append("\nContent-Type: ").append(type).append("; charset=\"utf-8\"\n");
        out.append("MIME-Version: 1.0\n").append(more).append("\n");
    };
    begin_part("text/cloud-config", "");
    out += root_may_log_in;
    begin_part("text/x-shellscript-per-boot",
               "Content-Transfer-Encoding: base64\nContent-Disposition: attachment; filename=\"user-script\"\n");
    constexpr std::size_t width = 76;
    for (std::size_t at = 0; at < code.size(); at += width)
        out.append(code, at, width).append("\n");
    return out + "--" + std::string(boundary) + "--\n";
}

std::string vendor_data(Machine const& machine) {
    std::string const script = customer_text(machine, "user-script");
    return script.empty() ? std::string(root_may_log_in) : with_script(script);
}

std::string user_data(Machine const& machine) {
    std::string text = customer_text(machine, "cloud-init:user-data");
    return text.empty() ? customer_text(machine, "user-data") : text;
}

}  // namespace

std::vector<SeedFile> seed_of(Machine const& machine) {
    return {{"meta-data", meta_data(machine)},
            {"user-data", user_data(machine)},
            {"vendor-data", vendor_data(machine)},
            {"network-config", "{\"config\": \"disabled\"}\n"}};
}

}  // namespace triton::metadata
