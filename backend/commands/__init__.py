"""One file per command of `dogsnap`; each is short and calls the module that does the work."""
