#include "host/network/documents.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/read_file.h"
#include "lib/base/unique_fd.h"
#include "lib/base/write_all.h"
#include "lib/json/table.h"
#include "lib/json/values.h"
#include "lib/json/writer.h"

namespace triton::network {

namespace {

constexpr std::size_t most_bytes = 4 << 20;
constexpr std::size_t most_problems = 3;

// A text of our own documents, which may be empty.
std::optional<std::string> read_any_text(json::Node const& node, json::Where const& at, json::Reading& reading) {
    auto const* const text = json::expect_string(node, at, reading);
    return text ? std::optional(*text) : std::nullopt;
}
using Text = json::Kind<read_any_text, json::any_text>;
using Texts = json::List<Text>;

template <auto Member, class Kind, class Object>
constexpr json::Field<Object> field(std::string_view name) {
    return {.name = name, .need = json::Need::required, .value = json::as<Member, Kind>};
}

/// A port whose tag is written out as members.
struct FlatPort : Port {
    std::string tag_name = {};
    std::string link = {};
};
using AttachmentName = json::Choice<Attachment, attachment_names>;

std::optional<Attachment> read_attachment(json::Node const& node, json::Where const& at, json::Reading& reading) {
    return AttachmentName::read(node, at, reading);
}

void parse_attachment(json::Node const& node, json::Where const& at, FlatPort& port, json::Reading& reading) {
    if (auto const attachment = read_attachment(node, at, reading)) port.tag.attachment = *attachment;
}

std::span<json::Field<FlatPort> const> table(json::TableOf<FlatPort, json::Reading>) {
    static constexpr auto rows = std::to_array<json::Field<FlatPort>>({
        field<&FlatPort::nic, Text, FlatPort>("nic"),
        field<&FlatPort::mac, Text, FlatPort>("mac"),
        field<&FlatPort::tag_name, Text, FlatPort>("tag"),
        {.name = "attachment", .need = json::Need::required, .value = {&AttachmentName::shape, parse_attachment}},
        field<&FlatPort::link, Text, FlatPort>("link"),
        field<&FlatPort::vlan, json::Integer<std::int64_t, 0, 4095>, FlatPort>("vlan"),
        field<&FlatPort::mtu, json::Integer<std::int64_t, 0, 65535>, FlatPort>("mtu"),
        field<&FlatPort::alias, Text, FlatPort>("alias"),
        field<&FlatPort::addresses, Texts, FlatPort>("addresses"),
        field<&FlatPort::rules, Texts, FlatPort>("rules"),
    });
    return rows;
}

constexpr json::Shape anything{.types = "object"};

struct PortList {
    std::vector<FlatPort> ports = {};
};
std::span<json::Field<PortList> const> table(json::TableOf<PortList, json::Reading>) {
    static constexpr auto rows = std::to_array<json::Field<PortList>>(
        {field<&PortList::ports, json::List<json::Record<FlatPort, anything>>, PortList>("ports")});
    return rows;
}

}  // namespace

std::span<json::Field<Interface> const> table(json::TableOf<Interface, json::Reading>) {
    static constexpr auto rows = std::to_array<json::Field<Interface>>({
        field<&Interface::nic, Text, Interface>("nic"),
        field<&Interface::link, Text, Interface>("link"),
        field<&Interface::name, Text, Interface>("name"),
        field<&Interface::mac, Text, Interface>("mac"),
        field<&Interface::mtu, json::Integer<std::int64_t, 0, 65535>, Interface>("mtu"),
        field<&Interface::is_joined_by_host, json::Boolean, Interface>("isJoinedByHost"),
        field<&Interface::takes_advertisements, json::Boolean, Interface>("takesAdvertisements"),
        field<&Interface::addresses, Texts, Interface>("addresses"),
        field<&Interface::gateways, Texts, Interface>("gateways"),
    });
    return rows;
}

std::span<json::Field<Route> const> table(json::TableOf<Route, json::Reading>) {
    static constexpr auto rows = std::to_array<json::Field<Route>>({
        field<&Route::destination, Text, Route>("destination"),
        field<&Route::gateway, Text, Route>("gateway"),
        field<&Route::interface, Text, Route>("interface"),
    });
    return rows;
}

std::span<json::Field<Inside> const> table(json::TableOf<Inside, json::Reading>) {
    static constexpr auto rows = std::to_array<json::Field<Inside>>({
        field<&Inside::interfaces, json::List<json::Record<Interface, anything>>, Inside>("interfaces"),
        field<&Inside::routes, json::List<json::Record<Route, anything>>, Inside>("routes"),
    });
    return rows;
}

namespace {

template <class Document>
Result<Document> parse_document(std::string_view text, std::string const& path) {
    json::Reading reading(most_problems);
    auto const node = json::read_json(text, json::Limits{.document_bytes = most_bytes}, reading.problems);
    std::optional<Document> document;
    if (node) document = json::read_object<Document>(*node, json::Where{}, reading);
    if (document && reading.problems.empty()) return std::move(*document);
    return fail(ErrorKind::corrupt, "read " + path, std::move(reading.problems).take().front().text());
}

}  // namespace

std::string Port::host_link() const {
    std::string name = "tm";
    std::ranges::copy_if(mac, std::back_inserter(name), [](char c) { return c != ':'; });
    return name;
}

std::string Port::macvlan_base() const { return vlan > 0 ? tag.link + "." + std::to_string(vlan) : tag.link; }

std::string ports_text(std::vector<Port> const& ports) {
    json::Writer out;
    out.open('{').key("ports").open('[');
    for (Port const& port : ports) {
        out.open('{').member("nic", port.nic).member("mac", port.mac).member("tag", port.tag.name);
        out.member("attachment", attachment_names[static_cast<std::size_t>(port.tag.attachment)]);
        out.member("link", port.tag.link).member("vlan", port.vlan).member("mtu", port.mtu);
        out.member("alias", port.alias).key("addresses").list(port.addresses);
        out.key("rules").list(port.rules).close('}');
    }
    out.close(']').close('}');
    return std::move(out).text() + "\n";
}

std::string inside_text(Inside const& inside) {
    json::Writer out;
    out.open('{').key("interfaces").open('[');
    for (Interface const& interface : inside.interfaces) {
        out.open('{').member("nic", interface.nic).member("link", interface.link).member("name", interface.name);
        out.member("mac", interface.mac).member("mtu", interface.mtu);
        out.member("isJoinedByHost", interface.is_joined_by_host);
        out.member("takesAdvertisements", interface.takes_advertisements);
        out.key("addresses").list(interface.addresses).key("gateways").list(interface.gateways).close('}');
    }
    out.close(']').key("routes").open('[');
    for (Route const& route : inside.routes) {
        out.open('{').member("destination", route.destination).member("gateway", route.gateway);
        out.member("interface", route.interface).close('}');
    }
    out.close(']').close('}');
    return std::move(out).text() + "\n";
}

Result<std::vector<Port>> parse_ports(std::string_view text, std::string const& path) {
    std::vector<Port> ports;
    for (FlatPort& flat : TRY(parse_document<PortList>(text, path)).ports) {
        flat.tag.name = std::move(flat.tag_name);
        flat.tag.link = std::move(flat.link);
        ports.push_back(std::move(flat));
    }
    return ports;
}

Result<Inside> parse_inside(std::string_view text, std::string const& path) {
    return parse_document<Inside>(text, path);
}

Result<std::vector<Port>> read_ports(std::string const& path) {
    auto const text = read_file(path, most_bytes);
    if (!text && text.error().kind == ErrorKind::not_found) return std::vector<Port>();
    if (!text) return std::unexpected(text.error());
    return parse_ports(*text, path);
}

namespace {

/// Returns the path of a new file, which is to take the place of another one. A machine's first program and a command
/// may save the same one, so that each has a file of its own.
Result<std::string> save_beside(std::string const& path, std::string_view text, mode_t mode) {
    std::string temporary = path + ".XXXXXX";
    UniqueFd const file{::mkostemp(temporary.data(), O_CLOEXEC)};
    if (!file) return fail(errno, "write " + path);
    if (::fchmod(file.get(), mode) == 0 && write_all(file.get(), text)) return temporary;
    auto failed = fail(errno, "write " + path);
    (void)::unlink(temporary.c_str());
    return failed;
}

}  // namespace

Result<> save(std::string const& path, std::string_view text, mode_t mode) {
    std::string const temporary = TRY(save_beside(path, text, mode));
    if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
    auto failed = fail(errno, "write " + path);
    (void)::unlink(temporary.c_str());
    return failed;
}

Result<bool> save_again(std::string const& path, std::string_view text, mode_t mode) {
    std::string const temporary = TRY(save_beside(path, text, mode));
    bool const is_there =
        ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0;  // makes none
    int const err = errno;
    (void)::unlink(temporary.c_str());
    if (!is_there && err != ENOENT) return fail(err, "write " + path);
    return is_there;
}

}  // namespace triton::network
