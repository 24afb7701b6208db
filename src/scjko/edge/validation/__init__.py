"""Validation: protocols, their folds, and the options of an earlier fit."""
