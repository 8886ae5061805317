#include "host/volume/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace triton::volume {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr std::uint64_t gib = 1ULL << 30;

VolumeKey key(std::uint8_t number) {
    Uuid::Bytes bytes{};
    bytes[15] = number;
    return {Uuid::of_bytes(bytes, 4), 0};
}
std::string name(std::uint8_t number) { return key(number).text(); }

VolumeConfig blank(std::uint8_t number, std::uint64_t bytes = gib) {
    return {.key = key(number), .publisher = "admin", .most_bytes = bytes};
}

std::string text_of(Action const& action) {
    struct Visitor {
        std::string operator()(Save const& save) const {
            if (auto const* const row = std::get_if<VolumeRow>(&save.change)) {
                static constexpr std::array<std::string_view, 3> stages{"intent", "made", "deleting"};
                return "save " + std::string(stages[static_cast<std::size_t>(row->stage)]);
            }
            if (auto const* const tree = std::get_if<TreeRow>(&save.change))
                return tree->is_loaded ? "save loaded" : "save " + tree->digest;
            if (auto const* const snapshot = std::get_if<SnapshotRow>(&save.change)) {
                static constexpr std::array<std::string_view, 4> stages{"intent", "made", "rolling back", "deleting"};
                return "save snapshot " + std::string(stages[static_cast<std::size_t>(snapshot->stage)]);
            }
            return "save erase";
        }
        std::string operator()(Forget const&) const { return "forget"; }
        std::string operator()(StartJob const& start) const { return "start " + std::string(name_of(start.job.kind)); }
        std::string operator()(CancelJob const&) const { return "cancel"; }
        std::string operator()(PublishVolume const& publish) const {
            return std::string(name_of(publish.status.state)) + "/" + std::string(name_of(publish.status.sub_state)) +
                   (publish.status.error ? " " + publish.status.error->text : "");
        }
        std::string operator()(PublishTree const& publish) const {
            return "tree " + std::string(name_of(publish.status.state));
        }
        std::string operator()(PublishCertificates const& publish) const {
            return "certificates " + std::string(name_of(publish.status.state)) +
                   (publish.status.error ? " " + publish.status.error->text : "");
        }
        std::string operator()(UnpublishCertificates const&) const { return "unpublish certificates"; }
        std::string operator()(PublishSnapshot const& publish) const {
            return "snapshot " + std::string(name_of(publish.status.state)) +
                   (publish.status.error ? " " + publish.status.error->text : "");
        }
        std::string operator()(UnpublishSnapshot const&) const { return "unpublish snapshot"; }
        std::string operator()(UnpublishVolume const&) const { return "unpublish"; }
        std::string operator()(UnpublishTree const&) const { return "unpublish tree"; }
        std::string operator()(LookAtSpace const&) const { return "look at space"; }
        std::string operator()(LookAtVault const&) const { return "look at vault"; }
    };
    return std::visit(Visitor{}, action);
}

/// A core, the actions of each event as text, and the ids of what it last saved and started.
class CoreTest : public testing::Test {
protected:
    CoreTest() {
        std::map<FileSystem, std::uint64_t> const free{{FileSystem::clear, 10 * gib}};
        on(SpaceSeen{free, {}});
    }
    std::vector<std::string> on(Event const& event) {
        core_.on(event, now_);
        std::vector<std::string> texts;
        for (Action const& action : core_.take()) {
            texts.push_back(text_of(action));
            if (auto const* const save = std::get_if<Save>(&action)) save_ = save->id;
            if (auto const* const start = std::get_if<StartJob>(&action)) job_ = start->id;
        }
        return texts;
    }
    void create(std::uint8_t number) {
        on(Put{blank(number)});
        on(Saved{save_});
        on(JobDone{job_});
        on(Saved{save_});
        ASSERT_EQ(core_.status(key(number))->state, State::created_volume);
    }

    Core core_{Settings{.publishers = {"admin"}}};
    BootTime now_ = 1h;
    SaveId save_{};
    JobId job_{};
};

TEST_F(CoreTest, SavesWhatItIsAboutToDoBeforeItDoesIt) {
    EXPECT_THAT(on(Put{blank(1)}), ElementsAre("save intent", "INITIAL/"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start build", "CREATING_VOLUME/Initial"));
    EXPECT_THAT(on(JobProgress{.job = job_, .sub_state = SubState::prepare_done}),
                ElementsAre("CREATING_VOLUME/PrepareDone"));
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("save made", "CREATING_VOLUME/Created"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("CREATED_VOLUME/Created"));
    EXPECT_TRUE(core_.is_settled());
    EXPECT_THAT(on(Removed{key(1)}), ElementsAre("save deleting", "CREATED_VOLUME/Created"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start destroy", "CREATED_VOLUME/Deleting"));
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("save erase"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("unpublish"));
    EXPECT_TRUE(core_.is_settled());
    EXPECT_EQ(core_.ledger().outstanding(FileSystem::clear), 0U);
}

TEST_F(CoreTest, AVolumeWithAUserStaysWithoutItsConfiguration) {
    create(1);
    ReferenceKey const web{key(1), "web"};
    on(Put{ReferenceConfig{.key = web, .publisher = "admin"}});
    EXPECT_THAT(on(Removed{key(1)}), ElementsAre("CREATED_VOLUME/Created"));
    EXPECT_THAT(core_.why(key(1)),
                ElementsAre("volume " + name(1) + " is CREATED_VOLUME/Created", "it is used by web"));
    EXPECT_THAT(on(Removed{web}), ElementsAre("save deleting", "CREATED_VOLUME/Created"));
}

TEST_F(CoreTest, WhatWasFoundHasItsGrace) {
    Core fresh(Settings{.publishers = {"admin"}});
    VolumeRow const row{.key = key(1), .stage = VolumeRow::Stage::made, .bytes = gib};
    fresh.on(Loaded{.volumes = {row}}, now_);
    fresh.on(TreesSeen{{key(1)}}, now_);
    EXPECT_EQ(fresh.next(), std::nullopt) << "the grace begins when all publishers are complete";
    fresh.on(PublisherComplete{"admin"}, now_);
    EXPECT_EQ(fresh.next(), now_ + 3600s);
    EXPECT_EQ(fresh.status(key(1))->publisher, "unknown");
    fresh.take();
    fresh.on(Put{blank(1)}, now_ + 3599s);  // claimed in time
    EXPECT_EQ(fresh.status(key(1))->publisher, "admin");
    EXPECT_EQ(fresh.next(), std::nullopt);
}

TEST_F(CoreTest, RoomIsWaitedFor) {
    EXPECT_THAT(on(Put{blank(1, 100 * gib)}),
                ElementsAre("INITIAL/ Remaining disk space 10670309376, volume needs 107374182400", "look at space",
                            "look at vault"));
    EXPECT_EQ(core_.next(), now_ + 5s);
    EXPECT_THAT(on(SpaceSeen{{{FileSystem::clear, 200 * gib}}, {}}), ElementsAre("save intent", "INITIAL/"));
}

TEST_F(CoreTest, AJobThatFoundNoRoomIsNotRepeatedAtOnce) {
    create(2);
    on(Put{blank(1)});
    on(Saved{save_});
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::room, "no space"}}),
                ElementsAre("CREATING_VOLUME/Initial no space", "look at space", "look at vault"));
    EXPECT_THAT(on(SpaceSeen{{{FileSystem::clear, 10 * gib}}, {}}), IsEmpty());
    EXPECT_EQ(core_.next(), now_ + 5s);
    now_ += 5s;
    EXPECT_THAT(on(TimePassed{}), Contains("start build"));
    on(JobFailed{job_, {FailureClass::room, "no space"}});
    // A volume that is removed makes room.
    on(Removed{key(2)});
    on(Saved{save_});
    EXPECT_THAT(on(JobDone{job_}), Contains("start build"));
}

TEST(CoreAtStart, NothingFailsBeforeTheFreeSpaceIsKnown) {
    Core fresh(Settings{});
    fresh.on(Put{blank(1)}, BootTime{});
    EXPECT_FALSE(fresh.status(key(1))->error);
    EXPECT_THAT(fresh.why(key(1)), testing::Contains("it waits for the first answer about the free space of the disk"));
    fresh.take();
    fresh.on(SpaceSeen{}, BootTime{});
    EXPECT_THAT(fresh.why(key(1)), testing::Not(testing::Contains(testing::HasSubstr("the first answer"))));
    ASSERT_TRUE(fresh.status(key(1))->error) << "it was looked at, and is not known";
    EXPECT_EQ(fresh.status(key(1))->error->text, "the free space of its file system cannot be found out");
    fresh.on(SpaceSeen{{{FileSystem::clear, 10 * gib}}, {}}, BootTime{});
    EXPECT_FALSE(fresh.status(key(1))->error);
}

TEST(CoreAtStart, EachFileSystemHasAFirstAnswerOfItsOwn) {
    Core fresh(Settings{});
    fresh.on(Put{blank(1)}, BootTime{});
    fresh.on(SpaceSeen{.free = {{FileSystem::vault, 10 * gib}}, .used = {}, .looked_at = {FileSystem::vault}},
             BootTime{});
    EXPECT_THAT(fresh.why(key(1)), testing::Contains("it waits for the first answer about the free space of the disk"));
    fresh.on(SpaceSeen{.free = {{FileSystem::clear, 10 * gib}}, .used = {}, .looked_at = {FileSystem::clear}},
             BootTime{});
    EXPECT_THAT(fresh.why(key(1)), testing::Contains("its row is being saved"));
}

TEST_F(CoreTest, NoByteIsPromisedTwice) {
    on(Put{blank(1, 6 * gib)});
    EXPECT_THAT(on(Put{blank(2, 6 * gib)}).front(), testing::HasSubstr("Remaining disk space"));
    EXPECT_THAT(core_.why(key(2)), testing::Contains("6442450944 bytes are promised to others and not written yet"));
}

TEST_F(CoreTest, AFailedStepIsTriedAgainAndShown) {
    on(Put{blank(1)});
    on(Saved{save_});
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::transient, "the pool is busy"}}),
                ElementsAre("CREATING_VOLUME/Initial the pool is busy"));
    auto const next = core_.next();
    ASSERT_TRUE(next);
    EXPECT_THAT(on(TimePassed{}), ElementsAre());
    now_ = *next;
    EXPECT_THAT(on(TimePassed{}), ElementsAre("start build"));
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("save made", "CREATING_VOLUME/Created"));
}

TEST_F(CoreTest, AFailureOfAnOldConfigurationIsNotThatOfTheNewOne) {
    TreeConfig config{.id = "disk", .publisher = "admin", .name = "disk", .digest = "sha256:1", .format = Format::raw};
    on(Put{config});
    on(Saved{save_});
    config.format = Format::qcow2;
    EXPECT_THAT(on(Put{config}), ElementsAre());
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::permanent, "it is not raw"}}), ElementsAre("start fetch"));
    EXPECT_EQ(core_.status("disk")->error, std::nullopt);
    // Of a volume, likewise.
    on(Put{blank(1)});
    on(Saved{save_});
    on(Put{blank(1, 2 * gib)});
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::permanent, "too small"}}), testing::Contains("start build"));
    EXPECT_EQ(core_.status(key(1))->error, std::nullopt);
    // A repeated configuration is no other one.
    on(Put{blank(1, 2 * gib)});
    on(JobFailed{job_, {FailureClass::permanent, "too small"}});
    EXPECT_EQ(core_.status(key(1))->error->text, "too small");
}

TEST_F(CoreTest, AnEncryptedVolumeWaitsForTheVault) {
    VolumeConfig config = blank(1);
    config.is_encrypted = true;
    on(VaultSeen{false, "the vault is locked"});
    EXPECT_THAT(on(Put{config}), ElementsAre("INITIAL/ the vault is locked", "look at space", "look at vault"));
    EXPECT_EQ(core_.next(), now_ + 5s);
    EXPECT_THAT(on(VaultSeen{true}), ElementsAre("save intent", "INITIAL/"));
    on(Saved{save_});
    on(JobDone{job_});
    on(Saved{save_});
    EXPECT_TRUE(core_.is_settled());
    // Locked again, it is neither missing nor deleted.
    on(TreesSeen{{}, {FileSystem::clear}});
    EXPECT_THAT(on(VaultSeen{false, "the vault is locked"}),
                ElementsAre("CREATED_VOLUME/Created the vault is locked", "look at space", "look at vault"));
    EXPECT_THAT(on(Removed{key(1)}), ElementsAre("CREATED_VOLUME/Created the vault is locked"));
    EXPECT_THAT(on(VaultSeen{true}), ElementsAre("save deleting"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start destroy", "CREATED_VOLUME/Deleting"));
}

TEST_F(CoreTest, WhatCannotBeChangedSaysWhatIsNeeded) {
    create(1);
    EXPECT_THAT(
        on(Put{blank(1, gib / 2)}),
        ElementsAre(
            "CREATED_VOLUME/Created it has 1073741824 bytes and cannot shrink to 536870912; generation 1 is needed"));
    EXPECT_THAT(on(Put{blank(1, 2 * gib)}), ElementsAre("start grow", "CREATED_VOLUME/Created"));
}

TEST_F(CoreTest, AQcow2FileGrowsWhenNobodyWritesIt) {
    VolumeConfig config = blank(1);
    config.origin = Origin::received;
    config.format = Format::qcow2;
    VolumeRow const row{.key = key(1), .stage = VolumeRow::Stage::made, .bytes = gib, .format = Format::qcow2};
    on(Loaded{.volumes = {row}, .trees = {}, .objects = {config}});
    on(TreesSeen{{key(1)}});
    ReferenceConfig const reader{.key = {key(1), "reader"}, .publisher = "admin", .is_read_only = true};
    ReferenceConfig writer{.key = {key(1), "writer"}, .publisher = "admin"};
    on(Put{reader});
    on(Put{writer});
    config.most_bytes = 2 * gib;
    EXPECT_THAT(on(Put{config}), ElementsAre("CREATED_VOLUME/Created a qcow2 file grows when nobody writes it, and it "
                                             "is used by writer"));
    writer.is_read_only = true;
    EXPECT_THAT(on(Put{writer}), ElementsAre("start grow", "CREATED_VOLUME/Created"));
}

TEST_F(CoreTest, ATagIsResolvedOnce) {
    EXPECT_THAT(on(Put{TreeConfig{.id = "web", .publisher = "admin", .name = "web:1", .most_bytes = gib}}),
                ElementsAre("start resolve", "tree RESOLVING_TAG"));
    EXPECT_THAT(on(JobDone{job_, "sha256:1"}), ElementsAre("save sha256:1"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start fetch", "tree DOWNLOADING"));
    EXPECT_THAT(on(JobProgress{.job = job_, .state = State::downloading}), IsEmpty());
    EXPECT_THAT(on(JobDone{job_, "", 5}), ElementsAre("save loaded"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("tree LOADED"));
}

TEST_F(CoreTest, LostContentIsFetchedAgain) {
    on(Put{TreeConfig{.id = "web", .publisher = "admin", .name = "web:1", .digest = "sha256:1", .most_bytes = gib}});
    on(Saved{save_});
    on(JobDone{job_, "", 5});
    EXPECT_THAT(on(Saved{save_}), ElementsAre("tree LOADED"));
    EXPECT_THAT(on(ContentLost{"other"}), ElementsAre());
    EXPECT_THAT(on(ContentLost{"web"}), ElementsAre("save sha256:1", "tree DOWNLOADING"));
    EXPECT_THAT(on(ContentLost{"web"}), ElementsAre());
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start fetch", "tree DOWNLOADING"));
}

TreeConfig signed_tree(std::string const& keys) {
    return {.id = "a",
            .publisher = "admin",
            .name = "a.raw",
            .digest = "sha256:1",
            .format = Format::raw,
            .signature = SignatureConfig{.keys = keys}};
}

TEST_F(CoreTest, ADemandForASignatureIsKeptWithTheContent) {
    TreeConfig config = signed_tree("/one");
    config.signature.reset();
    on(Put{config});
    on(Saved{save_});
    on(JobDone{.job = job_, .bytes = 5});
    EXPECT_THAT(on(Saved{save_}), ElementsAre("tree LOADED"));
    EXPECT_THAT(on(Put{signed_tree("/one")}), ElementsAre("save sha256:1", "tree DOWNLOADING"));
    VolumeConfig volume = blank(1);
    volume.origin = Origin::download;
    volume.content = "a";
    EXPECT_THAT(on(Put{volume}), Contains("DOWNLOADING/")) << "nothing is made of it before it is checked";
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start fetch", "tree DOWNLOADING"));
    on(JobFailed{job_, {FailureClass::server, "no signature"}});
    EXPECT_THAT(on(RetryAsked{}), Contains("start fetch"));
    EXPECT_THAT(on(Put{signed_tree("/two")}), IsEmpty()) << "the check of what is demanded no longer ends first";
    EXPECT_THAT(on(JobDone{.job = job_, .bytes = 5, .signed_by = "A"}), Contains("save loaded"));
    EXPECT_THAT(on(Saved{save_}), Contains("save sha256:1")) << "and says nothing of what is demanded now";
    on(Saved{save_});
    on(JobDone{.job = job_, .bytes = 5, .signed_by = "B"});
    EXPECT_THAT(on(Saved{save_}), Contains("save intent"));
    EXPECT_EQ(core_.status("a")->signed_by, "B");
    EXPECT_EQ(core_.row("a")->demand, demand_of(signed_tree("/two").signature));
    EXPECT_THAT(on(Put{signed_tree("/two")}), IsEmpty());
}

TEST_F(CoreTest, ContentWaitsForTheCertificatesOfItsSigner) {
    HolderKey const holder{key(9).id};
    TreeConfig config = signed_tree("");
    config.signature = SignatureConfig{.kind = SignatureConfig::Kind::cms, .holder = holder};
    on(Put{config});
    EXPECT_THAT(on(Saved{save_}), ElementsAre("tree RESOLVED_TAG"));
    EXPECT_TRUE(core_.is_settled()) << "there is nothing to wait for but a publisher";
    EXPECT_THAT(core_.why("a"),
                Contains("it waits for the certificates of " + holder.text() + ", which nobody has configured"));
    CertificatesConfig certificates{.key = holder, .publisher = "admin", .certificates = {{"a.pem", "sha256:2"}}};
    EXPECT_THAT(on(Put{certificates}), ElementsAre("start fetch-certificates", "certificates DOWNLOADING"));
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::server, "no"}}), ElementsAre("certificates DOWNLOADING no"));
    EXPECT_FALSE(core_.is_settled());
    on(RetryAsked{});
    EXPECT_THAT(on(JobDone{job_}), UnorderedElementsAre("certificates LOADED", "start fetch", "tree DOWNLOADING"));
    JobId const fetch = job_;
    EXPECT_THAT(on(Removed{holder}), ElementsAre("start drop-certificates", "certificates INITIAL"));
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("unpublish certificates"));
    on(JobDone{.job = fetch, .signed_by = "A"});
    on(Saved{save_});
    EXPECT_EQ(core_.status("a")->state, State::loaded) << "what was checked stays";
    EXPECT_TRUE(core_.is_settled());
}

TEST_F(CoreTest, CertificatesThatNobodyWantsAreRemoved) {
    HolderKey const holder{key(9).id};
    EXPECT_THAT(on(CertificatesSeen{{holder}}), ElementsAre("start drop-certificates", "certificates INITIAL"));
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("unpublish certificates"));
    CertificatesConfig certificates{.key = holder, .publisher = "admin", .certificates = {{"a.pem", "sha256:2"}}};
    on(Put{certificates});
    certificates.certificates = {{"b.pem", "sha256:3"}};
    on(Put{certificates});
    EXPECT_THAT(on(JobDone{job_}), Contains("start fetch-certificates")) << "those of the old configuration";
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("certificates LOADED"));
    EXPECT_THAT(on(CertificatesLost{holder}), Contains("start fetch-certificates"));
    on(JobDone{job_});
    on(PublisherRestarted{"admin"});
    EXPECT_THAT(on(PublisherComplete{"admin"}), Contains("forget"));
}

SnapshotConfig snapshot_of(std::vector<VolumeKey> volumes, std::uint64_t rollbacks = 0) {
    return {.key = {"before"}, .publisher = "admin", .volumes = std::move(volumes), .rollbacks = rollbacks};
}

TEST_F(CoreTest, ASnapshotIsTakenOnceItsVolumesAreMade) {
    create(1);
    EXPECT_THAT(on(Put{snapshot_of({key(1), key(2)})}), ElementsAre("snapshot INITIAL"));
    EXPECT_THAT(core_.why(SnapshotKey{"before"}),
                Contains("it waits for volume " + name(2) + ", which nobody has configured"));
    on(Put{blank(2)});
    on(Saved{save_});
    on(JobDone{job_});
    EXPECT_THAT(on(Saved{save_}), ElementsAre("CREATED_VOLUME/Created", "save snapshot intent"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start take-snapshot", "snapshot CREATING"));
    // Nothing else is done with its volumes meanwhile.
    EXPECT_THAT(on(Put{blank(2, 2 * gib)}), ElementsAre());
    EXPECT_THAT(on(JobDone{.job = job_, .taken = 1000}), ElementsAre("save snapshot made", "start grow"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("snapshot CREATED"));
    EXPECT_EQ(core_.status(SnapshotKey{"before"})->taken, 1000);
    EXPECT_THAT(on(Put{snapshot_of({key(1)})}),
                ElementsAre("snapshot CREATED it is of other volumes; another SnapshotID is needed"));
}

TEST_F(CoreTest, ASnapshotIsGivenBackOnceForEachNumberAndOnlyWithoutUsers) {
    create(1);
    on(Put{snapshot_of({key(1)}, 3)});
    on(Saved{save_});
    on(JobDone{job_});
    EXPECT_THAT(on(Saved{save_}), ElementsAre("snapshot CREATED"));
    ReferenceConfig const user{.key = {key(1), "web"}, .publisher = "admin"};
    on(Put{user});
    EXPECT_THAT(
        on(Put{snapshot_of({key(1)}, 4)}),
        ElementsAre("snapshot CREATED volume " + name(1) + " is used by web; it is rolled back when nobody uses it"));
    EXPECT_THAT(on(Removed{user.key}),
                ElementsAre("CREATED_VOLUME/Created", "save snapshot rolling back", "snapshot CREATED"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start roll-back", "snapshot ROLLING_BACK"));
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("save snapshot made"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("snapshot CREATED"));
    EXPECT_EQ(core_.status(SnapshotKey{"before"})->rollbacks, 4U);
    EXPECT_THAT(on(Put{snapshot_of({key(1)}, 4)}), ElementsAre());
    EXPECT_TRUE(core_.is_settled());
}

TEST_F(CoreTest, ASnapshotThatNobodyWantsIsRemoved) {
    create(1);
    on(Put{snapshot_of({key(1)})});
    on(Saved{save_});
    on(JobDone{job_});
    on(Saved{save_});
    EXPECT_THAT(on(Removed{SnapshotKey{"before"}}), ElementsAre("save snapshot deleting", "snapshot CREATED"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start delete-snapshot", "snapshot DELETING"));
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::room, "no space"}}), ElementsAre("snapshot DELETING no space"));
    now_ += 1h;
    EXPECT_THAT(on(TimePassed{}), ElementsAre("start delete-snapshot"));
    EXPECT_THAT(on(JobDone{job_}), ElementsAre("save erase", "snapshot DELETING"));
    EXPECT_THAT(on(Saved{save_}), ElementsAre("unpublish snapshot"));
    EXPECT_TRUE(core_.is_settled());
}

TEST_F(CoreTest, ARollbackThatWasBegunEndsBeforeItsSnapshotGoes) {
    create(1);
    VolumeRow const volume = *core_.row(key(1));
    SnapshotRow const half{
        .key = {"before"}, .stage = SnapshotRow::Stage::rolling_back, .volumes = {key(1)}, .rollbacks = 1};
    // As after a kill, and the configuration was deleted.
    core_ = Core{Settings{.publishers = {"admin"}}};
    EXPECT_THAT(on(Loaded{.volumes = {volume}, .trees = {}, .snapshots = {half}, .objects = {blank(1)}}),
                Contains("start roll-back"));
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::transient, "busy"}}), Contains("snapshot ROLLING_BACK busy"));
    now_ += 1h;
    on(TimePassed{});
    // It can never end: then what is left of it goes.
    EXPECT_THAT(on(JobFailed{job_, {FailureClass::permanent, "no such snapshot"}}), Contains("save snapshot deleting"));
}

TEST_F(CoreTest, AVolumeThatIsRemovedTakesItsPartOfASnapshotAlong) {
    create(1);
    on(Put{snapshot_of({key(1)})});
    on(Saved{save_});
    on(JobDone{job_});
    on(Saved{save_});
    on(Removed{key(1)});
    EXPECT_THAT(on(Saved{save_}), Contains("snapshot CREATED volume " + name(1) +
                                           " is not there, and with it what the snapshot has of it"));
    on(JobDone{job_});
    on(Saved{save_});
    on(Removed{SnapshotKey{"before"}});
    EXPECT_THAT(on(Saved{save_}), ElementsAre("start delete-snapshot", "snapshot DELETING"));
}

TEST_F(CoreTest, WhatIsUnclaimedGoesAtOnceWhenThatIsAskedFor) {
    Core fresh(Settings{.publishers = {"admin"}});
    VolumeRow const row{.key = key(1), .stage = VolumeRow::Stage::made, .bytes = gib};
    fresh.on(Loaded{.volumes = {row}, .objects = {blank(2)}}, now_);
    fresh.on(TreesSeen{{key(1)}}, now_);
    fresh.take();
    fresh.on(CollectAsked{}, now_);
    EXPECT_TRUE(fresh.take().empty()) << "not before all publishers are complete";
    EXPECT_EQ(fresh.unclaimed().at(0).reason, "nobody claims it, but not all publishers have said what they want");
    fresh.on(PublisherComplete{"admin"}, now_);
    ASSERT_EQ(fresh.unclaimed().size(), 1U);
    EXPECT_TRUE(fresh.unclaimed().at(0).is_collectable);
    fresh.take();
    fresh.on(CollectAsked{}, now_);
    auto const actions = fresh.take();
    ASSERT_FALSE(actions.empty());
    EXPECT_EQ(text_of(actions.front()), "save deleting");
}

TEST_F(CoreTest, LostDataAreNotMadeAnew) {
    create(1);
    EXPECT_THAT(
        on(TreesSeen{}),
        ElementsAre("CREATED_VOLUME/Created its data are not in the pool; delete the volume, or bring the pool back"));
    EXPECT_THAT(on(RetryAsked{}), ElementsAre());
    EXPECT_THAT(on(TreesSeen{{key(1)}}), ElementsAre("CREATED_VOLUME/Created"));
}

}  // namespace
}  // namespace triton::volume
