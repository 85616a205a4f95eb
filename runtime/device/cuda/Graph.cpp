#include "runtime/device/cuda/Graph.h"

namespace gemma::cuda {

Expected<Owned<GraphExecHandle>> captureGraph(const std::shared_ptr<const Device> &device,
                                              StreamHandle stream,
                                              const std::function<Status()> &enqueue,
                                              Result &result) {
  const Api &cu = device->api();
  result = Success;
  if (Status status = device->call(cu.streamBeginCapture, stream, captureThreadLocal); !status)
    return status;
  Status status = enqueue();
  // The capture ends after an error too, or the stream would be of no more use.
  GraphHandle handle = nullptr;
  Status ended = device->call(cu.streamEndCapture, stream, &handle);
  Owned<GraphHandle> graph(handle ? device : nullptr, handle, &Api::graphDestroy);
  if (!status)
    return status;
  if (!ended)
    return ended;
  GraphExecHandle exec = nullptr;
  if (Status made = device->callFor(result, cu.graphInstantiate, &exec, graph.get(), 0ull); !made)
    return made;
  return Owned<GraphExecHandle>(device, exec, &Api::graphExecDestroy);
}

} // namespace gemma::cuda
