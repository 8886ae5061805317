// TLS over a pair of sockets, one end of which belongs to a peer that behaves as the test says.

#include "lib/net/transport.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "lib/net/turns.h"
#include "tests/unit/helpers/http_talk.h"

namespace triton::net {
namespace {

constexpr std::string_view key = "a key that both know already";

unsigned put_key(unsigned char* place) {
    std::ranges::copy(key, place);
    return static_cast<unsigned>(key.size());
}
unsigned client_key(SSL* /*tls*/, char const* /*hint*/, char* name, unsigned /*room*/, unsigned char* place,
                    unsigned /*most*/) {
    name[0] = 'x';
    name[1] = '\0';
    return put_key(place);
}
unsigned server_key(SSL* /*tls*/, char const* /*name*/, unsigned char* place, unsigned /*most*/) {
    return put_key(place);
}

/// Both sides know a key, so that nobody needs a certificate.
class TransportTest : public testing::Test, protected tests::HttpTalk {
protected:
    void connect_both() {
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
        UniqueFd ours{ends[0]};
        peer_socket = UniqueFd{ends[1]};
        ::SSL_CTX_set_psk_server_callback(server_context.get(), server_key);
        ::SSL_CTX_set_psk_client_callback(client_context.get(), client_key);
        ::SSL_CTX_set_read_ahead(server_context.get(), 1);  // as servers do
        transport = std::move(*Transport::adopt(loop, std::move(ours)));
        transport->prepare_tls(server_context.get());
        peer.reset(::SSL_new(client_context.get()));
        ::SSL_set_fd(peer.get(), peer_socket.get());
        ::SSL_set_connect_state(peer.get());
        bool is_accepted = false;
        spawn(loop, accept(*transport, turns, is_accepted));
        run_until([&] { return ::SSL_do_handshake(peer.get()) == 1 && is_accepted; });
    }
    static Task<> accept(Transport& transport, Turns& turns, bool& is_accepted) {
        auto const done = co_await transport.accept_tls(turns, "peer");
        is_accepted = done.has_value();
    }

    Task<> read_bytes() {
        std::array<char, 1> byte{};
        for (;;) {
            auto const size = co_await transport->receive(byte);
            if (!size || *size == 0) break;
            ++read;
        }
        has_ended = true;
    }

    struct Free {
        void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
        void operator()(SSL* tls) const { ::SSL_free(tls); }
    };
    std::unique_ptr<SSL_CTX, Free> server_context{::SSL_CTX_new(::TLS_server_method())};
    std::unique_ptr<SSL_CTX, Free> client_context{::SSL_CTX_new(::TLS_client_method())};
    Turns turns{loop};
    std::unique_ptr<Transport> transport;
    UniqueFd peer_socket;
    std::unique_ptr<SSL, Free> peer;
    std::size_t read = 0;
    bool has_ended = false;
};

TEST_F(TransportTest, OthersRunWhileAPeerSendsFasterThanWeRead) {
    connect_both();
    std::string const text(1000, 'x');
    ASSERT_EQ(::SSL_write(peer.get(), text.data(), 1000), 1000);
    std::size_t read_before = text.size();
    spawn(loop, read_bytes());
    post(loop, [&] { post(loop, [&] { read_before = read; }); });
    run_until([&] { return read == text.size(); });
    EXPECT_LT(read_before, 100U);
    transport->close();
    run_until([&] { return has_ended; });
}

TEST_F(TransportTest, APeerThatKeepsRenewingItsKeysIsLeft) {
    connect_both();
    spawn(loop, read_bytes());
    for (int i = 0; i < 200; ++i) {
        ASSERT_EQ(::SSL_key_update(peer.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
        (void)::SSL_do_handshake(peer.get());
    }
    (void)::SSL_write(peer.get(), "x", 1);
    run_until([&] { return has_ended || read > 0; });
    EXPECT_EQ(read, 0U);
}

TEST_F(TransportTest, APeerMayRenewItsKeys) {
    connect_both();
    spawn(loop, read_bytes());
    for (int i = 0; i < 20; ++i) {
        ASSERT_EQ(::SSL_key_update(peer.get(), SSL_KEY_UPDATE_REQUESTED), 1);
        ASSERT_EQ(::SSL_write(peer.get(), "x", 1), 1);
    }
    run_until([&] { return has_ended || read == 20; });
    EXPECT_EQ(read, 20U);
    transport->close();
    run_until([&] { return has_ended; });
}

}  // namespace
}  // namespace triton::net
