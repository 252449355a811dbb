#include <mpi.h>

// The only thing that MPI is needed for: it knows where the processes of its job are before they do
// (executor/process/mpi_loader.h). Everything else goes over connections of our own, which fail
// alone and at once where MPI would end or hang the whole job.
extern "C" __attribute__((visibility("default"))) const char* meshwright_mpi_broadcast(char* text,
                                                                                       int bytes) {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return "it cannot be initialized";
  const bool sent = MPI_Bcast(text, bytes, MPI_CHAR, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
  MPI_Finalize();
  return sent ? nullptr : "its broadcast failed";
}
