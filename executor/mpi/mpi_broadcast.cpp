#include <mpi.h>

// The only thing that MPI is needed for: it knows where the processes of its job are before they do
// (executor/process/mpi_loader.h). Everything else goes over connections of our own, which fail
// alone and at once where MPI would end or hang the whole job.
extern "C" __attribute__((visibility("default"))) const char* meshwright_mpi_broadcast(
    int processes, char* text, int bytes) {
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return "it cannot be initialized";
  int known = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &known);
  const bool all = known == processes;  // not so where nobody but the environment says mpirun
  const bool sent = all && MPI_Bcast(text, bytes, MPI_CHAR, 0, MPI_COMM_WORLD) == MPI_SUCCESS;
  MPI_Finalize();
  if (!all) return "it knows other processes than OMPI_COMM_WORLD_SIZE; unset it without mpirun";
  return sent ? nullptr : "its broadcast failed";
}
