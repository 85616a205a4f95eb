// Work of a stream as a graph.
#pragma once

#include "runtime/device/cuda/Device.h"

#include <functional>

namespace gemma::cuda {

/// What `enqueue` gives to the stream, as a graph that can be launched; nothing of it runs.
/// `result`: the driver's, of making the launchable graph; Success where it did not come to that.
Expected<Owned<GraphExecHandle>> captureGraph(const std::shared_ptr<const Device> &device,
                                              StreamHandle stream,
                                              const std::function<Status()> &enqueue,
                                              Result &result);

} // namespace gemma::cuda
