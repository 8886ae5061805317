#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/role/download_messages.h"
#include "host/role/unpack_messages.h"
#include "host/role/verify_messages.h"

namespace triton::role {
namespace {

std::string const digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// What decode() makes of a text, as a text: the message again, or why not.
template <class... Messages>
std::string heard(std::string_view text) {
    auto const message = decode<Messages...>(text);
    if (message) return std::visit([](auto const& one) { return encode(one); }, *message);
    EXPECT_EQ(message.error().kind, ErrorKind::corrupt);
    std::string shown = message.error().text();
    for (std::string const& detail : message.error().details)
        shown += "; " + detail;
    return shown;
}

template <class... Messages>
void expect_same(std::string const& text) {
    EXPECT_EQ((heard<Messages...>(text)), text);
}

TEST(Messages, AreReadAsTheyAreWritten) {
    expect_same<Receive>(
        R"({"receive":{"expected":{"maximum":10,"size":5,"digest":")" + digest +
        R"(","sha1":"a9993e364706816aba3e25717850c26c9cd0d89d"},"landed":[{"offset":0,"length":3}]}})");
    expect_same<Receive>(R"({"receive":{"expected":{"maximum":9223372036854775807},"landed":[]}})");
    expect_same<Receive, Range, End>(R"({"range":{"id":1,"offset":4096,"length":100}})");
    expect_same<Receive, Range, End>(R"({"range":{"id":4294967295,"offset":4096}})");
    expect_same<Receive, Range, End>(R"({"end":{"size":0}})");
    expect_same<Check>(R"({"check":{"expected":{"maximum":1}}})");
    expect_same<ReadDocument>(
        R"({"document":{"kind":"imgapi-list","expected":{"maximum":1},"mediaType":"","mostLayers":128}})");
    expect_same<CheckSignature>(R"({"signature":{"kind":"openpgp-sums","name":"a \"b\"","digest":")" + digest +
                                R"("}})");
    expect_same<Landed>(R"({"landed":{"intervals":[{"offset":0,"length":1},{"offset":2,"length":1}],"bytes":2}})");
    expect_same<RangeEnded>(R"({"rangeEnded":{"id":0,"received":7}})");
    expect_same<Verified, Failed>(R"({"verified":{"size":1,"digest":")" + digest + R"("}})");
    expect_same<Verified, Failed>(
        R"({"failed":{"kind":"notFound","attempted":"open it","reason":"No","details":["a","b"]}})");
    expect_same<CheckedDocument>(R"({"checkedDocument":{"size":1,"digest":")" + digest + R"(","mediaType":"x"}})");
    expect_same<Signed>(R"({"signed":{"key":"RW","comment":""}})");
    expect_same<Unpack>(
        R"({"unpack":{"compression":"auto","limits":{"entries":1,"bytes":2,"depth":3,"seconds":4,"leastFreeBytes":5,)"
        R"("leastFreeInodes":6},"appliesWhiteouts":true}})");
    expect_same<Unpacking>(R"({"unpacking":{"read":1,"entries":2,"bytes":3}})");
    expect_same<Unpacked>(R"({"unpacked":{"entries":1,"bytes":2,"diffId":")" + digest +
                          R"(","skippedDevices":0,"skippedAttributes":0,"hasWhiteoutNames":false}})");
    expect_same<Download>(
        R"({"download":{"id":1,"urls":["http://a/b"],"offset":0,"length":5,"wholeLength":9,"ifRange":"\"x\"","maximum":5,"accept":[],)"
        R"("scope":"","bytesPerSecond":0,"stallMilliseconds":30000}})");
    expect_same<Credentials>(R"({"credentials":{"hosts":[{"host":"a:1","user":"u","password":"p","token":"",)"
                             R"("identityToken":"i"}],"proxies":{"http":{"url":"http://p:1","user":"","password":""},)"
                             R"("https":{"url":"","user":"u","password":"w"},"noProxy":"*"},)"
                             R"("servers":[{"base":"https://a:1/v2","authorities":"PEM","certificate":"C","key":"K",)"
                             R"("headers":["X: y"],"isUnverified":true,"connectMilliseconds":5}]}})");
    expect_same<Cancel>(R"({"cancel":{"id":1}})");
    expect_same<Answer>(
        R"({"answer":{"id":1,"status":206,"length":5,"offset":0,"size":9,"etag":"","mediaType":"","finalHost":"a","digest":"",)"
        R"("passedOver":[{"host":"b:1","reason":"down"}]}})");
    expect_same<Downloaded>(R"({"downloaded":{"id":1,"bytes":5}})");
    expect_same<DownloadFailed>(
        R"({"downloadFailed":{"id":1,"kind":"timeout","reason":"x","isTransient":true,"status":429,"retryAfterMilliseconds":1000}})");
}

TEST(Messages, ThatAreMalformedAreRefused) {
    struct Case {
        std::string text;
        std::string message;
    };
    std::string const range = "message \"range\" is malformed; ";
    for (Case const& one : {
             Case{"", "message is not JSON; is empty"},
             {"nonsense", "message is not JSON; line 1, column 2: syntax error while parsing value: invalid literal"},
             {"[]", "message is not an object with one member"},
             {"\"range\"", "message is not an object with one member"},
             {"{}", "message is not an object with one member"},
             {R"({"range":{"id":1,"offset":0},"end":{"size":1}})", "message is not an object with one member"},
             {R"({"rnage":{}})", "message \"rnage\" is not expected here"},
             {R"({"verified":{}})", "message \"verified\" is not expected here"},
             {R"({"range":1})", range + "expected an object (keys: id, offset, length), found number"},
             {R"({"range":{}})", range + "id: required key is missing; offset: required key is missing"},
             {R"({"range":{"id":-1,"offset":0}})", range + "id: -1 is not within 0 to 4294967295"},
             {R"({"range":{"id":4294967296,"offset":0}})", range + "id: 4294967296 is not within 0 to 4294967295"},
             {R"({"range":{"id":1,"offset":-1}})", range + "offset: -1 is not within 0 to 9223372036854775807"},
             {R"({"range":{"id":1,"offset":18446744073709551616}})",
              range + "offset: 18446744073709551616 is beyond a 64-bit signed integer"},
             {R"({"range":{"id":1,"offset":1.5}})", range + "offset: expected an integer, found 1.5"},
             {R"({"range":{"id":"1","offset":0}})", range + "id: expected an integer, found string"},
             {R"({"range":{"id":1,"offset":0,"path":"/etc"}})",
              range + "unknown key \"path\"; the keys are id, offset, length"},
             {R"({"range":{"id":1,"id":2,"offset":0}})", "message is not JSON; range.id: duplicate key"},
             {std::string("{\"range\":{\"id\":1,\"offset\":0}}\0", 30),
              "message is not JSON; line 1, column 30: a NUL byte, which JSON does not allow"},
         })
        EXPECT_EQ((heard<Receive, Range, End>(one.text)), one.message) << one.text;
}

TEST(Messages, HaveBoundedLists) {
    std::string text = R"({"landed":{"bytes":0,"intervals":[)";
    for (std::size_t i = 0; i <= most_intervals; ++i)
        text += i == 0 ? R"({"offset":0,"length":0})" : R"(,{"offset":0,"length":0})";
    EXPECT_EQ(heard<Landed>(text + "]}}"), "message \"landed\" is malformed; intervals: has more than 512 elements");
}

TEST(Messages, AreNoDeeperThanTheyMustBe) {
    std::string const deep = R"({"range":{"id":)" + std::string(1000, '[') + std::string(1000, ']') + "}}";
    EXPECT_EQ(heard<Range>(deep), "message is not JSON; range.id[0][0][0][0][0][0]: nested deeper than 8 levels");
}

TEST(Messages, OfFailuresAreMadeFitForATerminal) {
    Error const error{ErrorKind::corrupt, "read\nit", "\x1b[2J" + std::string(2000, 'x'), {"a\tb"}};
    Error const shown = error_of(failed(error));
    EXPECT_EQ(shown.kind, ErrorKind::corrupt);
    EXPECT_EQ(shown.attempted, "read\\x0ait");
    EXPECT_THAT(shown.reason, testing::StartsWith("\\x1b[2Jxxx"));
    EXPECT_THAT(shown.reason, testing::EndsWith("xxx..."));
    EXPECT_LE(shown.reason.size(), 1000);
    EXPECT_EQ(shown.details, std::vector<std::string>{"a\\x09b"});
}

}  // namespace
}  // namespace triton::role
