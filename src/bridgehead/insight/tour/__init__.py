"""The lessons of `bridgehead tour`, which does them in a cluster: what is done, asked and explained, as data.

lesson      the parts of a lesson, with their texts in English and Chinese
lessons     the lessons, one module each, in `lessons.LESSONS`; `lessons.BASE` is what all of them need
values      addresses and names in commands (`@web_ip@`), and the commands that look them up
phrases     the tour's own texts: headings, prompts, reasons for what is skipped
rendering   texts wrapped for a terminal, also those in Chinese
"""
