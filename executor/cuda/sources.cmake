# What the GPU back end is made of. Tests compile it too, for the processor (tests/standin).
set(cuda_sources
  cuda_device.cpp
  cuda_kernels.cpp
  cuda_target.cpp
  cuda_work.cpp
  kernel_bench.cpp
  nccl_group.cpp
  nccl_transfers.cpp
  product.cpp
  run_kernel.cpp
  send_queue.cpp
  status.cpp
  stretch_graphs.cpp
  transfer_run.cpp
  work_16.cu
  work_32_64.cu
  # What it shares with the program, of which it has no other part.
  ../common_rows.cpp
  ../transfer_pieces.cpp
  ../transfer_space.cpp
  ../../costmodel/base/checked.cpp
  ../../costmodel/base/input_error.cpp
  ../../costmodel/base/precision.cpp
  ../../costmodel/base/units.cpp
  ../../costmodel/kernel/kernel.cpp
  ../../costmodel/kernel/transfer.cpp)
# Where cuDNN is.
set(cudnn_sources
  cudnn_attention.cpp)
set(cudnn_graph_sources
  attention_graph.cpp
  cudnn_graph.cpp
  cudnn_plan.cpp)
