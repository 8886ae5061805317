#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/machine/machine.h"
#include "host/machine/store.h"
#include "host/machine/unit_texts.h"

namespace triton::machine {

/// The limits that systemd has for a machine, from the files in which it keeps those of `systemctl set-property` and of
/// vmadm: whoever has set them last. They tell of machines that do not run, too. A limit without such a file, or in a
/// form that a machine cannot have (a percentage of the memory), is left out. Source: systemd.unit(5), system.control.
std::vector<UnitProperty> native_limits(Layout const& layout, Uuid const& uuid);

/// One such file: "[Service]\nCPUQuota=50%\n". `name`: of the setting, "CPUQuota". Empty: it says nothing.
std::vector<UnitProperty> read_limit(std::string_view name, std::string_view text);

/// Gives a machine the limits that are in force where they are others than its properties ask for.
void observe_limits(Machine& machine, std::vector<UnitProperty> const& limits);

/// The same for the limit of its tree in bytes, whole GiB rounded up; 0: there is none.
void observe_quota(Machine& machine, std::uint64_t limit);

/// Takes back what observe_limits() and observe_quota() have given, except for what has changed since: `before` is the
/// machine with what was observed, `stored` without. Only an update of a property changes what is stored of it.
void keep_stored_limits(Machine& machine, Machine const& before, Machine const& stored);

/// The limits of `after` that differ from those of `before`.
std::vector<UnitProperty> changed_limits(Machine const& before, Machine const& after);

}  // namespace triton::machine
