"""The interactive page: one HTML file that needs no server and no internet.

`data` and `maps` turn stored runs into plain numbers for the charts, `grids` turns tables into sortable ones,
`sections` lays out what is there without a script, and `html` puts all of it into one file.
"""
