"""The engine: the process that owns a session's workers and its NVML handle, and knows no terminal."""
