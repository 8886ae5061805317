#include "launcher/plan/document.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::launcher {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class DocumentTest : public testing::Test {
protected:
    DocumentTest() {
        std::string name = fs::temp_directory_path() / "document.XXXXXX";
        root = ::mkdtemp(name.data());
    }
    ~DocumentTest() override { fs::remove_all(root); }

    void write(std::string const& name, std::string const& text) const {
        fs::create_directories((root / name).parent_path());
        std::ofstream(root / name) << text;
    }
    [[nodiscard]] Document read() const { return read_document(root / "config.json"); }
    [[nodiscard]] std::string error() const {
        auto const document = read();
        return document.layers ? "none" : document.layers.error().text();
    }
    [[nodiscard]] std::vector<std::string> files() const {
        std::vector<std::string> names;
        auto const document = read();
        for (config::Layer const& layer : document.layers.value())
            names.push_back(layer.file + "=" + layer.text);
        return names;
    }

    fs::path root;
};

TEST_F(DocumentTest, OneFileIsOneLayer) {
    write("config.json", "{}");
    EXPECT_THAT(files(), ElementsAre("={}"));
    EXPECT_THAT(read().watched, testing::IsEmpty());
    fs::remove(root / "config.json");
    EXPECT_THAT(error(), testing::HasSubstr("No such file"));
}

TEST_F(DocumentTest, LayersComeInTheOrderOfTheListAndOfNames) {
    write("config.json", R"({"include":["conf.d/*.json","last.json","none.d/*","conf.d/1?.json"]})");
    for (auto const* name : {"conf.d/9.json", "conf.d/10.json", "conf.d/.hidden.json", "conf.d/10.json~", "last.json"})
        write(name, name);
    auto const document = read();
    std::string const first = document.layers.value().front().text;
    EXPECT_THAT(files(), ElementsAre("=" + first, "conf.d/10.json=conf.d/10.json", "conf.d/9.json=conf.d/9.json",
                                     "last.json=last.json", "conf.d/10.json=conf.d/10.json"));
    std::string const dir = root.string() + "/";
    EXPECT_THAT(read().watched,
                ElementsAre(dir + "conf.d/*.json", dir + "conf.d/10.json", dir + "conf.d/9.json", dir + "last.json",
                            dir + "none.d/*", dir + "conf.d/1?.json", dir + "conf.d/10.json"));
}

TEST_F(DocumentTest, WhatCannotBeReadNamesItsPlace) {
    write("config.json", R"({"include":["a.json","missing.json"]})");
    write("a.json", "{}");
    EXPECT_EQ(error(), "include[1]: cannot open " + (root / "missing.json").string() + ": No such file or directory");
    EXPECT_THAT(read().watched, testing::Contains((root / "missing.json").string()));
    fs::create_directory(root / "missing.json");
    EXPECT_THAT(error(), testing::EndsWith("Is a directory"));
}

TEST_F(DocumentTest, AllThatCannotBeReadIsNamed) {
    write("config.json", R"({"include":["missing.json","conf.d/*.json","gone.json"]})");
    fs::create_directories(root / "conf.d/1.json");
    write("conf.d/2.json", "{}");
    fs::create_symlink("nowhere", root / "conf.d/3.json");
    std::string const dir = root.string() + "/";
    EXPECT_EQ(error(), "include[0]: cannot open " + dir + "missing.json: No such file or directory");
    EXPECT_THAT(read().layers.error().details,
                ElementsAre("include[1]: cannot read " + dir + "conf.d/1.json: Is a directory",
                            "include[1]: cannot open " + dir + "conf.d/3.json: No such file or directory",
                            "include[2]: cannot open " + dir + "gone.json: No such file or directory"));
    EXPECT_THAT(read().watched, testing::IsSupersetOf({dir + "conf.d/2.json", dir + "gone.json"}));
    for (std::size_t i = 0; i < config::most_layers + 9; ++i)
        fs::create_directories(root / "conf.d" / ("d" + std::to_string(i) + ".json"));
    EXPECT_EQ(read().layers.error().details.size() + 1, config::most_layers);
}

TEST_F(DocumentTest, FilesAndBytesAreBounded) {
    write("config.json", R"({"include":["d/*"]})");
    std::string const half(config::most_layer_bytes / 2, ' ');
    write("d/1", half);
    EXPECT_EQ(error(), "none");
    write("d/2", half);
    EXPECT_THAT(error(), testing::EndsWith("the files have more than 1048576 bytes in all"));
    fs::remove_all(root / "d");
    for (std::size_t i = 0; i < config::most_layers; ++i)
        write("d/" + std::to_string(i), "{}");
    EXPECT_THAT(error(), testing::EndsWith("there are more than 256 files"));
    for (std::size_t i = 0; i < 4100; ++i)
        write("d/." + std::to_string(i), "");
    EXPECT_THAT(error(), testing::EndsWith("it has more than 4096 entries"));
}

/// Whoever says no to a path may not be asked for anything behind it: its file system hangs.
TEST_F(DocumentTest, NothingIsOpenedThatMayNotBe) {
    write("config.json", R"({"include":["far/*.json","b.json"]})");
    write("far/a.json", "{}");
    write("b.json", "{}");
    std::string const far = (root / "far").string() + "/";
    std::string const config = (root / "config.json").string();
    for (std::string const& refused : {config, far, far + "a.json"}) {
        std::vector<std::string> asked;
        auto const document = read_document(config, [&](std::string const& path) {
            asked.push_back(path);
            return path != refused;
        });
        EXPECT_TRUE(document.is_cut_short) << refused;
        EXPECT_EQ(asked.back(), refused);
    }
    std::vector<std::string> asked;
    auto const document = read_document(config, [&](std::string const& path) {
        asked.push_back(path);
        return true;
    });
    EXPECT_FALSE(document.is_cut_short);
    EXPECT_THAT(asked, ElementsAre(config, far, far + "a.json", (root / "b.json").string()));
}

}  // namespace
}  // namespace triton::launcher
