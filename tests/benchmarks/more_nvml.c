/* What nvitop and nvtop ask NVML beside what gmg-tui asks; compiled into one library with tests/nvml_sim/nvml_sim.c. */

enum { SUCCESS = 0, NOT_FOUND = 6 };

typedef void *Device;

#define CONSTANT(function, value)                                                                                      \
    int function(Device device, unsigned *figure) {                                                                    \
        (void)device;                                                                                                  \
        *figure = (value);                                                                                             \
        return SUCCESS;                                                                                                \
    }

CONSTANT(nvmlDeviceGetPowerManagementLimit, 700000)
CONSTANT(nvmlDeviceGetComputeMode, 0)
CONSTANT(nvmlDeviceGetDisplayActive, 0)
CONSTANT(nvmlDeviceGetDisplayMode, 0)

#define UTILISATION(function)                                                                                          \
    int function(Device device, unsigned *percent, unsigned *period_us) {                                              \
        (void)device;                                                                                                  \
        *percent = 0;                                                                                                  \
        *period_us = 166666;                                                                                           \
        return SUCCESS;                                                                                                \
    }

UTILISATION(nvmlDeviceGetEncoderUtilization)
UTILISATION(nvmlDeviceGetDecoderUtilization)

int nvmlDeviceGetProcessUtilization(Device device, void *samples, unsigned *count, unsigned long long since) {
    (void)device;
    (void)samples;
    (void)since;
    *count = 0;
    return NOT_FOUND;
}

/* The first versions of these calls; programs of today take the numbered ones. */
int nvmlDeviceGetGraphicsRunningProcesses(Device device, unsigned *count, void *found) {
    (void)device;
    (void)found;
    *count = 0;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned *count, void *found) {
    return nvmlDeviceGetGraphicsRunningProcesses(device, count, found);
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    *version = 12080;
    return SUCCESS;
}

