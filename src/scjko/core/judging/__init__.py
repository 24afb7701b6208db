"""Judging: errors, baselines, and what the data determine."""
