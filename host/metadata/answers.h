#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/machine/machine.h"
#include "lib/base/result.h"
#include "lib/json/reader.h"

namespace triton::metadata {

/// What a machine is told, and may change. Its root may ask as often as it likes.
class Answers {
public:
    virtual ~Answers() = default;

    /// nullopt: there is no such key.
    virtual Result<std::optional<std::string>> get(std::string_view key) = 0;
    virtual Result<std::vector<std::string>> keys() = 0;
    /// Errors: `denied` for a key that the machine may not change; `exhausted` when it has too much.
    virtual Result<> put(std::string_view key, std::string_view value) = 0;
    /// Succeeds also when there is no such key.
    virtual Result<> remove(std::string_view key) = 0;
};

/// The value of a key, for the machine itself: a key of customer_metadata; of internal_metadata if it ends in "_pw" or
/// begins with one of internal_metadata_namespaces and a colon; "sdc:PROPERTY" what every user of the host may see of a
/// property, whose parts have their places behind dots ("sdc:nics.0.ip"), and "sdc:operator-script" that key of
/// internal_metadata. What is no text is JSON. Source: SmartOS's metadata agent; mdata-get(1M).
std::optional<std::string> value_for_machine(machine::Machine const& machine, std::string_view key);
/// The keys that have values, without those of "sdc:".
std::vector<std::string> keys_for_machine(machine::Machine const& machine);

/// The update that a change from inside stands for. `value`: nullopt: it is removed. Errors: as Answers::put().
Result<json::Object> change_from_machine(machine::Machine const& machine, std::string_view key,
                                         std::optional<std::string_view> value);

/// The machine of a file that is read again for each question.
class MachineAnswers final : public Answers {
public:
    using Read = std::function<Result<machine::Machine>()>;
    /// Makes the payload of an update for a machine that nobody else can change meanwhile: other clients ask, too.
    using Make = std::function<Result<json::Object>(machine::Machine const& before)>;
    using Change = std::function<Result<>(Make const& make)>;
    MachineAnswers(Read read, Change change) : read_(std::move(read)), change_(std::move(change)) {}

    Result<std::optional<std::string>> get(std::string_view key) override;
    Result<std::vector<std::string>> keys() override;
    Result<> put(std::string_view key, std::string_view value) override;
    Result<> remove(std::string_view key) override;

private:
    Read read_;
    Change change_;
};

}  // namespace triton::metadata
