"""The documentation's tools: pages that are made of the code, and the site.

pages         the pages that are made of the code, by file; `python -m documentation` writes them
commands      every command with its options
environment   environment variables
state_files   files of a lab's state directory
corefile      directives of the DNS
object_names  labels, annotations, taints and finalizers
metrics       metrics of all parts
events        reasons of Events
compatibility kinds and fields: what acts, what is stored, what is refused
source        constants of the source, for all of these
tables        tables in Markdown
markdown      lists of GitHub's Markdown for the Markdown of the site
site_hook     the site: which files are pages, and its navigation (mkdocs.yml)
built_pages   links of the built site, and what its pages load
"""
