"""Settings of the documentation."""

import gainbias

project = "gainbias"
author = "The gainbias authors"
release = version = gainbias.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
html_theme = "alabaster"
