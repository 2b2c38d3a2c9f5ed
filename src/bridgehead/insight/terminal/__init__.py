"""The terminal view of a cluster, for `bridgehead top`. Read-only.

tables      the tables: their columns, colours, names in command mode
listing     rows of a table: filtered, sorted, limited to a namespace or to a drill-down
layout      widths of columns, and cells of one width
texts       objects as text: described, as YAML, safe for a terminal
commands    what is typed after `:`
prompt      the line in which a filter or a command is typed
grid        the widget of a table
pane        the widget of a long text
line        the widget of one line, and its styles
bars        the lines around a page
pages       the pages, which are a stack
streaming   a text that arrives in pieces, as lines
sources     the parts of a live cluster and of an inspector that the application uses
inspecting  reads objects and logs, and runs other commands for a pane
app         the application: pages, keys, refreshes
"""
