"""What gmg-tui costs, beside what people would run instead: `python -m tests.benchmarks --help`.

Nothing here is a test: no time is asserted, measurements are printed.
"""
