"""Computing: blocks of rows, work side by side, and the limits of the machine."""
