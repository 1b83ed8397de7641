"""The GPUs: discovery, samples by NVML, and their EGL devices."""
