#include "lib/files/sha256.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace triton::sidecar {
namespace {

class Sha256Test : public testing::TestWithParam<files::Sha256::Method> {};
INSTANTIATE_TEST_SUITE_P(EveryWay, Sha256Test,
                         testing::Values(files::Sha256::Method::fastest, files::Sha256::Method::portable));

std::string hash(files::Sha256::Method method, std::string_view text, std::size_t piece) {
    files::Sha256 sha{method};
    for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
        sha.add(text.substr(0, piece));
    return std::move(sha).take_hex();
}

/// The messages of FIPS 180-2, appendix B, and of NIST's CAVP; the sizes around a block from GNU coreutils' sha256sum.
TEST_P(Sha256Test, KnownMessagesInPiecesOfEverySize) {
    struct Row {
        std::string text;
        std::string_view digest;
    };
    Row const rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {std::string(55, 'a'), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {std::string(56, 'a'), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {std::string(63, 'a'), "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {std::string(64, 'a'), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {std::string(65, 'a'), "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {std::string(119, 'a'), "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {std::string(120, 'a'), "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
        {std::string(128, 'a'), "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
    };
    for (Row const& row : rows) {
        for (std::size_t const piece : {1, 3, 63, 64, 65, 1000})
            EXPECT_EQ(hash(GetParam(), row.text, piece), row.digest) << row.text.size() << " in pieces of " << piece;
    }
}

TEST_P(Sha256Test, AMillionLetters) {
    EXPECT_EQ(hash(GetParam(), std::string(1000000, 'a'), 4096),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/// Every length up to some blocks, from an odd address: both ways must agree where no table of anybody has a digest.
TEST(Sha256, BothWaysAgree) {
    std::string text;
    for (unsigned i = 0; i < 1000; ++i)
        text += static_cast<char>(i * 2654435761U >> 24);
    for (std::size_t size = 0; size < text.size(); ++size) {
        std::string_view const part = std::string_view(text).substr(1, size);
        EXPECT_EQ(hash(files::Sha256::Method::fastest, part, 77), hash(files::Sha256::Method::portable, part, 1000))
            << size;
    }
}

}  // namespace
}  // namespace triton::sidecar
