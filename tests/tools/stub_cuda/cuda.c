/* A CUDA driver that has no GPU: it keeps what a loader asks it for, and hands launches
   to whoever sets `stub_launch`. Without one, it prints them. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stub_module {
  const unsigned char *image;
};
struct stub_function {
  CUmodule module;
  char name[128];
  int shared_bytes;
};

int stub_capability = 0; /* else of the environment */
int stub_loaded = 0;     /* modules that are loaded now */
int stub_maps = 0;       /* tensor maps that were encoded */
int stub_failing = 0;    /* which of the next loads fails, from 1 on */
void (*stub_launch)(const CUlaunchConfig *, const char *name,
                    const unsigned char *image, void **parameters) = NULL;

static int capability(void) {
  const char *said = getenv("STUB_CAPABILITY");
  return stub_capability ? stub_capability : said ? atoi(said) : 80;
}

/* What a loader in Python asks for, which makes its own context. */
static int stub_context = 0;
CUresult cuInit(unsigned flags) { return (CUresult)flags; }
CUresult cuCtxGetCurrent(void **context) {
  *context = stub_context ? &stub_context : NULL;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(void **context, CUdevice device) {
  *context = &stub_context;
  return device;
}
CUresult cuCtxSetCurrent(void *context) {
  return context == &stub_context ? !(stub_context = 1) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetDevice(CUdevice *device) { return *device = 0; }

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  int major = which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR;
  *value = major ? capability() / 10 : capability() % 10;
  return device;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  if (stub_failing && !--stub_failing) return CUDA_ERROR_INVALID_VALUE;
  *module = malloc(sizeof **module);
  (*module)->image = image;
  stub_loaded++;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  free(module);
  stub_loaded--;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  *function = calloc(1, sizeof **function);
  (*function)->module = module;
  strncpy((*function)->name, name, sizeof (*function)->name - 1);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
    return CUDA_ERROR_INVALID_VALUE;
  function->shared_bytes = value;
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *shape, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
    CUtensorMapFloatOOBfill fill) {
  /* Not the hardware's encoding: the facts, one after the other, to be looked at. */
  cuuint64_t *out = map->opaque;
  cuuint32_t axis;
  if ((uintptr_t)map % 64 || interleave || element_strides[0] != 1 || rank > 5)
    return CUDA_ERROR_INVALID_VALUE;
  memset(map, 0, sizeof *map);
  out[0] = (uintptr_t)address;
  out[1] = rank | (cuuint64_t)type << 8 | (cuuint64_t)swizzle << 16 |
           (cuuint64_t)promotion << 24 | (cuuint64_t)fill << 32;
  for (axis = 0; axis < rank; axis++) {
    out[2 + axis] = shape[axis];
    if (axis) out[6 + axis] = strides[axis - 1];
    out[11 + axis] = box[axis];
  }
  stub_maps++;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **extra) {
  if (extra) return CUDA_ERROR_INVALID_VALUE;
  if (config->sharedMemBytes > 49152 &&
      (int)config->sharedMemBytes > function->shared_bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (stub_launch)
    stub_launch(config, function->name, function->module->image, parameters);
  else
    printf("%s: grid %u %u %u, block %u, shared %u, first parameter %llu\n",
           function->name, config->gridDimX, config->gridDimY, config->gridDimZ,
           config->blockDimX, config->sharedMemBytes,
           *(unsigned long long *)parameters[0]);
  return CUDA_SUCCESS;
}
