"""The cards: which there are, what NVML says of them, and which EGL device is which."""
