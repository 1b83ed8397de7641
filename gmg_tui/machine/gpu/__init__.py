"""The GPUs: discovery, NVML samples, health, leases, and EGL devices."""
