"""The subcommands of `dogsnap`: one module each, which calls the module that
does the work.
"""
