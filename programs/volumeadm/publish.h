#pragma once

#include "host/volume/objects.h"
#include "programs/volumeadm/command_line.h"

namespace triton::program {

/// The options of commands that wait until what they ask for is done.
void add_wait_options(CLI::App& app, Options& options);

/// Publishes a volume, prints its key, and waits until it is made, unless the options say otherwise.
Outcome publish_volume(Options const& options, volume::VolumeConfig config);

}  // namespace triton::program
