from __future__ import annotations

import os
import signal

from hypothesis import settings

# The same examples in every run, and no deadline on a noisy machine.
settings.register_profile("spdtokens", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("spdtokens")

if "PYTEST_XDIST_WORKER" in os.environ:
    import torch

    torch.set_num_threads(1)  # the workers are the threads; tests of sharing set their own

# A shell's background jobs ignore Ctrl-C, and so would all that is tested for obeying it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
