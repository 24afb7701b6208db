"""The numeric core: arrays in, arrays out. It knows nothing of AnnData, plots or the screen."""
