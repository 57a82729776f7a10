"""A study: an experiment as data, and the store of its runs."""
