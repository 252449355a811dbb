# What the GPU back end is made of. Tests compile it too, for the processor (tests/standin).
set(cuda_sources
  cuda_kernels.cpp
  cuda_target.cpp
  cuda_work.cpp
  kernel_bench.cpp
  nccl_group.cpp
  product.cpp
  run_kernel.cpp
  status.cpp
  work_16.cu
  work_32_64.cu
  # What it shares with the program, of which it has no other part.
  ../../costmodel/base/checked.cpp
  ../../costmodel/base/precision.cpp
  ../../costmodel/base/units.cpp
  ../../costmodel/kernel/kernel.cpp)
# Where cuDNN is.
set(cudnn_sources
  cudnn_attention.cpp)
set(cudnn_graph_sources
  attention_graph.cpp
  cudnn_graph.cpp
  cudnn_plan.cpp)
