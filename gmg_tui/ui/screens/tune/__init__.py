"""The screen of a tuning: its curve, its trials, its slots and its answer."""
