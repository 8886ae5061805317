#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/ip_list.h"
#include "config/substitution.h"
#include "lib/json/problem.h"

namespace triton::sidecar {

/// Substitutes a text by the Argument model of a ProcessConfiguration.
///
/// `${NAME}` is the value of a variable; `${{"type": "IPList", "source": "FDB_PUBLIC_IP", "ipFamily": 4}}` is any
/// Argument, between the outer braces as JSON (a ProcessNumber is that of process 1). `$${` is a plain `${`. Every
/// other dollar stays as it is: templates are often of languages that have their own.
/// Errors: all of them, with where = "line 3, column 7": an unset or empty variable, a bad Argument, a missing brace.
/// Also a result of more than 16 MiB.
std::expected<std::string, json::Problems> substitute_template(std::string_view text,
                                                               config::Variables const& variables);

/// A `$NAME` of a monitor conf.
struct MonitorVariable {
    std::string name;
    std::optional<std::string> value;      ///< nullopt: an error where it is used
    std::string problem = "has no value";  ///< that error
    bool lacks_family = false;             ///< it is a list without an address of the family that is asked for
};

/// The names of the old sidecar, with its fall-backs, and `further` ones from `variables`; each name once. A machine
/// without a name is the host name, a zone without one is the machine, a pod without a public address has its own. With
/// a `family`, the two addresses are lists, of which the first address of that family is taken, in brackets when it is
/// an IPv6 one.
std::vector<MonitorVariable> monitor_variables(config::Variables const& variables,
                                               std::vector<std::string> const& further,
                                               std::optional<config::IpFamily> family,
                                               std::optional<std::string> binary_directory);

/// Replaces each `$NAME` of the list in an fdbmonitor.conf. Of two names that fit the longer is meant (the old sidecar
/// replaced whichever came first and broke the other); an unknown `$NAME` stays as it is.
/// Errors: all variables in use without a value, with where = "line 3, column 7".
std::expected<std::string, json::Problems> substitute_monitor_conf(std::string_view text,
                                                                   std::vector<MonitorVariable> const& variables);

}  // namespace triton::sidecar
