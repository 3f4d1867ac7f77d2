"""Run by hand: `python -m tests.benchmarks.NAME`. Ratios of one interleaved run, the A/A ratio beside them."""
