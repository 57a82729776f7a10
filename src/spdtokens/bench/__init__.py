"""Benchmarks: speed compared with other libraries, measured alternately in one run."""
