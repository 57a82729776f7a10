"""Training: many runs as one batched network, and scikit-learn estimators on top."""
