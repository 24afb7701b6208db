"""Motion: cells moved by an energy."""
