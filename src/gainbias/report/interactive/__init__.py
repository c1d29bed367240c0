"""Interactive pages: each is one HTML file that needs no server and no internet.

`data` and `maps` turn stored runs into plain numbers for the charts, `grids` turns tables into sortable ones,
`sections` lays out what is there without a script, `html`, `claims` and `estimates` make the pages, and
`frame` puts all of a page into one file. Of the scripts, ``common.js`` holds what the others share.
"""
