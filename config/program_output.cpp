#include <array>

#include "config/program_parser.h"

// Where a program's output goes, and what it listens on.

namespace triton::config {

namespace {

constexpr std::array<std::string_view, 3> output_formats{"raw", "prefix", "json"};
constexpr std::array<std::string_view, 2> output_timestamps{"none", "rfc3339"};
constexpr std::array<std::string_view, 2> when_full_choices{"block", "drop"};
constexpr json::Shape address_shape{.types = "string", .pattern = "^(tcp:|udp:|unix:/|unixgram:/|fifo:/)"};

constexpr json::Shape error_shape{.types = "string or object", .words = output_words, .definition = "Output"};

constexpr std::string_view is_of_both = " is the file of the standard output, which gets both streams without stderr";

/// Output that goes to another program cannot be seen on its way.
void check_link(Output const& output, Present<Output> present, json::Where const& at, Reading& reading) {
    for (std::string_view const key :
         {"file", "format", "timestamp", "maxSize", "maxFiles", "mode", "whenFull", "syslog"}) {
        if (present.has(key)) reading.problems.add(json::Where{&at, key}, "cannot be used together with to");
    }
    for (Output const& error : output.error) {
        if (error.kind == OutputKind::captured || error.kind == OutputKind::program)
            reading.problems.add(json::Where{&at, "stderr"}, "can only be \"inherit\" or \"null\" together with to");
    }
}

/// Messages of syslog have their own form, and nobody waits for a daemon.
void check_syslog(Output& output, Present<Output> present, json::Where const& at, Reading& reading) {
    for (std::string_view const key : {"file", "format", "timestamp", "maxSize", "maxFiles", "mode", "whenFull"}) {
        if (present.has(key)) reading.problems.add(json::Where{&at, key}, "cannot be used together with syslog");
    }
    output.when_full = WhenFull::drop;
}

void check_output(Output& output, Present<Output> present, json::Where const& at, Reading& reading) {
    if (present.has("to")) {
        output.kind = OutputKind::program;
        return check_link(output, present, at, reading);
    }
    output.kind = OutputKind::captured;
    if (present.has("syslog")) return check_syslog(output, present, at, reading);
    if (present.has("file") && !present.has("format")) output.format = OutputFormat::raw;
    if (output.format == OutputFormat::json && output.timestamp != OutputTimestamp::none)
        reading.warnings.add(json::Where{&at, "timestamp"}, "has no effect with format json, which has the time");
    for (Output const& error : output.error) {
        if (error.file && error.file == output.file)
            reading.problems.add(json::Where{&at, "stderr"}, json::shown(*error.file).append(is_of_both));
        if (error.file_argument && error.file_argument == output.file_argument)
            reading.problems.add(json::Where{&at, "stderr"}, std::string("its file").append(is_of_both));
    }
    settle_own_stream(output);
    bool const is_own = output.own_stream != OwnStream::none;
    if (present.has("file") && !is_own) return;
    for (std::string_view const key : {"maxSize", "maxFiles", "mode"}) {
        if (present.has(key))
            reading.warnings.add(json::Where{&at, key},
                                 is_own ? "has no effect on the launcher's own output" : "has no effect without file");
    }
}

/// Reads a word, or an object with the keys of an output.
std::optional<Output> read_output(json::Node const& node, json::Where const& at, Reading& reading) {
    if (auto const* const text = node.get<std::string>()) {
        if (text->starts_with('/')) {
            reading.problems.add(at, "a file is written as {\"file\": " + json::quoted(*text) + "}");
            return std::nullopt;
        }
        auto const word = json::Choice<OutputKind, output_words>::read(node, at, reading);
        return word ? std::optional(Output{.kind = *word}) : std::nullopt;
    }
    if (node.get<json::Object>()) return read_object<Output, check_output>(node, at, reading);
    reading.problems.add(at, std::string("expected a string or an object, found ").append(node.kind()));
    return std::nullopt;
}

void parse_to(json::Node const& node, json::Where const& at, Output& output, Reading& reading) {
    std::string const* const name = expect_string(node, at, reading);
    if (name) output.to = *name;
}

std::optional<std::string> read_syslog_address(json::Node const& node, json::Where const& at, Reading& reading) {
    auto text = read_text(node, at, reading);
    if (!text) return std::nullopt;
    auto const target = parse_syslog_address(*text);
    if (target) return text;
    reading.problems.add(at, target.error());
    return std::nullopt;
}

constexpr std::size_t longest_app_name = 48;  // RFC 5424, 6.2.5, of printable ASCII characters

std::optional<std::string> read_app_name(json::Node const& node, json::Where const& at, Reading& reading) {
    auto text = read_text(node, at, reading);
    if (!text) return std::nullopt;
    bool const is_good = !text->empty() && text->size() <= longest_app_name &&
                         std::ranges::all_of(*text, [](char c) { return c > ' ' && c < '\x7f'; });
    if (is_good) return text;
    reading.problems.add(at, json::quoted(*text, 128) + " is not a name of 1 to 48 printable ASCII characters");
    return std::nullopt;
}

constexpr json::Shape syslog_address_shape{.types = "string", .pattern = "^(unix:/|udp:|tcp:|tls:)"};
constexpr json::Shape app_name_shape{.types = "string", .pattern = "^[!-~]{1,48}$"};
using SyslogAddress = json::Kind<read_syslog_address, syslog_address_shape>;
using AppName = json::Kind<read_app_name, app_name_shape>;
constexpr json::Shape syslog_shape = json::object_shape("Syslog");

void parse_syslog(json::Node const& node, json::Where const& at, Output& output, Reading& reading) {
    output.syslog = read_object<Syslog>(node, at, reading);
}

void parse_error(json::Node const& node, json::Where const& at, Output& output, Reading& reading) {
    auto error = read_output(node, at, reading);
    if (!error) return;
    if (error->kind == OutputKind::program)
        return reading.problems.add(json::Where{&at, "to"}, "is not a key of stderr");
    if (error->syslog && error->syslog->error_severity) {
        json::Where const syslog_at{&at, "syslog"};
        return reading.problems.add(json::Where{&syslog_at, "stderrSeverity"}, "is not a key of stderr");
    }
    if (error->syslog) error->syslog->error_severity = error->syslog->severity;
    if (error->error.empty())
        output.error.push_back(std::move(*error));
    else
        reading.problems.add(json::Where{&at, "stderr"}, "is not a key of stderr");
}

void parse_listen(json::Node const& node, json::Where const& at, ListenSocket& socket, Reading& reading) {
    auto const text = read_text(node, at, reading);
    if (!text) return;
    auto address = parse_socket_address(*text);
    if (address) {
        socket.address = std::move(*address);
    } else {
        reading.problems.add(at, json::quoted(*text, 128) + ": " + address.error());
    }
}

void parse_socket_name(json::Node const& node, json::Where const& at, ListenSocket& socket, Reading& reading) {
    auto name = read_text(node, at, reading);
    if (!name) return;
    if (!is_name(*name)) reading.problems.add(at, json::quoted(*name) + ": " + std::string(name_rule));
    socket.name = std::move(*name);
}

void check_socket(ListenSocket const& socket, Present<ListenSocket> present, json::Where const& at, Reading& reading) {
    SocketKind const kind = socket.address.kind;
    bool const has_path = !socket.address.path.empty();
    bool const listens = kind == SocketKind::tcp || kind == SocketKind::unix_stream;
    for (std::string_view const key : {"mode", "user", "group"}) {
        if (present.has(key) && !has_path) reading.warnings.add(json::Where{&at, key}, "has no effect without a path");
    }
    if (present.has("backlog") && !listens)
        reading.warnings.add(json::Where{&at, "backlog"}, "has an effect only for tcp and unix");
}

}  // namespace

std::span<Field<Output> const> table(TableOf<Output>) {
    static constexpr auto rows = std::to_array<Field<Output>>({
        {.name = "file",
         .value = {&file_shape, parse_file<Output>},
         .description = "The file to append to: a path, or an Argument, by which each process may have its own; those "
                        "whose names are equal share one. /dev/stdout and /dev/stderr are the launcher's own, "
                        "whatever they are connected to. Absent: the launcher's own stdout and stderr."},
        {.name = "format",
         .value = as<&Output::format, json::Choice<OutputFormat, output_formats>>,
         .description = "The unchanged bytes (the default with `file`), lines that begin with the name of the process "
                        "(the default without), or a JSON object for each line."},
        {.name = "timestamp",
         .value = as<&Output::timestamp, json::Choice<OutputTimestamp, output_timestamps>>,
         .description = "Formats raw and prefix: `rfc3339` begins each line with the time at which the launcher read "
                        "it, in UTC with microseconds. The default is none."},
        {.name = "maxSize",
         .value = as<&Output::max_size, json::Size>,
         .description = "With `file`: the file is rotated before it exceeds this size. The default is 10Mi."},
        {.name = "maxFiles",
         .value = as<&Output::max_files, json::Integer<std::uint32_t, 0, 1000>>,
         .description = "With `file`: how many rotated files are kept; FILE.1 is the newest. The default is 5."},
        {.name = "mode",
         .value = as<&Output::mode, json::Octal<0777>>,
         .description = "With `file`: its mode, in octal, even if it exists already. Absent: a new file gets 0644 less "
                        "the launcher's umask, and the mode of an existing file is not changed."},
        {.name = "whenFull",
         .value = as<&Output::when_full, json::Choice<WhenFull, when_full_choices>>,
         .description = "What happens when a reader does not keep up: the program waits (the default), or its output "
                        "is dropped and counted."},
        {.name = "syslog",
         .value = {&syslog_shape, parse_syslog},
         .description = "A syslog daemon instead of a file, as messages of RFC 5424. What it does not take is dropped "
                        "and counted: no program waits for it. Cannot be combined with the keys above."},
        {.name = "to",
         .value = {&name_shape, parse_to},
         .description = "Another program, which reads the output as its standard input: through a pipe that outlives "
                        "both, and that the launcher does not look into. It starts before this one and stops after it. "
                        "Cannot be combined with the keys above."},
        {.name = "stderr",
         .value = {&error_shape, parse_error},
         .description = "Where the standard error goes instead: `inherit`, `null`, or an object with these keys except "
                        "`stderr`. Absent: the standard output's `file`, or the launcher's own stderr."},
    });
    return rows;
}

std::span<Field<Syslog> const> table(TableOf<Syslog>) {
    static constexpr auto rows = std::to_array<Field<Syslog>>({
        {.name = "address",
         .value = as<&Syslog::address, SyslogAddress>,
         .description = "`unix:PATH`, a socket for datagrams or for a stream, which the launcher writes to; or "
                        "`udp:HOST:PORT`, `tcp:HOST:PORT` or `tls:HOST:PORT`, which the agent does. The host is an "
                        "address or `localhost`. The default is `unix:/dev/log`."},
        {.name = "facility",
         .value = as<&Syslog::facility, json::Choice<SyslogFacility, syslog_facilities>>,
         .description = "The default is daemon."},
        {.name = "severity",
         .value = as<&Syslog::severity, json::Choice<SyslogSeverity, syslog_severities>>,
         .description = "Of each line. The default is info; of what a program says on its standard error, err."},
        {.name = "stderrSeverity",
         .value = as<&Syslog::error_severity, json::Choice<SyslogSeverity, syslog_severities>>,
         .description = "Of the lines of the standard error, where it goes the same way."},
        {.name = "name",
         .value = as<&Syslog::name, AppName>,
         .description = "Who says it (APP-NAME). Absent: the name of the program."},
        {.name = "format",
         .value = as<&Syslog::format, json::Choice<SyslogFormat, syslog_formats>>,
         .description =
             "`rfc5424` (the default), or `rfc3164`, as programs write to a local daemon: journald, and rsyslog "
             "at the socket that is its own, read only that."},
    });
    return rows;
}

std::span<Field<ListenSocket> const> table(TableOf<ListenSocket>) {
    using enum json::Need;
    static constexpr auto rows = std::to_array<Field<ListenSocket>>({
        {.name = "name",
         .need = required,
         .value = {&name_shape, parse_socket_name},
         .description = "Its name in `$LISTEN_FDNAMES`."},
        {.name = "listen",
         .need = required,
         .value = {&address_shape, parse_listen},
         .description = "`tcp:HOST:PORT`, `udp:HOST:PORT` (an IPv4 address, an IPv6 address in brackets, or nothing), "
                        "`unix:PATH`, "
                        "`unixgram:PATH` or `fifo:PATH`."},
        {.name = "mode",
         .value = as<&ListenSocket::mode, json::Octal<07777>>,
         .description = "The mode of a socket or FIFO with a path. The default is 0660."},
        {.name = "user",
         .value = as<&ListenSocket::user, NameOrId>,
         .description = "The owner of a socket or FIFO with a path."},
        {.name = "group",
         .value = as<&ListenSocket::group, NameOrId>,
         .description = "The group of a socket or FIFO with a path."},
        {.name = "backlog",
         .value = as<&ListenSocket::backlog, json::Integer<std::uint32_t, 1, 65535>>,
         .description = "How many connections may wait to be accepted. The default is 4096."},
    });
    return rows;
}

void parse_output(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    if (auto output = read_output(node, at, reading)) program.output = std::move(*output);
}

void parse_sockets(json::Node const& node, json::Where const& at, Program& program, Reading& reading) {
    auto const* const array = json::expect_array(node, at, reading);
    if (!array) return;
    for (std::size_t i = 0; i < array->size(); ++i) {
        json::Where const socket_at{&at, i};
        if (++reading.socket_count > reading.limits.sockets) {
            reading.problems.add(socket_at, "more than " + std::to_string(reading.limits.sockets) + " sockets in all");
            return;
        }
        auto socket = read_object<ListenSocket, check_socket>((*array)[i], socket_at, reading);
        if (!socket) continue;
        bool const is_taken = !socket->name.empty() && std::ranges::find(program.sockets, socket->name,
                                                                         &ListenSocket::name) != program.sockets.end();
        if (is_taken)
            reading.problems.add(json::Where{&socket_at, "name"},
                                 json::quoted(socket->name) + " is the name of another socket");
        program.sockets.push_back(std::move(*socket));
    }
}

}  // namespace triton::config
