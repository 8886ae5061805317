#pragma once

#include "host/storage/envelope.h"

namespace triton::machine {

inline constexpr storage::EnvelopeKind machine_stream{.magic = "triton-machine ",
                                                      .member = "machine",
                                                      .sending = "send the VM",
                                                      .receiving = "receive a VM",
                                                      .maker = "vmadm send"};

/// The payload: that of `vmadm create`, with the uuid.
using StreamHead = storage::EnvelopeHead;

class StreamWriter : public storage::EnvelopeWriter {
public:
    explicit StreamWriter(int to) : EnvelopeWriter(machine_stream, to) {}
};

class StreamReader : public storage::EnvelopeReader {
public:
    explicit StreamReader(int from) : EnvelopeReader(machine_stream, from) {}
};

}  // namespace triton::machine
