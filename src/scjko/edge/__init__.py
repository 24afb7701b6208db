"""AnnData to arrays and back: every check of what a user hands in, and every field written."""
