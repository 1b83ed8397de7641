"""Knowledge about the scripts that run: Genesis, trainers, torchrun, the probe, interpreters."""
