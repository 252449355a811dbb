#pragma once

// Marks functions that GPU kernels call too.
#ifdef __CUDACC__
#define MESHWRIGHT_HD __host__ __device__
#else
#define MESHWRIGHT_HD
#endif
