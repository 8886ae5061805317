#include "host/metadata/seed.h"

#include <algorithm>

#include "lib/json/lookup.h"
#include "lib/json/writer.h"

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

/// Two parts, the same for all machines. Without the first, the keys are those of the image's usual user alone. The
/// second runs once, before the scripts of each boot, and adds one to these. cloud-init keeps what it has read at the
/// first boot, so that script asks for the user-script as it is by then.
constexpr std::string_view vendor_data = R"(Content-Type: multipart/mixed; boundary="triton-machine-metadata"
MIME-Version: 1.0

--triton-machine-metadata
Content-Type: text/cloud-config; charset="utf-8"
MIME-Version: 1.0

#cloud-config
{"disable_root": false}
--triton-machine-metadata
Content-Type: text/x-shellscript; charset="utf-8"
MIME-Version: 1.0
Content-Disposition: attachment; filename="triton-user-script"

#!/bin/sh
set -e
mkdir -p /var/lib/cloud/scripts/per-boot
cat >/var/lib/cloud/scripts/per-boot/triton-user-script <<'END'
#!/bin/sh
# Runs the user-script of this machine's metadata.
script=/var/lib/cloud/data/triton-user-script
umask 077
/native/usr/sbin/mdata-get user-script >"$script" 2>/dev/null || { rm -f "$script"; exit 0; }
chmod 700 "$script"
case $(head -c 2 "$script") in
'#!') exec "$script" ;;
*) exec sh "$script" ;;
esac
END
chmod 700 /var/lib/cloud/scripts/per-boot/triton-user-script
--triton-machine-metadata--
)";

std::string user_data(Machine const& machine) {
    std::string text = customer_text(machine, "cloud-init:user-data");
    return text.empty() ? customer_text(machine, "user-data") : text;
}

}  // namespace

std::vector<SeedFile> seed_of(Machine const& machine) {
    return {{"meta-data", meta_data(machine)},
            {"user-data", user_data(machine)},
            {"vendor-data", std::string(vendor_data)},
            {"network-config", "{\"config\": \"disabled\"}\n"}};
}

}  // namespace triton::metadata
