"""Speed against the field's libraries: every way takes its turn in one run."""
