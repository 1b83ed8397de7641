"""What a worker prints, understood: phases, rates, progress, warnings, and the reason of a failure."""
