#include "backend/cuda/cuda_graph.h"

#include <cuda.h>

#include <vector>

#include "backend/cuda/cuda_stream.h"
#include "backend/cuda/kernel_window.h"

namespace ida::cuda {
namespace {

// The driver's functions that name a kernel node: the runtime's know only kernels of its own, not those of libraries.
struct NodeApi {
  decltype(&::cuGraphKernelNodeGetParams) get_params = nullptr;
  decltype(&::cuFuncGetName) function_name = nullptr;
  decltype(&::cuKernelGetName) kernel_name = nullptr;
};

template <typename Function>
void load(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, CUDA_VERSION, cudaEnableDefault, &result), name);
  if (result != cudaDriverEntryPointSuccess) fail_runtime("[cuda] the driver has no {}", name);
  function = reinterpret_cast<Function>(found);
}

const NodeApi& node_api() {
  static const NodeApi api = [] {
    NodeApi a;
    load("cuGraphKernelNodeGetParams", a.get_params);
    load("cuFuncGetName", a.function_name);
    load("cuKernelGetName", a.kernel_name);
    return a;
  }();
  return api;
}

std::string name_of(CUgraphNode node) {
  const NodeApi& api = node_api();
  CUDA_KERNEL_NODE_PARAMS params{};
  const char* symbol = nullptr;
  bool named = api.get_params(node, &params) == CUDA_SUCCESS;
  if (named && params.kern != nullptr)
    named = api.kernel_name(&symbol, params.kern) == CUDA_SUCCESS;
  else if (named)
    named = api.function_name(&symbol, params.func) == CUDA_SUCCESS;
  if (!named || symbol == nullptr) fail_runtime("[cuda] a kernel of a recording has no name");
  return kernel_name(symbol);
}

runtime::KernelCounts count_kernels(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(graph, nodes.data(), &count), "cudaGraphGetNodes");
  runtime::KernelCounts kernels;
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    if (type == cudaGraphNodeTypeKernel) ++kernels[name_of(node)];
  }
  return kernels;
}

// Ends the capture of a stream that was not ended, so that an error leaves it usable.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Relaxed: libraries may query and allocate beside what they enqueue.
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "recording work");
  }
  ~Capture() {
    if (ended_) return;
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  cudaGraph_t end() {
    ended_ = true;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "recording work");
    return graph;
  }

 private:
  cudaStream_t stream_;
  bool ended_ = false;
};

}  // namespace

CudaGraph::CudaGraph(cudaStream_t stream, const std::function<void()>& enqueue) {
  Capture capture(stream);
  enqueue();
  const cudaGraph_t graph = capture.end();
  kernels_ = count_kernels(graph);
  const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(made, "cudaGraphInstantiate");
  check(cudaGraphUpload(executable_, stream), "cudaGraphUpload");
}

CudaGraph::~CudaGraph() {
  if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
}

void CudaGraph::launch(cudaStream_t stream) const {
  check(cudaGraphLaunch(executable_, stream), "launching recorded work");
}

}  // namespace ida::cuda
