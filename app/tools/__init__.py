"""One module per tool; the text a model reads about it lies beside the module as ``<name>.md``."""
