#include "host/role/download_messages.h"

namespace triton::role {

namespace {

constexpr std::size_t most_texts = 64;

}  // namespace

bool is_plain_form(std::string_view secure, std::string_view plain) {
    return secure.starts_with("https://") && plain.starts_with("http://") && secure.substr(8) == plain.substr(7);
}

std::span<Row<Download> const> table(json::TableOf<Download>) {
    static constexpr std::array<Row<Download>, 11> rows{{
        required<&Download::id, Id>("id"),
        required<&Download::urls, ListOf<json::Text, most_texts>>("urls"),
        required<&Download::offset, Count>("offset"),
        optional<&Download::length, Count>("length"),
        optional<&Download::whole_length, Count>("wholeLength"),
        required<&Download::if_range, String>("ifRange"),
        required<&Download::maximum, Count>("maximum"),
        required<&Download::accept, ListOf<json::Text, most_texts>>("accept"),
        required<&Download::scope, String>("scope"),
        required<&Download::bytes_per_second, Count>("bytesPerSecond"),
        required<&Download::stall_milliseconds, Count>("stallMilliseconds"),
    }};
    return rows;
}

std::span<Row<HostCredential> const> table(json::TableOf<HostCredential>) {
    static constexpr std::array<Row<HostCredential>, 5> rows{{
        required<&HostCredential::host, json::Text>("host"),
        required<&HostCredential::user, String>("user"),
        required<&HostCredential::password, String>("password"),
        required<&HostCredential::token, String>("token"),
        required<&HostCredential::identity_token, String>("identityToken"),
    }};
    return rows;
}

std::span<Row<Proxy> const> table(json::TableOf<Proxy>) {
    static constexpr std::array<Row<Proxy>, 3> rows{{
        required<&Proxy::url, String>("url"),
        required<&Proxy::user, String>("user"),
        required<&Proxy::password, String>("password"),
    }};
    return rows;
}

std::span<Row<Proxies> const> table(json::TableOf<Proxies>) {
    static constexpr std::array<Row<Proxies>, 3> rows{{
        required<&Proxies::http, ObjectOf<Proxy>>("http"),
        required<&Proxies::https, ObjectOf<Proxy>>("https"),
        required<&Proxies::no_proxy, String>("noProxy"),
    }};
    return rows;
}

std::span<Row<ServerSettings> const> table(json::TableOf<ServerSettings>) {
    static constexpr std::array<Row<ServerSettings>, 7> rows{{
        required<&ServerSettings::base, json::Text>("base"),
        required<&ServerSettings::authorities, String>("authorities"),
        required<&ServerSettings::certificate, String>("certificate"),
        required<&ServerSettings::key, String>("key"),
        required<&ServerSettings::headers, ListOf<json::Text, most_texts>>("headers"),
        required<&ServerSettings::is_unverified, Flag>("isUnverified"),
        required<&ServerSettings::connect_milliseconds, Count>("connectMilliseconds"),
    }};
    return rows;
}

std::span<Row<Credentials> const> table(json::TableOf<Credentials>) {
    static constexpr std::array<Row<Credentials>, 3> rows{{
        required<&Credentials::hosts, ListOf<ObjectOf<HostCredential>, most_texts>>("hosts"),
        required<&Credentials::proxies, ObjectOf<Proxies>>("proxies"),
        required<&Credentials::servers, ListOf<ObjectOf<ServerSettings>, most_texts>>("servers"),
    }};
    return rows;
}

std::span<Row<Cancel> const> table(json::TableOf<Cancel>) {
    static constexpr std::array<Row<Cancel>, 1> rows{{required<&Cancel::id, Id>("id")}};
    return rows;
}

std::span<Row<PassedOver> const> table(json::TableOf<PassedOver>) {
    static constexpr std::array<Row<PassedOver>, 2> rows{{
        required<&PassedOver::host, String>("host"),
        required<&PassedOver::reason, String>("reason"),
    }};
    return rows;
}

std::span<Row<Answer> const> table(json::TableOf<Answer>) {
    static constexpr std::array<Row<Answer>, 10> rows{{
        required<&Answer::id, Id>("id"),
        required<&Answer::status, Id>("status"),
        optional<&Answer::length, Count>("length"),
        optional<&Answer::offset, Count>("offset"),
        optional<&Answer::size, Count>("size"),
        required<&Answer::etag, String>("etag"),
        required<&Answer::media_type, String>("mediaType"),
        required<&Answer::final_host, String>("finalHost"),
        required<&Answer::digest, String>("digest"),
        required<&Answer::passed_over, ListOf<ObjectOf<PassedOver>, most_texts>>("passedOver"),
    }};
    return rows;
}

std::span<Row<Downloaded> const> table(json::TableOf<Downloaded>) {
    static constexpr std::array<Row<Downloaded>, 2> rows{{
        required<&Downloaded::id, Id>("id"),
        required<&Downloaded::bytes, Count>("bytes"),
    }};
    return rows;
}

std::span<Row<DownloadFailed> const> table(json::TableOf<DownloadFailed>) {
    static constexpr std::array<Row<DownloadFailed>, 6> rows{{
        required<&DownloadFailed::id, Id>("id"),
        required<&DownloadFailed::kind, ErrorKindName>("kind"),
        required<&DownloadFailed::reason, String>("reason"),
        required<&DownloadFailed::is_transient, Flag>("isTransient"),
        required<&DownloadFailed::status, Id>("status"),
        optional<&DownloadFailed::retry_after_milliseconds, Count>("retryAfterMilliseconds"),
    }};
    return rows;
}

}  // namespace triton::role
