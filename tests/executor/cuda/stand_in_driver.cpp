// A CUDA driver that does nothing and always succeeds, but for saying that there is no device. With
// it cuDNN makes plans for devices that are only described, and compiles their kernels.

namespace {

constexpr int kSuccess = 0, kNoDevice = 100;
int something = 0;

int succeed() { return kSuccess; }

int give_something(void** to) {
  *to = &something;
  return kSuccess;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return kNoDevice; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cuGetProcAddress(const char*, void** function, int, unsigned long long) {
  *function = reinterpret_cast<void*>(succeed);
  return kSuccess;
}
int cuGetProcAddress_v2(const char*, void** function, int, unsigned long long, int* status) {
  *function = reinterpret_cast<void*>(succeed);
  if (status != nullptr) *status = kSuccess;
  return kSuccess;
}
int cuLibraryLoadData(void** library) { return give_something(library); }
int cuLibraryLoadFromFile(void** library) { return give_something(library); }
int cuLibraryGetKernel(void** kernel) { return give_something(kernel); }
int cuGetErrorName() { return succeed(); }
int cuGetErrorString() { return succeed(); }
int cuCtxGetCurrent() { return succeed(); }
int cuCtxGetLimit() { return succeed(); }
int cuCtxPopCurrent() { return succeed(); }
int cuCtxPushCurrent() { return succeed(); }
int cuStreamGetCtx() { return succeed(); }
int cuLinkCreate() { return succeed(); }
int cuLinkAddData() { return succeed(); }
int cuLinkComplete() { return succeed(); }
int cuLinkDestroy() { return succeed(); }
int cuLaunchKernel() { return succeed(); }
int cuLaunchKernelEx() { return succeed(); }
int cuLaunchCooperativeKernel() { return succeed(); }
int cuDeviceGetCount() { return succeed(); }
int cuDeviceGet() { return succeed(); }
int cuLibraryUnload() { return succeed(); }
int cuKernelSetAttribute() { return succeed(); }
int cuKernelGetAttribute() { return succeed(); }
int cuOccupancyMaxPotentialClusterSize() { return succeed(); }

}  // extern "C"
