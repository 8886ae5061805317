#include "host/volume/keep/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::volume {
namespace {

constexpr char id[] = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

Result<Config> read(std::string_view kind, std::string const& text) {
    json::ProblemList problems(1);
    auto const node = json::read_json(text, {}, problems);
    if (!node || !node->get<json::Object>()) return fail("no object");
    return read_config(kind, *node->get<json::Object>(), "admin");
}

std::string error_of_document(std::string_view kind, std::string const& text) {
    auto const config = read(kind, text);
    return config ? "" : config.error().text();
}

std::string with_id(std::string const& rest) { return std::string(R"({"VolumeID":")") + id + "\"" + rest + "}"; }

TEST(Documents, WhatIsWrittenIsReadAsTheSame) {
    std::vector<std::pair<std::string, std::string>> const all{
        {"VolumeConfig", with_id("")},
        {"VolumeConfig", with_id(R"(,"GenerationCounter":3,"DisplayName":"a b","Layout":"file","MaxVolSize":4096,
            "ReadOnly":true,"Encrypted":true)")},
        {"VolumeConfig", with_id(R"(,"ContentID":"debian-12")")},
        {"VolumeConfig",
         with_id(std::string(R"(,"VolumeContentOriginType":"clone","GenerationCounter":1,"Source":")") + id + "#0\"")},
        {"VolumeRefConfig", with_id(R"(,"AppUUID":"web.1","VerifyOnly":true)")},
        {"VolumesSnapshotConfig", std::string(R"({"SnapshotID":"before-1","AppUUID":"web","VolumeIDs":[")") + id +
                                      R"(#0",")" + id + R"(#1"],"RollbackCounter":3})"},
        {"ContentTreeConfig",
         std::string(R"({"ContentID":"a","RelativeURL":"x/y:1","DatastoreIDList":[")") + id + "\"]}"},
        {"ContentTreeConfig", std::string(R"({"ContentID":"a","RelativeURL":"x/y:1","DatastoreIDList":[")") + id +
                                  R"("],"Signature":{"Kind":"openpgp-sums","KeyFile":"/k","Policy":"if-present"}})"},
        {"ContentTreeConfig", std::string(R"({"ContentID":"a","RelativeURL":"x/y:1","DatastoreIDList":[")") + id +
                                  R"("],"Signature":{"Kind":"cms","ImageSignature":"a\nb","CertObj":")" + id + "\"}}"},
        {"CertObjConfig", std::string(R"({"UUID":")") + id + R"(","DatastoreIDList":[")" + id +
                              R"("],"StorageConfigList":[{"RelativeURL":"a.pem","ImageSha256":")" +
                              std::string(64, 'a') + "\"}]}"},
        {"DatastoreConfig", std::string(R"({"UUID":")") + id + R"(","DsType":"registry","Fqdn":"example.com:5000",
            "Dpath":"library","CredentialsFile":"/etc/x","Insecure":true})"}};
    for (auto const& [kind, text] : all) {
        auto const config = read(kind, text);
        ASSERT_TRUE(config) << text << config.error().text();
        EXPECT_EQ(kind_of(*config), kind);
        auto const again = read(kind, config_text(*config));
        ASSERT_TRUE(again) << config_text(*config);
        EXPECT_EQ(*again, *config) << text;
    }
}

TEST(Documents, WhatCannotBeIsNamedByItsMember) {
    EXPECT_EQ(error_of_document("VolumeConfig", "{}"), "VolumeConfig.VolumeID: it is missing");
    EXPECT_EQ(error_of_document("VolumeConfig", with_id(R"(,"Layout":"file")")),
              "VolumeConfig.MaxVolSize: a file needs a size");
    EXPECT_EQ(error_of_document("VolumeConfig", with_id(R"(,"GenerationCounter":"1")")),
              "VolumeConfig.GenerationCounter: expected a number from 0 to 1152921504606846976");
    EXPECT_EQ(error_of_document("VolumeConfig", with_id(R"(,"VolumeContentOriginType":"cloudInit")")),
              "VolumeConfig.UserDataFile: expected an absolute path");
    EXPECT_EQ(error_of_document("VolumeConfig",
                                with_id(std::string(R"(,"VolumeContentOriginType":"clone","Source":")") + id + "#0\"")),
              "VolumeConfig.Source: a volume cannot be a clone of itself");
    EXPECT_EQ(error_of_document("VolumeRefConfig", with_id(R"(,"AppUUID":"../x")")),
              "VolumeRefConfig.AppUUID: it is missing, or has other characters than [A-Za-z0-9._-]");
    EXPECT_EQ(error_of_document("Nothing", "{}"), "there are no objects of kind Nothing");
    std::string const tree = std::string(R"({"ContentID":"a","DatastoreIDList":[")") + id + "\"],\"RelativeURL\":";
    for (char const* const url : {"\"\"", "\"/a\"", "\"../a\"", "\"a/../b\"", "\"a//b\"", "\"./a\""})
        EXPECT_EQ(error_of_document("ContentTreeConfig", tree + url + "}"),
                  "ContentTreeConfig.RelativeURL: expected a relative path without '..'")
            << url;
    EXPECT_EQ(error_of_document("ContentTreeConfig", tree + R"("a","ContentSha256":"ABC"})"),
              "ContentTreeConfig.ContentSha256: expected 64 hexadecimal digits");
    EXPECT_EQ(error_of_document("ContentTreeConfig", tree + R"("a","Format":"raw"})"),
              "ContentTreeConfig.ContentSha256: it is missing; only an OCI registry resolves names");
}

TEST(Documents, ASignatureIsWhereItUsuallyIs) {
    auto const name_of_kind = [](std::string const& kind, std::string const& keys) {
        auto const config =
            read("ContentTreeConfig", std::string(R"({"ContentID":"a","RelativeURL":"x/y.raw","DatastoreIDList":[")") +
                                          id + R"("],"Signature":{"Kind":")" + kind + "\"," + keys + "}}");
        return config ? std::get<TreeConfig>(*config).signature->name : config.error().text();
    };
    std::string const holder = std::string(R"("CertObj":")") + id + "\"";
    EXPECT_EQ(name_of_kind("minisign", R"("KeyFile":"/k")"), "x/y.raw.minisig");
    EXPECT_EQ(name_of_kind("openpgp", R"("KeyFile":"/k")"), "x/y.raw.asc");
    EXPECT_EQ(name_of_kind("openpgp-sums", R"("KeyFile":"/k")"), "x/SHA256SUMS.gpg");
    EXPECT_EQ(name_of_kind("openpgp-sums", R"("KeyFile":"/k","SumsURL":"SUMS")"), "SUMS.gpg");
    EXPECT_EQ(name_of_kind("cms", holder), "x/y.raw.p7s");
    EXPECT_EQ(name_of_kind("x509", holder), "x/y.raw.sig");
    EXPECT_EQ(name_of_kind("x509", holder + R"(,"RelativeURL":"s")"), "s");
    EXPECT_EQ(name_of_kind("x509", holder + R"(,"ImageSignature":"AAAA")"), "");
}

TEST(Documents, ADerivedNameOfASignatureHasALimit) {
    auto const error_with = [](std::size_t length) {
        return error_of_document("ContentTreeConfig", R"({"ContentID":"a","RelativeURL":")" + std::string(length, 'x') +
                                                          R"(","DatastoreIDList":[")" + id +
                                                          R"("],"Signature":{"Kind":"minisign","KeyFile":"/k"}})");
    };
    EXPECT_EQ(error_with(1024 - 8), "");
    EXPECT_EQ(error_with(1024 - 7),
              "ContentTreeConfig.Signature.RelativeURL: its name would be longer than 1024 bytes");
}

TEST(Documents, ASnapshotNamesItsVolumes) {
    auto const error_with = [](std::string const& rest) {
        return error_of_document("VolumesSnapshotConfig", R"({"SnapshotID":"s")" + rest + "}");
    };
    std::string const volume = "\"" + std::string(id) + "#0\"";
    EXPECT_EQ(error_with(R"(,"VolumeIDs":[)" + volume + "]"), "");
    EXPECT_EQ(error_with(""), "VolumesSnapshotConfig.VolumeIDs: expected 1 to 64 volumes");
    EXPECT_EQ(error_with(R"(,"VolumeIDs":[])"), "VolumesSnapshotConfig.VolumeIDs: expected 1 to 64 volumes");
    EXPECT_EQ(error_with(std::string(R"(,"VolumeIDs":[")") + id + "\"]"),
              "VolumesSnapshotConfig.VolumeIDs: expected a list of UUID#GENERATION");
    EXPECT_EQ(error_with(R"(,"VolumeIDs":[)" + volume + "," + volume + "]"),
              "VolumesSnapshotConfig.VolumeIDs: " + std::string(id) + "#0 is there twice");
    EXPECT_EQ(error_of_document("VolumesSnapshotConfig", R"({"VolumeIDs":[)" + volume + "]}"),
              "VolumesSnapshotConfig.SnapshotID: it is missing, or no name of at most 64 characters of [A-Za-z0-9._-]");
}

TEST(Documents, CertificatesAreNamedByTheirDigests) {
    std::string const holder = std::string(R"({"UUID":")") + id + R"(","DatastoreIDList":[")" + id + "\"]";
    EXPECT_EQ(error_of_document("CertObjConfig", holder + "}"),
              "CertObjConfig.StorageConfigList: expected 1 to 16 certificates");
    EXPECT_EQ(error_of_document("CertObjConfig", holder + R"(,"StorageConfigList":[1]})"),
              "CertObjConfig.StorageConfigList: expected a list of objects");
    EXPECT_EQ(error_of_document("CertObjConfig", holder + R"(,"StorageConfigList":[{"RelativeURL":"a"}]})"),
              "CertObjConfig.StorageConfigList.ImageSha256: expected 64 hexadecimal digits");
    EXPECT_EQ(error_of_document("CertObjConfig", holder + R"(,"StorageConfigList":[{"RelativeURL":"../a"}]})"),
              "CertObjConfig.StorageConfigList.RelativeURL: expected a relative path without '..'");
    EXPECT_EQ(error_of_document("CertObjConfig", std::string(R"({"UUID":")") + id + R"(","StorageConfigList":[1]})"),
              "CertObjConfig.DatastoreIDList: it is missing");
}

TEST(Documents, APublisherIsAWord) {
    EXPECT_TRUE(is_publisher("vmadm"));
    for (char const* const name : {"", "a b", "A", "../x", "a\n", "123456789012345678901234567890123"})
        EXPECT_FALSE(is_publisher(name)) << name;
}

}  // namespace
}  // namespace triton::volume
