"""Fits and files: fields of an AnnData written all or none, and what is stored read back with every check."""
