"""The interactive page: one HTML file that needs no server and no internet.

`data` and `maps` turn stored runs into plain numbers for the charts, `grids` turns tables into sortable ones,
`sections` lays out what is there without a script, `html` and `claims` make the pages, and `frame` puts all
of a page into one file.
"""
