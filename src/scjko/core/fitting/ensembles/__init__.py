"""Ensembles: the same procedure on resampled cells, coupled anew, and what their spread says."""
